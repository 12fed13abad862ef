//! Disks that take as long as drives do.

use std::time::Duration;

use world::{Buf, Drive, DriveSpec, Filled, Io, Rng, World};

use crate::drives::{SegmentParameters, catalogue};
use crate::{Disk, DiskSpec, Model, Outcome};

fn open(world: &World) -> Drive {
    world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("the disk is there")
}

fn filled(byte: u8) -> world::Data {
    let mut buf = Buf::new(4096);
    buf.fill(byte);
    buf.freeze()
}

fn any_block(rng: &mut Rng) -> u64 {
    rng.u64(..CHEETAH_BYTES / 4096) * 4096
}

/// Less than a Cheetah 15K.5 has.
const CHEETAH_BYTES: u64 = 140_000_000_000;

/// Random reads, so many at once; the time that they took.
async fn reads(world: &World, drive: &Drive, depth: usize, rounds: usize) -> Duration {
    let mut rng = world.random("workload");
    let start = world.now();
    for _ in 0..rounds {
        let all: Vec<_> = (0..depth).map(|_| drive.read(any_block(&mut rng), Buf::new(4096))).collect();
        for read in all {
            read.await.result.expect("read");
        }
    }
    world.now().since(start)
}

fn on_a_cheetah(seed: u64, act: impl AsyncFnOnce(World, &Disk)) -> u64 {
    let model = Model::new(seed);
    let disk = model.disk("d", DiskSpec::mechanical(&catalogue::CHEETAH_15K5).without_content());
    model.run(async |world| act(world, &disk).await);
    model.digest()
}

#[test]
fn a_queue_is_served_faster_than_one_after_the_other_and_the_usage_adds_up() {
    on_a_cheetah(1, async |world, disk| {
        let drive = open(&world);
        let alone = reads(&world, &drive, 1, 320).await;
        let together = reads(&world, &drive, 32, 10).await;
        // 178 and, while the queue of each round empties, some 300 per second.
        let per_s = 320.0 / alone.as_secs_f64();
        assert!((165.0..190.0).contains(&per_s), "{per_s} per second");
        assert!(together * 3 < alone * 2, "{together:?} of {alone:?}");
        let usage = disk.usage().expect("a drive");
        assert_eq!(usage.served, 640);
        let busy = Duration::from_nanos(usage.busy_ns);
        assert!(busy <= alone + together && busy * 10 >= (alone + together) * 9, "{busy:?}");
    });
}

#[test]
fn the_same_seed_gives_the_same_times_and_digest() {
    let run = |seed| {
        let mut took = Duration::ZERO;
        let digest = on_a_cheetah(seed, async |world, _| took = reads(&world, &open(&world), 16, 10).await);
        (took, digest)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_drive_in_a_new_run_is_at_rest() {
    let model = Model::new(3);
    let disk = model.disk("d", DiskSpec::mechanical(&catalogue::CHEETAH_15K5));
    let mut times = Vec::new();
    for _ in 0..2 {
        model.run(async |world| {
            let start = world.now();
            open(&world).read(0, Buf::new(4096)).await.result.expect("read");
            times.push(world.now().since(start));
        });
        assert_eq!(disk.usage().map(|usage| usage.served), Some(1));
    }
    assert_eq!(times[0], times[1]);
}

#[test]
fn faults_strike_modelled_drives_too() {
    on_a_cheetah(4, async |world, disk| {
        let drive = open(&world);
        let well = reads(&world, &drive, 1, 50).await;
        disk.set_slow(10);
        let slow = reads(&world, &drive, 1, 50).await;
        assert!(slow > well * 8 && slow < well * 12, "{slow:?} of {well:?}");
        disk.set_slow(1);

        disk.hang();
        let pending: Vec<_> = (0..8).map(|i| drive.read(i << 20, Buf::new(4096))).collect();
        world.sleep(Duration::from_secs(10)).await;
        let still = |read: Io<Filled>| match read.try_now() {
            Ok(_) => panic!("a hung drive answers nothing"),
            Err(read) => read,
        };
        let pending: Vec<_> = pending.into_iter().map(still).collect();
        disk.resume();
        for read in pending {
            read.await.result.expect("it went on");
        }

        let pending = drive.read(0, Buf::new(4096));
        disk.kill();
        assert!(pending.await.result.is_err());
        assert!(drive.read(4096, Buf::new(4096)).await.result.is_err());
    });
}

#[test]
fn a_power_cut_takes_what_the_write_cache_acknowledged_and_nothing_else() {
    let with = |write_segments| {
        let mut disk = catalogue::CHEETAH_15K5.clone();
        disk.segments = SegmentParameters { write_segments, ..disk.segments };
        DiskSpec::mechanical(&disk)
    };
    let mut lost = [0, 0];
    for (i, spec) in [with(0), with(8)].into_iter().enumerate() {
        for seed in 0..20 {
            let model = Model::new(seed);
            let disk = model.disk("d", spec.clone());
            model.disks().cut_power_after(2);
            let outcome = model.run_until_crash(async |world| {
                let drive = open(&world);
                assert_eq!(drive.info().volatile_cache, i == 1);
                drive.write(0, filled(1)).await.expect("write");
                drive.write(1 << 30, filled(2)).await.expect("write");
            });
            assert!(matches!(outcome, Outcome::PowerCut));
            model.reboot();
            lost[i] += usize::from(disk.peek(0, 4096) != *filled(1));
        }
    }
    assert_eq!(lost[0], 0, "with the cache off, what is acknowledged is on the medium");
    assert!(lost[1] > 0, "with the cache on it need not be");
}

#[test]
fn content_that_is_not_kept_reads_as_zeros() {
    on_a_cheetah(5, async |world, disk| {
        let drive = open(&world);
        drive.write(0, filled(7)).await.expect("write");
        let read = drive.read(0, Buf::new(4096)).await;
        read.result.expect("read");
        assert!(read.buf.iter().all(|byte| *byte == 0));
        assert_eq!(disk.peek(0, 512), vec![0; 512]);
    });
}

#[test]
fn a_drive_with_a_long_queue_is_busy_until_none_of_it_ends_and_then_it_is_silent() {
    on_a_cheetah(2, async |world, disk| {
        let drive = open(&world);
        let mut rng = world.random("workload");
        let mut all =
            || (0..8192).map(|_| drive.read(any_block(&mut rng), Buf::new(4096))).collect::<Vec<_>>();
        let (begun, reading) = (world.now(), all());
        for read in reading {
            assert_eq!(read.await.result, Ok(()));
        }
        let took = world.now() - begun;
        assert!(took > Duration::from_secs(12), "longer than a drive may be silent: {took:?}");
        assert_eq!(drive.counts().silences, 0);

        let reading = all();
        world.sleep(Duration::from_secs(5)).await;
        disk.hang();
        let begun = world.now();
        let mut silent = 0;
        for read in reading {
            silent += u64::from(read.await.result.is_err());
        }
        let took = world.now() - begun;
        assert!(took <= Duration::from_secs(11), "however long the queue was: {took:?}");
        assert!(silent > 4000 && drive.counts().silences == silent, "{silent}");
        disk.resume();
    });
}
