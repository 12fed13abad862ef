//! Damage to metadata that no power cut does: it is reported or repaired from the other copy, never believed.

use block::Device;
use raid::Level;

use super::rig::{PAGE, Rig, Setup, audit, create, open, open_groups};
use super::shadow::{encode, values};
use crate::layout::{METADATA_BLOCK, SLOTS_AT};
use crate::superblock::{VERSION, checksum_without};
use crate::{Pool, PoolError, PoolSpec, Provisioning, check};

/// Where a group's bytes begin on a drive of a group with one drive.
const DATA: u64 = 1 << 20;
const JOURNAL: u64 = DATA + (128 << 10);
const HALF: u64 = 512 << 10;

/// A pool on groups of one drive each, with ten commits in the journal after its first checkpoint.
fn rig(groups: usize) -> Rig {
    rig_of(Setup { groups, ..Setup::new(Level::Raid0, 1) })
}

fn rig_of(setup: Setup) -> Rig {
    let rig = Rig::new(7, setup);
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 1 << 20, Provisioning::Thin).await.expect("create");
        for i in 1..10 {
            v.write(u64::from(i) * PAGE, &encode(std::iter::repeat_n(i, 8))).await.expect("write");
            v.flush().await.expect("flush");
        }
    });
    rig
}

/// How many of the ten commits the pool has after opening, or why it does not open.
fn commits(rig: &Rig) -> Result<u32, String> {
    rig.model.run(async |world| {
        let pool = open(&world, &rig.setup).await?;
        audit(&pool).await;
        let Some(v) = pool.volume("v") else { return Ok(0) };
        let mut found = 1;
        for i in 1..10 {
            let value = values(&v, (u64::from(i) * PAGE / 512) as usize, 1).await[0];
            assert!(value == i || value == 0);
            found += u32::from(value == i);
        }
        Ok(found)
    })
}

fn scribble(rig: &Rig, disk: usize, at: u64) {
    let mut bytes = rig.disks[disk].peek(at + 70, 1);
    bytes[0] ^= 0x10;
    rig.disks[disk].poke(at + 70, &bytes);
}

/// The journal of generation 1 is the second half; every commit here is one block.
fn frame(i: u64) -> u64 {
    JOURNAL + HALF + i * 4096
}

#[test]
fn the_last_frame_torn_is_the_end() {
    let rig = rig(1);
    scribble(&rig, 0, frame(9));
    assert_eq!(commits(&rig), Ok(9));
    assert_eq!(commits(&rig), Ok(9));
}

#[test]
fn a_frame_in_the_middle_damaged_is_an_error_that_names_the_place() {
    let rig = rig(1);
    scribble(&rig, 0, frame(4));
    let text = commits(&rig).expect_err("commits are missing");
    assert!(text.contains("corruption in journal of pool") && text.contains("commit 5 is missing"), "{text}");
}

#[test]
fn the_other_copy_serves() {
    for damage in [frame(4), frame(9), DATA + (64 << 10), JOURNAL + 2 * HALF] {
        for disk in 0..2 {
            let rig = rig(2);
            scribble(&rig, disk, damage);
            assert_eq!(commits(&rig), Ok(10));
            // Opening has made the two copies equal: now the other one may go.
            rig.disks[1 - disk].poke(DATA, &[0; 128 << 10]);
            assert_eq!(commits(&rig), Ok(10));
        }
    }
}

#[test]
fn both_superblocks_damaged_is_an_error() {
    let rig = rig(1);
    scribble(&rig, 0, DATA);
    scribble(&rig, 0, DATA + (64 << 10));
    let text = commits(&rig).expect_err("nothing is known");
    assert!(text.contains("corruption in superblocks on group g0"), "{text}");
}

