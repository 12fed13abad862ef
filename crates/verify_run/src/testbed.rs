//! What a scenario is played on: its array on modelled drives in virtual time, the same or real drives over
//! iSCSI, or the LUs of `--target`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use array::config::{
    ArrayId, CacheSettings, DriveConfig, GroupConfig, HostConfig, Policy, PolicyConfig, PoolConfig,
    Provisioning, VolumeConfig,
};
use array::{Config, DriveSpec, Lun, TO_ERASE};
use iscsi::initiator::Options;
use world::World;
use world_model::DiskSpec;
use world_model::drives::Prepared;

use super::plan::{ArrayPlan, DriveKind, DrivePlan, GroupPlan, HostPlan, Plan, PoolPlan};
use lab_core::console::causes;
use lab_tools::drives;
use lab_tools::load::target::{Facts, Place, Target, existing_drive};
use lab_tools::testbed::timed_drive::Drives;
use lab_tools::testbed::{Started, Testbed, TimedArray, portal};

/// The target of the array.
const TARGET: &str = "iqn.2026-11.net.masu:run";
/// On the labels of its drives.
const IDENTITY: ArrayId = ArrayId(*b"masu run, array.");

/// How a host calls itself.
fn initiator(host: usize) -> String {
    format!("iqn.2026-11.net.masu.run:host{host}")
}

/// The array, declared.
pub(super) fn declaration(plan: &Plan, array: &ArrayPlan) -> Config {
    let spec = |name: &str, kind: &DriveKind| match kind {
        DriveKind::Model(_) => DriveSpec::Modelled { name: name.to_owned() },
        DriveKind::Path(path, _) if path.starts_with("/dev") => DriveSpec::Device { path: path.clone() },
        DriveKind::Path(path, len) => DriveSpec::File { path: path.clone(), create_len_bytes: *len },
    };
    let drive =
        |drive: &DrivePlan| DriveConfig { name: drive.name.clone(), spec: spec(&drive.name, &drive.kind) };
    let group = |group: &GroupPlan| GroupConfig {
        stripe_unit_bytes: group.stripe_unit_bytes,
        ..GroupConfig::new(group.name.clone(), group.level, group.drives.clone())
    };
    let pool = |pool: &PoolPlan| PoolConfig {
        page_bytes: pool.page_bytes,
        soft_threshold_percent: 100,
        critical_threshold_percent: 100,
        placement: false,
        ..PoolConfig::new(pool.name.clone(), pool.groups.clone())
    };
    let only_pool = || array.pools.first().map_or(String::new(), |pool| pool.name.clone());
    let volumes = plan.volumes.iter().map(|volume| VolumeConfig {
        provisioning: if volume.thin { Provisioning::Thin } else { Provisioning::Thick },
        cache: volume.cache,
        ..VolumeConfig::new(
            volume.name.clone(),
            volume.pool.clone().unwrap_or_else(only_pool),
            volume.len_bytes,
        )
    });
    let host = |(n, host): (usize, &HostPlan)| {
        let luns = host.volumes.iter().enumerate();
        let luns = luns.map(|(lun, volume)| (lun as u16, plan.volumes[*volume].name.clone()));
        HostConfig::new(host.name.clone(), initiator(n), luns.collect())
    };
    let config = Config {
        id: IDENTITY,
        controllers: 1,
        drives: array.drives.iter().map(drive).collect(),
        spares: array.spares.clone(),
        cache: (array.cache_bytes > 0).then(|| CacheSettings::new(array.cache_bytes)),
        groups: array.groups.iter().map(group).collect(),
        pools: array.pools.iter().map(pool).collect(),
        volumes: volumes.collect(),
        hosts: plan.hosts.iter().enumerate().map(host).collect(),
        ..Config::empty(TARGET)
    };
    let promised = plan.volumes.iter().enumerate().map(|(n, volume)| (n, volume.policy));
    with_policies(plan, config, promised)
}

