//! Power cuts with a journal: what was acknowledged is there, everything else is old or new.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use world_model::Outcome;

use super::*;
use crate::Journal;

const LEN: u64 = 8 << 20;
const SECTORS: u64 = LEN / 512;
const TASKS: u64 = 6;

/// What a sector may read as: what was acknowledged, and what was tried since.
#[derive(Clone, Default)]
struct Sector {
    sure: u8,
    tried: Vec<u8>,
}

/// Sectors that were ever written; others are 0.
type Shadow = Rc<RefCell<BTreeMap<u64, Sector>>>;

type Cached = (Cache<OnDrive, OnDrive>, Unit<OnDrive, OnDrive>, Journal<OnDrive>);

async fn open(world: &World, policy: WritePolicy, fresh: bool) -> Cached {
    open_with(world, small(), policy, fresh).await
}

async fn open_with(world: &World, config: CacheConfig, policy: WritePolicy, fresh: bool) -> Cached {
    let device = OnDrive::open(world, "journal");
    let cache = Cache::new(world.clone(), config);
    let attach = |journal: &Journal<OnDrive>| {
        cache.attach(OnDrive::open(world, "data"), spec(7, policy), Some(journal.clone()))
    };
    if fresh {
        let journal = Journal::create(world.clone(), device, [1; 16]).await.expect("create");
        let unit = attach(&journal);
        return (cache, unit, journal);
    }
    let (journal, replay) = Journal::open(world.clone(), device).await.expect("open");
    let unit = attach(&journal);
    let done = cache.replay(replay, std::slice::from_ref(&unit)).await.expect("replay");
    assert_eq!(done.orphans, 0);
    (cache, unit, journal)
}

fn note(shadow: &Shadow, sectors: std::ops::Range<u64>, mark: u8, sure: bool) {
    let mut shadow = shadow.borrow_mut();
    for sector in sectors {
        let known = shadow.entry(sector).or_default();
        match sure {
            true => *known = Sector { sure: mark, tried: Vec::new() },
            false => known.tried.push(mark),
        }
    }
}

/// What a test does with a unit.
#[derive(Clone, Copy)]
struct Work {
    seed: u64,
    /// Operations of each task.
    steps: usize,
    /// How many times 64 KiB belong to each task.
    regions: u64,
}

impl Work {
    /// All over the unit.
    fn of(seed: u64, steps: usize) -> Work {
        Work { seed, steps, regions: SECTORS / 128 / TASKS }
    }
}

/// Works on the sectors of every 64 KiB of which the number modulo the number of tasks is its own.
async fn task(world: World, unit: Unit<OnDrive, OnDrive>, shadow: Shadow, number: u64, work: Work) {
    let mut rng = fastrand::Rng::with_seed(work.seed ^ number << 32);
    for _ in 0..work.steps {
        let first = (rng.u64(..work.regions) * TASKS + number) * 128;
        let from = first + rng.u64(..128);
        let end = (from + 1 + rng.u64(..40)).min(first + 128);
        let bytes = from * 512..end * 512;
        let mark = rng.u8(1..);
        match rng.u8(..10) {
            0..=4 => {
                note(&shadow, from..end, mark, false);
                let data = Pieces::copy_of(&vec![mark; (bytes.end - bytes.start) as usize]);
                unit.write(bytes.start, &data).await.expect("write");
                unit.flush().await.expect("flush");
                note(&shadow, from..end, mark, true);
            }
            5 => {
                // Acknowledged, and not durable before the next flush.
                note(&shadow, from..end, mark, false);
                let data = Pieces::copy_of(&vec![mark; (bytes.end - bytes.start) as usize]);
                unit.write(bytes.start, &data).await.expect("write");
            }
            6 => {
                note(&shadow, from..end, 0, false);
                Device::zero(&unit, bytes.start, bytes.end - bytes.start).await.expect("zero");
                unit.flush().await.expect("flush");
                note(&shadow, from..end, 0, true);
            }
            7 => drop(unit.settle(bytes).await.expect("settle")),
            8 => world.sleep(Duration::from_millis(rng.u64(..400))).await,
            _ => check(&unit, &shadow, from..end, false).await,
        }
    }
}

/// Every sector is what it may be. After a recovery it is that for good.
async fn check(
    unit: &Unit<OnDrive, OnDrive>,
    shadow: &Shadow,
    sectors: std::ops::Range<u64>,
    for_good: bool,
) {
    let mut out = Pieces::new();
    let len = (sectors.end - sectors.start) as usize * 512;
    unit.read(sectors.start * 512, len, &mut out).await.expect("read");
    let bytes = out.joined();
    for (i, sector) in sectors.enumerate() {
        let got = &bytes[i * 512..(i + 1) * 512];
        let mut shadow = shadow.borrow_mut();
        let known = shadow.get(&sector).cloned().unwrap_or_default();
        assert!(got.iter().all(|b| *b == got[0]), "sector {sector} is torn");
        let may = got[0] == known.sure || known.tried.contains(&got[0]);
        assert!(may, "sector {sector} is {}, was {} and then {:?}", got[0], known.sure, known.tried);
        if for_good && shadow.contains_key(&sector) {
            shadow.insert(sector, Sector { sure: got[0], tried: Vec::new() });
        }
    }
}

