//! Single requests to a drive that is measured, and what can go wrong with them.

use std::collections::VecDeque;
use std::time::Duration;

use lab_core::interrupt::Stop;
use world::{Buf, Data, Drive, DriveError, Io, World};
use world_model::drives::{BLOCK_BYTES, ParameterError};

use crate::drives::fit::FitError;

/// Random reads that tell a disk from flash.
const SAMPLE: usize = 100;
/// A drive with more unreadable places is not measured.
const FAILED_MAX: u64 = 20;
/// The longest write.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// How a drive is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Single requests of a disk's trace; at least 500.
    pub requests: usize,
    /// Whether it is written, too.
    pub writes: Writing,
}

/// Whether a drive is written to be measured: then what is on it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// It is only read.
    None,
    /// If every byte of it is zero.
    IfBlank,
    /// Whatever is on it.
    Any,
}

/// Why a drive was not measured.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum MeasureError {
    #[error("{0}")]
    Drive(#[from] DriveError),
    #[error("too small: {0} bytes; at least 64 MiB are needed")]
    Small(u64),
    #[error(
        "it holds data (within 1 MiB from byte {0} on), and measuring writes would overwrite it; erase it first (blkdiscard), measure \
         reads only, or pass --destroy-data"
    )]
    NotBlank(u64),
    #[error("more than {FAILED_MAX} unreadable places")]
    Unreadable,
    /// Somebody stopped it before there was a result; when, and what was measured.
    #[error("stopped {0}")]
    Stopped(String),
    #[error("{0}")]
    Fit(#[from] FitError),
    #[error("{0}")]
    Parameters(#[from] ParameterError),
}

/// Asks the drive, and counts what it does not give.
pub(super) struct Probe<'a> {
    pub(super) world: &'a World,
    pub(super) drive: &'a Drive,
    /// Looked at between requests.
    pub(super) stop: &'a Stop,
    /// What is written: random, so that nothing below makes it smaller.
    content: Data,
    failed: u64,
}

impl<'a> Probe<'a> {
    /// One that has asked nothing.
    pub(super) fn new(world: &'a World, drive: &'a Drive, stop: &'a Stop) -> Probe<'a> {
        let mut content = Buf::new(WRITE_BYTES_MAX);
        world.random("drive measure, content").fill(&mut content);
        Probe { world, drive, stop, content: content.freeze(), failed: 0 }
    }

    /// Blocks of 512 bytes that every request is a multiple of.
    pub(super) fn unit(&self) -> u64 {
        u64::from(self.drive.info().block_bytes) / BLOCK_BYTES
    }

    /// The capacity in blocks of 512 bytes.
    pub(super) fn len_blocks(&self) -> u64 {
        self.drive.len_bytes() / BLOCK_BYTES
    }

    /// One place of the drive that begins a request of so many blocks.
    pub(super) fn anywhere(&self, rng: &mut world::Rng, blocks: u64) -> u64 {
        let unit = self.unit().max(8);
        rng.u64(..=(self.len_blocks() - blocks) / unit) * unit
    }

    /// Reads, and how long it took; `None`: this place is unreadable.
    pub(super) async fn read(&mut self, block: u64, blocks: u64) -> Result<Option<(Buf, u64)>, MeasureError> {
        let begun = self.world.now();
        let buf = Buf::new((blocks * BLOCK_BYTES) as usize);
        let filled = self.drive.read(block * BLOCK_BYTES, buf).await;
        match filled.result {
            Ok(()) => {
                let took = self.world.now().since(begun).as_nanos() as u64;
                Ok(Some((filled.buf, took)))
            }
            Err(DriveError::Medium { .. }) => self.failed().map(|()| None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads these places with so many under way, and returns the time from the end of the first `uncounted`
    /// to that of the last.
    pub(super) async fn read_many(
        &mut self,
        places: impl IntoIterator<Item = (u64, u64)>,
        depth: usize,
        uncounted: usize,
    ) -> Result<Duration, MeasureError> {
        let (world, drive) = (self.world, self.drive);
        let begin = |(block, blocks): (u64, u64)| {
            drive.read(block * BLOCK_BYTES, Buf::new((blocks * BLOCK_BYTES) as usize))
        };
        let mut coming = places.into_iter();
        let mut under_way: VecDeque<_> = coming.by_ref().take(depth).map(begin).collect();
        let (mut begun, mut ended) = (world.now(), 0);
        while let Some(filled) = under_way.pop_front() {
            match filled.await.result {
                Err(DriveError::Medium { .. }) => self.failed()?,
                result => result?,
            }
            ended += 1;
            if ended == uncounted {
                begun = world.now();
            }
            under_way.extend(coming.next().map(begin));
        }
        Ok(world.now().since(begun).max(Duration::from_nanos(1)))
    }

    /// Writes this much of something.
    pub(super) fn write(&self, block: u64, blocks: u64) -> Io<Result<(), DriveError>> {
        self.drive.write(block * BLOCK_BYTES, self.content.slice(..(blocks * BLOCK_BYTES) as usize))
    }

    /// Counts an unreadable place.
    pub(super) fn failed(&mut self) -> Result<(), MeasureError> {
        self.failed += 1;
        if self.failed > FAILED_MAX { Err(MeasureError::Unreadable) } else { Ok(()) }
    }

    /// Whether nobody stops the measurement; `when` says what there is.
    ///
    /// # Errors
    /// Somebody does.
    pub(super) fn go_on(&self, when: impl Into<String>) -> Result<(), MeasureError> {
        if self.stop.is_asked() { Err(MeasureError::Stopped(when.into())) } else { Ok(()) }
    }

    /// The median time of a random read.
    pub(super) async fn median_read_ns(&mut self) -> Result<u64, MeasureError> {
        let mut rng = self.world.random("drive measure, sample");
        let mut times = Vec::with_capacity(SAMPLE);
        while times.len() < SAMPLE {
            self.go_on("before anything was measured")?;
            let block = self.anywhere(&mut rng, 8);
            times.extend(self.read(block, 8).await?.map(|(_, ns)| ns));
        }
        times.sort_unstable();
        Ok(times[SAMPLE / 2])
    }

    /// Reads all that may hold data.
    ///
    /// # Errors
    /// Something is not zero, or cannot be read.
    pub(super) async fn check_blank(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), MeasureError> {
        const PIECE: u64 = (1 << 20) / BLOCK_BYTES;
        const TOLD_AFTER: u64 = (64 << 30) / BLOCK_BYTES;
        let unit = self.unit();
        let all = std::iter::once(0..self.drive.len_bytes());
        let filled = self.drive.data_ranges().await?.unwrap_or_else(|| all.collect());
        progress("whether it reads as zeros");
        let mut read = 0;
        for range in filled {
            let end = range.end.div_ceil(BLOCK_BYTES).next_multiple_of(unit).min(self.len_blocks());
            let mut block = range.start / BLOCK_BYTES / unit * unit;
            while block < end {
                self.go_on("before anything was measured or written")?;
                let blocks = PIECE.min(end - block);
                match self.read(block, blocks).await? {
                    Some((buf, _)) if buf.iter().all(|byte| *byte == 0) => {}
                    _ => return Err(MeasureError::NotBlank(block * BLOCK_BYTES)),
                }
                block += blocks;
                if read / TOLD_AFTER < (read + blocks) / TOLD_AFTER {
                    progress(&format!(
                        "whether it reads as zeros: so far, at {} GiB",
                        (block * BLOCK_BYTES) >> 30
                    ));
                }
                read += blocks;
            }
        }
        Ok(())
    }
}
