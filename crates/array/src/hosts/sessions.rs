//! Sessions of hosts: each is a nexus with a view of the mapped LUs.

use std::collections::BTreeSet;
use std::rc::Rc;

use scsi::{Lun, Owner, PortTraffic, View, ViewSpec};
use stack::Disk;

use super::crossing::{crossings, others};
use super::paths::list_ports;
use crate::controller::{Controller, Index, Mapped, Seen, Slices};
use crate::nexus::{RemoteNexus, initiator_port, target_port};

/// Hosts that are no more, and whose counters are still kept.
const FORGOTTEN_HOSTS_MAX: usize = 256;

/// Why the array opens no session for an initiator. Front ends say it in their protocol's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// No declared host has this initiator name.
    #[error("no host has this initiator name")]
    UnknownInitiator,
    /// The controller is stopping.
    #[error("the array is stopping and accepts no session")]
    Stopping,
}

/// Opens the nexus of a session at one of this controller's ports.
pub(crate) fn open_nexus(
    controller: &Controller,
    initiator: &str,
    isid: [u8; 6],
    portal_group: u16,
    port_traffic: Rc<PortTraffic>,
) -> Result<Rc<Seen>, SessionRefusal> {
    if controller.stopping.get() {
        return Err(SessionRefusal::Stopping);
    }
    let id = controller.state.borrow_mut().nexuses.fresh_id(controller.index);
    let target = controller.config().target.clone();
    let nexus = RemoteNexus {
        id,
        initiator: initiator_port(initiator, isid),
        port: target_port(&target, portal_group),
    };
    let owners = crossings(controller, &nexus);
    admit(controller, nexus, Some((owners, port_traffic))).ok_or(SessionRefusal::UnknownInitiator)
}

/// The nexus of a session at another controller's port, created when its first command crosses.
pub(crate) fn remote_nexus(controller: &Controller, nexus: &RemoteNexus) -> Rc<Seen> {
    let known = controller.state().nexuses.get(nexus.id);
    known.unwrap_or_else(|| {
        let has_ended = controller.state().nexuses.has_ended(nexus.id);
        let admitted = if has_ended { None } else { admit(controller, nexus.clone(), None) };
        // A session that has ended, or whose host was removed a moment ago, gets an empty view.
        let view = || view_of(controller, nexus.clone(), Rc::default(), false);
        admitted.unwrap_or_else(|| Rc::new(Seen::new(nexus.clone(), None, view(), None)))
    })
}

/// The parts of a nexus at a port of this controller: the crossings to other controllers, and the traffic of
/// its port.
type Local = (Vec<Rc<dyn Owner>>, Rc<PortTraffic>);

/// Creates the nexus with the view of its host. `local` is set for a port of this controller.
fn admit(controller: &Controller, nexus: RemoteNexus, local: Option<Local>) -> Option<Rc<Seen>> {
    let at_port = local.is_some();
    let (owners, port_traffic) = local.unzip();
    let config = controller.config();
    let host = config.host_of(&nexus.initiator.name)?;
    let seen = Rc::new(Seen::new(
        nexus.clone(),
        Some(host),
        view_of(controller, nexus, port_traffic.unwrap_or_default(), at_port),
        owners,
    ));
    let held = controller.state().held.clone();
    let held = host.luns.iter().filter(|(_, volume)| held.contains(*volume));
    seen.view.hold(held.map(|(lun, _)| Lun(*lun)).collect());
    let mapped = controller.state().what_host_sees(host, controller.index);
    seen.update(mapped);
    let group = seen.nexus.port.group;
    controller.state.borrow_mut().nexuses.insert(seen.clone());
    if controller.state().nodes.others.iter().any(|other| other.portal_group == group && !other.is_up) {
        list_ports(controller);
    }
    Some(seen)
}

/// An empty view: of a session at a port of this controller, or of one whose commands cross to it.
fn view_of(
    controller: &Controller,
    nexus: RemoteNexus,
    port_traffic: Rc<PortTraffic>,
    at_port: bool,
) -> View<Disk> {
    let config = controller.config();
    let host_traffic = match config.host_of(&nexus.initiator.name) {
        Some(host) => {
            controller.state.borrow_mut().host_traffic.entry(host.name.clone()).or_default().clone()
        }
        None => Rc::default(),
    };
    View::new(ViewSpec {
        others: others(controller, &nexus),
        nexus: nexus.id,
        initiator: nexus.initiator,
        port: Rc::new(nexus.port),
        ports: controller.state().listed_ports.clone(),
        tokens: controller.tokens.clone(),
        port_traffic,
        host_traffic,
        tracer: at_port.then(|| controller.tracer.clone()),
        at_port,
    })
}

/// Ends a nexus here, and at the controllers that may have a view for it.
pub(crate) fn close_nexus(controller: &Controller, seen: &Seen) {
    controller.state.borrow_mut().nexuses.remove(seen.nexus.id);
    seen.view.end_nexus();
}

/// Forgets what hosts were served that are no more, when they are many: metrics name declared ones only.
fn forget_hosts(controller: &Controller) {
    let config = controller.config();
    let mut state = controller.state.borrow_mut();
    if state.host_traffic.len() > config.hosts.len() + FORGOTTEN_HOSTS_MAX {
        let declared: BTreeSet<&String> = config.hosts.iter().map(|host| &host.name).collect();
        state.host_traffic.retain(|name, of| declared.contains(name) || Rc::strong_count(of) > 1);
    }
}

/// Updates all views to the configuration. A session whose host has changed, or has another secret, gets an
/// empty view.
pub(crate) async fn update_views(controller: &Controller, index: &Index<'_>, slices: &mut Slices) {
    forget_hosts(controller);
    let all: Vec<Rc<Seen>> = controller.state().nexuses.iter().cloned().collect();
    for seen in all {
        let mut mapped = Mapped::default();
        slices.step(1).await;
        let luns = seen.host_in(index).map(|host| &host.luns);
        for one in luns.into_iter().flatten() {
            slices.step(1).await;
            controller.state().place(one, controller.index, &mut mapped);
        }
        seen.update(mapped);
    }
}
