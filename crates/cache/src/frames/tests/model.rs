//! Random operations against a plain model of contents: a device, what was written last, and what the journal
//! still has to keep.

use std::collections::BTreeMap;

use fastrand::Rng;
use world::{Buf, Data};

use super::books::{audit, first_dirty, key};
use crate::frames::{FRAME_BYTES, FrameState, Frames, Key, PartitionId, Picked, SECTOR_BYTES, UnitId};

const BLOCKS: u64 = 40;
const UNITS: u32 = 2;

/// One sector: its content, and the number of the write that it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sector {
    byte: u8,
    sequence: u64,
}

type Block = [Sector; 8];

struct Model {
    rng: Rng,
    frames: Frames,
    device: BTreeMap<Key, Block>,
    newest: BTreeMap<Key, Block>,
    in_flight: BTreeMap<Key, (Picked, Block)>,
    sequence: u64,
    refused: u32,
}

fn data_of(block: &Block) -> Data {
    let mut buf = Buf::new(FRAME_BYTES);
    for (bytes, sector) in buf.chunks_mut(SECTOR_BYTES).zip(block) {
        bytes.fill(sector.byte);
    }
    buf.freeze()
}

fn in_mask(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |sector| mask & 1 << sector != 0)
}

impl Model {
    fn new(seed: u64, capacity: u32) -> Model {
        let keys = (0..UNITS).flat_map(|unit| (0..BLOCKS).map(move |block| key(unit, block)));
        let device: BTreeMap<Key, Block> =
            keys.map(|key| (key, [Sector { byte: key.block as u8, sequence: 0 }; 8])).collect();
        let mut frames = Frames::new(capacity);
        frames.partition(PartitionId(1), capacity * 3 / 10);
        frames.keep_evicted(4);
        let newest = device.clone();
        let rng = Rng::with_seed(seed);
        Model { rng, frames, device, newest, in_flight: BTreeMap::new(), sequence: 0, refused: 0 }
    }

    fn step(&mut self) {
        let key = key(self.rng.u32(0..UNITS), self.rng.u64(0..BLOCKS));
        let partition = PartitionId(key.unit.0 as u16);
        match self.rng.u32(0..100) {
            0..35 => self.write(partition, key),
            35..60 => self.read(partition, key),
            60..75 => self.begin(key),
            75..93 => self.end(),
            93..96 => self.write_directly(key),
            96..98 => self.forget(key),
            _ => self.offered(),
        }
    }

    fn mask(&mut self) -> u8 {
        if self.rng.bool() { 0xff } else { self.rng.u8(1..=0xff) }
    }

    fn write(&mut self, partition: PartitionId, key: Key) {
        let mask = self.mask();
        self.sequence += 1;
        let sector = Sector { byte: self.rng.u8(..), sequence: self.sequence };
        // Sectors that are not written hold anything.
        let mut block = [Sector { byte: 0xEE, sequence: 0 }; 8];
        in_mask(mask).for_each(|i| block[i] = sector);
        match self.frames.write(partition, key, data_of(&block), mask, self.sequence) {
            Ok(()) => in_mask(mask).for_each(|i| self.newest.get_mut(&key).unwrap()[i] = sector),
            Err(_) => {
                self.refused += 1;
                let own = self.frames.partition_counts(partition).unwrap();
                assert_eq!(own.frames, own.dirty, "a clean frame of its own would do");
                assert!(own.frames > 0, "nobody is left without a frame");
            }
        }
    }

    fn read(&mut self, partition: PartitionId, key: Key) {
        let newest = self.newest[&key];
        if let Some(frame) = self.frames.get(partition, key) {
            for i in in_mask(frame.valid) {
                assert_eq!(frame.data[i * SECTOR_BYTES], newest[i].byte, "{key:?} sector {i}");
                assert_eq!(frame.data[(i + 1) * SECTOR_BYTES - 1], newest[i].byte);
            }
        }
        let mask = self.mask();
        self.frames.insert_clean(partition, key, data_of(&self.device[&key]), mask);
    }

