//! Making a declaration so, on one controller, in two steps: what is declared is opened or created, from the
//! drives up, while hosts see nothing of it; then they do. Between the two the array keeps what was made, so
//! that a host never writes to what a later start might take for new.
//!
//! What was made before is opened or left alone: where it cannot be opened it is *missing*, nothing is
//! written to it, and the rest is served. What is new and cannot be made refuses the declaration, and so does
//! what is open and cannot be changed as declared.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use block::Device;
use pool::{Pool, Volume};

use super::later::at_next_start;
use super::prepare_groups::prepare_groups;
use super::prepare_pools::prepare_pools;
use crate::cached::{close_journals, let_go, new_ssd, open_cache, open_second_level, put_back_caching};
use crate::config::{Config, GroupId, Identities, Made, NotOpen, VolumeConfig};
use crate::control::{Arrival, ControlError, PoolFound, Reply};
use crate::controller::{Controller, Fresh, Index, Kind, Slices, VolumeKey, key_after};
use crate::front_ends::{close_ports, end_sessions, open_port};
use crate::groups::{
    begin_spare_watch, check_members, check_spares, close_drives, free_spares, keeps_spares, release_spares,
    take_back, take_back_spares,
};
use crate::hosts::{list_ports, update_views};
use crate::images::{close_images, images_of, open_images, raw_files};
use crate::journal_groups::check_journals;
use crate::policies::set_policies;
use crate::pools::{create_volumes, drop_pool, expect_lus, grow_volumes, open_volume};
use crate::trace::choose_traced;
use crate::why::Told;

/// Opens and creates what is declared.
pub(crate) async fn prepare(
    controller: &Rc<Controller>,
    config: &Arc<Config>,
    (made, arrival): (Arc<Made>, Option<Arrival>),
) -> Result<Reply, ControlError> {
    let mut done = Vec::new();
    let arriving = arrival.as_ref().map(|arrival| arrival.pool.clone());
    if let Some(arrival) = arrival {
        expect_lus(controller, arrival.lus);
        let state = &mut *controller.state.borrow_mut();
        for (pool, closed) in arrival.closed {
            state.brought_by(&pool).closed = Some(closed);
        }
        for PoolFound { pool, found } in arrival.found {
            state.brought_by(&pool).found = Some(found);
        }
        // Hosts do not send it back at once.
        state.asked_to_move.insert(arrival.pool, controller.world.now());
    }
    // What was stored before a crash and cannot be made keeps nothing else from being served.
    let starting = controller.state().config.target.is_empty() && made.groups.values().any(|g| g.ready);
    // Thousands of volumes: linear time, and hosts are served in between.
    let mut slices = Slices::new(&controller.world);
    let index = Index::of(config, &mut slices).await;
    check_members(controller, config)?;
    check_journals(controller, config)?;
    check_absent(controller, config)?;
    {
        let mut state = controller.state.borrow_mut();
        (state.made, state.fresh) = (made.clone(), Fresh::default());
    }
    open_cache(controller, config, &mut done).await?;
    if let Some(ssd) = new_ssd(controller, config) {
        let opened = open_second_level(controller, config, &ssd, &mut done).await;
        // It has nothing that the other drives do not have.
        settle(controller, (Kind::CacheDrive, &ssd), starting, opened)?;
    }
    let opening = Opening { index: &index, arriving, starting };
    prepare_groups(controller, (config, &made), &opening, &mut done).await?;
    look_at_spares(controller, config, starting).await?;
    let spares = free_spares(controller, config);
    controller.state.borrow_mut().spares = spares;
    prepare_pools(controller, (config, &made), &opening, &mut done).await?;
    let larger = open_volumes(controller, config, &opening, &mut slices, &mut done).await?;
    open_images(controller, config, &mut done).await?;
    grow_volumes(controller, larger, &mut done).await?;
    index.let_go(&mut slices).await;
    let ids = identities(controller, config, &mut slices).await;
    Ok(Reply::Prepared(done, ids, not_open(controller)))
}

/// The identities of what is open; those of LUs only where they are not known yet, of which there may be
/// thousands.
async fn identities(controller: &Controller, config: &Config, slices: &mut Slices) -> Identities {
    let made = controller.state().made.clone();
    let groups =
        controller.state().groups.iter().map(|(name, group)| (name.clone(), GroupId(group.id().0))).collect();
    let images = raw_files(controller, config);
    let (mut lu_numbers, mut last) = (BTreeMap::new(), None::<String>);
    loop {
        slices.step(1).await;
        last = key_after(&controller.state().lu_numbers, last.as_ref());
        let Some(name) = &last else { return Identities { groups, lu_numbers, images } };
        let number = controller.state().lu_numbers.get(name).copied();
        if number != made.lu_numbers.get(name).copied() {
            lu_numbers.extend(number.map(|number| (name.clone(), number)));
        }
    }
}

