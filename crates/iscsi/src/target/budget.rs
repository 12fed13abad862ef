//! Memory for data: accounting per session, initiator name and source address.
//!
//! ```text
//!   a command's bytes ── first from the session's own ── then from the shared memory: within its free part,
//!                                                         and the limits of initiator name and source address
//! ```
//!
//! So a host that does not receive responses, or does not send data, takes memory from its own sessions only,
//! however many it has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Waker;

use super::limits::Limits;
use super::link::Link;

/// Shared memory held by one name or address.
type Account = Rc<Cell<u64>>;

/// The memory shared by all sessions of a portal.
#[derive(Default)]
pub(crate) struct PortalBudget {
    held: Cell<u64>,
    initiators: RefCell<BTreeMap<String, Account>>,
    sources: RefCell<BTreeMap<IpAddr, Account>>,
    waiting: RefCell<Vec<Waker>>,
}

impl PortalBudget {
    /// Whether a session waits for memory.
    pub(crate) fn is_pressed(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }
}

/// The memory of one session.
pub(crate) struct Budget {
    portal: Rc<PortalBudget>,
    initiator: (String, Account),
    source: (IpAddr, Account),
    /// Shared memory held by the session, for the portal's watch.
    shared: Account,
    /// Remaining memory of the session's own.
    own_free: u64,
    /// Remaining memory of the session in total.
    free: u64,
    /// Limit of what a single command counts.
    largest: u64,
    most: Most,
}

/// Limits of shared memory: in total, per name, per address.
#[derive(Clone, Copy)]
struct Most {
    portal: u64,
    initiator: u64,
    source: u64,
}

fn account<K: Ord + Clone>(accounts: &RefCell<BTreeMap<K, Account>>, of: &K) -> Account {
    accounts.borrow_mut().entry(of.clone()).or_default().clone()
}

/// Removes an account whose last user leaves.
fn forget<K: Ord>(accounts: &RefCell<BTreeMap<K, Account>>, (of, account): &(K, Account)) {
    if Rc::strong_count(account) == 2 {
        accounts.borrow_mut().remove(of);
    }
}

impl Budget {
    pub(crate) fn new(portal: Rc<PortalBudget>, link: &Link, initiator: &str, limits: &Limits) -> Budget {
        let most = Most {
            portal: limits.portal_data_bytes,
            initiator: limits.initiator_data_bytes,
            source: limits.source_data_bytes,
        };
        let own = limits.session_own_bytes.min(limits.session_data_bytes);
        let shared_max = most.portal.min(most.initiator).min(most.source);
        let source = link.peer().ip();
        Budget {
            initiator: (initiator.to_owned(), account(&portal.initiators, &initiator.to_owned())),
            source: (source, account(&portal.sources, &source)),
            shared: link.shared_bytes.clone(),
            portal,
            own_free: own,
            free: limits.session_data_bytes,
            largest: limits.session_data_bytes.min(own + shared_max),
            most,
        }
    }

    /// Takes `bytes`; if that fails, wakes `waker` when memory was returned. Returns the counted bytes.
    pub(crate) fn take(&mut self, bytes: u64, waker: Option<&Waker>) -> Option<u64> {
        let bytes = bytes.min(self.largest);
        if self.free < bytes {
            return None;
        }
        let own = bytes.min(self.own_free);
        if own < bytes && !self.share(bytes - own) {
            let mut waiting = self.portal.waiting.borrow_mut();
            if let Some(waker) = waker.filter(|w| !waiting.iter().any(|other| other.will_wake(w))) {
                waiting.push(waker.clone());
            }
            return None;
        }
        self.own_free -= own;
        self.free -= bytes;
        Some(bytes)
    }

    /// Takes shared memory, within the limits of name and address.
    fn share(&self, bytes: u64) -> bool {
        let accounts = [
            (&self.portal.held, self.most.portal),
            (&*self.initiator.1, self.most.initiator),
            (&*self.source.1, self.most.source),
        ];
        if accounts.iter().any(|(held, most)| held.get() + bytes > *most) {
            return false;
        }
        accounts.iter().for_each(|(held, _)| held.set(held.get() + bytes));
        self.shared.set(self.shared.get() + bytes);
        true
    }

    /// Returns bytes: shared memory first.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let shared = bytes.min(self.shared.get());
        self.free += bytes;
        self.own_free += bytes - shared;
        if shared > 0 {
            for held in [&self.portal.held, &*self.initiator.1, &*self.source.1, &*self.shared] {
                held.set(held.get() - shared);
            }
            for waker in self.portal.waiting.borrow_mut().drain(..) {
                waker.wake();
            }
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        forget(&self.portal.initiators, &self.initiator);
        forget(&self.portal.sources, &self.source);
    }
}
