//! Drives: the seam to what stores blocks, and the handle that everybody above it holds.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::deadline::Deadlines;
use crate::{Buf, Data, Io, Patience, Silence, TaskBackend};

/// Pieces of one vectored write: what Linux takes (IOV_MAX).
pub const VECTORED_MAX: usize = 1024;

/// What a drive is, asked once when it is opened and true for its life (but for the size of an image file, see [`Drive::set_len`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInfo {
    /// How the drive is called in messages (a path, a catalogue name).
    pub name: String,
    /// Size in bytes, a multiple of `block_bytes`.
    pub len_bytes: u64,
    /// Address and length of every operation are multiples of this (512 or 4096).
    pub block_bytes: u32,
    /// Whether an acknowledged write may be lost by a power cut until the next flush.
    pub volatile_cache: bool,
    /// Whether [`Drive::zero`] is cheap (a hole, a discarded block) rather than a write of zeros.
    pub cheap_zero: bool,
}

/// What a drive did wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// The medium cannot be read at this address (a latent sector error).
    #[error("drive {drive}: medium error at byte {at}")]
    Medium {
        /// The drive's name.
        drive: String,
        /// The first byte of the operation that failed.
        at: u64,
    },
    /// The drive does not answer any more.
    #[error("drive {drive} is gone: {cause}")]
    Gone {
        /// The drive's name.
        drive: String,
        /// What the system said.
        cause: String,
    },
    /// The drive does not answer in time, or has not ended what it did not answer. It may again.
    #[error("drive {drive} does not answer for {secs} s")]
    Silent {
        /// The drive's name.
        drive: String,
        /// How long operations were waited for.
        secs: u64,
    },
    /// The drive has no room for the write (a file system that is full below a file drive).
    #[error("drive {drive}: no room below it for a write at byte {at}")]
    NoRoom {
        /// The drive's name.
        drive: String,
        /// The first byte of the operation that failed.
        at: u64,
    },
}

impl DriveError {
    /// Whether the drive is at fault, and not the place or the room: it is gone, or does not answer.
    pub fn is_of_drive(&self) -> bool {
        matches!(self, DriveError::Gone { .. } | DriveError::Silent { .. })
    }
}

/// What to open as a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSpec {
    /// A file, opened O_DIRECT; created with this size when it is not there (`None`: it must be there).
    File {
        /// Where the file is.
        path: PathBuf,
        /// Size in bytes for a new file.
        create_len_bytes: Option<u64>,
    },
    /// A file that holds a virtual disk: its length may change ([`Drive::set_len`]), and is whatever it is. O_DIRECT where file and file
    /// system are in whole blocks of 512 bytes, through the page cache elsewhere; what is missing of its last block reads as zeros.
    Image {
        /// Where the file is.
        path: PathBuf,
        /// What is done with it.
        access: ImageAccess,
    },
    /// The same, to be read, beneath a directory: neither `..` nor a symbolic link in `path` leads out of it.
    ImageWithin {
        /// The directory; empty: the current one.
        folder: PathBuf,
        /// The file, from there.
        path: PathBuf,
    },
    /// A block device, opened O_DIRECT and exclusively.
    Device {
        /// The device node.
        path: PathBuf,
    },
    /// Memory, gone with the process.
    Memory {
        /// Its name.
        name: String,
        /// Size in bytes; memory is taken as it is written.
        len_bytes: u64,
    },
    /// A drive of the model world, by the name under which the harness holds it.
    Modelled {
        /// Its name.
        name: String,
    },
}

impl DriveSpec {
    /// How it is called in messages: its path or name.
    pub fn name(&self) -> String {
        match self {
            DriveSpec::File { path, .. } | DriveSpec::Image { path, .. } | DriveSpec::Device { path } => {
                path.display().to_string()
            }
            DriveSpec::ImageWithin { folder, path } => folder.join(path).display().to_string(),
            DriveSpec::Memory { name, .. } | DriveSpec::Modelled { name } => name.clone(),
        }
    }
}

/// What is done with an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageAccess {
    /// It is read; others may read it at the same time.
    Read,
    /// It is read and written by nobody else.
    Write,
    /// It is made, empty; it must not be there.
    Create,
}

/// Why a drive could not be opened: one clear line with cause and place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("drive {name}: {cause}")]
pub struct OpenError {
    /// The path or name.
    pub name: String,
    /// What is wrong and what to do.
    pub cause: String,
}

