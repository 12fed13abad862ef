//! iSCSI: a portal of the declaration, listening, and the array as that portal sees it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use iscsi::Relayed;
use iscsi::target::{self, Chap, InitiatorPort, Limits, LoginRefusal, Portal, Secret, Target, serve};
use scsi::View;
use stack::Disk;
use world::{Listener, NetError, StreamOptions, World};

use crate::config::{ChapConfig, PortalConfig};
use crate::controller::{Controller, FrontEnd, OpenPort, Seen};
use crate::event::Event;
use crate::hosts::{SessionRefusal, close_nexus, open_nexus};
use crate::nexus::initiator_port;
use crate::nodes::OtherPortal;

/// Longest text from a peer that an event repeats.
const WHY_LEN_MAX: usize = 200;
/// How long masu retries while an address is in use. The longest seen after a kill was 30 ms.
const LISTEN_TIME: Duration = Duration::from_secs(1);
const LISTEN_PAUSE: Duration = Duration::from_millis(20);

/// Opens a portal: listens, and serves whoever logs in.
///
/// # Errors
///
/// The address cannot be listened on.
pub(super) async fn open(
    controller: &Rc<Controller>,
    declared: &PortalConfig,
    index: usize,
) -> Result<Rc<OpenPort>, NetError> {
    let options = StreamOptions { segment_bytes_max: declared.segment_bytes_max };
    let listener = listen(controller, declared.listen, options).await?;
    let portal = Portal::new();
    let open = Rc::new(OpenPort {
        config: declared.clone(),
        index,
        portal_group: controller.portal_group(index),
        listen: listener.local(),
        front_end: Box::new(portal.clone()),
        traffic: Rc::default(),
    });
    let port = Rc::new(Port { controller: controller.clone(), open: open.clone() });
    let heeding = Rc::downgrade(&port);
    portal.observe(move |event| heeding.upgrade().into_iter().for_each(|port| port.heed(event)));
    let (world, target) = (controller.world.clone(), Rc::new(PortTarget(port)));
    controller.world.spawn(serve(world, listener, target, Limits::default(), portal));
    Ok(open)
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

impl FrontEnd for Portal {
    fn stop(&self) {
        Portal::stop(self);
    }

    fn disconnect(&self, world: &World, is_meant: &dyn Fn(&scsi::InitiatorPort) -> bool) {
        Portal::disconnect(self, world, |port| is_meant(&initiator_port(&port.name, port.isid)));
    }

    fn restart_logins(&self) {
        Portal::restart_logins(self);
    }

    fn sessions(&self) -> usize {
        Portal::sessions(self).len()
    }
}

impl From<SessionRefusal> for LoginRefusal {
    fn from(refusal: SessionRefusal) -> LoginRefusal {
        match refusal {
            SessionRefusal::UnknownInitiator => LoginRefusal::NotAllowed,
            SessionRefusal::Stopping => LoginRefusal::ServiceUnavailable,
        }
    }
}

/// An open port with its controller.
struct Port {
    controller: Rc<Controller>,
    open: Rc<OpenPort>,
}

impl Port {
    /// Raises events for logins and failures at the port. A successful discovery raises none.
    fn heed(&self, event: &target::Event) {
        match event {
            target::Event::LoginFailed { peer, initiator, is_discovery, is_refused: true, status, why } => {
                self.refused((peer, initiator), *is_discovery, (*status, why));
            }
            target::Event::Opened { peer, initiator, target: Some(_) } => {
                let (object, is_host) = self.object_of(&initiator.name);
                let text = format!("{} at {} logged in at {}", initiator.name, peer.ip(), self.open.listen);
                self.controller.events.tell(Event::info(object, text), is_host);
            }
            target::Event::Closed { peer, initiator, target: Some(_), why } => {
                let (object, is_host) = self.object_of(&initiator.name);
                let (name, peer, why) = (&initiator.name, peer.ip(), printable(why));
                let text = format!("the session of {name} at {peer} with {} ended: {why}", self.open.listen);
                self.controller.events.tell(Event::info(object, text), is_host);
            }
            _ => {}
        }
    }

    fn refused(
        &self,
        (peer, initiator): (&SocketAddr, &str),
        is_discovery: bool,
        (status, why): (Option<(u8, u8)>, &str),
    ) {
        let (object, is_its_own) = self.object_of(initiator);
        let is_host = object.starts_with("host ");
        let what = if is_discovery { "discovery" } else { "a login" };
        let (peer, why) = (peer.ip(), printable(why));
        let text = format!("{what} from {peer} at {} was refused: {why}", self.open.listen);
        let (controller, now) = (&self.controller, self.controller.world.now());
        controller.state.borrow_mut().refusals.add(&object, is_host, (status, text.clone()), now);
        controller.events.tell(Event::warning(object, text), is_its_own);
    }

    /// The object of an event about an initiator, and whether a declared host has exactly this initiator
    /// name.
    fn object_of(&self, initiator: &str) -> (String, bool) {
        match self.controller.config().host_of(initiator) {
            _ if initiator.is_empty() => (format!("port {}", self.open.listen), false),
            // If the host accepts any name, names can be invented, as for undeclared initiators.
            Some(host) => (format!("host {}", host.name), host.initiator == initiator),
            None => (format!("initiator {initiator}"), false),
        }
    }
}

/// Text from a peer without control characters, limited in length.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WHY_LEN_MAX).collect()
}

