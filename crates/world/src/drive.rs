//! Drives: the seam to block storage, and the handle for everything above it.

use std::cell::Cell;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::deadline::Deadlines;
use crate::{Buf, Data, Io, LatencyCounts, Patience, RbdImage, Silence, TaskBackend};

/// Pieces of one vectored write: what Linux takes (IOV_MAX).
pub const VECTORED_MAX: usize = 1024;

/// The properties of a drive, read at opening and constant (except for the size of an image file and of an
/// RBD image, see [`Drive::len_bytes`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInfo {
    /// The name in messages (a path, a catalogue name).
    pub name: String,
    /// Size in bytes, a multiple of `block_bytes`.
    pub len_bytes: u64,
    /// Address and length of every operation must be multiples of this (512 or 4096).
    pub block_bytes: u32,
    /// Whether a power failure may lose an acknowledged write before the next flush.
    pub volatile_cache: bool,
    /// Whether [`Drive::zero`] is cheap (a hole, a discarded block) rather than a write of zeros.
    pub cheap_zero: bool,
}

/// Errors of a drive.
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
        /// The error of the operating system.
        cause: String,
    },
    /// The drive is unresponsive, or an unresponsive operation has not ended. It may answer again.
    #[error("drive {drive} does not answer for {secs} s")]
    Silent {
        /// The drive's name.
        drive: String,
        /// How long masu waited.
        secs: u64,
    },
    /// The storage below has no room for the write (a full file system below a file drive). Only of writes:
    /// a flush that finds no room has lost what was written before it, and is [`DriveError::Gone`].
    #[error("drive {drive}: the storage below it is out of space for a write at byte {at}")]
    NoRoom {
        /// The drive's name.
        drive: String,
        /// The first byte of the operation that failed.
        at: u64,
    },
}

impl DriveError {
    /// A flush failed. What was written before may be lost, and the next flush may succeed without it: it
    /// must not be tried again, whatever the cause.
    pub fn flush_failed(drive: impl Into<String>, cause: impl std::fmt::Display) -> DriveError {
        DriveError::Gone {
            drive: drive.into(),
            cause: format!("a flush failed, writes may be lost: {cause}"),
        }
    }

    /// The name of the drive.
    pub fn drive(&self) -> &str {
        let (DriveError::Medium { drive, .. }
        | DriveError::Gone { drive, .. }
        | DriveError::Silent { drive, .. }
        | DriveError::NoRoom { drive, .. }) = self;
        drive
    }

    /// Whether the whole drive failed, not only a block or an allocation: it is gone or unresponsive.
    pub fn is_of_drive(&self) -> bool {
        matches!(self, DriveError::Gone { .. } | DriveError::Silent { .. })
    }
}

/// The specification of a drive to open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum DriveSpec {
    /// A file, opened with O_DIRECT; created with this size if it is missing (`None`: it must exist).
    File {
        /// Where the file is.
        path: PathBuf,
        /// Size in bytes for a new file.
        create_len_bytes: Option<u64>,
    },
    /// A file with a virtual disk, of any length, which may change ([`Drive::set_len`]). O_DIRECT if file and
    /// file system use whole blocks of 512 bytes, otherwise through the page cache; the missing part of its
    /// last block reads as zeros.
    Image {
        /// Where the file is.
        path: PathBuf,
        /// How it is opened.
        access: ImageAccess,
    },
    /// The same, read-only, confined to a directory: neither `..` nor a symbolic link in `path` leaves it.
    ImageWithin {
        /// The directory; empty: the current one.
        folder: PathBuf,
        /// The path within it.
        path: PathBuf,
    },
    /// A block device, opened with O_DIRECT and exclusively.
    Device {
        /// The device node.
        path: PathBuf,
    },
    /// A file or a block device, read-only, with O_DIRECT, whoever else has it open: to measure it.
    ReadOnly {
        /// The file or device node.
        path: PathBuf,
    },
    /// A Ceph RBD image, opened with its exclusive lock, which is not handed over.
    Rbd(RbdImage),
    /// Memory, lost with the process.
    Memory {
        name: String,
        /// Size in bytes; memory is allocated when it is written.
        len_bytes: u64,
    },
    /// A drive of the model world, by its name in the harness.
    Modelled { name: String },
}

impl DriveSpec {
    /// Its name in messages: its path or name.
    pub fn name(&self) -> String {
        match self {
            DriveSpec::File { path, .. }
            | DriveSpec::Image { path, .. }
            | DriveSpec::Device { path }
            | DriveSpec::ReadOnly { path } => path.display().to_string(),
            DriveSpec::ImageWithin { folder, path } => folder.join(path).display().to_string(),
            DriveSpec::Rbd(image) => image.to_string(),
            DriveSpec::Memory { name, .. } | DriveSpec::Modelled { name } => name.clone(),
        }
    }
}

/// How an image file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageAccess {
    /// Read-only; others may read it at the same time.
    Read,
    /// Read and write, exclusively.
    Write,
    /// Created, empty; it must not exist.
    Create,
}

