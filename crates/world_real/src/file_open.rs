//! Opens files and block devices as drives: O_DIRECT, alignment, size, exclusive use. An error says what to
//! do.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, ioctl_blksszget};
use world::{Buf, DriveInfo, OpenError};

use crate::file_drive::OpenMedium;
use crate::hold::hold_alone;
use crate::operations::drive::Zeroing;
use crate::presence::Presence;
use crate::reservation;

/// Buffers have this alignment; a medium that requires more cannot be used.
const MEMORY_ALIGN_MAX: usize = 4096;
/// Block sizes that the layers above can address.
const BLOCK_BYTES: [u32; 2] = [512, 4096];

pub(crate) struct Opening<'a> {
    pub(crate) path: &'a Path,
}

impl Opening<'_> {
    pub(crate) fn refuse(&self, cause: impl Into<String>) -> OpenError {
        OpenError { name: self.path.display().to_string(), cause: cause.into(), is_absent: false }
    }

    /// Nothing is under the path.
    pub(crate) fn absent(&self, cause: &str) -> OpenError {
        OpenError { is_absent: true, ..self.refuse(cause) }
    }

    pub(crate) fn refuse_io(&self, what: &str, e: &io::Error) -> OpenError {
        self.refuse(format!("{what}: {e}"))
    }
}

/// Opens (or makes) a file as a drive.
pub(crate) fn open_file(path: &Path, create_len_bytes: Option<u64>) -> Result<OpenMedium, OpenError> {
    let opening = Opening { path };
    let (file, is_new) = open_or_create(&opening, create_len_bytes)?;
    let opened = file_drive(&opening, file, is_new.then_some(create_len_bytes).flatten());
    if opened.is_err() && is_new {
        // Remove a file that was created in vain.
        let _ = std::fs::remove_file(path);
    }
    opened
}

