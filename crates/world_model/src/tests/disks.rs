//! Drives against a shadow: what survives a power cut, what faults do.

use std::time::Duration;

use world::{Buf, Data, Drive, DriveCounts, DriveError, DriveSpec, Filled, Io, Rng, World};

use crate::{Disk, DiskSpec, Model, Outcome};

const BLOCK: usize = 512;
const BLOCKS: usize = 64;

fn open(world: &World) -> Drive {
    world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("the disk is there")
}

fn filled(len: usize, byte: u8) -> Data {
    let mut buf = Buf::new(len);
    buf.fill(byte);
    buf.freeze()
}

async fn read(drive: &Drive, at: u64, len: usize) -> Result<Buf, DriveError> {
    let filled = drive.read(at, Buf::new(len)).await;
    filled.result.map(|()| filled.buf)
}

/// What one sector may hold after a cut, as the harness knows it: each value is one byte, repeated.
#[derive(Clone, Default)]
struct Sector {
    durable: u8,
    /// Later values whose survival is open, oldest first.
    open: Vec<u8>,
}

impl Sector {
    fn now(&self) -> u8 {
        *self.open.last().unwrap_or(&self.durable)
    }
}

/// One write or zero at a time, flushes between, until the power is cut at a drawn point.
async fn random_operations(world: World, shadow: &mut [Sector], rng: &mut Rng, steps: usize) {
    let drive = open(&world);
    for _ in 0..steps {
        let first = rng.usize(..BLOCKS);
        let n = 1 + rng.usize(..(BLOCKS - first).min(16));
        let (at, len) = ((first * BLOCK) as u64, n * BLOCK);
        match rng.u8(..8) {
            0..4 => {
                let byte = rng.u8(1..);
                // In flight from here on: it may survive before it is acknowledged.
                shadow[first..first + n].iter_mut().for_each(|s| s.open.push(byte));
                drive.write(at, filled(len, byte)).await.expect("write");
            }
            4 => {
                shadow[first..first + n].iter_mut().for_each(|s| s.open.push(0));
                drive.zero(at, len as u64).await.expect("zero");
            }
            5 => {
                drive.flush().await.expect("flush");
                for sector in &mut *shadow {
                    *sector = Sector { durable: sector.now(), open: Vec::new() };
                }
            }
            _ => {
                let buf = read(&drive, at, len).await.expect("read");
                for i in 0..n {
                    assert!(buf[i * BLOCK..][..BLOCK].iter().all(|b| *b == shadow[first + i].now()));
                }
            }
        }
    }
}

/// Every sector holds one of its allowed values, and from then on that is what it holds.
fn check_survivors(disk: &Disk, shadow: &mut [Sector]) {
    for (i, sector) in shadow.iter_mut().enumerate() {
        let bytes = disk.peek((i * BLOCK) as u64, BLOCK);
        let value = bytes[0];
        assert!(bytes.iter().all(|b| *b == value), "sector {i} is a mixture");
        assert!(
            value == sector.durable || sector.open.contains(&value),
            "sector {i} holds what it never could"
        );
        *sector = Sector { durable: value, open: Vec::new() };
    }
}

fn crash_run(seed: u64, spec: DiskSpec) -> u64 {
    let model = Model::new(seed);
    let disk = model.disk("d", spec);
    let mut shadow = vec![Sector::default(); BLOCKS];
    let mut rng = Rng::with_seed(seed);
    let mut crashes = 0;
    for _ in 0..10 {
        model.disks().cut_power_after(model.disks().persistence_points() + rng.u64(1..60));
        let outcome = model.run_until_crash(async |world| {
            random_operations(world, &mut shadow, &mut rng, 60).await;
        });
        if outcome == Outcome::PowerCut {
            crashes += 1;
            model.reboot();
            check_survivors(&disk, &mut shadow);
        }
    }
    assert!(crashes > 0, "seed {seed} never lost its power");
    model.digest()
}

#[test]
fn flushed_writes_survive_and_the_others_are_old_or_new_by_sector() {
    for seed in 0..100 {
        let spec = DiskSpec::new((BLOCKS * BLOCK) as u64);
        assert_eq!(
            crash_run(seed, spec.clone()),
            crash_run(seed, spec.clone()),
            "seed {seed}: the same digest twice"
        );
        crash_run(seed, spec.with_cache_bytes(4096));
    }
}

