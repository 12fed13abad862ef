//! A new file under a temporary name, until it is complete.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use lab_core::interrupt::Stop;
use lab_core::words::shown;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use world::{Drive, DriveSpec, ImageAccess, World};

/// What stat(2) counts blocks in.
const STAT_BLOCK_BYTES: u64 = 512;

/// A file `NAME.part` that becomes `NAME` when it is complete and durable. It is removed if that fails, or if
/// a signal ends the command: a part of a disk must not look like a disk.
pub(super) struct Unfinished<'a> {
    name: &'a Path,
    part: PathBuf,
    /// Device and inode of the file that was created: another process may have put its own there.
    file: Option<(u64, u64)>,
    stop: Stop,
    is_renamed: bool,
}

impl<'a> Unfinished<'a> {
    /// Creates the file, empty. Neither name may be in use.
    pub(super) async fn create(world: &World, name: &'a Path) -> Result<(Unfinished<'a>, Drive)> {
        // Signals first: none may end the process while the file is there.
        let stop = Stop::on_signals().context("cannot receive signals")?;
        if name.symlink_metadata().is_ok() {
            bail!("{}: already exists; remove it first", shown(name));
        }
        let part = name.with_added_extension("part");
        if part.symlink_metadata().is_ok() {
            bail!(
                "{}: already exists: another process writes it, or it is left from one that was killed; if no masu \
                 writes it, remove it first",
                shown(&part)
            );
        }
        let spec = DriveSpec::Image { path: part.clone(), access: ImageAccess::Create };
        let drive = world.open_drive(&spec).await?;
        let file = file_at(&part);
        // It took a moment to make its name durable: the drive knows whether that still names its file.
        if drive.probe().await.is_err() {
            return Err(not_own(&part));
        }
        Ok((Unfinished { name, part, file, stop, is_renamed: false }, drive))
    }

    /// Its path until it is complete.
    pub(super) fn part(&self) -> &Path {
        &self.part
    }

    /// Whether the file is the one that was created.
    fn is_own(&self) -> bool {
        self.file.is_some() && self.file == file_at(&self.part)
    }

    /// Allocates all of its space, of which it has used little so far.
    ///
    /// # Errors
    ///
    /// The file system has too little: nothing of it is taken then, for others use it, too.
    pub(super) fn allocate(&self, len_bytes: u64) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.part, flags, Mode::empty())?;
        let free = rustix::fs::fstatvfs(&file)?;
        let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        let has_bytes = u64::try_from(rustix::fs::fstat(&file)?.st_blocks)? * STAT_BLOCK_BYTES;
        if len_bytes.saturating_sub(has_bytes) > free_bytes {
            bail!(
                "no space for {}: its file system has {}; free some, or create it without --fixed",
                config::format_bytes(len_bytes),
                config::format_bytes(free_bytes)
            );
        }
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len_bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                eprintln!(
                    "note     {}: its file system allocates no space in advance: the file is sparse, and writes may \
                     find no space",
                    shown(self.name)
                );
                Ok(())
            }
            allocated => allocated.context("cannot allocate its space; create it without --fixed"),
        }
    }

    /// Whether a signal ends the command.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }

    /// Gives it its name, durably. Its content must be durable already.
    pub(super) fn finish(mut self) -> Result<()> {
        let name = shown(self.name);
        if self.is_stopped() {
            bail!("{name}: interrupted; nothing was created");
        }
        if !self.is_own() {
            return Err(not_own(&self.part));
        }
        rename(&self.part, self.name).with_context(|| name.clone())?;
        self.is_renamed = true;
        let folder = self.name.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, Mode::empty());
        folder.and_then(rustix::fs::fsync).with_context(|| format!("{name}: cannot flush its directory"))
    }
}

fn not_own(part: &Path) -> Error {
    anyhow!(
        "{}: is not the file that was written: another process removed it; nothing was created",
        shown(part)
    )
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|facts| (facts.dev(), facts.ino()))
}

/// Renames without replacing a file that somebody else has created meanwhile, where the file system can.
fn rename(from: &Path, to: &Path) -> Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => bail!("already exists; remove it first"),
        Err(Errno::INVAL | Errno::NOSYS) => Ok(std::fs::rename(from, to)?),
        renamed => Ok(renamed?),
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_renamed && self.is_own() {
            // That it cannot be removed is less than why it was not completed.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}
