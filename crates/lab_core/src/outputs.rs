//! What a command may write: new files, and those that masu wrote before. Whatever else has such a name
//! stays, and what cannot be written is said before the work begins.

#![expect(clippy::disallowed_types, reason = "the folder of a run, outside the worlds")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{console, text_file};

/// Why a command does not begin.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Something that masu did not write.
    #[error("{path}: exists and is not a {what}; {advice}")]
    Taken {
        /// What is there.
        path: String,
        /// What a file of ours would be.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// It cannot be written there.
    #[error("{path}: cannot be written: {cause}; {advice}")]
    Unwritable {
        /// The file, or its folder.
        path: String,
        /// What the system said.
        cause: String,
        /// What to do.
        advice: &'static str,
    },
    /// Two runs would write over each other's files.
    #[error(
        "{path}: another masu writes a run into this folder; name another one with --out, or wait for its end"
    )]
    Busy {
        /// The folder.
        path: String,
    },
}

/// In the folder of a run from its beginning to its end: locked by the process that writes there, and left
/// by one that did not come to its end.
const MARK: &str = ".masu-run";
/// What it says.
const MARK_TEXT: &str = "masu writes a run into this folder; without a results.json the run did not end\n";
/// How often the mark may go while it is locked: as often as a run ends at that moment.
const MARKS_MAX: usize = 16;

/// The longest file that is looked at: a page with its data.
const BYTES_MAX: u64 = 256 << 20;
/// What is written to see whether there is room.
const TRIED_BYTES: usize = 4096;
/// In a page that masu wrote.
const PAGE_MARKS: [&str; 2] = ["id=\"masu-report\"", "<title>Verifications · masu</title>"];

/// What to do where it cannot be written, "name another file with --out".
#[derive(Clone, Copy)]
struct Advice(&'static str);

impl Advice {
    fn taken(self, path: &Path, what: &'static str) -> OutputError {
        OutputError::Taken { path: path.display().to_string(), what, advice: self.0 }
    }

    fn unwritable(self, path: &Path, cause: impl ToString) -> OutputError {
        OutputError::Unwritable { path: path.display().to_string(), cause: cause.to_string(), advice: self.0 }
    }

    /// Whether a new file can be made in a folder, and has room.
    fn try_folder(self, folder: &Path) -> Result<(), OutputError> {
        let tried = folder.join(format!(".masu-{}.tried", std::process::id()));
        let written = OpenOptions::new().write(true).create_new(true).open(&tried).and_then(|mut file| {
            file.write_all(&[0x5a; TRIED_BYTES])?;
            file.sync_all()
        });
        // That it cannot be removed is less than why it could not be written.
        let _ = fs::remove_file(&tried);
        written.map_err(|e| self.unwritable(folder, e))
    }
}

/// A file that a command will write: a new one, or one for whose text `is_own` holds. Through symbolic links.
///
/// # Errors
///
/// It is something else, or cannot be written.
pub fn file(
    path: &Path,
    advice: &'static str,
    what: &'static str,
    is_own: impl FnOnce(&str) -> bool,
) -> Result<(), OutputError> {
    let advice = Advice(advice);
    check_own(advice, path, what, is_own)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    advice.try_folder(folder)
}

/// Whether a file is not there, or is ours and can be written.
fn check_own(
    advice: Advice,
    path: &Path,
    what: &'static str,
    is_own: impl FnOnce(&str) -> bool,
) -> Result<(), OutputError> {
    match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(advice.unwritable(path, e)),
        Ok(facts) if !facts.is_file() => return Err(advice.taken(path, what)),
        // Of a write that was interrupted.
        Ok(facts) if facts.len() == 0 => {}
        Ok(_) => {
            let is_own = text_file::read_at_most(path, BYTES_MAX).is_ok_and(|text| is_own(&text));
            if !is_own {
                return Err(advice.taken(path, what));
            }
        }
    }
    OpenOptions::new().append(true).open(path).map(drop).map_err(|e| advice.unwritable(path, e))
}

/// A folder that this process writes a run into, and no other does.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked as long as it is open.
    mark: File,
}

