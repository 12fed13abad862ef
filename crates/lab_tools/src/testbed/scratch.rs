//! A directory for the files of a testbed, which is removed with it.

use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

/// In memory where files there can be opened as drives: on a disk that others use, a flush may wait for
/// seconds, as long as a lease.
///
/// # Errors
/// There is no place for it.
pub(super) fn directory() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let in_memory = named().tempdir_in(memory).ok().filter(|dir| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::DIRECT;
        rustix::fs::open(dir.path().join("probe"), flags, Mode::RUSR).is_ok()
    });
    match in_memory {
        Some(dir) => Ok(dir),
        None => named().tempdir().context("a directory for temporary files"),
    }
}

fn named<'a>() -> tempfile::Builder<'a, 'a> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("masu-lab-");
    builder
}