#[test]
fn without_a_cache_an_acknowledged_write_survives() {
    for seed in 0..50 {
        let model = Model::new(seed);
        let disk = model.disk("d", DiskSpec::new(1 << 20).with_cache_bytes(0));
        let acknowledged = model.run_until_crash(async |world| {
            let drive = open(&world);
            drive.write(0, filled(4096, 1)).await.expect("write");
            let _in_flight = drive.write(4096, filled(4096, 2));
            world.sleep(Duration::from_micros(50)).await;
            model.disks().cut_power();
        });
        assert_eq!(acknowledged, Outcome::PowerCut);
        assert_eq!(disk.peek(0, 4096), [1; 4096]);
        let torn = disk.peek(4096, 4096);
        assert!(torn.chunks(512).all(|s| s == [2; 512] || s == [0; 512]));
    }
}

#[test]
fn the_four_ways_of_a_power_cut_all_come() {
    let (mut lost, mut kept, mut torn, mut reordered) = (0, 0, 0, 0);
    for seed in 0..200 {
        let model = Model::new(seed);
        let disk = model.disk("d", DiskSpec::new(1 << 20));
        let outcome = model.run_until_crash(async |world| {
            let drive = open(&world);
            drive.write(0, filled(4096, 1)).await.expect("write");
            drive.write(4096, filled(4096, 2)).await.expect("write");
            model.disks().cut_power();
        });
        assert_eq!(outcome, Outcome::PowerCut);
        let (first, second) = (disk.peek(0, 4096), disk.peek(4096, 4096));
        match (first[..] == [1; 4096], second[..] == [2; 4096]) {
            (true, true) => kept += 1,
            (false, true) if first[..] == [0; 4096] => reordered += 1,
            _ if first[..] == [0; 4096] && second[..] == [0; 4096] => lost += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 20 && kept > 20 && torn > 20 && reordered > 5, "{lost} {kept} {torn} {reordered}");
}

#[test]
fn the_power_can_be_cut_after_every_persistence_point() {
    let life = async |world: World| {
        let drive = open(&world);
        for i in 0..5u8 {
            drive.write(u64::from(i) * 512, filled(512, i + 1)).await.expect("write");
            drive.flush().await.expect("flush");
        }
    };
    let model = Model::new(1);
    model.disk("d", DiskSpec::new(1 << 20));
    model.run(life);
    let points = model.disks().persistence_points();
    assert_eq!(points, 10);
    for k in 1..=points {
        let model = Model::new(1);
        let disk = model.disk("d", DiskSpec::new(1 << 20));
        model.disks().cut_power_after(k);
        assert_eq!(model.run_until_crash(life), Outcome::PowerCut);
        assert_eq!(model.disks().persistence_points(), k);
        let flushed = (k / 2) as usize;
        for i in 0..flushed {
            assert_eq!(disk.peek(i as u64 * 512, 512), [i as u8 + 1; 512], "flushed before point {k}");
        }
    }
}

#[test]
fn a_flush_covers_what_was_complete_when_it_was_submitted_and_no_more() {
    let mut later_lost = false;
    for seed in 0..50 {
        let model = Model::new(seed);
        let disk = model.disk("d", DiskSpec::new(1 << 20));
        let outcome = model.run_until_crash(async |world| {
            let drive = open(&world);
            drive.write(0, filled(512, 1)).await.expect("write");
            let write = drive.write(512, filled(512, 2));
            let flush = drive.flush();
            write.await.expect("write");
            flush.await.expect("flush");
            model.disks().cut_power();
        });
        assert_eq!(outcome, Outcome::PowerCut);
        assert_eq!(disk.peek(0, 512), [1; 512]);
        later_lost |= disk.peek(512, 512) == [0; 512];
    }
    assert!(later_lost, "a write that overlaps the flush must be in doubt");
}

#[test]
fn when_only_the_process_dies_what_it_had_submitted_is_done() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    model.run(async |world| {
        let _in_flight = open(&world).write(0, filled(4096, 9));
    });
    assert_eq!(disk.peek(0, 4096), [9; 4096]);
    let seen = model.run(async |world| read(&open(&world), 0, 512).await.expect("read")[0]);
    assert_eq!(seen, 9);
}

