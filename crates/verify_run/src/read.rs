//! Reads a scenario: names resolved, files of loads read, everything checked before anything is made.

use std::path::Path;

use array::config::Policy;
use lab_core::quantity::Size;
use lab_core::scenario::parse;
use lab_core::toml_text::TomlFileError;

use super::asked;
use super::limits;
use super::lines::{Table, Text};
use super::loads;
use super::names::{COUNT_MAX, Names, expanded, once};
use super::plan::{
    ArrayPlan, DriveKind, DrivePlan, GroupPlan, HostPlan, LoadPlan, PhasePlan, Plan, PoolPlan, VolumePlan,
};
use super::scenario::{ArrayTable, DriveTable, NewPolicy, PhaseTable, PolicyTable, VolumeTable, Written};

/// Pages of pools.
const PAGE_BYTES_DEFAULT: u64 = 1 << 20;
const STRIPE_UNIT_BYTES_DEFAULT: u64 = 64 << 10;

impl PolicyTable {
    fn policy(&self) -> Result<Policy, String> {
        let none = Policy::none();
        let policy = Policy {
            minimum_iops: self.minimum.unwrap_or(0),
            maximum_iops: self.maximum,
            bandwidth_bytes_per_s: self.bandwidth.map(|size| size.0),
            weight: self.weight.unwrap_or(none.weight),
            ..none
        };
        policy.check().map_err(|e| e.to_string())?;
        Ok(policy)
    }
}

/// Reads and checks a scenario; files of loads and of drive models are looked for in `folder`.
///
/// # Errors
///
/// The first thing that is wrong, with its line.
pub(super) fn read(text: &str, path: &str, folder: &Path) -> Result<Plan, TomlFileError> {
    let written: Written = parse(text, path)?;
    let at = Text { path, text };
    check_times(&written, at)?;
    let arrays = arrays(&written, folder, at)?;
    let (names, volumes) = volumes(&written, &arrays, at)?;
    let hosts = hosts(&written, &names, &volumes, at)?;
    let loads = loads::loads(&written, &names, folder, at)?;
    let phases = phases(&written, &arrays, &names, &loads, at)?;
    let places = asked::Places::new(&arrays, &loads, &phases);
    let search = asked::search(&written, &places, at)?;
    let (asked, claims) = asked::claims(&written, &places, search.is_some(), at)?;
    let Written { name, question, run, .. } = written;
    Ok(Plan { name, question, run, arrays, volumes, hosts, loads, phases, asked, claims, search })
}

fn check_times(written: &Written, at: Text<'_>) -> Result<(), TomlFileError> {
    let run = &written.run;
    let wrong = |key: &str, cause: &str| Err(at.wrong(&[("run", 0)], key, cause));
    if let Err(cause) = limits::window(run.window.0) {
        return wrong("window", &cause);
    }
    if !(1..=1000).contains(&run.repeats) {
        return wrong("repeats", "invalid repeats: must be in 1 to 1000");
    }
    if run.figures.iter().any(|quantity| !quantity.has_windows()) {
        return wrong("figures", "invalid figures: rebuild_time and largest_count cannot be drawn over time");
    }
    let mut windows = run.warm_up.0.as_nanos() / run.window.0.as_nanos();
    for (n, phase) in written.phases.iter().enumerate() {
        let least = run.settle.0.saturating_add(2 * run.window.0);
        if phase.time.0 < least {
            let cause = format!(
                "invalid time of phase {:?}: must be {} s or more, settle and two windows",
                phase.name,
                least.as_secs_f64()
            );
            return Err(at.wrong(&[("phase", n)], "time", cause));
        }
        windows += phase.time.0.as_nanos() / run.window.0.as_nanos();
    }
    limits::windows(windows, written.loads.len()).or_else(|cause| wrong("window", &cause))
}

fn inherited(
    written: &Written,
    table: &ArrayTable,
    n: usize,
    at: Text<'_>,
) -> Result<ArrayTable, TomlFileError> {
    let Some(like) = &table.like else { return Ok(table.clone()) };
    let base = written.arrays[..n].iter().enumerate().find(|(_, other)| other.name == *like);
    let Some((index, base)) = base else {
        let cause = format!("unknown array {like:?}: an array can be like one that stands before it");
        return Err(at.wrong(&[("array", n)], "like", cause));
    };
    let base = inherited(written, base, index, at)?;
    let mut whole = table.clone();
    whole.cache = table.cache.or(base.cache);
    whole.spares = table.spares.clone().or(base.spares);
    if table.drives.is_empty() {
        whole.drives = base.drives;
    }
    if table.groups.is_empty() {
        whole.groups = base.groups;
    }
    if table.pools.is_empty() {
        whole.pools = base.pools;
    }
    Ok(whole)
}

