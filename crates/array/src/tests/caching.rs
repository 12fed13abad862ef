//! Volumes under a cache as their hosts meet them: what is durable when, what the caching mode page says,
//! what copies have.

use crate::config::Level;
use block::{Buf, Pieces};
use iscsi::initiator::{Options, Session};
use world::World;
use world_model::{Model, Outcome};

use super::rig::{Host, VOLUME_BYTES, declaration, group, model, portal, start, wait_until};
use crate::config::{CACHE_BYTES_MIN, CachePolicy, CacheSettings, Made, VolumeConfig};
use crate::status::{CacheStatus, ControllerStatus, UnitCounts};
use crate::{Array, Config, Lun};

const TARGET: &str = "iqn.2026-11.test:array";

/// Pool `p` with volume `v` on the mirror `g`, under a cache; with a journal on the mirror `j` where that is
/// asked for.
pub(super) fn cached(id: u8, journal: bool) -> Config {
    let mut config = declaration(id, 4, vec![group("g", Level::Raid1, 0..2)]);
    config.cache = Some(CacheSettings { read_ahead_bytes: 1 << 20, ..CacheSettings::new(CACHE_BYTES_MIN) });
    config.groups.push(group("j", Level::Raid1, 2..4));
    config.pools[0].journal = journal.then(|| "j".to_owned());
    config
}

async fn status(array: &Array) -> ControllerStatus {
    array.status().await.expect("status").remove(0)
}

pub(super) async fn cache(array: &Array) -> CacheStatus {
    status(array).await.cache.expect("there is a cache")
}

async fn unit(array: &Array) -> UnitCounts {
    let units = cache(array).await.units;
    units.iter().find(|u| u.volume == "v").expect("v is under the cache").counts
}

pub(super) fn dirty(unit: &UnitCounts) -> u32 {
    unit.frames.dirty + unit.frames.in_flight
}

/// A command until it is GOOD: a unit attention is heard once.
pub(super) async fn send(session: &Session, lun: u16, cdb: &[u8], out: Pieces, max: u32) -> Vec<u8> {
    let mut bytes = [0; 16];
    bytes[..cdb.len()].copy_from_slice(cdb);
    loop {
        let done = session.command(Lun(lun), bytes, out.clone(), max).await.expect("the session lives");
        match (done.is_good(), done.sense_codes()) {
            (true, _) => return done.data_in.joined().to_vec(),
            (false, Some((0x06, ..))) => {}
            (false, sense) => panic!("{cdb:02x?}: {sense:02x?}"),
        }
    }
}

pub(super) async fn session(world: &World, id: u8) -> Session {
    let options = Options::new(portal(id), "iqn.2026-11.test:other", TARGET, 2);
    Session::login(world, &options).await.expect("log in")
}

/// WCE of the caching mode page, as it is (`0x08`) or by default (`0x88`).
pub(super) async fn wce(session: &Session, page: u8) -> bool {
    let sense = send(session, 0, &[0x1a, 0x08, page, 0, 255, 0], Pieces::new(), 255).await;
    sense[4 + 2] & 0x04 != 0
}

async fn set_wce(session: &Session, on: bool) {
    let mut list = Buf::zeroed(24);
    (list[4], list[5], list[6]) = (0x08, 0x12, u8::from(on) << 2);
    send(session, 0, &[0x15, 0x10, 0, 0, 24, 0], list.freeze().into(), 0).await;
}

async fn synchronize(session: &Session) {
    send(session, 0, &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], Pieces::new(), 0).await;
}

/// Runs until `work` ends, cuts the power, and lets it come back.
pub(super) fn cut_after(model: &Model, work: impl AsyncFnOnce(World)) {
    let ended = model.run_until_crash(async |world: World| {
        work(world.clone()).await;
        model.disks().cut_power();
        std::future::pending::<()>().await
    });
    assert_eq!(ended, Outcome::PowerCut);
    model.reboot();
}

/// The array starts as `config` declares, and the host finds what it wrote last. Gives what was done.
pub(super) fn check_content(model: &Model, id: u8, config: Config, number: u8) -> Vec<String> {
    model.run(async |world| {
        let mut array = start(&world);
        let done = array.apply(config).await.expect("apply");
        let mut host = Host::log_in(&world, id).await;
        host.number = number;
        host.verify().await;
        host.log_out().await;
        array.stop().await.expect("stop");
        done
    })
}

