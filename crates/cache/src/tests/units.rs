//! One unit at a time: what it gives back, and what it asks of its store.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::conformance::{random_against_shadow, refuses_what_is_out_of_range};
use futures::future::join_all;

use super::*;
use crate::{FRAME_BYTES, Journal};

const LEN: u64 = 8 << 20;
/// Where writes are taken in place.
const AT: u64 = (1 << 20) + (64 << 10);

#[test]
fn every_policy_conforms() {
    for policy in [WritePolicy::Back, WritePolicy::Through, WritePolicy::Off] {
        for seed in 0..4 {
            let (model, ..) = rack(seed, LEN);
            model.run(async move |world| {
                let (_cache, unit) = volatile(&world, small(), policy);
                random_against_shadow(&unit, &mut world.random("test"), 3000).await;
                refuses_what_is_out_of_range(&unit).await;
            });
        }
    }
}

/// What a block must read as: the number of its last write. Every task has blocks of its own and reads what
/// it wrote, while others make the memory short, flush, zero and settle around it.
#[test]
fn many_at_once_read_what_they_wrote() {
    for seed in 0..6 {
        let (model, ..) = rack(seed, LEN);
        model.run(async move |world| {
            let (_cache, unit) = volatile(&world, small(), WritePolicy::Back);
            let tasks = (0..24_u64).map(|task| one_of_many(world.clone(), unit.clone(), task, 200));
            join_all(tasks).await;
        });
    }
}

/// Sectors `task`, `task + 24`, … of the unit belong to the task.
async fn one_of_many(world: World, unit: Unit<OnDrive, OnDrive>, task: u64, steps: usize) {
    let mut rng = world.random(&format!("task {task}"));
    let mut known = std::collections::BTreeMap::new();
    for step in 0..steps {
        let sector = rng.u64(..(LEN / 512 - 24) / 24) * 24 + task;
        match rng.u8(..20) {
            0..=9 => {
                let mark = rng.u8(..);
                unit.write(sector * 512, &Pieces::copy_of(&[mark; 512])).await.expect("write");
                known.insert(sector, mark);
            }
            10 => unit.flush().await.expect("flush"),
            11 => {
                Device::zero(&unit, sector * 512, 512).await.expect("zero");
                known.insert(sector, 0);
            }
            12 => drop(unit.settle(sector * 512..sector * 512 + 100_000).await.expect("settle")),
            13 => world.sleep(std::time::Duration::from_millis(rng.u64(..50))).await,
            14 => unit.sync(sector * 512, 512).await.expect("sync"),
            15 => unit.destage().await.expect("destage"),
            _ => {
                let some = known.iter().nth(rng.usize(..known.len().max(1)));
                let Some((&sector, &mark)) = some else { continue };
                let (before, after) = (rng.u64(..8).min(sector), rng.u64(..300));
                let (from, end) = (sector - before, (sector + 1 + after).min(LEN / 512));
                let mut out = Pieces::new();
                unit.read(from * 512, ((end - from) * 512) as usize, &mut out).await.expect("read");
                let got = out.joined();
                for (other, mark) in known.range(from..end) {
                    let at = ((other - from) * 512) as usize;
                    assert!(
                        got[at..at + 512].iter().all(|b| b == mark),
                        "task {task}, step {step}, sector {other}"
                    );
                }
                assert_eq!(known[&sector], mark);
            }
        }
    }
}

/// A unit that was settled before its pool moved kept its hosts waiting until all of it was on the drives.
#[test]
fn hosts_write_while_a_unit_is_destaged() {
    let latency = Duration::from_millis(20);
    let model = Model::new(1);
    model.disk("data", DiskSpec::new(LEN).with_latency(latency));
    model.run(async |world| {
        let (cache, unit) = volatile(&world, small(), WritePolicy::Back);
        for i in 0..16_u64 {
            unit.write((2 * i + 1) << 16, &Pieces::copy_of(&[1; 4096])).await.expect("write");
        }
        let begun = world.now();
        let write = async {
            world.sleep(latency / 4).await;
            unit.write(1 << 16, &Pieces::copy_of(&[2; 4096])).await.expect("write");
            world.now() - begun
        };
        let (destaged, written) = futures::future::join(unit.destage(), write).await;
        destaged.expect("destage");
        assert!(written < latency / 2, "written after {written:?}");
        assert!(world.now() - begun >= latency);
        unit.destage().await.expect("destage");
        assert_eq!(cache.counts().frames.dirty, 0);
    });
}

