//! The highest epoch that this node has seen, in its data directory: a registry with an older one was
//! restored from a backup, or is another one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const FILE: &str = "array.epoch";

pub(super) struct Seen {
    path: PathBuf,
    epoch: u64,
}

impl Seen {
    /// 0: this node was never one of several.
    pub(super) fn open(dir: &Path) -> Result<Seen> {
        let path = dir.join(FILE);
        let epoch = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().with_context(|| format!("{}: not a number", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        Ok(Seen { path, epoch })
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Durable when it returns.
    pub(super) fn raise(&mut self, epoch: u64) -> Result<()> {
        if epoch <= self.epoch {
            return Ok(());
        }
        let fresh = self.path.with_extension("epoch.new");
        let written = fs::File::create(&fresh).and_then(|mut file| {
            file.write_all(format!("{epoch}\n").as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            self.path.parent().map_or(Ok(()), |dir| fs::File::open(dir)?.sync_all())
        });
        written.context(self.path.display().to_string())?;
        self.epoch = epoch;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_epoch_is_remembered_and_a_damaged_file_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut seen = Seen::open(dir.path()).expect("new");
        assert_eq!(seen.epoch(), 0);
        seen.raise(4).expect("written");
        seen.raise(3).expect("nothing to do");
        assert_eq!(Seen::open(dir.path()).expect("kept").epoch(), 4);
        fs::write(dir.path().join(FILE), "x").expect("written");
        assert!(Seen::open(dir.path()).is_err());
    }
}
