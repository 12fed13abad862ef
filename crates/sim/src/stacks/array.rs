//! The whole array, life after life: two controllers, two pools, and a host with iSCSI sessions at the ports
//! of both.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use array::config::{
    ArrayId, CacheSettings, DriveConfig, GroupConfig, HostConfig, Level, PoolConfig, PortalConfig,
    Provisioning, VolumeConfig,
};
use array::{Array, Config, ControllerHandle, DriveSpec, Lun, run_controller};
use futures::future::join;
use iscsi::Digests;
use iscsi::initiator::Options;
use world::{Rng, World};
use world_model::Model;

use super::lu::{Lu, Path};
use crate::actors::moves::move_pools;
use crate::actors::sessions::Sessions;
use crate::actors::workload::{self, Shared, Snapshot};
use crate::faults::{Fault, lies, links};
use crate::lives::{Ended, How, Life, Lives, Living};
use crate::shadow::Shadow;
use crate::stamp::SECTOR_BYTES;

pub(crate) const TARGET: &str = "iqn.2026-11.sim:array";
pub(crate) const CONTROLLERS: usize = 2;
pub(crate) const DISKS: usize = 9;
pub(crate) const DISK_BYTES: u64 = 24 << 20;
pub(crate) const PAGE_BYTES: u64 = 64 << 10;
/// The volumes: name, pool, pages, provisioning. The pools belong to one controller each.
pub(crate) const VOLUMES: [(&str, usize, u64, Provisioning); 4] = [
    ("v0", 0, 16, Provisioning::Thin),
    ("v1", 0, 5, Provisioning::Thick),
    ("v2", 1, 9, Provisioning::Thin),
    ("v3", 1, 24, Provisioning::Thin),
];

/// The first port, of controller 0; the next one is that of controller 1.
const PORT: u16 = 3260;
/// Where one array alone listens.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The portal of a controller of the array at this address.
pub(crate) fn portal(at: Ipv4Addr, controller: usize) -> SocketAddr {
    SocketAddr::from((at, PORT + controller as u16))
}

/// The layer between LUs and volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    /// A cache at each controller, smaller than the volumes; pool 0 has a journal.
    Caches,
}

/// The array that listens there.
pub(crate) fn declaration(between: Between, at: Ipv4Addr) -> Config {
    let caches = between == Between::Caches;
    let modelled = |i| DriveSpec::Modelled { name: format!("d{i}") };
    let drive = |i| DriveConfig { name: format!("d{i}"), spec: modelled(i) };
    // Controller 0's.
    let ssd = DriveConfig { name: "ssd".to_owned(), spec: modelled(DISKS - 1) };
    let group = |name: &str, level, disks: std::ops::Range<usize>| GroupConfig {
        stripe_unit_bytes: raid::STRIPE_UNIT_BYTES_DEFAULT,
        ..GroupConfig::new(name.to_owned(), level, disks.map(|i| format!("d{i}")).collect())
    };
    let pool = |controller: usize, groups: &[&str]| PoolConfig {
        page_bytes: PAGE_BYTES,
        controller,
        journal: (caches && controller == 0).then(|| "journal".to_owned()),
        ..PoolConfig::new(format!("p{controller}"), groups.iter().map(|g| (*g).to_owned()).collect())
    };
    let volume = |(name, pool, pages, provisioning): (&str, usize, u64, Provisioning)| VolumeConfig {
        provisioning,
        physical_block_bytes: 512,
        ..VolumeConfig::new(name.to_owned(), format!("p{pool}"), pages * PAGE_BYTES)
    };
    let luns = (0..).zip(VOLUMES.map(|(name, ..)| name.to_owned())).collect();
    let portals = (0..CONTROLLERS).map(|c| PortalConfig {
        listen: portal(at, c),
        controller: c,
        segment_bytes_max: None,
    });
    Config {
        id: ArrayId([7; 16]),
        controllers: CONTROLLERS,
        portals: portals.collect(),
        drives: (0..DISKS - 1).map(drive).chain(caches.then_some(ssd)).collect(),
        cache: caches.then_some(CacheSettings {
            read_ahead_bytes: 1 << 20,
            ssds: vec!["ssd".to_owned()],
            ..CacheSettings::new(array::config::CACHE_BYTES_MIN)
        }),
        groups: vec![
            group("mirror", Level::Raid1, 0..2),
            group("stripe", Level::Raid0, 2..4),
            group("other", Level::Raid1, 4..6),
            group("journal", Level::Raid1, 6..8),
        ],
        pools: vec![pool(0, &["mirror", "stripe"]), pool(1, &["other"])],
        volumes: VOLUMES.map(volume).to_vec(),
        hosts: vec![HostConfig::new("host".to_owned(), "*".to_owned(), luns)],
        ..Config::empty(TARGET)
    }
}

/// Starts the controllers, each as a task (in the real world, a thread).
pub(crate) fn start(world: &World, controllers: usize) -> Array {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..controllers).map(ControllerHandle::new).unzip();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        world.spawn(run_controller(world.clone(), index, mailbox, handles.clone()));
    }
    Array::new(handles, TARGET)
}

