//! What lies beside the trees of a set: `set.json`, what was asked for, and `sums/`, a file for each tree
//! that is complete.
//!
//! A tree's sums are written when all of its files are, and put in their place by a rename: a tree with sums
//! is complete, all others are made again.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::plan::{SetSpec, Tree};

/// Its name.
const SET: &str = "set.json";
const SUMS: &str = "sums";
/// The longest file that is read: a tree of 100,000 files with 32 bytes a line, and a distribution of 10,000
/// steps are less.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Why a folder is not a set, or not this one.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum StoreError {
    #[error("{path}: {cause}")]
    File {
        path: String,
        /// What the system said.
        cause: String,
    },
    /// What lies there is another set.
    #[error("{0}: holds another file set: its set.json says something else")]
    Other(String),
    /// Not what a set has there.
    #[error("{path}: {cause}")]
    Content {
        path: String,
        /// What is wrong.
        cause: String,
    },
}

pub(super) fn file_error(path: &Path, cause: impl std::fmt::Display) -> StoreError {
    StoreError::File { path: path.display().to_string(), cause: cause.to_string() }
}

fn content_error(path: &Path, cause: impl std::fmt::Display) -> StoreError {
    StoreError::Content { path: path.display().to_string(), cause: cause.to_string() }
}

fn read(path: &Path) -> Result<String, StoreError> {
    let len = fs::metadata(path).map_err(|e| file_error(path, e))?.len();
    if len > FILE_BYTES_MAX {
        return Err(content_error(path, format!("is longer than {FILE_BYTES_MAX} bytes")));
    }
    fs::read_to_string(path).map_err(|e| file_error(path, e))
}

/// Writes a file whole or not at all.
fn replace(path: &Path, text: &str) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    fs::write(&new, text).map_err(|e| file_error(&new, e))?;
    fs::rename(&new, path).map_err(|e| file_error(path, e))
}

/// A folder with a set.
#[derive(Clone, Debug)]
pub(super) struct SetFile {
    dir: PathBuf,
}

/// What a folder holds, by its `set.json`.
pub fn read_set(dir: &Path) -> Result<SetSpec, StoreError> {
    let path = dir.join(SET);
    let text = read(&path)?;
    serde_json::from_str(&text).map_err(|e| content_error(&path, e))
}

impl SetFile {
    /// The folder of a set that is to be created, or gone on with.
    pub(super) fn begin(dir: &Path, spec: &SetSpec) -> Result<SetFile, StoreError> {
        let sums = dir.join(SUMS);
        fs::create_dir_all(&sums).map_err(|e| file_error(&sums, e))?;
        let path = dir.join(SET);
        if path.exists() {
            if read_set(dir)? != *spec {
                return Err(StoreError::Other(dir.display().to_string()));
            }
        } else {
            let text = serde_json::to_string_pretty(spec).map_err(|e| content_error(&path, e))?;
            replace(&path, &(text + "\n"))?;
        }
        Ok(SetFile { dir: dir.to_owned() })
    }

    /// The folder of a set that is there.
    pub(super) fn open(dir: &Path) -> SetFile {
        SetFile { dir: dir.to_owned() }
    }

    fn sums_path(&self, tree: u32) -> PathBuf {
        self.dir.join(SUMS).join(Tree::name(tree) + ".crc32c")
    }

    /// Whether a tree is complete.
    pub(super) fn is_done(&self, tree: u32) -> bool {
        self.sums_path(tree).exists()
    }

    /// A tree is complete, with these checksums.
    pub(super) fn done(&self, tree: u32, sums: &[u32]) -> Result<(), StoreError> {
        let mut text = String::with_capacity(sums.len() * 9);
        for sum in sums {
            let _ = writeln!(text, "{sum:08x}");
        }
        replace(&self.sums_path(tree), &text)
    }

    /// The checksums of a tree of so many files.
    pub(super) fn sums(&self, tree: u32, files: usize) -> Result<Vec<u32>, StoreError> {
        let path = self.sums_path(tree);
        let text = read(&path)?;
        let sums: Result<Vec<u32>, _> = text.lines().map(|line| u32::from_str_radix(line, 16)).collect();
        let sums = sums.map_err(|e| content_error(&path, e))?;
        if sums.len() != files {
            return Err(content_error(&path, format!("has {} checksums of {files} files", sums.len())));
        }
        Ok(sums)
    }
}
