//! A frame: the part of a batch on one drive. docs/on_disk_format.md describes it byte by byte.

use block::Buf;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use smallvec::SmallVec;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::stripe::change::{Intent, New, Piece};
use crate::{BLOCK_LEN, GroupId};

const MAGIC: [u8; 8] = *b"MASUSTRJ";
const HEADER_LEN: usize = 96;
const ENTRY_LEN: usize = 24;
const KIND_CONTENT: u32 = 1;
const KIND_ZEROS: u32 = 2;
const KIND_INTENT: u32 = 3;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    crc32c: U32,
    len: U32,
    group_id: [u8; 16],
    journal_epoch: U64,
    batch: U64,
    oldest: U64,
    place: U64,
    position: U32,
    participants: U32,
    entries: U32,
    reserved: [u8; 20],
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EntryFormat {
    at: U64,
    len: U64,
    kind: U32,
    payload_at: U32,
}

const _: () = assert!(size_of::<EntryFormat>() == ENTRY_LEN);

/// The common header fields of all frames of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) group_id: GroupId,
    pub(crate) journal_epoch: u64,
    pub(crate) number: u64,
    /// The oldest batch that may not be in place yet.
    pub(crate) oldest: u64,
    /// The positions with a frame of this batch, as bits.
    pub(crate) participants: u32,
}

/// The content of one frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents<'a> {
    /// The pieces of its drive; those without a copy in the journal are omitted.
    pub(crate) pieces: SmallVec<[&'a Piece; 16]>,
    /// The intents, if this drive holds those of the batch.
    pub(crate) intents: SmallVec<[&'a Intent; 16]>,
}

impl Contents<'_> {
    /// Bytes of the frame: whole blocks.
    pub(crate) fn frame_len(&self) -> u64 {
        let pieces: u64 = self.pieces.iter().map(|p| ENTRY_LEN as u64 + payload_len(&p.new)).sum();
        let intents: u64 = self.intents.iter().map(|i| (ENTRY_LEN + 4 * i.sums.len()) as u64).sum();
        (HEADER_LEN as u64 + pieces + intents).next_multiple_of(BLOCK_LEN)
    }
}

fn payload_len(new: &New) -> u64 {
    match new {
        New::Content(data) => data.len() as u64,
        New::Zeros(_) | New::Unlogged(_) => 0,
    }
}

/// Fills a frame from the front: all entries, then their payload.
struct Writer {
    buf: Buf,
    entry_at: usize,
    payload_at: usize,
}

impl Writer {
    fn entry(&mut self, at: u64, len: u64, kind: u32) {
        let payload_at = (self.payload_at as u32).into();
        let entry = EntryFormat { at: at.into(), len: len.into(), kind: kind.into(), payload_at };
        self.buf[self.entry_at..self.entry_at + ENTRY_LEN].copy_from_slice(entry.as_bytes());
        self.entry_at += ENTRY_LEN;
    }

    fn payload(&mut self, bytes: &[u8]) {
        self.buf[self.payload_at..self.payload_at + bytes.len()].copy_from_slice(bytes);
        self.payload_at += bytes.len();
    }
}

/// The frame of a drive, for the offset `place` of its ring.
pub(crate) fn encode(batch: &Batch, position: u32, place: u64, contents: &Contents<'_>) -> Buf {
    let len = contents.frame_len() as usize;
    let entries = contents.pieces.len() + contents.intents.len();
    let payload_at = HEADER_LEN + entries * ENTRY_LEN;
    let mut writer = Writer { buf: Buf::new(len), entry_at: HEADER_LEN, payload_at };
    for piece in &contents.pieces {
        let kind = if matches!(piece.new, New::Zeros(_)) { KIND_ZEROS } else { KIND_CONTENT };
        writer.entry(piece.at, piece.new.len(), kind);
        if let New::Content(data) = &piece.new {
            writer.payload(data);
        }
    }
    for intent in &contents.intents {
        writer.entry(intent.row, intent.sums.len() as u64, KIND_INTENT);
        intent.sums.iter().for_each(|sum| writer.payload(&sum.to_le_bytes()));
    }
    let Writer { mut buf, payload_at, .. } = writer;
    buf[payload_at..].fill(0);
    let mut header = Header {
        magic: MAGIC,
        crc32c: 0.into(),
        len: (len as u32).into(),
        group_id: batch.group_id.0,
        journal_epoch: batch.journal_epoch.into(),
        batch: batch.number.into(),
        oldest: batch.oldest.into(),
        place: place.into(),
        position: position.into(),
        participants: batch.participants.into(),
        entries: (entries as u32).into(),
        reserved: [0; 20],
    };
    buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
    header.crc32c = checksum(&buf).into();
    buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
    buf
}

/// CRC32C, as everywhere on drives.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// The content of a decoded entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// These bytes: a range of the ring as read.
    Content(std::ops::Range<usize>),
    Zeros,
    /// A row (its number is in place of the address) was to be overwritten with blocks of these checksums, by
    /// position.
    Intent(Vec<u32>),
}

/// One change of the drive, in bytes from the start of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) kind: Kind,
}

