//! A drive of a pool's group is replaced: what is in use is copied, free pages are zeroed; at no power cut is
//! a page other than it was flushed, or a row without its parity.

use std::cell::Cell;

use block::{Buf, Device, Pieces};
use raid::{Group, GroupSpec, Level, MemberState, Throttle};
use world::{Drive, DriveSpec, World};
use world_model::{Disk, DiskSpec, Outcome};

use super::rig::{PAGE, Rig, Setup, new_groups};
use crate::{Pool, PoolSpec, Provisioning, Volume};

const PAGES: u64 = 24;

fn drive(world: &World, d: usize) -> Drive {
    world.open_now(&DriveSpec::Modelled { name: format!("d{d}") }).expect("the disk is there")
}

fn filled(salt: u8, len: u64) -> Pieces {
    let mut buf = Buf::new(len as usize);
    buf.chunks_mut(512).enumerate().for_each(|(i, sector)| sector.fill(i as u8 ^ salt));
    buf.freeze().into()
}

/// A rig with one disk more, which held something else.
fn rig(seed: u64, setup: Setup) -> (Rig, Disk) {
    let rig = Rig::new(seed, setup);
    let new = rig.model.disk(&format!("d{}", setup.width), DiskSpec::new(setup.disk_len));
    for at in (2 << 20..setup.disk_len).step_by(8192) {
        new.poke(at, &[0xee; 512]);
    }
    (rig, new)
}

async fn pool(world: &World, setup: &Setup) -> (Pool, Group) {
    let groups = new_groups(world, setup).await;
    let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
    let pool = Pool::create(world.clone(), spec, groups.clone()).await.expect("create pool");
    (pool, groups[0].clone())
}

async fn read(volume: &Volume, at: u64, len: u64) -> Vec<u8> {
    let mut out = Pieces::new();
    volume.read(at, len as usize, &mut out).await.expect("read");
    out.joined().to_vec()
}

#[test]
fn a_new_drive_gets_what_is_in_use_and_the_rest_is_neither_read_nor_written() {
    for setup in [Setup::mirror(), Setup { disk_len: 16 << 20, ..Setup::parity() }] {
        let setup = Setup { disk_len: 256 << 20, ..setup };
        let (rig, _) = rig(1, setup);
        rig.model.run(async |world| {
            let (pool, group) = pool(&world, &setup).await;
            let v = pool.create_volume("v", PAGES * PAGE, Provisioning::Thin).await.expect("create");
            for page in 0..PAGES {
                v.write(page * PAGE + 4096, &filled(page as u8, 8192)).await.expect("write");
            }
            // Pages that were in use, and are free.
            v.unmap(0, PAGES / 2 * PAGE).await.expect("unmap");
            pool.flush().await.expect("flush");
            group.fail(1, "pulled").await.expect("fail");
            group.replace_forced(1, drive(&world, setup.width)).await.expect("replace");
            assert!(pool.clean_free_pages(group.id()).await.expect("clean") > 0);
            assert_eq!(pool.clean_free_pages(group.id()).await.expect("clean"), 0, "they are known now");
            let before = group.status().members[0].counts.read_bytes;
            group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
            let status = group.status();
            let read_bytes = status.members[0].counts.read_bytes - before;
            assert!(read_bytes < 64 << 20, "{}: {read_bytes} bytes were read", setup.level);
            let written = status.members[1].counts.write_bytes;
            assert!(written < 16 << 20, "{}: {written} bytes were written", setup.level);
            let scrubbed = group.scrub(&Throttle::none(world.clone())).await.expect("scrub");
            assert_eq!(scrubbed.mismatches, 0, "{}: {scrubbed:?}", setup.level);
            group.fail(0, "pulled").await.expect("fail");
            for page in 0..PAGES {
                let mut expected = vec![0; PAGE as usize];
                if page >= PAGES / 2 {
                    expected[4096..12_288].copy_from_slice(&filled(page as u8, 8192).joined());
                }
                assert!(read(&v, page * PAGE, PAGE).await == expected, "{}: page {page}", setup.level);
            }
        });
    }
}

/// What was flushed of each page, and what may be there instead.
#[derive(Default)]
struct Life {
    replaced: Cell<bool>,
    flushed: Cell<u8>,
    written: Cell<u8>,
}

/// Round after round: all pages of it are written over, every third is given back before.
async fn round(v: &Volume, pool: &Pool, life: &Life, round: u8) {
    life.written.set(round);
    for page in (0..PAGES).filter(|p| p % 3 == u64::from(round) % 3) {
        v.unmap(page * PAGE, PAGE).await.expect("unmap");
    }
    for page in 0..PAGES {
        v.write(page * PAGE + 4096, &filled(round, 8192)).await.expect("write");
    }
    pool.flush().await.expect("flush");
    life.flushed.set(round);
}

