//! What controllers are told of the other nodes: the portals by which hosts reach the array there, and the
//! keys by which relays say at which portal a host is.

use std::collections::BTreeMap;
use std::sync::Arc;

use array::{Control, ControllerHandle, Nodes, OtherPortal, RelayKey, Withheld};
use cluster::{Other, State, portal_group};
use tokio::sync::watch;

use super::relay;

/// What portals take connections with that other nodes carry.
#[derive(Clone)]
pub(super) struct RelayKeys {
    /// Of those that came by TLS. No other process knows it.
    pub(super) own: RelayKey,
    /// Of those in the clear, of nodes of a version without TLS. It is in this node's record.
    pub(super) plain: RelayKey,
}

/// What controllers are told when it changes: the other nodes, the first controller that runs at each, and
/// what is withheld.
pub(super) struct Changes {
    pub(super) state: watch::Receiver<State>,
    pub(super) runs: watch::Receiver<BTreeMap<u16, usize>>,
    pub(super) withheld: watch::Receiver<Arc<Withheld>>,
}

/// Tells the controllers of all changes.
pub(super) async fn follow(changes: Changes, told: watch::Sender<Arc<Nodes>>, keys: RelayKeys) {
    let Changes { mut state, mut runs, mut withheld } = changes;
    loop {
        tokio::select! {
            Ok(()) = state.changed() => {}
            Ok(()) = runs.changed() => {}
            Ok(()) = withheld.changed() => {}
            else => return,
        }
        let withheld = withheld.borrow_and_update().clone();
        let (others, relay_keys) = {
            let state = state.borrow_and_update();
            (other_portals(&state, &runs.borrow_and_update()), keys.of(&state.others))
        };
        let last = told.borrow().clone();
        if (&others, &relay_keys, &withheld) == (&last.others, &last.relay_keys, &last.withheld) {
            continue;
        }
        if relay_keys.len() > last.relay_keys.len() {
            warn_of_older(&state.borrow().others);
        }
        told.send_replace(Arc::new(Nodes { others, relay_keys, withheld, ..Nodes::clone(&last) }));
    }
}

impl RelayKeys {
    /// Those that count beside these nodes.
    pub(super) fn of(&self, others: &[Other]) -> Vec<RelayKey> {
        let is_plain = others.iter().any(|other| other.certificate.is_none());
        [self.own.clone()].into_iter().chain(is_plain.then(|| self.plain.clone())).collect()
    }
}

fn warn_of_older(others: &[Other]) {
    for other in others.iter().filter(|other| other.certificate.is_none()) {
        tracing::warn!(
            "the node with the portals {} is of a version without TLS between nodes: what it carries for hosts is \
             not encrypted, and who reads it can connect as a node; update it, or remove it",
            other.portals.join(", ")
        );
    }
}

/// The portals of other nodes that hosts can connect to.
pub(super) fn other_portals(state: &State, runs: &BTreeMap<u16, usize>) -> Vec<OtherPortal> {
    let portals = state.others.iter().flat_map(|other| {
        other.portals.iter().enumerate().filter_map(|(index, text)| {
            let (listen, portal_group) = (text.parse().ok()?, portal_group(other.number, index));
            let (is_up, controller) = (other.is_up, runs.get(&other.number).copied());
            Some(OtherPortal { listen, portal_group, is_up, controller })
        })
    });
    portals.filter(|portal| relay::can_be_named(&portal.listen)).collect()
}

/// Tells a controller of the nodes whenever they have changed, and waits until it has heard it: one that is
/// slow hears of the latest alone. One that has stopped gets them with its next start.
pub(super) async fn keep_telling(controller: ControllerHandle, mut nodes: watch::Receiver<Arc<Nodes>>) {
    while nodes.changed().await.is_ok() {
        let latest = nodes.borrow_and_update().clone();
        let _ = controller.ask(Control::Nodes(latest)).await;
    }
}