/// Why a drive could not be opened: one line with place and cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("drive {name}: {cause}")]
pub struct OpenError {
    /// The path or name.
    pub name: String,
    /// What is wrong and what to do.
    pub cause: String,
    /// Nothing is under this path.
    pub is_absent: bool,
}

/// Why the holder of a drive could not be fenced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("drive {name} cannot be fenced: {cause}")]
pub struct FenceError {
    /// The path or name.
    pub name: String,
    /// What is wrong and what to do.
    pub cause: String,
}

/// A completed read: the buffer, filled if `result` is `Ok`.
#[derive(Debug)]
pub struct Filled {
    /// The buffer of the call.
    pub buf: Buf,
    /// The outcome.
    pub result: Result<(), DriveError>,
}

/// A drive as a world implements it. Callers use [`Drive`], which checks bounds and counts.
///
/// The semantics are those of a disk with a volatile write cache (if [`DriveInfo::volatile_cache`]). Every
/// later read sees a completed write; the write survives a power failure after a flush that was submitted
/// when it had completed. After a power failure, each 512-byte sector of a write in flight or not flushed is
/// old or new. Operations in flight have no order.
pub trait DriveBackend {
    /// Reads `buf.len()` bytes at `at`.
    fn read(&self, at: u64, buf: Buf) -> Io<Filled>;
    /// Writes `data` at `at`. The back end copies memory that is not suitably aligned for the device.
    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>>;
    /// Writes all of `list` contiguously from `at` on. A back end that takes one buffer at a time gets them
    /// joined.
    fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        self.write(at, Data::joined(&list))
    }
    /// Makes `len` bytes at `at` read as zeros and releases their space where the medium can.
    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>>;
    /// Makes every write (and zero) that was complete at the call durable.
    fn flush(&self) -> Io<Result<(), DriveError>>;
    /// Probes the drive: [`DriveError::Gone`] if its file was removed or truncated, or the disk pulled.
    /// Touches no block; a hanging drive does not answer.
    fn probe(&self) -> Io<Result<(), DriveError>>;
    /// The length as far as it is known, where others may change it.
    fn len_now(&self) -> Option<u64> {
        None
    }
    /// What tells the file below from another one under its path; `None`: not a file, or it is not known.
    fn file_id(&self) -> Option<u64> {
        None
    }
    /// The ranges that may hold data, in order; everything else reads as zeros. `None`: the medium does not
    /// say, and all of it may hold data.
    fn data_ranges(&self) -> Option<Io<Result<Vec<Range<u64>>, DriveError>>> {
        None
    }
    /// Sets the length; `None`: it is fixed.
    fn set_len(&self, _len_bytes: u64) -> Option<Io<Result<(), DriveError>>> {
        None
    }
    /// Writes these bytes at the end of a larger length; `None`: the length is fixed.
    fn lengthen(&self, _len_bytes: u64, _tail: Data) -> Option<Io<Result<(), DriveError>>> {
        None
    }
}