fn direct(path: &Path, flags: i32, create_new: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(create_new)
        .mode(0o600)
        .custom_flags(libc::O_DIRECT | flags)
        .open(path)
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file, and whether it was created here.
fn open_or_create(opening: &Opening, create_len_bytes: Option<u64>) -> Result<(File, bool), OpenError> {
    let path = opening.path;
    refuse_special(opening)?;
    match direct(path, 0, false) {
        Ok(file) => Ok((file, false)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = folder_of(path);
            if !folder.is_dir() {
                return Err(opening.refuse(format!("the directory {} does not exist", folder.display())));
            }
            if create_len_bytes.is_none() {
                return Err(opening.absent("no such file"));
            }
            let made = direct(path, 0, true).map_err(|e| {
                if e.raw_os_error() == Some(libc::EINVAL) {
                    // Linux makes the file before it refuses O_DIRECT.
                    let _ = std::fs::remove_file(path);
                }
                open_error(opening, &e)
            })?;
            Ok((made, true))
        }
        Err(e) => Err(open_error(opening, &e)),
    }
}

/// Refuses what is neither a file nor a block device before it is opened: opening a pipe or a character
/// device has effects.
fn refuse_special(opening: &Opening) -> Result<(), OpenError> {
    let Ok(kind) = std::fs::metadata(opening.path).map(|found| found.file_type()) else { return Ok(()) };
    match kind.is_file() || kind.is_block_device() || kind.is_dir() {
        true => Ok(()),
        false => Err(opening.refuse("not a file and not a block device")),
    }
}

pub(crate) fn has_nul(path: &Path) -> bool {
    path.as_os_str().as_bytes().contains(&0)
}

pub(crate) fn open_error(opening: &Opening, e: &io::Error) -> OpenError {
    // No system call takes it.
    if has_nul(opening.path) {
        return opening.refuse("no file name: it has a NUL character");
    }
    match e.raw_os_error() {
        Some(libc::EINVAL) => no_direct(opening),
        Some(libc::EACCES | libc::EPERM) => opening.refuse("no permission to read and write it"),
        Some(libc::EROFS) => opening.refuse("the file system is mounted read-only"),
        Some(libc::EISDIR) => opening.refuse("a directory, not a file; name a file in it"),
        Some(libc::ENOSPC) => opening.refuse("no space left on the file system"),
        Some(libc::EBUSY) => {
            opening.refuse("in use: mounted, held by device-mapper or md, or open in another array")
        }
        Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => opening.refuse("no device behind this path"),
        _ => opening.refuse_io("cannot be opened", e),
    }
}

fn no_direct(opening: &Opening) -> OpenError {
    opening.refuse("the file system does not support O_DIRECT; use ext4, xfs or btrfs, or a memory drive")
}

fn file_drive(opening: &Opening, file: File, set_len_bytes: Option<u64>) -> Result<OpenMedium, OpenError> {
    let kind = file.metadata().map_err(|e| opening.refuse_io("cannot be examined", &e))?.file_type();
    if kind.is_block_device() {
        return Err(opening.refuse("a block device, not a file; declare it with `device`"));
    }
    if !kind.is_file() {
        return Err(opening.refuse("not a file and not a block device"));
    }
    // The lock is on the open file, not on the process: a second opening in this process is refused, too.
    hold_alone(&file, false).map_err(|cause| opening.refuse(cause))?;
    if let Some(len) = set_len_bytes {
        file.set_len(len).map_err(|e| opening.refuse_io(&format!("cannot allocate {len} bytes"), &e))?;
        // The file's name must survive a power cut as well as what is flushed to it.
        let folder = File::open(folder_of(opening.path)).and_then(|folder| folder.sync_all());
        folder.map_err(|e| opening.refuse_io("no permission to write to its directory", &e))?;
    }
    let len_bytes = file.metadata().map_err(|e| opening.refuse_io("cannot be examined", &e))?.len();
    let (memory_align, block_bytes) = match direct_alignment(&file) {
        Some(Alignment { memory: _, block: 0 }) => return Err(no_direct(opening)),
        Some(Alignment { memory, block }) => (memory as usize, block),
        None => (MEMORY_ALIGN_MAX, probe_block(opening, &file, len_bytes)?),
    };
    check_size(opening, len_bytes, block_bytes, memory_align)?;
    let punches = punches_holes(&file, len_bytes);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let zeroing = if punches { Zeroing::Fallocate(mode) } else { Zeroing::Writes };
    describe(opening, file.into(), len_bytes, block_bytes, memory_align, zeroing, punches)
}

fn describe(
    opening: &Opening,
    fd: OwnedFd,
    len_bytes: u64,
    block_bytes: u32,
    memory_align: usize,
    zeroing: Zeroing,
    cheap_zero: bool,
) -> Result<OpenMedium, OpenError> {
    let presence = Presence::new(opening.path, &fd, len_bytes)
        .map_err(|e| opening.refuse_io("cannot be examined", &e.into()))?;
    let name = opening.path.display().to_string();
    // Whether the device caches writes is not reported reliably (and a file system has metadata to write):
    // flushes are required.
    let info = DriveInfo { name, len_bytes, block_bytes, volatile_cache: true, cheap_zero };
    Ok(OpenMedium { fd, info, presence, zeroing, memory_align, is_image: false })
}

fn check_size(
    opening: &Opening,
    len_bytes: u64,
    block_bytes: u32,
    memory_align: usize,
) -> Result<(), OpenError> {
    if !BLOCK_BYTES.contains(&block_bytes) {
        return Err(opening.refuse(format!(
            "unsupported block size of {block_bytes} bytes: must be 512 or \
            4096"
        )));
    }
    if !memory_align.is_power_of_two() || memory_align > MEMORY_ALIGN_MAX {
        return Err(opening.refuse(format!(
            "unsupported memory alignment of {memory_align} bytes: the maximum is \
                {MEMORY_ALIGN_MAX}"
        )));
    }
    if len_bytes < u64::from(block_bytes) {
        return Err(opening.refuse(format!(
            "too small: {len_bytes} bytes, less than one block of {block_bytes} \
                bytes"
        )));
    }
    if !len_bytes.is_multiple_of(block_bytes.into()) {
        return Err(opening.refuse(format!(
            "invalid size of {len_bytes} bytes: not a multiple of the block size of {block_bytes} bytes"
        )));
    }
    Ok(())
}

pub(crate) struct Alignment {
    pub(crate) memory: u32,
    /// Alignment of addresses and lengths; 0 if the file does not support O_DIRECT.
    pub(crate) block: u32,
}

/// The file system's answer about O_DIRECT (`STATX_DIOALIGN`, Linux 6.1); `None` without an answer.
pub(crate) fn direct_alignment(file: &File) -> Option<Alignment> {
    let empty = CString::default();
    let mut facts = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is a C string, `facts` is room for a statx; both live through the call.
    let failed = unsafe {
        libc::statx(
            file.as_raw_fd(),
            empty.as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            facts.as_mut_ptr(),
        )
    };
    // SAFETY: zeroed memory is a valid statx, whatever the call filled in.
    let facts = unsafe { facts.assume_init() };
    (failed == 0 && facts.stx_mask & libc::STATX_DIOALIGN != 0)
        .then_some(Alignment { memory: facts.stx_dio_mem_align, block: facts.stx_dio_offset_align })
}

/// The smallest block of a direct read that succeeds, if the file system does not say.
fn probe_block(opening: &Opening, file: &File, len_bytes: u64) -> Result<u32, OpenError> {
    for block in BLOCK_BYTES {
        if len_bytes < u64::from(block) * 2 {
            return Ok(block);
        }
        let mut buf = Buf::new(block as usize);
        match file.read_at(&mut buf, block.into()) {
            Ok(_) => return Ok(block),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            Err(e) => return Err(opening.refuse_io("cannot be read", &e)),
        }
    }
    Err(no_direct(opening))
}

/// Whether holes can be punched: tried past the end of the file, where there are no data.
pub(crate) fn punches_holes(file: &File, len_bytes: u64) -> bool {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, len_bytes, 4096).is_ok()
}