/// Starts, lets the host fill the volume, and cuts the power while most of it is dirty.
pub(super) fn fill_and_cut(model: &Model, id: u8) {
    cut_after(model, async |world| {
        let mut array = start(&world);
        array.apply(cached(id, true)).await.expect("apply");
        Host::log_in(&world, id).await.fill().await;
        // The host writes again what has its pages now, so that nothing but the journal and the memory has
        // it.
        let mut host = Host::log_in(&world, id).await;
        host.number = 1;
        host.fill().await;
        assert!(dirty(&unit(&array).await) > 0, "a cut with nothing dirty proves nothing");
    });
}

#[test]
fn with_a_journal_what_was_acknowledged_is_there_after_a_power_cut() {
    let model = model(31, 4);
    fill_and_cut(&model, 31);
    let done = check_content(&model, 31, cached(31, true), 2);
    assert!(done.iter().any(|line| line.contains("replayed from the journal")), "{done:?}");
    // That array was stopped in order: nothing is left to be taken over.
    let done = check_content(&model, 31, cached(31, true), 2);
    assert!(!done.iter().any(|line| line.contains("taken over")), "{done:?}");
}

#[test]
fn the_mode_page_says_whether_the_cache_is_volatile_and_sets_it() {
    for journal in [false, true] {
        let model = model(32, 4);
        cut_after(&model, async |world| {
            let mut array = start(&world);
            array.apply(cached(32, journal)).await.expect("apply");
            let (host, session) = (Host::log_in(&world, 32).await, session(&world, 32).await);
            assert_eq!((wce(&session, 0x08).await, wce(&session, 0x88).await), (!journal, !journal));
            set_wce(&session, journal).await;
            assert_eq!((wce(&session, 0x08).await, wce(&session, 0x88).await), (journal, !journal));
            set_wce(&session, false).await;
            let mut host = host;
            host.fill().await;
            host.fill().await;
        });
        check_content(&model, 32, cached(32, journal), 2);
    }
}

#[test]
fn without_a_journal_what_was_flushed_is_there_after_a_power_cut() {
    let model = model(33, 4);
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(cached(33, false)).await.expect("apply");
        let mut host = Host::log_in(&world, 33).await;
        host.fill().await;
        host.fill().await;
        assert!(dirty(&unit(&array).await) > 0, "a flush with nothing dirty proves nothing");
        synchronize(&session(&world, 33).await).await;
        assert_eq!(dirty(&unit(&array).await), 0);
    });
    check_content(&model, 33, cached(33, false), 2);
}

#[test]
fn the_policy_of_a_volume_changes_online_also_as_it_grows() {
    let model = model(34, 4);
    let config = |policy, len_bytes| {
        let mut config = cached(34, true);
        config.volumes[0] = VolumeConfig { cache: policy, len_bytes, ..config.volumes[0].clone() };
        config
    };
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config(CachePolicy::WriteBack, VOLUME_BYTES)).await.expect("apply");
        let mut host = Host::log_in(&world, 34).await;
        host.fill().await;
        let placed = unit(&array).await.write_hit_bytes;
        assert_eq!(placed, 0, "the first write of a page takes it from the pool");
        host.fill().await;
        let mut absorbed = unit(&array).await.write_hit_bytes;
        assert_eq!(absorbed, VOLUME_BYTES, "write-back");
        let through = config(CachePolicy::WriteThrough, VOLUME_BYTES);
        for next in [through, config(CachePolicy::Off, 2 * VOLUME_BYTES)] {
            array.apply(next).await.expect("apply");
            host.fill().await;
            assert_eq!(
                unit(&array).await.write_hit_bytes,
                absorbed,
                "nothing is acknowledged from the cache"
            );
            assert_eq!(dirty(&unit(&array).await), 0, "all of it was written again");
            host.verify().await;
        }
        array.apply(config(CachePolicy::WriteBack, 3 * VOLUME_BYTES)).await.expect("apply");
        host.fill().await;
        absorbed += VOLUME_BYTES;
        assert_eq!(unit(&array).await.write_hit_bytes, absorbed, "write-back again, and larger");
        host.verify().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_clone_of_a_dirty_volume_has_everything() {
    let model = model(35, 4);
    let mut with_clone = None;
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(cached(35, true)).await.expect("apply");
        let mut host = Host::log_in(&world, 35).await;
        host.fill().await;
        host.fill().await;
        assert!(dirty(&unit(&array).await) > 0, "a clone of what is clean proves nothing");
        array.clone_volume("v", "w").await.expect("clone");
        host.fill().await;
        let mut config = array.config().clone();
        config.hosts[0].luns = [(0, "w".to_owned()), (1, "v".to_owned())].into();
        with_clone = Some(config);
    });
    let config = with_clone.expect("it came so far");
    check_content(&model, 35, config.clone(), 2);
    let mut source = config;
    source.hosts[0].luns = [(0, "v".to_owned())].into();
    check_content(&model, 35, source, 3);
}

