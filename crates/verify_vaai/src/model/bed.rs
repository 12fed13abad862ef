//! The array of the published experiment in the model world: two pools on RAID 1+0, a LU on each, with a
//! datastore and the template on it.
//!
//! It is made once, thick and thin, on disks that cost no time; its content is moved to modelled drives for
//! every operation, so that all begin with the same array, its cache empty.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Result, anyhow, ensure};
use array::Config;
use array::config::{
    ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, Provisioning, VolumeConfig,
};
use lab_core::interrupt::Stop;
use lab_tools::datastore::{Content, File, Ways};
use lab_tools::drives;
use lab_tools::hosts::Connection;
use lab_tools::hosts::modelled::{Carriage, ModelledPort, Work};
use lab_tools::testbed::{Started, Testbed, modelled_drive};
use scsi::Lun;
use world::World;
use world_model::{DiskSpec, Link};

use super::sizes::Sizes;
use crate::bulk::TEMPLATE;
use crate::host::{Datastores, Host, HostPlan};
use crate::scenario::Vaai;

const TARGET: &str = "iqn.2026-11.model:vaai";
const INITIATOR: &str = "iqn.2026-11.model:host";
pub(super) const POOLS: [&str; 2] = ["first", "second"];
/// What is kept in flight while it is made, where nothing takes time.
const MAKING: Ways = Ways { outstanding: 32, transfer_bytes: 1 << 20 };
/// The LUs, of the first pool and of the second.
pub(super) const LUNS: [Lun; 2] = [Lun(0), Lun(1)];

/// How the LUs have their space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// All of it from the beginning.
    Thick,
    /// When it is written.
    Thin,
}

/// An array, with the template on it.
pub(super) struct Bed {
    made: Testbed,
    pub(super) template: File,
}

impl Bed {
    pub(super) fn make(vaai: &Vaai, sizes: &Sizes, space: Space, seed: u64) -> Result<Bed> {
        let array = &vaai.model.array;
        let first = DiskSpec::drive(&drives::load(&array.drive)?)?;
        let second = DiskSpec::drive(&drives::load(&array.second_drive)?)?;
        let keys = ["model.array.drive", "model.array.second_drive"];
        let pairs = [array.drives / 2, array.second_drives / 2];
        for (n, (spec, key)) in [&first, &second].into_iter().zip(keys).enumerate() {
            let (has, wants) = (spec.len_bytes.saturating_mul(pairs[n].into()), sizes.lus[n]);
            ensure!(
                wants < has,
                "invalid {key}: {} pairs of it have {} MiB, and the LU of the pool has {}; choose a larger drive, or \
                 more of them",
                pairs[n],
                has >> 20,
                wants >> 20
            );
        }
        let of_first = (0..array.drives).map(|n| (drive(0, n), first.clone()));
        let of_second = (0..array.second_drives).map(|n| (drive(1, n), second.clone()));
        let specs: BTreeMap<String, DiskSpec> = of_first.chain(of_second).collect();
        let config = declaration(vaai, sizes, space, specs.keys().cloned().collect());
        let mut template = None;
        let made = Testbed::make(config, specs, seed, async |started| {
            let free = Carriage {
                link: Link::plain(u64::MAX, std::time::Duration::ZERO),
                unsolicited_bytes: u64::MAX,
                burst_bytes: u64::MAX,
                segments_per_ack: 1.0,
            };
            let world = started.world.clone();
            let port = ModelledPort::new(&world, free, Work::default());
            let connection = Connection::Modelled(port.host(session(started, 0)?, Work::default(), 1));
            let host = Host::open(world, connection, plan(vaai, MAKING), Datastores::New).await?;
            let store = &host.stores[0];
            let file = store.create_file(TEMPLATE, "template.vmdk", sizes.template, sizes.used).await?;
            store.fill(&file, Content::Zeros).await?;
            template = Some(file);
            Ok(())
        })?;
        let template = template.ok_or_else(|| anyhow!("the template was not made"))?;
        Ok(Bed { made, template })
    }

    pub(super) fn model(&self, seed: u64) -> world_model::Model {
        self.made.model(seed)
    }

    pub(super) async fn start(&self, world: &World) -> Result<Started> {
        self.made.start(world).await
    }
}

