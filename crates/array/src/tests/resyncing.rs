//! An unclean end, and one mirror that lost a piece of what recovery needs: the resync begins after recovery,
//! and not at all where recovery fails.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use qos::Policy;
use world::World;
use world_model::{Disk, DiskSpec, Model};

use super::caching::{cached, check_content, cut_after};
use super::deleting::Stored;
use super::rig::{DISK_BYTES, Host, declaration, group, model, start, wait_until};
use crate::config::{Level, PolicyConfig};
use crate::status::ControllerStatus;
use crate::{Array, Config, ControllerHandle, run_controller};

const METADATA: u64 = 1 << 20;
const BLOCK: usize = 4096;

fn start_kept(world: &World, stored: &Stored) -> Array {
    let (handle, mailbox) = ControllerHandle::new(0);
    world.spawn(run_controller(world.clone(), 0, mailbox, vec![handle.clone()]));
    Array::new(vec![handle], super::rig::TARGET).kept_by(Box::new(stored.clone()), stored.last())
}

fn disk(model: &Model, i: usize) -> Disk {
    model.disks().get(&format!("d{i}")).expect("it is there")
}

/// The places of blocks that begin with `magic`, in the order of the numbers behind the identity: generation
/// and commit of a frame, epoch and number of a batch.
fn places(disk: &Disk, magic: &[u8; 8], numbers_at: usize) -> Vec<u64> {
    let bytes = disk.peek(METADATA, (DISK_BYTES - METADATA) as usize);
    let number = |block: &[u8], at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
    let blocks = bytes.chunks_exact(BLOCK).enumerate().filter(|(_, block)| block[..8] == magic[..]);
    let mut found: Vec<(u64, u64, u64)> = blocks
        .map(|(i, block)| {
            let at = METADATA + (i * BLOCK) as u64;
            (number(block, numbers_at), number(block, numbers_at + 8), at)
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(.., at)| at).collect()
}

fn frames(disk: &Disk) -> Vec<u64> {
    places(disk, b"MASUJRNL", 32)
}

fn batches(disk: &Disk) -> Vec<u64> {
    places(disk, b"MASUJBAT", 24)
}

fn flip(disk: &Disk, at: u64) {
    let mut byte = disk.peek(at + 70, 1);
    byte[0] ^= 1;
    disk.poke(at + 70, &byte);
}

fn is_resynced(status: &ControllerStatus) -> bool {
    status.groups.iter().all(|group| !group.raid.reads_pinned)
}

fn mirror(id: u8) -> Config {
    declaration(id, 2, vec![group("g", Level::Raid1, 0..2)])
}

/// The host fills the volume and has it flushed, and the power is cut.
fn fill_flush_and_cut(model: &Model, stored: &Stored, id: u8) {
    cut_after(model, async |world| {
        let mut array = start_kept(&world, stored);
        array.apply(mirror(id)).await.expect("apply");
        let mut host = Host::log_in(&world, id).await;
        host.fill().await;
        host.flush().await;
    });
}

/// The array starts and makes all mirrors equal; then the power is cut again, without any write.
fn resync_and_cut(model: &Model, config: Config) {
    cut_after(model, async |world| {
        let mut array = start(&world);
        array.apply(config).await.expect("apply");
        wait_until(&world, &array, "the resync", is_resynced).await;
    });
}

#[test]
fn a_frame_that_one_mirror_lost_survives_the_resync() {
    for bad in 0..2 {
        for from_end in [1, 2] {
            let model = model(70, 2);
            fill_flush_and_cut(&model, &Stored::default(), 70);
            let all = frames(&disk(&model, bad));
            flip(&disk(&model, bad), all[all.len() - from_end]);
            resync_and_cut(&model, mirror(70));
            check_content(&model, 70, mirror(70), 1);
        }
    }
}

/// The pool is refused: each mirror stays as it is, and can be repaired.
#[test]
fn mirrors_stay_as_they_are_while_their_pool_is_refused() {
    let (model, stored) = (model(71, 2), Stored::default());
    fill_flush_and_cut(&model, &stored, 71);
    let disks = [disk(&model, 0), disk(&model, 1)];
    let all = frames(&disks[0]);
    let lost = all[all.len() - 2];
    disks.iter().for_each(|disk| flip(disk, lost));
    // So that a resync would have something to copy.
    flip(&disks[0], *all.last().expect("a frame"));
    let content = || disks.clone().map(|disk| disk.peek(METADATA, (DISK_BYTES - METADATA) as usize));
    let before = content();
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(mirror(71)).await.expect("the rest is served");
        let status = array.status().await.expect("status").remove(0);
        assert_eq!(status.groups[0].resync_waits, None, "each start would be a trouble for a moment");
        world.sleep(Duration::from_secs(60)).await;
        let status = array.status().await.expect("status").remove(0);
        assert_eq!(status.missing[0].name, "p", "{:?}", status.missing);
        let waits = status.groups[0].resync_waits.as_deref();
        assert!(waits.is_some_and(|cause| cause.contains("pool \"p\"")), "{waits:?}");
        let told = |e: &crate::Event| e.text.contains("the resync of its mirrors waits");
        assert_eq!(status.events.iter().filter(|e| told(e)).count(), 1, "{:?}", status.events);
        let refused = array.scrub("g").await.expect_err("it would make them equal").to_string();
        assert!(refused.contains("the resync of its mirrors waits"), "{refused}");
        array.stop().await.expect("stop");
    });
    assert!(content() == before, "nothing was written");
    flip(&disks[1], lost);
    resync_and_cut(&model, mirror(71));
    check_content(&model, 71, mirror(71), 1);
}