async fn live(world: World, setup: Setup, life: &Life) {
    let (pool, group) = pool(&world, &setup).await;
    let v = pool.create_volume("v", PAGES * PAGE, Provisioning::Thin).await.expect("create");
    round(&v, &pool, life, 1).await;
    group.fail(1, "pulled").await.expect("fail");
    group.replace_forced(1, drive(&world, setup.width)).await.expect("replace");
    life.replaced.set(true);
    let (cleaned, rebuilt, clock) = (pool.clone(), group.clone(), world.clone());
    let done = std::rc::Rc::new(Cell::new(false));
    let told = done.clone();
    world.spawn(async move {
        cleaned.clean_free_pages(rebuilt.id()).await.expect("clean");
        rebuilt.rebuild(&Throttle::none(clock)).await.expect("rebuild");
        told.set(true);
    });
    for n in 2..5 {
        round(&v, &pool, life, n).await;
    }
    while !done.get() {
        world.sleep(std::time::Duration::from_micros(500)).await;
    }
    round(&v, &pool, life, 5).await;
}

fn check_cut(setup: Setup, point: u64) -> bool {
    let (rig, new) = rig(point, setup);
    let life = Life::default();
    rig.model.disks().cut_power_after(point);
    let outcome = rig.model.run_until_crash(async |world| live(world, setup, &life).await);
    if outcome != Outcome::PowerCut {
        return false;
    }
    if life.flushed.get() == 0 {
        return true;
    }
    rig.model.reboot();
    let case = format!("{} of {}, point {point}", setup.level, setup.width);
    rig.model.run(async |world| {
        let none = Throttle::none(world.clone());
        let old = 0..setup.width;
        let fresh = old.clone().map(|d| if d == 1 { setup.width } else { d });
        let spec = GroupSpec {
            stripe_unit_bytes: 8 << 10,
            ..GroupSpec::new("g0", setup.level, raid::ArrayId([1; 16]))
        };
        let open = async |which: Vec<Drive>| Group::open(world.clone(), spec.clone(), which).await;
        let given =
            |which: &mut dyn Iterator<Item = usize>| which.map(|d| drive(&world, d)).collect::<Vec<_>>();
        let first = if life.replaced.get() { given(&mut fresh.clone()) } else { given(&mut old.clone()) };
        let group = match open(first).await {
            Ok(group) => group,
            Err(_) => open(given(&mut fresh.clone())).await.unwrap_or_else(|e| panic!("{case}: {e}")),
        };
        let pool =
            Pool::open(world.clone(), vec![group.clone()]).await.unwrap_or_else(|e| panic!("{case}: {e}"));
        group.resync(&none).await.expect("resync");
        let v = pool.volume("v").expect("it was flushed");
        let mut first = Vec::new();
        for page in 0..PAGES {
            let got = read(&v, page * PAGE, PAGE).await;
            let (flushed, written) = (life.flushed.get(), life.written.get());
            for (i, sector) in got.chunks(512).enumerate() {
                let here = (i * 512) as u64;
                let of = |round: u8| match (4096..12_288).contains(&here) {
                    true => filled(round, 8192).joined()[(here - 4096) as usize..][..512].to_vec(),
                    false => vec![0; 512],
                };
                let given_back = flushed != written && page % 3 == u64::from(written) % 3;
                let allowed =
                    sector == of(flushed) || sector == of(written) || given_back && sector == [0; 512];
                assert!(allowed, "{case}: page {page}, sector {i}");
            }
            first.push(got);
        }
        group.rebuild(&none).await.expect("rebuild");
        let scrubbed = group.scrub(&none).await.expect("scrub");
        assert_eq!((scrubbed.mismatches, scrubbed.unrepaired), (0, 0), "{case}: {scrubbed:?}");
        let whole = group.status().members.iter().all(|m| m.state == MemberState::Active);
        if whole {
            group.fail(0, "pulled").await.expect("fail");
        }
        for (page, expected) in (0..PAGES).zip(&first) {
            assert!(read(&v, page * PAGE, PAGE).await == *expected, "{case}: page {page}, without a drive");
        }
    });
    drop(new);
    true
}

fn check_cuts(setup: Setup) {
    // Points come by hundreds: a prime number apart, from another one at each level.
    let mut point = 1 + u64::from(setup.level == Level::Raid5);
    while check_cut(setup, point) {
        point += 41;
    }
    assert!(point > 100, "only {point} points");
}

#[test]
fn a_mirror_of_a_pool_is_whole_whenever_the_power_is_cut_while_a_drive_is_filled() {
    check_cuts(Setup { disk_len: 8 << 20, ..Setup::mirror() });
}

#[test]
fn rows_of_a_pool_agree_whenever_the_power_is_cut_while_a_drive_is_filled() {
    check_cuts(Setup { disk_len: 6 << 20, ..Setup::parity() });
}

#[test]
fn two_parities_of_a_pool_agree_whenever_the_power_is_cut_while_a_drive_is_filled() {
    check_cuts(Setup { disk_len: 6 << 20, ..Setup::new(Level::Raid6, 5) });
}
