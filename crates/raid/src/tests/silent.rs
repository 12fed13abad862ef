//! Drives that do not answer: who waits, for how long, and what happens when they answer again.

use std::time::Duration;

use block::{BlockError, Device, Pieces};
use world::{Instant, World};

use super::{DISK_LEN, drives, pattern, rack, rack_of, read, spec_of};
use crate::{Group, GroupState, Level, MemberState, Throttle};

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 6)];

async fn create(world: &World, level: Level, width: usize) -> Group {
    Group::create(world.clone(), spec_of(level, width), drives(world, 0..width)).await.expect("create")
}

fn since(world: &World, begun: Instant) -> Duration {
    world.now() - begun
}

#[test]
fn reads_are_answered_by_the_others_and_a_write_when_the_drive_is_dropped() {
    for (level, width) in REDUNDANT {
        for hung in 0..width {
            let rack = rack(hung as u64 + 1, width);
            rack.model.run(async |world| {
                let group = create(&world, level, width).await;
                let len = 2 << 20;
                let data = pattern(len, 5);
                group.write(0, &data).await.expect("write");
                rack.disks[hung].hang();
                // Each read alone, so that some are of the drive that hangs.
                for at in (0..len).step_by(128 << 10) {
                    let begun = world.now();
                    let found = read(&group, at as u64, 128 << 10).await;
                    assert!(
                        since(&world, begun) <= Duration::from_secs(3),
                        "{level}: a read took {:?}",
                        since(&world, begun)
                    );
                    assert_eq!(found, data.slice(at, 128 << 10).joined().to_vec());
                }
                let begun = world.now();
                let new = pattern(len, 9);
                group.write(0, &new).await.expect("the group goes on without it");
                let took = since(&world, begun);
                assert!(took <= Duration::from_secs(12), "{level}: the write took {took:?}");
                let status = group.status();
                assert_eq!(status.members[hung].state, MemberState::Failed, "{level}");
                assert!(status.members[hung].dropped_silent);
                let begun = world.now();
                group.write(0, &new).await.expect("write");
                group.flush().await.expect("flush");
                assert_eq!(read(&group, 0, len).await, new.joined().to_vec());
                assert!(since(&world, begun) < Duration::from_secs(1), "nobody asks it any more");
            });
        }
    }
}

#[test]
fn a_group_without_redundancy_says_so_in_time_and_serves_when_the_drive_answers_again() {
    for (level, width) in [(Level::Raid0, 2), (Level::Raid1, 2)] {
        let rack = rack(3, width);
        rack.model.run(async |world| {
            let group = create(&world, level, width).await;
            group.write(0, &pattern(1 << 20, 1)).await.expect("write");
            rack.disks.iter().for_each(|disk| disk.hang());
            let begun = world.now();
            let written = group.write(0, &pattern(1 << 20, 2)).await;
            assert!(matches!(written, Err(BlockError::Silent { .. })), "{level}: {written:?}");
            let found = group.read(0, 4096, &mut Pieces::new()).await;
            assert!(matches!(found, Err(BlockError::Silent { .. })), "{level}: {found:?}");
            let flushed = group.flush().await;
            assert!(matches!(flushed, Err(BlockError::Silent { .. })), "{level}: {flushed:?}");
            assert!(since(&world, begun) <= Duration::from_secs(12), "{:?}", since(&world, begun));
            assert!(group.status().members[0].silence.given_up > 0, "what is not given back is accounted");
            rack.disks.iter().for_each(|disk| disk.resume());
            world.sleep(Duration::from_millis(10)).await;
            group.write(0, &pattern(1 << 20, 3)).await.expect("it answers again");
            assert_eq!(read(&group, 0, 1 << 20).await, pattern(1 << 20, 3).joined().to_vec(), "{level}");
            assert_ne!(group.status().state, GroupState::Failed);
            world.sleep(Duration::from_secs(1)).await;
            assert_eq!(group.status().members[0].silence.given_up_bytes, 0);
        });
    }
}