#[test]
fn a_flush_leaves_everything_on_the_store_durable() {
    let (model, data, _) = rack(1, LEN);
    model.run(async |world| {
        let (cache, unit) = volatile(&world, small(), WritePolicy::Back);
        for i in 0..16_u64 {
            unit.write(AT + i * 4096, &Pieces::copy_of(&[i as u8; 4096])).await.expect("write");
        }
        assert_eq!(unit.store().drive.counts().writes, 0, "acknowledged from the cache");
        unit.flush().await.expect("flush");
        assert_eq!(cache.counts().frames.dirty, 0);
        assert_eq!(unit.store().drive.counts().writes, 1, "neighbours go together");
    });
    drop(data);
    model.run(async |world| {
        let store = OnDrive::open(&world, "data");
        for i in 0..16_u64 {
            let mut out = Pieces::new();
            store.read(AT + i * 4096, 4096, &mut out).await.expect("read");
            assert_eq!(out.joined()[..], [i as u8; 4096]);
        }
    });
}

#[test]
fn a_sequential_reader_is_read_ahead_of_and_a_random_one_is_not() {
    let (model, ..) = rack(1, 64 << 20);
    model.run(async |world| {
        let config = CacheConfig { memory_bytes: 16 << 20, ..CacheConfig::default() };
        let (_cache, unit) = volatile(&world, config, WritePolicy::Back);
        for i in 0..512_u64 {
            let mut out = Pieces::new();
            unit.read(i * 65536, 65536, &mut out).await.expect("read");
        }
        let reads = unit.store().drive.counts().reads;
        assert!(reads < 80, "{reads} reads of the store for 512 of 64 KiB");
        let counts = unit.counts();
        assert!(counts.ahead.used_bytes * 10 > counts.ahead.read_bytes * 7, "{counts:?}");
        let ahead = counts.ahead.read_bytes;
        let mut rng = world.random("random");
        for _ in 0..500 {
            let mut out = Pieces::new();
            unit.read(rng.u64(..(64 << 20) / 4096) * 4096, 4096, &mut out).await.expect("read");
        }
        assert!(unit.counts().ahead.read_bytes - ahead < 2 << 20, "random reads are not read ahead of");
    });
}

#[test]
fn what_is_dirty_is_destaged_after_a_while_by_itself() {
    let (model, ..) = rack(1, LEN);
    model.run(async |world| {
        let (cache, unit) = volatile(&world, small(), WritePolicy::Back);
        unit.write(AT, &Pieces::copy_of(&[7; 4096])).await.expect("write");
        assert_eq!(cache.counts().frames.dirty, 1);
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!((cache.counts().frames.dirty, cache.counts().frames.clean), (0, 1));
    });
}

#[test]
fn writes_wait_when_too_much_is_pending_and_none_is_lost() {
    let (model, ..) = rack(1, LEN);
    model.run(async |world| {
        let (cache, unit) = volatile(&world, small(), WritePolicy::Back);
        let writes = (0..1500_u64).map(|i| {
            let unit = unit.clone();
            async move {
                unit.write((1 << 20) + i * 4096, &Pieces::copy_of(&[i as u8; 4096])).await.expect("write")
            }
        });
        join_all(writes).await;
        assert!(cache.counts().waits > 0);
        assert!(cache.counts().pending_percent <= 71);
        for i in 0..1500_u64 {
            let mut out = Pieces::new();
            unit.read((1 << 20) + i * 4096, 4096, &mut out).await.expect("read");
            assert_eq!(out.joined()[..], [i as u8; 4096], "block {i}");
        }
    });
}