/// A read that ended: the buffer comes back, filled when `result` is `Ok`.
#[derive(Debug)]
pub struct Filled {
    /// The buffer that was given.
    pub buf: Buf,
    /// How it went.
    pub result: Result<(), DriveError>,
}

/// A drive as a world implements it. Callers use [`Drive`], which checks bounds and counts.
///
/// Semantics are those of a disk with a volatile write cache (when [`DriveInfo::volatile_cache`]): a completed write is
/// seen by every later read; it survives a power cut once a flush that was submitted after its completion has
/// completed. A write that is in flight or not flushed at a power cut is, per 512-byte sector, old or new. Operations
/// in flight at once have no order among them.
pub trait DriveBackend {
    /// Reads `buf.len()` bytes at `at`.
    fn read(&self, at: u64, buf: Buf) -> Io<Filled>;
    /// Writes `data` at `at`. Memory that the device cannot take as it lies is copied by the back end.
    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>>;
    /// Writes all of `list`, one after the other, from `at` on. A back end that takes one buffer at a time gets them joined.
    fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        self.write(at, Data::joined(&list))
    }
    /// Makes `len` bytes at `at` read as zeros and gives their space back where the medium can.
    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>>;
    /// Makes every write (and zero) that was complete at the call durable.
    fn flush(&self) -> Io<Result<(), DriveError>>;
    /// Whether the drive is still there: [`DriveError::Gone`] when its file was removed or cut, or the disk pulled. Touches no
    /// block; a drive that hangs does not answer this either.
    fn probe(&self) -> Io<Result<(), DriveError>>;
    /// Makes the drive so long; `None`: its length is fixed.
    fn set_len(&self, _len_bytes: u64) -> Option<Io<Result<(), DriveError>>> {
        None
    }
}

/// How often a drive was used, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounts {
    /// Read operations.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Zero (discard) operations.
    pub zeros: u64,
    /// Bytes zeroed.
    pub zero_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Operations that were given up because the drive did not answer in time.
    pub silences: u64,
}

/// A drive, opened: immutable facts, bounds checked, operations counted.
#[derive(Clone)]
pub struct Drive(Rc<Opened>);

struct Opened {
    backend: Box<dyn DriveBackend>,
    info: DriveInfo,
    len_bytes: Cell<u64>,
    counts: Cell<DriveCounts>,
    deadlines: Rc<Deadlines>,
}

impl Drive {
    /// Wraps a back end. `info` is trusted from here on.
    pub fn new(info: DriveInfo, backend: Box<dyn DriveBackend>) -> Drive {
        assert!(info.block_bytes.is_power_of_two() && info.block_bytes >= 512);
        assert!(info.len_bytes.is_multiple_of(info.block_bytes.into()));
        let len_bytes = Cell::new(info.len_bytes);
        let deadlines = Rc::new(Deadlines::new(info.name.clone(), info.cheap_zero));
        Drive(Rc::new(Opened { backend, info, len_bytes, counts: Cell::default(), deadlines }))
    }

    /// From here on its operations have deadlines on this clock. A drive that a world opens has them from the beginning.
    pub(crate) fn with_deadlines(self, tasks: &Rc<dyn TaskBackend>) -> Drive {
        self.0.deadlines.begin(tasks);
        self
    }

    /// How long it may be silent, for operations that follow.
    pub fn set_patience(&self, patience: Patience) {
        self.0.deadlines.set_patience(patience);
    }

    /// How long it may be silent.
    pub fn patience(&self) -> Patience {
        self.0.deadlines.patience()
    }

    /// What is said of it when it does not answer in time.
    pub fn silent(&self) -> DriveError {
        self.0.deadlines.silent()
    }

    /// What of it was silent a moment ago.
    pub fn silence(&self) -> Silence {
        self.0.deadlines.silence()
    }

    /// Whether it still works on what was given up: until then it takes nothing.
    pub fn has_given_up(&self) -> bool {
        self.0.deadlines.has_given_up()
    }

    /// From here on `may` is asked before operations are given up: while it says no, they are waited for.
    pub fn ask_before_giving_up(&self, may: Rc<dyn Fn() -> bool>) {
        self.0.deadlines.ask_before_giving_up(may);
    }

    /// What 99 of 100 of its reads and writes of the last whole minute did not exceed, measured at some of them; none where there were too
    /// few.
    pub fn latency_p99(&self) -> Option<Duration> {
        self.0.deadlines.p99()
    }

    /// The drive's facts.
    pub fn info(&self) -> &DriveInfo {
        &self.0.info
    }

    /// Its size now.
    pub fn len_bytes(&self) -> u64 {
        self.0.len_bytes.get()
    }

