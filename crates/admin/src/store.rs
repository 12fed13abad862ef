//! Where the state of an array is kept: `array.state.toml` in its data directory, replaced as a whole, with a
//! checksum; the ten forms before it are in `array.state.history`. Beside it lies the declaration that was
//! applied last, to tell what a person changed in a file from what was changed by command.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array::Keeper;
use config::{ArrayId, Config, Made, read_small_text};
use crc_fast::CrcAlgorithm::Crc32Iscsi;

use config::DeclarationError;

/// The file's name; secrets are in it, so it is readable by its owner only.
const FILE: &str = "array.state.toml";
/// Earlier forms of it, named by their numbers.
const HISTORY: &str = "array.state.history";
/// So many are kept.
const HISTORY_LEN: usize = 10;
/// The declaration that was applied last.
const DECLARED: &str = "array.declared.toml";
/// What this version writes. It reads all before; the first had no such line.
const FORMAT: u32 = 2;
const FORMAT_LINE: &str = "# masu-state ";
/// The checksum of the declaration that was applied last. An older masu wrote none.
const DECLARED_LINE: &str = "# masu-declared ";

/// A file that is written to see whether files can be, and what is in it: more than a block.
const TRIAL: &str = "array.trial";
const TRIAL_TEXT: &str = match std::str::from_utf8(&[b'\n'; 64 << 10]) {
    Ok(text) => text,
    Err(_) => panic!("a constant text"),
};

/// Longer than any text of a data directory: a declaration has at most 64 MiB.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// Puts a text where all nodes of a cluster see it, under the name of its file. An error: why, in one line.
pub type Share = Arc<dyn Fn(&str, &str) -> Result<(), String> + Send + Sync>;

/// The kept state of one data directory.
#[derive(Clone)]
pub struct Store {
    dir: PathBuf,
    /// Comes first: what another node cannot see is not kept.
    share: Option<Share>,
}

/// What was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What the array is.
    pub config: Config,
    /// What it has made.
    pub made: Made,
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory or file.
    #[error("{path}: {cause}")]
    Io {
        /// Which file.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// The state is damaged, or was edited.
    #[error(
        "{path}: the checksum does not match: the file is damaged, or was edited. Nothing was started. {way_out}; if it was edited on \
         purpose, remove its line \"{FORMAT_LINE}…\""
    )]
    Damaged {
        /// The state.
        path: String,
        /// Where the earlier forms are, or that there are none.
        way_out: String,
    },
    /// The state is gone, and something shows that there was one.
    #[error(
        "{path}: the state of the array is missing, but {sign} is there. Nothing was started. {way_out}; to make \
         a new array, take another data directory"
    )]
    Missing {
        /// The state.
        path: String,
        /// What shows that there was one.
        sign: String,
        /// As of [`StoreError::Damaged`].
        way_out: String,
    },
    /// A newer version kept it.
    #[error(
        "{path}: written by a newer masu (state format {format}, this one reads up to {FORMAT}): start the newer masu"
    )]
    Newer {
        /// The state.
        path: String,
        /// Read from the file's first line.
        format: u32,
    },
    /// The declaration that was applied last is damaged, or was edited.
    #[error(
        "{path}: damaged ({cause}), so that what was changed in the declaration cannot be told from what was changed by \
         command. See what differs (masu config diff FILE); to apply the whole declaration, move this file away \
         and send SIGHUP to masu serve: what is not declared stays"
    )]
    Declared {
        /// The file.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// What is kept makes no sense.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
}