    fn begin(&mut self, key: Key) {
        let Some(frame) = self.frames.peek(key) else { return };
        let fills = frame.state == FrameState::Clean && frame.valid == 0xff && self.rng.u32(0..4) == 0;
        if frame.state == FrameState::Dirty || fills {
            let picked = self.frames.begin_destage(key);
            let newest = self.newest[&key];
            for i in in_mask(picked.sectors) {
                assert_eq!(picked.data[i * SECTOR_BYTES], newest[i].byte);
                assert!(fills || picked.sequence >= newest[i].sequence || self.device[&key][i] == newest[i]);
            }
            self.in_flight.insert(key, (picked, newest));
        }
    }

    fn end(&mut self) {
        let Some(&key) = self.rng.choice(self.in_flight.keys()) else { return };
        let (picked, content) = self.in_flight.remove(&key).unwrap();
        let ok = self.rng.u32(0..5) != 0;
        for i in in_mask(picked.sectors) {
            assert_eq!(picked.data[i * SECTOR_BYTES], content[i].byte, "what a destage holds stays");
            let on_device = &mut self.device.get_mut(&key).unwrap()[i];
            // A write that failed may have destroyed what it was to change; the same content again changes
            // nothing.
            let failed = *on_device != content[i] && !ok;
            *on_device = if failed { Sector { byte: 0xDD, sequence: 0 } } else { content[i] };
        }
        self.frames.end_destage(key, ok);
    }

    fn write_directly(&mut self, key: Key) {
        if self.in_flight.contains_key(&key) {
            return;
        }
        let mask = self.mask();
        let sector = Sector { byte: self.rng.u8(..), sequence: 0 };
        for block in [self.device.get_mut(&key).unwrap(), self.newest.get_mut(&key).unwrap()] {
            in_mask(mask).for_each(|i| block[i] = sector);
        }
        self.frames.overwrite_clean(key, data_of(&self.newest[&key]), mask);
    }

    fn forget(&mut self, key: Key) {
        let range = key.block..key.block + self.rng.u64(1..5);
        if !self.frames.any_destaging(key.unit, range.clone()) {
            self.frames.drop_range(key.unit, range.clone());
            for (key, newest) in self.newest.range_mut(key..Key { block: range.end, ..key }) {
                *newest = self.device[key];
                assert!(self.frames.peek(*key).is_none());
            }
        }
    }

    fn offered(&mut self) {
        while let Some((key, data)) = self.frames.evicted() {
            assert!(data[..] == data_of(&self.newest[&key])[..], "{key:?} is offered with old content");
        }
    }

    /// What is newer than the device is dirty here, and no journal number that it needs is given up.
    fn check(&self) {
        for (key, newest) in &self.newest {
            let dirty = self.frames.peek(*key).map_or(0, |frame| frame.dirty);
            let oldest = self.frames.oldest_sequence(key.unit);
            for (i, (newest, device)) in newest.iter().zip(&self.device[key]).enumerate() {
                let same = device == newest;
                assert!(same || dirty & 1 << i != 0, "{key:?} sector {i} would be lost");
                let kept = newest.sequence == 0 || oldest.is_some_and(|o| o <= newest.sequence);
                assert!(same || kept, "{key:?} sector {i} needs {}", newest.sequence);
            }
        }
    }

    fn settle(&mut self) {
        while !self.in_flight.is_empty() {
            self.end();
        }
        for unit in (0..UNITS).map(UnitId) {
            while let Some(block) = first_dirty(&self.frames, unit) {
                self.begin(Key { unit, block });
                self.end();
            }
        }
    }
}

#[test]
fn contents_agree_with_the_model() {
    let mut refused = 0;
    for seed in 0..12 {
        let mut model = Model::new(seed, [10, 25, 60, 100][seed as usize % 4]);
        for step in 0..6000 {
            model.step();
            if step % 50 == 0 {
                model.check();
                audit(&model.frames);
            }
        }
        model.settle();
        model.check();
        audit(&model.frames);
        assert_eq!(model.device, model.newest, "seed {seed}: everything arrived");
        assert_eq!(model.frames.dirty_frames(), 0);
        assert_eq!(model.frames.oldest_sequence(UnitId(0)), None);
        refused += model.refused;
    }
    assert!(refused > 0, "the small ones were full at times");
}
