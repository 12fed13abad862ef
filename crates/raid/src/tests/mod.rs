//! Groups on modelled disks: conformance, labels, failing drives, exact drive operations.

mod cuts;
mod differing;
mod examine;
mod formats;
mod full;
mod levels;
mod mapped;
mod membership;
mod mutation;
mod preferred;
mod silent;
mod spares;
mod upkeep;
mod yielding;

use block::conformance::random_against_shadow;
use block::{Buf, Device, Pieces};
use world::{Drive, DriveSpec, World};
use world_model::{Disk, DiskSpec, Model, Outcome};

use crate::{ArrayId, Group, GroupError, GroupSpec, GroupState, Level, MemberState, Throttle, inspect};

const DISK_LEN: u64 = 9 << 20;

struct Rack {
    model: Model,
    disks: Vec<Disk>,
}

fn rack(seed: u64, disks: usize) -> Rack {
    rack_of(seed, disks, DISK_LEN)
}

fn rack_of(seed: u64, disks: usize, len_bytes: u64) -> Rack {
    let model = Model::new(seed);
    let disks = (0..disks).map(|i| model.disk(&format!("d{i}"), DiskSpec::new(len_bytes))).collect();
    Rack { model, disks }
}

fn spec_of(level: Level, width: usize) -> GroupSpec {
    // As a declaration chooses it: pages of 1 MiB in whole rows waste little.
    let row_units = (width as u32).saturating_sub(level.parities()).max(1);
    let waste = |unit_kib: &u32| match 1024_u32.next_multiple_of(unit_kib * row_units) - 1024 {
        0..=102 => 0,
        much => much,
    };
    let mirrored = level.parities() == 0;
    let unit_kib = if mirrored { 64 } else { [64, 32, 16, 8].into_iter().min_by_key(waste).expect("four") };
    GroupSpec { stripe_unit_bytes: unit_kib << 10, ..spec(level) }
}

fn drives(world: &World, which: impl IntoIterator<Item = usize>) -> Vec<Drive> {
    let open = |i| world.open_now(&DriveSpec::Modelled { name: format!("d{i}") }).expect("the disk is there");
    which.into_iter().map(open).collect()
}

fn spec(level: Level) -> GroupSpec {
    GroupSpec::new("g", level, ArrayId([7; 16]))
}

fn pattern(len: usize, salt: u8) -> Pieces {
    let mut buf = Buf::new(len);
    buf.chunks_mut(512).enumerate().for_each(|(i, sector)| sector.fill(i as u8 ^ salt));
    buf.freeze().into()
}

async fn read(group: &Group, at: u64, len: usize) -> Vec<u8> {
    let mut out = Pieces::new();
    group.read(at, len, &mut out).await.expect("read");
    out.joined().to_vec()
}

#[test]
fn blocks_are_those_of_the_coarsest_drive() {
    let model = Model::new(1);
    model.disk("d0", DiskSpec::new(DISK_LEN));
    model.disk("d1", DiskSpec::new(DISK_LEN).with_block_bytes(4096));
    model.run(async |world| {
        let group =
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
        assert_eq!(group.geometry().block_bytes, 4096);
        random_against_shadow(&group, &mut world.random("test"), 100).await;
    });
}

