//! Resync of mirrors after a power failure: copies the mirror that is read to the others where they differ.

use block::BlockError;

use super::{STEP_LEN, Steps, Throttle};
use crate::group::Group;
use crate::inner::{Inner, Layout};
use crate::regions::REGION_BYTES;

// A step lies in one region, where one mirror counts.
const _: () = assert!(REGION_BYTES.is_multiple_of(STEP_LEN));

impl Group {
    /// Compares all mirrors with the one that serves reads, and writes the differences; all mirrors serve
    /// reads again where it has been. I/O continues meanwhile. If the work is told to end, a later call
    /// starts over; so it does where a write failed on all mirrors meanwhile. Does nothing if the mirrors are
    /// known to be equal. Returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// The drive that serves reads failed.
    pub async fn resync(&self, throttle: &Throttle) -> Result<u64, BlockError> {
        self.0.resync(throttle).await
    }
}

impl Inner {
    pub(crate) async fn resync(&self, throttle: &Throttle) -> Result<u64, BlockError> {
        let Layout::Sets(sets) = &self.layout else { return Ok(0) };
        let _turn = self.resync_turn.take(1).await;
        if !self.mirrored() || !self.pinned.get() {
            return Ok(0);
        }
        self.begin_to_equal();
        let mut steps = Steps::begin(self, throttle);
        let (mut at, mut written) = (0, 0);
        while at < self.data_len {
            let equal = self.is_equal_for(at, self.data_len - at);
            if equal > 0 {
                at += equal;
                self.equal_below(at);
                continue;
            }
            let len = STEP_LEN.min(self.data_len - at);
            written += self.sets_resync_step(sets, at, len).await?;
            at += len;
            self.equal_below(at);
            if !steps.resync_step_done(len * self.members.len() as u64).await && at < self.data_len {
                // From here on reads stay with the preferred mirrors.
                return Ok(written);
            }
        }
        self.sets_flush().await?;
        self.are_equal();
        Ok(written)
    }
}
