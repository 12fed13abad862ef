//! Operations of file drives: reads, writes, zeroing and flushes, and the open medium that they work on.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use world::io::Completer;
use world::{Buf, Data, DriveError, Filled};

use crate::aside::Closings;
use crate::hold;
use crate::presence::Presence;
use crate::reservation;

/// Zeros are written in pieces of this size where the medium has no cheaper way.
const ZEROS_LEN: usize = 1 << 20;

/// Image files are addressed in blocks of this size.
pub(crate) const IMAGE_BLOCK_BYTES: usize = 512;

/// How a range is made zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeroing {
    /// One `fallocate` in this mode.
    Fallocate(i32),
    /// Writes of zeros.
    Writes,
}

/// The state for calls on other threads, which keeps the file open.
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) presence: Presence,
}

/// An open file or device.
pub(crate) struct Medium {
    pub(crate) fd: RawFd,
    pub(crate) opened: Arc<Opened>,
    pub(crate) name: String,
    pub(crate) zeroing: Cell<Zeroing>,
    pub(crate) memory_align: usize,
    pub(crate) is_image: bool,
    /// Operations go to the kernel's worker threads at once, because submitting may block.
    pub(crate) hands_over: bool,
    pub(crate) closings: Closings,
}

impl Medium {
    /// Closes the file on another thread, whoever still holds a handle of the drive: its world has ended, and
    /// nothing is in flight.
    pub(crate) fn close(&self) {
        let opened = self.opened.clone();
        self.closings.close(self.opened.presence.path(), move || {
            unlock(&opened);
            // A device is also held by the descriptor, which becomes one of something else.
            if let Ok(null) = std::fs::File::open("/dev/null") {
                // SAFETY: both descriptors are open while their owners live.
                unsafe { libc::dup3(null.as_raw_fd(), opened.fd.as_raw_fd(), libc::O_CLOEXEC) };
            }
        });
    }
}

impl Drop for Medium {
    /// Closes the file on another thread. The lock is released explicitly: otherwise it would end with the
    /// last descriptor of this open file, and the kernel keeps one for a moment after the last completion, as
    /// does a process that another thread is just starting.
    fn drop(&mut self) {
        let opened = self.opened.clone();
        self.closings.close(self.opened.presence.path(), move || unlock(&opened));
    }
}

/// A device is also held by O_EXCL, which ends with the descriptor.
fn unlock(opened: &Opened) {
    hold::release(&opened.fd, opened.presence.is_device());
}

/// The kind of operation.
pub(crate) enum Work {
    Read(Buf),
    Write(Data),
    WriteVectored(Gathered),
    Fallocate {
        mode: i32,
        len: u64,
    },
    /// Writes of one piece of zeros, again and again.
    Zeros {
        piece: Data,
        len: u64,
    },
    Flush,
}

impl Work {
    pub(crate) fn zeros(len: u64) -> Work {
        let piece = usize::try_from(len).unwrap_or(ZEROS_LEN).min(ZEROS_LEN);
        Work::Zeros { piece: Buf::zeroed(piece).freeze(), len }
    }
}

/// Buffers that go to neighbouring places, and their addresses as the kernel wants them.
pub(crate) struct Gathered {
    list: Vec<Data>,
    /// Of the bytes that are still to be written. On the heap: the kernel may read it as long as the
    /// operation is in flight.
    iovecs: Box<[libc::iovec]>,
}

impl Gathered {
    pub(crate) fn new(list: Vec<Data>) -> Gathered {
        Gathered { list, iovecs: Box::default() }
    }

    fn len(&self) -> u64 {
        self.list.iter().map(|data| data.len() as u64).sum()
    }

    /// The addresses of what lies behind the first `done` bytes.
    fn rest(&mut self, done: usize) -> &[libc::iovec] {
        let mut skip = done;
        let rest = self.list.iter().filter_map(|data| {
            let part = &data[skip.min(data.len())..];
            skip -= data.len() - part.len();
            let iovec = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            (!part.is_empty()).then_some(iovec)
        });
        self.iovecs = rest.collect();
        &self.iovecs
    }
}

/// Who gets the outcome.
pub(crate) enum End {
    Filled(Completer<Filled>),
    Outcome(Completer<Result<(), DriveError>>),
}

