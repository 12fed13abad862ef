//! Metadata that says anything at all, with checksums that are right, and bits that were flipped: opening
//! gives an error or a pool that can be used, closed and opened again; never a panic, never more memory than
//! the metadata has room for.

use block::{Device, Pieces};
use raid::Level;
use world::{Rng, World};

use super::rig::{PAGE, Rig, Setup, create, open};
use super::shadow::encode;
use crate::layout::{CHECKPOINT_BLOCK, Layout, METADATA_BLOCK, SLOTS_AT};
use crate::record::Record;
use crate::superblock::checksum_without;
use crate::{Pool, PoolId, Provisioning};

/// Where a group's bytes begin on a drive of a group with one drive.
const DATA: u64 = 1 << 20;
/// Opening takes its buffers, the tables of maps (see `LEAVES_MAX`), and what the pages, entries and records
/// of this small pool can take.
const MEMORY_MAX: u64 = (1 << 30) + (64 << 20);
/// Values at which arithmetic ends.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    511,
    4096,
    1 << 16,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    1 << 32,
    (1 << 62) - 1,
    u64::MAX - 1,
    u64::MAX,
];

/// A pool with a checkpoint that has volumes, a clone and records, and a journal that has commits.
struct Medium {
    rig: Rig,
    layout: Layout,
    /// The metadata of each disk as it was.
    images: Vec<Vec<u8>>,
    generation: u64,
    frames: u64,
    pool_id: PoolId,
}

fn medium(groups: usize) -> Medium {
    let rig = Rig::new(3, Setup { groups, ..Setup::new(Level::Raid0, 1) });
    let (layout, generation, frames, pool_id) = rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 1 << 20, Provisioning::Thin).await.expect("create");
        pool.create_volume("t", 2 * PAGE, Provisioning::Thick).await.expect("create");
        v.write(0, &encode(std::iter::repeat_n(1, 300))).await.expect("write");
        pool.clone_volume("v", "c").await.expect("clone");
        v.save_record("pr", b"reserved").await.expect("save");
        pool.close().await.expect("close");
        drop((v, pool));
        // Opening after work that was not closed writes a checkpoint; what follows is in the journal.
        let pool = open(&world, &rig.setup).await.expect("open");
        let v = pool.volume("v").expect("there");
        for i in 1..6 {
            v.write(i * PAGE, &encode(std::iter::repeat_n(i as u32, 8))).await.expect("write");
            v.flush().await.expect("flush");
        }
        let superblock = pool.0.superblock.borrow().clone();
        let frames = pool.0.journal.sequence.get() - superblock.sequence;
        (superblock.layout, superblock.generation, frames, superblock.pool_id)
    });
    let len = DATA + layout.metadata_end();
    let images = rig.disks.iter().map(|d| d.peek(0, len as usize)).collect();
    Medium { rig, layout, images, generation, frames, pool_id }
}

impl Medium {
    fn restore(&self) {
        self.rig.disks.iter().zip(&self.images).for_each(|(disk, image)| disk.poke(0, image));
    }

    /// A structure: where it lies, how many of its bytes the checksum covers, where that lies, and how far
    /// what it says reaches.
    fn structure(&self, rng: &mut Rng) -> (u64, usize, usize, usize) {
        let journal = DATA + self.layout.journal_at(self.generation);
        match rng.u8(..3) {
            0 => (DATA + SLOTS_AT[rng.usize(..2)], METADATA_BLOCK as usize, 12, 168 + 2 * 48),
            1 => (DATA + self.layout.checkpoint_at(self.generation), CHECKPOINT_BLOCK as usize, 8, 400),
            _ => (journal + rng.u64(..self.frames) * METADATA_BLOCK, 0, 8, 120),
        }
    }

