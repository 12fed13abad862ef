//! After a power cut, brings mirrors together again: what the first one holds goes to the others, where they differ.

use block::BlockError;

use super::{STEP_LEN, Steps, Throttle};
use crate::group::Group;
use crate::inner::{Inner, Layout};

impl Group {
    /// Compares all mirrors with the one that reads are kept to, and writes what differs; then reads go to all of them again.
    /// I/O goes on meanwhile. Work that is told to end leaves it at that: a later call begins anew. Nothing happens when the mirrors are known to be equal. Returns how many bytes were written.
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
        let mut steps = Steps::begin(self, throttle);
        let (mut at, mut written) = (0, 0);
        while at < self.data_len {
            let len = STEP_LEN.min(self.data_len - at);
            written += self.sets_resync_step(sets, at, len).await?;
            at += len;
            if !steps.step_done(len * self.members.len() as u64).await && at < self.data_len {
                // Reads stay with one mirror.
                return Ok(written);
            }
        }
        self.sets_flush().await?;
        self.pinned.set(false);
        Ok(written)
    }
}
