//! Scrubbing: everything is read and compared; what does not fit or cannot be read is repaired.

use block::BlockError;

use super::{STEP_LEN, Steps, Throttle};
use crate::group::{Group, Progress};
use crate::inner::Layout;

/// What a scrub found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read from drives and compared.
    pub compared_bytes: u64,
    /// Blocks of 4 KiB (across the drives) whose copies or parity did not agree.
    pub mismatches: u64,
    /// Blocks written again: those that could not be read, and those that did not agree.
    pub repaired: u64,
    /// Blocks that could not be read, and that no redundancy tells.
    pub unrepaired: u64,
}

impl Group {
    /// Reads everything and compares. Of what does not agree, redundancy decides where it can (three mirrors, level 6);
    /// otherwise data are taken as true, and of two mirrors the first. I/O goes on meanwhile.
    pub async fn scrub(&self, throttle: &Throttle) -> Result<Scrubbed, BlockError> {
        let inner = &self.0;
        // A block that was read once after a power cut must not be outvoted.
        inner.resync(throttle).await?;
        let mut steps = Steps::begin(inner, throttle);
        let mut scrubbed = Scrubbed::default();
        let total_bytes = inner.data_len;
        let step = STEP_LEN.next_multiple_of(inner.stripe_unit_bytes.into());
        let mut at = 0;
        while at < total_bytes {
            inner.scrub_progress.set(Some(Progress { position: None, done_bytes: at, total_bytes }));
            let len = step.min(total_bytes - at);
            let outcome = match &inner.layout {
                Layout::Sets(sets) => inner.sets_scrub_step(sets, at, len, &mut scrubbed).await,
                Layout::Rows(rows) => inner.rows_scrub_step(rows, at, len, &mut scrubbed).await,
            };
            if let Err(error) = outcome {
                inner.scrub_progress.set(None);
                return Err(error);
            }
            at += len;
            steps.step_done(len * inner.members.len() as u64).await;
        }
        inner.scrub_progress.set(None);
        block::Device::flush(self).await?;
        Ok(scrubbed)
    }
}