    /// Makes an image file so long (a multiple of its block); what is new reads as zeros, and the length is durable with the next flush.
    /// `false`: this drive's length is fixed.
    pub async fn set_len(&self, len_bytes: u64) -> Result<bool, DriveError> {
        assert!(len_bytes.is_multiple_of(self.0.info.block_bytes.into()), "a length in whole blocks");
        let Some(set) = self.0.backend.set_len(len_bytes) else { return Ok(false) };
        set.await?;
        self.0.len_bytes.set(len_bytes);
        Ok(true)
    }

    /// How often it was used.
    pub fn counts(&self) -> DriveCounts {
        DriveCounts { silences: self.0.deadlines.silences(), ..self.0.counts.get() }
    }

    /// Reads `buf.len()` bytes at byte `at`. Panics when the range is misaligned or past the end: the caller's bug.
    pub fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        self.check(at, buf.len() as u64);
        self.count(|c| {
            c.reads += 1;
            c.read_bytes += buf.len() as u64;
        });
        if let Some(refusal) = self.0.deadlines.refusal() {
            return Io::ready(Filled { buf, result: Err(refusal) });
        }
        let len = buf.len() as u64;
        let io = self.0.backend.read(at, buf);
        self.0.deadlines.read(&io, len);
        io
    }

    /// Writes `data` at byte `at`. Panics like [`Drive::read`].
    pub fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.check(at, data.len() as u64);
        self.count(|c| {
            c.writes += 1;
            c.write_bytes += data.len() as u64;
        });
        let len = data.len() as u64;
        self.in_time(|backend| backend.write(at, data), |deadlines, io| deadlines.write(io, len))
    }

    /// Writes all of `list`, one after the other, from byte `at` on, as one operation of at most [`BUF_LEN_MAX`](crate::BUF_LEN_MAX)
    /// bytes in at most [`VECTORED_MAX`] pieces. Panics like [`Drive::read`], for every piece.
    pub fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        assert!(list.len() <= VECTORED_MAX, "{} pieces are too many for one write", list.len());
        let mut end = at;
        for data in &list {
            self.check(end, data.len() as u64);
            end += data.len() as u64;
        }
        self.count(|c| {
            c.writes += 1;
            c.write_bytes += end - at;
        });
        self.in_time(
            |backend| backend.write_vectored(at, list),
            |deadlines, io| deadlines.write(io, end - at),
        )
    }

    /// Makes a range read as zeros. Panics like [`Drive::read`].
    pub fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.check(at, len);
        self.count(|c| {
            c.zeros += 1;
            c.zero_bytes += len;
        });
        self.in_time(|backend| backend.zero(at, len), |deadlines, io| deadlines.zero(io, len))
    }

    /// Makes everything that completed before this call durable.
    pub fn flush(&self) -> Io<Result<(), DriveError>> {
        self.count(|c| c.flushes += 1);
        self.in_time(|backend| backend.flush(), Deadlines::flush_or_probe)
    }

    /// Asks whether the drive is still there, without reading or writing a block: an idle drive that was pulled is noticed
    /// by this. Not counted, for no use of the medium is made.
    pub fn probe(&self) -> Io<Result<(), DriveError>> {
        self.in_time(|backend| backend.probe(), Deadlines::flush_or_probe)
    }

    /// Submits an operation unless the drive takes none now, and has its deadline begin.
    fn in_time(
        &self,
        submit: impl FnOnce(&dyn DriveBackend) -> Io<Result<(), DriveError>>,
        follow: impl FnOnce(&Rc<Deadlines>, &Io<Result<(), DriveError>>),
    ) -> Io<Result<(), DriveError>> {
        if let Some(refusal) = self.0.deadlines.refusal() {
            return Io::ready(Err(refusal));
        }
        let io = submit(&*self.0.backend);
        follow(&self.0.deadlines, &io);
        io
    }

    fn check(&self, at: u64, len: u64) {
        let info = &self.0.info;
        let block = u64::from(info.block_bytes);
        assert!(
            len > 0 && at.is_multiple_of(block) && len.is_multiple_of(block),
            "drive {}: {len} bytes at {at} are not whole blocks of {block}",
            info.name
        );
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.len_bytes()),
            "drive {}: {len} bytes at {at} pass its end at {}",
            info.name,
            self.len_bytes()
        );
    }

    fn count(&self, add: impl FnOnce(&mut DriveCounts)) {
        let mut counts = self.0.counts.get();
        add(&mut counts);
        self.0.counts.set(counts);
    }
}
