//! A fixed VHD: payload from the first byte on, and a footer behind it.

use super::SECTOR_BYTES;
use crate::extent::push;
use crate::{Extents, Grant, Map, Source, Step, VdiskError, Wait};

/// The map of a disk that is contiguous in its file: a fixed VHD, or a raw image.
#[derive(Clone, Debug)]
pub struct FixedMap {
    len_bytes: u64,
    /// The bytes behind the payload.
    footer_bytes: u64,
}

impl FixedMap {
    /// A fixed VHD.
    pub fn new(len_bytes: u64) -> FixedMap {
        FixedMap { len_bytes, footer_bytes: super::FOOTER_BYTES as u64 }
    }

    /// A raw image: payload only.
    pub fn raw(len_bytes: u64) -> FixedMap {
        FixedMap { len_bytes, footer_bytes: 0 }
    }
}

impl Map for FixedMap {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn sector_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn block_bytes(&self) -> Option<u64> {
        None
    }

    fn read(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        push(out, at, len, Source::File(at));
        Ok(())
    }

    fn write(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        self.read(at, len, out)
    }

    fn written(&mut self, _at: u64, _len: u64) {}

    fn zero(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        self.read(at, len, out)
    }

    fn load(&mut self, _at: u64, _bytes: &[u8]) -> Result<(), VdiskError> {
        Ok(())
    }

    fn reserve(&mut self, block: u64) -> Result<Grant, VdiskError> {
        Err(VdiskError::NoRoom { cause: format!("block {block} of a fixed image is already allocated") })
    }

    fn give_back(&mut self, _grant: Grant) {}

    fn place(&mut self, _grant: Grant) {}

    fn uncommitted(&self) -> usize {
        0
    }

    fn commit(&mut self) -> Result<Vec<Step>, VdiskError> {
        Ok(vec![Step::Flush])
    }

    fn committed(&mut self) -> bool {
        false
    }

    fn reuse(&mut self) {}

    fn used_len(&self) -> u64 {
        self.len_bytes + self.footer_bytes
    }

    fn extent(&self, _at: u64, len: u64) -> (u64, bool) {
        (len, true)
    }
}
