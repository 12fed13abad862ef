//! The journal: one frame per commit, in the half of the current generation.
//!
//! ```text
//!   generation g      half g % 2:   │ frame │ frame │ … │ frame LAST │
//!   generation g + 1  half (g+1)%2: │ frame │ …      <── while checkpoint g + 1 is being written
//! ```
//!
//! A frame has the pool, the generation and the commit number, and a checksum over all of it. A frame of an
//! earlier round, or a torn one, is therefore never taken for the next one.

use block::{BlockError, Buf};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PoolId;
use crate::layout::METADATA_BLOCK;
use crate::superblock::{checksum, checksum_without};

const MAGIC: [u8; 8] = *b"MASUJRNL";
const FLAG_LAST: u32 = 1;
pub(crate) const HEADER_LEN: usize = 64;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    crc32c: U32,
    flags: U32,
    pool_id: [u8; 16],
    generation: U64,
    sequence: U64,
    payload_len: U32,
    reserved: [u8; 12],
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

/// A commit's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    /// The next commit is in the other half, with the next generation.
    pub(crate) last: bool,
}

/// The journal space of a frame with this much payload.
pub(crate) fn frame_len(payload_len: usize) -> u64 {
    ((HEADER_LEN + payload_len) as u64).next_multiple_of(METADATA_BLOCK)
}

/// Encodes the frame.
pub(crate) fn encode(pool_id: PoolId, frame: Frame, payload: &[u8]) -> Buf {
    let mut header = Header {
        magic: MAGIC,
        crc32c: 0.into(),
        flags: if frame.last { FLAG_LAST } else { 0 }.into(),
        pool_id: pool_id.0,
        generation: frame.generation.into(),
        sequence: frame.sequence.into(),
        payload_len: (payload.len() as u32).into(),
        reserved: [0; 12],
    };
    let mut buf = Buf::new(frame_len(payload.len()) as usize);
    let end = HEADER_LEN + payload.len();
    buf[HEADER_LEN..end].copy_from_slice(payload);
    buf[end..].fill(0);
    buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
    header.crc32c = checksum(&buf[..end]).into();
    buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
    buf
}

/// The valid frame of this pool at the beginning of `bytes`, with its payload.
fn decode(pool_id: PoolId, bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let (header, rest) = Header::ref_from_prefix(bytes).ok()?;
    if header.magic != MAGIC || header.pool_id != pool_id.0 {
        return None;
    }
    let payload = rest.get(..header.payload_len.get() as usize)?;
    if checksum_without(&bytes[..HEADER_LEN + payload.len()], 8) != header.crc32c.get() {
        return None;
    }
    let frame = Frame {
        generation: header.generation.get(),
        sequence: header.sequence.get(),
        last: header.flags.get() & FLAG_LAST != 0,
    };
    Some((frame, payload))
}

/// The generation in the header at the beginning of `bytes`, before its checksum is verified.
fn generation_claimed(pool_id: PoolId, bytes: &[u8]) -> Option<u64> {
    let (header, _) = Header::ref_from_prefix(bytes).ok()?;
    (header.magic == MAGIC && header.pool_id == pool_id.0).then(|| header.generation.get())
}

/// Whether a frame of this generation seems to begin at byte `at` of a half.
pub(crate) fn claims(pool_id: PoolId, half: &[u8], at: usize, generation: u64) -> bool {
    half.get(at..).is_some_and(|bytes| generation_claimed(pool_id, bytes) == Some(generation))
}

/// The end of the valid part of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadEnd {
    /// The last applied commit.
    pub(crate) sequence: u64,
    /// Whether its frame closed the half.
    pub(crate) last: bool,
    /// Whether the half has any frame of the generation.
    pub(crate) frames: bool,
    /// The length of the applied frames.
    pub(crate) len: usize,
}

/// One half out of those that the mirrors have: each frame of `generation` that follows commit `sequence`
/// from the first mirror on which it is valid. Where none is, the rest is of a mirror that has a later frame,
/// if one has: that one proves that frames are lost.
pub(crate) fn merge(pool_id: PoolId, mut halves: Vec<Vec<u8>>, generation: u64, sequence: u64) -> Vec<u8> {
    let mut end = ReadEnd { sequence, last: false, frames: false, len: 0 };
    while !end.last {
        let next = halves.iter().enumerate().find_map(|(i, half)| {
            let (frame, payload) = decode(pool_id, half.get(end.len..)?)?;
            let follows = frame.generation == generation && frame.sequence == end.sequence + 1;
            follows.then(|| (i, frame, end.len + frame_len(payload.len()) as usize))
        });
        let Some((from, frame, until)) = next else { break };
        let valid = halves[from][end.len..until.min(halves[from].len())].to_vec();
        halves.iter_mut().for_each(|half| half[end.len..end.len + valid.len()].copy_from_slice(&valid));
        end = ReadEnd { sequence: frame.sequence, last: frame.last, frames: true, len: until };
    }
    let lacks = |half: &Vec<u8>| read_half(pool_id, half, generation, sequence, |_| Ok(())).is_err();
    let at = halves.iter().position(lacks).unwrap_or(0);
    halves.swap_remove(at)
}

/// Applies the frames of `generation` that follow commit `sequence`. After the first invalid frame, only the
/// rest of one torn commit may follow: a valid later frame means that the middle is lost.
pub(crate) fn read_half(
    pool_id: PoolId,
    half: &[u8],
    generation: u64,
    sequence: u64,
    mut apply: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<ReadEnd, BlockError> {
    let corrupt = |at: usize, cause: String| BlockError::Corrupt {
        place: format!("journal of pool {pool_id}, generation {generation}, byte {at}"),
        cause,
    };
    let mut end = ReadEnd { sequence, last: false, frames: false, len: 0 };
    let mut at = 0;
    while !end.last
        && let Some((frame, payload)) = half.get(at..).and_then(|bytes| decode(pool_id, bytes))
        && frame.generation == generation
        && frame.sequence == end.sequence + 1
    {
        apply(payload).map_err(|cause| corrupt(at, cause))?;
        at += frame_len(payload.len()) as usize;
        end = ReadEnd { sequence: frame.sequence, last: frame.last, frames: true, len: at };
    }
    while !end.last && at < half.len() {
        let claimed = generation_claimed(pool_id, &half[at..]).is_some_and(|g| g >= generation);
        if claimed && let Some((frame, _)) = decode(pool_id, &half[at..]) {
            // A valid frame of this or a later round without its predecessor: earlier frames are lost.
            let (found, wanted) = (frame.sequence, end.sequence + 1);
            return Err(corrupt(at, format!("commit {found} exists, but commit {wanted} is missing")));
        }
        at += METADATA_BLOCK as usize;
    }
    Ok(end)
}