async fn check_all(unit: &Unit<OnDrive, OnDrive>, shadow: &Shadow) {
    for from in (0..SECTORS).step_by(512) {
        check(unit, shadow, from..from + 512, true).await;
    }
}

async fn do_work(world: &World, unit: &Unit<OnDrive, OnDrive>, shadow: &Shadow, work: Work) {
    let tasks = (0..TASKS).map(|n| task(world.clone(), unit.clone(), shadow.clone(), n, work));
    join_all(tasks).await;
}

/// Whether the cut came before the end.
fn check_cut(seed: u64, policy: WritePolicy, cut: u64) -> bool {
    let (model, ..) = rack(seed, LEN);
    let shadow = Shadow::default();
    let outcome = model.run_until_crash(async |world| {
        let (_cache, unit, journal) = open(&world, policy, true).await;
        let disks = model.disks();
        disks.cut_power_after(disks.persistence_points() + cut);
        do_work(&world, &unit, &shadow, Work::of(seed, 12)).await;
        drop(journal);
    });
    if outcome != Outcome::PowerCut {
        return false;
    }
    model.reboot();
    model.run(async |world| {
        let (cache, unit, journal) = open(&world, policy, false).await;
        check_all(&unit, &shadow).await;
        do_work(&world, &unit, &shadow, Work::of(!seed, 3)).await;
        cache.detach(&unit).await.expect("detach");
        journal.retire(journal.next_sequence() - 1);
        journal.close().await.expect("close");
    });
    model.run(async |world| {
        let (_cache, unit, journal) = open(&world, policy, false).await;
        assert_eq!(journal.counts().live_bytes, 0, "closed in order");
        check_all(&unit, &shadow).await;
    });
    true
}

