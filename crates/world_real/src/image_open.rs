//! Opens files with virtual disks, of any length and on any file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use world::{DriveInfo, ImageAccess, OpenError};

use crate::file_drive::OpenMedium;
use crate::file_open::{Opening, direct_alignment, folder_of, has_nul, open_error, punches_holes};
use crate::hold::{Use, hold, hold_alone};
use crate::operations::drive::{IMAGE_BLOCK_BYTES, Zeroing};
use crate::presence::Presence;

/// Opens (or makes) an image file as a drive whose length may change.
pub(crate) fn open(path: &Path, access: ImageAccess) -> Result<OpenMedium, OpenError> {
    let opening = Opening { path };
    if access != ImageAccess::Create {
        // Check the type without opening: a pipe would wait for its other end, and a device may act.
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let found = found.map_err(|e| refuse(&opening, &e.into(), access))?;
        check_regular(&opening, &found)?;
    }
    // It may have been replaced in between: a pipe does not block this call either, and is detected below.
    let file = options(access, libc::O_NONBLOCK).open(path).map_err(|e| refuse(&opening, &e, access))?;
    check_regular(&opening, &file)?;
    opened(&opening, file, access)
}

/// Opens an image file within a directory, read-only.
pub(crate) fn open_within(folder: &Path, path: &Path) -> Result<OpenMedium, OpenError> {
    let shown = folder.join(path);
    let opening = Opening { path: &shown };
    let access = ImageAccess::Read;
    let refused = |e: Errno| match e {
        Errno::XDEV => opening.refuse("the path leaves the directory that it is confined to"),
        e => refuse(&opening, &e.into(), access),
    };
    let start = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let start = rustix::fs::open(start, flags, Mode::empty()).map_err(refused)?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let beneath = |flags: OFlags| {
        rustix::fs::openat2(&start, path, flags | OFlags::CLOEXEC, Mode::empty(), within).map_err(refused)
    };
    check_regular(&opening, beneath(OFlags::PATH)?)?;
    let file = File::from(beneath(OFlags::RDONLY | OFlags::NONBLOCK)?);
    check_regular(&opening, &file)?;
    opened(&opening, file, access)
}

fn refuse(opening: &Opening, e: &io::Error, access: ImageAccess) -> OpenError {
    match e.kind() {
        io::ErrorKind::NotFound if access == ImageAccess::Create => opening.refuse("no such directory"),
        io::ErrorKind::NotFound => opening.absent("no such file"),
        io::ErrorKind::AlreadyExists => opening.refuse("already exists; remove it first"),
        // Images are not opened with O_DIRECT.
        io::ErrorKind::InvalidInput if !has_nul(opening.path) => opening.refuse_io("cannot be opened", e),
        _ => open_error(opening, e),
    }
}

fn check_regular(opening: &Opening, file: impl AsFd) -> Result<(), OpenError> {
    let facts = rustix::fs::fstat(file).map_err(|e| opening.refuse_io("cannot be examined", &e.into()))?;
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(opening.refuse("a directory, not a file; name a file in it")),
        _ => Err(opening.refuse("not a regular file")),
    }
}

/// The drive of a regular file.
fn opened(opening: &Opening, file: File, access: ImageAccess) -> Result<OpenMedium, OpenError> {
    let path = opening.path;
    let held = match access {
        ImageAccess::Read => hold(&file, Use::Read, false),
        ImageAccess::Write => hold_alone(&file, false),
        ImageAccess::Create => hold(&file, Use::Alone, false),
    };
    held.map_err(|cause| opening.refuse(cause))?;
    if access == ImageAccess::Create {
        // The file's name must survive a power cut as well as what is flushed to it.
        let folder = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
        folder.map_err(|e| opening.refuse_io("no permission to write to its directory", &e))?;
    }
    let len = file.metadata().map_err(|e| opening.refuse_io("cannot be examined", &e))?.len();
    let (file, memory_align) = directly(opening, file, access, len)?;
    let block = IMAGE_BLOCK_BYTES as u64;
    let punches = access != ImageAccess::Read && punches_holes(&file, len);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let zeroing = if punches { Zeroing::Fallocate(mode) } else { Zeroing::Writes };
    let fd = file.into();
    let presence =
        Presence::new(path, &fd, len).map_err(|e| opening.refuse_io("cannot be examined", &e.into()))?;
    let name = path.display().to_string();
    let info = DriveInfo {
        name,
        len_bytes: len.div_ceil(block) * block,
        block_bytes: IMAGE_BLOCK_BYTES as u32,
        volatile_cache: true,
        cheap_zero: punches,
    };
    Ok(OpenMedium { fd, info, presence, zeroing, memory_align, is_image: true })
}

fn options(access: ImageAccess, flags: i32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(access != ImageAccess::Read).create_new(access == ImageAccess::Create);
    options.mode(0o600).custom_flags(flags);
    options
}

/// Disables the page cache if the file supports blocks of 512 bytes, and returns the memory alignment;
/// otherwise leaves the file as it is.
fn directly(
    opening: &Opening,
    file: File,
    access: ImageAccess,
    len: u64,
) -> Result<(File, usize), OpenError> {
    let block = IMAGE_BLOCK_BYTES as u64;
    let fits = direct_alignment(&file).filter(|a| {
        a.block > 0 && u64::from(a.block) <= block && len.is_multiple_of(block) && a.memory.is_power_of_two()
    });
    let Some(alignment) = fits else { return Ok((file, 1)) };
    // The lock belongs to this open file, so its flag is changed instead of opening it again.
    let flags =
        rustix::fs::fcntl_getfl(&file).map_err(|e| opening.refuse_io("cannot be examined", &e.into()))?;
    match rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::DIRECT) {
        Ok(()) => Ok((file, alignment.memory as usize)),
        Err(_) if access == ImageAccess::Read => Ok((file, 1)),
        Err(e) => Err(opening.refuse_io("cannot enable O_DIRECT", &e.into())),
    }
}
