//! One array with one host, in the model world.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Level;
use block::{Buf, Pieces};
use iscsi::initiator::{Options, Session};
use scsi::Events;
use world::World;
use world_model::{DiskSpec, Model};

use crate::config::{ArrayId, DriveConfig, GroupConfig, HostConfig, PoolConfig, PortalConfig, VolumeConfig};
use crate::status::ControllerStatus;
use crate::{Array, Config, ControllerHandle, DriveSpec, Lun, run_controller};

pub(super) const TARGET: &str = "iqn.2026-11.test:array";
pub(super) const DISK_BYTES: u64 = 16 << 20;
pub(super) const VOLUME_BYTES: u64 = 4 << 20;
/// One command of the host.
const CHUNK_BYTES: u64 = 64 << 10;

/// A model with disks `d0`, `d1`, …. Its events are its own: those of tests on other threads would wake its
/// tasks at times that differ from run to run.
pub(super) fn model(seed: u64, disks: usize) -> Model {
    Events::enter(Some(Arc::default()));
    let model = Model::new(seed);
    for i in 0..disks {
        model.disk(&format!("d{i}"), DiskSpec::new(DISK_BYTES).with_latency(Duration::from_micros(100)));
    }
    model
}

pub(super) fn drive(i: usize) -> DriveConfig {
    DriveConfig { name: format!("d{i}"), spec: DriveSpec::Modelled { name: format!("d{i}") } }
}

pub(super) fn group(name: &str, level: Level, drives: std::ops::Range<usize>) -> GroupConfig {
    GroupConfig {
        stripe_unit_bytes: 16 << 10,
        foreground_share_percent: 50,
        ..GroupConfig::new(name.to_owned(), level, drives.map(|i| format!("d{i}")).collect())
    }
}

/// Drives `0..drives`, one pool `p` with one volume `v` on these groups.
pub(super) fn declaration(id: u8, drives: usize, groups: Vec<GroupConfig>) -> Config {
    let pool = PoolConfig {
        page_bytes: 64 << 10,
        ..PoolConfig::new("p".to_owned(), groups.iter().map(|g| g.name.clone()).collect())
    };
    let volume = VolumeConfig {
        physical_block_bytes: 512,
        ..VolumeConfig::new("v".to_owned(), "p".to_owned(), VOLUME_BYTES)
    };
    Config {
        id: ArrayId([id; 16]),
        portals: vec![PortalConfig { listen: portal(id), controller: 0, segment_bytes_max: None }],
        drives: (0..drives).map(drive).collect(),
        groups,
        pools: vec![pool],
        volumes: vec![volume],
        hosts: vec![host()],
        ..Config::empty(TARGET)
    }
}

pub(super) fn host() -> HostConfig {
    HostConfig::new("host".to_owned(), "*".to_owned(), [(0, "v".to_owned())].into())
}

pub(super) fn portal(id: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 3260 + u16::from(id)))
}

/// An array with one controller.
pub(super) fn start(world: &World) -> Array {
    let (handle, mailbox) = ControllerHandle::new(0);
    world.spawn(run_controller(world.clone(), 0, mailbox, vec![handle.clone()]));
    Array::new(vec![handle], TARGET)
}

/// A host that fills the volume again and again, each time with another number, and knows what it wrote.
pub(super) struct Host {
    session: Session,
    pub(super) number: u8,
}

impl Host {
    pub(super) async fn log_in(world: &World, id: u8) -> Host {
        let options = Options::new(portal(id), "iqn.2026-11.test:host", TARGET, 1);
        Host { session: Session::login(world, &options).await.expect("log in"), number: 0 }
    }

    async fn command(&self, opcode: u8, at: u64, out: Pieces, max: u32) -> Pieces {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
        cdb[10..14].copy_from_slice(&((CHUNK_BYTES / 512) as u32).to_be_bytes());
        loop {
            let done = self.session.command(Lun(0), cdb, out.clone(), max).await.expect("the session lives");
            // GOOD, or CHECK CONDITION with a unit attention, which is heard once (SAM-5 5.3.1, SPC-5 4.4.2).
            match (done.status, done.sense.get(2).map(|key| key & 0x0f)) {
                (0x00, _) => return done.data_in,
                (0x02, Some(0x06)) => {}
                _ => panic!("opcode {opcode:#x} at {at}: {:#x} {:02x?}", done.status, done.sense),
            }
        }
    }

    /// Fills the volume with the next number.
    pub(super) async fn fill(&mut self) {
        self.number += 1;
        for at in (0..VOLUME_BYTES).step_by(CHUNK_BYTES as usize) {
            self.command(0x8a, at, chunk(at, self.number), 0).await;
        }
    }

    /// Reads everything back.
    pub(super) async fn verify(&self) {
        for at in (0..VOLUME_BYTES).step_by(CHUNK_BYTES as usize) {
            let found = self.command(0x88, at, Pieces::new(), CHUNK_BYTES as u32).await;
            assert_eq!(found.first_difference(&chunk(at, self.number)), None, "at {at}");
        }
    }

    /// A command as it is, again after a unit attention: its sense key, and what it gave.
    pub(super) async fn raw(&self, cdb: [u8; 16], out: Pieces, max: u32) -> (u8, Vec<u8>) {
        self.raw_on(Lun(0), cdb, out, max).await
    }

    /// The same on another logical unit.
    pub(super) async fn raw_on(&self, lun: Lun, cdb: [u8; 16], out: Pieces, max: u32) -> (u8, Vec<u8>) {
        loop {
            let done = self.session.command(lun, cdb, out.clone(), max).await.expect("the session lives");
            match done.sense.get(2).map_or(0, |key| key & 0x0f) {
                0x06 => {}
                key => return (key, done.data_in.joined().to_vec()),
            }
        }
    }

    /// Makes it durable.
    pub(super) async fn flush(&self) {
        self.command(0x91, 0, Pieces::new(), 0).await;
    }

    pub(super) async fn log_out(self) {
        self.session.logout().await.expect("log out");
    }
}

pub(super) fn chunk(at: u64, number: u8) -> Pieces {
    let mut buf = Buf::new(CHUNK_BYTES as usize);
    for (i, sector) in buf.chunks_mut(512).enumerate() {
        sector.fill(number ^ (at / 512 + i as u64) as u8);
        sector[..8].copy_from_slice(&(at / 512 + i as u64).to_be_bytes());
    }
    buf.freeze().into()
}

/// Asks for the status until it is as wanted; for half an hour of the model's time at most.
pub(super) async fn wait_until(
    world: &World,
    array: &Array,
    what: &str,
    ready: impl Fn(&ControllerStatus) -> bool,
) {
    let mut status = array.status().await.expect("status");
    for _ in 0..18_000 {
        if ready(&status[0]) {
            return;
        }
        world.sleep(Duration::from_millis(100)).await;
        status = array.status().await.expect("status");
    }
    panic!("{what} does not come: {:#?}", (&status[0].groups, &status[0].jobs, &status[0].events));
}
