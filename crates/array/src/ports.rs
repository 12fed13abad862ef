//! Ports, as they are declared.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use iscsi::target::{Limits, Portal, serve};
use world::{Listener, NetError, StreamOptions};

use crate::config::{Config, PortalConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::port::{Port, PortCounts, PortTarget};

/// How long an address may stay in use before that is an error; the longest seen after a kill was 30 ms.
const LISTEN_TIME: Duration = Duration::from_secs(1);
const LISTEN_PAUSE: Duration = Duration::from_millis(20);

/// Closes the ports that are declared no longer, and ends the sessions of hosts that are not known any more.
pub(crate) fn close_ports(controller: &Controller, config: &Config, done: &mut Vec<String>) {
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
