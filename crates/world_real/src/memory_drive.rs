//! The memory drive: one anonymous mapping, sparse; operations complete at once; lost with the process.
//!
//! The mapping asks for huge pages: random reads of a large drive spend their time on address translation
//! otherwise (half of the user time of a 4 KiB read, measured on a virtual machine, where each miss walks two
//! page tables).

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use world::{Buf, Data, Drive, DriveBackend, DriveError, DriveInfo, Filled, Io, OpenError};

/// Memory is allocated and released in huge pages.
const HUGE_PAGE_LEN: usize = 2 << 20;
/// The logical block of most disks, and the one that every guest can use.
const BLOCK_BYTES: u32 = 512;
/// Largest memory drive: half of a process's address space (47 bits).
const LEN_BYTES_MAX: u64 = 1 << 46;

/// Opens a memory drive.
pub(crate) fn open(name: &str, len_bytes: u64) -> Result<Drive, OpenError> {
    let refuse = |cause: String| OpenError { name: name.to_owned(), cause, is_absent: false };
    if len_bytes == 0 || !len_bytes.is_multiple_of(BLOCK_BYTES.into()) {
        return Err(refuse(format!(
            "invalid size of {len_bytes} bytes: must be a positive multiple of {BLOCK_BYTES}"
        )));
    }
    if len_bytes > LEN_BYTES_MAX {
        return Err(refuse(format!(
            "invalid size of {len_bytes} bytes: a memory drive is limited to {LEN_BYTES_MAX}"
        )));
    }
    let len = usize::try_from(len_bytes).map_err(|e| refuse(e.to_string()))?;
    let memory =
        Mapping::new(len).map_err(|e| refuse(format!("cannot map {len_bytes} bytes of memory: {e}")))?;
    let info = DriveInfo {
        name: name.to_owned(),
        len_bytes,
        block_bytes: BLOCK_BYTES,
        // A flush makes no difference: everything is lost with the process.
        volatile_cache: false,
        cheap_zero: true,
    };
    Ok(Drive::new(info, Box::new(MemoryDrive(Rc::new(RefCell::new(memory))))))
}

struct MemoryDrive(Rc<RefCell<Mapping>>);

/// Private zero pages that the kernel gives as they are touched.
struct Mapping {
    /// Where the mapping begins, as the kernel gave it.
    base: NonNull<u8>,
    /// From `base` to the first huge page, where the drive's first byte is.
    start: usize,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> rustix::io::Result<Mapping> {
        let mapped = len + HUGE_PAGE_LEN;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        // SAFETY: the range is the mapping made above; the advice changes no content.
        let advised = unsafe { madvise(base, mapped, Advice::LinuxHugepage) };
        // A kernel without huge pages serves small ones.
        let _ = advised;
        let base = NonNull::new(base.cast::<u8>()).expect("the kernel maps nothing at address zero");
        let start = base.as_ptr().align_offset(HUGE_PAGE_LEN);
        Ok(Mapping { base, start, len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `start + len` lies within the mapping, which lives as long as `self`; its bytes are
        // initialised (zero pages), and are changed through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.start), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(self.start), self.len) }
    }

    /// Zeroes a range: whole huge pages are released, the rest is written.
    fn zero(&mut self, at: usize, len: usize) {
        let end = at + len;
        let (first, last) =
            (at.next_multiple_of(HUGE_PAGE_LEN).min(end), end / HUGE_PAGE_LEN * HUGE_PAGE_LEN);
        if first >= last {
            self.bytes_mut()[at..end].fill(0);
            return;
        }
        let whole = &mut self.bytes_mut()[first..last];
        // SAFETY: the range is page-aligned, within the mapping, and borrowed mutably: nobody reads it
        // meanwhile. A private anonymous mapping reads as zeros after it.
        let dropped = unsafe { madvise(whole.as_mut_ptr().cast(), whole.len(), Advice::LinuxDontNeed) };
        if dropped.is_err() {
            whole.fill(0);
        }
        self.bytes_mut()[at..first].fill(0);
        self.bytes_mut()[last..end].fill(0);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, whole, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len + HUGE_PAGE_LEN) };
        debug_assert!(unmapped.is_ok(), "the mapping was made in new");
    }
}

impl DriveBackend for MemoryDrive {
    fn read(&self, at: u64, mut buf: Buf) -> Io<Filled> {
        let at = at as usize;
        let len = buf.len();
        buf.copy_from_slice(&self.0.borrow().bytes()[at..at + len]);
        Io::ready(Filled { buf, result: Ok(()) })
    }

    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        let at = at as usize;
        self.0.borrow_mut().bytes_mut()[at..at + data.len()].copy_from_slice(&data);
        Io::ready(Ok(()))
    }

    fn write_vectored(&self, at: u64, list: Vec<Data>) -> Io<Result<(), DriveError>> {
        let mut at = at;
        for data in list {
            let len = data.len() as u64;
            drop(self.write(at, data));
            at += len;
        }
        Io::ready(Ok(()))
    }

    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        self.0.borrow_mut().zero(at as usize, len as usize);
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }

    fn probe(&self) -> Io<Result<(), DriveError>> {
        Io::ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_follows_a_plain_vector() {
        let len = 3 * HUGE_PAGE_LEN;
        let mut drive = Mapping::new(len).expect("mapped");
        let mut plain = vec![0u8; len];
        let mut rng = world::Rng::with_seed(3);
        for step in 0..200u32 {
            let at = rng.usize(0..len / 512) * 512;
            let part = (rng.usize(1..9000) * 512).min(len - at);
            if rng.u8(0..3) == 0 {
                drive.zero(at, part);
                plain[at..at + part].fill(0);
            } else {
                drive.bytes_mut()[at..at + part].fill(step as u8);
                plain[at..at + part].fill(step as u8);
            }
        }
        assert!(drive.bytes() == plain);
    }

    #[test]
    fn a_large_drive_takes_no_memory_until_it_is_written() {
        let drive = open("large", LEN_BYTES_MAX).expect("sparse");
        let read = drive.read(LEN_BYTES_MAX - 4096, Buf::new(4096)).try_now();
        let Ok(filled) = read else { panic!("complete at once") };
        assert!(filled.buf.iter().all(|b| *b == 0));
    }
}
