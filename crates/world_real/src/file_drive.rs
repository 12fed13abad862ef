//! Drives below which there is a file or a block device: reads, writes, zeroing and flushes through the ring.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use world::io::{Completer, Completions};
use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io};

use crate::local::Local;
use crate::operations::Op;
use crate::operations::drive::{DriveOp, End, Gathered, Medium, Opened, Work, Zeroing, error_of};
use crate::presence::Presence;

/// Deadline for changing a file's length, and for looking for its data.
const LEN_TIME_MAX: Duration = Duration::from_secs(30);

/// A file or device after opening, on any thread.
pub(crate) struct OpenMedium {
    pub(crate) fd: OwnedFd,
    pub(crate) info: DriveInfo,
    pub(crate) presence: Presence,
    pub(crate) zeroing: Zeroing,
    /// Memory of an operation starts at a multiple of this.
    pub(crate) memory_align: usize,
    /// An image file: its length may change, and the missing part of its last block reads as zeros.
    pub(crate) is_image: bool,
}

impl OpenMedium {
    /// The drive, on the thread that will use it.
    pub(crate) fn into_drive(self, local: &Local) -> Drive {
        let OpenMedium { fd, info, presence, zeroing, memory_align, is_image } = self;
        let medium = Medium {
            fd: fd.as_raw_fd(),
            hands_over: presence.may_wait_to_hand_in(),
            opened: Arc::new(Opened { fd, presence }),
            name: info.name.clone(),
            zeroing: Cell::new(zeroing),
            memory_align,
            is_image,
            closings: local.closings.clone(),
        };
        let len_bytes = info.len_bytes;
        Drive::new(info, Box::new(FileDrive::new(local.clone(), medium, len_bytes)))
    }
}

/// Ranges of a file that are told apart; a file with more of them has data from the last one on.
const RANGES_MAX: usize = 4096;

/// The ranges with data of a file of this length, as its file system says. One that cannot say has data
/// everywhere.
fn data_ranges(fd: impl AsFd, len_bytes: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut from = 0;
    while from < len_bytes {
        let begin = match seek(&fd, SeekFrom::Data(from)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => return ranges,
            Err(_) => from,
        };
        let is_last = ranges.len() + 1 >= RANGES_MAX;
        let end = if is_last { len_bytes } else { seek(&fd, SeekFrom::Hole(begin)).unwrap_or(len_bytes) };
        if begin >= len_bytes {
            return ranges;
        }
        ranges.push(begin..end.clamp(begin, len_bytes));
        from = end.max(begin + 1);
    }
    ranges
}

/// The waiters of a question that is asked only once.
type Askers = Rc<RefCell<Vec<Completer<Result<(), DriveError>>>>>;

/// The back end of file drives and of block devices.
pub(crate) struct FileDrive {
    local: Local,
    medium: Rc<Medium>,
    /// When it was opened.
    len_bytes: u64,
    /// The waiters of a probe in progress.
    probers: Askers,
    probing: Rc<Cell<bool>>,
    fills: Completions<Filled>,
    outcomes: Completions<Result<(), DriveError>>,
}

impl FileDrive {
    fn new(local: Local, medium: Medium, len_bytes: u64) -> FileDrive {
        let medium = Rc::new(medium);
        local.opened_medium(&medium);
        FileDrive {
            local,
            medium,
            len_bytes,
            probers: Rc::default(),
            probing: Rc::default(),
            fills: Completions::default(),
            outcomes: Completions::default(),
        }
    }

    fn start(&self, work: Work, at: u64) -> Io<Result<(), DriveError>> {
        let (io, end) = self.outcomes.start();
        let op = DriveOp::new(&self.medium, at, work, End::Outcome(end));
        self.local.reactor.submit(Op::Drive(op));
        io
    }
}

impl DriveBackend for FileDrive {
    fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        let (io, end) = self.fills.start();
        let op = DriveOp::new(&self.medium, at, Work::Read(buf), End::Filled(end));
        self.local.reactor.submit(Op::Drive(op));
        io
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        // O_DIRECT refuses memory that is not aligned for the device: copy through an aligned buffer.
        let data = if data.is_aligned_to(self.medium.memory_align) { data } else { Data::copy_of(&data) };
        self.start(Work::Write(data), at)
    }

    fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        let align = self.medium.memory_align;
        let aligned = |data: Data| if data.is_aligned_to(align) { data } else { Data::copy_of(&data) };
        self.start(Work::WriteVectored(Gathered::new(list.into_iter().map(aligned).collect())), at)
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        match self.medium.zeroing.get() {
            Zeroing::Fallocate(mode) => self.start(Work::Fallocate { mode, len }, at),
            Zeroing::Writes => self.start(Work::zeros(len), at),
        }
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        self.start(Work::Flush, 0)
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        let (io, end) = self.outcomes.start();
        let askers = self.probers.clone();
        askers.borrow_mut().retain(Completer::is_awaited);
        askers.borrow_mut().push(end);
        if self.probing.replace(true) {
            return io;
        }
        let (opened, name) = (self.medium.opened.clone(), self.medium.name.clone());
        let (lane, probing) = (self.medium.opened.presence.path().to_owned(), self.probing.clone());
        let check = move || opened.presence.check(&opened.fd);
        drop(self.local.ask(&lane, None, check, move |there| {
            probing.set(false);
            // Too many calls wait, so the state is unknown, and the drive hangs.
            let Some(there) = there else { return };
            let outcome = there.map_err(|cause| DriveError::Gone { drive: name, cause });
            askers.take().into_iter().for_each(|end| end.complete(outcome.clone()));
        }));
        io
    }

    fn file_id(&self) -> Option<u64> {
        self.medium.opened.presence.file_id()
    }

    fn data_ranges(&self) -> Option<Io<Result<Vec<Range<u64>>, DriveError>>> {
        let (medium, len_bytes) = (&self.medium, self.len_bytes);
        (!medium.opened.presence.is_device()).then(|| {
            let (opened, drive) = (medium.opened.clone(), medium.name.clone());
            let look = move || data_ranges(&opened.fd, len_bytes);
            self.local.ask(medium.opened.presence.path(), Some(LEN_TIME_MAX), look, move |ranges| {
                ranges.ok_or(DriveError::Silent { drive, secs: LEN_TIME_MAX.as_secs() })
            })
        })
    }

    fn set_len(&self, len_bytes: u64) -> Option<Io<Result<(), DriveError>>> {
        let medium = &self.medium;
        medium.is_image.then(|| {
            let (opened, drive) = (medium.opened.clone(), medium.name.clone());
            let cut = move || opened.presence.set_len(&opened.fd, len_bytes);
            self.local.ask(medium.opened.presence.path(), Some(LEN_TIME_MAX), cut, move |cut| match cut {
                Some(Ok(())) => Ok(()),
                Some(Err(e)) => Err(error_of(drive, len_bytes, e.raw_os_error())),
                None => {
                    let cause = format!("does not answer for {} s", LEN_TIME_MAX.as_secs());
                    Err(DriveError::Gone { drive, cause })
                }
            })
        })
    }

    fn lengthen(&self, len_bytes: u64, tail: Data) -> Option<Io<Result<(), DriveError>>> {
        self.medium.is_image.then(|| self.write(len_bytes - tail.len() as u64, tail))
    }
}
