//! Making a declaration so, on one controller: what is declared and not there is opened or created, from the drives up.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use pool::Pool;

use crate::cached::{close_journals, let_go, open_cache, open_journal};
use crate::config::Config;
use crate::control::ControlError;
use crate::controller::Controller;
use crate::drives::{close_drives, free_spares};
use crate::groups::{check_members, open_group, owner_of_group};
use crate::guarantee::set_policies;
use crate::images::{close_images, images_of, open_images};
use crate::index::Index;
use crate::placement::set_classes;
use crate::pools::open_pool;
use crate::ports::{close_ports, end_sessions, open_port};
use crate::slices::Slices;
use crate::volumes::open_volume;

/// Applies a declaration; gives a line for each thing made or changed.
pub(crate) async fn apply(
    controller: &Rc<Controller>,
    config: Arc<Config>,
) -> Result<Vec<String>, ControlError> {
    let mut done = Vec::new();
    // Thousands of volumes: linear time, and hosts are served in between.
    let mut slices = Slices::new(&controller.world);
    let before = controller.config();
    let (index, was) = (Index::of(&config, &mut slices).await, Index::of(&before, &mut slices).await);
    check_members(controller, &config)?;
    open_cache(controller, &config, &mut done).await?;
    for group in config.groups.iter().filter(|g| owner_of_group(&config, &g.name) == controller.index) {
        open_group(controller, &config, group, &mut done).await?;
    }
    let spares = free_spares(controller, &config);
    controller.state.borrow_mut().spares = spares;
    for pool in config.pools.iter().filter(|p| p.controller == controller.index) {
        open_pool(controller, &config, pool, &mut done).await?;
        set_classes(controller, &config, pool, &mut done)?;
        open_journal(controller, &index, pool, &mut slices, &mut done).await?;
    }
    open_volumes(controller, &config, &index, &mut slices, &mut done).await?;
    open_images(controller, &config, &mut done).await?;
    set_policies(controller, &config, (&was, &index), &mut slices, &mut done).await;
    let lus: Vec<String> = controller.state().lus.keys().cloned().collect();
    let undeclared = not_in(lus, |name| index.declares(name), &mut slices).await;
    let whereabouts = index.whereabouts(&mut slices).await;
    let images = images_of(controller, &undeclared);
    let before = controller.config();
    {
        let mut state = controller.state.borrow_mut();
        state.config = config.clone();
        state.whereabouts = whereabouts;
        undeclared.iter().for_each(|name| {
            state.lus.remove(name);
        });
        state.unopened.retain(|name, _| config.image(name).is_some());
    }
    // Before the views follow, which takes its time: who has no rights any more has none from now on.
    end_sessions(controller, &before, &config);
    controller.update_views(&mut slices).await;
    close_images(images).await?;
    let units: Vec<String> = controller.state().units.keys().cloned().collect();
    let gone = not_in(units, |name| index.volume(name).is_some(), &mut slices).await;
    let gone: BTreeSet<String> = gone.into_iter().collect();
    let_go(controller, |volume| gone.contains(volume)).await?;
    close_journals(controller, |pool| config.pool(pool).is_none()).await?;
    close_drives(controller, &config);
    close_ports(controller, &config, &mut done);
    for (i, portal) in config.portals.iter().enumerate().filter(|(_, p)| p.controller == controller.index) {
        open_port(controller, portal, i as u16 + 1, &mut done).await?;
    }
    Ok(done)
}

/// The names that do not satisfy `is_in`.
async fn not_in(names: Vec<String>, is_in: impl Fn(&str) -> bool, slices: &mut Slices) -> Vec<String> {
    let mut out = Vec::new();
    for name in names {
        slices.step(1).await;
        if !is_in(&name) {
            out.push(name);
        }
    }
    out
}

/// Opens the volumes of this controller that are not open, and grows those that are declared larger.
async fn open_volumes(
    controller: &Rc<Controller>,
    config: &Config,
    index: &Index<'_>,
    slices: &mut Slices,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let pools: Vec<Pool> = controller.state().pools.values().cloned().collect();
    let mut known = BTreeMap::new();
    for volume in pools.iter().flat_map(Pool::volumes) {
        slices.step(1).await;
        known.insert((volume.pool().name().to_owned(), volume.name().to_owned()), volume);
    }
    for declared in config.volumes.iter().filter(|v| index.owner_of(&v.name) == Some(controller.index)) {
        slices.step(4).await;
        let volume = known.remove(&(declared.pool.clone(), declared.name.clone()));
        open_volume(controller, config, (declared, volume), done).await?;
    }
    Ok(())
}