/// The replay wrote what the drives had once more, and gave each shared page a copy: of a pool with snapshots
/// nearly twice as much was used after a power cut, or it was full and not opened.
#[test]
fn a_replay_gives_no_page_a_copy_that_a_clone_shares() {
    let model = model(37, 4);
    let used = async |array: &Array| status(array).await.pools[0].used_bytes;
    let (mut before, mut config) = (0, None);
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(cached(37, true)).await.expect("apply");
        Host::log_in(&world, 37).await.fill().await;
        array.clone_volume("v", "w").await.expect("clone");
        (before, config) = (used(&array).await, Some(array.config().clone()));
    });
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config.take().expect("it came so far")).await.expect("apply");
        world.sleep(std::time::Duration::from_secs(10)).await;
        assert_eq!(used(&array).await, before);
        array.stop().await.expect("stop");
    });
}

/// A page that was all zeros on the drives was given back under content that was dirty in the cache: hosts
/// heard that it was unmapped, and the destage needed a page that a full pool does not have.
#[test]
fn a_reclaim_leaves_what_is_dirty_its_pages() {
    let model = model(36, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(cached(36, true)).await.expect("apply");
        let session = session(&world, 36).await;
        let write = async |at: u64, byte: u8| {
            let mut cdb = [0; 16];
            (cdb[0], cdb[13]) = (0x8a, 64);
            cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
            let mut data = Buf::new(32 << 10);
            data.fill(byte);
            send(&session, 0, &cdb, data.freeze().into(), 0).await;
        };
        // Page by page (64 KiB): zeros, of which the first half gets content that is not destaged yet.
        for at in (0..VOLUME_BYTES).step_by(32 << 10) {
            write(at, 0).await;
        }
        synchronize(&session).await;
        let settled = async |s: &ControllerStatus| {
            s.cache.as_ref().is_some_and(|c| c.units[0].counts.frames.dirty == 0)
        };
        while !settled(&status(&array).await).await {
            world.sleep(std::time::Duration::from_millis(100)).await;
        }
        let kept = VOLUME_BYTES / 2;
        for at in (0..kept).step_by(64 << 10) {
            write(at, 0x5a).await;
        }
        assert!(dirty(&unit(&array).await) > 0, "a reclaim with nothing dirty proves nothing");
        array.reclaim("v").await.expect("reclaim");
        wait_until(&world, &array, "the scan's end", |s| s.jobs.is_empty()).await;
        let after = status(&array).await;
        assert_eq!(after.volumes[0].used_bytes, kept, "{:?}", after.events);
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_pool_is_not_served_without_the_journal_that_has_its_writes() {
    let model = model(37, 6);
    fill_and_cut(&model, 37);
    let refused = |config: Config, why: &str| {
        model.run(async |world| {
            let refusal = start(&world).apply(config).await.expect_err("it is refused").to_string();
            assert!(refusal.contains("pool \"p\": journal") && refusal.contains(why), "{refusal}");
        });
    };
    refused(cached(37, false), "are in a journal that is not declared");
    let mut other = cached(37, true);
    other.drives.extend([super::rig::drive(4), super::rig::drive(5)]);
    other.groups.push(group("k", Level::Raid1, 4..6));
    other.pools[0].journal = Some("k".to_owned());
    refused(other, "not the journal that holds the acknowledged writes");
    check_content(&model, 37, cached(37, true), 2);
    // Stopped in order, it needs its journal no more.
    check_content(&model, 37, cached(37, false), 2);
}

/// Its records would be replayed over what was written since.
#[test]
fn an_earlier_copy_of_a_journal_is_refused_at_every_start() {
    let model = model(38, 4);
    fill_and_cut(&model, 38);
    let drives: Vec<_> = ["d2", "d3"].iter().map(|name| model.disks().get(name).expect("a disk")).collect();
    let contents = || drives.iter().map(|d| d.peek(0, d.spec().len_bytes as usize)).collect::<Vec<_>>();
    let put = |contents: &[Vec<u8>]| drives.iter().zip(contents).for_each(|(d, content)| d.poke(0, content));
    let earlier = contents();
    fill_and_cut(&model, 38);
    let current = contents();
    put(&earlier);
    for _ in 0..3 {
        model.run(async |world| {
            let refusal = start(&world).apply(cached(38, true)).await.expect_err("it is refused").to_string();
            assert!(refusal.contains("the journal is an earlier copy"), "{refusal}");
        });
    }
    put(&current);
    check_content(&model, 38, cached(38, true), 2);
    // Nothing needs the journal after a stop in order.
    put(&earlier);
    check_content(&model, 38, cached(38, true), 2);
}

/// A life with a dirty volume that ends with a stop; the power is cut after so many persistence points of the
/// stop. How many it has.
fn stop_and_cut(model: &Model, id: u8, points: Option<u64>) -> u64 {
    let mut begun = 0;
    let ended = model.run_until_crash(async |world| {
        let mut array = start(&world);
        array.apply(cached(id, true)).await.expect("apply");
        let mut host = Host::log_in(&world, id).await;
        host.fill().await;
        host.fill().await;
        host.log_out().await;
        begun = model.disks().persistence_points();
        if let Some(points) = points {
            model.disks().cut_power_after(begun + points);
        }
        array.stop().await.expect("stop");
    });
    if ended == Outcome::PowerCut {
        model.reboot();
    }
    model.disks().keep_power();
    model.disks().persistence_points() - begun
}

/// A stop that was cut off between its two last steps left records in the journal that no volume needed; the
/// pool was used without the journal for a while, and then with it again.
#[test]
fn a_journal_that_was_left_behind_brings_nothing_old_back() {
    let points = stop_and_cut(&model(39, 4), 39, None);
    let mut used = 0;
    for cut in (1..=points).rev() {
        let model = model(39, 4);
        stop_and_cut(&model, 39, Some(cut));
        let without = model.run(async |world| {
            let mut array = start(&world);
            if array.apply(cached(39, false)).await.is_err() {
                return false;
            }
            let mut host = Host::log_in(&world, 39).await;
            host.number = 2;
            host.verify().await;
            host.fill().await;
            host.log_out().await;
            array.stop().await.expect("stop");
            true
        });
        if !without {
            break;
        }
        used += 1;
        check_content(&model, 39, cached(39, true), 3);
    }
    assert!(used > 1 && used < points, "{used} of {points} points lie behind the last record");
}

#[test]
fn a_pool_that_was_dirty_is_exported_whole() {
    let model = model(38, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(cached(38, true)).await.expect("apply");
        let mut host = Host::log_in(&world, 38).await;
        host.fill().await;
        host.fill().await;
        host.log_out().await;
        assert!(dirty(&unit(&array).await) > 0, "an export of what is clean proves nothing");
        let mut config = array.config().clone();
        config.hosts.clear();
        array.apply(config).await.expect("unmap");
        array.export_pool("p").await.expect("export");
    });
    model.run(async |world| {
        let mut array = start(&world);
        let empty =
            Config { drives: vec![], groups: vec![], pools: vec![], volumes: vec![], ..cached(38, false) };
        array.apply(Config { hosts: vec![], ..empty }).await.expect("apply");
        let specs = (0..2).map(|i| super::rig::drive(i).spec).collect();
        array.import_pool(specs, false).await.expect("import");
        let mut config = array.config().clone();
        config.hosts.push(super::rig::host());
        array.apply(config).await.expect("map");
        let mut host = Host::log_in(&world, 38).await;
        host.number = 2;
        host.verify().await;
    });
}

/// The array ended, although the drive has nothing that is not on the others.
#[test]
fn an_array_starts_without_the_drive_of_its_second_level() {
    let model = model(39, 5);
    let ssd = model.disks().get("d4").expect("a disk");
    let config = || {
        let mut config = cached(39, false);
        config.drives.push(super::rig::drive(4));
        config.cache.as_mut().expect("a cache").ssds.push("d4".to_owned());
        config
    };
    model.run(async |world| {
        let mut array = start(&world);
        let done = array.apply(config()).await.expect("apply");
        assert!(done.iter().any(|line| line.contains("second level on drive d4")), "{done:?}");
        array.stop().await.expect("stop");
    });
    ssd.kill();
    model.run(async |world| {
        let mut array = start(&world);
        array.adopt(Made::all_of(&config()));
        array.apply(config()).await.expect("it starts");
        Host::log_in(&world, 39).await.fill().await;
        let missing = status(&array).await.missing;
        assert!(missing.iter().any(|m| m.kind == "cache drive" && m.name == "d4"), "{missing:?}");
        array.stop().await.expect("stop");
    });
}

/// What is on a drive that a running array gets as its second level is not overwritten by the next start.
#[test]
fn a_second_level_that_comes_later_is_checked_when_it_is_declared() {
    let model = model(40, 5);
    let ssd = model.disks().get("d4").expect("a disk");
    ssd.poke(1 << 20, b"somebody's data");
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(cached(40, false)).await.expect("apply");
        let mut config = cached(40, false);
        config.drives.push(super::rig::drive(4));
        config.cache.as_mut().expect("a cache").ssds.push("d4".to_owned());
        let refusal = array.apply(config.clone()).await.expect_err("it is not blank").to_string();
        assert!(
            refusal
                .contains("data at byte 1048576; name another drive, or restart with masu serve --overwrite"),
            "{refusal}"
        );
        ssd.poke(1 << 20, &[0; 15]);
        let done = array.apply(config).await.expect("apply");
        assert_eq!(done, ["controller 0: cache: second level: none until the next start, d4 after it"]);
        array.stop().await.expect("stop");
    });
}

