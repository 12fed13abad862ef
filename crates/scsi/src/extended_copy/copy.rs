//! Copies one range from a logical unit to another, or within one: in pieces, each under its locks.

use std::rc::Rc;

use block::{Pieces, RangeGuard};
use lu::{CommandContext, Copied, Durability, LogicalDisk};

use super::limits::{OVERLAP_PIECE_BYTES_MAX, PIECE_BYTES_MAX, PIECES_IN_FLIGHT};
use super::pieces::Pieced;
use crate::error::CommandError;
use crate::turns::Turns;
use crate::unit::LogicalUnit;

/// A range to copy, in bytes, within both logical units.
pub(crate) struct Copy<'a, D: LogicalDisk> {
    pub(crate) command: CommandContext<'a>,
    pub(crate) source: &'a Rc<LogicalUnit<D>>,
    pub(crate) from: u64,
    pub(crate) destination: &'a Rc<LogicalUnit<D>>,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl<D: LogicalDisk> Copy<'_, D> {
    /// Copies the range. `go_on` is called before every piece, `done` gets the bytes of every piece.
    pub(crate) async fn run(
        &self,
        turns: &Turns,
        go_on: impl Fn() -> Result<(), CommandError>,
        done: impl Fn(u64),
    ) -> Result<(), CommandError> {
        go_on()?;
        let within_one = self.is_within_one();
        if within_one && self.from == self.at {
            done(self.len);
            return Ok(());
        }
        let overlaps = within_one && self.from.abs_diff(self.at) < self.len;
        let pieces = match overlaps {
            // Each piece is copied before the next one overwrites its source.
            true => Pieced { bytes_max: OVERLAP_PIECE_BYTES_MAX, in_flight: 1 },
            false => Pieced { bytes_max: PIECE_BYTES_MAX, in_flight: PIECES_IN_FLIGHT },
        };
        // A range that moves towards higher addresses over itself is copied from its end.
        let backward = overlaps && self.at > self.from;
        let piece = async |so_far, len| {
            let offset = if backward { self.len - so_far - len } else { so_far };
            let _locked = self.lock(offset, len).await;
            go_on()?;
            let copied = self.copy_piece(offset, len, overlaps).await?;
            self.destination.counting.moved_bytes.add(copied.moved_bytes);
            self.destination.counting.shared_bytes.add(copied.shared_bytes);
            Ok(())
        };
        pieces.run(self.len, turns, piece, done).await?;
        Ok(self.destination.flush_if_asked(false).await?)
    }

    fn is_within_one(&self) -> bool {
        Rc::ptr_eq(self.source, self.destination)
    }

    async fn copy_piece(&self, offset: u64, len: u64, overlaps: bool) -> Result<Copied, CommandError> {
        let (from, at) = (self.from + offset, self.at + offset);
        if !overlaps {
            return Ok(self
                .destination
                .disk
                .copy_from(self.command, &self.source.disk, from, at, len)
                .await?);
        }
        // The whole piece is read before any of it is overwritten.
        let mut data = Pieces::new();
        self.source.disk.read(self.command, from, len as usize, &mut data).await?;
        self.destination.disk.write(self.command, at, &data, Durability::Volatile).await?;
        Ok(Copied { shared_bytes: 0, moved_bytes: len })
    }

    /// Locks both ranges like readers and writers, against COMPARE AND WRITE. Two copies in opposite
    /// directions must not deadlock behind a third command: within one logical unit both places in the queue
    /// are taken at once; with two, the one with the smaller identity is locked first.
    async fn lock(&self, offset: u64, len: u64) -> (RangeGuard<'_>, RangeGuard<'_>) {
        let of_source = || self.source.locks.shared(self.from + offset..self.from + offset + len);
        let of_destination = || self.destination.locks.write(self.at + offset..self.at + offset + len);
        if self.is_within_one() {
            let (first, second) = (of_source(), of_destination());
            (first.await, second.await)
        } else if self.source.identity.naa <= self.destination.identity.naa {
            (of_source().await, of_destination().await)
        } else {
            (of_destination().await, of_source().await)
        }
    }
}

/// Reads a piece that a copy carries elsewhere. It waits for running commands on these blocks, as a read
/// does; `admit` is asked when they have ended.
pub(crate) async fn read_piece<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    command: CommandContext<'_>,
    (at, len): (u64, u64),
    admit: impl FnOnce() -> Result<(), CommandError>,
) -> Result<Pieces, CommandError> {
    let _locked = lu.locks.shared(at..at + len).await;
    admit()?;
    let mut data = Pieces::new();
    lu.disk.read(command, at, len as usize, &mut data).await?;
    Ok(data)
}

/// Writes and counts a piece that a copy brings from elsewhere, likewise.
pub(crate) async fn write_piece<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    command: CommandContext<'_>,
    (at, data): (u64, &Pieces),
    admit: impl FnOnce() -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let len = data.len() as u64;
    let _locked = lu.locks.write(at..at + len).await;
    admit()?;
    lu.disk.write(command, at, data, lu.durability(false)).await?;
    lu.counting.moved_bytes.add(len);
    Ok(())
}
