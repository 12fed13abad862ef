//! Damage is found and named, all of it, and nothing is written while it is looked for.

use std::cell::RefCell;

use block::Device;
use raid::{Group, Level};

use super::rig::{PAGE, Rig, Setup, create, open, open_groups};
use super::shadow::encode;
use crate::catalog::{Catalog, Cataloged};
use crate::checkpoint::{Packer, items};
use crate::journal::{Frame, encode as encode_frame};
use crate::layout::{CHECKPOINT_BLOCK, METADATA_BLOCK, SLOTS_AT};
use crate::map::Map;
use crate::record::{Pending, Record};
use crate::superblock::Superblock;
use crate::{Finding, Provisioning};

/// Where a group's bytes begin on a drive of a group with one drive.
const DATA: u64 = 1 << 20;

fn setup() -> Setup {
    Setup { groups: 2, ..Setup::new(Level::Raid0, 1) }
}

/// A pool on two groups of one drive each with volumes, a clone and records. What its last superblock and
/// state were.
fn rig(commits: u32) -> (Rig, Superblock, Catalog) {
    let rig = Rig::new(7, setup());
    let last = rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 1 << 20, Provisioning::Thin).await.expect("create");
        pool.create_volume("t", 4 * PAGE, Provisioning::Thick).await.expect("create");
        pool.clone_volume("v", "c").await.expect("clone");
        v.save_record("pr", b"reserved").await.expect("save");
        for i in 1..=commits {
            v.write(u64::from(i) * PAGE, &encode(std::iter::repeat_n(i, 8))).await.expect("write");
            v.flush().await.expect("flush");
        }
        // A pool that is closed has nothing in its journal.
        pool.flush().await.expect("flush");
        for area in pool.0.areas().iter() {
            area.group.close().await.expect("close");
        }
        let sequence = pool.0.journal.sequence.get();
        let superblock = Superblock { sequence, ..pool.0.superblock.borrow().clone() };
        (superblock, pool.0.catalog())
    });
    (rig, last.0, last.1)
}

fn look(rig: &Rig) -> Vec<Finding> {
    rig.model.run(async |world| {
        let groups: Vec<Group> = open_groups(&world, &rig.setup).await.expect("open groups");
        let writes = || groups.iter().flat_map(Group::drives).map(|d| d.counts().writes).sum::<u64>();
        let before = writes();
        let findings = crate::check(&groups).await;
        assert_eq!(writes(), before, "nothing is written");
        findings
    })
}

/// There is a finding with all these words, harmless or not.
fn named(findings: &[Finding], words: &[&str], harmless: bool) {
    let fits = |f: &&Finding| words.iter().all(|w| f.to_string().contains(w)) && f.harmless == harmless;
    assert!(findings.iter().any(|f| fits(&f)), "{words:?} not in {findings:#?}");
}

fn flip(rig: &Rig, disk: usize, at: u64) {
    let mut bytes = rig.disks[disk].peek(at, 1);
    bytes[0] ^= 0x10;
    rig.disks[disk].poke(at, &bytes);
}

/// Puts another state on both disks: a checkpoint of a later generation, with an empty journal.
fn replace(rig: &Rig, superblock: &Superblock, state: &Catalog) {
    replace_on(rig, superblock, state, &[0, 1]);
}

fn replace_on(rig: &Rig, superblock: &Superblock, state: &Catalog, disks: &[usize]) {
    let generation = superblock.generation + 2;
    let mut packer = Packer::new(superblock.pool_id, generation);
    let at = DATA + superblock.layout.checkpoint_at(generation);
    let write = |(index, block): (u32, block::Buf)| {
        disks.iter().for_each(|d| rig.disks[*d].poke(at + u64::from(index) * CHECKPOINT_BLOCK, &block));
    };
    items(state).for_each(|item| {
        packer.push(&item);
        std::iter::from_fn(|| packer.block(false)).for_each(write);
    });
    std::iter::from_fn(|| packer.block(true)).for_each(write);
    let next = Superblock { generation, checkpoint_blocks: packer.blocks(), ..superblock.clone() };
    for disk in disks {
        let bytes = next.of_group(*disk as u32).encode().joined();
        rig.disks[*disk].poke(DATA + SLOTS_AT[(generation % 2) as usize], &bytes);
    }
}

