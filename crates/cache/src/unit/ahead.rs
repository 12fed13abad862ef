//! Read-ahead for sequential streams.

use std::ops::Range;

use block::{BackingStore, Device, Pieces};

use super::state::{State, Unit, WritePolicy, blocks_of};
use crate::segments::Ticket;
use crate::streams::AheadLimits;

/// Length of one read-ahead of the store: a transfer that keeps the drives of a row busy.
const STEP_BYTES: u64 = 1 << 20;

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Records a read, and begins to read what will be requested next.
    pub(super) fn read_ahead(&self, range: &Range<u64>) {
        let (state, config) = (&self.state, &self.cache.config);
        if state.policy.get() == WritePolicy::Off || config.read_ahead_bytes_max == 0 {
            return;
        }
        let limits = AheadLimits {
            unit_bytes: self.geometry().len_bytes,
            stream_bytes_max: config.read_ahead_bytes_max,
            // The other half is earlier read-ahead that is being used.
            budget_bytes: config.read_ahead_bytes() / 2,
        };
        let ahead = state.streams.borrow_mut().note(range.start, range.end - range.start, &limits);
        let Some(ahead) = ahead else { return };
        let mut next = ahead.at;
        while next < ahead.at + ahead.len {
            let len = (ahead.at + ahead.len - next).min(STEP_BYTES);
            let step = next..next + len;
            next = step.end;
            // Data newer than the store are in frames; the store's older version must not outlive them.
            let blocks = blocks_of(&step);
            let frames = self.cache.frames.borrow();
            if frames.any_dirty(state.id, blocks.clone()) || frames.any_destaging(state.id, blocks) {
                continue;
            }
            drop(frames);
            let ticket = state.segments.borrow_mut().reserve(step.start, len);
            if let Some(ticket) = ticket {
                self.cache.world.spawn(read_step_task(state.clone(), ticket));
            }
        }
    }
}

async fn read_step_task<D: BackingStore, J: Device + Clone + 'static>(
    state: std::rc::Rc<State<D, J>>,
    ticket: Ticket,
) {
    let range = ticket.range();
    let mut pieces = Pieces::new();
    let outcome = state.store.read(range.start, (range.end - range.start) as usize, &mut pieces).await;
    match outcome {
        Ok(()) => state.segments.borrow_mut().fill(ticket, pieces),
        // Whoever requests it reads for itself, and gets the error.
        Err(_) => state.segments.borrow_mut().fail(ticket),
    }
    state.arrived.wake_all();
}