/// Every write was once a hit: as many as the policy let the cache take, not as many as found room in it.
#[test]
fn a_write_that_waits_or_goes_below_is_no_hit() {
    let (model, ..) = rack(1, LEN);
    model.run(async |world| {
        let (cache, unit) = volatile(&world, small(), WritePolicy::Back);
        let block = |i: u64| Pieces::copy_of(&[i as u8; 4096]);
        // Of every 128 KiB the first half never takes a write in place.
        unit.write(0, &block(0)).await.expect("write");
        assert_eq!(unit.counts().write_hit_bytes, 0, "written below");
        let place = |i: u64| ((i / 16 * 2 + 1) << 16) + i % 16 * 4096;
        unit.write(place(0), &block(1)).await.expect("write");
        assert_eq!(unit.counts().write_hit_bytes, 4096, "it found room");
        assert_eq!(cache.counts().waits, 0);
        let writes = (1..600).map(|i| {
            let unit = unit.clone();
            async move { unit.write(place(i), &block(i)).await.expect("write") }
        });
        join_all(writes).await;
        let (hits, waited) = (unit.counts().write_hit_bytes / 4096, cache.counts().waits);
        assert!(waited > 0 && hits > 100 && hits + waited <= 600, "{hits} hits of 600, {waited} waits");
    });
}

#[test]
fn writers_that_wait_for_room_get_as_much_as_each_other() {
    let (model, ..) = rack(1, LEN);
    model.run(async |world| {
        let (cache, unit) = volatile(&world, small(), WritePolicy::Back);
        let done: Rc<[Cell<u64>; 8]> = Rc::default();
        for writer in 0..8 {
            let (unit, done, mut rng) =
                (unit.clone(), done.clone(), world.random(&format!("writer {writer}")));
            world.spawn(async move {
                while done[writer].get() < 10_000 {
                    let at = (rng.u64(..LEN / (128 << 10)) * 2 + 1) << 16;
                    unit.write(at, &Pieces::copy_of(&[1; 32 << 10])).await.expect("write");
                    done[writer].set(done[writer].get() + 1);
                }
            });
        }
        while cache.counts().waits < 100 {
            world.sleep(Duration::from_millis(1)).await;
        }
        let before: Vec<u64> = done.iter().map(Cell::get).collect();
        while done[0].get() < before[0] + 200 {
            world.sleep(Duration::from_millis(1)).await;
        }
        let got: Vec<u64> = done.iter().zip(before).map(|(done, before)| done.get() - before).collect();
        assert!(got.iter().all(|n| n.abs_diff(got[0]) <= 2), "{got:?}");
    });
}

/// Bytes of the hot set's reads that were in memory, of 1000 of them; with `scan`, a reader of 64 KiB goes on
/// between them.
async fn hot_reads(
    unit: &Unit<OnDrive, OnDrive>,
    rng: &mut world::Rng,
    mut scan: Option<std::ops::Range<u64>>,
) -> u64 {
    let mut hits = 0;
    for _ in 0..1000 {
        let before = unit.counts().read_hit_bytes;
        let mut out = Pieces::new();
        unit.read(rng.u64(..256) * 4096, 4096, &mut out).await.expect("read");
        hits += unit.counts().read_hit_bytes - before;
        if let Some(scan) = scan.as_mut().filter(|scan| !scan.is_empty()) {
            unit.read(scan.start, 65536, &mut Pieces::new()).await.expect("scan");
            scan.start += 65536;
        }
    }
    hits
}

#[test]
fn a_scan_of_four_times_the_cache_leaves_the_hot_set() {
    let (model, ..) = rack(1, 64 << 20);
    model.run(async |world| {
        let config = CacheConfig { memory_bytes: 6 << 20, read_ahead_bytes_max: 512 << 10, ..small() };
        let (_cache, unit) = volatile(&world, config, WritePolicy::Back);
        let mut rng = world.random("hot");
        hot_reads(&unit, &mut rng, None).await;
        let alone = hot_reads(&unit, &mut rng, None).await;
        assert!(alone > 990 * 4096, "{alone} of 1000 blocks: the hot set fits");
        let scan = (2 << 20)..(2 << 20) + 4 * config.memory_bytes;
        let during = hot_reads(&unit, &mut rng, Some(scan)).await;
        let after = hot_reads(&unit, &mut rng, None).await;
        assert!(during * 10 >= alone * 9, "{during} during the scan, {alone} before");
        assert!(after * 10 >= alone * 9, "{after} after the scan, {alone} before");
    });
}

