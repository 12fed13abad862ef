//! The 512 bytes of a token (SPC-4 5.17.6.5), and its keyed check against forgery.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | ROD type |
//! | 6..8 | length of what follows, 1F8h |
//! | 8..16 | copy manager ROD token identifier: a count |
//! | 16..48 | creator: an identification descriptor with the NAA of the logical unit |
//! | 48..64 | number of bytes represented |
//! | 96..128 | block length, provisioning, as READ CAPACITY(16) has them |
//! | 128..448 | target device: a designation descriptor with its name, then zeros |
//! | 448..456 | which store made it |
//! | 456..472 | 128 bits that nobody can guess |
//! | 480..512 | SHA-256 over the store's key and everything before |
//!
//! The key is generated with the store and never leaves it. Hashing the key as a prefix is sound here because
//! the hashed data have one fixed length.

use sha2::{Digest, Sha256};

use crate::designator::target_device;
use crate::error::TokenFault;

/// Length of a token.
pub(crate) const TOKEN_LEN: usize = 512;
/// Bytes 6..8 of every token: the length of the rest.
const LENGTH_FIELD: u16 = (TOKEN_LEN - 8) as u16;
const TARGET_AT: usize = 128;
const TAG_AT: usize = 448;
const TAG_LEN: usize = 8;
const SECRET_AT: usize = TAG_AT + TAG_LEN;
const SECRET_LEN: usize = 16;
const CHECK_AT: usize = 480;
/// Length of the keyed check.
pub(super) const CHECK_LEN: usize = TOKEN_LEN - CHECK_AT;
const _: () = assert!(SECRET_AT + SECRET_LEN <= CHECK_AT && CHECK_LEN == 32);

/// A token on the wire.
pub(crate) type Token = [u8; TOKEN_LEN];

/// SPC-4 table of ROD types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RodType(pub(crate) u32);

impl RodType {
    /// The data at the time of creation; the array creates only these.
    pub(crate) const POINT_IN_TIME: RodType = RodType(0x0080_0000);
    /// Any kind of point in time copy, chosen by the copy manager.
    pub(crate) const POINT_IN_TIME_ANY: RodType = RodType(0x0080_FFFF);
    /// Unlimited zeros; a well known token (SBC-4 4.30.4).
    pub(crate) const BLOCK_ZERO: RodType = RodType(0xFFFF_0001);

    /// The type of a token.
    pub(crate) fn of(token: &Token) -> RodType {
        RodType(u32::from_be_bytes(token[..4].try_into().expect("four bytes")))
    }
}

/// The public properties of a token's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// The iSCSI name of the array.
    pub(super) target: &'a str,
    pub(super) naa: [u8; 16],
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) physical_block_exponent: u8,
    pub(super) thin: bool,
}

/// The key of a store.
pub(super) struct Key([u8; 32]);

impl Key {
    /// A key from random bytes.
    pub(super) fn new(random: [u8; 32]) -> Key {
        Key(random)
    }

    /// The token number `count` of this store.
    pub(super) fn mint(&self, count: u64, facts: &Facts<'_>) -> Token {
        let mut token = [0; TOKEN_LEN];
        token[..4].copy_from_slice(&RodType::POINT_IN_TIME.0.to_be_bytes());
        token[6..8].copy_from_slice(&LENGTH_FIELD.to_be_bytes());
        token[8..16].copy_from_slice(&count.to_be_bytes());
        // SPC-4 6.4.5.8: code set binary, designator type NAA.
        (token[16], token[20], token[21], token[23]) = (0xE4, 1, 3, 16);
        token[24..40].copy_from_slice(&facts.naa);
        token[44..48].copy_from_slice(&facts.block_bytes.to_be_bytes());
        token[56..64].copy_from_slice(&facts.bytes.to_be_bytes());
        token[96..100].copy_from_slice(&facts.block_bytes.to_be_bytes());
        token[101] = facts.physical_block_exponent & 0x0F;
        // LBPME and LBPRZ.
        token[102] = if facts.thin { 0xC0 } else { 0 };
        let target = target_device(facts.target);
        token[TARGET_AT..][..target.len()].copy_from_slice(&target);
        token[TAG_AT..SECRET_AT].copy_from_slice(&self.tag());
        let secret = self.hash(b"secret", &count.to_be_bytes());
        token[SECRET_AT..SECRET_AT + SECRET_LEN].copy_from_slice(&secret[..SECRET_LEN]);
        let check = self.hash(b"check", &token[..CHECK_AT]);
        token[CHECK_AT..].copy_from_slice(&check);
        token
    }