/// What was acknowledged and only the journal has.
fn fill_and_cut(model: &Model, id: u8) {
    cut_after(model, async |world| {
        let mut array = start(&world);
        array.apply(cached(id, true)).await.expect("apply");
        let mut host = Host::log_in(&world, id).await;
        host.fill().await;
        host.fill().await;
    });
}

/// Of the places of all batches, those that one mirror lost.
type Lost = fn(&[u64]) -> Vec<u64>;

#[test]
fn a_batch_that_one_mirror_lost_is_replayed_and_survives_the_resync() {
    let which: [Lost; 4] = [
        |all| vec![all[all.len() - 1]],
        |all| vec![all[all.len() - 5]],
        |_| vec![METADATA, METADATA + BLOCK as u64],
        |all| vec![METADATA, METADATA + BLOCK as u64, all[all.len() - 5], all[all.len() - 1]],
    ];
    for bad in 2..4 {
        for damaged in which {
            let model = model(72, 4);
            fill_and_cut(&model, 72);
            let bad = disk(&model, bad);
            damaged(&batches(&bad)).into_iter().for_each(|at| flip(&bad, at));
            resync_and_cut(&model, cached(72, true));
            check_content(&model, 72, cached(72, true), 2);
        }
    }
}

/// Nothing lies on a group whose pool was deleted, and its mirrors are made equal nevertheless.
#[test]
fn a_group_without_a_pool_is_resynced() {
    let (model, stored) = (model(73, 2), Stored::default());
    cut_after(&model, async |world| {
        let mut array = start_kept(&world, &stored);
        let mut config = mirror(73);
        (config.volumes, config.hosts) = (vec![], vec![]);
        array.apply(config).await.expect("apply");
        array.delete_pool("p").await.expect("delete");
    });
    let (config, _) = stored.last().expect("stored");
    assert!(config.pools.is_empty() && config.groups.len() == 1);
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(config).await.expect("apply");
        wait_until(&world, &array, "the resync", is_resynced).await;
        let status = array.status().await.expect("status").remove(0);
        let resynced = |e: &&crate::Event| e.text.starts_with("resync finished");
        assert_eq!(status.events.iter().filter(resynced).count(), 1, "{:?}", status.events);
        assert_eq!(status.groups[0].resync_waits, None);
        array.stop().await.expect("stop");
    });
}

/// How long a resync takes while a policy is in force, with or without a host that writes all the time.
fn resync_time(host_writes: bool) -> Duration {
    let (model, stored) = (Model::new(72), Stored::default());
    for i in 0..2 {
        // So slow that the host nearly always waits for them.
        let spec = DiskSpec::new(DISK_BYTES).with_latency(Duration::from_millis(10));
        model.disk(&format!("d{i}"), spec);
    }
    fill_flush_and_cut(&model, &stored, 72);
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        let mut config = mirror(72);
        let policy = Policy { minimum_iops: 10, ..Policy::none() };
        config.policies = vec![PolicyConfig::new("p".into(), policy)];
        config.volumes[0].policy = Some("p".into());
        array.apply(config).await.expect("apply");
        let mut host = Host::log_in(&world, 72).await;
        let began = world.now();
        let writes = async {
            if !host_writes {
                std::future::pending::<()>().await;
            }
            loop {
                host.fill().await;
            }
        };
        let resynced = wait_until(&world, &array, "the resync", is_resynced);
        assert!(matches!(select(pin!(writes), pin!(resynced)).await, Either::Right(_)));
        world.now().since(began)
    })
}

/// It took as much as a host's weight gives, though it repairs nothing that is lost.
#[test]
fn a_resync_leaves_hosts_nearly_all_of_the_time_also_while_a_policy_is_in_force() {
    let [alone, beside] = [false, true].map(resync_time);
    println!("{alone:?} alone, {beside:?} beside a host");
    // Twenty times, if the host were there at the end of each step.
    assert!(beside > 5 * alone, "{alone:?} alone, {beside:?} beside a host");
}
