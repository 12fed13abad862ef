//! RAID 0: where the bytes of a range lie, and the operations that move them.
//!
//! The units of one range on one drive follow each other without a gap, so that every range is at most one extent per
//! drive, and every drive gets one read.

use block::{BlockError, Buf, Data, Pieces};
use smallvec::SmallVec;
use world::{BUF_LEN_MAX, DriveError, Filled, Io};

use crate::group::Inner;
use crate::segments::segments;

/// The striping of a group: pure arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripes {
    pub(crate) unit: u64,
    pub(crate) width: u64,
}

/// A range on one drive, in bytes from the start of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) drive: usize,
    pub(crate) from: u64,
    pub(crate) len: u64,
}

/// A run of bytes of the group within one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) drive: usize,
    /// Where it lies on the drive, from the start of its data.
    pub(crate) from: u64,
    pub(crate) len: u64,
}

impl Stripes {
    /// The extent of `at..at + len` on drive `d`, if it has one.
    pub(crate) fn extent(&self, d: usize, at: u64, len: u64) -> Option<Extent> {
        let (n, unit, d64) = (self.width, self.unit, d as u64);
        let last_byte = at + len - 1;
        let (u0, u1) = (at / unit, last_byte / unit);
        let first = u0 + (d64 + n - u0 % n) % n;
        if first > u1 {
            return None;
        }
        let last = u1 - (u1 % n + n - d64) % n;
        let from = first / n * unit + if first == u0 { at % unit } else { 0 };
        let end = last / n * unit + if last == u1 { last_byte % unit + 1 } else { unit };
        Some(Extent { drive: d, from, len: end - from })
    }

    /// The extents of a range, by drive.
    pub(crate) fn extents(&self, at: u64, len: u64) -> impl Iterator<Item = Extent> + use<> {
        let stripes = *self;
        (0..self.width as usize).filter_map(move |d| stripes.extent(d, at, len))
    }

    /// The runs of a range in the order of the group's addresses.
    pub(crate) fn runs(&self, at: u64, len: u64) -> impl Iterator<Item = Run> + use<> {
        let (unit, n, end) = (self.unit, self.width, at + len);
        let mut next = at;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let (u, within) = (next / unit, next % unit);
            let len = (unit - within).min(end - next);
            next += len;
            Some(Run { drive: (u % n) as usize, from: u / n * unit + within, len })
        })
    }
}

type Writes = SmallVec<[Io<Result<(), DriveError>>; 8]>;

impl Inner {
    pub(crate) async fn stripe_read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        let end = at + len as u64;
        let mut next = at;
        while next < end {
            let n = (end - next).min(BUF_LEN_MAX as u64);
            self.stripe_read_step(next, n, out).await?;
            next += n;
        }
        Ok(())
    }

    async fn stripe_read_step(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), BlockError> {
        let stripes = self.stripes();
        let mut reads: SmallVec<[(Extent, Io<Filled>); 4]> = SmallVec::new();
        for extent in stripes.extents(at, len) {
            let io = self
                .serving(extent.drive)?
                .read(self.data_offset + extent.from, Buf::new(extent.len as usize));
            reads.push((extent, io));
        }
        let mut filled: SmallVec<[(Extent, Data); 4]> = SmallVec::new();
        for (extent, io) in reads {
            let Filled { buf, result } = io.await;
            result.map_err(|error| self.stripe_failure(extent.drive, at, error))?;
            filled.push((extent, buf.freeze()));
        }
        if let [(_, one)] = filled.as_slice() {
            out.push(one.clone());
            return Ok(());
        }
        for run in stripes.runs(at, len) {
            let (extent, data) =
                filled.iter().find(|(e, _)| e.drive == run.drive).expect("every run lies in an extent");
            let from = (run.from - extent.from) as usize;
            out.push(data.slice(from..from + run.len as usize));
        }
        Ok(())
    }

    pub(crate) async fn stripe_write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        let stripes = self.stripes();
        let mut writes = Writes::new();
        for extent in stripes.extents(at, data.len() as u64) {
            let drive = self.serving(extent.drive)?;
            let gathered;
            let part = if extent.len == data.len() as u64 {
                data
            } else {
                gathered = gather(&stripes, extent.drive, at, data);
                &gathered
            };
            let mut to = self.data_offset + extent.from;
            for segment in segments(part, drive.info().block_bytes as usize) {
                let n = segment.len() as u64;
                writes.push(drive.write(to, segment));
                to += n;
            }
        }
        self.stripe_await(at, writes).await
    }

    pub(crate) async fn stripe_zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let mut writes = Writes::new();
        for extent in self.stripes().extents(at, len) {
            writes.push(self.serving(extent.drive)?.zero(self.data_offset + extent.from, extent.len));
        }
        self.stripe_await(at, writes).await
    }

    pub(crate) async fn stripe_flush(&self) -> Result<(), BlockError> {
        let mut flushes = Writes::new();
        for d in 0..self.members.len() {
            flushes.push(self.serving(d)?.flush());
        }
        self.stripe_await(0, flushes).await
    }

    /// Waits for all, so that nothing is in flight when the caller hears of the first failure.
    async fn stripe_await(&self, at: u64, writes: Writes) -> Result<(), BlockError> {
        let mut outcome = Ok(());
        for io in writes {
            if let Err(error) = io.await {
                let d = self.member_named(&error);
                outcome = outcome.and(Err(self.stripe_failure(d, at, error)));
            }
        }
        outcome
    }

    /// There is nothing to fall back on: a medium error is the caller's, a drive that is gone ends the group.
    fn stripe_failure(&self, d: usize, at: u64, error: DriveError) -> BlockError {
        match error {
            DriveError::Medium { .. } => BlockError::Unreadable { at, cause: error.to_string() },
            DriveError::NoRoom { .. } => error.into(),
            DriveError::Gone { .. } => {
                self.mark_failed(d, &error);
                self.failure()
            }
        }
    }
}

/// The bytes of `data` (which begins at `at`) that lie on one drive, in the order of the drive.
fn gather(stripes: &Stripes, drive: usize, at: u64, data: &Pieces) -> Pieces {
    let mut out = Pieces::new();
    let mut from = 0;
    for run in stripes.runs(at, data.len() as u64) {
        if run.drive == drive {
            out.append(data.slice(from, run.len as usize));
        }
        from += run.len as usize;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arithmetic against a byte-by-byte (unit-by-unit) walk.
    #[test]
    fn extents_are_what_a_walk_over_the_runs_finds() {
        for width in 1..5 {
            let stripes = Stripes { unit: 4096, width };
            for at in (0..40_000).step_by(512) {
                for len in [512, 4096, 4608, 20_480, 33_280] {
                    for d in 0..width as usize {
                        let runs: Vec<Run> = stripes.runs(at, len).filter(|r| r.drive == d).collect();
                        let walked = runs.first().map(|first| {
                            let len = runs.iter().map(|r| r.len).sum();
                            Extent { drive: d, from: first.from, len }
                        });
                        assert_eq!(
                            stripes.extent(d, at, len),
                            walked,
                            "width {width}, {len} at {at} on drive {d}"
                        );
                    }
                }
            }
        }
    }
}