impl Store {
    /// Uses a directory, making it when it is not there.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
        let dir = dir.canonicalize().map_err(|e| failed(dir, e))?;
        Ok(Store { dir, share: None })
    }

    /// The texts that are shared, by the names of their files.
    pub const SHARED: [&str; 3] = [FILE, DECLARED, Store::TOKENS];

    /// The file of the API's tokens.
    pub(crate) const TOKENS: &str = "array.tokens.toml";

    /// Puts each text through `share` before it takes effect here.
    pub fn shared_by(self, share: Share) -> Store {
        Store { share: Some(share), ..self }
    }

    /// Takes over the text of another node. It replaces what is in this directory.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn adopt(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let path = self.dir.join(name);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        if name == FILE {
            self.remember(&path).map_err(|e| failed(&path, e))?;
        }
        self.replace_text(name, text).map_err(|e| failed(&path, e))
    }

    /// A text of this directory, if it is there.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn text(&self, name: &str) -> Result<Option<String>, StoreError> {
        let path = self.dir.join(name);
        match read_small_text(&path, TEXT_BYTES_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(&path, e)),
        }
    }

    /// The array whose state this text of this name is. None: it is no state, or not readable, or of no array
    /// yet.
    pub fn id_of(&self, name: &str, text: &str) -> Option<ArrayId> {
        if name != FILE {
            return None;
        }
        let (config, _) = Config::parse_state(text, name, &self.dir).ok()?;
        Some(config.id).filter(|id| *id != ArrayId::default())
    }

    /// The array whose state this directory has under this name, as [`Store::id_of`].
    pub fn own_id(&self, name: &str) -> Option<ArrayId> {
        self.id_of(name, &self.text(name).ok()??)
    }

    fn share(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let Some(share) = &self.share else { return Ok(()) };
        let path = format!("{name} in the registry");
        share(name, text).map_err(|cause| StoreError::Io { path, cause })
    }

    /// How long the state is; 0 while there is none.
    pub(crate) fn state_bytes(&self) -> u64 {
        fs::metadata(self.dir.join(FILE)).map_or(0, |about| about.len())
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was kept, if anything.
    ///
    /// # Errors
    /// Where it is damaged, a newer masu wrote it, or it is missing and something shows that there was one.
    pub fn load(&self) -> Result<Option<Kept>, StoreError> {
        let path = self.dir.join(FILE);
        let text = match read_small_text(&path, TEXT_BYTES_MAX) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return self.refuse_missing(&path).map(|()| None);
            }
            Err(e) => return Err(failed(&path, e)),
        };
        self.check(&path, &text)?;
        let (config, made) = Config::parse_state(&text, &path.display().to_string(), &self.dir)?;
        let made = made.unwrap_or_else(|| Made::all_of(&config));
        Ok(Some(Kept { config, made }))
    }

    /// Without its state an array looks like a directory without one, in which a start makes a new array.
    fn refuse_missing(&self, path: &Path) -> Result<(), StoreError> {
        let signs = [
            self.has_forms().then(|| self.dir.join(HISTORY)),
            Some(self.dir.join(DECLARED)).filter(|path| path.exists()),
        ];
        let Some(sign) = signs.into_iter().flatten().next() else { return Ok(()) };
        let shown = |path: &Path| path.display().to_string();
        Err(StoreError::Missing { path: shown(path), sign: shown(&sign), way_out: self.way_out(path) })
    }

    fn has_forms(&self) -> bool {
        numbers_in(&self.dir.join(HISTORY)).is_ok_and(|numbers| !numbers.is_empty())
    }

    /// What to do where the state cannot be used.
    fn way_out(&self, path: &Path) -> String {
        match self.has_forms() {
            true => format!(
                "Earlier forms are in {}: copy the newest one to {}",
                self.dir.join(HISTORY).display(),
                path.display()
            ),
            false => format!("No earlier form is there: restore {} from a backup", path.display()),
        }
    }

    fn check(&self, path: &Path, text: &str) -> Result<(), StoreError> {
        let shown = path.display().to_string();
        let damaged = || StoreError::Damaged { path: shown.clone(), way_out: self.way_out(path) };
        let Some((line, body)) = split(text, FORMAT_LINE) else {
            // An older masu wrote no checksum; but a file without any content was cut.
            return if is_empty(text) { Err(damaged()) } else { Ok(()) };
        };
        let (format, sum) = line.split_once(' ').ok_or_else(damaged)?;
        let format: u32 = format.parse().map_err(|_| damaged())?;
        if format > FORMAT {
            return Err(StoreError::Newer { path: shown, format });
        }
        if sum != checksum(body) { Err(damaged()) } else { Ok(()) }
    }

    fn text_of(&self, config: &Config, made: &Made) -> String {
        let body = config.to_state_text(made, &self.dir);
        let head = "# What this array is. Kept by masu: change it with `masu volume|host|pool ...`.\n";
        format!("{head}{FORMAT_LINE}{FORMAT} {}\n{body}", checksum(&body))
    }

    /// Stores a form. The one that it replaces is an earlier form from now on, unless it `was_step` of a
    /// change.
    fn save(&self, (config, made): (&Config, &Made), was_step: bool) -> Result<(), StoreError> {
        let path = self.dir.join(FILE);
        let text = self.text_of(config, made);
        self.share(FILE, &text)?;
        let keep = || -> std::io::Result<()> {
            if !was_step {
                self.remember(&path)?;
            }
            self.forget_dangerous(config, made);
            self.replace_text(FILE, &text)
        };
        keep().map_err(|e| failed(&path, e))
    }

    /// Puts a form back that was kept before. It is among the earlier ones, and takes the place of the state
    /// by its other name: that needs no room, which may be why the change could not be kept.
    fn restore(&self, config: &Config, made: &Made) -> Result<(), StoreError> {
        let path = self.dir.join(FILE);
        self.share(FILE, &self.text_of(config, made))?;
        if self.is_form(&path, config, made) {
            // Its name may not be durable: that may have been what failed.
            return File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(&path, e));
        }
        let history = self.dir.join(HISTORY);
        let numbers = numbers_in(&history).unwrap_or_default();
        let name = |number: &u64| history.join(format!("{number:08}.toml"));
        let Some(at) = numbers.iter().rposition(|number| self.is_form(&name(number), config, made)) else {
            return self.save((config, made), false);
        };
        let put = || -> std::io::Result<()> {
            fs::rename(name(&numbers[at]), &path)?;
            // Forms of the change that is refused.
            numbers[at + 1..].iter().try_for_each(|number| fs::remove_file(name(number)))?;
            File::open(&self.dir)?.sync_all()
        };
        put().map_err(|e| failed(&path, e))
    }

    /// Removes the state and its earlier forms, which are all of first starts that were refused.
    fn remove_state(&self) -> std::io::Result<()> {
        let history = self.dir.join(HISTORY);
        for number in numbers_in(&history).unwrap_or_default() {
            fs::remove_file(history.join(format!("{number:08}.toml")))?;
        }
        let _ = fs::remove_dir(&history);
        fs::remove_file(self.dir.join(FILE))?;
        File::open(&self.dir)?.sync_all()
    }

    /// Whether a file has this state. A masu of before may have written it otherwise.
    fn is_form(&self, path: &Path, config: &Config, made: &Made) -> bool {
        let Ok(text) = fs::read_to_string(path) else { return false };
        if text == self.text_of(config, made) {
            return true;
        }
        let read = || Config::parse_state(&text, "", &self.dir).ok();
        self.check(path, &text).is_ok()
            && read().is_some_and(|(c, m)| c == *config && m.as_ref() == Some(made))
    }

    /// Whether there is room for another form.
    fn probe(&self, config: &Config, made: &Made) -> Result<(), StoreError> {
        let text = self.text_of(config, made);
        self.share(FILE, &text)?;
        let fresh = self.dir.join(format!("{FILE}.new"));
        let written = self.write_new(FILE, &text).map_err(|e| failed(&fresh, e));
        let _ = fs::remove_file(&fresh);
        written
    }

    /// Tries to write a small file durably, and removes it. It may take as long as the file system does.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn try_write(&self) -> Result<(), StoreError> {
        let fresh = self.dir.join(format!("{TRIAL}.new"));
        let written = self.write_new(TRIAL, TRIAL_TEXT).map_err(|e| failed(&fresh, e));
        let _ = fs::remove_file(&fresh);
        written
    }

    /// Keeps the form that is to be replaced, under the next number.
    fn remember(&self, path: &Path) -> std::io::Result<()> {
        let dir = self.dir.join(HISTORY);
        let Ok(_) = fs::symlink_metadata(path) else { return Ok(()) };
        fs::create_dir_all(&dir)?;
        let numbers = numbers_in(&dir)?;
        // The last attempt to replace this form failed: it must not push the others out.
        let inode = |path: &Path| fs::symlink_metadata(path).map(|facts| facts.ino()).ok();
        let newest = numbers.last().and_then(|last| inode(&dir.join(format!("{last:08}.toml"))));
        if newest.is_some() && newest == inode(path) {
            return Ok(());
        }
        let next = numbers.last().map_or(1, |last| last + 1);
        // A second name for the file, so that the form cannot be half written.
        fs::hard_link(path, dir.join(format!("{next:08}.toml")))?;
        for old in numbers.iter().rev().skip(HISTORY_LEN - 1) {
            fs::remove_file(dir.join(format!("{old:08}.toml")))?;
        }
        Ok(())
    }

    /// Removes earlier forms that record the deletion of what is declared now under the same name: a start
    /// with one of them would delete it. What cannot be removed or read is left.
    fn forget_dangerous(&self, config: &Config, now: &Made) {
        let dir = self.dir.join(HISTORY);
        for number in numbers_in(&dir).unwrap_or_default() {
            let path = dir.join(format!("{number:08}.toml"));
            // Most have no such records: they are not parsed.
            let text = fs::read_to_string(&path).unwrap_or_default();
            if !["discarded", "deleted_pools"].iter().any(|record| text.contains(record)) {
                continue;
            }
            let Ok((_, Some(made))) = Config::parse_state(&text, "", &self.dir) else { continue };
            let volume = |(name, pool): (&String, &String)| {
                let is_declared = config.volume(name).is_some_and(|volume| volume.pool == *pool);
                is_declared && !now.discarded.contains_key(name)
            };
            let pool = |name: &String| config.pool(name).is_some() && !now.deleted_pools.contains(name);
            if made.discarded.iter().any(volume) || made.deleted_pools.iter().any(pool) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Puts a text in the place of a file: after a crash either the old one or the new one is there.
    fn replace_text(&self, name: &str, text: &str) -> std::io::Result<()> {
        let fresh = self.dir.join(format!("{name}.new"));
        if let Err(error) = self.write_new(name, text) {
            // What fits of it takes the room that others need.
            let _ = fs::remove_file(&fresh);
            return Err(error);
        }
        fs::rename(&fresh, self.dir.join(name))?;
        File::open(&self.dir)?.sync_all()
    }

    fn write_new(&self, name: &str, text: &str) -> std::io::Result<()> {
        let fresh = self.dir.join(format!("{name}.new"));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// The declaration that was applied last, if one was.
    ///
    /// # Errors
    /// Where it cannot be read, or is damaged.
    pub fn declared(&self) -> Result<Option<Config>, StoreError> {
        let path = self.dir.join(DECLARED);
        let damaged = |cause| StoreError::Declared { path: path.display().to_string(), cause };
        let text = match read_small_text(&path, TEXT_BYTES_MAX) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(damaged(e.to_string())),
        };
        if is_empty(&text) {
            return Err(damaged("it is empty".into()));
        }
        if let Some((sum, body)) = split(&text, DECLARED_LINE)
            && sum != checksum(body)
        {
            return Err(damaged("the checksum does not match".into()));
        }
        Config::parse(&text, DECLARED, &self.dir).map(Some).map_err(|e| damaged(e.to_string()))
    }

    /// Keeps the declaration that was applied.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn save_declared(&self, declared: &Config) -> Result<(), StoreError> {
        let body = declared.to_text();
        let head = "# The declaration that was applied last. Kept by masu.\n";
        let text = format!("{head}{DECLARED_LINE}{}\n{body}", checksum(&body));
        self.share(DECLARED, &text)?;
        self.replace_text(DECLARED, &text).map_err(|e| failed(&self.dir.join(DECLARED), e))
    }
}