impl Folder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    /// The mark stays where nothing else says whose the data is.
    fn drop(&mut self) {
        if data_in(&self.path).is_none() || self.path.join("results.json").exists() {
            // One that cannot be removed says what it says all the same.
            let _ = fs::remove_file(self.path.join(MARK));
        }
        let _ = self.mark.unlock();
    }
}

/// Makes the folder that a command will write a page, a record and data into; it may be there, with files of
/// an earlier run, also of one that did not end.
///
/// # Errors
///
/// It has a page, a record or data that masu did not write, cannot be written, or another process writes a
/// run there.
pub fn folder(path: &Path) -> Result<Folder, OutputError> {
    let advice = Advice("name another folder with --out");
    fs::create_dir_all(path).map_err(|e| advice.unwritable(path, e))?;
    let has = |name: &str| path.join(name).exists();
    check_own(advice, &path.join(MARK), "mark of masu", |text| text == MARK_TEXT)?;
    let mut is_ours = false;
    for name in ["report.html", "index.html"] {
        check_own(advice, &path.join(name), "page of masu", is_page)?;
        is_ours |= has(name);
    }
    for name in ["results.json", "presentation.json", "index.json", "points.json"] {
        check_own(advice, &path.join(name), "record of masu", |text| is_record(name, text))?;
        is_ours |= has(name);
    }
    let data = data_in(path);
    if let Some(foreign) = data.as_ref().filter(|_| !is_ours && !has(MARK)) {
        return Err(advice.taken(foreign, "file of a run of masu, which has a results.json beside it"));
    }
    let folder = Folder { path: path.to_owned(), mark: mark(advice, path)? };
    advice.try_folder(path)?;
    if data.is_some() && !has("results.json") {
        console::note(&format!(
            "{}: has files of a run that did not end; this run replaces them",
            path.display()
        ));
    }
    Ok(folder)
}

/// The mark of a folder, locked.
fn mark(advice: Advice, folder: &Path) -> Result<File, OutputError> {
    let path = folder.join(MARK);
    let failed = |e: std::io::Error| advice.unwritable(&path, e);
    for _ in 0..MARKS_MAX {
        let mut mark =
            OpenOptions::new().create(true).write(true).truncate(false).open(&path).map_err(failed)?;
        match mark.try_lock() {
            Ok(()) => {}
            // Some network file systems have no locks: better a run without one than none.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(failed(e)),
            Err(TryLockError::WouldBlock) => break,
        }
        // Between opening and locking the run that had it may have ended, and removed it: nobody else sees a
        // lock on that.
        let own = mark.metadata().map_err(failed)?;
        let is_there = fs::metadata(&path).is_ok_and(|of| (of.dev(), of.ino()) == (own.dev(), own.ino()));
        if is_there {
            mark.rewind().and_then(|()| mark.write_all(MARK_TEXT.as_bytes())).map_err(failed)?;
            return Ok(mark);
        }
    }
    Err(OutputError::Busy { path: folder.display().to_string() })
}

/// The page of a run, which is made again.
///
/// # Errors
///
/// There is another file of that name, or it cannot be written.
pub fn page_again(run: &Path) -> Result<(), OutputError> {
    check_own(Advice("move it away"), &run.join("report.html"), "page of masu", is_page)
}

/// Whether a text is a page that masu wrote.
fn is_page(text: &str) -> bool {
    PAGE_MARKS.iter().any(|mark| text.contains(mark))
}

/// Whether a text is what masu writes under this name: an object with these keys.
fn is_record(name: &str, text: &str) -> bool {
    let keys: &[&[&str]] = match name {
        // Of a run, of a comparison, of a replay.
        "results.json" => &[&["schema", "verification"], &["scenario", "drive"], &["a", "b", "metrics"]],
        "presentation.json" => &[&["title", "figures"]],
        "index.json" => &[&["exit_status", "verifications"]],
        _ => &[&["scenario", "conditions"]],
    };
    let read: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(text);
    read.is_ok_and(|map| keys.iter().any(|all| all.iter().all(|key| map.contains_key(*key))))
}

