//! How a controller's things stand, as plain values.

use std::rc::Rc;

use pool::{GroupSpace, HeatReport, Pool, Reason};
use raid::Group;
use scsi::LogicalUnit;
use vdisk::Image;
use world::Drive;

use super::stages;
use crate::config::Config;
use crate::controller::{Controller, Index, Kind, OpenPort, Seen, Slices, State, VolumeKey, key_after};
use crate::policies::{self, qos_of, schedulers_status};
use crate::status::{
    BelowMinimum, CacheStatus, CachedStatus, ControllerStatus, GroupStatus, ImageStatus, JournalStatus,
    Missing, Port, ServedImage, Session, VolumeQos, VolumeStatus,
};
use crate::terms;
use crate::why::Told;
use stack::{Disk, PoolJournal, Service};
use status::PoolGroup;

/// What a volume with its counters costs, beside a look at a name: 64 volumes are a slice.
const VOLUME_UNITS: u32 = 4;

fn journal_status((pool, journal): (&String, &PoolJournal)) -> JournalStatus {
    JournalStatus {
        pool: pool.clone(),
        group: journal.device().name().to_owned(),
        failure: journal.failure().map(|cause| cause.to_string()),
        failed_medium: journal.failure().and_then(|cause| cause.drive().map(str::to_owned)),
        counts: journal.counts(),
    }
}

/// How a controller's things stand; without volumes and cached volumes unless the whole is wanted. In slices:
/// what there are thousands of is looked at in linear time, and hosts are served in between.
pub(crate) async fn status(controller: &Controller, whole: bool) -> ControllerStatus {
    let mut slices = Slices::new(&controller.world);
    let config = controller.config();
    let index = Index::of(&config, &mut slices).await;
    let volumes = match whole {
        true => volumes_status(controller, &index, &mut slices).await,
        false => Vec::new(),
    };
    let images = images_status(controller, &config, &index, &mut slices).await;
    let units = match whole {
        true => units_status(controller, &mut slices).await,
        false => Vec::new(),
    };
    let below_minimum = below_minimum(controller, &index, &mut slices).await;
    let sessions = sessions_status(controller, &mut slices).await;
    let pools = pools_status(&controller.state(), &index, controller.index);
    index.let_go(&mut slices).await;
    let state = controller.state();
    let world = &controller.world;
    ControllerStatus {
        index: controller.index,
        busy: world.cpu_time().saturating_sub(controller.started.1),
        age: world.now() - controller.started.0,
        drives: state.drives.iter().map(|(name, drive)| drive_status(name, drive)).collect(),
        groups: groups_status(&state),
        pools,
        volumes,
        images,
        cache: cache_status(&state, units),
        schedulers: schedulers_status(&state, controller.index),
        below_minimum,
        sessions,
        ports: state.ports.iter().map(|port| port_status(port, controller.index)).collect(),
        refused: state.refusals.status(world.now()),
        stages: if whole { stages::stages_status(&state) } else { Vec::new() },
        served: if whole { stages::hosts_served(&state) } else { Vec::new() },
        missing: state.missing.iter().map(missing_status).collect(),
        undeclared: state.undeclared.iter().filter(|key| is_there(&state, key)).cloned().collect(),
        jobs: controller.jobs.status(),
        spares: state.spares.clone(),
        spare_faults: state.spare_faults.clone(),
        events: controller.events.shown(),
    }
}

fn drive_status(name: &str, drive: &Drive) -> status::Drive {
    let counts = drive.counts();
    status::Drive {
        name: name.into(),
        medium: drive.info().name.clone(),
        size_bytes: drive.info().len_bytes,
        state: "free".into(),
        reads: counts.reads,
        read_bytes: counts.read_bytes,
        writes: counts.writes,
        write_bytes: counts.write_bytes,
        zeros: counts.zeros,
        flushes: counts.flushes,
        ..status::Drive::default()
    }
}

fn groups_status(state: &State) -> Vec<GroupStatus> {
    let declared = |name: &str| state.config.groups.iter().find(|g| g.name == name);
    let group = |(name, group): (&String, &Group)| {
        let declared = declared(name)?;
        Some(GroupStatus {
            name: name.clone(),
            level: declared.level,
            drives: declared.drives.clone(),
            len_bytes: block::Device::geometry(group).len_bytes,
            members: member_names(state, group),
            raid: group.status(),
            resync_waits: state.resync_waits.get(name).filter(|w| w.is_long).map(|w| w.cause.clone()),
            foreground_share_percent: declared.foreground_share_percent,
            start_degraded: declared.start_degraded,
            class: declared.class,
        })
    };
    state.groups.iter().filter_map(group).collect()
}

fn is_there(state: &State, (pool, name): &VolumeKey) -> bool {
    state.pools.get(pool).is_some_and(|pool| pool.volume(name).is_some())
}

/// What is declared, was made and cannot be opened.
pub(crate) fn missing_status(((kind, name), cause): (&(Kind, String), &Told)) -> Missing {
    Missing {
        kind: kind.name().into(),
        name: name.clone(),
        cause: cause.text.clone(),
        reason: cause.why.reason,
        medium: cause.why.drive.clone(),
    }
}

