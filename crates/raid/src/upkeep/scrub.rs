//! Scrub: reads and compares everything. Unreadable blocks are repaired. Mismatches are repaired only where
//! redundancy decides which drive is wrong; otherwise no side is copied over another.

use block::BlockError;

use super::{STEP_LEN, Steps, Throttle};
use crate::group::Group;
use crate::inner::Layout;
use crate::status::Progress;

/// The result of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read from drives and compared.
    pub compared_bytes: u64,
    /// Blocks of 4 KiB (across the drives) whose copies or parity did not match.
    pub mismatches: u64,
    /// Blocks rewritten: unreadable ones, and those that redundancy proved wrong.
    pub repaired: u64,
    /// Blocks whose copies or parity do not match, and redundancy cannot decide; left alone.
    pub differing: u64,
    /// Whether it reached the end of the group.
    pub complete: bool,
    /// The group addresses of the first of them.
    first_differing: [Option<u64>; FIRST_MAX],
    /// Blocks that could not be read or reconstructed.
    pub unrepaired: u64,
}

/// The number of addresses that are reported.
const FIRST_MAX: usize = 8;

impl Scrubbed {
    /// The group addresses of the first blocks that differ.
    pub fn first_differing(&self) -> impl Iterator<Item = u64> + '_ {
        self.first_differing.iter().copied().flatten()
    }

    /// Records that the block at this group address differs between drives, and redundancy cannot decide.
    pub(crate) fn differs(&mut self, at: u64) {
        self.mismatches += 1;
        self.differing += 1;
        if let Some(free) = self.first_differing.iter_mut().find(|f| f.is_none()) {
            *free = Some(at);
        }
    }
}

impl Group {
    /// Reads and compares everything. Mismatches are repaired where redundancy proves the wrong drive: the
    /// majority of three mirrors or more, P and Q of level 6. Otherwise they are counted and left alone: no
    /// drive reported an error, and either side may be right. Status and labels keep the count until the next
    /// scrub. I/O continues meanwhile.
    ///
    /// # Errors
    ///
    /// A drive failed. What was repaired stays repaired.
    pub async fn scrub(&self, throttle: &Throttle) -> Result<Scrubbed, BlockError> {
        let inner = &self.0;
        // After a power failure, a majority must not overrule a block that was read already.
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