#[test]
fn levels_with_parity_answer_in_time_and_carry_out_what_they_began() {
    for (level, width) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
        let rack = rack(4, width);
        rack.model.run(async |world| {
            let group = create(&world, level, width).await;
            group.write(0, &pattern(1 << 20, 1)).await.expect("write");
            // A cable shared by all of them, for longer than a drive may be silent.
            rack.disks.iter().for_each(|disk| disk.hang());
            let begun = world.now();
            let new = pattern(1 << 20, 2);
            let more = pattern(1 << 20, 3);
            let (written, zeroed, flushed) =
                futures::join!(group.write(0, &new), group.zero(1 << 20, 1 << 20), group.flush());
            for (what, outcome) in [("write", written), ("zero", zeroed), ("flush", flushed)] {
                assert!(matches!(outcome, Err(BlockError::Silent { .. })), "{level}: {what}: {outcome:?}");
            }
            assert!(since(&world, begun) <= Duration::from_secs(12), "{:?}", since(&world, begun));
            let again = world.now();
            let refused = group.write(0, &more).await;
            assert!(matches!(refused, Err(BlockError::Silent { .. })), "{level}: {refused:?}");
            assert_eq!(since(&world, again), Duration::ZERO, "nothing queues behind what nobody waits for");
            let found = group.read(0, 4096, &mut Pieces::new()).await;
            assert!(matches!(found, Err(BlockError::Silent { .. })), "{level}: {found:?}");
            assert!(since(&world, again) <= Duration::from_secs(13), "{:?}", since(&world, again));
            rack.disks.iter().for_each(|disk| disk.resume());
            world.sleep(Duration::from_secs(1)).await;
            assert_ne!(group.status().state, GroupState::Failed, "{level}");
            assert_eq!(read(&group, 0, 1 << 20).await, new.joined().to_vec(), "{level}: it was carried out");
            assert_eq!(read(&group, 1 << 20, 1 << 20).await, vec![0; 1 << 20], "{level}");
            group.write(0, &more).await.expect("it takes writes again");
            group.flush().await.expect("flush");
            assert_eq!(read(&group, 0, 1 << 20).await, more.joined().to_vec(), "{level}");
        });
    }
}

#[test]
fn a_degraded_group_with_parity_answers_in_time_for_the_drive_that_it_lost() {
    let rack = rack(6, 4);
    rack.model.run(async |world| {
        let group = create(&world, Level::Raid5, 4).await;
        let len = 1 << 20;
        let data = pattern(len, 1);
        group.write(0, &data).await.expect("write");
        group.flush().await.expect("flush");
        group.fail_drive(0).await.expect("one can be lost");
        rack.disks[1].hang();
        let begun = world.now();
        let new = pattern(len, 2);
        let write = async {
            let outcome = group.write(0, &new).await;
            assert!(since(&world, begun) <= Duration::from_secs(12), "{:?}", since(&world, begun));
            outcome
        };
        let reads = async {
            for at in (0..len).step_by(64 << 10) {
                let begun = world.now();
                let found = group.read(at as u64, 64 << 10, &mut Pieces::new()).await;
                assert!(since(&world, begun) <= Duration::from_secs(13), "{:?}", since(&world, begun));
                assert!(matches!(found, Ok(()) | Err(BlockError::Silent { .. })), "{found:?}");
            }
        };
        let (written, ()) = futures::join!(write, reads);
        assert!(matches!(written, Err(BlockError::Silent { .. })), "{written:?}");
        rack.disks[1].resume();
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&group, 0, len).await, new.joined().to_vec(), "it was carried out");
        assert_eq!(group.status().state, GroupState::Degraded);
    });
}

/// The bytes written to every drive by `work`.
async fn written(group: &Group, work: impl Future<Output = ()>) -> Vec<u64> {
    let counts =
        || group.status().members.iter().map(|m| m.counts.write_bytes + m.counts.zero_bytes).collect();
    let before: Vec<u64> = counts();
    work.await;
    let after: Vec<u64> = counts();
    after.iter().zip(before).map(|(a, b)| a - b).collect()
}