/// Opens a block device as a drive.
pub(crate) fn open_device(path: &Path) -> Result<OpenMedium, OpenError> {
    let opening = Opening { path };
    let facts = std::fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => opening.absent("no such device"),
        _ => open_error(&opening, &e),
    })?;
    if !facts.file_type().is_block_device() {
        return Err(opening.refuse("not a block device; declare it with `file`"));
    }
    // O_EXCL: the kernel refuses when a file system or another array holds it.
    let file = direct(path, libc::O_EXCL, false).map_err(|e| open_error(&opening, &e))?;
    hold_alone(&file, true).map_err(|cause| opening.refuse(cause))?;
    if reservation::is_required() {
        reservation::hold(path, &file).map_err(|cause| opening.refuse(cause))?;
    }
    let size = (&file).seek(SeekFrom::End(0)).map_err(|e| opening.refuse_io("cannot read the size", &e))?;
    let block =
        ioctl_blksszget(&file).map_err(|e| opening.refuse_io("cannot read the block size", &e.into()))?;
    check_size(&opening, size, block, MEMORY_ALIGN_MAX)?;
    // The kernel zeroes the range by the device's own command, or by writing where it has none.
    let zeroing = Zeroing::Fallocate(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE);
    let cheap = zeroes_by_command(&file);
    let memory_align =
        direct_alignment(&file).map_or(MEMORY_ALIGN_MAX, |a| (a.memory as usize).clamp(1, MEMORY_ALIGN_MAX));
    describe(&opening, file.into(), size, block, memory_align, zeroing, cheap)
}

/// Opens a file or a block device to be measured: nothing of it is changed, and others may have it open.
pub(crate) fn open_read_only(path: &Path) -> Result<OpenMedium, OpenError> {
    let opening = Opening { path };
    refuse_special(&opening)?;
    if path.is_dir() {
        return Err(opening.refuse("a directory, not a file; name a file in it"));
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    let file = file.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => opening.absent("no such file or device"),
        io::ErrorKind::PermissionDenied => opening.refuse("no permission to read it"),
        _ => open_error(&opening, &e),
    })?;
    let size = (&file).seek(SeekFrom::End(0)).map_err(|e| opening.refuse_io("cannot read the size", &e))?;
    let alignment = direct_alignment(&file);
    let memory_align = alignment.as_ref().map_or(MEMORY_ALIGN_MAX, |a| (a.memory as usize).max(1));
    let block = match alignment {
        Some(Alignment { block: 0, .. }) => return Err(no_direct(&opening)),
        Some(Alignment { block, .. }) => block,
        None => probe_block(&opening, &file, size)?,
    };
    // What is past the last whole block is not measured.
    let len_bytes = size / u64::from(block.max(1)) * u64::from(block);
    check_size(&opening, len_bytes, block, memory_align)?;
    describe(&opening, file.into(), len_bytes, block, memory_align, Zeroing::Writes, false)
}

/// Whether the device has a command of its own for zeroing.
fn zeroes_by_command(file: &File) -> bool {
    let Ok(facts) = rustix::fs::fstat(file) else { return false };
    let (major, minor) = (rustix::fs::major(facts.st_rdev), rustix::fs::minor(facts.st_rdev));
    // A partition's queue is its parent's.
    [format!("/sys/dev/block/{major}:{minor}/queue"), format!("/sys/dev/block/{major}:{minor}/../queue")]
        .iter()
        .find_map(|folder| std::fs::read_to_string(format!("{folder}/write_zeroes_max_bytes")).ok())
        .is_some_and(|text| text.trim().parse::<u64>().is_ok_and(|bytes| bytes > 0))
}
