//! The command descriptor block: bounded access to its big-endian fields.

/// A CDB of up to 16 bytes, zero-padded. Every offset below is a constant of a handler, so none is out of
/// range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdb(pub [u8; 16]);

impl Cdb {
    /// The operation code.
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// The byte at `at`.
    pub fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    /// Whether any bit of `mask` is set in the byte at `at`.
    pub fn bit(&self, at: usize, mask: u8) -> bool {
        self.0[at] & mask != 0
    }

    /// The big-endian field of `width` bytes (at most 8) at `at`.
    pub fn uint(&self, at: usize, width: usize) -> u64 {
        self.0[at..at + width].iter().fold(0, |n, &b| n << 8 | u64::from(b))
    }

    /// Two bytes.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// Four bytes.
    pub fn u32(&self, at: usize) -> u32 {
        self.uint(at, 4) as u32
    }

    /// Eight bytes.
    pub fn u64(&self, at: usize) -> u64 {
        self.uint(at, 8)
    }
}