impl Store {
    /// Keeps a text of this node alone, for its owner to read.
    pub(crate) fn keep_private(&self, name: &str, text: &str) -> Result<(), StoreError> {
        self.replace_text(name, text).map_err(|e| failed(&self.dir.join(name), e))
    }

    /// Keeps the tokens.
    pub(crate) fn keep_tokens(&self, text: &str) -> Result<(), StoreError> {
        self.share(Store::TOKENS, text)?;
        self.keep_private(Store::TOKENS, text)
    }
}

impl Keeper for Store {
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.save((config, made), false).map_err(|e| e.to_string())
    }

    fn replace(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.save((config, made), true).map_err(|e| e.to_string())
    }

    fn put_back(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.restore(config, made).map_err(|e| e.to_string())
    }

    fn forget(&mut self) -> bool {
        // What other nodes see stays with them.
        self.share.is_none() && self.remove_state().is_ok()
    }

    fn may_keep(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.probe(config, made).map_err(|e| e.to_string())
    }
}

/// What a line that begins so says of the rest of a text (the format and checksum of a state), and that rest.
fn split<'a>(text: &'a str, line: &str) -> Option<(&'a str, &'a str)> {
    let at = text.find(line)?;
    text[at + line.len()..].split_once('\n')
}

/// Whether a text has no content, or comments only.
fn is_empty(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.starts_with('#'))
}

