//! The records of an opened journal, one by one.

use std::ops::Range;
use std::vec::IntoIter;

use block::{BlockError, Data, Device, Pieces};

use super::batch::{Entry, Kind, Placed};
use super::{BLOCK, RING_START};

/// One read of the ring.
const WINDOW_BYTES: u64 = 4 << 20;

/// A write in a journal, or the part of it that later Forgets left.
#[derive(Clone, Debug)]
pub struct ReplayRecord {
    /// The unit, by its persistent number.
    pub unit: u64,
    /// The first byte.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
    /// The content.
    pub data: Pieces,
    /// Its number.
    pub sequence: u64,
}

/// The bytes as the device reads them; and then as each of its mirrors has them, if there are several.
pub(super) fn sources(device: &impl Device) -> Vec<Option<usize>> {
    let mirrors = if device.mirrors() > 1 { device.mirrors() } else { 0 };
    std::iter::once(None).chain((0..mirrors).map(Some)).collect()
}

/// Reads from one of the [`sources`].
pub(super) async fn read_source(
    device: &impl Device,
    mirror: Option<usize>,
    at: u64,
    len: usize,
) -> Result<Pieces, BlockError> {
    let mut data = Pieces::new();
    match mirror {
        None => device.read(at, len, &mut data).await.map(|()| data),
        Some(mirror) => device.read_mirror(mirror, at, len).await.ok_or_else(|| BlockError::Unreadable {
            at,
            cause: format!("mirror {mirror} of the journal cannot be read").into(),
        }),
    }
}

/// The ring, by its sources: what one mirror has lost is on another one.
pub(crate) struct Ring {
    pub(crate) ring_len: u64,
    windows: Vec<Window>,
}

impl Ring {
    pub(crate) fn new(device: &impl Device, ring_len: u64) -> Ring {
        let window = |mirror| Window { mirror, ring_len, from: 0, data: Pieces::new() };
        Ring { ring_len, windows: sources(device).into_iter().map(window).collect() }
    }

    pub(super) fn windows(&mut self) -> impl Iterator<Item = &mut Window> {
        self.windows.iter_mut()
    }
}

/// A part of the ring in memory: the ring is read sequentially.
pub(crate) struct Window {
    pub(crate) mirror: Option<usize>,
    ring_len: u64,
    from: u64,
    data: Pieces,
}

impl Window {
    /// Bytes of the ring, without wrapping.
    pub(crate) async fn read(
        &mut self,
        device: &impl Device,
        offset: u64,
        len: usize,
    ) -> Result<Data, BlockError> {
        if len == 0 {
            return Ok(Data::copy_of(&[]));
        }
        let end = self.from + self.data.len() as u64;
        if offset < self.from || offset + len as u64 > end {
            let from = offset / BLOCK * BLOCK;
            let needed = (offset + len as u64).next_multiple_of(BLOCK);
            let read = async |until: u64| {
                let len = (until.min(self.ring_len) - from) as usize;
                read_source(device, self.mirror, RING_START + from, len).await
            };
            let data = match read(needed.max(from + WINDOW_BYTES)).await {
                Ok(data) => data,
                // It may be another block of the window that cannot be read.
                Err(_) => read(needed).await?,
            };
            (self.from, self.data) = (from, data);
        }
        Ok(self.data.slice((offset - self.from) as usize, len).joined())
    }
}

/// A range in which earlier records are void.
struct Forgotten {
    sequence: u64,
    unit: u64,
    range: Range<u64>,
}

/// The writes of an opened journal in the order in which they were appended, without ranges that were
/// forgotten later: those must not reach the store even temporarily, because it was changed since.
pub struct Replay<J> {
    device: J,
    /// In the order of their numbers.
    forgotten: Vec<Forgotten>,
    ring: Ring,
    batches: IntoIter<Placed>,
    records: IntoIter<ReplayRecord>,
    bytes_left: u64,
}

impl<J: Device> Replay<J> {
    pub(crate) fn new(device: J, ring_len: u64, batches: Vec<Placed>) -> Replay<J> {
        let bytes_left = batches.iter().map(|b| b.found.payload_len as u64).sum();
        let numbered =
            batches.iter().flat_map(|b| b.found.entries.iter().zip(b.found.stamp.first_sequence..));
        let forgotten = numbered.filter(|(entry, _)| entry.kind == Kind::Forget).map(|(entry, sequence)| {
            let range = entry.at..entry.at.saturating_add(entry.len);
            Forgotten { sequence, unit: entry.unit, range }
        });
        let forgotten = forgotten.collect();
        let (batches, records) = (batches.into_iter(), Vec::new().into_iter());
        let ring = Ring::new(&device, ring_len);
        Replay { device, forgotten, ring, batches, records, bytes_left }
    }

    /// Whether the journal had no batch.
    pub fn is_empty(&self) -> bool {
        self.batches.as_slice().is_empty() && self.records.as_slice().is_empty()
    }

    /// The remaining part of a write.
    fn left_of(&self, entry: &Entry, sequence: u64) -> Vec<Range<u64>> {
        let later = self.forgotten.partition_point(|f| f.sequence <= sequence);
        let whole = entry.at..entry.at.saturating_add(entry.len);
        let mut left = vec![whole];
        for forgotten in self.forgotten[later..].iter().filter(|f| f.unit == entry.unit) {
            let cut = &forgotten.range;
            left = left
                .into_iter()
                .flat_map(|r| [r.start..r.end.min(cut.start), r.start.max(cut.end)..r.end])
                .filter(|r| r.start < r.end)
                .collect();
        }
        left
    }

    /// Upper bound of the remaining bytes of content.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// The next record.
    pub async fn next(&mut self) -> Result<Option<ReplayRecord>, BlockError> {
        loop {
            if let Some(record) = self.records.next() {
                return Ok(Some(record));
            }
            let Some(batch) = self.batches.next() else { return Ok(None) };
            self.bytes_left -= batch.found.payload_len as u64;
            self.records = self.records_of(&batch).await?.into_iter();
        }
    }

    async fn payload_of(&mut self, batch: &Placed) -> Result<Data, BlockError> {
        let offset = batch.place.position % self.ring.ring_len + BLOCK;
        let mut failure = None;
        for window in self.ring.windows() {
            match window.read(&self.device, offset, batch.found.payload_len).await {
                Ok(payload) if batch.found.fits(&payload) => return Ok(payload),
                Ok(_) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| BlockError::Corrupt {
            place: format!("batch {} of the journal", batch.place.number),
            cause: "it changed since it was found".to_owned(),
        }))
    }

    async fn records_of(&mut self, batch: &Placed) -> Result<Vec<ReplayRecord>, BlockError> {
        let payload = self.payload_of(batch).await?;
        let mut from = 0;
        let mut records = Vec::with_capacity(batch.found.entries.len());
        for (entry, sequence) in batch.found.entries.iter().zip(batch.found.stamp.first_sequence..) {
            if entry.kind == Kind::Forget {
                continue;
            }
            for range in self.left_of(entry, sequence) {
                let within = from + (range.start - entry.at) as usize..from + (range.end - entry.at) as usize;
                let data = Pieces::from(payload.slice(within));
                let (unit, at, len) = (entry.unit, range.start, range.end - range.start);
                records.push(ReplayRecord { unit, at, len, data, sequence });
            }
            from += entry.payload_len();
        }
        Ok(records)
    }
}