/// Once an array had had a second level, each start overwrote whatever was found at its place.
#[test]
fn a_start_does_not_overwrite_what_has_come_to_the_place_of_a_second_level() {
    const LABELS_AT: [u64; 2] = [0, 512 << 10];
    // What is told of it, and what is laid over both copies of the label, from which of their bytes on.
    let foreign: [(&str, u64, &[u8]); 3] = [
        ("carries no label, but data at byte 0", 0, b"somebody's data, not a label"),
        ("carries a damaged label", 100, b"x"),
        ("carries a label of format 99", 8, &[99]),
    ];
    let model = model(41, 5);
    let ssd = model.disks().get("d4").expect("a disk");
    let config = || {
        let mut config = cached(41, false);
        config.drives.push(super::rig::drive(4));
        config.cache.as_mut().expect("a cache").ssds.push("d4".to_owned());
        config
    };
    let life = |is_made: bool, expected: Option<&str>| {
        model.run(async |world| {
            let mut array = start(&world);
            if is_made {
                array.adopt(Made::all_of(&config()));
            }
            array.apply(config()).await.expect("it starts");
            Host::log_in(&world, 41).await.fill().await;
            let missing = status(&array).await.missing;
            let cause = missing.iter().find(|m| m.name == "d4").map(|m| m.cause.clone());
            assert!(cause.is_some() == expected.is_some(), "{cause:?}");
            assert!(
                expected.is_none_or(|text| cause.is_some_and(|cause| cause.contains(text))),
                "{missing:?}"
            );
            array.stop().await.expect("stop");
        });
    };
    life(false, None);
    let own = LABELS_AT.map(|at| ssd.peek(at, 4096));
    for (text, from, bytes) in foreign {
        LABELS_AT.iter().for_each(|at| ssd.poke(*at + from, bytes));
        let before = ssd.peek(0, 4 << 20);
        life(true, Some(text));
        assert!(ssd.peek(0, 4 << 20) == before, "{text}: written to");
        LABELS_AT.iter().zip(&own).for_each(|(at, label)| ssd.poke(*at, label));
    }
    life(true, None);
}
