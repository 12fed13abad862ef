//! The boundaries of one PDU: lengths, padding and digests of RFC 7143 11.2, checked before any content is
//! used.
//!
//! ```text
//!   | BHS 48 | AHS 0..limit | header digest 0/4 | data 0..limit | padding 0..3 | data digest 0/4 |
//!   |<-------- header_len ------------------->|                                                |
//!   |<---------------------------------- total_len -------------------------------------------->|
//! ```

use crate::digest::{Running, digest};
use crate::pdu::{BHS_LEN, Len24, Pdu};

/// Length limit of additional header segments: an extended CDB of 260 bytes and a bidirectional length
/// (11.2.2) take 272; the field could express 1,020.
pub(crate) const AHS_LEN_MAX: usize = 512;

/// Framing of the PDUs of one direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub header_digest: bool,
    pub data_digest: bool,
    /// The receiver's MaxRecvDataSegmentLength.
    pub data_len_max: usize,
}

/// Why the bytes are not a PDU. The connection is then unusable, because the position of the next PDU is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("additional header segments of {0} bytes exceed the limit")]
    AhsTooLong(usize),
    #[error("data segment of {0} bytes exceeds the limit")]
    DataTooLong(usize),
    #[error("wrong header digest")]
    HeaderDigest,
}

/// The layout of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub header_len: usize,
    pub ahs_len: usize,
    pub data_len: usize,
    pub total_len: usize,
}

impl Framing {
    /// Framing before and during login: no digests, and the default length limit (13.12).
    pub(crate) const LOGIN: Framing = Framing {
        header_digest: false,
        data_digest: false,
        data_len_max: crate::keys::RECV_SEGMENT_LEN_DEFAULT as usize,
    };

    /// Bytes of padding after `len` bytes of data (11.2.3).
    pub(crate) fn padding(len: usize) -> usize {
        len.wrapping_neg() & 3
    }

    /// The layout of the PDU at the front of `bytes`; `None` if its header is incomplete.
    pub(crate) fn layout(&self, bytes: &[u8]) -> Result<Option<Layout>, FrameError> {
        let Some(bhs) = bytes.first_chunk::<BHS_LEN>() else { return Ok(None) };
        let ahs_len = usize::from(bhs[4]) * 4;
        let data_len = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]) as usize;
        if ahs_len > AHS_LEN_MAX {
            return Err(FrameError::AhsTooLong(ahs_len));
        }
        if data_len > self.data_len_max {
            return Err(FrameError::DataTooLong(data_len));
        }
        let header_len = BHS_LEN + ahs_len + if self.header_digest { 4 } else { 0 };
        let tail = if data_len > 0 && self.data_digest { 4 } else { 0 };
        let total_len = header_len + data_len + Framing::padding(data_len) + tail;
        if bytes.len() < header_len {
            return Ok(None);
        }
        if self.header_digest && digest(&bytes[..BHS_LEN + ahs_len]) != bytes[header_len - 4..header_len] {
            return Err(FrameError::HeaderDigest);
        }
        Ok(Some(Layout { header_len, ahs_len, data_len, total_len }))
    }

    /// The PDU of `layout` at the front of `bytes`, which must be complete, and whether its data digest is
    /// correct.
    pub(crate) fn pdu<'a>(&self, bytes: &'a [u8], layout: Layout) -> (Pdu<'a>, bool) {
        let bhs = bytes.first_chunk().expect("the layout was taken from these bytes");
        let ahs = &bytes[BHS_LEN..BHS_LEN + layout.ahs_len];
        let body = &bytes[layout.header_len..layout.total_len];
        let data = &body[..layout.data_len];
        let right = !self.data_digest || data.is_empty() || {
            let (covered, sum) = body.split_at(body.len() - 4);
            digest(covered) == sum
        };
        (Pdu { bhs, ahs, data }, right)
    }
}

impl Layout {
    /// Padding and digest after the data.
    pub(crate) fn tail_len(&self) -> usize {
        self.total_len - self.header_len - self.data_len
    }
}

/// Writes the data length into a header.
pub(crate) fn set_data_len(bhs: &mut [u8; BHS_LEN], len: usize) {
    use zerocopy::IntoBytes;
    bhs[5..8].copy_from_slice(Len24::new(len as u32).as_bytes());
}

/// The data digest of data in several pieces, padding included.
pub(crate) fn digest_of_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> [u8; 4] {
    let mut running = Running::new();
    let mut len = 0;
    for piece in pieces {
        running.add(piece);
        len += piece.len();
    }
    running.add(&[0; 3][..Framing::padding(len)]);
    running.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Framing = Framing { header_digest: true, data_digest: true, data_len_max: 8192 };

    /// A PDU with both digests over 5 bytes of data.
    fn sealed() -> Vec<u8> {
        let mut bytes = vec![0u8; BHS_LEN];
        bytes[7] = 5;
        let header = digest(&bytes);
        bytes.extend(header);
        bytes.extend(b"hello\0\0\0");
        let data = digest(b"hello\0\0\0");
        bytes.extend(data);
        bytes
    }

    #[test]
    fn a_pdu_is_found_with_padding_and_digests() {
        let bytes = sealed();
        for short in 0..BHS_LEN + 4 {
            assert_eq!(BOTH.layout(&bytes[..short]), Ok(None));
        }
        let layout = BOTH.layout(&bytes).unwrap().unwrap();
        assert_eq!((layout.header_len, layout.data_len, layout.total_len, layout.tail_len()), (52, 5, 64, 7));
        let (pdu, right) = BOTH.pdu(&bytes, layout);
        assert_eq!((pdu.data, right), (&b"hello"[..], true));
    }

    #[test]
    fn a_flipped_bit_is_noticed_wherever_it_is() {
        for bit in 0..64 * 8 {
            let mut bytes = sealed();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match BOTH.layout(&bytes) {
                Err(_) | Ok(None) => assert!(bit / 8 < 52, "bit {bit} is not in the header"),
                Ok(Some(layout)) => assert!(!BOTH.pdu(&bytes, layout).1, "bit {bit} is not noticed"),
            }
        }
    }

    #[test]
    fn limits_hold_before_anything_else_is_read() {
        let mut bhs = [0u8; BHS_LEN];
        bhs[4] = 255;
        assert_eq!(BOTH.layout(&bhs), Err(FrameError::AhsTooLong(1020)));
        bhs[4] = 0;
        bhs[5] = 1;
        assert_eq!(BOTH.layout(&bhs), Err(FrameError::DataTooLong(65536)));
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = fastrand::Rng::with_seed(7143);
        let mut whole = 0;
        for round in 0..100_000 {
            let mut bytes = [0u8; 1200];
            rng.fill(&mut bytes);
            if round % 2 == 0 {
                bytes[4] = 0;
                bytes[5..7].fill(0);
            }
            let framing = Framing {
                header_digest: round % 16 == 1,
                data_digest: rng.bool(),
                data_len_max: rng.usize(512..4096),
            };
            let len = rng.usize(..bytes.len());
            if let Ok(Some(layout)) = framing.layout(&bytes[..len])
                && layout.total_len <= len
            {
                let (pdu, _) = framing.pdu(&bytes, layout);
                assert_eq!(pdu.data.len(), layout.data_len);
                whole += 1;
            }
        }
        assert!(whole > 1000, "only {whole} of the rounds read a whole PDU");
    }
}
