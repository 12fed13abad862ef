//! Making a declaration so, on one controller: what is declared and not there is opened or created, from the drives up.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use iscsi::target::{Limits, Portal, serve};
use pool::{Pool, PoolError, PoolEvent, PoolSpec, Volume};
use raid::{Group, GroupError, GroupSpec, Throttle};
use scsi::{Identity, LogicalUnit};
use world::{Drive, Listener, NetError, StreamOptions};

use crate::Disk;
use crate::config::{Config, DriveConfig, GroupConfig, HostConfig, PoolConfig, PortalConfig, VolumeConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::port::{Port, PortCounts, PortTarget};

/// How long an address may stay in use before that is an error; the longest seen after a kill was 30 ms.
const LISTEN_TIME: Duration = Duration::from_secs(1);
/// What hosts keep of the drives' time while mirrors are compared.
const FOREGROUND_SHARE_PERCENT: u8 = 70;
const LISTEN_PAUSE: Duration = Duration::from_millis(20);

/// Applies a declaration; gives a line for each thing made or changed.
pub(crate) async fn apply(
    controller: &Rc<Controller>,
    config: Arc<Config>,
) -> Result<Vec<String>, ControlError> {
    let mut done = Vec::new();
    release_what_others_own(controller, &config);
    for group in config.groups.iter().filter(|g| owner_of_group(&config, &g.name) == controller.index) {
        open_group(controller, &config, group, &mut done).await?;
    }
    for pool in config.pools.iter().filter(|p| p.controller == controller.index) {
        open_pool(controller, pool, &mut done).await?;
    }
    for volume in config.volumes.iter().filter(|v| config.owner_of(&v.name) == Some(controller.index)) {
        open_volume(controller, &config, volume, &mut done).await?;
    }
    let undeclared: Vec<String> = {
        let state = controller.state();
        state.lus.keys().filter(|name| config.volume(name).is_none()).cloned().collect()
    };
    if controller.index == 0 {
        done.extend(host_changes(&controller.config(), &config));
    }
    {
        let mut state = controller.state.borrow_mut();
        state.config = config.clone();
        undeclared.iter().for_each(|name| {
            state.lus.remove(name);
        });
    }
    controller.update_views();
    close_ports(controller, &config, &mut done);
    for (i, portal) in config.portals.iter().enumerate().filter(|(_, p)| p.controller == controller.index) {
        open_port(controller, portal, i as u16 + 1, &mut done).await?;
    }
    Ok(done)
}

/// What changes for the hosts, a line each. Secrets are not shown.
fn host_changes(old: &Config, new: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for host in &new.hosts {
        let before = old.hosts.iter().find(|h| h.name == host.name);
        let same_identity = |h: &&HostConfig| {
            h.initiator == host.initiator && h.chap == host.chap && h.mutual_chap == host.mutual_chap
        };
        if before.filter(same_identity).is_none() {
            lines.push(format!("host {}: {}", host.name, host.initiator));
        }
        let saw = before.map(|h| h.luns.clone()).unwrap_or_default();
        let news = host.luns.iter().filter(|(lun, volume)| saw.get(lun) != Some(volume));
        lines.extend(news.map(|(lun, volume)| format!("host {}: sees {volume} as LUN {}", host.name, lun.0)));
        let gone = saw.iter().filter(|(lun, _)| !host.luns.contains_key(lun));
        lines.extend(
            gone.map(|(lun, volume)| format!("host {}: sees {volume} (LUN {}) no longer", host.name, lun.0)),
        );
    }
    let removed = old.hosts.iter().filter(|h| new.hosts.iter().all(|n| n.name != h.name));
    lines.extend(removed.map(|h| format!("host {}: removed", h.name)));
    lines
}

/// The controller of the pool that a group is in; controller 0 keeps those that are in none.
fn owner_of_group(config: &Config, group: &str) -> usize {
    let pool = config.pools.iter().find(|p| p.groups.iter().any(|g| g == group));
    pool.map_or(0, |p| p.controller)
}

/// A group that waited for a pool may now belong to another controller: its drives are closed here first.
fn release_what_others_own(controller: &Controller, config: &Config) {
    let mut state = controller.state.borrow_mut();
    let elsewhere = |name: &String| owner_of_group(config, name) != controller.index;
    let gone: Vec<String> = state.groups.keys().filter(|g| elsewhere(g)).cloned().collect();
    for group in gone {
        state.groups.remove(&group);
        if let Some(declared) = config.groups.iter().find(|g| g.name == group) {
            declared.drives.iter().for_each(|d| {
                state.drives.remove(d);
            });
        }
    }
}

async fn open_group(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    if controller.state().groups.contains_key(&group.name) {
        return Ok(());
    }
    let mut drives = Vec::new();
    for name in &group.drives {
        let declared = config.drives.iter().find(|d| d.name == *name);
        drives.push(open_drive(controller, declared.expect("the declaration was checked"))?);
    }
    let place = || ControlError::at(format!("group {:?}", group.name));
    let spec = GroupSpec {
        name: group.name.clone(),
        level: group.level,
        stripe_unit_bytes: group.stripe_unit_bytes,
        array_id: config.id,
    };
    // Creation refuses drives with a label, unless it is that of a creation which a power cut interrupted.
    let (opened, how) = match Group::create(controller.world.clone(), spec.clone(), drives.clone()).await {
        Err(GroupError::InUse { .. }) => {
            (Group::open(controller.world.clone(), spec, drives).await, "opened")
        }
        created => (created, "created"),
    };
    let opened = opened.map_err(|e| place()(&e))?;
    done.push(format!("group {}: {how}, {:?}", group.name, opened.status().state));
    if opened.status().reads_pinned {
        controller.world.spawn(resync_task(controller.clone(), opened.clone()));
    }
    controller.state.borrow_mut().groups.insert(group.name.clone(), opened);
    Ok(())
}

/// Brings mirrors together again that a power cut may have left different.
async fn resync_task(controller: Rc<Controller>, group: Group) {
    let throttle = Throttle::new(controller.world.clone(), FOREGROUND_SHARE_PERCENT);
    controller.note(format!("group {}: mirrors are compared after an unclean stop", group.name()));
    let ended = group.resync(&throttle).await;
    controller.note(match ended {
        Ok(written) => format!("group {}: mirrors are equal again, {written} bytes differed", group.name()),
        Err(e) => format!("group {}: mirrors could not be compared: {e}", group.name()),
    });
}

fn open_drive(controller: &Controller, declared: &DriveConfig) -> Result<Drive, ControlError> {
    if let Some(drive) = controller.state().drives.get(&declared.name) {
        return Ok(drive.clone());
    }
    let place = ControlError::at(format!("drive {:?}", declared.name));
    let drive = controller.world.open_drive(&declared.spec).map_err(|e| place(&e))?;
    controller.state.borrow_mut().drives.insert(declared.name.clone(), drive.clone());
    Ok(drive)
}

async fn open_pool(
    controller: &Rc<Controller>,
    declared: &PoolConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("pool {:?}", declared.name));
    let known = controller.state().pools.get(&declared.name).cloned();
    if let Some(pool) = known {
        return set_threshold(&pool, declared).await;
    }
    let groups: Vec<Group> = {
        let state = controller.state();
        declared.groups.iter().map(|g| state.groups[g].clone()).collect()
    };
    let usual = PoolSpec::new(&declared.name);
    let spec = PoolSpec {
        page_bytes: declared.page_bytes,
        soft_threshold_percent: declared.soft_threshold_percent,
        critical_threshold_percent: usual.critical_threshold_percent.max(declared.soft_threshold_percent),
        ..usual
    };
    let (pool, how) = match Pool::open(controller.world.clone(), groups.clone()).await {
        Ok(pool) => (pool, "opened"),
        Err(PoolError::NoPool { .. } | PoolError::Unfinished { .. }) => {
            (Pool::create(controller.world.clone(), spec, groups).await.map_err(|e| place()(&e))?, "created")
        }
        Err(e) => return Err(place()(&e)),
    };
    set_threshold(&pool, declared).await?;
    done.push(format!("pool {}: {how}", declared.name));
    controller.world.spawn(watch_pool_task(controller.clone(), declared.name.clone(), pool.clone()));
    controller.state.borrow_mut().pools.insert(declared.name.clone(), pool);
    Ok(())
}

