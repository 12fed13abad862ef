//! Where the state of an array is kept: `array.state.toml` in its data directory, replaced as a whole, with a
//! checksum; the ten forms before it are in `array.state.history`. Beside it lies the declaration that was
//! applied last, to tell what a person changed in a file from what was changed by command.

mod history;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array::Keeper;
use config::{ArrayId, Config, Made, read_small_text};
use crc_fast::CrcAlgorithm::Crc32Iscsi;

use config::DeclarationError;
use history::History;

/// The file's name; secrets are in it, so it is readable by its owner only.
const FILE: &str = "array.state.toml";
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
        fs::create_dir_all(dir).map_err(|error| match dir.is_dir() || !dir.exists() {
            true => failed(dir, error),
            false => failed(dir, io::Error::other("not a directory: name one")),
        })?;
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
            self.history().remember(&path).map_err(|e| failed(&path, e))?;
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
            self.history().has_forms().then(|| self.history().dir),
            Some(self.dir.join(DECLARED)).filter(|path| path.exists()),
        ];
        let Some(sign) = signs.into_iter().flatten().next() else { return Ok(()) };
        let shown = |path: &Path| path.display().to_string();
        Err(StoreError::Missing { path: shown(path), sign: shown(&sign), way_out: self.way_out(path) })
    }

    /// The forms of the state before this one.
    fn history(&self) -> History {
        History::of(&self.dir)
    }

    /// What to do where the state cannot be used.
    fn way_out(&self, path: &Path) -> String {
        match self.history().has_forms() {
            true => format!(
                "Earlier forms are in {}: copy the newest one to {}",
                self.history().dir.display(),
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
                self.history().remember(&path)?;
            }
            self.history().forget_dangerous(&self.dir, (config, made));
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
        let forms = self.history().forms().unwrap_or_default();
        let Some(at) = forms.iter().rposition(|form| self.is_form(form, config, made)) else {
            return self.save((config, made), false);
        };
        let put = || -> std::io::Result<()> {
            fs::rename(&forms[at], &path)?;
            // Forms of the change that is refused.
            forms[at + 1..].iter().try_for_each(fs::remove_file)?;
            File::open(&self.dir)?.sync_all()
        };
        put().map_err(|e| failed(&path, e))
    }

    /// Removes the state and its earlier forms, which are all of first starts that were refused.
    fn remove_state(&self) -> std::io::Result<()> {
        self.history().remove()?;
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

fn failed(path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Io { path: path.display().to_string(), cause: error.to_string() }
}