#[test]
fn a_pool_that_is_well_has_no_findings() {
    for commits in [0, 10] {
        let (rig, superblock, catalog) = rig(commits);
        assert_eq!(look(&rig), []);
        replace(&rig, &superblock, &catalog);
        assert_eq!(look(&rig), []);
        rig.model.run(async |world| drop(open(&world, &rig.setup).await.expect("open")));
        assert_eq!(look(&rig), []);
    }
}

#[test]
fn damaged_superblocks_are_named() {
    let (rig, ..) = rig(3);
    flip(&rig, 0, DATA + SLOTS_AT[1] + 70);
    let findings = look(&rig);
    named(&findings, &["slot 1 of group g0", "torn or damaged"], true);
    named(&findings, &["metadata on group g0", "generation 0"], true);
    flip(&rig, 0, DATA + SLOTS_AT[0] + 70);
    let findings = look(&rig);
    named(&findings, &["slot 0 of group g0", "torn or damaged"], false);
    rig.disks[0].poke(DATA, &[0; 128 << 10]);
    named(&look(&rig), &["group g0", "no superblock"], false);
    flip(&rig, 1, DATA + SLOTS_AT[1] + 70);
    flip(&rig, 1, DATA + SLOTS_AT[0] + 70);
    named(&look(&rig), &["no group has a valid superblock"], false);
}

#[test]
fn every_damaged_block_and_frame_is_named() {
    let (rig, superblock, catalog) = rig(10);
    let mut large = catalog.clone();
    for i in 0..8 {
        large.records.insert(format!("p/{i}"), vec![1; 60_000].into());
    }
    replace(&rig, &superblock, &large);
    let checkpoint = DATA + superblock.layout.checkpoint_at(superblock.generation);
    flip(&rig, 0, checkpoint + 100);
    flip(&rig, 0, checkpoint + CHECKPOINT_BLOCK + 100);
    flip(&rig, 1, checkpoint + 2 * CHECKPOINT_BLOCK + 100);
    let findings = look(&rig);
    named(&findings, &["checkpoint 3 on group g0", "block 0", "checksum"], false);
    named(&findings, &["checkpoint 3 on group g0", "block 1", "checksum"], false);
    named(&findings, &["checkpoint 3 on group g1", "block 2", "checksum"], false);
    named(&findings, &["metadata on group g1", "no usable checkpoint"], false);
}

#[test]
fn a_torn_end_of_the_journal_is_no_damage_but_a_hole_is() {
    let (rig, superblock, _) = rig(10);
    let journal = DATA + superblock.layout.journal_at(superblock.generation);
    let frames = superblock.sequence;
    flip(&rig, 0, journal + (frames - 1) * METADATA_BLOCK + 70);
    let findings = look(&rig);
    named(&findings, &["journal 1 on group g0", &format!("after commit {}", frames - 1)], true);
    named(&findings, &["groups g0 and g1", "one copy ends with commit"], true);
    flip(&rig, 1, journal + 3 * METADATA_BLOCK + 70);
    let findings = look(&rig);
    named(&findings, &["journal", "commit 4 is missing"], false);
}

#[test]
fn copies_that_claim_one_commit_and_differ_are_named() {
    let (rig, superblock, catalog) = rig(4);
    // The last commit again, with another content.
    let mut pending = Pending::default();
    pending.push(Record::Map { volume: 1, index: 9, page: 99_999, count: 1 });
    let frame = Frame { generation: superblock.generation, sequence: superblock.sequence, last: false };
    let at = DATA + superblock.layout.journal_at(superblock.generation);
    let bytes = encode_frame(superblock.pool_id, frame, &pending.take());
    rig.disks[1].poke(at + (superblock.sequence - 1) * METADATA_BLOCK, &bytes);
    named(&look(&rig), &["journal 1 on group g1", "a record maps pages 99999"], false);
    let mut other = catalog.clone();
    other.thresholds.soft = 7;
    other.records.insert("p/x".into(), b"y"[..].into());
    other.volumes.get_mut(&1).expect("v").map.set(3, None);
    other.volumes.get_mut(&2).expect("t").len_bytes -= 512;
    other.volumes.remove(&3);
    replace_on(&rig, &superblock, &catalog, &[0]);
    replace_on(&rig, &superblock, &other, &[1]);
    let findings = look(&rig);
    for what in ["thresholds", "record p/x", "map of volume v", "kind of volume t", "volume 3"] {
        named(&findings, &["groups g0 and g1", what], false);
    }
}