/// What a session at the port of this controller is asked for; with digests at the second.
pub(crate) fn options(at: Ipv4Addr, controller: usize) -> Options {
    let mut options = Options::new(portal(at, controller), "iqn.2026-11.sim:host", TARGET, controller as u32);
    if controller > 0 {
        (options.offer.header_digest, options.offer.data_digest) = (Digests::Required, Digests::Required);
    }
    options
}

pub(crate) struct ArrayLives {
    between: Between,
    shared: Shared,
    fault: Fault,
}

impl Living for ArrayLives {
    type Kind = Between;
    type Known = Snapshot;

    fn create(between: Between, seed: u64, how: How) -> (Lives, ArrayLives) {
        let living = ArrayLives::with(between, how, Snapshot::default());
        for (name, _, pages, _) in VOLUMES {
            let sectors = (pages * PAGE_BYTES) as usize / SECTOR_BYTES;
            living.shared.shadows.borrow_mut().insert(name.to_owned(), Shadow::new(sectors));
        }
        (Lives::new(seed, DISKS, DISK_BYTES), living)
    }

    fn with(between: Between, how: How, known: Snapshot) -> ArrayLives {
        let shared = Shared::from(known);
        if how.verbose {
            shared.tell_all();
        }
        ArrayLives { between, shared, fault: how.fault }
    }

    fn known(&self) -> Snapshot {
        self.shared.known()
    }

    async fn life(&self, model: &Model, world: World, life: &Life) {
        for disk in (0..DISKS).filter_map(|i| model.disks().get(&format!("d{i}"))) {
            lies::begin_now(self.fault, &disk);
        }
        let mut array = start(&world, CONTROLLERS);
        let made =
            array.apply(declaration(self.between, HERE)).await.unwrap_or_else(|e| panic!("apply: {e}"));
        self.shared.tell(|| format!("a life begins: {made:?}"));
        let all = (0..CONTROLLERS).map(|controller| options(HERE, controller)).collect();
        let sessions = Rc::new(Sessions::log_in(&world, all).await.unwrap_or_else(|e| panic!("log in: {e}")));
        let mut rng = world.random("links");
        if life.faults && !life.closes && rng.bool() {
            world.spawn(links::break_connections_task(world.clone(), model.net().clone(), rng));
        }
        let mut units = BTreeMap::new();
        for (lun, (name, pool, ..)) in (0..).zip(VOLUMES) {
            let path = Path::Sessions(sessions.clone());
            let unit = Lu::behind(path, Lun(lun), pool).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            workload::compare_all(&unit, &self.shared, name).await;
            units.insert(name.to_owned(), unit);
        }
        let (done, mut rng) = (Cell::new(false), world.random("moves"));
        let work = async {
            workload::run(&world, &units, &self.shared, &life.steps).await;
            done.set(true);
        };
        match rng.bool() {
            true => {
                let moves = move_pools(&world, &mut array, (&self.shared, &done), &mut rng);
                join(work, moves).await;
            }
            false => work.await,
        }
        self.shared.tell(|| format!("{} sessions were made anew", sessions.renewed()));
        if life.closes {
            sessions.log_out().await.unwrap_or_else(|e| panic!("log out: {e}"));
            array.stop().await.unwrap_or_else(|e| panic!("stop: {e}"));
        }
    }

    fn ended(&self, how: Ended) {
        self.shared.tell(|| format!("the life has ended: {how:?}"));
        self.shared.ended(|shadow| match how {
            Ended::PowerCut => shadow.crash(),
            // What was not flushed was in the caches' memory.
            Ended::Died if self.between == Between::Caches => shadow.crash(),
            Ended::Died => shadow.memory_lost(),
            Ended::Closed => shadow.process_ended(),
        });
    }

    /// The drives of the declaration are all available; groups and pools are simulated separately with lost
    /// drives.
    fn lose_disks(&self, _: &mut Rng, _: bool) -> bool {
        false
    }

    async fn life_beyond(&self, _: &Model, _: World) {}
}

#[cfg(test)]
mod tests {
    use block::{Buf, Device, Pieces};

    use super::*;

    /// Writes of growing size through each port to an LU of each controller come back.
    #[test]
    fn writes_of_every_size_come_back_through_every_port() {
        let lives = Lives::new(1, DISKS, DISK_BYTES);
        lives.model.run(async |world| {
            let mut array = start(&world, CONTROLLERS);
            array.apply(declaration(Between::Nothing, HERE)).await.expect("apply");
            for controller in 0..CONTROLLERS {
                let session =
                    Sessions::log_in(&world, vec![options(HERE, controller)]).await.expect("log in");
                let session = Rc::new(session);
                for (lun, home) in [(0, 0), (3, 1)] {
                    let path = Path::Sessions(session.clone());
                    let unit = Lu::behind(path, Lun(lun), home).await.expect("the facts");
                    for sectors in [1, 8, 127, 128, 129, 256, 257, 384, 513, 1024] {
                        let mut data = Buf::new(sectors * SECTOR_BYTES);
                        world.random("data").fill(&mut data);
                        let data = Pieces::from(data.freeze());
                        unit.write(0, &data).await.expect("write");
                        let mut back = Pieces::new();
                        unit.read(0, data.len(), &mut back).await.expect("read");
                        let differs = data.first_difference(&back);
                        assert_eq!(
                            differs, None,
                            "{sectors} sectors, LUN {lun}, port of controller {controller}"
                        );
                    }
                }
            }
        });
    }
}
