//! Making a declaration so, on one controller: what is declared and not there is opened or created, from the drives up.

use std::rc::Rc;
use std::sync::Arc;

use crate::cached::{close_journals, let_go, open_cache, open_journal};
use crate::config::{Config, HostConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::drives::{close_drives, free_spares};
use crate::groups::{check_members, open_group, owner_of_group};
use crate::guarantee::set_policies;
use crate::images::{close_images, images_of, open_images};
use crate::placement::set_classes;
use crate::pools::open_pool;
use crate::ports::{close_ports, open_port};
use crate::volumes::open_volume;

/// Applies a declaration; gives a line for each thing made or changed.
pub(crate) async fn apply(
    controller: &Rc<Controller>,
    config: Arc<Config>,
) -> Result<Vec<String>, ControlError> {
    let mut done = Vec::new();
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
        open_journal(controller, &config, pool, &mut done).await?;
    }
    for volume in config.volumes.iter().filter(|v| config.owner_of(&v.name) == Some(controller.index)) {
        open_volume(controller, &config, volume, &mut done).await?;
    }
    open_images(controller, &config, &mut done).await?;
    set_policies(controller, &config, &mut done);
    let undeclared: Vec<String> = {
        let state = controller.state();
        let declared = |name: &&String| config.volume(name).is_some() || config.image(name).is_some();
        state.lus.keys().filter(|name| !declared(name)).cloned().collect()
    };
    if controller.index == 0 {
        done.extend(host_changes(&controller.config(), &config));
    }
    let images = images_of(controller, &undeclared);
    {
        let mut state = controller.state.borrow_mut();
        state.config = config.clone();
        undeclared.iter().for_each(|name| {
            state.lus.remove(name);
        });
        state.unopened.retain(|name, _| config.image(name).is_some());
    }
    controller.update_views();
    close_images(images).await?;
    let_go(controller, |volume| config.volume(volume).is_none()).await?;
    close_journals(controller, |pool| config.pool(pool).is_none()).await?;
    close_drives(controller, &config);
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
