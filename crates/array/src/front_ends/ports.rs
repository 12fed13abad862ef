//! The declared ports: opened, closed, and their sessions ended.

use std::collections::BTreeSet;
use std::rc::Rc;

use scsi::InitiatorPort;

use super::iscsi;
use crate::config::{Config, HostConfig, PortalConfig};
use crate::control::ControlError;
use crate::controller::{Controller, Index, Mapped};

/// Ends the sessions that have no rights any more: their host was removed, or has another initiator or
/// secret. Logins in progress began under the previous declaration and start again.
pub(crate) fn end_sessions(controller: &Controller, before: &Config, config: &Config, index: &Index<'_>) {
    let state = controller.state();
    let mut ended = BTreeSet::new();
    for seen in state.nexuses.iter().filter(|seen| seen.host_in(index).is_none()) {
        seen.update(Mapped::default());
        if seen.local {
            ended.insert(seen.nexus.initiator.clone());
        }
    }
    let is_meant = |port: &InitiatorPort| ended.contains(port);
    let logins_hold = same_logins(before, config);
    for port in &state.ports {
        port.front_end.disconnect(&controller.world, &is_meant);
        if !logins_hold {
            port.front_end.restart_logins();
        }
    }
}

/// Whether the same initiators may log in, with the same proof.
fn same_logins(before: &Config, after: &Config) -> bool {
    // Without copying the mappings: this runs in one step, whatever the number of hosts.
    let same = |(a, b): (&HostConfig, &HostConfig)| {
        (&a.name, &a.initiator, &a.chap, &a.mutual_chap) == (&b.name, &b.initiator, &b.chap, &b.mutual_chap)
    };
    before.discovery_chap == after.discovery_chap
        && before.hosts.len() == after.hosts.len()
        && before.hosts.iter().zip(&after.hosts).all(same)
}

/// Closes the ports that are no longer declared.
pub(crate) fn close_ports(controller: &Controller, portals: &[PortalConfig], done: &mut Vec<String>) {
    let mut state = controller.state.borrow_mut();
    state.ports.retain(|port| {
        let stays = portals.get(port.index) == Some(&port.config);
        if !stays {
            port.front_end.stop();
            done.push(format!("port {}: closed", port.listen));
        }
        stays
    });
}

pub(crate) async fn open_port(
    controller: &Rc<Controller>,
    declared: &PortalConfig,
    index: usize,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    if controller.state().ports.iter().any(|p| p.index == index) {
        return Ok(());
    }
    let place = ControlError::at(format!("portal {}", declared.listen));
    let open = iscsi::open(controller, declared, index).await.map_err(|e| place(&e))?;
    done.push(format!("port {}: open", open.listen));
    controller.state.borrow_mut().ports.push(open);
    Ok(())
}