/// Counters of a drive since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct DriveCounts {
    /// Read operations.
    pub reads: u64,
    pub read_bytes: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Zero (discard) operations.
    pub zeros: u64,
    /// Bytes zeroed.
    pub zero_bytes: u64,
    pub flushes: u64,
    /// Operations that were abandoned because the drive was unresponsive.
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
    /// Wraps a back end. `info` must be correct.
    pub fn new(info: DriveInfo, backend: Box<dyn DriveBackend>) -> Drive {
        assert!(info.block_bytes.is_power_of_two() && info.block_bytes >= 512);
        assert!(info.len_bytes.is_multiple_of(info.block_bytes.into()));
        let len_bytes = Cell::new(info.len_bytes);
        let deadlines = Rc::new(Deadlines::new(info.name.clone(), info.cheap_zero));
        Drive(Rc::new(Opened { backend, info, len_bytes, counts: Cell::default(), deadlines }))
    }

    /// Enables deadlines of its operations on this clock. A drive that a world opens has them from the
    /// beginning.
    pub(crate) fn with_deadlines(self, tasks: &Rc<dyn TaskBackend>) -> Drive {
        self.0.deadlines.begin(tasks);
        self
    }

    /// Sets the deadlines of later operations.
    pub fn set_patience(&self, patience: Patience) {
        self.0.deadlines.set_patience(patience);
    }

    /// The deadlines of its operations.
    pub fn patience(&self) -> Patience {
        self.0.deadlines.patience()
    }

    /// The error when it is unresponsive.
    pub fn silent(&self) -> DriveError {
        self.0.deadlines.silent()
    }

    /// Its silent operations, as of the last turn.
    pub fn silence(&self) -> Silence {
        self.0.deadlines.silence()
    }

    /// Whether abandoned operations have not ended: until then it accepts nothing.
    pub fn has_given_up(&self) -> bool {
        self.0.deadlines.has_given_up()
    }

    /// `may` is asked before operations are abandoned: while it returns false, callers keep waiting.
    pub fn ask_before_giving_up(&self, may: Rc<dyn Fn() -> bool>) {
        self.0.deadlines.ask_before_giving_up(may);
    }

    /// The 99th percentile of the latency of its reads and writes in the last whole minute, from a sample;
    /// `None` if there were too few.
    pub fn latency_p99(&self) -> Option<Duration> {
        self.0.deadlines.p99()
    }

    /// The latencies of its reads and writes since it was opened, of one operation in sixteen.
    pub fn latencies(&self) -> (LatencyCounts, LatencyCounts) {
        self.0.deadlines.latencies()
    }

    /// Its immutable properties.
    pub fn info(&self) -> &DriveInfo {
        &self.0.info
    }

    /// Its size now. A drive that others enlarged is larger; one that others cut keeps its size, and
    /// operations past its end return [`DriveError::Gone`].
    pub fn len_bytes(&self) -> u64 {
        let block = u64::from(self.0.info.block_bytes);
        let now = self.0.backend.len_now().map_or(0, |len| len / block * block);
        self.0.len_bytes.get().max(now)
    }

    /// What tells the file below from any other one under its path, after a restart, too. `None`: the drive
    /// is not a file, or its file system keeps nothing of that kind. A file that was copied is another one.
    pub fn file_id(&self) -> Option<u64> {
        self.0.backend.file_id()
    }

    /// The ranges that may hold data, in order, if the medium knows them: everything else is a hole, and
    /// reads as zeros. Of a file, those that its file system has written; not preallocated ones.
    ///
    /// # Errors
    ///
    /// The drive does not answer.
    pub async fn data_ranges(&self) -> Result<Option<Vec<Range<u64>>>, DriveError> {
        match self.0.backend.data_ranges() {
            Some(ranges) => ranges.await.map(Some),
            None => Ok(None),
        }
    }

    /// Sets the length of an image file (a multiple of its block). The new part reads as zeros, and the next
    /// flush makes the length durable. `false`: the length of this drive is fixed.
    ///
    /// # Errors
    ///
    /// The file system refuses.
    pub async fn set_len(&self, len_bytes: u64) -> Result<bool, DriveError> {
        assert!(len_bytes.is_multiple_of(self.0.info.block_bytes.into()), "a length in whole blocks");
        let Some(set) = self.0.backend.set_len(len_bytes) else { return Ok(false) };
        set.await?;
        self.0.len_bytes.set(len_bytes);
        Ok(true)
    }

    /// Lengthens an image file (to a multiple of its block) by a write of its last bytes: whatever interrupts
    /// it, the file has its old length, or the new one with these bytes at its end. `false`: the length of
    /// this drive is fixed.
    ///
    /// # Errors
    ///
    /// As [`Drive::set_len`].
    pub async fn lengthen(&self, len_bytes: u64, tail: Data) -> Result<bool, DriveError> {
        let block = u64::from(self.0.info.block_bytes);
        assert!(len_bytes.is_multiple_of(block) && (tail.len() as u64).is_multiple_of(block), "whole blocks");
        assert!(len_bytes - tail.len() as u64 >= self.len_bytes(), "behind what is there");
        let Some(written) = self.0.backend.lengthen(len_bytes, tail) else { return Ok(false) };
        written.await?;
        self.0.len_bytes.set(len_bytes);
        Ok(true)
    }

    /// Its counters.
    pub fn counts(&self) -> DriveCounts {
        DriveCounts { silences: self.0.deadlines.silences(), ..self.0.counts.get() }
    }

    /// Reads `buf.len()` bytes at byte `at`.
    ///
    /// # Panics
    /// If the range is misaligned or past the end: a bug of the caller.
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

    /// Writes `data` at byte `at`. Panics as [`Drive::read`].
    pub fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        self.check(at, data.len() as u64);
        self.count(|c| {
            c.writes += 1;
            c.write_bytes += data.len() as u64;
        });
        let len = data.len() as u64;
        self.in_time(|backend| backend.write(at, data), |deadlines, io| deadlines.write(io, len))
    }

    /// Writes all of `list` contiguously from byte `at` on, as one operation of at most
    /// [`BUF_LEN_MAX`](crate::BUF_LEN_MAX) bytes in at most [`VECTORED_MAX`] pieces. Panics as
    /// [`Drive::read`], for every piece.
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

    /// Makes a range read as zeros. Panics as [`Drive::read`].
    pub fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.check(at, len);
        self.count(|c| {
            c.zeros += 1;
            c.zero_bytes += len;
        });
        self.in_time(|backend| backend.zero(at, len), |deadlines, io| deadlines.zero(io, len))
    }

    /// Makes everything that completed before this call durable. Fails with the error of an earlier flush
    /// that failed after its caller had stopped waiting for it.
    pub fn flush(&self) -> Io<Result<(), DriveError>> {
        self.count(|c| c.flushes += 1);
        if !self.has_given_up()
            && let Some(failed) = self.0.deadlines.failed_flush()
        {
            return failed;
        }
        self.in_time(|backend| backend.flush(), Deadlines::flush)
    }

    /// Probes the drive without reading or writing a block: this detects that an idle drive was pulled. Not
    /// counted, because it does not use the medium.
    pub fn probe(&self) -> Io<Result<(), DriveError>> {
        self.in_time(|backend| backend.probe(), Deadlines::probe)
    }

    /// Submits an operation and starts its deadline, unless the drive accepts none now.
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
