//! After a power cut, brings mirrors together again: what the first one holds goes to the others, where they differ.

use block::BlockError;
use world::{Data, DriveError};

use crate::Level;
use crate::group::{Group, Inner};

/// Compared at once, behind one hold of the range: writes to it wait for two reads and perhaps a write.
const STEP: u64 = 1 << 20;

impl Group {
    /// Compares all mirrors with the one that reads are kept to, and writes what differs; then reads go to all of them again.
    /// I/O goes on meanwhile. Nothing happens when the mirrors are known to be equal. Returns how many bytes were written.
    /// The caller decides when, and how fast: `step_done` is called after each step with the bytes compared so far.
    pub async fn resync<F: Future<Output = ()>>(
        &self,
        mut step_done: impl FnMut(u64) -> F,
    ) -> Result<u64, BlockError> {
        let inner = &self.0;
        let mut written = 0;
        if inner.level != Level::Raid1 || !inner.pinned.get() {
            return Ok(written);
        }
        let mut at = 0;
        while at < inner.data_len {
            let len = STEP.min(inner.data_len - at);
            written += inner.resync_step(at, len).await?;
            at += len;
            step_done(at).await;
        }
        inner.mirror_flush().await?;
        inner.pinned.set(false);
        Ok(written)
    }
}

impl Inner {
    async fn resync_step(&self, at: u64, len: u64) -> Result<u64, BlockError> {
        self.mirrors_begin_to_differ().await?;
        let _held = self.writes.hold(at, len).await;
        let mut first: Option<Data> = None;
        let mut written = 0;
        for m in 0..self.members.len() {
            let Some(drive) = self.members[m].active() else { continue };
            let read = self.read_from(m, at, len as usize).await;
            let outcome = match (&first, read) {
                (_, Err(error @ DriveError::Gone { .. })) => Err(error),
                (None, Ok(data)) => {
                    first = Some(data);
                    Ok(())
                }
                // What the first one cannot read is left as it is: a read finds it on another one, and writes it here.
                (None, Err(_)) => return Ok(written),
                (Some(data), Ok(same)) if data[..] == same[..] => Ok(()),
                (Some(data), _) => {
                    written += len;
                    drive.write(self.data_offset + at, data.clone()).await
                }
            };
            if let Err(error) = outcome {
                self.drop_member(m, &error).await?;
            }
        }
        Ok(written)
    }
}
