//! After a power cut, brings mirrors together again: what the first one holds goes to the others, where they differ.

use block::BlockError;

use super::{STEP_LEN, Throttle};
use crate::group::Group;
use crate::inner::Layout;

impl Group {
    /// Compares all mirrors with the one that reads are kept to, and writes what differs; then reads go to all of them again.
    /// I/O goes on meanwhile. Nothing happens when the mirrors are known to be equal. Returns how many bytes were written.
    pub async fn resync(&self, throttle: &Throttle) -> Result<u64, BlockError> {
        let inner = &self.0;
        let Layout::Sets(sets) = &inner.layout else { return Ok(0) };
        if !inner.mirrored() || !inner.pinned.get() {
            return Ok(0);
        }
        let (mut at, mut written) = (0, 0);
        while at < inner.data_len {
            let (began, foreground) = (throttle.now(), inner.foreground.get());
            let len = STEP_LEN.min(inner.data_len - at);
            written += inner.sets_resync_step(sets, at, len).await?;
            at += len;
            throttle.step_done(began, inner.foreground.get() != foreground).await;
        }
        inner.sets_flush().await?;
        inner.pinned.set(false);
        Ok(written)
    }
}