/// Pieces of one row go to the store as one write, and what lies between is what it was; the pieces of
/// another row, of which one drive cannot read what lies between, go one by one.
#[test]
fn pieces_of_a_row_are_destaged_as_one_write() {
    let (model, disk, _) = rack(1, LEN);
    model.run(async move |world| {
        let (_cache, unit) = volatile(&world, small(), WritePolicy::Back);
        let other = AT + (128 << 10);
        unit.store().write(AT, &Pieces::copy_of(&[5; 64 << 10])).await.expect("write");
        for (row, block) in [(AT, 1), (AT, 4), (AT, 9), (other, 2), (other, 7), (other, 12)] {
            let at = row + block * FRAME_BYTES as u64;
            unit.write(at, &Pieces::copy_of(&[6; FRAME_BYTES])).await.expect("write");
        }
        disk.add_latent_errors((other + 5 * FRAME_BYTES as u64)..(other + 6 * FRAME_BYTES as u64));
        world.sleep(std::time::Duration::from_secs(10)).await;
        let counts = unit.counts();
        assert_eq!((counts.destages, counts.frames.dirty), (2, 0), "{counts:?}");
        let mut out = Pieces::new();
        unit.store().read(AT, 64 << 10, &mut out).await.expect("read");
        let sixes: Vec<usize> =
            out.joined().chunks(FRAME_BYTES).enumerate().filter(|(_, b)| b[0] == 6).map(|(i, _)| i).collect();
        assert_eq!(sixes, [1, 4, 9]);
        for block in [2, 7, 12] {
            let mut out = Pieces::new();
            unit.store().read(other + block * FRAME_BYTES as u64, FRAME_BYTES, &mut out).await.expect("read");
            assert_eq!(out.joined()[0], 6, "block {block}");
        }
    });
}

/// Bytes that are under way to four stores that stand still, when runs of `run` bytes were written to each:
/// every second row, so that no two are joined.
fn under_way(run: u64) -> u64 {
    let model = Model::new(1);
    let names = ["a", "b", "c", "d"];
    let disks = names.map(|name| model.disk(name, DiskSpec::new(LEN)));
    model.run(async move |world| {
        let cache = Cache::new(world.clone(), small());
        let units: Vec<Unit<OnDrive, OnDrive>> = (names.iter().zip(1..))
            .map(|(name, id)| cache.attach(OnDrive::open(&world, name), spec(id, WritePolicy::Back), None))
            .collect();
        disks.iter().for_each(Disk::hang);
        // Half of the frames.
        let writes = small().frames_bytes() / 2 / run;
        for n in 0..writes {
            let (unit, row) = (&units[n as usize % units.len()], n / units.len() as u64);
            let data = Pieces::copy_of(&vec![1; run as usize]);
            unit.write(row * (128 << 10) + (64 << 10), &data).await.expect("there is room");
        }
        world.sleep(Duration::from_secs(2)).await;
        let bytes = u64::from(cache.counts().frames.destaging) * FRAME_BYTES as u64;
        disks.iter().for_each(Disk::resume);
        bytes
    })
}

/// Counted as if each were as long as a run can be, a cache of 64 MiB kept eight runs under way over all its
/// groups, and of random writes the drives did not half of what they can.
#[test]
fn a_small_cache_keeps_many_short_runs_under_way_and_few_long_ones() {
    let memory = small().memory_bytes;
    assert!(under_way(4096) >= 80 * 4096, "{}", under_way(4096));
    assert!(under_way(64 << 10) <= memory / 4 + (64 << 10), "{}", under_way(64 << 10));
}