async fn set_threshold(pool: &Pool, declared: &PoolConfig) -> Result<(), ControlError> {
    if pool.space().soft_threshold_percent == declared.soft_threshold_percent {
        return Ok(());
    }
    let place = ControlError::at(format!("pool {:?}", declared.name));
    let critical = pool.space().critical_threshold_percent.max(declared.soft_threshold_percent);
    pool.set_thresholds(declared.soft_threshold_percent, critical).await.map_err(|e| place(&e))
}

/// Passes on what a pool says: an event for the status, a unit attention for the hosts.
async fn watch_pool_task(controller: Rc<Controller>, name: String, pool: Pool) {
    loop {
        let event = pool.next_event().await;
        let told = match event {
            PoolEvent::ThresholdCrossed { percent, used_bytes, total_bytes, .. } => {
                format!("{percent} % are used: {used_bytes} of {total_bytes} bytes")
            }
            PoolEvent::Full => "full: writes that need a page are refused".into(),
        };
        controller.note(format!("pool {name}: {told}"));
        if let PoolEvent::ThresholdCrossed { .. } = event {
            let state = controller.state();
            let on_pool = |volume: &str| state.config.volume(volume).is_some_and(|v| v.pool == name);
            state.lus.iter().filter(|(volume, _)| on_pool(volume)).for_each(|(_, lu)| lu.threshold_reached());
        }
    }
}

