//! The rule of ownership: pure, with the time as an argument.

use registry::{LeaseId, Version};
use world::Instant;

use crate::{EPOCH_MAX, NodeRecord, OWN_TIME, OwnerRecord, Waits};

/// How long an owner may serve: until [`OWN_TIME`] after it sent its last successful renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    until: Instant,
}

impl Term {
    /// A term whose lease was granted by a call that was sent then.
    pub fn granted(sent: Instant) -> Term {
        Term { until: sent + OWN_TIME }
    }

    /// A renewal that was sent then has succeeded. False: the term has passed meanwhile, and does not come
    /// back.
    pub fn renewed(&mut self, sent: Instant, now: Instant) -> bool {
        if now >= self.until {
            return false;
        }
        self.until = self.until.max(sent + OWN_TIME);
        true
    }

    /// Whether an owner may serve now.
    pub fn holds(&self, now: Instant) -> bool {
        now < self.until
    }

    /// The end.
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// What this node owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Of the record that it has written.
    pub version: Version,
    /// Of its ownership: later owners have higher ones.
    pub epoch: u64,
}

/// What a node has seen in the registry at its last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The owner's record.
    pub owner: Option<(Version, OwnerRecord)>,
    /// Whether the lease in it lives.
    pub owner_lives: bool,
    /// Whether this node has handed over a short time ago, and others live.
    pub moved_away: bool,
    /// The living node to which the array was moved a short time ago, if it is another one.
    pub left_to: Option<String>,
    /// The record of the owner's node, if it is another one: where a standby leads its connections to.
    pub owner_node: Option<NodeRecord>,
}

/// Why an owner stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Lost {
    /// No renewal succeeded in time.
    #[error("the lease was not renewed in time")]
    Late,
    /// The registry has ended the lease.
    #[error("the lease has expired in the registry")]
    Expired,
    /// Its record was replaced, or deleted.
    #[error("the registry names {} as the owner", .by.as_deref().unwrap_or("nobody"))]
    Replaced { by: Option<String> },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Step {
    Wait(Waits),
    /// Compare and put this record.
    Take {
        expected: Option<Version>,
        epoch: u64,
    },
    /// It owns the array.
    Serve(Held),
    Stop(Lost),
}

