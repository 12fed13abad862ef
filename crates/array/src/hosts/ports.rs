//! The declared ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use iscsi::target::{InitiatorPort, Limits, Portal, serve};
use world::{Listener, NetError, StreamOptions};

use crate::config::{Config, HostConfig, PortalConfig};
use crate::control::ControlError;
use crate::controller::{Controller, Index, OpenPort};
use crate::nexus::initiator_port;
use crate::port::{Port, PortTarget};

/// How long masu retries while an address is in use. The longest seen after a kill was 30 ms.
const LISTEN_TIME: Duration = Duration::from_secs(1);
const LISTEN_PAUSE: Duration = Duration::from_millis(20);

/// Ends the sessions that have no rights any more: their host was removed, or has another initiator or
/// secret. Logins in progress began under the previous declaration and start again.
pub(crate) fn end_sessions(controller: &Controller, before: &Config, config: &Config, index: &Index<'_>) {
    let state = controller.state();
    let mut ended = BTreeSet::new();
    for seen in state.nexuses.iter().filter(|seen| seen.host_in(index).is_none()) {
        seen.update(&BTreeMap::new(), Vec::new());
        if seen.local {
            ended.insert(seen.nexus.initiator.clone());
        }
    }
    let is_meant = |port: &InitiatorPort| {
        let initiator = initiator_port(&port.name, port.isid);
        ended.contains(&initiator)
    };
    let logins_hold = same_logins(before, config);
    for port in &state.ports {
        port.portal.disconnect(&controller.world, is_meant);
        if !logins_hold {
            port.portal.restart_logins();
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
pub(crate) fn close_ports(controller: &Controller, config: &Config, done: &mut Vec<String>) {
    let mut state = controller.state.borrow_mut();
    state.ports.retain(|port| {
        let stays = config.portals.get(usize::from(port.portal_group) - 1) == Some(&port.config);
        if !stays {
            port.portal.stop();
            done.push(format!("port {}: closed", port.listen));
        }
        stays
    });
}

pub(crate) async fn open_port(
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
    let open = Rc::new(OpenPort {
        config: declared.clone(),
        portal_group,
        listen: listener.local(),
        portal: Portal::new(),
        traffic: Rc::default(),
    });
    let port = Rc::new(Port { controller: controller.clone(), open: open.clone() });
    let heeding = Rc::downgrade(&port);
    open.portal.observe(move |event| heeding.upgrade().into_iter().for_each(|port| port.heed(event)));
    done.push(format!("port {}: open", listener.local()));
    let target = Rc::new(PortTarget(port));
    let world = controller.world.clone();
    controller.world.spawn(serve(world, listener, target, Limits::default(), open.portal.clone()));
    controller.state.borrow_mut().ports.push(open);
    Ok(())
}

/// Listens; retries for a short time while the address is in use. The kernel closes the sockets of a killed
/// process some milliseconds after its end, and an immediate restart must not fail for that.
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
