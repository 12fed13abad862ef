//! The records of the journal: changes of the catalog, in order.

use crate::codec::{Put, Reader};
use crate::events::Thresholds;

/// The longest name of a volume in bytes.
pub(crate) const VOLUME_NAME_LEN_MAX: usize = 255;

/// One change. Indices and pages count pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Maps the indices `index..index + count` to the pages `page..page + count`.
    Map { volume: u32, index: u32, page: u32, count: u32 },
    /// Unmaps these indices.
    Unmap { volume: u32, index: u32, count: u32 },
    /// Creates a volume. An `unfinished` volume is dropped at the next start.
    Create { volume: u32, len_bytes: u64, thick: bool, unfinished: bool, name: String },
    /// The volume is complete.
    Finish { volume: u32 },
    /// Deletes the volume with its records.
    Delete { volume: u32 },
    /// Resizes the volume.
    Resize { volume: u32, len_bytes: u64 },
    /// Creates a volume with the pages of another one as of now.
    Clone { from: u32, volume: u32, name: String },
    /// Saves a small durable record; without bytes, removes it.
    Save { key: String, bytes: Vec<u8> },
    /// The pool's thresholds.
    Thresholds(Thresholds),
}

impl Record {
    /// Appends the record's bytes.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Record::Map { volume, index, page, count } => {
                to.put_u8(1);
                [volume, index, page, count].iter().for_each(|v| to.put_u32(**v));
            }
            Record::Unmap { volume, index, count } => {
                to.put_u8(2);
                [volume, index, count].iter().for_each(|v| to.put_u32(**v));
            }
            Record::Create { volume, len_bytes, thick, unfinished, name } => {
                to.put_u8(3);
                to.put_u32(*volume);
                to.put_u64(*len_bytes);
                to.put_u8(u8::from(*thick) | u8::from(*unfinished) << 1);
                to.put_text(name);
            }
            Record::Finish { volume } => {
                to.put_u8(4);
                to.put_u32(*volume);
            }
            Record::Delete { volume } => {
                to.put_u8(5);
                to.put_u32(*volume);
            }
            Record::Resize { volume, len_bytes } => {
                to.put_u8(6);
                to.put_u32(*volume);
                to.put_u64(*len_bytes);
            }
            Record::Clone { from, volume, name } => {
                to.put_u8(7);
                to.put_u32(*from);
                to.put_u32(*volume);
                to.put_text(name);
            }
            Record::Save { key, bytes } => {
                to.put_u8(8);
                to.put_text(key);
                to.put_blob(bytes);
            }
            Record::Thresholds(thresholds) => {
                to.put_u8(9);
                to.put_u8(thresholds.soft);
                to.put_u8(thresholds.critical);
            }
        }
    }

    /// The next record; `None` if the bytes are invalid.
    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Record> {
        Some(match from.u8()? {
            1 => {
                Record::Map { volume: from.u32()?, index: from.u32()?, page: from.u32()?, count: from.u32()? }
            }
            2 => Record::Unmap { volume: from.u32()?, index: from.u32()?, count: from.u32()? },
            3 => {
                let (volume, len_bytes, flags) = (from.u32()?, from.u64()?, from.u8()?);
                let (thick, unfinished) = (flags & 1 != 0, flags & 2 != 0);
                Record::Create { volume, len_bytes, thick, unfinished, name: from.text()? }
            }
            4 => Record::Finish { volume: from.u32()? },
            5 => Record::Delete { volume: from.u32()? },
            6 => Record::Resize { volume: from.u32()?, len_bytes: from.u64()? },
            7 => Record::Clone { from: from.u32()?, volume: from.u32()?, name: from.text()? },
            8 => Record::Save { key: from.text()?, bytes: from.blob()? },
            9 => Record::Thresholds(Thresholds { soft: from.u8()?, critical: from.u8()? }),
            _ => return None,
        })
    }

    /// Joins `next` to this record if the two are contiguous.
    pub(crate) fn join(&mut self, next: &Record) -> bool {
        match (self, next) {
            (
                Record::Map { volume, index, page, count },
                Record::Map { volume: v, index: i, page: p, count: n },
            ) if volume == v && *index + *count == *i && *page + *count == *p => *count += n,
            (Record::Unmap { volume, index, count }, Record::Unmap { volume: v, index: i, count: n })
                if volume == v && *index + *count == *i =>
            {
                *count += n;
            }
            _ => return false,
        }
        true
    }
}

/// The encoded records of the next commit.
#[derive(Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    /// The last record and its offset: the next one may join it.
    last: Option<(Record, usize)>,
}

impl Pending {
    pub(crate) fn push(&mut self, record: Record) {
        if let Some((last, at)) = &mut self.last
            && last.join(&record)
        {
            self.bytes.truncate(*at);
            last.encode(&mut self.bytes);
            return;
        }
        let at = self.bytes.len();
        record.encode(&mut self.bytes);
        self.last = Some((record, at));
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.last = None;
        std::mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_rows_are_joined() {
        let records = [
            Record::Create {
                volume: 1,
                len_bytes: 1 << 40,
                thick: false,
                unfinished: true,
                name: "a".into(),
            },
            Record::Map { volume: 1, index: 5, page: 9, count: 1 },
            Record::Unmap { volume: 1, index: 6, count: 3 },
            Record::Clone { from: 1, volume: 2, name: "ü".into() },
            Record::Save { key: "v1/pr".into(), bytes: vec![1, 2, 3] },
            Record::Resize { volume: 1, len_bytes: 1 << 41 },
            Record::Finish { volume: 1 },
            Record::Delete { volume: 1 },
            Record::Thresholds(Thresholds { soft: 80, critical: 95 }),
        ];
        let mut pending = Pending::default();
        records.iter().for_each(|r| pending.push(r.clone()));
        (0..10).for_each(|i| pending.push(Record::Map { volume: 1, index: i, page: 20 + i, count: 1 }));
        let bytes = pending.take();
        let mut reader = Reader::new(&bytes);
        let mut back = Vec::new();
        while !reader.is_empty() {
            back.push(Record::decode(&mut reader).expect("a record"));
        }
        assert_eq!(back[..9], records);
        assert_eq!(back[9..], [Record::Map { volume: 1, index: 0, page: 20, count: 10 }]);
        for cut in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..cut]);
            while Record::decode(&mut reader).is_some() {}
        }
    }
}