/// One operation of a drive in flight.
pub(crate) struct DriveOp {
    medium: Rc<Medium>,
    at: u64,
    /// Bytes that earlier turns moved.
    done: u64,
    work: Work,
    end: End,
}

impl DriveOp {
    pub(crate) fn new(medium: &Rc<Medium>, at: u64, work: Work, end: End) -> DriveOp {
        DriveOp { medium: medium.clone(), at, done: 0, work, end }
    }

    pub(crate) fn entry(&mut self) -> Entry {
        let entry = self.plain_entry();
        if self.medium.hands_over { entry.flags(Flags::ASYNC) } else { entry }
    }

    fn plain_entry(&mut self) -> Entry {
        let fd = Fd(self.medium.fd);
        let (done, offset) = (self.done as usize, self.at + self.done);
        // Buffers are at most 8 MiB, so that every length below fits 32 bits.
        match &mut self.work {
            Work::Read(buf) => {
                let rest = &mut buf[done..];
                opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32).offset(offset).build()
            }
            Work::Write(data) => {
                let rest = &data[done..];
                opcode::Write::new(fd, rest.as_ptr(), rest.len() as u32).offset(offset).build()
            }
            Work::WriteVectored(gathered) => {
                let iovecs = gathered.rest(done);
                opcode::Writev::new(fd, iovecs.as_ptr(), iovecs.len() as u32).offset(offset).build()
            }
            Work::Zeros { piece, len } => {
                let now = (*len - self.done).min(piece.len() as u64);
                opcode::Write::new(fd, piece.as_ptr(), now as u32).offset(offset).build()
            }
            Work::Fallocate { mode, len } => {
                opcode::Fallocate::new(fd, *len).offset(offset).mode(*mode).build()
            }
            Work::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        }
    }

    fn len(&self) -> u64 {
        match &self.work {
            Work::Read(buf) => buf.len() as u64,
            Work::Write(data) => data.len() as u64,
            Work::WriteVectored(gathered) => gathered.len(),
            Work::Zeros { len, .. } => *len,
            Work::Fallocate { .. } | Work::Flush => 0,
        }
    }

    pub(crate) fn complete(mut self, result: i32) -> Option<DriveOp> {
        match result {
            r if r == -libc::EINTR || r == -libc::EAGAIN => Some(self),
            r if r == -libc::EOPNOTSUPP && matches!(self.work, Work::Fallocate { .. }) => {
                Some(self.zero_by_writes())
            }
            r if r < 0 => {
                let error = self.error(-r);
                self.finish(Err(error));
                None
            }
            0 if self.ends_an_image() => {
                self.finish(Ok(()));
                None
            }
            0 if self.len() > 0 => {
                let error = self.gone(format!("truncated to {} bytes while in use", self.at + self.done));
                self.finish(Err(error));
                None
            }
            r => {
                self.done += u64::from(r.unsigned_abs());
                if self.done < self.len() {
                    return Some(self);
                }
                self.finish(Ok(()));
                None
            }
        }
    }

    /// Whether a read met the end of an image file: less than a block is missing, and is zeros.
    fn ends_an_image(&mut self) -> bool {
        let done = self.done as usize;
        match &mut self.work {
            Work::Read(buf) if self.medium.is_image && buf.len() - done < IMAGE_BLOCK_BYTES => {
                buf[done..].fill(0);
                true
            }
            _ => false,
        }
    }

    /// The medium does not support cheap zeroing (the device's answer decides, not the file system's).
    fn zero_by_writes(mut self) -> DriveOp {
        self.medium.zeroing.set(Zeroing::Writes);
        if let Work::Fallocate { len, .. } = self.work {
            self.work = Work::zeros(len);
        }
        self
    }

    fn finish(self, result: Result<(), DriveError>) {
        match (self.end, self.work) {
            (End::Filled(end), Work::Read(buf)) => end.complete(Filled { buf, result }),
            (End::Outcome(end), work) => {
                drop(work);
                end.complete(result);
            }
            (End::Filled(_), _) => unreachable!("only reads are filled"),
        }
    }

    fn gone(&self, cause: String) -> DriveError {
        DriveError::Gone { drive: self.medium.name.clone(), cause }
    }

    fn error(&self, errno: i32) -> DriveError {
        if errno == libc::EBADE {
            reservation::conflict(self.medium.opened.presence.path());
        }
        let drive = self.medium.name.clone();
        match (&self.work, error_of(drive.clone(), self.at + self.done, errno)) {
            // The kernel wrote data back, found no room, and has dropped them.
            (Work::Flush, DriveError::NoRoom { .. }) => {
                DriveError::flush_failed(drive, io::Error::from_raw_os_error(errno))
            }
            (_, error) => error,
        }
    }
}

