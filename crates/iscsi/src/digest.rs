//! CRC32C digests (RFC 7143 13.1), in the byte order of the wire: the CRC's bits are reflected, its low byte
//! goes first.

use crc_fast::{CrcAlgorithm, Digest};

/// The digest of contiguous bytes, in wire order.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 4] {
    crc_fast::crc32_iscsi(bytes).to_le_bytes()
}

/// A digest over several pieces.
pub(crate) struct Running(Digest);

impl Running {
    pub(crate) fn new() -> Running {
        Running(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> [u8; 4] {
        // A 32-bit CRC in the low half of the crate's 64-bit answer.
        (self.0.finalize() as u32).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_standard() {
        // RFC 7143 appendix A.4: 32 bytes of zeros, of ones, and counting up.
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        let up: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&up), [0x4e, 0x79, 0xdd, 0x46]);
        let mut running = Running::new();
        running.add(&up[..5]);
        running.add(&up[5..]);
        assert_eq!(running.finish(), digest(&up));
    }
}