/// The array with these policies, by volume.
pub(super) fn with_policies(
    plan: &Plan,
    mut config: Config,
    policies: impl IntoIterator<Item = (usize, Policy)>,
) -> Config {
    for (volume, policy) in policies {
        let name = plan.volumes[volume].name.clone();
        config.policies.retain(|other| other.name != name);
        let own = config.volumes.iter_mut().find(|other| other.name == name);
        let Some(own) = own else { continue };
        own.policy = (!policy.is_none()).then(|| name.clone());
        if !policy.is_none() {
            config.policies.push(PolicyConfig::new(name, policy));
        }
    }
    config
}

/// Whether all drives are modelled ones.
///
/// # Errors
///
/// Where one is not.
pub(super) fn check_modelled(array: &ArrayPlan) -> Result<()> {
    let is_modelled = |drive: &DrivePlan| match &drive.kind {
        DriveKind::Model(_) => Ok(()),
        DriveKind::Path(path, _) => {
            Err(anyhow!("drive {:?} is {}: it requires --world real", drive.name, path.display()))
        }
    };
    array.drives.iter().try_for_each(is_modelled)
}

/// Models of the drives, by name.
///
/// # Errors
///
/// Where a drive is none.
fn models(array: &ArrayPlan) -> Result<BTreeMap<String, &str>> {
    check_modelled(array)?;
    let all = array.drives.iter().filter_map(|drive| Some((drive.name.clone(), drive.model()?)));
    Ok(all.collect())
}

/// The array on modelled drives, made once for all runs.
pub(super) fn make(plan: &Plan, array: &ArrayPlan, seed: u64) -> Result<Testbed> {
    let mut specs = BTreeMap::new();
    for (name, model) in models(array)? {
        specs.insert(name, DiskSpec::drive(&drives::load(model)?)?);
    }
    Testbed::make(declaration(plan, array), specs, seed, async |_| Ok(()))
        .with_context(|| format!("array {:?}", array.name))
}

/// Makes an array of real time on drives of the model and throws it away: what it refuses, it refuses before
/// anything of a run is there.
///
/// # Errors
///
/// What keeps it from being made, and what a drive lacks.
pub(super) fn check_real(plan: &Plan, array: &ArrayPlan, seed: u64) -> Result<()> {
    let mut specs = BTreeMap::new();
    for drive in &array.drives {
        let spec = match &drive.kind {
            DriveKind::Model(model) => DiskSpec::drive(&drives::load(model)?)?,
            DriveKind::Path(path, len_bytes) => DiskSpec::new(len_of(&drive.name, path, *len_bytes)?),
        };
        specs.insert(drive.name.clone(), spec);
    }
    let mut config = declaration(plan, array);
    for drive in &mut config.drives {
        drive.spec = DriveSpec::Modelled { name: drive.name.clone() };
    }
    let made = Testbed::make(config, specs, seed, async |_| Ok(()));
    made.map(drop).with_context(|| format!("array {:?}", array.name))
}

/// The length of a file or device, or that of the file that will be made, in whole MiB.
fn len_of(drive: &str, path: &Path, new_bytes: Option<u64>) -> Result<u64> {
    let shown = || format!("drive {drive:?}: {}", path.display());
    let len_bytes = match (path.exists(), new_bytes) {
        (false, Some(bytes)) => bytes,
        (false, None) => bail!("{}: no such file or device; add its size for a new file", shown()),
        (true, _) => {
            existing_drive(path).with_context(shown)?;
            let place = Place::Drive(DriveSpec::ReadOnly { path: path.to_owned() });
            Paths(vec![place]).facts().with_context(shown)?[0].len_bytes
        }
    };
    ensure!(len_bytes >= DRIVE_BYTES_MIN, "{}: has {len_bytes} bytes: must have 1 MiB or more", shown());
    Ok(len_bytes / DRIVE_BYTES_MIN * DRIVE_BYTES_MIN)
}

/// A smaller drive is none for any group.
const DRIVE_BYTES_MIN: u64 = 1 << 20;