#[test]
fn a_damaged_checkpoint_without_another_copy_is_an_error() {
    let rig = rig(1);
    // Generation 1 has the second checkpoint region; its size is what the layout plans for this pool.
    let layout = crate::layout::Layout::plan(rig.setup.disk_len - DATA, PAGE);
    scribble(&rig, 0, DATA + layout.checkpoint_at(1));
    let text = commits(&rig).expect_err("the state is gone");
    assert!(text.contains("corruption in checkpoint 1 of pool"), "{text}");
}

#[test]
fn random_bytes_over_metadata_never_panic() {
    let mut rng = world::Rng::with_seed(9);
    for _ in 0..60 {
        let rig = rig(1);
        for _ in 0..rng.usize(1..4) {
            let mut bytes = vec![0; rng.usize(1..2000)];
            rng.fill(&mut bytes);
            rig.disks[0].poke(rng.u64(..5 << 20), &bytes);
        }
        let _ = commits(&rig);
    }
}

/// A newer masu has rewritten one slot, and was about to write the other one, too.
#[test]
fn a_superblock_of_a_newer_version_is_named_and_nothing_is_written() {
    for slot in SLOTS_AT {
        let rig = rig(1);
        let mut block = rig.disks[0].peek(DATA + slot, METADATA_BLOCK as usize);
        block[..8].copy_from_slice(b"MASUPOOL");
        block[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
        let sum = checksum_without(&block, 12);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
        rig.disks[0].poke(DATA + slot, &block);
        let before = rig.disks[0].peek(DATA, 4 << 20);
        let refused = commits(&rig).expect_err("it is of a newer masu");
        let told = format!("newer format version {}, this masu reads up to {VERSION}", VERSION + 1);
        assert!(refused.contains(&told) && refused.contains("start the newer masu"), "{refused}");
        rig.model.run(async |world| {
            let groups = open_groups(&world, &rig.setup).await.expect("open");
            let findings = check(&groups).await;
            let named = findings.iter().any(|f| f.text.contains(&told));
            assert!(named, "{findings:#?}");
            let created = Pool::create(world.clone(), PoolSpec::new("other"), groups).await;
            assert!(matches!(created, Err(PoolError::NewerVersion { .. })));
        });
        assert!(rig.disks[0].peek(DATA, 4 << 20) == before, "nothing was written");
    }
}

/// The last frame, damaged on the mirror that serves reads, was taken for one that a power failure tore: what
/// it had made durable was gone.
#[test]
fn a_frame_that_one_mirror_lost_is_found_on_the_other() {
    for disks in [&[0][..], &[1]] {
        for i in [9, 4] {
            let rig = rig_of(Setup::mirror());
            disks.iter().for_each(|disk| scribble(&rig, *disk, frame(i)));
            assert_eq!(commits(&rig), Ok(10), "frame {i} of disks {disks:?}");
            assert_eq!(commits(&rig), Ok(10), "and it stays");
        }
    }
    let rig = rig_of(Setup::mirror());
    (0..2).for_each(|disk| scribble(&rig, disk, frame(9)));
    assert_eq!(commits(&rig), Ok(9), "on both it is the end");
}

/// What recovery found on another mirror is written to all: the resync that follows copies the first one.
#[test]
fn what_one_mirror_lost_stays_when_the_mirrors_are_made_equal() {
    let layout = crate::layout::Layout::plan(Setup::mirror().disk_len - DATA, PAGE);
    let (older, newest) = (DATA, DATA + (64 << 10));
    let cases: [&[u64]; 6] =
        [&[frame(9)], &[frame(4)], &[newest], &[older, newest], &[DATA + layout.checkpoint_at(1)], &[older]];
    for disk in 0..2 {
        for damaged in cases {
            let rig = rig_of(Setup::mirror());
            damaged.iter().for_each(|at| scribble(&rig, disk, *at));
            assert_eq!(commits(&rig), Ok(10), "{damaged:?} of disk {disk}");
            resync(&rig);
            assert_eq!(commits(&rig), Ok(10), "{damaged:?} of disk {disk}, resynchronised");
        }
    }
}

/// The same with nothing in the journal, which alone would be a reason to write a new checkpoint.
#[test]
fn what_one_mirror_lost_of_a_checkpoint_alone_is_written_again() {
    let layout = crate::layout::Layout::plan(Setup::mirror().disk_len - DATA, PAGE);
    let checkpoints = [DATA + layout.checkpoint_at(1), DATA + layout.checkpoint_at(2)];
    let superblocks = [DATA, DATA + (64 << 10)];
    for disk in 0..2 {
        for damaged in [checkpoints, superblocks, [checkpoints[0], superblocks[0]]] {
            let rig = rig_of(Setup::mirror());
            assert_eq!(commits(&rig), Ok(10), "recovery writes checkpoint 2");
            damaged.iter().for_each(|at| scribble(&rig, disk, *at));
            assert_eq!(commits(&rig), Ok(10), "{damaged:?} of disk {disk}");
            resync(&rig);
            assert_eq!(commits(&rig), Ok(10), "{damaged:?} of disk {disk}, resynchronised");
        }
    }
}

fn resync(rig: &Rig) {
    rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open");
        let throttle = raid::Throttle::none(world.clone());
        groups[0].resync(&throttle).await.expect("resync");
    });
}