#[test]
fn a_drive_that_comes_back_is_filled_with_what_changed() {
    const LONG: u64 = 200 << 20;
    for (level, width) in REDUNDANT {
        let rack = rack_of(5, width, LONG);
        rack.model.run(async |world| {
            let group = create(&world, level, width).await;
            let len = group.geometry().len_bytes;
            let part = 256 << 10;
            // All over the group, so that to fill it anew would show.
            let places: Vec<u64> = (0..len - part).step_by(8 << 20).map(|at| at & !0xffff).collect();
            for at in &places {
                group.write(*at, &pattern(part as usize, 1)).await.expect("write");
            }
            group.flush().await.expect("flush");
            // Not flushed: what is in a drive's cache may be lost with its power.
            group.write(places[1], &pattern(part as usize, 2)).await.expect("write");
            rack.disks[1].hang();
            group.write(places[2], &pattern(part as usize, 3)).await.expect("write");
            group.flush().await.expect("flush");
            assert!(group.status().members[1].dropped_silent, "{level}");
            group.write(places[3], &pattern(part as usize, 4)).await.expect("write");
            group.flush().await.expect("flush");
            assert!(group.take_back(0).await.is_err(), "it serves");
            rack.disks[1].resume();
            world.sleep(Duration::from_secs(1)).await;
            let missed = group.take_back(1).await.expect("it answers").expect("what changed is known");
            assert!((1 << 20..=24 << 20).contains(&missed), "{level}: {missed}");
            let wrote = written(&group, async {
                // Beside a write in front of the mark and behind it.
                let writes = async {
                    group.write(places[0], &pattern(part as usize, 5)).await.expect("write");
                    let last = places[places.len() - 1];
                    group.write(last, &pattern(part as usize, 6)).await.expect("write");
                };
                let throttle = Throttle::none(world.clone());
                let (rebuilt, ()) = futures::join!(group.rebuild(&throttle), writes);
                assert!(rebuilt.expect("rebuild"));
            });
            let wrote = wrote.await;
            assert!(wrote[1] < LONG / 4, "{level}: {wrote:?} of {LONG}");
            assert_eq!(group.status().state, GroupState::Optimal, "{level}");
            // The drive that came back carries it: the others of its data go.
            let away = if level == Level::Raid10 { 0 } else { 2 % width as u32 };
            let away = if level == Level::Raid1 { 0 } else { away };
            group.fail_drive(away).await.expect("fail");
            let salts = |i: usize| match i {
                0 => 5,
                1 => 2,
                2 => 3,
                3 => 4,
                i if i == places.len() - 1 => 6,
                _ => 1,
            };
            for (i, at) in places.iter().enumerate() {
                assert_eq!(
                    read(&group, *at, part as usize).await,
                    pattern(part as usize, salts(i)).joined().to_vec(),
                    "{level}, place {i}"
                );
            }
        });
    }
}

/// Where data begin on the drives.
fn data_offset(group: &Group) -> u64 {
    group.0.data_offset
}

#[test]
fn a_drive_that_lost_its_cache_while_it_was_away_is_filled_with_that_too() {
    for (level, width) in REDUNDANT {
        let rack = rack_of(6, width, DISK_LEN);
        rack.model.run(async |world| {
            let group = create(&world, level, width).await;
            let len = 512 << 10;
            group.write(0, &pattern(len, 1)).await.expect("write");
            group.flush().await.expect("flush");
            group.write(0, &pattern(len, 2)).await.expect("write");
            rack.disks[1].hang();
            // What the drive had not flushed is gone from it.
            group.write(len as u64, &pattern(len, 3)).await.expect("write");
            let data_at = data_offset(&group);
            let kept = rack.disks[1].peek(data_at, len);
            let old: Vec<u8> = kept.iter().map(|byte| byte ^ 0x55).collect();
            rack.disks[1].poke(data_at, &old);
            rack.disks[1].resume();
            world.sleep(Duration::from_secs(1)).await;
            group.take_back(1).await.expect("it answers");
            group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
            let away = if matches!(level, Level::Raid1 | Level::Raid10) { 0 } else { 2 };
            group.fail_drive(away).await.expect("fail");
            assert_eq!(read(&group, 0, len).await, pattern(len, 2).joined().to_vec(), "{level}");
        });
    }
}