#[test]
fn every_drive_gets_one_read_of_a_long_range_and_one_write_of_a_unit() {
    let rack = rack(1, 4);
    rack.model.run(async |world| {
        let group =
            Group::create(world.clone(), spec(Level::Raid0), drives(&world, 0..4)).await.expect("create");
        let counts = |group: &Group| {
            group.drives().iter().map(|d| (d.counts().reads, d.counts().writes)).collect::<Vec<_>>()
        };
        let before = counts(&group);
        read(&group, 65536 * 3, 16 * 65536).await;
        group.write(65536, &pattern(65536, 1)).await.expect("write");
        let did: Vec<_> = counts(&group).iter().zip(before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        assert_eq!(did, [(1, 0), (1, 1), (1, 0), (1, 0)]);
    });
}

#[test]
fn foreign_unlabelled_and_missing_drives_are_refused_by_name() {
    let rack = rack(2, 5);
    rack.model.run(async |world| {
        let other = GroupSpec::new("other", Level::Raid0, ArrayId([7; 16]));
        Group::create(world.clone(), spec(Level::Raid0), drives(&world, 0..2)).await.expect("create");
        Group::create(world.clone(), other.clone(), drives(&world, 2..4)).await.expect("create");
        let check = async |which: &[usize], words: &[&str]| {
            let opened =
                Group::open(world.clone(), spec(Level::Raid0), drives(&world, which.iter().copied())).await;
            let text = opened.err().expect("refused").to_string();
            words.iter().for_each(|w| assert!(text.contains(w), "{text:?} lacks {w:?}"));
        };
        check(&[0, 2], &["drive d2", "group other", "group g"]).await;
        check(&[0, 4], &["drive d4", "no label", "group g"]).await;
        check(&[0], &["position 1 of 2 is missing"]).await;
        check(&[0, 0], &["drive d0"]).await;
        check(&[1, 0, 3], &["drive d3"]).await;
        let again =
            Group::create(world.clone(), other.clone(), drives(&world, [2, 1])).await.err().expect("in use");
        assert!(again.to_string().contains("drive d2 already belongs to group other"), "{again}");
        Group::create_forced(world.clone(), other, drives(&world, [2, 1])).await.expect("forced");
        check(&[0, 1], &["drive d1", "group other"]).await;
    });
}

#[test]
fn a_mirror_that_was_away_is_left_out_and_diverged_mirrors_are_refused() {
    let rack = rack(3, 2);
    let (a, b) = (pattern(8192, 1), pattern(8192, 2));
    rack.model.run(async |world| {
        let group =
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
        group.write(0, &a).await.expect("write");
        group.flush().await.expect("flush");
        rack.disks[1].kill();
        group.write(0, &b).await.expect("one drive is enough");
        group.flush().await.expect("flush");
    });
    rack.disks[1].resume();
    rack.model.run(async |world| {
        let group =
            Group::open(world.clone(), spec(Level::Raid1), drives(&world, [1, 0])).await.expect("open");
        assert_eq!(group.status().members[1].state, MemberState::Stale);
        for _ in 0..4 {
            assert_eq!(read(&group, 0, 8192).await, b.joined().to_vec());
        }
    });
    rack.model.run(async |world| {
        let open = Group::open(world.clone(), spec(Level::Raid1), drives(&world, [1])).await;
        assert!(
            matches!(open, Err(GroupError::Missing { position: 0, .. })),
            "its label calls for the other one"
        );
        Group::open_degraded(world.clone(), spec(Level::Raid1), drives(&world, [1]))
            .await
            .expect("vouched for");
        let both = Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await;
        assert!(matches!(both, Err(GroupError::Diverged { .. })), "both were used alone");
    });
}

#[test]
fn a_latent_error_is_read_from_the_other_mirror_and_written_again() {
    let rack = rack(4, 2);
    rack.model.run(async |world| {
        let group =
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
        let data = pattern(65536, 3);
        group.write(65536, &data).await.expect("write");
        for disk in &rack.disks {
            disk.add_latent_errors((1 << 20) + 70_000..(1 << 20) + 71_000);
            for _ in 0..2 {
                assert_eq!(read(&group, 65536, 65536).await, data.joined().to_vec());
            }
            assert_eq!(disk.latent_errors(), 0);
        }
        assert_eq!(group.status().repairs, 2);
        rack.disks.iter().for_each(|d| d.add_latent_errors((2 << 20)..(2 << 20) + 512));
        let lost = group.read(1 << 20, 4096, &mut Pieces::new()).await;
        assert!(matches!(lost, Err(block::BlockError::Unreadable { at, .. }) if at == 1 << 20), "{lost:?}");
    });
}

/// A power cut after every persistence point of creation, writes, a drive's death and the writes after it:
/// what was flushed reads back, and a block that was read once reads the same again.
#[test]
fn mirrors_survive_a_cut_at_every_point() {
    let mut point = 1;
    while check_cut(point) {
        point += 1;
    }
    assert!(point > 40, "only {point} points");
}

fn check_cut(point: u64) -> bool {
    let rack = rack(point, 3);
    rack.model.disks().cut_power_after(point);
    let flushed = std::cell::Cell::new(0_u8);
    let created = std::cell::Cell::new(false);
    let outcome = rack.model.run_until_crash(async |world| {
        let group =
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..3)).await.expect("create");
        created.set(true);
        for round in 1..=5 {
            if round % 2 == 0 {
                rack.disks[round as usize / 2].kill();
            }
            group.write(0, &pattern(4096, round)).await.expect("write");
            group.flush().await.expect("flush");
            flushed.set(round);
        }
    });
    if outcome != Outcome::PowerCut {
        return false;
    }
    rack.model.reboot();
    rack.disks.iter().for_each(Disk::resume);
    rack.model.run(async |world| {
        let all = drives(&world, 0..3);
        let group = match Group::open(world.clone(), spec(Level::Raid1), all.clone()).await {
            Ok(group) => group,
            Err(error) => {
                assert!(!created.get(), "point {point}: {error}");
                return drop(
                    Group::create(world.clone(), spec(Level::Raid1), all).await.expect("create again"),
                );
            }
        };
        let first = read(&group, 0, 4096).await;
        for (i, byte) in first.iter().enumerate() {
            let written = |round: u8| if round == 0 { 0 } else { (i / 512) as u8 ^ round };
            let allowed = [written(flushed.get()), written(flushed.get() + 1)];
            assert!(allowed.contains(byte), "point {point}: byte {i} is {byte}, not one of {allowed:?}");
        }
        for _ in 0..3 {
            assert_eq!(read(&group, 0, 4096).await, first, "point {point}");
        }
        let same =
            |group: &Group| group.status().members.iter().filter(|m| m.state == MemberState::Active).count();
        if same(&group) > 1 {
            assert!(group.status().reads_pinned || flushed.get() == 0, "point {point}");
            group.resync(&Throttle::none(world.clone())).await.expect("resync");
            assert!(!group.status().reads_pinned);
            for _ in 0..3 {
                assert_eq!(read(&group, 0, 4096).await, first, "point {point}, all mirrors");
            }
        }
        for drive in all {
            assert!(inspect(&drive).await.expect("readable").is_some());
        }
    });
    true
}

