//! Controllers of the array that other nodes than the owner run, as the processes of `masu` do it: the
//! decisions are [`cluster::lending`]'s, and what changes a place is [`array::Array::change_places`] over an
//! [`array::Exchange`]; here are the tasks between them, on the modelled network.
//!
//! ```text
//!  owner: serve (owner.rs) ── Lender (lender.rs) ══ node port ══ Offering (offering.rs): a standby
//!                               └── node is gone: taking_back.rs
//! ```

mod frames;
mod lender;
mod offering;
mod owner;
mod peer;
mod taking_back;
mod threads;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use cluster::Clock;
use futures::future::{Either, select};
use world::{Instant, World};

pub(super) use offering::Offering;
pub(super) use owner::serve;

use super::bed::Bed;
use super::node::{Node, Told};

/// Where an owner hears of other nodes.
const NODE_PORT: u16 = 7000;

pub(crate) fn node_port(at: Ipv4Addr) -> SocketAddr {
    SocketAddr::from((at, NODE_PORT))
}

/// One life of a node's process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) node: Rc<Node>,
    pub(super) bed: Rc<Bed>,
    pub(super) world: World,
    pub(super) clock: Clock,
    pub(super) told: Rc<Told>,
}

impl Process {
    fn now(&self) -> Instant {
        (self.clock.steady)()
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        self.bed.shared.tell(|| format!("{:?}: {}: {}", self.world.now(), self.node.name, text()));
    }

    fn number(&self) -> Option<u16> {
        self.told.state.borrow().as_ref()?.number
    }
}

/// What a call gives, if that comes in time.
async fn within<T>(world: &World, time: Duration, call: impl Future<Output = T>) -> Option<T> {
    match select(pin!(call), pin!(world.sleep(time))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}
