//! Target descriptors of a copy (CSCD descriptors, SPC-4 6.4.5): the identification descriptor, type E4h.

use crate::error::CommandError;

/// Length of a target descriptor.
pub(super) const TARGET_LEN: usize = 32;
/// Type code of the identification descriptor.
pub(super) const TYPE_IDENTIFICATION: u8 = 0xE4;
/// Code set (SPC-5 7.7.6.1).
const CODE_SET_BINARY: u8 = 1;
/// Designator type (SPC-5 7.7.6.1).
const DESIGNATOR_NAA: u8 = 3;
/// The longest designator in it.
const DESIGNATOR_LEN_MAX: usize = 20;

/// A logical unit, named by a designator of its VPD page 83h.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its offset in the parameter list.
    pub(super) at: usize,
    /// Peripheral device type.
    pub(super) device_type: u8,
    code_set: u8,
    /// Designator type.
    kind: u8,
    designator: [u8; DESIGNATOR_LEN_MAX],
    len: usize,
    /// The block length that the host assumes; 0 if it does not say.
    pub(super) block_bytes: u32,
}

impl Target {
    /// Parses the descriptor at offset `at`. LU ID TYPE and NUL are obsolete and ignored (SPC-4 6.4.5.1).
    pub(super) fn parse(bytes: &[u8; TARGET_LEN], at: usize) -> Result<Target, CommandError> {
        if bytes[0] != TYPE_IDENTIFICATION {
            return Err(CommandError::UnsupportedTargetDescriptor {
                byte: u16::try_from(at).unwrap_or(u16::MAX),
            });
        }
        let len = usize::from(bytes[7]);
        if len == 0 || len > DESIGNATOR_LEN_MAX {
            return Err(CommandError::parameter(at + 7));
        }
        // A designator of a port or a target device names no logical unit.
        if bytes[5] & 0x30 != 0 {
            return Err(CommandError::parameter(at + 5));
        }
        let mut designator = [0; DESIGNATOR_LEN_MAX];
        designator[..len].copy_from_slice(&bytes[8..8 + len]);
        Ok(Target {
            at,
            device_type: bytes[1] & 0x1F,
            code_set: bytes[4] & 0x0F,
            kind: bytes[5] & 0x0F,
            designator,
            len,
            block_bytes: u32::from_be_bytes([0, bytes[29], bytes[30], bytes[31]]),
        })
    }

    /// The NAA designator of 16 bytes that it is, if it is one.
    pub(super) fn naa(&self) -> Option<[u8; 16]> {
        let naa = *self.designator[..self.len].first_chunk()?;
        self.is_naa(&naa).then_some(naa)
    }

    /// Whether this is the NAA designator of the logical unit: binary, type 3h. It is the only designator
    /// that is unique by construction.
    pub(super) fn is_naa(&self, naa: &[u8]) -> bool {
        (self.code_set, self.kind) == (CODE_SET_BINARY, DESIGNATOR_NAA) && self.designator[..self.len] == *naa
    }
}
