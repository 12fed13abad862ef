//! One thread's work: a range from beginning to end, one transfer after the other.

use std::io;
use std::os::unix::fs::FileExt;

use crate::buffer::Buffer;
use crate::pattern::Direction;
use crate::target::Stretch;

/// The work of a thread.
pub(crate) struct Work {
    pub(crate) number: u32,
    pub(crate) direction: Direction,
    pub(crate) file_bytes: u64,
    pub(crate) seed: u64,
}

/// Writes or reads the whole range. Returns the number of 4 KiB blocks with wrong content. Written data are
/// on the drive when it returns.
pub(crate) fn work(stretch: &Stretch, buffer: &mut Buffer, work: &Work) -> io::Result<u64> {
    let (mut at, mut wrong) = (0, 0);
    let transfer = buffer.bytes().len() as u64;
    while at < work.file_bytes {
        let len = transfer.min(work.file_bytes - at) as usize;
        match work.direction {
            Direction::Write => {
                let bytes = buffer.stamped(work.seed, work.number, at, len);
                stretch.file.write_all_at(bytes, stretch.from + at)?;
            }
            Direction::Read => {
                stretch.file.read_exact_at(&mut buffer.bytes()[..len], stretch.from + at)?;
                wrong += buffer.wrong(work.seed, work.number, at, len);
            }
        }
        at += len as u64;
    }
    if work.direction == Direction::Write {
        stretch.file.sync_data()?;
    }
    Ok(wrong)
}
