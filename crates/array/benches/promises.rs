//! Prints what a command costs that the cache answers: a read of 4 KiB at a port of the controller, from the
//! command to its response. Without a policy in the pool, with one on another volume, and with one on this
//! volume.
//!
//! `cargo bench -p array --bench promises`

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use array::config::{
    ArrayId, CacheSettings, Config, DriveConfig, GroupConfig, HostConfig, Level, Policy, PolicyConfig,
    PoolConfig, VolumeConfig,
};
use array::{Array, ControllerHandle, DriveSpec, LocalSession, Lun, run_with_local_port};
use block::{Buf, Pieces};
use scsi::{Request, Status};
use world_model::{DiskSpec, Model};

const TARGET: &str = "iqn.2026-11.net.masu:promises";
const READ_BYTES: u64 = 4096;
/// What is read: it fits the cache.
const SPAN_BYTES: u64 = 16 << 20;
const READS: u64 = 100_000;
const SAMPLES: usize = 11;

fn config() -> Config {
    let volume = |name: &str| VolumeConfig::new(name.into(), "p".into(), 64 << 20);
    let group = GroupConfig {
        stripe_unit_bytes: 64 << 10,
        ..GroupConfig::new("g".into(), Level::Raid0, vec!["d".into()])
    };
    let pool = PoolConfig::new("p".into(), vec!["g".into()]);
    let host = HostConfig::new("h".into(), "*".into(), [(0, "v".into())].into());
    let cache = CacheSettings { read_ahead_bytes: 0, ..CacheSettings::new(64 << 20) };
    Config {
        id: ArrayId([1; 16]),
        drives: vec![DriveConfig { name: "d".into(), spec: DriveSpec::Modelled { name: "d".into() } }],
        groups: vec![group],
        pools: vec![pool],
        volumes: vec![volume("v"), volume("other")],
        hosts: vec![host],
        cache: Some(cache),
        ..Config::empty(TARGET)
    }
}

/// A policy that never makes anybody wait, for this volume.
fn with_policy(config: &Config, volume: usize) -> Config {
    let mut config = config.clone();
    let policy = Policy { minimum_iops: 1000, ..Policy::none() };
    config.policies = vec![PolicyConfig::new("gold".into(), policy)];
    config.volumes.iter_mut().for_each(|v| v.policy = None);
    config.volumes[volume].policy = Some("gold".into());
    config
}

async fn command(session: &LocalSession, opcode: u8, at: u64, len: u64, data_out: Pieces) -> bool {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
    cdb[10..14].copy_from_slice(&((len / 512) as u32).to_be_bytes());
    let request = Request { tag: 1, ..Request::new(cdb, data_out, len as u32) };
    session.execute(Lun(0), request).await.status == Status::Good
}

/// Nanoseconds of one read: the median of all samples, and the least.
async fn measure(session: &LocalSession) -> (u64, u64) {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let begin = Instant::now();
        for i in 0..READS {
            let at = i * 7919 % (SPAN_BYTES / READ_BYTES) * READ_BYTES;
            assert!(command(session, 0x88, at, READ_BYTES, Pieces::new()).await, "a read");
        }
        samples.push((begin.elapsed().as_nanos() / u128::from(READS)) as u64);
    }
    samples.sort_unstable();
    (samples[SAMPLES / 2], samples[0])
}

fn main() {
    let model = Model::new(1);
    model.disk("d", DiskSpec::new(256 << 20));
    model.set_polls_at_one_time_max(u64::MAX);
    model.run(async |world| {
        let (handle, mailbox) = ControllerHandle::new(0);
        let (port, run) = run_with_local_port(world.clone(), 0, mailbox, vec![handle.clone()]);
        world.spawn(run);
        let mut array = Array::new(vec![handle], TARGET);
        array.apply(config()).await.expect("an array");
        let session = port.open("iqn.2026-11.test:h", [0; 6]).expect("a session");
        command(&session, 0x00, 0, 0, Pieces::new()).await;
        let data = Buf::zeroed(1 << 20).freeze();
        for at in (0..SPAN_BYTES).step_by(1 << 20) {
            assert!(command(&session, 0x8a, at, 1 << 20, data.clone().into()).await, "a write");
        }
        for (what, config) in [
            ("no policy in the pool", config()),
            ("a policy on another volume", with_policy(&config(), 1)),
            ("a policy on this volume", with_policy(&config(), 0)),
            ("no policy in the pool, again", config()),
        ] {
            array.apply(config).await.expect("applied");
            let (median, least) = measure(&session).await;
            println!("{what:<30} {median:>5} ns a read, {least} at least");
        }
        drop(session);
        array.stop().await.expect("stopped");
    });
}
