//! How a controller's things stand, as plain values.

use std::rc::Rc;

use pool::Pool;
use raid::Group;
use scsi::{LogicalUnit, Lun};
use vdisk::Image;
use world::Drive;

use crate::Disk;
use crate::cached::CachedVolume;
use crate::config::{CachePolicy, ImageConfig};
use crate::guarantee::qos_of;
use crate::hosts::Seen;
use crate::port::Port;
use crate::state::State;
use crate::status::{
    CacheStatus, CachedStatus, DriveStatus, GroupStatus, ImageStatus, PoolStatus, PortStatus, ServedImage,
    SessionStatus, VolumeQos, VolumeStatus,
};

pub(crate) fn drive_status(name: &str, drive: &Drive) -> DriveStatus {
    DriveStatus {
        name: name.into(),
        medium: drive.info().name.clone(),
        len_bytes: drive.info().len_bytes,
        counts: drive.counts(),
    }
}

pub(crate) fn groups_status(state: &State) -> Vec<GroupStatus> {
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
            foreground_share_percent: declared.foreground_share_percent,
            class: declared.class,
        })
    };
    state.groups.iter().filter_map(group).collect()
}

/// The declared names of a group's drives, by position.
fn member_names(state: &State, group: &Group) -> Vec<Option<String>> {
    let name_of = |medium: &String| {
        let drive = state.drives.iter().find(|(_, d)| d.info().name == *medium);
        drive.map_or_else(|| medium.clone(), |(name, _)| name.clone())
    };
    group.status().members.iter().map(|m| m.drive.as_ref().map(name_of)).collect()
}

pub(crate) fn pools_status(state: &State) -> Vec<PoolStatus> {
    let pool = |(name, pool): (&String, &Pool)| {
        let space = pool.space();
        let declared = state.config.pool(name)?;
        let volumes = state.config.volumes.iter().filter(|v| v.pool == *name);
        Some(PoolStatus {
            name: name.clone(),
            groups: declared.groups.clone(),
            page_bytes: space.page_bytes,
            len_bytes: space.total_bytes,
            used_bytes: space.used_bytes,
            promised_bytes: volumes.map(|v| v.len_bytes).sum(),
            soft_threshold_percent: declared.soft_threshold_percent,
            critical_threshold_percent: declared.critical_threshold_percent,
            group_spaces: pool.group_spaces(),
            placement: declared.placement,
            heat: pool.heat(),
        })
    };
    state.pools.iter().filter_map(pool).collect()
}

pub(crate) fn volumes_status(state: &State) -> Vec<VolumeStatus> {
    let volume = |(name, lu): (&String, &Rc<LogicalUnit<Disk>>)| {
        let declared = state.config.volume(name)?;
        let space = lu.medium().volume()?.space();
        Some(VolumeStatus {
            name: name.clone(),
            pool: declared.pool.clone(),
            len_bytes: lu.geometry().len_bytes,
            used_bytes: space.used_bytes,
            shared_bytes: space.shared_bytes,
            exclusive_bytes: space.exclusive_bytes,
            provisioning: declared.provisioning,
            block_bytes: declared.block_bytes,
            naa: naa(lu),
            mapped_to: mapped_to(state, name),
            qos: qos_of(state, declared.policy.as_ref(), lu.medium().gate()?),
            counters: lu.counters(),
        })
    };
    state.lus.iter().filter_map(volume).collect()
}

fn naa(lu: &LogicalUnit<Disk>) -> String {
    lu.identity().naa.iter().map(|b| format!("{b:02x}")).collect()
}

/// Who sees a volume or an image, and as what.
fn mapped_to(state: &State, name: &str) -> Vec<(String, Lun)> {
    let seers = state.config.hosts.iter();
    let seen = seers.flat_map(|h| h.luns.iter().map(|(lun, seen)| (&h.name, *lun, seen)));
    seen.filter(|(_, _, seen)| *seen == name).map(|(host, lun, _)| (host.clone(), lun)).collect()
}

pub(crate) fn images_status(state: &State, controller: usize) -> Vec<ImageStatus> {
    let image = |declared: &ImageConfig| ImageStatus {
        name: declared.name.clone(),
        file: declared.file().display().to_string(),
        read_only: declared.read_only,
        mapped_to: mapped_to(state, &declared.name),
        state: match state.lus.get(&declared.name).map(|lu| (lu, lu.medium().image(), lu.medium().gate())) {
            Some((lu, Some(image), Some(gate))) => {
                Ok(served(lu, image, qos_of(state, declared.policy.as_ref(), gate)))
            }
            _ => Err(state.unopened.get(&declared.name).cloned().unwrap_or_else(|| "is not open".into())),
        },
    };
    state.config.images.iter().filter(|i| i.controller == controller).map(image).collect()
}

fn served(lu: &LogicalUnit<Disk>, image: &Image, qos: VolumeQos) -> ServedImage {
    let parents = std::iter::successors(image.parent(), Image::parent);
    ServedImage {
        format: image.format().name(),
        parents: parents.map(|parent| parent.drive().info().name.clone()).collect(),
        len_bytes: image.len_bytes(),
        file_len_bytes: image.file_len_bytes(),
        block_bytes: image.sector_bytes(),
        naa: naa(lu),
        qos,
        counters: lu.counters(),
    }
}

pub(crate) fn cache_status(state: &State) -> Option<CacheStatus> {
    let cache = state.cache.as_ref()?;
    let unit = |(name, unit): (&String, &CachedVolume)| CachedStatus {
        volume: name.clone(),
        policy: CachePolicy::of_cache(unit.policy()),
        partition: state.partitions.name_of(unit.partition()).into(),
        counts: unit.counts(),
    };
    Some(CacheStatus {
        memory_bytes: cache.config().memory_bytes,
        counts: cache.counts(),
        second: cache.second_counts(),
        partitions: state.partitions.status(cache),
        units: state.units.iter().map(unit).collect(),
        journals: state.journals.iter().map(|(pool, journal)| (pool.clone(), journal.counts())).collect(),
    })
}

pub(crate) fn session_status(seen: &Seen) -> SessionStatus {
    SessionStatus {
        host: seen.host.clone(),
        initiator: seen.nexus.initiator.name.clone(),
        isid: seen.nexus.initiator.isid.iter().map(|b| format!("{b:02x}")).collect(),
        commands: seen.commands.get(),
        bytes: seen.bytes.get(),
    }
}

pub(crate) fn port_status(port: &Port) -> PortStatus {
    PortStatus {
        listen: port.listen,
        portal_group: port.portal_group,
        sessions: port.portal.sessions().len(),
        commands: port.counts.commands.get(),
        bytes_in: port.counts.bytes_in.get(),
        bytes_out: port.counts.bytes_out.get(),
    }
}
