//! One thread's work: a stretch, from its beginning to its end, one transfer after the other.

use std::io;
use std::os::unix::fs::FileExt;

use crate::buffer::Buffer;
use crate::pattern::Direction;
use crate::target::Stretch;

/// What a thread does.
pub(crate) struct Work {
    pub(crate) number: u32,
    pub(crate) direction: Direction,
    pub(crate) file_bytes: u64,
    pub(crate) seed: u64,
}

/// Writes or reads the whole stretch. Gives the blocks of 4 KiB that were not what was written there. What was written is on the drive
/// when it returns.
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
