//! Frames, byte by byte.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | length of what follows, little endian: at most [`FRAME_MAX`](super::FRAME_MAX) |
//! | 4..8 | length of the header, little endian |
//! | then | the header: JSON |
//! | then | the payload: the bytes of one command, or none |

use block::Pieces;

use super::error::RemoteError;
use super::limits::FRAME_MAX;
use super::messages::Header;

/// The length of a length.
const LEN: usize = 4;

/// A header and its payload as a frame, length field included.
pub(super) fn encode(header: &Header, payload: &Pieces) -> Result<Vec<u8>, String> {
    let mut frame = vec![0; 2 * LEN];
    serde_json::to_writer(&mut frame, header).map_err(|error| error.to_string())?;
    let header_len = frame.len() - 2 * LEN;
    let len = LEN + header_len + payload.len();
    if len > FRAME_MAX {
        return Err(format!("{len} bytes are too many for a message to another node (at most {FRAME_MAX})"));
    }
    frame.reserve_exact(payload.len());
    payload.iter().for_each(|data| frame.extend_from_slice(data));
    // Both are at most FRAME_MAX.
    frame[..LEN].copy_from_slice(&(len as u32).to_le_bytes());
    frame[LEN..2 * LEN].copy_from_slice(&(header_len as u32).to_le_bytes());
    Ok(frame)
}

/// The header and the payload of a frame without its length field.
pub(super) fn decode(frame: &[u8]) -> Result<(Header, &[u8]), RemoteError> {
    if frame.len() > FRAME_MAX {
        return Err(RemoteError::TooLong { len: frame.len() });
    }
    let (len, rest) =
        frame.split_first_chunk::<LEN>().ok_or_else(|| RemoteError::malformed("it has no header"))?;
    let (header, payload) = rest
        .split_at_checked(u32::from_le_bytes(*len) as usize)
        .ok_or_else(|| RemoteError::malformed("its header is longer than it is"))?;
    let header = serde_json::from_slice(header).map_err(RemoteError::malformed)?;
    Ok((header, payload))
}