/// A state with one thing wrong, and the words in which it is told.
type Wrong = (fn(&mut Catalog), &'static [&'static str], bool);

const WRONG: [Wrong; 11] = [
    (|c| _ = volume(c, 1).map.set(2, Some(1 << 20)), &["volume v", "index 2", "on no group"], false),
    (|c| _ = volume(c, 1).map.set(500, Some(5)), &["volume v", "1 map entries are past the end"], true),
    (|c| _ = volume(c, 2).map.set(1, None), &["volume t", "a hole of 1 pages at index 1"], false),
    (
        |c| {
            let page = volume(c, 2).map.get(0);
            volume(c, 2).map.set(3, page);
        },
        &["volume t", "index 3", "already belongs to a thick volume"],
        false,
    ),
    (|c| volume(c, 1).unfinished = true, &["volume v", "unfinished"], true),
    (|c| volume(c, 3).name = "v".to_owned(), &["(3)", "volume 1 has the same name"], false),
    (|c| volume(c, 3).len_bytes = 7, &["volume c", "invalid size of 7 bytes"], false),
    (|c| c.next_volume = 2, &["volume t (2)", "the next number is 2"], false),
    (|c| c.thresholds.soft = 101, &["threshold of 101 %"], false),
    (|c| drop(c.records.insert("v9/pr".into(), b"a"[..].into())), &["record v9/pr", "no volume"], false),
    (|c| drop(c.records.insert("p/big".into(), vec![1; 70_000].into())), &["p/big", "70000 bytes"], false),
];

fn volume(catalog: &mut Catalog, id: u32) -> &mut Cataloged {
    catalog.volumes.get_mut(&id).expect("it is there")
}

#[test]
fn a_state_that_makes_no_sense_is_named() {
    let (rig, superblock, catalog) = rig(4);
    let all = RefCell::new(catalog.clone());
    for (change, words, harmless) in WRONG {
        let mut state = catalog.clone();
        change(&mut state);
        change(&mut all.borrow_mut());
        replace(&rig, &superblock, &state);
        let findings = look(&rig);
        named(&findings, words, harmless);
        assert!(findings.len() <= 2 * 2, "on both copies, and nothing else: {findings:#?}");
    }
    replace(&rig, &superblock, &all.borrow());
    let findings = look(&rig);
    assert!(findings.len() >= 2 * 9, "all at once: {findings:#?}");
    let mut vast = catalog.clone();
    volume(&mut vast, 1).map = Map::default();
    (0..20_000).for_each(|i| _ = volume(&mut vast, 1).map.set(i, Some(1 << 30)));
    replace(&rig, &superblock, &vast);
    named(&look(&rig), &["check", "more findings"], false);
}

#[test]
fn groups_that_do_not_belong_together_are_named() {
    let (rig, superblock, _) = rig(2);
    let check = |change: &dyn Fn(Superblock) -> Superblock, words: &[&str]| {
        let changed = change(superblock.of_group(1));
        let at = DATA + SLOTS_AT[(superblock.generation % 2) as usize];
        let before = rig.disks[1].peek(at, METADATA_BLOCK as usize);
        rig.disks[1].poke(at, &changed.encode().joined());
        named(&look(&rig), words, false);
        rig.disks[1].poke(at, &before);
    };
    check(&|s| Superblock { pool_id: crate::PoolId([9; 16]), ..s }, &["slot 1 of group g1", "another pool"]);
    check(&|s| Superblock { group_index: 0, ..s }, &["written for group 0, but found on group 1"]);
    check(&|s| Superblock { generation: 4, ..s }, &["generation 4 belongs in the other slot"]);
    check(&|s| Superblock { name: "q".to_owned(), ..s }, &["pool name"]);
    check(&|s| Superblock { sequence: 77, ..s }, &["generation 1 differs from the one on group g0"]);
    let findings = rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        crate::check(&groups[..1]).await
    });
    named(&findings, &["group 1", "missing"], false);
}
