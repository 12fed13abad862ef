//! Where the declaration of an array is kept: `array.state.toml` in its data directory, replaced as a whole.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use array::Config;

use crate::declaration::{Declaration, DeclarationError};

/// The file's name; secrets are in it, so it is readable by its owner only.
const FILE: &str = "array.state.toml";

/// The kept declaration of one data directory.
pub struct Store {
    dir: PathBuf,
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
    /// What is kept is damaged.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
}

impl Store {
    /// Uses a directory, making it when it is not there.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
        let dir = dir.canonicalize().map_err(|e| failed(dir, e))?;
        Ok(Store { dir })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was kept, if anything.
    pub fn load(&self) -> Result<Option<Config>, StoreError> {
        let path = self.dir.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(Declaration::read(&path, &self.dir)?))
    }

    /// Keeps a declaration: either the old one or the new one is there after a crash.
    pub fn save(&self, config: &Config) -> Result<(), StoreError> {
        let path = self.dir.join(FILE);
        let fresh = self.dir.join(format!("{FILE}.new"));
        let write = || -> std::io::Result<()> {
            let mut file =
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(
                b"# What this array is. Kept by masu: change it with `masu volume|host|pool ...`.\n",
            )?;
            file.write_all(Declaration::of(config).to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|e| failed(&path, e))
    }
}

fn failed(path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Io { path: path.display().to_string(), cause: error.to_string() }
}