/// One host's session at a port. Dropping it ends the nexus at every controller.
struct HostSession {
    port: Rc<Port>,
    seen: Rc<Seen>,
}

impl AsRef<View<Disk>> for HostSession {
    fn as_ref(&self) -> &View<Disk> {
        &self.seen.view
    }
}

impl Drop for HostSession {
    fn drop(&mut self) {
        close_nexus(&self.port.controller, &self.seen);
    }
}

/// Implements iSCSI's `Target` for the shared port.
#[derive(Clone)]
struct PortTarget(Rc<Port>);

fn secret(chap: &ChapConfig) -> Secret {
    Secret { name: chap.name.clone(), secret: chap.secret.clone() }
}

impl Target for PortTarget {
    type View = View<Disk>;
    type Nexus = HostSession;

    fn discover(&self, initiator: &str, at: SocketAddr) -> Vec<(String, Vec<(SocketAddr, u16)>)> {
        let (config, nodes) = (self.0.controller.config(), self.0.controller.state().nodes.clone());
        if config.host_of(initiator).is_none() {
            return Vec::new();
        }
        // A portal on the wildcard address is reported with the address that the initiator used.
        let reached = |(i, portal): (usize, &PortalConfig)| {
            let own = i == self.0.open.index;
            let port = if own { self.0.open.listen.port() } else { portal.listen.port() };
            let ip = if portal.listen.ip().is_unspecified() { at.ip() } else { portal.listen.ip() };
            (SocketAddr::new(ip, port), nodes.portal_group(i))
        };
        let mut portals: Vec<_> = nodes.portals(&config).iter().enumerate().map(reached).collect();
        for OtherPortal { listen, portal_group, .. } in &nodes.others {
            if !portals.iter().any(|(address, _)| address == listen) {
                portals.push((*listen, *portal_group));
            }
        }
        vec![(config.target.clone(), portals)]
    }

    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal> {
        let config = self.0.controller.config();
        if target.is_some_and(|t| t != config.target) {
            return Err(LoginRefusal::NotFound);
        }
        let host = config.host_of(initiator).ok_or(LoginRefusal::NotAllowed)?;
        if target.is_none() && !config.discovery_chap {
            // Discovery reveals only target name and portals to a known host. Initiators keep separate
            // credentials for it, which operators rarely set.
            return Ok(None);
        }
        Ok(host
            .chap
            .as_ref()
            .map(|own| Chap { host: secret(own), target: host.mutual_chap.as_ref().map(secret) }))
    }

    fn portal_group(&self) -> u16 {
        self.0.open.portal_group
    }

    fn admits(&self, relayed: &Relayed) -> bool {
        let (config, nodes) = (self.0.controller.config(), self.0.controller.state().nodes.clone());
        nodes.relay_keys.contains(&relayed.key)
            && relayed.portal_group != 0
            && !nodes.is_own(relayed.portal_group, nodes.portals(&config).len())
    }

    fn open(
        &self,
        initiator: &InitiatorPort,
        target: &str,
        portal_group: u16,
    ) -> Result<HostSession, LoginRefusal> {
        if target != self.0.controller.config().target {
            return Err(LoginRefusal::NotFound);
        }
        let controller = &self.0.controller;
        let port = self.0.open.traffic.clone();
        let seen = open_nexus(controller, &initiator.name, initiator.isid, portal_group, port)?;
        Ok(HostSession { port: self.0.clone(), seen })
    }
}
