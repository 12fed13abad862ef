//! Byte-granular access to a device: partial sectors are read, modified and written.

use block::{BlockError, Device, Pieces, RangeLocks};

/// Length of one zeroing operation: zeroing a whole disk takes time, and other requests run in between.
const ZERO_BYTES_MAX: u64 = 256 << 20;

/// A device, and the locks of its partially written sectors. Writes of whole sectors are not ordered among
/// each other, as on any disk; a partial write has its sector alone.
pub(crate) struct Sectors<D> {
    device: D,
    block: u64,
    locks: RangeLocks,
}

impl<D: Device> Sectors<D> {
    pub(crate) fn new(device: D) -> Sectors<D> {
        let block = device.geometry().block_bytes.into();
        Sectors { device, block, locks: RangeLocks::default() }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// The sectors that contain a range of bytes.
    fn around(&self, at: u64, len: u64) -> std::ops::Range<u64> {
        at - at % self.block..(at + len).next_multiple_of(self.block)
    }

    /// Whether the range consists of whole sectors.
    fn is_whole(&self, at: u64, len: u64) -> bool {
        self.around(at, len) == (at..at + len)
    }

    pub(crate) async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        if self.is_whole(at, len as u64) {
            return self.device.read(at, len, out).await;
        }
        let whole = self.around(at, len as u64);
        let mut sectors = Pieces::new();
        self.device.read(whole.start, (whole.end - whole.start) as usize, &mut sectors).await?;
        out.append(sectors.slice((at - whole.start) as usize, len));
        Ok(())
    }

    pub(crate) async fn write(&self, at: u64, data: Pieces) -> Result<(), BlockError> {
        let len = data.len() as u64;
        let whole = self.around(at, len);
        if self.is_whole(at, len) {
            let _held = self.locks.shared(whole).await;
            return self.device.write(at, &data).await;
        }
        let _held = self.locks.exclusive(whole.clone()).await;
        let (before, after) = (at - whole.start, whole.end - (at + len));
        let (mut all, mut last) = (Pieces::new(), Pieces::new());
        if before > 0 {
            let mut first = Pieces::new();
            self.device.read(whole.start, self.block as usize, &mut first).await?;
            all.append(first.slice(0, before as usize));
        }
        all.append(data);
        if after > 0 {
            self.device.read(whole.end - self.block, self.block as usize, &mut last).await?;
            all.append(last.slice((self.block - after) as usize, after as usize));
        }
        self.device.write(whole.start, &all.joined().into()).await
    }

    pub(crate) async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let end = at + len;
        let (from, to) = (at.next_multiple_of(self.block), end - end % self.block);
        if from >= to {
            return self.write_zeros(at, len).await;
        }
        self.write_zeros(at, from - at).await?;
        let mut done = from;
        while done < to {
            let n = (to - done).min(ZERO_BYTES_MAX);
            let _held = self.locks.shared(done..done + n).await;
            self.device.zero(done, n).await?;
            done += n;
        }
        self.write_zeros(to, end - to).await
    }

    /// Zeroes within one sector or two.
    async fn write_zeros(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let mut zeros = Pieces::new();
        zeros.push_zeros(len as usize);
        if zeros.is_empty() { Ok(()) } else { self.write(at, zeros).await }
    }
}

#[cfg(test)]
mod tests;