fn checksum(body: &str) -> String {
    format!("{:08x}", crc_fast::checksum(Crc32Iscsi, body.as_bytes()) as u32)
}

/// The numbers of the kept forms, in order.
fn numbers_in(dir: &Path) -> std::io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|n| n.strip_suffix(".toml")?.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn failed(path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Io { path: path.display().to_string(), cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(controllers: usize) -> Config {
        Config { controllers, ..Config::empty("iqn.2026-11.net.example:x") }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        (dir, store)
    }

    #[test]
    fn the_state_comes_back_and_its_last_ten_forms_stay() {
        let (_dir, mut store) = store();
        assert_eq!(store.load().expect("nothing"), None);
        let made = Made { volumes: ["v".to_owned()].into(), ..Made::default() };
        for controllers in 1..=14 {
            store.keep(&config(controllers), &made).expect("kept");
        }
        assert_eq!(store.load().expect("kept"), Some(Kept { config: config(14), made }));
        let history = store.dir().join(HISTORY);
        let numbers = numbers_in(&history).expect("a history");
        assert_eq!(numbers, (4..=13).collect::<Vec<_>>());
        let newest = fs::read_to_string(history.join("00000013.toml")).expect("readable");
        assert!(newest.contains("controllers = 13"), "{newest}");
    }

    /// A start with such a form deleted a volume of today that has the name of a deleted one.
    #[test]
    fn no_earlier_form_deletes_what_is_declared_now() {
        let (dir, mut store) = store();
        let with = |volumes: &[&str], discarded: &[&str]| {
            let volume =
                |name: &&str| format!("[[volume]]\nname = \"{name}\"\npool = \"p\"\nsize = \"1MiB\"\n");
            let text = "[[drive]]\nname = \"d\"\nfile = \"d.img\"\nsize = \"1GiB\"\n\
                        [[group]]\nname = \"g\"\nlevel = \"raid0\"\ndrives = [\"d\"]\n\
                        [[pool]]\nname = \"p\"\ngroups = [\"g\"]\n"
                .to_owned()
                + &volumes.iter().map(volume).collect::<String>();
            let config = Config::parse(&text, "array.toml", dir.path()).expect("good");
            let discarded = discarded.iter().map(|name| ((*name).to_owned(), "p".to_owned())).collect();
            (config, Made { discarded, ..Made::default() })
        };
        let forms = || numbers_in(&dir.path().join(HISTORY)).expect("a history");
        for (volumes, discarded) in [(&["v"][..], &[][..]), (&[], &["v"]), (&["w"], &["v"])] {
            let (config, made) = with(volumes, discarded);
            store.keep(&config, &made).expect("kept");
        }
        assert_eq!(forms(), [1, 2], "v is still to be deleted");
        let (config, made) = with(&["w"], &[]);
        store.keep(&config, &made).expect("kept");
        assert_eq!(forms(), [1, 2, 3], "it has been deleted");
        let (config, made) = with(&["w", "v"], &[]);
        store.keep(&config, &made).expect("kept");
        assert_eq!(forms(), [1, 4], "there is another one of that name");
        let (config, made) = with(&["w"], &["v"]);
        store.keep(&config, &made).expect("kept");
        let (config, made) = with(&["w"], &[]);
        store.keep(&config, &made).expect("kept");
        assert_eq!(forms(), [1, 4, 5, 6]);
        // A clone: its last form takes the place of a step.
        let (config, made) = with(&["w", "v"], &[]);
        store.replace(&config, &made).expect("kept");
        assert_eq!(forms(), [1, 4, 5]);
    }

    #[test]
    fn a_state_that_is_gone_is_not_taken_for_a_new_array() {
        let (_dir, mut store) = store();
        (1..=2).for_each(|controllers| store.keep(&config(controllers), &Made::default()).expect("kept"));
        let text = store.text(FILE).expect("readable").expect("a state");
        fs::remove_file(store.dir().join(FILE)).expect("removed");
        let refused = store.load().expect_err("there was an array").to_string();
        assert!(refused.contains(HISTORY) && refused.contains("copy the newest one"), "{refused}");
        fs::remove_dir_all(store.dir().join(HISTORY)).expect("removed");
        assert_eq!(store.load().expect("nothing shows it"), None);
        fs::write(store.dir().join(DECLARED), "").expect("written");
        let refused = store.load().expect_err("there was an array").to_string();
        assert!(refused.contains("No earlier form is there: restore"), "{refused}");
        fs::write(store.dir().join(FILE), text).expect("put back");
        assert_eq!(store.load().expect("kept").expect("a state").config, config(2));
    }

    #[test]
    fn an_empty_state_is_a_damaged_one_and_a_save_that_fails_pushes_no_form_out() {
        let (_dir, mut store) = store();
        (1..=4).for_each(|controllers| store.keep(&config(controllers), &Made::default()).expect("kept"));
        // The new form cannot be written: there is a directory in its place.
        let fresh = store.dir().join(format!("{FILE}.new"));
        fs::create_dir(&fresh).expect("made");
        for controllers in 5..=30 {
            store.keep(&config(controllers), &Made::default()).expect_err("it cannot be replaced");
        }
        assert_eq!(numbers_in(&store.dir().join(HISTORY)).expect("a history"), (1..=4).collect::<Vec<_>>());
        fs::remove_dir(&fresh).expect("removed");
        for text in ["", "\n", "# What this array is.\n"] {
            fs::write(store.dir().join(FILE), text).expect("written");
            assert!(matches!(store.load(), Err(StoreError::Damaged { .. })), "{text:?}");
        }
    }

    #[test]
    fn the_form_before_a_refused_change_is_put_back_without_room() {
        let (_dir, mut store) = store();
        (1..=4).for_each(|controllers| store.keep(&config(controllers), &Made::default()).expect("kept"));
        store.keep(&config(9), &Made::default()).expect("the first save of a change");
        // Nothing new can be written: there is a directory in its place.
        fs::create_dir(store.dir().join(format!("{FILE}.new"))).expect("made");
        store.keep(&config(10), &Made::default()).expect_err("the second one");
        store.may_keep(&config(10), &Made::default()).expect_err("nor would another");
        for _ in 0..2 {
            store.put_back(&config(4), &Made::default()).expect("it is put back, also again");
            assert_eq!(store.load().expect("read").expect("kept").config, config(4));
        }
        // What was refused is no earlier form.
        assert_eq!(numbers_in(&store.dir().join(HISTORY)).expect("a history"), (1..=3).collect::<Vec<_>>());
        fs::remove_dir(store.dir().join(format!("{FILE}.new"))).expect("removed");
        store.may_keep(&config(10), &Made::default()).expect("there is room");
        store.put_back(&config(7), &Made::default()).expect("a form that is not there is kept as ever");
        assert_eq!(store.load().expect("read").expect("kept").config, config(7));
    }

    #[test]
    fn what_cannot_be_shared_is_not_kept_and_what_was_shared_is_adopted() {
        let (_dir, first) = store();
        let shared = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (into, room) = (shared.clone(), Arc::new(std::sync::atomic::AtomicBool::new(true)));
        let has_room = room.clone();
        let mut first = first.shared_by(Arc::new(move |name, text| {
            if !has_room.load(std::sync::atomic::Ordering::Relaxed) {
                return Err("away".into());
            }
            into.lock().expect("a lock").push((name.to_owned(), text.to_owned()));
            Ok(())
        }));
        first.keep(&config(2), &Made::default()).expect("kept");
        room.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(first.keep(&config(3), &Made::default()).expect_err("refused").contains("away"));
        assert_eq!(first.load().expect("read").expect("kept").config, config(2));
        let (_dir, mut second) = store();
        second.keep(&config(9), &Made::default()).expect("kept");
        for (name, text) in shared.lock().expect("a lock").iter() {
            second.adopt(name, text).expect("adopted");
            second.adopt(name, text).expect("adopted again");
        }
        assert_eq!(second.load().expect("read").expect("kept").config, config(2));
    }

    #[test]
    fn a_damaged_declaration_of_before_is_named_with_what_to_do() {
        let (_dir, store) = store();
        assert_eq!(store.declared().expect("none"), None);
        store.save_declared(&config(3)).expect("kept");
        assert_eq!(store.declared().expect("read").map(|c| c.controllers), Some(3));
        let path = store.dir().join(DECLARED);
        let text = fs::read_to_string(&path).expect("readable");
        // An older masu wrote no checksum.
        let older: String = text.lines().skip(2).map(|line| format!("{line}\n")).collect();
        fs::write(&path, &older).expect("written");
        assert_eq!(store.declared().expect("read").map(|c| c.controllers), Some(3));
        let other = text.replace("controllers = 3", "controllers = 2");
        let cut = &text[..text.find("target").expect("a key")];
        for damaged in [other.as_bytes(), cut.as_bytes(), b"", b"[[drive\n", b"\xff\xfe"] {
            fs::write(&path, damaged).expect("written");
            let said = store.declared().expect_err("damaged").to_string();
            for part in [DECLARED, "damaged", "move this file away", "SIGHUP"] {
                assert!(said.contains(part), "{damaged:?}: {said}");
            }
        }
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        assert!(matches!(store.declared(), Err(StoreError::Declared { .. })));
    }

    #[test]
    fn a_state_that_was_damaged_or_is_newer_starts_nothing() {
        let (_dir, mut store) = store();
        store.keep(&config(1), &Made::default()).expect("kept");
        let path = store.dir().join(FILE);
        let text = fs::read_to_string(&path).expect("readable");
        fs::write(&path, text.replace("controllers = 1", "controllers = 2")).expect("written");
        assert!(matches!(store.load(), Err(StoreError::Damaged { .. })));
        fs::write(&path, text.replace("masu-state 2", "masu-state 3")).expect("written");
        assert!(matches!(store.load(), Err(StoreError::Newer { format: 3, .. })));
    }

    #[test]
    fn a_state_of_the_first_format_was_all_made() {
        let (_dir, store) = store();
        let text = "target = \"iqn.2026-11.net.example:x\"\n[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"1GiB\"\n\
             [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n[[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n";
        fs::write(store.dir().join(FILE), text).expect("written");
        let made = store.load().expect("read").expect("kept").made;
        assert!(made.has_group("g0") && made.pools.contains("p0") && made.drives.contains("d0"));
    }
}