/// Each mirror has a frame that the other one lost.
#[test]
fn frames_come_from_different_mirrors() {
    let rig = rig_of(Setup::mirror());
    scribble(&rig, 0, frame(9));
    scribble(&rig, 1, frame(4));
    assert_eq!(commits(&rig), Ok(10));
    let rig = rig_of(Setup::mirror());
    (0..2).for_each(|disk| scribble(&rig, disk, frame(4)));
    scribble(&rig, 0, frame(5));
    (6..10).for_each(|i| scribble(&rig, 0, frame(i)));
    let text = commits(&rig).expect_err("the second mirror proves that frames are lost");
    assert!(text.contains("commit 6 exists, but commit 5 is missing"), "{text}");
}

#[test]
fn what_a_closed_pool_has_is_not_in_its_journal() {
    let rig = rig(1);
    rig.model.run(async |world| {
        open(&world, &rig.setup).await.expect("open").close().await.expect("close");
        let pool = open(&world, &rig.setup).await.expect("open");
        pool.volume("v").expect("there").save_record("pr", b"reserved").await.expect("save");
        pool.close().await.expect("close");
    });
    for at in (JOURNAL..JOURNAL + 2 * HALF).step_by(4096) {
        scribble(&rig, 0, at);
    }
    rig.model.run(async |world| {
        let pool = open(&world, &rig.setup).await.expect("open");
        let record = pool.volume("v").expect("there").load_record("pr");
        assert_eq!(record.as_deref(), Some(&b"reserved"[..]));
    });
}

/// Pages of the group that was put back are as old as its metadata: hosts would read what was written over,
/// or what was another volume's.
#[test]
fn a_holder_that_was_put_back_to_an_earlier_copy_is_refused() {
    for disk in 0..2 {
        let rig = rig(2);
        let life = |closes: bool| {
            rig.model.run(async |world| {
                let pool = open(&world, &rig.setup).await.expect("open");
                let v = pool.volume("v").expect("there");
                for i in 1..4 {
                    v.save_record("pr", &[i]).await.expect("save");
                }
                if closes {
                    pool.close().await.expect("close");
                }
            });
        };
        let content = || rig.disks[disk].peek(0, rig.disks[disk].spec().len_bytes as usize);
        life(true);
        let earlier = content();
        for closes in [false, true] {
            life(closes);
            let current = content();
            rig.disks[disk].poke(0, &earlier);
            let refused = commits(&rig).expect_err("the copy is an earlier one");
            assert!(refused.contains(&format!("group g{disk}: an earlier copy")), "{refused}");
            rig.disks[disk].poke(0, &current);
            assert_eq!(commits(&rig), Ok(10));
        }
    }
}