/// The elevator had come around on the fast group, and what was written behind it waited until the slow one
/// was through: in real time, of five servers on four groups, one kept all others waiting.
#[test]
fn a_fast_unit_is_swept_again_while_a_slow_one_is_under_way() {
    let model = Model::new(1);
    model.disk("fast", DiskSpec::new(LEN));
    model.disk("slow", DiskSpec::new(4 * LEN).with_latency(Duration::from_millis(100)).with_cache_bytes(0));
    model.run(async move |world| {
        let cache: Cache<OnDrive, OnDrive> = Cache::new(world.clone(), small());
        let attach = |name, id| cache.attach(OnDrive::open(&world, name), spec(id, WritePolicy::Back), None);
        let (fast, slow) = (attach("fast", 1), attach("slow", 2));
        let block = Pieces::copy_of(&[1; FRAME_BYTES]);
        let write =
            async |unit: &Unit<OnDrive, OnDrive>, at| unit.write(at, &block).await.expect("there is room");
        // Each a run by itself, and more than are under way at once.
        for n in 0..180 {
            write(&slow, n * (128 << 10) + (64 << 10)).await;
        }
        write(&fast, LEN / 2).await;
        while fast.counts().frames.in_flight + fast.counts().frames.dirty > 0 {
            world.sleep(Duration::from_millis(5)).await;
        }
        write(&fast, 0).await;
        while fast.counts().frames.in_flight + fast.counts().frames.dirty > 0 {
            world.sleep(Duration::from_millis(5)).await;
        }
        assert!(slow.counts().frames.dirty > 0, "{:?}", slow.counts());
    });
}

/// One store failed, and the journals of all others filled up: their hosts waited for ever.
#[test]
fn a_store_that_fails_keeps_no_other_journal_from_retiring() {
    let model = Model::new(3);
    for name in ["bad", "good"] {
        model.disk(name, DiskSpec::new(LEN));
        model.disk(&format!("{name} journal"), DiskSpec::new(9 << 20));
    }
    model.run(async |world| {
        let cache = Cache::new(world.clone(), small());
        let mut units = Vec::new();
        for (id, name) in [(1, "bad"), (2, "good")] {
            let device = OnDrive::open(&world, &format!("{name} journal"));
            let journal = Journal::create(world.clone(), device, [id; 16]).await.expect("create");
            let store = OnDrive::open(&world, name);
            units.push(cache.attach(store, spec(id.into(), WritePolicy::Back), Some(journal)));
        }
        units[0].write(AT, &Pieces::copy_of(&[1; 4096])).await.expect("write");
        model.disks().get("bad").expect("a disk").kill();
        // Twice the ring.
        for i in 0..2000_u64 {
            let data = Pieces::copy_of(&[i as u8; 4096]);
            let write = units[1].write_durable(None, AT, &data);
            let end = world.sleep(Duration::from_secs(30));
            match futures::future::select(std::pin::pin!(write), end).await {
                futures::future::Either::Left((written, _)) => written.expect("write"),
                futures::future::Either::Right(_) => panic!("write {i} waits for ever"),
            }
        }
    });
}

/// What cannot be destaged keeps the records of its whole journal. Hosts get an error, and no silence; and
/// when the store takes writes again, they are served.
#[test]
fn a_journal_that_gets_no_room_says_so_until_it_has_some() {
    let model = Model::new(4);
    model.disk("journal", DiskSpec::new(9 << 20));
    let bad = model.disk("bad", DiskSpec::new(LEN));
    model.disk("good", DiskSpec::new(LEN));
    model.run(async |world| {
        let cache = Cache::new(world.clone(), small());
        let device = OnDrive::open(&world, "journal");
        let journal = Journal::create(world.clone(), device, [1; 16]).await.expect("create");
        let unit = |id: u8, name: &str| {
            let store = OnDrive::open(&world, name);
            cache.attach(store, spec(id.into(), WritePolicy::Back), Some(journal.clone()))
        };
        let (failing, unit) = (unit(1, "bad"), unit(2, "good"));
        failing.write(AT, &Pieces::copy_of(&[1; 4096])).await.expect("write");
        bad.set_read_only(true);
        let mut refused = 0;
        for i in 0..2000_u64 {
            let data = Pieces::copy_of(&[i as u8; 4096]);
            refused += u64::from(unit.write_durable(None, AT, &data).await.is_err());
        }
        assert!(refused > 100, "{refused} of 2000 were refused");
        bad.set_read_only(false);
        while unit.write_durable(None, AT, &Pieces::copy_of(&[9; 4096])).await.is_err() {
            world.sleep(Duration::from_secs(1)).await;
        }
        failing.destage().await.expect("destage");
    });
}
