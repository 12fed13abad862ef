//! Scrubbing: everything is read and compared. What cannot be read is repaired, what does not fit only where redundancy tells which drive
//! is wrong: where the sides differ and nobody knows, nothing is copied over the other.

use block::BlockError;

use super::{STEP_LEN, Steps, Throttle};
use crate::group::Group;
use crate::inner::Layout;
use crate::status::Progress;

/// What a scrub found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read from drives and compared.
    pub compared_bytes: u64,
    /// Blocks of 4 KiB (across the drives) whose copies or parity did not agree.
    pub mismatches: u64,
    /// Blocks written again: those that could not be read, and those of which redundancy told that they were wrong.
    pub repaired: u64,
    /// Blocks whose copies or parity do not agree, and nobody knows which drive is wrong: left as they are.
    pub differing: u64,
    /// Whether it came to the end of the group, and was not told to end before.
    pub complete: bool,
    /// Where in the group the first of them are.
    first_differing: [Option<u64>; FIRST_MAX],
    /// Blocks that could not be read, and that no redundancy tells.
    pub unrepaired: u64,
}

/// So many places are told.
const FIRST_MAX: usize = 8;

impl Scrubbed {
    /// The addresses in the group of the first blocks that differ.
    pub fn first_differing(&self) -> impl Iterator<Item = u64> + '_ {
        self.first_differing.iter().copied().flatten()
    }

    /// The block at this address of the group differs between drives, and nobody knows which is right.
    pub(crate) fn differs(&mut self, at: u64) {
        self.mismatches += 1;
        self.differing += 1;
        if let Some(free) = self.first_differing.iter_mut().find(|f| f.is_none()) {
            *free = Some(at);
        }
    }
}

impl Group {
    /// Reads everything and compares. What does not agree is repaired where redundancy tells the wrong drive: most of three mirrors or
    /// more, P and Q of level 6. Otherwise it is counted and left as it is: no drive said that it cannot read it, and either side may be
    /// right. The status and the labels keep the count until the next scrub. I/O goes on meanwhile.
    pub async fn scrub(&self, throttle: &Throttle) -> Result<Scrubbed, BlockError> {
        let inner = &self.0;
        // A block that was read once after a power cut must not be outvoted.
        inner.resync(throttle).await?;
        let mut steps = Steps::begin(inner, throttle);
        if !steps.may_go_on().await {
            return Ok(Scrubbed::default());
        }
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
            if !steps.step_done(len * inner.members.len() as u64).await && at < total_bytes {
                inner.scrub_progress.set(None);
                return Ok(scrubbed);
            }
        }
        inner.scrub_progress.set(None);
        scrubbed.complete = true;
        if inner.differing.replace(scrubbed.differing) != scrubbed.differing {
            inner.label_changed();
        }
        block::Device::flush(self).await?;
        Ok(scrubbed)
    }
}