/// Checks the spares, which one controller does; a start tells what is wrong, and goes on.
async fn look_at_spares(
    controller: &Rc<Controller>,
    config: &Config,
    starting: bool,
) -> Result<(), ControlError> {
    if !keeps_spares(controller) {
        return Ok(());
    }
    match check_spares(controller, config).await {
        Err(error) if starting => {
            controller.events.alarm(error.to_string());
            Ok(())
        }
        checked => checked,
    }
}

/// What is declared and could not be opened: what of it was not made before is tried again.
fn not_open(controller: &Controller) -> NotOpen {
    let state = controller.state();
    let of =
        |kind| state.missing.keys().filter(move |(k, _)| *k == kind).map(|(_, name)| name.clone()).collect();
    NotOpen { groups: of(Kind::Group), pools: of(Kind::Pool), volumes: of(Kind::Volume) }
}

/// Whether an object is missing already: what was not made then, and still cannot be, refuses nothing else.
pub(super) fn is_missing(controller: &Controller, kind: Kind, name: &str) -> bool {
    controller.state().missing.contains_key(&(kind, name.to_owned()))
}

/// Refuses other groups for a pool that is not open: it could not be opened with them, nor get rid of them.
fn check_absent(controller: &Controller, config: &Config) -> Result<(), ControlError> {
    let state = controller.state();
    for before in state.config.pools.iter().filter(|p| p.controller == controller.index) {
        let Some(next) = config.pool(&before.name) else { continue };
        let is_open = state.pools.contains_key(&before.name);
        if !is_open && next.controller == before.controller && next.groups != before.groups {
            let place = ControlError::at(format!("pool {:?}", before.name));
            return Err(place(&"it is not served: its groups change when it is"));
        }
    }
    Ok(())
}