/// What a node with a lease that lives is to do. `seen` is the highest epoch that it has ever seen.
pub fn decide(lease: LeaseId, held: Option<Held>, look: &Look, seen: u64) -> Step {
    if let Some(held) = held {
        return match &look.owner {
            Some((version, _)) if *version == held.version => Step::Serve(held),
            // Put by itself in place of a damaged one, by a call that was not answered.
            Some((version, owner))
                if owner.node.is_some() && owner.lease == lease.0 && owner.epoch == held.epoch =>
            {
                Step::Serve(Held { version: *version, ..held })
            }
            Some((_, owner)) => Step::Stop(Lost::Replaced { by: owner.node.clone() }),
            None => Step::Stop(Lost::Replaced { by: None }),
        };
    }
    let found = look.owner.as_ref().map_or(0, |(_, owner)| owner.epoch);
    if found < seen {
        return Step::Wait(Waits::Older { found, seen });
    }
    match &look.owner {
        None => Step::Take { expected: None, epoch: 1 },
        // Its own attempt, which was not answered: nothing was served with it yet.
        Some((version, owner)) if owner.node.is_some() && owner.lease == lease.0 => {
            Step::Serve(Held { version: *version, epoch: owner.epoch })
        }
        Some((_, OwnerRecord { node: Some(node), epoch, .. })) if look.owner_lives => {
            Step::Wait(Waits::Owner { node: node.clone(), epoch: *epoch })
        }
        Some(_) if look.moved_away => Step::Wait(Waits::Moved),
        Some(_) if let Some(node) = &look.left_to => Step::Wait(Waits::Chosen { node: node.clone() }),
        Some((_, OwnerRecord { epoch: found, .. })) if *found >= EPOCH_MAX => {
            Step::Wait(Waits::LastEpoch { found: *found })
        }
        Some((version, owner)) => Step::Take { expected: Some(*version), epoch: owner.epoch + 1 },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seconds(at: u64) -> Instant {
        Instant(at * 1_000_000_000)
    }

    fn owner(node: Option<&str>, lease: u64, epoch: u64, lives: bool) -> Look {
        let record = OwnerRecord { node: node.map(Into::into), lease, epoch, ..OwnerRecord::default() };
        Look { owner: Some((Version(9), record)), owner_lives: lives, ..Look::default() }
    }

    #[test]
    fn a_term_counts_from_the_sending_and_never_comes_back() {
        let mut term = Term::granted(seconds(10));
        assert!(term.holds(seconds(14)) && !term.holds(seconds(15)));
        assert!(term.renewed(seconds(12), seconds(14)));
        assert_eq!(term.until(), seconds(12) + OWN_TIME);
        // An answer that overtook another one.
        assert!(term.renewed(seconds(11), seconds(14)));
        assert_eq!(term.until(), seconds(12) + OWN_TIME);
        assert!(!term.renewed(seconds(16), seconds(17)));
        assert!(!term.holds(seconds(17) + Duration::from_nanos(1)));
    }

    #[test]
    fn a_standby_takes_over_from_nobody_who_lives() {
        let me = LeaseId(1);
        let moved = |node| Look { left_to: Some("n3".into()), ..owner(node, 2, 4, true) };
        let take = |expected, epoch| Step::Take { expected, epoch };
        let rows = [
            (Look::default(), 0, take(None, 1)),
            (owner(Some("n2"), 2, 4, true), 0, Step::Wait(Waits::Owner { node: "n2".into(), epoch: 4 })),
            (owner(Some("n2"), 2, 4, false), 4, take(Some(Version(9)), 5)),
            (owner(None, 2, 4, true), 4, take(Some(Version(9)), 5)),
            (Look { moved_away: true, ..owner(None, 2, 4, true) }, 4, Step::Wait(Waits::Moved)),
            (moved(None), 4, Step::Wait(Waits::Chosen { node: "n3".into() })),
            // The registry is older than the array, whoever is to take it.
            (moved(None), 5, Step::Wait(Waits::Older { found: 4, seen: 5 })),
            // It has taken it already.
            (moved(Some("n3")), 4, Step::Wait(Waits::Owner { node: "n3".into(), epoch: 4 })),
            (Look { moved_away: true, ..moved(None) }, 4, Step::Wait(Waits::Moved)),
            (owner(Some("n1"), 1, 4, true), 0, Step::Serve(Held { version: Version(9), epoch: 4 })),
            // The node before this one had its name: another lease.
            (owner(Some("n1"), 7, 4, true), 0, Step::Wait(Waits::Owner { node: "n1".into(), epoch: 4 })),
            (owner(Some("n2"), 2, 4, false), 5, Step::Wait(Waits::Older { found: 4, seen: 5 })),
            (Look::default(), 1, Step::Wait(Waits::Older { found: 0, seen: 1 })),
            (owner(None, 2, EPOCH_MAX - 1, true), 0, take(Some(Version(9)), EPOCH_MAX)),
            (owner(None, 2, EPOCH_MAX, true), 0, Step::Wait(Waits::LastEpoch { found: EPOCH_MAX })),
            (owner(None, 2, u64::MAX, true), 0, Step::Wait(Waits::LastEpoch { found: u64::MAX })),
        ];
        for (look, seen, expected) in rows {
            assert_eq!(decide(me, None, &look, seen), expected, "{look:?}");
        }
    }

    #[test]
    fn an_owner_whose_record_was_replaced_stops() {
        let held = Held { version: Version(9), epoch: 4 };
        assert_eq!(decide(LeaseId(1), Some(held), &owner(Some("n1"), 1, 4, true), 4), Step::Serve(held));
        let held = Some(Held { version: Version(8), epoch: 4 });
        let again = Step::Serve(Held { version: Version(9), epoch: 4 });
        assert_eq!(decide(LeaseId(1), held, &owner(Some("n1"), 1, 4, true), 4), again);
        assert_eq!(
            decide(LeaseId(1), held, &owner(Some("n1"), 7, 4, true), 4),
            Step::Stop(Lost::Replaced { by: Some("n1".into()) }),
            "another process of its name"
        );
        let by = |by: Option<&str>| Step::Stop(Lost::Replaced { by: by.map(Into::into) });
        assert_eq!(decide(LeaseId(1), held, &owner(Some("n2"), 2, 5, true), 4), by(Some("n2")));
        assert_eq!(decide(LeaseId(1), held, &Look::default(), 4), by(None));
    }
}
