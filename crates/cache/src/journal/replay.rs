//! What a journal holds, record by record.

use std::vec::IntoIter;

use block::{BlockError, Data, Device, Pieces};

use super::batch::Kind;
use super::open::Placed;
use super::{BLOCK, RING_START};

/// One read of the ring.
const WINDOW_BYTES: u64 = 4 << 20;

/// A record of a journal.
#[derive(Clone, Debug)]
pub struct ReplayRecord {
    /// The unit, by the number that lasts.
    pub unit: u64,
    /// The first byte.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
    /// What it says.
    pub kind: Kind,
    /// The content of a `Write`.
    pub data: Pieces,
    /// Its number.
    pub sequence: u64,
}

/// A part of the ring in memory: it is read from one end to the other.
pub(crate) struct Window {
    ring_len: u64,
    from: u64,
    data: Pieces,
}

impl Window {
    pub(crate) fn new(ring_len: u64) -> Window {
        Window { ring_len, from: 0, data: Pieces::new() }
    }

    /// Bytes of the ring, all of them before its end.
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
            let until = (offset + len as u64).next_multiple_of(BLOCK).max(from + WINDOW_BYTES);
            let mut data = Pieces::new();
            device.read(RING_START + from, (until.min(self.ring_len) - from) as usize, &mut data).await?;
            (self.from, self.data) = (from, data);
        }
        Ok(self.data.slice((offset - self.from) as usize, len).joined())
    }
}

/// The records of a journal that was opened, in the order in which they were appended.
pub struct Replay<J> {
    device: J,
    window: Window,
    batches: IntoIter<Placed>,
    records: IntoIter<ReplayRecord>,
    bytes_left: u64,
}

impl<J: Device> Replay<J> {
    pub(crate) fn new(device: J, ring_len: u64, batches: Vec<Placed>) -> Replay<J> {
        let bytes_left = batches.iter().map(|b| b.found.payload_len as u64).sum();
        let (batches, records) = (batches.into_iter(), Vec::new().into_iter());
        Replay { device, window: Window::new(ring_len), batches, records, bytes_left }
    }

    /// Bytes of content that are still to come.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// The next record.
    pub async fn next(&mut self) -> Result<Option<ReplayRecord>, BlockError> {
        loop {
            if let Some(record) = self.records.next() {
                self.bytes_left -= record.data.len() as u64;
                return Ok(Some(record));
            }
            let Some(batch) = self.batches.next() else { return Ok(None) };
            self.records = self.records_of(&batch).await?.into_iter();
        }
    }

    async fn records_of(&mut self, batch: &Placed) -> Result<Vec<ReplayRecord>, BlockError> {
        let offset = batch.place.position % self.window.ring_len + BLOCK;
        let payload = self.window.read(&self.device, offset, batch.found.payload_len).await?;
        if !batch.found.fits(&payload) {
            let place = format!("batch {} of the journal", batch.place.number);
            return Err(BlockError::Corrupt { place, cause: "it changed since it was found".to_owned() });
        }
        let mut from = 0;
        let mut records = Vec::with_capacity(batch.found.entries.len());
        for (entry, sequence) in batch.found.entries.iter().zip(batch.found.stamp.first_sequence..) {
            let to = from + entry.payload_len();
            let data = if from == to { Pieces::new() } else { Pieces::from(payload.slice(from..to)) };
            let (unit, at, len, kind) = (entry.unit, entry.at, entry.len, entry.kind);
            records.push(ReplayRecord { unit, at, len, kind, data, sequence });
            from = to;
        }
        Ok(records)
    }
}
