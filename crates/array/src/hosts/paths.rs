//! The target ports as REPORT TARGET PORT GROUPS lists them: those of this node, and those of the other
//! nodes, which carry connections to this one.

use std::collections::BTreeSet;

use scsi::{AccessState, ListedPort};

use crate::controller::Controller;
use crate::nexus::target_port;

/// Brings the list up to date. If it has changed, hosts hear of it.
pub(crate) fn list_ports(controller: &Controller) {
    let (config, state) = (controller.config(), controller.state());
    // An array without a portal has one port, which a process or a test opens in it.
    let portals = state.nodes.portals(&config);
    let own_len = portals.len().max(1);
    let owner = |index: usize| portals.get(index).map_or(controller.index, |p| p.controller);
    let own = (0..own_len).map(|index| ListedPort {
        port: target_port(&config.target, state.nodes.portal_group(index)),
        access: match owner(index) == controller.index {
            true => AccessState::Optimized,
            false => AccessState::NonOptimized,
        },
    });
    // A node that carries a connection is up, whatever is known of it.
    let used: BTreeSet<u16> = state.nexuses.iter().map(|seen| seen.nexus.port.group).collect();
    let others = state.nodes.others(own_len).map(|other| ListedPort {
        port: target_port(&config.target, other.portal_group),
        access: match other.is_up || used.contains(&other.portal_group) {
            true if other.controller == Some(controller.index) => AccessState::Optimized,
            true => AccessState::NonOptimized,
            false => AccessState::Unavailable,
        },
    });
    if state.listed_ports.set(own.chain(others)) {
        state.nexuses.iter().for_each(|seen| seen.view.access_state_changed());
    }
}