fn check_cuts(policy: WritePolicy, seeds: std::ops::Range<u64>, step: usize) {
    for seed in seeds {
        for cut in (1..).step_by(step) {
            let held = std::panic::catch_unwind(|| check_cut(seed, policy, cut));
            match held {
                Ok(true) => {}
                Ok(false) => break,
                Err(panic) => {
                    eprintln!("seed {seed}, cut after point {cut}, {policy:?}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

#[test]
fn cuts_of_a_write_back_unit() {
    check_cuts(WritePolicy::Back, 0..3, 5);
}

#[test]
#[ignore = "every point"]
fn every_cut_of_a_write_back_unit() {
    check_cuts(WritePolicy::Back, 0..6, 1);
}

#[test]
fn cuts_of_a_write_through_unit() {
    check_cuts(WritePolicy::Through, 0..2, 3);
}

/// Many lives on the same disks, with cuts also while a replay is under way.
#[test]
fn lives_with_cuts_at_random_also_while_recovering() {
    for seed in 0..12 {
        let (model, ..) = rack(seed, LEN);
        let shadow = Shadow::default();
        model.run(async |world| drop(open(&world, WritePolicy::Back, true).await));
        let mut rng = fastrand::Rng::with_seed(seed);
        for life in 0..10 {
            let disks = model.disks();
            disks.cut_power_after(disks.persistence_points() + rng.u64(1..400));
            let outcome = model.run_until_crash(async |world| {
                let (_cache, unit, _journal) = open(&world, WritePolicy::Back, false).await;
                check_all(&unit, &shadow).await;
                do_work(&world, &unit, &shadow, Work::of(seed * 100 + life, 30)).await;
            });
            model.disks().keep_power();
            if outcome == Outcome::PowerCut {
                model.reboot();
            }
        }
        model.run(async |world| {
            let (_cache, unit, _journal) = open(&world, WritePolicy::Back, false).await;
            check_all(&unit, &shadow).await;
        });
    }
}

/// The store is slow and its operations overtake each other, and destages begin at once: they are under way
/// while direct operations want their blocks.
#[test]
fn lives_on_a_slow_store_with_destages_under_way() {
    for seed in 0..10 {
        let model = Model::new(seed);
        let slow =
            DiskSpec::new(LEN).with_latency(Duration::from_micros(200)).with_jitter(Duration::from_millis(8));
        let _data = model.disk("data", slow);
        let _journal = model.disk("journal", DiskSpec::new(9 << 20));
        let shadow = Shadow::default();
        let config = CacheConfig { destage_delay: Duration::from_millis(1), ..small() };
        let open = |world, fresh| async move { open_with(&world, config, WritePolicy::Back, fresh).await };
        model.run(async |world| drop(open(world, true).await));
        let mut rng = fastrand::Rng::with_seed(seed);
        for life in 0..8 {
            let disks = model.disks();
            disks.cut_power_after(disks.persistence_points() + rng.u64(1..900));
            let outcome = model.run_until_crash(async |world| {
                let (_cache, unit, _journal) = open(world.clone(), false).await;
                check_all(&unit, &shadow).await;
                do_work(&world, &unit, &shadow, Work { regions: 2, ..Work::of(seed * 100 + life, 150) })
                    .await;
            });
            model.disks().keep_power();
            if outcome == Outcome::PowerCut {
                model.reboot();
            }
        }
        model.run(async |world| {
            let (_cache, unit, _journal) = open(world.clone(), false).await;
            check_all(&unit, &shadow).await;
        });
    }
}

/// A volume is created while others are destaged: what it acknowledges stays in the journal until its own
/// store has it.
#[test]
fn what_a_unit_that_is_attached_during_a_destage_acknowledges_survives_a_cut() {
    let model = Model::new(91);
    let _data = model.disk("data", DiskSpec::new(LEN).with_latency(Duration::from_millis(20)));
    let late = model.disk("late", DiskSpec::new(LEN));
    let _journal = model.disk("journal", DiskSpec::new(9 << 20));
    let config = CacheConfig { destage_delay: Duration::from_millis(1), ..small() };
    // Where the store takes writes in place, so that they stay in the cache.
    let place = |i: u64| (2 * i + 1) << 16;
    let outcome = model.run_until_crash(async |world: World| {
        let (cache, unit, journal) = open_with(&world, config, WritePolicy::Back, true).await;
        let write = async |unit: &Unit<OnDrive, OnDrive>, at, mark: u8| {
            unit.write(at, &Pieces::copy_of(&[mark; 4096])).await.expect("write");
            unit.flush().await.expect("flush");
        };
        for i in 0..8 {
            write(&unit, place(i), 1).await;
        }
        world.sleep(Duration::from_millis(5)).await;
        assert!(unit.counts().frames.in_flight > 0, "a destage is under way");
        let store = OnDrive::open(&world, "late");
        let second = cache.attach(store, spec(8, WritePolicy::Back), Some(journal.clone()));
        late.set_read_only(true);
        write(&second, place(0), 7).await;
        world.sleep(Duration::from_secs(1)).await;
        // The next batch says up to where records are retired.
        write(&unit, place(9), 2).await;
        model.disks().cut_power();
        std::future::pending::<()>().await
    });
    assert_eq!(outcome, Outcome::PowerCut);
    model.reboot();
    late.set_read_only(false);
    model.run(async |world| {
        let cache = Cache::new(world.clone(), config);
        let opened = Journal::open(world.clone(), OnDrive::open(&world, "journal")).await;
        let (journal, replay) = opened.expect("open");
        let units = [("data", 7), ("late", 8)].map(|(name, id)| {
            cache.attach(OnDrive::open(&world, name), spec(id, WritePolicy::Back), Some(journal.clone()))
        });
        cache.replay(replay, &units).await.expect("replay");
        for (unit, at, mark) in [(&units[1], place(0), 7), (&units[0], place(9), 2), (&units[0], place(3), 1)]
        {
            let mut out = Pieces::new();
            unit.read(at, 4096, &mut out).await.expect("read");
            assert!(out.joined().iter().all(|byte| *byte == mark), "{mark} at {at}");
        }
    });
}

/// Each durable write flushed the store if something had been destaged since the last flush: under load, once
/// for each write.
#[test]
fn a_durable_write_needs_its_journal_and_no_flush_of_the_store() {
    // Where writes are taken in place.
    const AT: u64 = 64 << 10;
    let (model, data, _) = rack(1, LEN);
    model.run(async move |world| {
        let (_cache, unit, journal) = open(&world, WritePolicy::Back, true).await;
        let mark = Pieces::copy_of(&[7; 4096]);
        unit.write_durable(None, AT, &mark).await.expect("the first write");
        data.fail_flushes(u32::MAX);
        world.sleep(CacheConfig::default().destage_delay * 2).await;
        assert!(
            journal.counts().live_bytes > 0,
            "destaged, and the record is kept: the store is not flushed"
        );
        unit.write_durable(None, AT + 8192, &mark).await.expect("the journal has it");
        // What bypasses the frames has no record.
        Device::zero(&unit, LEN - 4096, 4096).await.expect("zero");
        unit.flush().await.expect_err("the store is not flushed");
    });
}