#[test]
fn a_latent_error_fails_reads_until_the_sector_is_written() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    disk.poke(0, &[5; 8192]);
    disk.add_latent_errors(1024..1536);
    model.run(async |world| {
        let drive = open(&world);
        assert_eq!(read(&drive, 0, 1024).await.expect("beside it")[0], 5);
        let failed = read(&drive, 0, 4096).await.expect_err("over it");
        assert_eq!(failed, DriveError::Medium { drive: "d".into(), at: 0 });
        drive.write(1024, filled(512, 6)).await.expect("a write heals");
        assert_eq!(read(&drive, 0, 4096).await.expect("healed")[1024], 6);
    });
    assert_eq!(disk.latent_errors(), 0);
}

#[test]
fn a_slow_disk_takes_ten_times_as_long() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20).with_latency(Duration::from_micros(70)));
    let times = model.run(async |world| {
        let drive = open(&world);
        let mut times = Vec::new();
        for factor in [1, 10, 1] {
            disk.set_slow(factor);
            let start = world.now();
            drive.flush().await.expect("flush");
            times.push(world.now().since(start).as_micros());
        }
        times
    });
    assert_eq!(times, [70, 700, 70]);
}

#[test]
fn a_hung_disk_answers_nothing_until_it_is_dead_or_goes_on() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    model.run(async |world| {
        let drive = open(&world);
        disk.hang();
        let waiting = drive.write(0, filled(512, 1));
        world.sleep(Duration::from_secs(9)).await;
        let waiting = waiting.try_now().expect_err("no answer for 9 s");
        disk.resume();
        waiting.await.expect("it goes on");
        disk.hang();
        let waiting = drive.write(512, filled(512, 1));
        world.sleep(Duration::from_secs(9)).await;
        disk.kill();
        assert!(matches!(waiting.await, Err(DriveError::Gone { .. })));
        assert!(matches!(read(&drive, 0, 512).await, Err(DriveError::Gone { .. })));
        assert!(matches!(drive.flush().await, Err(DriveError::Gone { .. })));
        disk.resume();
        assert_eq!(read(&drive, 0, 1024).await.expect("plugged in again")[..], [[1; 512], [0; 512]].concat());
    });
}

#[test]
fn a_probe_tells_whether_the_disk_is_there() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    model.run(async |world| {
        let drive = open(&world);
        assert_eq!(drive.probe().await, Ok(()));
        disk.hang();
        let waiting = drive.probe();
        world.sleep(Duration::from_secs(9)).await;
        let waiting = waiting.try_now().expect_err("no answer for 9 s");
        disk.kill();
        assert!(matches!(waiting.await, Err(DriveError::Gone { .. })));
        assert!(matches!(drive.probe().await, Err(DriveError::Gone { .. })));
        disk.resume();
        assert_eq!(drive.probe().await, Ok(()), "plugged in again");
        assert_eq!(drive.counts(), DriveCounts::default());
    });
}

#[test]
fn operations_of_a_hung_disk_are_given_up_and_nothing_more_is_taken_until_they_ended() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    model.run(async |world| {
        let drive = open(&world);
        drive.write(0, filled(512, 1)).await.expect("write");
        disk.hang();
        let begun = world.now();
        let (reading, flushing) = (drive.read(0, Buf::new(512)), drive.flush());
        let Err(reading) = reading.unless_slow().await else { panic!("it is slow") };
        let slow_after = world.now() - begun;
        assert!((2.0..=2.5).contains(&slow_after.as_secs_f64()), "{slow_after:?}");
        assert!(drive.silence().slow && drive.silence().given_up == 0);
        let silent = DriveError::Silent { drive: "d".into(), secs: 10 };
        assert_eq!(reading.await.result, Err(silent.clone()));
        assert_eq!(flushing.await, Err(silent.clone()));
        let given_up_after = world.now() - begun;
        assert!((10.0..=10.5).contains(&given_up_after.as_secs_f64()), "{given_up_after:?}");
        assert_eq!((drive.silence().given_up, drive.silence().given_up_bytes), (2, 512));
        let refused = world.now();
        assert_eq!(drive.write(0, filled(512, 2)).await, Err(silent.clone()));
        assert_eq!((world.now(), drive.counts().silences), (refused, 2), "at once");
        disk.resume();
        world.sleep(Duration::from_micros(1)).await;
        assert_eq!(read(&drive, 0, 512).await.expect("it answers")[..], [1; 512]);
        // Whoever has the drive may want to wait for longer.
        drive.ask_before_giving_up(std::rc::Rc::new(|| false));
        disk.hang();
        let waiting = drive.read(0, Buf::new(512));
        world.sleep(Duration::from_secs(60)).await;
        let waiting = waiting.try_now().expect_err("nobody gives it up");
        disk.resume();
        assert_eq!(waiting.await.result, Ok(()));
    });
}