/// What `may_miss` and cannot be opened is missing; everything else must succeed. What is open already is not
/// missing when it cannot be changed: the change is refused.
pub(super) fn settle(
    controller: &Controller,
    (kind, name): (Kind, &String),
    may_miss: bool,
    outcome: Result<(), ControlError>,
) -> Result<(), ControlError> {
    let object = (kind, name.clone());
    match outcome {
        Ok(()) => {
            controller.state.borrow_mut().missing.remove(&object);
            Ok(())
        }
        Err(ControlError::Failed { cause: text, why, .. }) if may_miss => {
            let cause = Told { text, why };
            let before = controller.state.borrow_mut().missing.insert(object, cause.clone());
            if before.as_ref() != Some(&cause) {
                controller.events.alarm(format!("{} {name}: is not served: {cause}", kind.name()));
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Puts in force what was prepared: gives a line for each change that hosts notice.
pub(crate) async fn commit(
    controller: &Rc<Controller>,
    config: Arc<Config>,
) -> Result<Vec<String>, ControlError> {
    let mut done = Vec::new();
    let mut slices = Slices::new(&controller.world);
    let before = controller.config();
    let (index, was) = (Index::of(&config, &mut slices).await, Index::of(&before, &mut slices).await);
    let told = at_next_start(controller, &before, &mut slices).await;
    set_policies(controller, &config, (&was, &index), &mut slices, &mut done).await;
    let undeclared = undeclared(controller, &index, &mut slices).await;
    let whereabouts = index.whereabouts(&mut slices).await;
    let images = images_of(controller, &undeclared);
    let whereabouts = {
        let mut state = controller.state.borrow_mut();
        state.config = config.clone();
        undeclared.iter().for_each(|name| {
            state.lus.remove(name);
            state.lu_numbers.remove(name);
        });
        state.unopened.retain(|name, _| index.image(name).is_some());
        state.missing.retain(|object, _| is_declared(&config, &index, object));
        std::mem::replace(&mut state.whereabouts, whereabouts)
    };
    choose_traced(controller, &config);
    // Before the views follow, which takes its time: who has no rights any more has none from now on.
    end_sessions(controller, &before, &config, &index);
    list_ports(controller);
    update_views(controller, &index, &mut slices).await;
    close_images(images).await?;
    let gone: BTreeSet<VolumeKey> = units_without_volume(controller, &index, &mut slices).await;
    if !gone.is_empty() {
        let_go(controller, |volume| gone.contains(volume)).await?;
    }
    close_journals(controller, |pool| !is_own(controller, &config, pool)).await?;
    follow_spares(controller, &before, &config).await;
    close_drives(controller, &config);
    let nodes = controller.state().nodes.clone();
    let portals = nodes.portals(&config);
    close_ports(controller, portals, &mut done);
    for (i, portal) in portals.iter().enumerate().filter(|(_, p)| p.controller == controller.index) {
        open_port(controller, portal, i, &mut done).await?;
    }
    let left = left_undeclared(controller, &index, &mut slices).await;
    controller.state.borrow_mut().undeclared = left;
    controller
        .state()
        .drives
        .values()
        .for_each(|drive| drive.set_patience(config.patience_of(&drive.info().name)));
    done.extend(at_next_start(controller, &config, &mut slices).await.difference(&told).cloned());
    slices.let_go(whereabouts).await;
    index.let_go(&mut slices).await;
    was.let_go(&mut slices).await;
    Ok(done)
}

/// The volumes of open pools that the declaration does not have and that are not to be deleted.
async fn left_undeclared(
    controller: &Controller,
    index: &Index<'_>,
    slices: &mut Slices,
) -> BTreeSet<VolumeKey> {
    let (pools, made): (Vec<Pool>, _) = {
        let state = controller.state();
        (state.pools.values().cloned().collect(), state.made.clone())
    };
    let mut left = BTreeSet::new();
    for volume in pools.iter().flat_map(Pool::volumes) {
        slices.step(1).await;
        let (of, name) = (volume.pool(), volume.name());
        let pool = of.name();
        let is_declared = index.volume(name).is_some_and(|declared| declared.pool == pool);
        if !is_declared && made.discarded.get(name).is_none_or(|of| of != pool) {
            left.insert((pool.to_owned(), name.to_owned()));
        }
    }
    left
}

/// Looks after the spares that are declared now, and lets go of the others.
async fn follow_spares(controller: &Rc<Controller>, before: &Config, config: &Config) {
    controller.state.borrow_mut().fresh.labelled.clear();
    if keeps_spares(controller) && before.spares != config.spares {
        release_spares(controller, before, config).await;
        begin_spare_watch(controller);
    }
}

/// The LUs that are declared no more, or whose pool was to come from another controller and did not.
async fn undeclared(controller: &Controller, index: &Index<'_>, slices: &mut Slices) -> Vec<String> {
    let (mut out, mut last) = (Vec::new(), None::<String>);
    loop {
        slices.step(1).await;
        last = key_after(&controller.state().lus, last.as_ref());
        let Some(name) = &last else { return out };
        if index.owner_of(name) != Some(controller.index) {
            out.push(name.clone());
        }
    }
}

/// The cached volumes that are declared no more, or whose pool was to come from another controller and did
/// not.
async fn units_without_volume(
    controller: &Controller,
    index: &Index<'_>,
    slices: &mut Slices,
) -> BTreeSet<VolumeKey> {
    let (mut out, mut last) = (BTreeSet::new(), None::<VolumeKey>);
    loop {
        slices.step(1).await;
        last = key_after(&controller.state().units, last.as_ref());
        let Some(key) = &last else { return out };
        let is_declared = index.volume(&key.1).is_some_and(|volume| volume.pool == key.0);
        if !is_declared || index.owner_of(&key.1) != Some(controller.index) {
            // What is to be deleted keeps its unit until then: it may have no room for its dirty data, which
            // a change that is refused still needs.
            let is_discarded = controller.state().made.discarded.get(&key.1).is_some_and(|of| *of == key.0);
            if is_discarded {
                continue;
            }
            out.insert(key.clone());
        }
    }
}

/// So many new volumes are created together, to share the commits of their pools; fewer are created one after
/// the other, where they are opened.
const MANY_VOLUMES: usize = 64;

/// What is opened: the declaration by name, and the pool that comes from another controller.
pub(super) struct Opening<'a> {
    pub(super) index: &'a Index<'a>,
    pub(super) arriving: Option<String>,
    /// A start from a state of an earlier life.
    pub(super) starting: bool,
}

/// Opens the volumes of this controller that are not open. Gives those that are, and are declared larger.
async fn open_volumes<'a>(
    controller: &Rc<Controller>,
    config: &'a Config,
    opening: &Opening<'_>,
    slices: &mut Slices,
    done: &mut Vec<String>,
) -> Result<Vec<(&'a VolumeConfig, Volume)>, ControlError> {
    let index = opening.index;
    let pools: Vec<Pool> = controller.state().pools.values().cloned().collect();
    let made = controller.state().made.clone();
    let mut known = BTreeMap::new();
    for volume in pools.iter().flat_map(Pool::volumes) {
        slices.step(1).await;
        known.insert((volume.pool().name().to_owned(), volume.name().to_owned()), volume);
    }
    let key = |v: &VolumeConfig| (v.pool.clone(), v.name.clone());
    let own = || config.volumes.iter().filter(|v| index.owner_of(&v.name) == Some(controller.index));
    let mut fresh = Vec::new();
    for declared in own() {
        slices.step(1).await;
        if !made.volumes.contains(&declared.name) && !known.contains_key(&key(declared)) {
            fresh.push(declared);
        }
    }
    if fresh.len() < MANY_VOLUMES {
        fresh.clear();
    }
    let mut failed = BTreeMap::new();
    for (declared, created) in create_volumes(controller, &fresh, done).await {
        match created {
            Ok(volume) => _ = known.insert(key(declared), volume),
            Err(error) => _ = failed.insert(key(declared), error),
        }
    }
    let mut larger = Vec::new();
    for declared in own() {
        slices.step(4).await;
        let is_open = controller.state().lus.contains_key(&declared.name);
        let was_missing = is_missing(controller, Kind::Volume, &declared.name);
        let opened = match failed.remove(&key(declared)) {
            Some(error) => Err(error),
            None => {
                let volume = known.remove(&key(declared));
                let grows = |v: &&Volume| is_open && v.geometry().len_bytes < declared.len_bytes;
                larger.extend(volume.as_ref().filter(grows).map(|v| (declared, v.clone())));
                open_volume(controller, config, (declared, volume), done).await
            }
        };
        let may_miss = opening.starting
            || !is_open
                && (was_missing || made.volumes.contains(&declared.name))
                && opening.arriving.as_ref() != Some(&declared.pool);
        settle(controller, (Kind::Volume, &declared.name), may_miss, opened)?;
    }
    Ok(larger)
}

/// Whether this controller is to have the pool.
fn is_own(controller: &Controller, config: &Config, pool: &str) -> bool {
    config.pool(pool).is_some_and(|declared| declared.controller == controller.index)
}

fn is_declared(config: &Config, index: &Index<'_>, (kind, name): &(Kind, String)) -> bool {
    match kind {
        Kind::Group => config.groups.iter().any(|g| g.name == *name),
        Kind::Pool => config.pool(name).is_some(),
        Kind::Volume => index.volume(name).is_some(),
        Kind::CacheDrive => config.cache.iter().any(|cache| cache.ssds.contains(name)),
    }
}

/// Takes groups out of the pools that got them for a declaration that is refused: hosts may have written to
/// them since.
async fn leave_again(controller: &Controller, fresh: &Fresh) -> Result<(), ControlError> {
    for (pool, group, id) in &fresh.joined {
        let open = controller.state().pools.get(pool).cloned();
        let Some(open) = open.filter(|open| open.group_spaces().iter().any(|space| space.id == *id)) else {
            continue;
        };
        let place = || ControlError::at(format!("pool {pool:?}: group {group:?}"));
        open.evacuate(*id, async |_| ControlFlow::Continue(())).await.map_err(|e| place()(&e))?;
        open.remove_group(*id).await.map_err(|e| place()(&e))?;
    }
    Ok(())
}

/// Takes back what was prepared for a declaration that is not to be in force: no volume, pool, label or open
/// drive of it stays. `config` is in force again. What was found on the drives is closed as it is.
pub(crate) async fn undo(controller: &Rc<Controller>, config: Arc<Config>) -> Result<(), ControlError> {
    let mut fresh = std::mem::take(&mut controller.state.borrow_mut().fresh);
    // It may not have come to this controller: then these are of the declaration that is in force.
    fresh.keep_undeclared(&config);
    take_back_spares(std::mem::take(&mut fresh.labelled)).await;
    let put_back = commit(controller, config.clone()).await;
    put_back_caching(controller, &config).await?;
    for (pool, name) in &fresh.volumes {
        let pool = controller.state().pools.get(pool).cloned();
        if let Some(pool) = pool.filter(|pool| pool.volume(name).is_some()) {
            pool.delete_volume(name).await.map_err(|e| ControlError::at(format!("volume {name:?}"))(&e))?;
        }
    }
    leave_again(controller, &fresh).await?;
    let undeclared = |name: &String| fresh.pools.contains(name) || !is_own(controller, &config, name);
    let ends: Vec<String> = controller.state().pools.keys().filter(|p| undeclared(p)).cloned().collect();
    for name in &ends {
        if let Some(pool) = drop_pool(controller, name).await
            && !fresh.pools.contains(name)
        {
            pool.close().await.map_err(|e| ControlError::at(format!("pool {name:?}"))(&e))?;
        }
    }
    take_back(controller, &config, &fresh.groups).await?;
    close_drives(controller, &config);
    let spares = free_spares(controller, &config);
    controller.state.borrow_mut().spares = spares;
    put_back.map(drop)
}