/// The declared names of a group's drives, by position.
fn member_names(state: &State, group: &Group) -> Vec<Option<String>> {
    let name_of = |medium: &String| {
        let drive = state.drives.iter().find(|(_, d)| d.info().name == *medium);
        drive.map_or_else(|| medium.clone(), |(name, _)| name.clone())
    };
    group.status().members.iter().map(|m| m.drive.as_ref().map(name_of)).collect()
}

fn pools_status(state: &State, index: &Index<'_>, controller: usize) -> Vec<status::Pool> {
    let pool = |(name, pool): (&String, &Pool)| {
        let space = pool.space();
        let declared = state.config.pool(name)?;
        Some(status::Pool {
            name: name.clone(),
            groups: declared.groups.clone(),
            page_bytes: space.page_bytes,
            size_bytes: space.total_bytes,
            used_bytes: space.used_bytes,
            token_bytes: space.held_bytes,
            full_in_s: None,
            promised_bytes: index.promised_bytes(name),
            soft_threshold_percent: declared.soft_threshold_percent,
            critical_threshold_percent: declared.critical_threshold_percent,
            group_spaces: pool.group_spaces().into_iter().map(group_space).collect(),
            heat: heat(pool.heat(), declared.placement, space.page_bytes),
            controller,
            no_room: pool.no_room().map(|cause| cause.to_string()),
            refused_writes: pool.refused_writes().map(|cause| cause.to_string()),
            refusing_medium: pool.refused_writes().and_then(|cause| cause.drive().map(str::to_owned)),
            operations: state.services.get(name).map_or(0, |of| operations(&of.service)),
        })
    };
    state.pools.iter().filter_map(pool).collect()
}

/// Reads and writes through the scheduler of a pool, of one in sixteen.
fn operations(service: &Service) -> u64 {
    let (reads, writes) = service.served();
    reads.counts.iter().chain(&writes.counts).sum()
}

fn group_space(g: GroupSpace) -> PoolGroup {
    let GroupSpace { name, total_bytes, used_bytes, evacuating, .. } = g;
    PoolGroup { name, size_bytes: total_bytes, used_bytes, evacuating }
}

fn heat(report: HeatReport, placement: bool, page_bytes: u64) -> status::Heat {
    let class = |c: pool::ClassHeat| status::ClassHeat {
        class: lower(c.class),
        size_bytes: c.pages * page_bytes,
        used_bytes: c.used_pages * page_bytes,
        reads: c.reads,
        writes: c.writes,
        share_percent: f64::from(c.share_permille) / 10.0,
        hottest: c.hottest,
        coldest: c.coldest,
        threshold: c.threshold,
    };
    let decision = |d: pool::Decision| status::Decision {
        interval: d.interval,
        upper: lower(d.upper),
        lower: lower(d.lower),
        reason: match d.reason {
            Reason::Room => "room",
            Reason::Exchange => "exchange",
            Reason::TooFull => "too_full",
            Reason::Settled => "settled",
            Reason::NoRoomBelow => "no_room_below",
        }
        .into(),
        hottest_below: d.hottest_below,
        coldest_above: d.coldest_above,
        threshold: d.threshold,
        promote: d.promote,
        demote: d.demote,
    };
    status::Heat {
        placement,
        intervals: report.intervals,
        classes: report.classes.into_iter().map(class).collect(),
        promoted: report.placed.promoted,
        demoted: report.placed.demoted,
        moved_bytes: report.placed.bytes,
        decisions: report.decisions.into_iter().map(decision).collect(),
    }
}