fn arrays(written: &Written, folder: &Path, at: Text<'_>) -> Result<Vec<ArrayPlan>, TomlFileError> {
    let mut out: Vec<ArrayPlan> = Vec::new();
    if written.arrays.len() > limits::ARRAYS_MAX {
        let cause = format!("more than {} arrays", limits::ARRAYS_MAX);
        return Err(at.wrong(&[("array", limits::ARRAYS_MAX)], "name", cause));
    }
    once("array", written.arrays.iter().map(|array| array.name.as_str()))
        .map_err(|(n, cause)| at.wrong(&[("array", n)], "name", cause))?;
    for (n, table) in written.arrays.iter().enumerate() {
        let here = [("array", n)];
        out.push(array(&inherited(written, table, n, at)?, folder, &here, at)?);
    }
    Ok(out)
}

fn array(
    table: &ArrayTable,
    folder: &Path,
    here: &[Table<'_>],
    at: Text<'_>,
) -> Result<ArrayPlan, TomlFileError> {
    let within = |name: &'static str, index: usize| [here, &[(name, index)]].concat();
    let kinds: Vec<(&str, Option<usize>)> =
        table.drives.iter().map(|drive| (drive.name.as_str(), drive.count)).collect();
    let (names, all) = Names::expand("drive", &kinds)
        .map_err(|(n, cause)| at.wrong(&within("array.drive", n), "name", cause))?;
    if all.is_empty() || all.len() > COUNT_MAX {
        let cause = format!("array {:?} must have 1 to {COUNT_MAX} drives", table.name);
        return Err(at.wrong(here, "drive", cause));
    }
    let mut drives = Vec::new();
    for (n, drive) in table.drives.iter().enumerate() {
        let kind =
            drive_kind(drive, folder).map_err(|cause| at.wrong(&within("array.drive", n), "name", cause))?;
        let of = expanded(&drive.name, drive.count).into_iter();
        drives.extend(of.map(|name| DrivePlan { name, kind: kind.clone() }));
    }
    let named = |list: &[String]| -> Result<Vec<String>, String> {
        Ok(names.resolve("drive", list)?.into_iter().map(|n| all[n].clone()).collect())
    };
    let (groups, pools) = (groups(table, here, named, at)?, pools(table, here, at)?);
    let spares = named(table.spares.as_deref().unwrap_or_default())
        .map_err(|cause| at.wrong(here, "spares", cause))?;
    let cache_bytes = table.cache.map_or(0, |size| size.0);
    limits::cache(cache_bytes, lab_core::machine::memory_bytes())
        .map_err(|cause| at.wrong(here, "cache", cause))?;
    Ok(ArrayPlan { name: table.name.clone(), cache_bytes, drives, groups, pools, spares })
}

fn groups(
    table: &ArrayTable,
    here: &[Table<'_>],
    named: impl Fn(&[String]) -> Result<Vec<String>, String>,
    at: Text<'_>,
) -> Result<Vec<GroupPlan>, TomlFileError> {
    let mut out = Vec::new();
    once("group", table.groups.iter().map(|group| group.name.as_str()))
        .map_err(|(n, cause)| at.wrong(&[here, &[("array.group", n)]].concat(), "name", cause))?;
    for (n, group) in table.groups.iter().enumerate() {
        let wrong = |key: &str, cause: String| at.wrong(&[here, &[("array.group", n)]].concat(), key, cause);
        let drives = named(&group.drives).map_err(|cause| wrong("drives", cause))?;
        limits::group_drives(group.level, drives.len()).map_err(|cause| wrong("drives", cause))?;
        let unit = group.stripe_unit.map_or(STRIPE_UNIT_BYTES_DEFAULT, |size| size.0);
        let stripe_unit_bytes = limits::stripe_unit(unit).map_err(|cause| wrong("stripe_unit", cause))?;
        out.push(GroupPlan { name: group.name.clone(), level: group.level, drives, stripe_unit_bytes });
    }
    Ok(out)
}

fn pools(table: &ArrayTable, here: &[Table<'_>], at: Text<'_>) -> Result<Vec<PoolPlan>, TomlFileError> {
    let group_names = Names::of(table.groups.iter().map(|group| group.name.as_str()));
    let mut out = Vec::new();
    once("pool", table.pools.iter().map(|pool| pool.name.as_str()))
        .map_err(|(n, cause)| at.wrong(&[here, &[("array.pool", n)]].concat(), "name", cause))?;
    for (n, pool) in table.pools.iter().enumerate() {
        let wrong = |key: &str, cause: String| at.wrong(&[here, &[("array.pool", n)]].concat(), key, cause);
        group_names.some("group", &pool.groups).map_err(|cause| wrong("groups", cause))?;
        let page_bytes = pool.page.map_or(PAGE_BYTES_DEFAULT, |size| size.0);
        limits::page(page_bytes).map_err(|cause| wrong("page", cause))?;
        out.push(PoolPlan { name: pool.name.clone(), groups: pool.groups.clone(), page_bytes });
    }
    Ok(out)
}

/// A model of the catalogue, or the file of that name: beside the scenario, or where masu runs.
fn model_of(model: &str, folder: &Path) -> String {
    let is_built_in = lab_tools::drives::CATALOGUE.iter().any(|(name, _)| *name == model);
    let beside = folder.join(model);
    match beside.to_str() {
        Some(path) if !is_built_in && beside.is_file() => path.to_owned(),
        _ => model.to_owned(),
    }
}

fn drive_kind(drive: &DriveTable, folder: &Path) -> Result<DriveKind, String> {
    let model = drive.model.as_ref().map(|model| model_of(model, folder));
    match (model, &drive.path) {
        (Some(model), None) => match lab_tools::drives::load(&model) {
            Ok(_) if drive.size.is_some() => {
                Err(format!("drive {:?} has model and size: a model has its own size", drive.name))
            }
            Ok(_) => Ok(DriveKind::Model(model)),
            Err(error) => Err(error.to_string()),
        },
        (None, Some(path)) if drive.count.is_none() => {
            let size = drive.size.map(|size| size.0);
            size.map_or(Ok(()), limits::disk).map_err(|cause| format!("drive {:?}: {cause}", drive.name))?;
            Ok(DriveKind::Path(path.clone(), size))
        }
        (None, Some(_)) => Err(format!("drive {:?} has path and count: a path is one drive", drive.name)),
        _ => Err(format!("drive {:?} must have one of: model, path", drive.name)),
    }
}

fn volumes(
    written: &Written,
    arrays: &[ArrayPlan],
    at: Text<'_>,
) -> Result<(Names, Vec<VolumePlan>), TomlFileError> {
    let kinds: Vec<(&str, Option<usize>)> =
        written.volumes.iter().map(|volume| (volume.name.as_str(), volume.count)).collect();
    let (names, all) =
        Names::expand("volume", &kinds).map_err(|(n, cause)| at.wrong(&[("volume", n)], "name", cause))?;
    if all.len() > COUNT_MAX {
        return Err(at.wrong(&[("volume", 0)], "count", format!("more than {COUNT_MAX} volumes")));
    }
    let mut out = Vec::new();
    for (n, volume) in written.volumes.iter().enumerate() {
        let here = [("volume", n)];
        check_pool(volume, arrays).map_err(|cause| at.wrong(&here, "pool", cause))?;
        if volume.count == Some(0) {
            return Err(at.wrong(&here, "count", format!("invalid count 0: must be in 1 to {COUNT_MAX}")));
        }
        limits::disk(volume.size.0).map_err(|cause| at.wrong(&here, "size", cause))?;
        let policy = volume.policy.unwrap_or_default().policy();
        let policy = policy.map_err(|cause| at.wrong(&here, "policy", cause))?;
        out.extend(expanded(&volume.name, volume.count).into_iter().map(|name| VolumePlan {
            name,
            pool: volume.pool.clone(),
            len_bytes: volume.size.0,
            thin: volume.thin,
            cache: volume.cache,
            policy,
        }));
    }
    Ok((names, out))
}

fn check_pool(volume: &VolumeTable, arrays: &[ArrayPlan]) -> Result<(), String> {
    for array in arrays {
        let pools = Names::of(array.pools.iter().map(|pool| pool.name.as_str()));
        match (&volume.pool, array.pools.len()) {
            (Some(pool), _) => {
                pools.one("pool", pool).map_err(|e| format!("array {:?}: {e}", array.name))?;
            }
            (None, 1) => {}
            (None, n) => {
                return Err(format!(
                    "volume {:?} must name its pool: array {:?} has {n} pools",
                    volume.name, array.name
                ));
            }
        }
    }
    Ok(())
}

fn hosts(
    written: &Written,
    names: &Names,
    volumes: &[VolumePlan],
    at: Text<'_>,
) -> Result<Vec<HostPlan>, TomlFileError> {
    let (mut out, mut taken) = (Vec::new(), vec![false; volumes.len()]);
    if written.hosts.len() > COUNT_MAX {
        return Err(at.wrong(&[("host", COUNT_MAX)], "name", format!("more than {COUNT_MAX} hosts")));
    }
    once("host", written.hosts.iter().map(|host| host.name.as_str()))
        .map_err(|(n, cause)| at.wrong(&[("host", n)], "name", cause))?;
    for (n, host) in written.hosts.iter().enumerate() {
        let wrong = |cause: String| at.wrong(&[("host", n)], "volumes", cause);
        let own = names.some("volume", &host.volumes).map_err(wrong)?;
        for volume in &own {
            if std::mem::replace(&mut taken[*volume], true) {
                return Err(wrong(format!("volume {:?} is on two hosts", volumes[*volume].name)));
            }
        }
        out.push(HostPlan { name: host.name.clone(), volumes: own });
    }
    let alone = taken.iter().enumerate().filter(|(_, taken)| !**taken).map(|(volume, _)| volume);
    out.extend(
        alone
            .map(|volume| HostPlan { name: format!("host-{}", volumes[volume].name), volumes: vec![volume] }),
    );
    Ok(out)
}

fn phases(
    written: &Written,
    arrays: &[ArrayPlan],
    names: &Names,
    loads: &[LoadPlan],
    at: Text<'_>,
) -> Result<Vec<PhasePlan>, TomlFileError> {
    let load_names = Names::of(loads.iter().map(|load| load.name.as_str()));
    let mut out: Vec<PhasePlan> = Vec::new();
    once("phase", written.phases.iter().map(|phase| phase.name.as_str()))
        .map_err(|(n, cause)| at.wrong(&[("phase", n)], "name", cause))?;
    for (n, phase) in written.phases.iter().enumerate() {
        let wrong = |key: &str, cause: String| at.wrong(&[("phase", n)], key, cause);
        let loads = load_names.resolve("load", &phase.loads).map_err(|cause| wrong("loads", cause))?;
        let policies = policies(names, &phase.policies).map_err(|cause| wrong("policies", cause))?;
        check_events(phase, arrays).map_err(|(key, cause)| wrong(key, cause))?;
        out.push(PhasePlan {
            name: phase.name.clone(),
            time: phase.time.0,
            loads,
            policies,
            pull: phase.pull.clone(),
            grow: phase.grow.iter().map(|grow| (grow.pool.clone(), grow.group.clone())).collect(),
        });
    }
    match out.is_empty() {
        true => Err(at.wrong(&[], "phase", "missing [[phase]]: add at least one phase")),
        false => Ok(out),
    }
}

fn policies(names: &Names, new: &[NewPolicy]) -> Result<Vec<(usize, Policy)>, String> {
    let mut out = Vec::new();
    for policy in new {
        let NewPolicy { minimum, maximum, bandwidth, weight, .. } = *policy;
        let bandwidth: Option<Size> = bandwidth;
        let as_table = PolicyTable { minimum, maximum, bandwidth, weight }.policy()?;
        for volume in names.some("volume", &policy.volumes)? {
            if out.iter().any(|(other, _)| *other == volume) {
                let of = policy.volumes.join(", ");
                return Err(format!("a volume of {of:?} has two policies in this phase; remove one of them"));
            }
            out.push((volume, as_table));
        }
    }
    Ok(out)
}

fn check_events(phase: &PhaseTable, arrays: &[ArrayPlan]) -> Result<(), (&'static str, String)> {
    for array in arrays {
        let on = |key, cause: String| (key, format!("array {:?}: {cause}", array.name));
        let drives = Names::of(array.drives.iter().map(|drive| drive.name.as_str()));
        drives.resolve("drive", &phase.pull).map_err(|cause| on("pull", cause))?;
        let pools = Names::of(array.pools.iter().map(|pool| pool.name.as_str()));
        let groups = Names::of(array.groups.iter().map(|group| group.name.as_str()));
        for (n, grow) in phase.grow.iter().enumerate() {
            if phase.grow[..n].iter().any(|other| other.group == grow.group) {
                return Err(on("grow", format!("group {:?} is named twice", grow.group)));
            }
            pools.one("pool", &grow.pool).map_err(|cause| on("grow", cause))?;
            groups.one("group", &grow.group).map_err(|cause| on("grow", cause))?;
            if array.pools.iter().any(|pool| pool.groups.contains(&grow.group)) {
                return Err(on("grow", format!("group {:?} is in a pool already", grow.group)));
            }
        }
    }
    Ok(())
}