/// A valid frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) batch: Batch,
    pub(crate) position: u32,
    pub(crate) len: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Frame {
    /// Whether a drive with blocks of this size can write all of it.
    pub(crate) fn is_aligned(&self, block_bytes: u32) -> bool {
        let block = u64::from(block_bytes);
        let whole = |e: &Entry| e.at.is_multiple_of(block) && e.len.is_multiple_of(block);
        self.entries.iter().all(|e| matches!(e.kind, Kind::Intent(_)) || whole(e))
    }
}

/// The frame at offset `place` of a ring, if it is valid, was written for this offset of this drive, and fits
/// drives with `data_len` bytes of data.
pub(crate) fn decode(ring: &[u8], place: usize, position: u32, data_len: u64) -> Option<Frame> {
    let (header, _) = Header::ref_from_prefix(ring.get(place..)?).ok()?;
    if header.magic != MAGIC || header.place.get() != place as u64 || header.position.get() != position {
        return None;
    }
    let len = header.len.get() as usize;
    if !len.is_multiple_of(BLOCK_LEN as usize) {
        return None;
    }
    let bytes = ring.get(place..place.checked_add(len)?)?;
    let mut unsummed = bytes.get(..HEADER_LEN)?.to_vec();
    unsummed[8..12].fill(0);
    let mut digest = crc_fast::Digest::new(Crc32Iscsi);
    digest.update(&unsummed);
    digest.update(&bytes[HEADER_LEN..]);
    if digest.finalize() as u32 != header.crc32c.get() {
        return None;
    }
    let table_len = (header.entries.get() as usize).checked_mul(ENTRY_LEN)?;
    let table = bytes.get(HEADER_LEN..HEADER_LEN.checked_add(table_len)?)?;
    let formats = <[EntryFormat]>::ref_from_bytes(table).ok()?;
    let mut payload_at = HEADER_LEN + table_len;
    let entries = formats.iter().map(|e| entry(e, bytes, place, data_len, &mut payload_at));
    let entries = entries.collect::<Option<Vec<_>>>()?;
    let batch = Batch {
        group_id: GroupId(header.group_id),
        journal_epoch: header.journal_epoch.get(),
        number: header.batch.get(),
        oldest: header.oldest.get(),
        participants: header.participants.get(),
    };
    Some(Frame { batch, position, len: len as u64, entries })
}

/// Payloads are consecutive from `payload_at` on. If several entries could share one, a frame could claim any
/// amount of data.
fn entry(
    format: &EntryFormat,
    bytes: &[u8],
    place: usize,
    data_len: u64,
    payload_at: &mut usize,
) -> Option<Entry> {
    let (at, len, from) = (format.at.get(), format.len.get(), format.payload_at.get() as usize);
    let is_intent = format.kind.get() == KIND_INTENT;
    let past = !is_intent && at.checked_add(len)? > data_len;
    let takes = if format.kind.get() == KIND_ZEROS { 0 } else { usize::try_from(len).ok()? };
    let takes = if is_intent { takes.checked_mul(4)? } else { takes };
    let end = from.checked_add(takes)?;
    if past || from != *payload_at || (len == 0 && !is_intent) {
        return None;
    }
    *payload_at = end;
    let payload = bytes.get(from..end)?;
    let kind = match format.kind.get() {
        KIND_CONTENT => Kind::Content(place + from..place + end),
        KIND_ZEROS => Kind::Zeros,
        KIND_INTENT => {
            let sum = |s: &[u8]| u32::from_le_bytes([s[0], s[1], s[2], s[3]]);
            Kind::Intent(payload.chunks_exact(4).map(sum).collect())
        }
        _ => return None,
    };
    Some(Entry { at, len, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Data;

    #[test]
    fn a_frame_reads_back_at_its_place_only_and_not_with_a_changed_byte() {
        let batch =
            Batch { group_id: GroupId([3; 16]), journal_epoch: 5, number: 9, oldest: 7, participants: 0b110 };
        let piece = |at, new| Piece { position: 2, at, new };
        let pieces =
            [piece(4096, New::Content(Data::copy_of(&[1; 512]))), piece(65_536, New::Zeros(1 << 30))];
        let intent = Intent { row: 1 << 50, sums: vec![7, 8, 9] };
        let contents = Contents { pieces: pieces.iter().collect(), intents: [&intent].into_iter().collect() };
        let buf = encode(&batch, 2, 4096, &contents);
        assert_eq!(buf.len() as u64, contents.frame_len());
        let mut ring = vec![0; 4096];
        ring.extend_from_slice(&buf);
        let frame = decode(&ring, 4096, 2, 1 << 40).expect("it is whole");
        assert_eq!((frame.batch, frame.entries.len()), (batch, 3));
        let Kind::Content(range) = &frame.entries[0].kind else { panic!("content") };
        assert_eq!(ring[range.clone()], [1; 512]);
        assert_eq!(frame.entries[2].kind, Kind::Intent(vec![7, 8, 9]));
        assert!(decode(&ring, 4096, 1, 1 << 40).is_none(), "another drive's");
        assert!(decode(&ring, 4096, 2, 1 << 20).is_none(), "past the end of the data");
        assert!(decode(&buf, 0, 2, 1 << 40).is_none(), "another place");
        for i in (4096..ring.len()).step_by(97) {
            ring[i] ^= 1;
            assert!(decode(&ring, 4096, 2, 1 << 40).is_none(), "byte {i}");
            ring[i] ^= 1;
        }
    }
}