    /// Changes a field or two of a structure on all disks alike, or on one, and makes its checksum right.
    fn change_fields(&self, rng: &mut Rng) {
        let (at, covered, sum_at, reach) = self.structure(rng);
        let mut changes = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let value = match rng.u8(..3) {
                0 => EDGES[rng.usize(..EDGES.len())],
                1 => rng.u64(..) >> rng.u32(..64),
                _ => 1 << rng.u32(..64),
            };
            changes.push((
                rng.usize(..reach / 2) * 2 + usize::from(rng.u8(..8) == 0),
                1 << rng.u32(..4),
                value,
            ));
        }
        let only = (rng.u8(..4) == 0).then(|| rng.usize(..self.rig.disks.len()));
        for (i, disk) in self.rig.disks.iter().enumerate().filter(|(i, _)| only.is_none_or(|o| o == *i)) {
            let mut bytes = disk.peek(at, CHECKPOINT_BLOCK as usize);
            for (from, width, value) in &changes {
                bytes[*from..*from + *width].copy_from_slice(&value.to_le_bytes()[..*width]);
            }
            let len = match covered {
                // A frame says how long it is.
                0 => 64 + (u32::from_le_bytes(bytes[48..52].try_into().expect("4")) as usize).min(4000),
                covered => covered,
            };
            let sum = checksum_without(&bytes[..len], sum_at);
            bytes[sum_at..sum_at + 4].copy_from_slice(&sum.to_le_bytes());
            disk.poke(at, &bytes[..len.max(reach)]);
            assert!(i < 2);
        }
    }

    /// One more commit behind the last one, with records that no pool writes.
    fn add_records(&self, rng: &mut Rng) {
        let mut payload = Vec::new();
        (0..rng.usize(1..6)).for_each(|_| record(rng).encode(&mut payload));
        let last = DATA + self.layout.journal_at(self.generation) + (self.frames - 1) * METADATA_BLOCK;
        let sequence = self.rig.disks[0].peek(last + 40, 8);
        let sequence = u64::from_le_bytes(sequence.try_into().expect("8")) + 1;
        let frame = crate::journal::Frame { generation: self.generation, sequence, last: rng.bool() };
        let bytes = crate::journal::encode(self.pool_id, frame, &payload);
        self.rig.disks.iter().for_each(|d| d.poke(last + METADATA_BLOCK, &bytes));
    }

    fn flip_bits(&self, rng: &mut Rng) {
        for _ in 0..rng.usize(1..6) {
            let disk = &self.rig.disks[rng.usize(..self.rig.disks.len())];
            let (at, _, _, reach) = self.structure(rng);
            let at = at + rng.u64(..reach as u64);
            let mut byte = disk.peek(at, 1);
            byte[0] ^= 1 << rng.u32(..8);
            disk.poke(at, &byte);
        }
    }

    /// What comes of it. Whether it opened.
    fn look(&self) -> bool {
        let opened = self.rig.model.run(async |world| {
            let pool = open(&world, &self.rig.setup).await.ok()?;
            let well = work(&pool).await;
            Some(well && pool.close().await.is_ok())
        });
        if opened == Some(true) {
            self.rig.model.run(async |world| reopen(&world, &self.rig.setup).await);
        }
        opened.is_some()
    }
}

async fn reopen(world: &World, setup: &Setup) {
    let pool = open(world, setup).await.expect("what was used and closed opens again");
    let _ = pool.audit();
}

/// Reads, writes, grows, clones and deletes whatever is there. Whether all that could succeed did.
async fn work(pool: &Pool) -> bool {
    let mut well = true;
    for v in pool.volumes() {
        let len = v.geometry().len_bytes;
        for at in [0, len / 2 / 512 * 512, len - 512] {
            let mut out = Pieces::new();
            well &= v.read(at, 512, &mut out).await.is_ok();
            well &= v.write(at, &encode([7].into_iter())).await.is_ok();
        }
        well &= v.flush().await.is_ok();
        let _ = v.space();
    }
    let names: Vec<String> = pool.volumes().iter().map(|v| v.name().to_owned()).take(3).collect();
    for name in &names {
        if pool.clone_volume(name, "another").await.is_ok() {
            well &= pool.delete_volume(name).await.is_ok() && pool.delete_volume("another").await.is_ok();
        }
    }
    let _ = pool.create_volume("new", 3 * PAGE, Provisioning::Thick).await;
    well
}