/// Maps the system's error to a drive error.
pub(crate) fn error_of(drive: String, at: u64, errno: i32) -> DriveError {
    match errno {
        // ENODATA and EILSEQ: how the block layer reports an unreadable sector and a failed integrity check.
        libc::EIO | libc::ENODATA | libc::EILSEQ => DriveError::Medium { drive, at },
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => DriveError::NoRoom { drive, at },
        libc::EBADE => DriveError::Gone { drive, cause: "another host has reserved it".to_owned() },
        _ => DriveError::Gone { drive, cause: io::Error::from_raw_os_error(errno).to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use world::io::Completions;

    use super::*;

    /// What a caller hears when the system answers `results`, one after the other, to a write of 8 KiB at
    /// byte 4096.
    fn outcome(results: &[i32]) -> Result<(), DriveError> {
        outcome_of(Work::Write(Buf::zeroed(8192).freeze()), results)
    }

    fn outcome_of(work: Work, results: &[i32]) -> Result<(), DriveError> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let fd: OwnedFd =
            rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).expect("opens");
        let presence = Presence::new(path, &fd, 0).expect("examined");
        let medium = Rc::new(Medium {
            fd: fd.as_raw_fd(),
            opened: Arc::new(Opened { fd, presence }),
            name: "d".to_owned(),
            zeroing: Cell::new(Zeroing::Writes),
            memory_align: 512,
            is_image: false,
            hands_over: false,
            closings: Closings::default(),
        });
        let (io, end) = Completions::default().start();
        let mut op = Some(DriveOp::new(&medium, 4096, work, End::Outcome(end)));
        for result in results {
            op = op.take().expect("not complete before").complete(*result);
        }
        assert!(op.is_none(), "the last answer completes");
        io.try_now().ok().expect("complete")
    }

    #[test]
    fn a_vectored_write_goes_on_where_a_short_one_ended() {
        let list = || vec![Buf::zeroed(512).freeze(), Buf::zeroed(1024).freeze(), Buf::zeroed(512).freeze()];
        let mut gathered = Gathered::new(list());
        let mut lens = |done| gathered.rest(done).iter().map(|iovec| iovec.iov_len).collect::<Vec<_>>();
        assert_eq!(lens(0), [512, 1024, 512]);
        assert_eq!(lens(512), [1024, 512]);
        assert_eq!(lens(1024), [512, 512]);
        assert_eq!(lens(1536), [512]);
    }

    /// The next fsync(2) succeeds, although the data that found no room are lost.
    #[test]
    fn a_flush_without_room_is_never_tried_again() {
        for errno in [libc::ENOSPC, libc::EDQUOT] {
            let error = outcome_of(Work::Flush, &[-errno]).expect_err("it failed");
            let DriveError::Gone { cause, .. } = error else { panic!("{error}") };
            assert!(cause.starts_with("a flush failed, writes may be lost: "), "{cause}");
        }
    }

    #[test]
    fn what_the_system_answers_to_a_write_is_told_by_its_kind() {
        let drive = || "d".to_owned();
        assert_eq!(outcome(&[8192]), Ok(()));
        assert_eq!(outcome(&[4096, -libc::EINTR, 4096]), Ok(()), "a short write goes on");
        assert_eq!(outcome(&[-libc::EIO]), Err(DriveError::Medium { drive: drive(), at: 4096 }));
        assert_eq!(outcome(&[4096, -libc::EIO]), Err(DriveError::Medium { drive: drive(), at: 8192 }));
        assert_eq!(outcome(&[-libc::ENOSPC]), Err(DriveError::NoRoom { drive: drive(), at: 4096 }));
        for errno in [libc::ENODEV, libc::ENXIO, libc::EBADF, libc::EROFS, libc::EINVAL] {
            assert!(matches!(outcome(&[-errno]), Err(DriveError::Gone { .. })), "{errno}");
        }
        assert!(matches!(outcome(&[4096, 0]), Err(DriveError::Gone { .. })), "it takes no more");
    }
}