/// Linux reports a failed write-back once. If nobody waits for that flush any more, the next one would
/// succeed and call durable what was lost.
#[test]
fn a_flush_that_fails_after_it_was_given_up_fails_the_next_one() {
    for (level, width) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4)] {
        let rack = rack(9, width);
        rack.model.run(async |world| {
            let group = create(&world, level, width).await;
            group.write(0, &pattern(1 << 20, 1)).await.expect("write");
            rack.disks.iter().for_each(|disk| disk.hang());
            let flushed = group.flush().await;
            assert!(matches!(flushed, Err(BlockError::Silent { .. })), "{level}: {flushed:?}");
            rack.disks[1].fail_flushes(1);
            rack.disks.iter().for_each(|disk| disk.resume());
            world.sleep(Duration::from_millis(10)).await;
            let flushed = group.flush().await;
            if level == Level::Raid0 {
                assert!(matches!(flushed, Err(BlockError::Unreadable { .. })), "{level}: {flushed:?}");
                return;
            }
            assert_eq!(flushed, Ok(()), "{level}: the other mirror has it");
            let status = group.status();
            assert_eq!(status.members[1].state, MemberState::Failed, "{level}");
            assert!(!status.members[1].dropped_silent && !status.members[1].dropped_gone, "{level}");
            assert_eq!(read(&group, 0, 1 << 20).await, pattern(1 << 20, 1).joined().to_vec(), "{level}");
        });
    }
}

#[test]
fn a_drive_that_was_dropped_and_then_fails_its_flush_does_not_return() {
    for (level, width) in REDUNDANT {
        let rack = rack(10, width);
        rack.model.run(async |world| {
            let group = create(&world, level, width).await;
            group.write(0, &pattern(1 << 20, 1)).await.expect("write");
            rack.disks[1].hang();
            group.flush().await.expect("the group goes on without it");
            assert!(group.status().members[1].dropped_silent, "{level}");
            rack.disks[1].fail_flushes(1);
            rack.disks[1].resume();
            world.sleep(Duration::from_secs(1)).await;
            for _ in 0..2 {
                assert!(group.take_back(1).await.is_err(), "{level}: it failed a flush");
            }
            let member = &group.status().members[1];
            assert!(!member.dropped_silent && member.cause.as_ref().is_some_and(|c| c.contains("medium")));
        });
    }
}

#[test]
fn zeros_of_many_hosts_are_written_in_turn_and_others_hardly_wait() {
    let spec =
        world_model::DiskSpec::mechanical(&world_model::drives::catalogue::CHEETAH_15K5).without_content();
    for (level, width) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let model = world_model::Model::new(1);
        let _disks: Vec<_> = (0..width).map(|i| model.disk(&format!("d{i}"), spec.clone())).collect();
        model.run(async |world| {
            let group = create(&world, level, width).await;
            let step = 256 << 20;
            let all = (1..=16).map(|i| group.zero(i * step, step));
            let begun = world.now();
            let zeroing = futures::future::join_all(all);
            let reading = async {
                let mut slowest = Duration::ZERO;
                for _ in 0..20 {
                    world.sleep(Duration::from_secs(1)).await;
                    let begun = world.now();
                    read(&group, 0, 4096).await;
                    slowest = slowest.max(since(&world, begun));
                }
                slowest
            };
            let (zeroed, slowest) = futures::future::join(zeroing, reading).await;
            let took = since(&world, begun);
            assert!(took > Duration::from_secs(14), "{level}: longer than one may take: {took:?}");
            assert!(zeroed.iter().all(Result::is_ok), "{level}: {zeroed:?}");
            assert!(slowest < Duration::from_secs(1), "{level}: {slowest:?}");
            assert!(group.drives().iter().all(|drive| drive.counts().silences == 0), "{level}");
        });
    }
}
