//! A long range in pieces, some of them in flight.

use std::cell::{Cell, RefCell};

use futures::future::join_all;

use crate::error::CommandError;
use crate::turns::Turns;

/// How a range is cut: bytes of a piece, and how many are in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieced {
    pub(crate) bytes_max: u64,
    pub(crate) in_flight: usize,
}

impl Pieced {
    /// Works on `len` bytes. `piece` gets the offset and the length of each, `done` its length when it has
    /// ended. After a failure no piece begins, and those in flight end. `turns` are those of the whole
    /// command.
    pub(crate) async fn run(
        self,
        len: u64,
        turns: &Turns,
        piece: impl AsyncFn(u64, u64) -> Result<(), CommandError>,
        done: impl Fn(u64),
    ) -> Result<(), CommandError> {
        let (next, failed) = (Cell::new(0), RefCell::new(None));
        let has_more = || next.get() < len && failed.borrow().is_none();
        let worker = async || {
            while has_more() {
                turns.step().await;
                // The others may have taken the rest meanwhile.
                if !has_more() {
                    break;
                }
                let offset = next.get();
                let piece_len = self.bytes_max.min(len - offset);
                next.set(offset + piece_len);
                match piece(offset, piece_len).await {
                    Ok(()) => done(piece_len),
                    Err(error) => _ = failed.borrow_mut().get_or_insert(error),
                }
            }
        };
        join_all((0..self.in_flight).map(|_| worker())).await;
        failed.into_inner().map_or(Ok(()), Err)
    }
}