fn lower(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

async fn volumes_status(
    controller: &Controller,
    index: &Index<'_>,
    slices: &mut Slices,
) -> Vec<VolumeStatus> {
    let mut all = Vec::with_capacity(controller.state().lus.len());
    let mut last: Option<String> = None;
    loop {
        // A copy of all counters, with the histograms.
        slices.step(VOLUME_UNITS).await;
        let state = controller.state();
        last = key_after(&state.lus, last.as_ref());
        let Some(name) = &last else { break };
        all.extend(state.lus.get(name).and_then(|lu| volume_status(&state, index, name, lu)));
    }
    all
}

fn volume_status(
    state: &State,
    index: &Index<'_>,
    name: &str,
    lu: &LogicalUnit<Disk>,
) -> Option<VolumeStatus> {
    let declared = index.volume(name)?;
    let space = lu.disk().below().volume()?.space();
    Some(VolumeStatus {
        pool: declared.pool.clone(),
        snapshot_of: declared.snapshot_of.clone(),
        len_bytes: lu.geometry().len_bytes,
        used_bytes: space.used_bytes,
        shared_bytes: space.shared_bytes,
        exclusive_bytes: space.exclusive_bytes,
        provisioning: declared.provisioning,
        block_bytes: declared.block_bytes,
        naa: naa(lu),
        mapped_to: index.mapped_to(name),
        qos: qos_of(state, declared.policy.as_ref(), lu.disk().gate()),
        counters: lu.counters(),
        name: name.into(),
    })
}

/// The volumes and images that are promised more than they get, in words.
async fn below_minimum(controller: &Controller, index: &Index<'_>, slices: &mut Slices) -> Vec<BelowMinimum> {
    if controller.state().services.values().all(|of| !of.service.is_on())
        && controller.state().image_service.as_ref().is_none_or(|service| !service.is_on())
    {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut last: Option<String> = None;
    loop {
        slices.step(1).await;
        let state = controller.state();
        last = key_after(&state.lus, last.as_ref());
        let Some(name) = &last else { break };
        let kind = if index.volume(name).is_some() { "volume" } else { "image" };
        let policy = index.policy_of(kind, name);
        let Some(gate) = state.lus.get(name).map(|lu| lu.disk().gate()) else { continue };
        let below = policies::below_minimum(&state, policy, gate);
        all.extend(below.map(|text| BelowMinimum { object: format!("{kind} {name}"), text }));
    }
    all
}

fn naa(lu: &LogicalUnit<Disk>) -> String {
    lu.identity().naa.iter().map(|b| format!("{b:02x}")).collect()
}

async fn images_status(
    controller: &Controller,
    config: &Config,
    index: &Index<'_>,
    slices: &mut Slices,
) -> Vec<ImageStatus> {
    let mut all = Vec::new();
    for declared in config.images.iter().filter(|i| i.controller == controller.index) {
        slices.step(VOLUME_UNITS).await;
        let state = controller.state();
        let lu = state.lus.get(&declared.name);
        all.push(ImageStatus {
            name: declared.name.clone(),
            file: declared.file().display().to_string(),
            read_only: declared.read_only,
            mapped_to: index.mapped_to(&declared.name),
            state: match lu.map(|lu| (lu, lu.disk().below().image(), lu.disk().gate())) {
                Some((lu, Some(image), gate)) => {
                    Ok(served(lu, image, qos_of(&state, declared.policy.as_ref(), gate)))
                }
                _ => Err(state.unopened.get(&declared.name).cloned().unwrap_or_default()),
            },
        });
    }
    all
}

fn served(lu: &LogicalUnit<Disk>, image: &Image, qos: VolumeQos) -> ServedImage {
    let parents = std::iter::successors(image.parent(), Image::parent);
    ServedImage {
        format: image.format().name(),
        trouble: image.trouble().map(|trouble| (terms::image_fault(&trouble), trouble.to_string())),
        parents: parents.map(|parent| parent.drive().info().name.clone()).collect(),
        len_bytes: image.len_bytes(),
        file_len_bytes: image.file_len_bytes(),
        block_bytes: image.sector_bytes(),
        naa: naa(lu),
        qos,
        counters: lu.counters(),
    }
}

async fn units_status(controller: &Controller, slices: &mut Slices) -> Vec<CachedStatus> {
    let mut all = Vec::with_capacity(controller.state().units.len());
    let mut last: Option<VolumeKey> = None;
    loop {
        slices.step(2).await;
        let state = controller.state();
        last = key_after(&state.units, last.as_ref());
        let Some(key) = &last else { break };
        let Some(unit) = state.units.get(key) else { continue };
        all.push(CachedStatus {
            policy: terms::cache_policy(unit.policy()),
            partition: state.partitions.name_of(unit.partition()).into(),
            counts: unit.counts(),
            volume: key.1.clone(),
        });
    }
    all
}

fn cache_status(state: &State, units: Vec<CachedStatus>) -> Option<CacheStatus> {
    let cache = state.cache.as_ref()?;
    Some(CacheStatus {
        memory_bytes: cache.config().memory_bytes,
        counts: cache.counts(),
        second: cache.second_counts(),
        ssd: state.ssd.clone(),
        partitions: state.partitions.status(cache),
        units,
        journals: state.journals.iter().map(journal_status).collect(),
    })
}

async fn sessions_status(controller: &Controller, slices: &mut Slices) -> Vec<Session> {
    let all: Vec<Rc<Seen>> = controller.state().nexuses.iter().filter(|seen| seen.local).cloned().collect();
    let mut out = Vec::with_capacity(all.len());
    for seen in all {
        slices.step(1).await;
        out.push(session_status(&seen));
    }
    out
}

fn session_status(seen: &Seen) -> Session {
    Session {
        host: seen.host.clone(),
        initiator: seen.nexus.initiator.name.clone(),
        isid: seen.nexus.initiator.isid.iter().map(|b| format!("{b:02x}")).collect(),
        portal_group: seen.nexus.port.portal_group,
        commands: seen.view.traffic().commands.get(),
        bytes: seen.view.traffic().bytes_in.get() + seen.view.traffic().bytes_out.get(),
    }
}

fn port_status(port: &OpenPort, controller: usize) -> Port {
    Port {
        controller,
        listen: port.listen,
        portal_group: port.portal_group,
        sessions: port.front_end.sessions(),
        commands: port.traffic.traffic.commands.get(),
        bytes_in: port.traffic.traffic.bytes_in.get(),
        bytes_out: port.traffic.traffic.bytes_out.get(),
    }
}