#[test]
fn an_operation_that_a_busy_drive_has_lost_is_given_up() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    model.run(async |world| {
        let drive = open(&world);
        disk.hang();
        let lost = drive.read(0, Buf::new(512));
        // The drive has forgotten it, and answers all others.
        world.sleep(Duration::from_millis(1)).await;
        disk.forget();
        disk.resume();
        let begun = world.now();
        let mut lost: Result<Filled, Io<Filled>> = Err(lost);
        let ends = loop {
            match lost {
                Ok(ends) => break ends,
                Err(waits) => lost = Io::try_now(waits),
            }
            // Refused, too, once the lost one was given up.
            let _ = read(&drive, 4096, 512).await;
        };
        assert!(matches!(ends.result, Err(DriveError::Silent { .. })));
        let took = world.now() - begun;
        assert!(took <= Duration::from_secs(11), "{took:?}");
    });
}

#[test]
fn the_latencies_of_the_last_minute_are_measured_at_some_operations() {
    let model = Model::new(1);
    let disk = model.disk("d", DiskSpec::new(1 << 20).with_latency(Duration::from_micros(100)));
    model.run(async |world| {
        let drive = open(&world);
        let minute_of = async |slow: u32| {
            disk.set_slow(slow);
            let end = (world.now().0 / 60_000_000_000 + 1) * 60_000_000_000;
            for _ in 0..1000 {
                drive.write(0, filled(512, 1)).await.expect("write");
            }
            world.sleep_until(world::Instant(end)).await;
            drive.latency_p99().map(|time| time.as_micros())
        };
        assert_eq!(drive.latency_p99(), None);
        let usual = minute_of(1).await.expect("enough");
        assert!((100..=128).contains(&usual), "{usual}");
        let slow = minute_of(50).await.expect("enough");
        assert!((5000..=6400).contains(&slow), "{slow}");
        world.sleep(Duration::from_secs(120)).await;
        assert_eq!(drive.latency_p99(), None, "nothing in the last minute");
    });
}

#[test]
fn disks_that_lie_are_found_out_by_content_only() {
    let model = Model::new(3);
    let disk = model.disk("d", DiskSpec::new(1 << 20));
    let outcome = model.run_until_crash(async |world| {
        let drive = open(&world);
        disk.lose_writes(1);
        drive.write(0, filled(512, 1)).await.expect("acknowledged");
        assert_eq!(read(&drive, 0, 512).await.expect("read")[0], 0);
        disk.misdirect_next_write(8192);
        drive.write(0, filled(512, 2)).await.expect("acknowledged");
        assert_eq!(disk.peek(8192, 512), [2; 512]);
        assert_eq!(disk.peek(0, 512), [0; 512]);
        disk.set_flush_lies(true);
        for at in (0..64).map(|i| i * 512) {
            drive.write(at, filled(512, 3)).await.expect("write");
        }
        drive.flush().await.expect("acknowledged");
        model.disks().cut_power();
    });
    assert_eq!(outcome, Outcome::PowerCut);
}

#[test]
fn what_is_not_there_is_refused_with_its_name() {
    Model::new(1).run(async |world| {
        let missing = world.open_now(&DriveSpec::Modelled { name: "x".into() }).err().expect("no such disk");
        assert_eq!(missing.to_string(), "drive x: the model has no disk of this name");
        let memory = DriveSpec::Memory { name: "m".into(), len_bytes: 8192 };
        let drive = world.open_now(&memory).expect("memory is always there");
        drive.write(4096, filled(4096, 4)).await.expect("write");
        assert_eq!(read(&drive, 0, 8192).await.expect("read")[4096], 4);
    });
}
