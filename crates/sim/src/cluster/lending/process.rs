//! One life of a node's process.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use cluster::Clock;
use futures::future::{Either, select};
use world::{Instant, World};
use world_model::Machine;

use crate::cluster::bed::Bed;
use crate::cluster::node::{Node, Told};

/// Where an owner hears of other nodes.
const NODE_PORT: u16 = 7000;

pub(crate) fn node_port(at: Ipv4Addr) -> SocketAddr {
    SocketAddr::from((at, NODE_PORT))
}

/// One life of a node's process.
#[derive(Clone)]
pub(in crate::cluster) struct Process {
    pub(in crate::cluster) node: Rc<Node>,
    pub(in crate::cluster) bed: Rc<Bed>,
    pub(in crate::cluster) machine: Machine,
    pub(in crate::cluster) world: World,
    pub(in crate::cluster) clock: Clock,
    pub(in crate::cluster) told: Rc<Told>,
}

impl Process {
    pub(super) fn now(&self) -> Instant {
        (self.clock.steady)()
    }

    pub(super) fn tell(&self, text: impl FnOnce() -> String) {
        self.bed.shared.tell(|| format!("{:?}: {}: {}", self.world.now(), self.node.name, text()));
    }

    pub(super) fn number(&self) -> Option<u16> {
        self.told.state.borrow().as_ref()?.number
    }
}

/// What a call gives, if that comes in time.
pub(super) async fn within<T>(world: &World, time: Duration, call: impl Future<Output = T>) -> Option<T> {
    match select(pin!(call), pin!(world.sleep(time))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}
