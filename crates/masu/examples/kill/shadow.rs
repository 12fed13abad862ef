//! What a volume must and may hold, sector by sector.
//!
//! A sector is what the last flush made durable, or anything written later. A flush makes durable what was
//! acknowledged before it was sent.

use std::collections::BTreeMap;
use std::ops::Range;

/// Hosts see sectors of this length, and a sector is written whole or not at all.
pub(crate) const SECTOR_LEN: usize = 512;
const MAGIC: u64 = 0x6d61_7375_5f6b_696c;
/// The stamp of a sector of zeros.
const ZEROS: u64 = 0;

/// A write in the order of writes: its stamp, and the sectors it covers.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) stamp: u64,
    pub(crate) sectors: Range<u64>,
}

/// The shadow of one volume.
pub(crate) struct Shadow {
    volume: u64,
    durable: Vec<u64>,
    later: BTreeMap<u64, Vec<u64>>,
    next_stamp: u64,
    acknowledged: Vec<Write>,
}

impl Shadow {
    /// A volume that nobody has written.
    pub(crate) fn new(volume: u64, sectors: u64) -> Shadow {
        let durable = vec![ZEROS; sectors as usize];
        Shadow { volume, durable, later: BTreeMap::new(), next_stamp: 1, acknowledged: Vec::new() }
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.durable.len() as u64
    }

    /// A write is about to be sent: from now on it may be there.
    pub(crate) fn begin(&mut self, sectors: Range<u64>, zeros: bool) -> Write {
        let stamp = if zeros { ZEROS } else { self.next_stamp };
        self.next_stamp += u64::from(!zeros);
        for sector in sectors.clone() {
            self.later.entry(sector).or_default().push(stamp);
        }
        Write { stamp, sectors }
    }

    pub(crate) fn acknowledged(&mut self, write: Write) {
        self.acknowledged.push(write);
    }

    /// A flush is about to be sent: what it will make durable.
    pub(crate) fn begin_flush(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.acknowledged)
    }

    /// The flush was acknowledged.
    pub(crate) fn flushed(&mut self, writes: Vec<Write>) {
        for write in writes {
            for sector in write.sectors {
                let Some(later) = self.later.get_mut(&sector) else { continue };
                // The order of writes to one sector is that in which they were sent: one is in flight at a
                // time.
                let Some(at) = later.iter().position(|stamp| *stamp == write.stamp) else { continue };
                later.drain(..=at);
                self.durable[sector as usize] = write.stamp;
                if later.is_empty() {
                    self.later.remove(&sector);
                }
            }
        }
    }

    /// The content of a write.
    pub(crate) fn content(&self, write: &Write) -> Vec<u8> {
        let mut bytes = vec![0; (write.sectors.end - write.sectors.start) as usize * SECTOR_LEN];
        for (sector, bytes) in write.sectors.clone().zip(bytes.chunks_exact_mut(SECTOR_LEN)) {
            self.fill(sector, write.stamp, bytes);
        }
        bytes
    }

    fn fill(&self, sector: u64, stamp: u64, bytes: &mut [u8]) {
        if stamp == ZEROS {
            return bytes.fill(0);
        }
        let head = [MAGIC, self.volume, sector, stamp];
        for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
            let filler = (stamp << 20 ^ sector).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(i as u64);
            word.copy_from_slice(&head.get(i).copied().unwrap_or(filler).to_le_bytes());
        }
    }

    /// Compares what was read after a crash, and takes it as what is durable from now on. What is wrong, in
    /// words.
    pub(crate) fn settle(&mut self, first: u64, bytes: &[u8], wrong: &mut Vec<String>) {
        let mut expected = [0; SECTOR_LEN];
        for (sector, found) in (first..).zip(bytes.chunks_exact(SECTOR_LEN)) {
            let later = self.later.remove(&sector).unwrap_or_default();
            let durable = self.durable[sector as usize];
            let fits = later.iter().rev().chain([&durable]).copied().find(|stamp| {
                self.fill(sector, *stamp, &mut expected);
                found == expected
            });
            match fits {
                Some(stamp) => self.durable[sector as usize] = stamp,
                None => wrong.push(format!(
                    "volume {}: sector {sector} holds {}, durable is {}, later were {later:?}",
                    self.volume,
                    describe(found),
                    name(durable)
                )),
            }
        }
    }

    /// After a crash nothing is on its way any more.
    pub(crate) fn crashed(&mut self) {
        self.acknowledged.clear();
    }
}

fn name(stamp: u64) -> String {
    if stamp == ZEROS { "zeros".into() } else { format!("write {stamp}") }
}

fn describe(bytes: &[u8]) -> String {
    if bytes.iter().all(|b| *b == 0) {
        return "zeros".into();
    }
    let word = |i: usize| bytes[i * 8..].first_chunk().map_or(0, |w| u64::from_le_bytes(*w));
    match word(0) == MAGIC {
        true => format!("write {} of volume {}, sector {}, or pieces of it", word(3), word(1), word(2)),
        false => "something that was never written".into(),
    }
}