/// A session of the host of that number.
pub(super) fn session(started: &Started, host: u8) -> Result<array::LocalSession> {
    let opened = started.port().open(INITIATOR, [0x80, 0, 0, host + 1, 0, 0]);
    opened.map_err(|refused| anyhow!("host {host} is refused: {refused}"))
}

/// What a host mounts, and how it works.
pub(super) fn plan(vaai: &Vaai, ways: Ways) -> HostPlan {
    HostPlan { luns: LUNS.to_vec(), ways, patience: vaai.patience(true), stop: Stop::default(), number: 0 }
}

fn drive(pool: usize, number: u32) -> String {
    format!("{}-{number:02}", POOLS[pool])
}

fn declaration(vaai: &Vaai, sizes: &Sizes, space: Space, drives: Vec<String>) -> Config {
    let array = &vaai.model.array;
    let members = |pool: &str| -> Vec<String> {
        drives.iter().filter(|name| name.starts_with(pool)).cloned().collect()
    };
    let group = |pool: &str| GroupConfig {
        stripe_unit_bytes: array.stripe_unit.0 as u32,
        ..GroupConfig::new(pool.into(), Level::Raid10, members(pool))
    };
    let pool = |pool: &str| PoolConfig {
        page_bytes: vaai.array.page.0,
        soft_threshold_percent: 100,
        critical_threshold_percent: 100,
        placement: false,
        ..PoolConfig::new(pool.into(), vec![pool.into()])
    };
    let volume = |(pool, len_bytes): (&str, u64)| VolumeConfig {
        provisioning: match space {
            Space::Thick => Provisioning::Thick,
            Space::Thin => Provisioning::Thin,
        },
        ..VolumeConfig::new(pool.into(), pool.into(), len_bytes)
    };
    let luns = LUNS.iter().zip(POOLS).map(|(lun, pool)| (lun.0, pool.to_owned()));
    Config {
        id: ArrayId([3; 16]),
        controllers: 1,
        drives: drives.iter().cloned().map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(array.cache.0)),
        groups: POOLS.map(group).to_vec(),
        pools: POOLS.map(pool).to_vec(),
        volumes: POOLS.into_iter().zip(sizes.lus).map(volume).collect(),
        hosts: vec![HostConfig::new("hosts".into(), INITIATOR.into(), luns.collect())],
        ..Config::empty(TARGET)
    }
}

/// The array's port, and hosts that reach it as the published ones did.
pub(super) struct Reach {
    pub(super) port: Rc<ModelledPort>,
    work: Work,
    sessions: usize,
}

impl Reach {
    pub(super) fn new(vaai: &Vaai, world: &World) -> Result<Reach> {
        let model = &vaai.model;
        let port = ModelledPort::new(world, model.carriage()?, model.controller_work());
        Ok(Reach { port, work: model.host_work(), sessions: model.sessions })
    }

