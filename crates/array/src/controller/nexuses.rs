//! The sessions of a controller, each with its view.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use scsi::{Elsewhere, Lun, NexusId, Owner, View};

use super::index::{Index, Whereabouts};
use super::state::Mapped;
use crate::config::{ChapConfig, HostConfig};
use crate::nexus::RemoteNexus;
use stack::Disk;

/// The view of one nexus on this controller, whether its session is at one of this controller's ports or at
/// another controller's.
pub(crate) struct Seen {
    pub(crate) nexus: RemoteNexus,
    /// The host's name in the array.
    pub(crate) host: String,
    /// What the host had to prove when it logged in.
    proof: Proof,
    /// The mapped LUs of this controller, and the LUNs of the others.
    pub(crate) view: View<Disk>,
    /// Whether the session is at a port of this controller.
    pub(crate) local: bool,
    /// The other controllers, by number, to which commands can cross; none if the commands have crossed
    /// already.
    owners: Vec<Rc<dyn Owner>>,
}

impl Seen {
    /// A nexus with an empty view. `owners` are the controllers to which its commands may cross; none for a
    /// nexus at another controller's port.
    pub(crate) fn new(
        nexus: RemoteNexus,
        host: Option<&HostConfig>,
        view: View<Disk>,
        owners: Option<Vec<Rc<dyn Owner>>>,
    ) -> Seen {
        let (local, owners) = (owners.is_some(), owners.unwrap_or_default());
        let name = host.map(|h| h.name.clone()).unwrap_or_default();
        let proof = host.map(Proof::of).unwrap_or_default();
        Seen { nexus, host: name, proof, view, local, owners }
    }

    /// The host of the session, if it is still the host that logged in and its proof is unchanged. Otherwise
    /// the session has no rights any more.
    pub(crate) fn host_in<'a>(&self, index: &Index<'a>) -> Option<&'a HostConfig> {
        let host = index.host_of(&self.nexus.initiator.name)?;
        (host.name == self.host && self.proof.is_asked_of(host)).then_some(host)
    }

    /// Updates the view: maps new LUs, unmaps removed ones, and leaves the others alone.
    pub(crate) fn update(&self, mapped: Mapped) {
        let (mut fresh, mut gone) = (mapped.here, Vec::new());
        for (lun, lu) in self.view.mapped() {
            match fresh.get(&lun) {
                Some(new) if Rc::ptr_eq(new, &lu) => _ = fresh.remove(&lun),
                _ => gone.push(lun),
            }
        }
        self.view.change(&gone, fresh);
        let unit = |(lun, at): (Lun, Whereabouts)| {
            let owner = self.owners.get(at.owner).cloned();
            Elsewhere { lun, key: at.key, block_bytes: at.block_bytes, owner }
        };
        self.view.set_elsewhere(mapped.elsewhere.into_iter().map(unit).collect());
        self.view.set_unavailable(mapped.unavailable);
    }
}

/// The CHAP settings of a host: its own proof, and the array's.
#[derive(Default)]
struct Proof {
    chap: Option<ChapConfig>,
    mutual: Option<ChapConfig>,
}

impl Proof {
    fn of(host: &HostConfig) -> Proof {
        Proof { chap: host.chap.clone(), mutual: host.mutual_chap.clone() }
    }

    fn is_asked_of(&self, host: &HostConfig) -> bool {
        self.chap == host.chap && self.mutual == host.mutual_chap
    }
}

/// So many nexuses of other controllers' ports are known to have ended: more than can end while a message of
/// one of them is on its way.
const ENDED_MAX: usize = 4096;

/// Where the number of the controller is in an identifier.
const CONTROLLER_SHIFT: u32 = 48;
/// Nexuses that a controller counts before the number of its life.
const COUNT_BITS: u32 = 32;

/// All nexuses that this controller serves.
#[derive(Default)]
pub(crate) struct Nexuses {
    by_id: BTreeMap<NexusId, Rc<Seen>>,
    next: u64,
    /// Of other controllers' ports, the oldest first.
    ended: VecDeque<NexusId>,
}

impl Nexuses {
    /// Counts from here: other controllers may know of nexuses of one that ran under this number before.
    pub(crate) fn begin_at(&mut self, life: u16) {
        self.next = u64::from(life) << COUNT_BITS;
    }

    /// An identifier that is unique in the array: the controller's number, its life, and a count.
    pub(crate) fn fresh_id(&mut self, controller: usize) -> NexusId {
        self.next += 1;
        NexusId((controller as u64) << CONTROLLER_SHIFT | self.next & ((1 << CONTROLLER_SHIFT) - 1))
    }

    /// All nexuses at the ports of another controller have ended.
    pub(crate) fn forget(&mut self, other: usize) {
        let is_its = |seen: &&Rc<Seen>| !seen.local && seen.nexus.id.0 >> CONTROLLER_SHIFT == other as u64;
        let ended: Vec<NexusId> = self.by_id.values().filter(is_its).map(|seen| seen.nexus.id).collect();
        ended.into_iter().for_each(|id| self.end(id));
    }

    pub(crate) fn get(&self, id: NexusId) -> Option<Rc<Seen>> {
        self.by_id.get(&id).cloned()
    }

    pub(crate) fn insert(&mut self, seen: Rc<Seen>) {
        self.by_id.insert(seen.nexus.id, seen);
    }

    pub(crate) fn remove(&mut self, id: NexusId) {
        self.by_id.remove(&id);
    }

    /// A session at another controller's port has ended: its commands here are aborted. What it still does
    /// there, such as a copy in the background, may send more: see [`Nexuses::has_ended`].
    pub(crate) fn end(&mut self, id: NexusId) {
        if let Some(seen) = self.by_id.remove(&id) {
            seen.view.end_nexus();
        }
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(id);
    }

    /// Whether it must not be created any more: nobody would end it again, with what it reserves.
    pub(crate) fn has_ended(&self, id: NexusId) -> bool {
        self.ended.contains(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Seen>> {
        self.by_id.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_of_a_controller_have_nexuses_of_their_own() {
        let ids = |life| {
            let mut nexuses = Nexuses::default();
            nexuses.begin_at(life);
            (0..3).map(|_| nexuses.fresh_id(2)).collect::<Vec<_>>()
        };
        for (a, b) in [(0, 1), (7, u16::MAX)] {
            assert!(ids(a).iter().all(|id| !ids(b).contains(id) && id.0 >> CONTROLLER_SHIFT == 2));
        }
    }

    #[test]
    fn the_last_sessions_that_ended_are_known_and_no_more_are_kept() {
        let mut nexuses = Nexuses::default();
        let ids: Vec<NexusId> = (0..ENDED_MAX + 10).map(|_| nexuses.fresh_id(1)).collect();
        for id in &ids {
            assert!(!nexuses.has_ended(*id));
            nexuses.end(*id);
            assert!(nexuses.has_ended(*id));
        }
        assert_eq!(nexuses.ended.len(), ENDED_MAX);
        assert!(nexuses.has_ended(ids[10]) && !nexuses.has_ended(ids[9]));
    }
}