fn record(rng: &mut Rng) -> Record {
    let number = |rng: &mut Rng| match rng.u8(..3) {
        0 => rng.u32(..8),
        1 => EDGES[rng.usize(..EDGES.len())] as u32,
        _ => rng.u32(..) >> rng.u32(..32),
    };
    let len_bytes = |rng: &mut Rng| match rng.u8(..3) {
        0 => rng.u64(..64) * 512,
        1 => EDGES[rng.usize(..EDGES.len())],
        _ => (rng.u64(..) >> rng.u32(..64)) / 512 * 512,
    };
    let name = ["v", "t", "x", ""][rng.usize(..4)].to_owned();
    let volume = if rng.u8(..4) == 0 { number(rng) } else { rng.u32(1..5) };
    match rng.u8(..9) {
        0 | 1 => Record::Map { volume, index: number(rng), page: number(rng), count: number(rng) },
        2 => Record::Unmap { volume, index: number(rng), count: number(rng) },
        3 => Record::Create {
            volume,
            len_bytes: len_bytes(rng),
            thick: rng.bool(),
            unfinished: rng.bool(),
            name,
        },
        4 => Record::Resize { volume, len_bytes: len_bytes(rng) },
        5 => Record::Clone { from: rng.u32(1..5), volume: number(rng), name },
        6 => Record::Save { key: "k".repeat(rng.usize(..300)), bytes: vec![1; rng.usize(..3000)] },
        7 => Record::Delete { volume },
        _ => Record::Thresholds(crate::events::Thresholds { soft: rng.u8(..), critical: rng.u8(..) }),
    }
}

/// Says on a panic which case it was.
struct Case(&'static str, u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}, seed {}", self.0, self.1);
        }
    }
}

/// Cases of this seed and the following ones; at least one opens and one does not.
fn check(name: &'static str, seeds: std::ops::Range<u64>, change: impl Fn(&Medium, &mut Rng)) {
    for groups in [1, 2] {
        let medium = medium(groups);
        medium.restore();
        assert!(medium.look(), "unchanged it opens");
        let (mut opened, mut refused) = (0, 0);
        for seed in seeds.clone() {
            let _case = Case(name, seed);
            medium.restore();
            change(&medium, &mut Rng::with_seed(seed));
            let mut open = false;
            let memory = allocation_counter::measure(|| open = medium.look());
            assert!(memory.bytes_max < MEMORY_MAX, "{} bytes at once", memory.bytes_max);
            *(if open { &mut opened } else { &mut refused }) += 1;
        }
        assert!(opened > 0 && refused > 0, "{name}: {opened} opened, {refused} refused");
    }
}

#[test]
fn changed_fields_are_an_error_or_a_pool() {
    check("fields", 0..500, Medium::change_fields);
}

#[test]
fn records_that_no_pool_writes_are_an_error_or_a_pool() {
    check("records", 0..500, Medium::add_records);
}

#[test]
fn flipped_bits_are_an_error_or_a_pool() {
    check("bits", 0..250, Medium::flip_bits);
}

#[test]
#[ignore = "long: make soak"]
fn a_hundred_thousand_mutations() {
    check("fields", 1000..50_000, Medium::change_fields);
    check("records", 1000..50_000, Medium::add_records);
    check("bits", 1000..50_000, Medium::flip_bits);
}

/// What opening refuses is never written.
#[test]
fn volumes_are_refused_whose_maps_could_not_be_read_again() {
    let rig = Rig::new(1, Setup::new(Level::Raid0, 1));
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let largest = u64::from(u32::MAX - 1) * PAGE;
        for i in 0..32 {
            let made = pool.create_volume(&format!("v{i}"), largest, Provisioning::Thin).await;
            made.expect("32 of the largest");
        }
        let refused = pool.create_volume("v32", 512, Provisioning::Thin).await.err().expect("one too many");
        assert!(refused.to_string().contains("pages in total"), "{refused}");
        let refused = pool.clone_volume("v0", "c").await.err().expect("one too many");
        assert!(refused.to_string().contains("pages in total"), "{refused}");
        pool.delete_volume("v7").await.expect("delete");
        pool.create_volume("v32", 512, Provisioning::Thin).await.expect("there is room");
    });
}
