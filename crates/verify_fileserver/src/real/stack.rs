//! A file server of each kind, from the array's drives up to its file system.
//!
//! ```text
//!  the load ─> ext4 ─> loop ─> FUSE ─> VHD, VHDX ─> ext4 ─> loop ─> FUSE ─> iSCSI ─> the array: LU, cache, pool, RAID5 ─> modelled drives
//!              the server        its disk            the host                                                         that take their time
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use array::Config;
use array::config::{
    ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, Provisioning, VolumeConfig,
};
use vdisk::vhd::{self, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{Access, Image};
use world::{ImageAccess, World};
use world_model::drives::Prepared;

use super::super::scenario::Fileserver;
use super::attachment::Attachment;
use super::kind::{Format, Kind, Sizes};
use super::system::{LoopDevice, MountedOn, Scratch};
use lab_core::interrupt::Stop;
use lab_tools::attached::Disk;
use lab_tools::drives;
use lab_tools::lu::Lu;
use lab_tools::testbed::embedded::TARGET;
use lab_tools::testbed::{TimedArray, modelled_drive, portal};

/// A fixed disk is written from end to end in such pieces.
const FILL_BYTES: usize = 1 << 20;
/// Trees of a set that are made at once.
pub(super) const CREATE_THREADS: usize = 2;

/// The LU of the kind with this number; its group and its pool have the same number.
pub(super) fn volume(number: usize) -> String {
    format!("data{number}")
}

/// The drives of its group.
pub(super) fn drives_of(scenario: &Fileserver, number: usize) -> Vec<String> {
    (0..scenario.array.drives_per_group).map(|drive| format!("g{number}d{drive}")).collect()
}

/// An array with a group, a pool and a LU for each kind: they share the controller and its cache, and never
/// work at the same time.
fn declaration(scenario: &Fileserver, kinds: &[Kind], lu_bytes: u64) -> Config {
    let numbers = 0..kinds.len();
    let group = |n: usize| GroupConfig {
        stripe_unit_bytes: scenario.array.stripe_unit.0 as u32,
        ..GroupConfig::new(format!("g{n}"), Level::Raid5, drives_of(scenario, n))
    };
    let pool = |n: usize| PoolConfig {
        page_bytes: scenario.array.page.0,
        placement: false,
        ..PoolConfig::new(format!("p{n}"), vec![format!("g{n}")])
    };
    let lu = |n: usize| VolumeConfig {
        // As in the model: a fixed disk is written from end to end when it is made.
        provisioning: if kinds[n].dynamic { Provisioning::Thin } else { Provisioning::Thick },
        ..VolumeConfig::new(volume(n), format!("p{n}"), lu_bytes)
    };
    let luns = numbers.clone().map(|n| (n as u16, volume(n))).collect();
    Config {
        id: ArrayId([7; 16]),
        portals: vec![portal()],
        drives: numbers.clone().flat_map(|n| drives_of(scenario, n)).map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(scenario.real.cache.0)),
        groups: numbers.clone().map(group).collect(),
        pools: numbers.clone().map(pool).collect(),
        volumes: numbers.map(lu).collect(),
        hosts: vec![HostConfig::new("host".into(), "*".into(), luns)],
        ..Config::empty(TARGET)
    }
}

/// The array under all servers. Its drives take no time yet.
pub(super) fn array(scenario: &Fileserver, kinds: &[Kind], sizes: &Sizes, seed: u64) -> Result<TimedArray> {
    let drives = Prepared::new(&drives::load(&scenario.array.drive)?)?;
    let array = TimedArray::start(declaration(scenario, kinds, sizes.lu_bytes), &drives, seed)?;
    array.take_time(false);
    Ok(array)
}

/// A server, from its file system down to the LU: taken back in this order.
pub(super) struct Server {
    pub(super) files: MountedOn,
    pub(super) disk: LoopDevice,
    _image: Attachment,
    _host_files: MountedOn,
    _host_disk: LoopDevice,
    _lu: Attachment,
}

impl Server {
    /// Makes it, with the set of files on it.
    pub(super) fn make(
        (number, kind): (usize, Kind),
        sizes: &Sizes,
        array: &TimedArray,
        scratch: &Scratch,
        seed: u64,
        stop: &Stop,
    ) -> Result<Server> {
        let folder = |of: &str| scratch.folder(&format!("{number}-{of}"));
        let url = format!("iscsi://{}/{TARGET}/{number}", array.listen());
        let name = format!("lu-{number}");
        // Initiator ports and identities are drawn from it: two with the same one would end each other's
        // session.
        let seed = seed.wrapping_add(number as u64);
        let lu = Attachment::start(&name, &folder("lu")?, seed, async move |world| {
            Ok(Disk::Lu(Rc::new(Lu::open(&world, &url).await?)))
        })?;
        let host_disk = LoopDevice::over(lu.file())?;
        host_disk.make_ext4()?;
        let host_files = MountedOn::mount(&host_disk, folder("host")?)?;
        let path = host_files.point().join(format!("disk.{}", kind.format.ending()));
        let image = image(number, kind, &path, sizes.disk_bytes, &folder("image")?, seed)?;
        let disk = LoopDevice::over(image.file())?;
        disk.make_ext4()?;
        let files = MountedOn::mount(&disk, folder("server")?)?;
        lab_tools::files::create(files.point(), &sizes.plan, CREATE_THREADS, stop, |_| ())?;
        files.remount()?;
        Ok(Server { files, disk, _image: image, _host_files: host_files, _host_disk: host_disk, _lu: lu })
    }
}

/// Makes the image, has a fixed one hold all of its space, and attaches it.
fn image(number: usize, kind: Kind, path: &Path, bytes: u64, point: &Path, seed: u64) -> Result<Attachment> {
    let (new, name) = (path.to_owned(), format!("image-{number}"));
    let image = Attachment::start(&name, point, seed, async move |world| {
        Ok(Disk::Image(new_image(&world, kind, new, bytes).await?))
    })?;
    if !kind.dynamic {
        fill(image.file(), bytes)?;
    }
    Ok(image)
}

async fn new_image(world: &World, kind: Kind, path: PathBuf, bytes: u64) -> Result<Image> {
    let mut rng = world.random("identities");
    let mut identity = || -> [u8; 16] { std::array::from_fn(|_| rng.u8(..)) };
    let drive = world.open_drive(&world::DriveSpec::Image { path, access: ImageAccess::Create }).await?;
    match kind.format {
        Format::Vhd => {
            let of = if kind.dynamic { vhd::Kind::Dynamic } else { vhd::Kind::Fixed };
            vhd::create(&drive, &NewVhd::new(of, bytes, identity(), 0)).await?;
        }
        Format::Vhdx => {
            let ids = [Guid(identity()), Guid(identity()), Guid(identity())];
            vhdx::create(&drive, &NewVhdx { fixed: !kind.dynamic, ..NewVhdx::new(bytes, ids) }).await?;
        }
    }
    Ok(Image::open(world, drive, Access::Write).await?)
}

/// Writes a disk from end to end.
fn fill(file: &Path, bytes: u64) -> Result<()> {
    let name = || file.display().to_string();
    let mut disk = std::fs::OpenOptions::new().write(true).open(file).with_context(name)?;
    let piece = vec![0; FILL_BYTES];
    let mut left = bytes as usize;
    while left > 0 {
        let n = left.min(FILL_BYTES);
        disk.write_all(&piece[..n]).with_context(name)?;
        left -= n;
    }
    disk.sync_all().with_context(name)
}
