//! What is known of the bytes of a virtual disk's file, where its own code reads them: tables to the byte, of
//! the guest's data only that they are something. Pure.
//!
//! A guest's data are all ones, as bitmaps are, so that they are ranges. Everything else is in sectors.

use std::collections::BTreeMap;

use super::layout::Range;

const SECTOR_BYTES: usize = 512;
const SECTOR: u64 = SECTOR_BYTES as u64;
type Sector = [u8; SECTOR_BYTES];
const ONES: Sector = [0xff; SECTOR_BYTES];

/// The content of a file: zeros where nothing else is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Where each run of ones begins, and where it ends.
    ones: BTreeMap<u64, u64>,
    sectors: BTreeMap<u64, Box<Sector>>,
}

impl Content {
    /// Whole sectors were written.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        let (sectors, rest) = bytes.as_chunks::<SECTOR_BYTES>();
        debug_assert!(rest.is_empty() && at.is_multiple_of(SECTOR), "whole sectors");
        for (at, sector) in (at..).step_by(SECTOR_BYTES).zip(sectors) {
            let range = Range { at, bytes: SECTOR };
            match sector {
                &ONES => self.data(range),
                sector => {
                    self.zero(range);
                    if sector.iter().any(|byte| *byte != 0) {
                        self.sectors.insert(at, Box::new(*sector));
                    }
                }
            }
        }
    }

    /// A guest's data were written.
    pub(super) fn data(&mut self, range: Range) {
        let before = self.ones.range(..=range.at).next_back().map(|(at, end)| (*at, *end));
        if before.is_some_and(|(_, end)| end >= range.end()) {
            return;
        }
        self.zero(range);
        let from = before.filter(|(_, end)| *end >= range.at).map_or(range.at, |(at, _)| at);
        let end = self.ones.remove(&range.end()).unwrap_or(range.end());
        self.ones.insert(from, end);
    }

    /// Zeros were written.
    pub(super) fn zero(&mut self, range: Range) {
        let inside: Vec<u64> = self.sectors.range(range.at..range.end()).map(|(at, _)| *at).collect();
        inside.iter().for_each(|at| _ = self.sectors.remove(at));
        let touched = self.ones.range(..range.end()).rev().take_while(|(_, end)| **end > range.at);
        let touched: Vec<(u64, u64)> = touched.map(|(at, end)| (*at, *end)).collect();
        for (at, end) in touched {
            self.ones.remove(&at);
            if at < range.at {
                self.ones.insert(at, range.at);
            }
            if end > range.end() {
                self.ones.insert(range.end(), end);
            }
        }
    }

    /// Reads whole sectors.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) {
        out.fill(0);
        let all = Range { at, bytes: out.len() as u64 };
        let ones = self.ones.range(..all.end()).rev().take_while(|(_, end)| **end > all.at);
        for (from, end) in ones {
            let (from, end) = ((*from).max(at), (*end).min(all.end()));
            out[(from - at) as usize..(end - at) as usize].fill(0xff);
        }
        for (place, sector) in self.sectors.range(at..all.end()) {
            out[(place - at) as usize..][..SECTOR_BYTES].copy_from_slice(&**sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::Rng;

    /// Against a plain copy of the bytes.
    #[test]
    fn what_was_written_last_is_read() {
        const SECTORS: u64 = 64;
        let mut rng = Rng::with_seed(7);
        let (mut content, mut plain) = (Content::default(), vec![0_u8; (SECTORS * SECTOR) as usize]);
        for _ in 0..2000 {
            let first = rng.u64(0..SECTORS);
            let count = rng.u64(1..=(SECTORS - first).min(9));
            let range = Range { at: first * SECTOR, bytes: count * SECTOR };
            let own = &mut plain[range.at as usize..range.end() as usize];
            match rng.u32(0..4) {
                0 => (content.zero(range), own.fill(0)).1,
                1 => (content.data(range), own.fill(0xff)).1,
                2 => own.fill(rng.u8(..)),
                _ => own.iter_mut().step_by(600).for_each(|byte| *byte = rng.u8(..)),
            }
            let bytes = own.to_vec();
            content.write(range.at, &bytes);
            let mut read = vec![1; plain.len()];
            content.read(0, &mut read);
            assert!(read == plain, "{content:?}");
        }
        let runs: Vec<(u64, u64)> = content.ones.iter().map(|(at, end)| (*at, *end)).collect();
        assert!(runs.windows(2).all(|two| two[0].1 < two[1].0), "neighbours are one run: {runs:?}");
    }
}