async fn open_volume(
    controller: &Controller,
    config: &Config,
    declared: &VolumeConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("volume {:?}", declared.name));
    let pool = controller.state().pools[&declared.pool].clone();
    let known = pool.volume(&declared.name);
    let volume = match known {
        Some(volume) => volume,
        None => {
            let made = pool.create_volume(&declared.name, declared.len_bytes, declared.provisioning).await;
            done.push(format!("volume {}: created", declared.name));
            made.map_err(|e| place()(&e))?
        }
    };
    let len = block::Device::geometry(&volume).len_bytes;
    if declared.len_bytes < len {
        return Err(place()(&format!(
            "has {len} bytes and is declared with {}: a volume does not shrink",
            declared.len_bytes
        )));
    }
    if declared.len_bytes > len {
        pool.grow_volume(&declared.name, declared.len_bytes).await.map_err(|e| place()(&e))?;
        done.push(format!("volume {}: grown to {} bytes", declared.name, declared.len_bytes));
    }
    let lu = controller.state().lus.get(&declared.name).cloned();
    match lu {
        Some(lu) if declared.len_bytes > len => lu.capacity_changed(),
        Some(_) => {}
        None => {
            let array = u64::from_be_bytes(config.id.0[..8].try_into().expect("8 of 16 bytes"));
            let identity = Identity {
                physical_block_exponent: (declared.physical_block_bytes / declared.block_bytes).ilog2() as u8,
                read_only: declared.read_only,
                ..Identity::of(array, lu_number(&volume))
            };
            let disk = Disk::new(volume, declared.block_bytes);
            let lu = LogicalUnit::new(controller.world.clone(), identity, disk);
            controller.state.borrow_mut().lus.insert(declared.name.clone(), lu);
        }
    }
    Ok(())
}

/// A number for a volume that no other volume of the array has, also after it was deleted: from the pool's identity and
/// the volume's number in it.
fn lu_number(volume: &Volume) -> u64 {
    let pool = volume.pool().id().0;
    let salt = u32::from_be_bytes([pool[0], pool[1], pool[2], pool[3]]) & 0x0fff_ffff;
    u64::from(salt) << 32 | u64::from(volume.id().0)
}

/// Deletes a volume that is declared no longer.
pub(crate) async fn delete_volume(controller: &Controller, name: &str) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("volume {name:?}"));
    if controller.state().config.volume(name).is_some() {
        return Err(place()(&"it is declared"));
    }
    let pools: Vec<Pool> = controller.state().pools.values().cloned().collect();
    let pool =
        pools.into_iter().find(|p| p.volume(name).is_some()).ok_or_else(|| place()(&"there is none"))?;
    pool.delete_volume(name).await.map_err(|e| place()(&e))?;
    Ok(vec![format!("volume {name}: deleted")])
}

/// Makes a volume that shares the pages of another; its LU is made when it is declared.
pub(crate) async fn clone_volume(
    controller: &Controller,
    from: &str,
    to: &str,
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("volume {from:?}"));
    let pool = {
        let state = controller.state();
        let declared = state.config.volume(from).ok_or_else(|| place()(&"there is none"))?;
        state.pools[&declared.pool].clone()
    };
    pool.clone_volume(from, to).await.map_err(|e| place()(&e))?;
    Ok(vec![format!("volume {to}: shares the pages of {from}")])
}

/// Closes the ports that are declared no longer, and ends the sessions of hosts that are not known any more.
fn close_ports(controller: &Controller, config: &Config, done: &mut Vec<String>) {
    let mut state = controller.state.borrow_mut();
    for port in &state.ports {
        for session in port.portal.sessions() {
            if config.host_of(&session.initiator.name).is_none() {
                port.portal.disconnect(&session.initiator.name);
            }
        }
    }
    state.ports.retain(|port| {
        let stays = config.portals.get(usize::from(port.portal_group) - 1) == Some(&port.config);
        if !stays {
            port.portal.stop();
            done.push(format!("port {}: closed", port.listen));
        }
        stays
    });
}

async fn open_port(
    controller: &Rc<Controller>,
    declared: &PortalConfig,
    portal_group: u16,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    if controller.state().ports.iter().any(|p| p.portal_group == portal_group) {
        return Ok(());
    }
    let options = StreamOptions { segment_bytes_max: declared.segment_bytes_max };
    let place = ControlError::at(format!("portal {}", declared.listen));
    let listener = listen(controller, declared.listen, options).await.map_err(|e| place(&e))?;
    let port = Rc::new(Port {
        controller: controller.clone(),
        config: declared.clone(),
        portal_group,
        listen: listener.local(),
        portal: Portal::new(),
        counts: PortCounts::default(),
    });
    done.push(format!("port {}: open", listener.local()));
    let target = Rc::new(PortTarget(port.clone()));
    let world = controller.world.clone();
    controller.world.spawn(serve(world, listener, target, Limits::default(), port.portal.clone()));
    controller.state.borrow_mut().ports.push(port);
    Ok(())
}

/// Listens; an address in use is asked for again for a short while: the kernel ends the sockets of a process that was
/// killed some milliseconds after the process, and an array that is started again at once must not fail for that.
async fn listen(
    controller: &Controller,
    addr: SocketAddr,
    options: StreamOptions,
) -> Result<Listener, NetError> {
    let deadline = controller.world.now() + LISTEN_TIME;
    loop {
        match controller.world.listen_with(addr, options) {
            Err(_) if controller.world.now() < deadline => controller.world.sleep(LISTEN_PAUSE).await,
            outcome => return outcome,
        }
    }
}
