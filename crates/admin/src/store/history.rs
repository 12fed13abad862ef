//! The forms of the state before the one that is kept: what to go back to.

use std::fs;
use std::io::Result;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::{Config, Made};

/// Files named by their numbers.
pub(super) const HISTORY: &str = "array.state.history";
/// So many are kept.
const HISTORY_LEN: usize = 10;

/// The directory of the earlier forms; it is made with the first one.
pub(super) struct History {
    pub(super) dir: PathBuf,
}

impl History {
    /// That of a data directory.
    pub(super) fn of(data_dir: &Path) -> History {
        History { dir: data_dir.join(HISTORY) }
    }

    /// The kept forms, the oldest first.
    pub(super) fn forms(&self) -> Result<Vec<PathBuf>> {
        Ok(self.numbers()?.into_iter().map(|number| self.form(number)).collect())
    }

    pub(super) fn has_forms(&self) -> bool {
        self.numbers().is_ok_and(|numbers| !numbers.is_empty())
    }

    fn form(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:08}.toml"))
    }

    /// In order.
    pub(super) fn numbers(&self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|n| n.strip_suffix(".toml")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Keeps the form that is to be replaced, under the next number.
    pub(super) fn remember(&self, state: &Path) -> Result<()> {
        let Ok(_) = fs::symlink_metadata(state) else { return Ok(()) };
        fs::create_dir_all(&self.dir)?;
        let numbers = self.numbers()?;
        // The last attempt to replace this form failed: it must not push the others out.
        let inode = |path: &Path| fs::symlink_metadata(path).map(|facts| facts.ino()).ok();
        let newest = numbers.last().and_then(|last| inode(&self.form(*last)));
        if newest.is_some() && newest == inode(state) {
            return Ok(());
        }
        let next = numbers.last().map_or(1, |last| last + 1);
        // A second name for the file, so that the form cannot be half written.
        fs::hard_link(state, self.form(next))?;
        numbers.iter().rev().skip(HISTORY_LEN - 1).try_for_each(|old| fs::remove_file(self.form(*old)))
    }

    /// Removes forms that record the deletion of what is declared now under the same name: a start with one
    /// of them would delete it. What cannot be removed or read is left.
    pub(super) fn forget_dangerous(&self, data_dir: &Path, (config, now): (&Config, &Made)) {
        for path in self.forms().unwrap_or_default() {
            // Most have no such records: they are not parsed.
            let text = fs::read_to_string(&path).unwrap_or_default();
            if !["discarded", "deleted_pools"].iter().any(|record| text.contains(record)) {
                continue;
            }
            let Ok((_, Some(made))) = Config::parse_state(&text, "", data_dir) else { continue };
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

    /// Removes all forms, and the directory.
    pub(super) fn remove(&self) -> Result<()> {
        self.forms().unwrap_or_default().iter().try_for_each(fs::remove_file)?;
        let _ = fs::remove_dir(&self.dir);
        Ok(())
    }
}