    /// Verifies that this store made the token and nobody changed it.
    pub(super) fn verify(&self, token: &Token) -> Result<[u8; CHECK_LEN], TokenFault> {
        if RodType::of(token) != RodType::POINT_IN_TIME {
            return Err(TokenFault::UnsupportedTokenType);
        }
        if token[6..8] != LENGTH_FIELD.to_be_bytes() {
            return Err(TokenFault::InvalidLength);
        }
        if token[TAG_AT..SECRET_AT] != self.tag() {
            return Err(TokenFault::Unknown);
        }
        let check = self.hash(b"check", &token[..CHECK_AT]);
        if token[CHECK_AT..] == check { Ok(check) } else { Err(TokenFault::Corrupt) }
    }

    fn tag(&self) -> [u8; TAG_LEN] {
        *self.hash(b"store", &[]).first_chunk().expect("a hash is longer")
    }

    fn hash(&self, purpose: &[u8], bytes: &[u8]) -> [u8; CHECK_LEN] {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update([purpose.len() as u8]);
        hash.update(purpose);
        hash.update(bytes);
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts<'static> {
        Facts {
            target: "iqn.2026-11.test:array",
            naa: [0x61; 16],
            bytes: 1 << 20,
            block_bytes: 512,
            physical_block_exponent: 3,
            thin: true,
        }
    }

    #[test]
    fn every_changed_byte_is_found() {
        let key = Key::new([7; 32]);
        let token = key.mint(1, &facts());
        let check = key.verify(&token).expect("its own");
        assert_eq!(token[CHECK_AT..], check);
        for at in 0..TOKEN_LEN {
            let mut changed = token;
            changed[at] ^= 0x10;
            let fault = key.verify(&changed).expect_err("changed");
            let expected = match at {
                0..4 => TokenFault::UnsupportedTokenType,
                6..8 => TokenFault::InvalidLength,
                TAG_AT..SECRET_AT => TokenFault::Unknown,
                _ => TokenFault::Corrupt,
            };
            assert_eq!(fault, expected, "byte {at}");
        }
    }

    #[test]
    fn a_token_names_the_array_that_made_it() {
        let descriptor = |target: &str| {
            let token = Key::new([7; 32]).mint(1, &Facts { target, ..facts() });
            let len = 4 + usize::from(token[TARGET_AT + 3]);
            assert!(token[TARGET_AT + len..TAG_AT].iter().all(|byte| *byte == 0));
            token[TARGET_AT..TARGET_AT + len].to_vec()
        };
        // Protocol identifier iSCSI, UTF-8; PIV, association target device, SCSI name string.
        let short = descriptor("iqn.2026-11.test:array");
        assert_eq!(short[..4], [0x53, 0xa8, 0, 24]);
        assert_eq!(&short[4..], b"iqn.2026-11.test:array\0\0");
        // The longest iSCSI name.
        assert_eq!(descriptor(&"n".repeat(223)).len(), 4 + 224);
    }

    #[test]
    fn tokens_differ_and_belong_to_one_store() {
        let key = Key::new([7; 32]);
        let (one, two) = (key.mint(1, &facts()), key.mint(2, &facts()));
        assert_ne!(one[SECRET_AT..CHECK_AT], two[SECRET_AT..CHECK_AT]);
        assert_eq!(Key::new([8; 32]).verify(&one), Err(TokenFault::Unknown));
    }
}
