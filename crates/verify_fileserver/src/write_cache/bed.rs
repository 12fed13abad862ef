//! The array under the server, in each configuration; and the server's start on it.
//!
//! ```text
//!   application ─> file system ─> VHD, VHDX (vdisk::Image) ─> the host's disk driver ─> LU: cache, pool, RAID ─> modelled drives
//!   └───────────────────────── the host, with its power ─────────────────────────┘    └─ the array, with its own ─┘
//! ```

use std::rc::Rc;

use anyhow::{Context, Result, bail};
use array::config::{ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, VolumeConfig};
use array::{Config, LocalSession};
use lab_tools::drives;
use lab_tools::testbed::{Started, Testbed, answer, modelled_drive, notice_attentions};
use scsi::Status;
use vdisk::vhd::{self, Kind, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{Access, Image};
use world::World;
use world_model::{DiskSpec, DisksImage, Loss, Model};

use super::configuration::Configuration;
use super::file_system::{Barriers, FileSystem, GuestDisk};
use super::layout;
use crate::host::lu_drive::{self, AfterReset, LUN, Reach, Reached};
use crate::host::machine::Machine;

const INITIATOR: &str = "iqn.2026-11.model:host";
/// RAID5, 3D+1P: small, so that many runs are quick; the way of a write is that of larger groups.
const DRIVES: usize = 4;
/// Of each drive only this much: the content of all is copied for each cut.
const DRIVE_BYTES: u64 = 256 << 20;
/// The journal is on a mirror of flash.
const JOURNAL: [&str; 2] = ["j0", "j1"];
const JOURNAL_DRIVE: &str = "sata-ssd";
const CACHE_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 1 << 20;
const LU_BYTES: u64 = 64 << 20;

/// The format of the server's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Vhd,
    Vhdx,
}

impl Format {
    pub(super) const ALL: [Format; 2] = [Format::Vhd, Format::Vhdx];
}

/// Where all runs of a configuration begin: the array is made, and an empty file system is on its LU.
pub(super) struct Bed {
    pub(super) configuration: Configuration,
    made: Testbed,
    image: DisksImage,
}

fn declaration(configuration: Configuration) -> Config {
    let named = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let data: Vec<String> = (0..DRIVES).map(|number| format!("d{number}")).collect();
    let mut groups = vec![GroupConfig::new("data".into(), Level::Raid5, data)];
    if configuration.journal {
        groups.push(GroupConfig::new("journal".into(), Level::Raid1, named(&JOURNAL)));
    }
    let pool = PoolConfig {
        page_bytes: PAGE_BYTES,
        journal: configuration.journal.then(|| "journal".to_owned()),
        placement: false,
        ..PoolConfig::new("pool".into(), named(&["data"]))
    };
    let luns = [(LUN.0, "lu".to_owned())].into();
    Config {
        id: ArrayId([9; 16]),
        drives: groups.iter().flat_map(|group| group.drives.clone()).map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(CACHE_BYTES)),
        groups,
        pools: vec![pool],
        volumes: vec![VolumeConfig::new("lu".into(), "pool".into(), LU_BYTES)],
        hosts: vec![HostConfig::new("host".into(), INITIATOR.into(), luns)],
        ..Config::empty("iqn.2026-11.model:array")
    }
}

impl Bed {
    pub(super) fn make(configuration: Configuration, format: Format, drive: &str, seed: u64) -> Result<Bed> {
        let config = declaration(configuration);
        let spec = |name: &str| -> Result<DiskSpec> {
            let model = if JOURNAL.contains(&name) { JOURNAL_DRIVE } else { drive };
            Ok(DiskSpec::drive(&drives::load(model)?)?.with_len_bytes(DRIVE_BYTES))
        };
        let specs =
            config.drives.iter().map(|d| Ok((d.name.clone(), spec(&d.name)?))).collect::<Result<_>>()?;
        let made = Testbed::make(config, specs, seed, async |_| Ok(()))?;
        let model = made.model(seed);
        model.run(async |world| {
            let machine = Machine::on(&world);
            let started = made.start(machine.world()).await?;
            let reached = Rc::<Reached>::default();
            reached.set(Some(reach(&machine, &started).await?));
            wce(&reached_session(&started)?, configuration.os_cache).await?;
            let drive = lu_drive::open(&world, &reached, (LU_BYTES, true), AfterReset::Fails);
            create(&drive, format).await?;
            let image = Image::open(&world, drive, Access::Write).await?;
            FileSystem::format(&GuestDisk { image: image.clone(), has_cache: true }).await?;
            image.close().await?;
            drop(image);
            reached.set(None);
            started.array.stop().await?;
            anyhow::Ok(())
        })?;
        let image = model.disks().image();
        Ok(Bed { configuration, made, image })
    }

    /// The drives as they were when all was made.
    pub(super) fn model(&self, seed: u64) -> Model {
        Model::from_image(seed, self.image.clone(), Loss::Process)
    }

    /// Turns the array on.
    pub(super) async fn start_array(&self, world: &World, reached: &Reached) -> Result<Machine> {
        let machine = Machine::on(world);
        let started = self.made.start(machine.world()).await.context("the array starts")?;
        reached.set(Some(reach(&machine, &started).await?));
        Ok(machine)
    }

    /// Turns the host on: it opens the virtual disk, and the server on it its file system.
    pub(super) async fn start_host(
        &self,
        machine: &Machine,
        reached: &Rc<Reached>,
        (barriers, after_reset): (Barriers, AfterReset),
    ) -> Result<FileSystem> {
        let has_cache = self.configuration.os_cache;
        let drive = lu_drive::open(machine.world(), reached, (LU_BYTES, has_cache), after_reset);
        let image = Image::open(machine.world(), drive, Access::Write).await.context("the virtual disk")?;
        FileSystem::mount(GuestDisk { image, has_cache }, barriers).await
    }
}

fn reached_session(started: &Started) -> Result<LocalSession> {
    let opened = started.port().open(INITIATOR, [0; 6]);
    opened.map_err(|refusal| anyhow::anyhow!("the host is refused: {refusal}"))
}

async fn reach(machine: &Machine, started: &Started) -> Result<Reach> {
    let session = reached_session(started)?;
    Ok(Reach { world: machine.world().clone(), session: Rc::new(session) })
}

/// The write cache of the disk, as the host's system sets it; the LU keeps it.
async fn wce(session: &LocalSession, on: bool) -> Result<()> {
    notice_attentions(session, LUN).await;
    let response = session.execute(LUN, lu_drive::mode_select_wce(on)).await;
    match response.status {
        Status::Good => Ok(()),
        status => bail!("MODE SELECT(6): the array answered {}", answer(status, &response.sense)),
    }
}

async fn create(drive: &world::Drive, format: Format) -> Result<()> {
    match format {
        Format::Vhd => {
            let new = NewVhd::new(Kind::Dynamic, layout::DISK_BYTES, [1; 16], 0);
            vhd::create(drive, &NewVhd { block_bytes: 512 << 10, ..new }).await?;
        }
        Format::Vhdx => {
            let new = NewVhdx::new(layout::DISK_BYTES, [1, 2, 3].map(|n| Guid([n; 16])));
            vhdx::create(drive, &NewVhdx { block_bytes: 1 << 20, ..new }).await?;
        }
    }
    Ok(())
}