    /// The host of that number.
    pub(super) fn host(&self, started: &Started, number: u8) -> Result<Connection> {
        Ok(Connection::Modelled(self.port.host(session(started, number)?, self.work, self.sessions)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::try_join;
    use lab_core::scenario::ScenarioFile;
    use lab_tools::hosts::Disk;

    use super::*;

    /// Seconds that two commands at once take a host of so many sessions, and those that its processors work.
    fn two_commands(bed: &Bed, vaai: &Vaai, luns: [Lun; 2], sessions: usize) -> (f64, f64) {
        let two = async |world: World| -> Result<(f64, f64)> {
            let started = bed.start(&world).await?;
            let work = Work { command: Duration::from_secs(1), ..Work::default() };
            let host = Reach { work, sessions, ..Reach::new(vaai, &world)? }.host(&started, 0)?;
            let open = |lun| Disk::open(world.clone(), host.clone(), lun);
            let (one, other) = try_join(open(luns[0]), open(luns[1])).await?;
            let (began, worked) = (world.now(), host.cpu());
            try_join(one.ready(), other.ready()).await?;
            Ok((world.now().since(began).as_secs_f64(), (host.cpu() - worked).as_secs_f64()))
        };
        bed.model(1).run(two).expect("it runs")
    }

    /// Drives without room for the LUs ended the run with "pool second is full", or in the middle with sense
    /// data.
    #[test]
    fn drives_that_are_too_small_are_an_error_of_the_scenario() {
        let mut vaai = Vaai::parse(Vaai::BUILT_IN.0, Vaai::BUILT_IN.1).expect("the built-in scenario");
        vaai.model.array.second_drive = "cheetah-9lp".into();
        let made = Bed::make(&vaai, &Sizes::of(&vaai, false), Space::Thin, 1).map(drop);
        let said = made.expect_err("too small").to_string();
        assert!(said.starts_with("invalid model.array.second_drive: 2 pairs of it have "), "{said}");
    }

    fn small_bed(vaai: &Vaai) -> Bed {
        let sizes = Sizes { zeroed: 1 << 20, template: 1 << 20, used: 1 << 20, ..Sizes::of(vaai, true) };
        Bed::make(vaai, &sizes, Space::Thin, 1).expect("an array")
    }

    #[test]
    fn acknowledgements_take_their_frames_of_the_wire() {
        let (vaai, _) = Vaai::load(None).expect("built in");
        let bed = small_bed(&vaai);
        // A write of three segments: a thousand acknowledgements for each, or hardly one for all.
        let took = |segments_per_ack| {
            let write = async |world: World| -> Result<Duration> {
                let started = bed.start(&world).await?;
                let carriage = Carriage { segments_per_ack, ..vaai.model.carriage()? };
                let port = ModelledPort::new(&world, carriage, Work::default());
                let host = Connection::Modelled(port.host(session(&started, 0)?, Work::default(), 1));
                let disk = Disk::open(world.clone(), host, LUNS[0]).await?;
                world.sleep(Duration::from_secs(1)).await;
                let began = world.now();
                disk.write(0, world::Buf::zeroed(4096).freeze().into()).await?;
                Ok(world.now().since(began))
            };
            bed.model(1).run(write).expect("it runs")
        };
        let frames_ms = took(0.001).saturating_sub(took(1000.0)).as_secs_f64() * 1e3;
        // 3,000 frames of 91 bytes at 125 MB/s, of which some go while the write is in the array.
        assert!((1.5..2.5).contains(&frames_ms), "{frames_ms} ms");
    }

    /// The wire is idle when the data of the read arrive: the write still waits for the processor.
    #[test]
    fn a_host_that_has_data_to_send_acknowledges_with_them() {
        let (vaai, _) = Vaai::load(None).expect("built in");
        let bed = small_bed(&vaai);
        let sent = |with_write: bool| {
            let read = async |world: World| -> Result<u64> {
                let started = bed.start(&world).await?;
                let work = Work { command: Duration::from_millis(100), ..Work::default() };
                let host = Reach { work, sessions: 1, ..Reach::new(&vaai, &world)? }.host(&started, 0)?;
                let disk = Disk::open(world.clone(), host.clone(), LUNS[0]).await?;
                let before = host.tcp_counts().segments_out;
                let write = async {
                    let data = world::Buf::zeroed(4096).freeze().into();
                    if with_write { disk.write(0, data).await } else { Ok(()) }
                };
                try_join(disk.read(1 << 20, 64 << 10), write).await?;
                Ok(host.tcp_counts().segments_out - before)
            };
            bed.model(1).run(read).expect("it runs")
        };
        // A READ, and an acknowledgement for every 2.9 of 46 segments and of what came before; a READ, and a
        // WRITE of three segments.
        assert_eq!([sent(false), sent(true)], [1 + 16, 1 + 3]);
    }

    #[test]
    fn commands_of_a_session_take_turns_on_one_processor_and_sessions_work_at_once() {
        let (vaai, _) = Vaai::load(None).expect("built in");
        let bed = small_bed(&vaai);
        for (luns, sessions, expected) in
            [([LUNS[0], LUNS[0]], 2, 2.0), ([LUNS[0], LUNS[1]], 2, 1.0), ([LUNS[0], LUNS[1]], 1, 2.0)]
        {
            let (took, worked) = two_commands(&bed, &vaai, luns, sessions);
            assert!((took - expected).abs() < 0.01, "{luns:?} in {sessions}: {took} s");
            assert!((worked - 2.0).abs() < 0.01, "{luns:?} in {sessions}: {worked} s of work");
        }
    }
}