/// A file of samples in a folder.
fn data_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|of| of == "csv")).collect();
    all.sort();
    all.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T: std::fmt::Debug>(outcome: Result<T, OutputError>) -> String {
        outcome.expect_err("refused").to_string()
    }

    /// `drive fit TRACE --out TRACE` replaced the trace; a page of somebody else was replaced, too.
    #[test]
    fn only_what_masu_wrote_is_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, link) = (dir.path().join("one"), dir.path().join("link"));
        let drive =
            |path: &Path| file(path, "name another file with --out", "drive file", |text| text == "ours");
        assert!(drive(&one).is_ok() && !one.exists());
        std::os::unix::fs::symlink(&one, &link).expect("a link");
        for (content, own) in [("", true), ("ours", true), ("R 1 8 2.0 0.0", false), ("\u{0}\u{1}", false)] {
            fs::write(&one, content).expect("written");
            for path in [&one, &link] {
                assert_eq!(drive(path).is_ok(), own, "{content:?} at {}", path.display());
            }
            assert_eq!(fs::read_to_string(&one).expect("reads"), content);
        }
        let refused = said(drive(&one));
        assert!(
            refused.ends_with("one: exists and is not a drive file; name another file with --out"),
            "{refused}"
        );
        assert!(said(drive(dir.path())).contains("is not a drive file"));
        assert!(said(drive(&dir.path().join("no/where"))).contains("cannot be written"));
    }

    #[test]
    fn a_folder_with_files_of_others_is_no_folder_of_a_run() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("new/run");
        drop(folder(&out).expect("made"));
        assert!(fs::read_dir(&out).expect("made").next().is_none());
        for (name, content, own) in [
            ("report.html", "<p>of somebody else", false),
            ("report.html", "<script id=\"masu-report\">", true),
            ("results.json", "{\"a\": 1}", false),
            ("results.json", "{\"schema\": 1, \"verification\": \"run\"}", true),
            ("presentation.json", "[]", false),
            ("windows.csv", "a,b\n", false),
            ("notes.txt", "mine", true),
        ] {
            fs::write(out.join(name), content).expect("written");
            assert_eq!(folder(&out).is_ok(), own, "{name}: {content}");
            fs::remove_file(out.join(name)).expect("removed");
        }
        fs::write(out.join("results.json"), "{\"schema\": 1, \"verification\": \"run\"}").expect("written");
        fs::write(out.join("windows.csv"), "a,b\n").expect("written");
        assert!(folder(&out).is_ok(), "of an earlier run");
        fs::write(dir.path().join("file"), "").expect("written");
        assert!(said(folder(&dir.path().join("file"))).contains("name another folder with --out"));
    }
    /// A run that failed late, or was killed, left its data without a record: masu refused its own files. And
    /// two runs at once into one folder both ended well, with the files of either.
    #[test]
    fn a_folder_is_of_one_run_at_a_time_and_knows_one_that_did_not_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("run");
        let first = folder(&out).expect("a new one");
        assert_eq!(first.path(), out);
        let refused = said(folder(&out));
        assert!(
            refused.contains("run: another masu writes a run into this folder; name another"),
            "{refused}"
        );
        fs::write(out.join("patterns.csv"), "a,b\n").expect("written");
        drop(first);
        let again = folder(&out).expect("it knows its own");
        fs::write(out.join("results.json"), "{\"schema\": 1, \"verification\": \"run\"}").expect("written");
        drop(again);
        let names = || -> Vec<_> {
            let names = fs::read_dir(&out).expect("reads").flatten().map(|entry| entry.file_name());
            let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["patterns.csv", "results.json"], "no mark where the record says whose it is");
        fs::remove_file(out.join("results.json")).expect("removed");
        assert!(said(folder(&out)).contains("patterns.csv: exists and is not a file of a run of masu"));
        fs::write(out.join(MARK), "of somebody else").expect("written");
        assert!(said(folder(&out)).contains("is not a mark of masu"));
        assert_eq!(names(), [MARK, "patterns.csv"]);
    }
}