/// The array on a thread of its own: modelled drives take their time, others are what they are.
pub(super) fn start(plan: &Plan, array: &ArrayPlan, seed: u64) -> Result<TimedArray> {
    let config = Config { portals: vec![portal()], ..declaration(plan, array) };
    let mut prepared = BTreeMap::new();
    for drive in &array.drives {
        if let Some(model) = drive.model() {
            prepared.insert(drive.name.clone(), Prepared::new(&drives::load(model)?)?);
        }
    }
    TimedArray::start_on(&[config], Drives { prepared, takes_time: Arc::default() }, seed)
        .map_err(|error| anyhow!("array {:?}: {}", array.name, own_advice(&causes(&error))))
}

/// What an array says of a drive that is not blank, with what a user of `masu run` can do: a run erases
/// nothing.
fn own_advice(said: &str) -> String {
    let advice = "name a new file, or a drive that was erased (wipefs, blkdiscard)";
    let said = said.replace(TO_ERASE, advice);
    let said = match said.split_once("name another drive, or restart with masu serve --overwrite") {
        Some((what, _)) => format!("{what}{advice}"),
        None => said,
    };
    said.replace("not named with --overwrite", advice)
}

/// How the hosts of a run reach their volumes in real time.
#[derive(Clone)]
pub(super) struct Paths(Vec<Place>);

impl Paths {
    /// To the volumes of an array that listens there.
    pub(super) fn to_array(plan: &Plan, listen: SocketAddr) -> Paths {
        let place = |volume: usize| {
            let (host, lun) = plan.host_of(volume);
            let login = Options::new(listen, &initiator(host), TARGET, 0);
            Place::Lu { lun: Lun(lun as u16), login: Box::new(login) }
        };
        Paths((0..plan.volumes.len()).map(place).collect())
    }

    /// To the LUs, files or devices of `--target`, which stand for the volumes in their order.
    pub(super) fn to_targets(targets: &[String]) -> Result<Paths> {
        Ok(Paths(targets.iter().map(|text| Place::find(text)).collect::<Result<_>>()?))
    }

    /// What each LU takes: one after the other is opened, and nothing is read or written.
    ///
    /// # Errors
    ///
    /// Where one cannot be opened.
    pub(super) fn facts(self) -> Result<Vec<Facts>> {
        world_real::run(world_real::Options::default(), move |world| async move {
            let mut out = Vec::new();
            for (number, place) in self.0.iter().enumerate() {
                let (target, facts) = Target::open(&world, place, number, 1).await?;
                target.close();
                out.push(facts);
            }
            anyhow::Ok(out)
        })?
    }

    /// Opens the path of a client to a volume. `number`: no other client has it.
    pub(super) async fn open(
        &self,
        world: &World,
        volume: usize,
        number: usize,
        outstanding: u16,
    ) -> Result<(Target, Facts)> {
        Target::open(world, &self.0[volume], number, outstanding).await
    }
}

/// Opens the path of a client to a volume of an array in the same world.
pub(super) fn open_local(
    plan: &Plan,
    started: &Started,
    volume: usize,
    number: usize,
) -> Result<(Target, Facts)> {
    let (host, lun) = plan.host_of(volume);
    let number = (number as u32 + 1).to_be_bytes();
    let isid = [0x80, 0, 0, number[1], number[2], number[3]];
    let session = started.port().open(&initiator(host), isid);
    let session = session.map_err(|e| anyhow!("host {:?} is refused: {e}", plan.hosts[host].name))?;
    Ok(Target::local(session, Lun(lun as u16), plan.volumes[volume].len_bytes))
}

#[cfg(test)]
mod tests {
    use super::{TO_ERASE, own_advice};

    /// `masu run` advised an option that it does not have.
    #[test]
    fn no_option_is_advised_that_a_run_does_not_have() {
        for said in [
            &format!("group g: drive d is not blank: data at byte 0; {TO_ERASE}"),
            "the drive holds data; name another drive, or restart with masu serve --overwrite d to erase it",
            "drive d holds data; refusing to overwrite it: not named with --overwrite",
        ] {
            let shown = own_advice(said);
            assert!(!shown.contains("--overwrite") && shown.contains("name a new file"), "{shown}");
        }
    }
}