/// After a power cut mirrors differ, and the first one cannot read one block: what it can read stays what it
/// was read as, also when all mirrors serve reads again.
#[test]
fn a_bad_block_of_the_first_mirror_leaves_its_neighbours_what_they_were_read_as() {
    for (seed, copies) in [(41, 2), (42, 3)] {
        let rack = rack(seed, copies);
        const LEN: usize = 64 << 10;
        rack.model.run(async |world| {
            let all = drives(&world, 0..copies);
            let group = Group::create(world.clone(), spec(Level::Raid1), all).await.expect("create");
            group.write(0, &pattern(LEN, 1)).await.expect("write");
            group.flush().await.expect("flush");
            group.write(4096, &pattern(4096, 1)).await.expect("write");
        });
        // What a cut leaves of a write that was not flushed: each mirror has another content.
        let data = 1 << 20;
        for (m, disk) in rack.disks.iter().enumerate() {
            disk.poke(data, &vec![m as u8 + 1; LEN]);
        }
        rack.model.run(async |world| {
            let all = drives(&world, 0..copies);
            let group = Group::open(world.clone(), spec(Level::Raid1), all).await.expect("open");
            assert!(group.status().reads_pinned, "seed {seed}: it was not closed");
            let before = read(&group, 8192, 4096).await;
            assert!(before.iter().all(|byte| *byte == 1), "the first mirror");
            rack.disks[0].add_latent_errors(data + 16_384..data + 16_896);
            if copies == 2 {
                let all = read(&group, 0, LEN).await;
                assert!(
                    all[..16_384] == vec![1; 16_384] && all[20_480..] == vec![1; LEN - 20_480],
                    "one read"
                );
            }
            group.resync(&Throttle::none(world.clone())).await.expect("resync");
            assert!(!group.status().reads_pinned);
            for _ in 0..2 * copies {
                for (at, expected) in [(8192, 1), (16_384, 2), (20_480, 1)] {
                    let found = read(&group, at, 4096).await;
                    assert!(
                        found.iter().all(|byte| *byte == expected),
                        "{copies} copies, {at}: {}",
                        found[0]
                    );
                }
            }
        });
    }
}
