//! Which node owns the array, and the state that follows it to the next owner.
//!
//! ```text
//!  node n1 ── lease ──┐                      ┌── nodes/n1    bound to n1's lease
//!                     ├──> registry (keys) ──┼── nodes/n2    bound to n2's lease
//!  node n2 ── lease ──┘                      └── owner/array {node, lease, epoch}: bound to nothing
//! ```
//!
//! * [`decide`] is the rule, and pure: from a look at the registry it says whether to wait, to take over, to
//!   serve or to stop. [`Term`] is how long an owner may serve.
//! * [`Member`] is a node as the rest of its process sees it; [`run`] is its task over a registry.
//! * [`Overview`] is what the registry has of all nodes, for who takes no part: whether the array can be
//!   moved, and to whom.
//! * [`successor`] is who comes after an owner that stops, seen by one that takes no part any more.
//! * [`lending`]: controllers that other nodes run for the owner.
//! * [`Kept`] keeps a text in the registry, such that only the owner of the newest epoch can replace it.
//!
//! **What cannot be read.** A node passes over records of other nodes that it cannot read, and says so once:
//! their writers may be damaged, or newer. It goes by no guess where ownership is at stake: while the owner's
//! record, or the state that follows it, cannot be read, nobody takes over.
//!
//! **What is guaranteed.** The owner serves until [`OWN_TIME`] after it *sent* its last successful renewal,
//! by its own clock; its lease ends [`LEASE_TIME`] after the registry received it, and only then another node
//! may take over. So no two nodes are within their terms at one instant, if no clock runs
//! [`DRIFT_PERCENT_MAX`] % faster or slower than true time. A lease is no fence: a process that stands still
//! between its check and its write writes late. The drives have to refuse it; see `docs/cluster.md`.

#![forbid(unsafe_code)]

mod agent;
mod bounds;
mod decide;
mod followed;
mod forecast;
mod kept;
pub mod lending;
mod member;
mod number;
mod overview;
mod raise;
mod record;
mod successor;
mod waits;

use std::time::Duration;

pub use agent::run;
pub use bounds::{EPOCH_MAX, NUMBERS_MAX, PORTALS_MAX, RAISED_EPOCH_MAX};
pub use decide::{Held, Look, Lost, Step, Term, decide};
pub use followed::Follows;
pub use forecast::Forecast;
pub use kept::{Kept, KeptError, TEXT_LEN_MAX, kept_text};
pub use member::{Clock, Member, Other, Standing, State};
pub use number::{portal_group, portal_of};
pub use overview::{Immovable, LookError, Overview};
pub use raise::{RaiseError, raise_epoch, restore_state};
pub use record::{
    Ask, AskRecord, LabelsRecord, MemberRecord, NodeRecord, NumberRecord, OwnerRecord, ServesRecord,
    TestRecord, certificates, put, wants_epoch,
};
pub use successor::{Successor, another_lives, successor};
pub use waits::Waits;

/// A node's lease.
pub const LEASE_TIME: Duration = Duration::from_secs(6);
/// An owner serves so long after it sent its last successful renewal.
pub const OWN_TIME: Duration = Duration::from_secs(5);
/// How far a clock may run from true time, fast or slow.
pub const DRIFT_PERCENT_MAX: u64 = 5;
/// Interval of renewals, and of looks at the owner. One without an answer is given up after 1 s: an owner
/// rides out 3 s without the registry.
pub const EVERY: Duration = Duration::from_millis(500);

// The slowest owner stops before the fastest registry ends its lease.
const _: () = assert!(
    OWN_TIME.as_millis() as u64 * (100 + DRIFT_PERCENT_MAX)
        < LEASE_TIME.as_millis() as u64 * (100 - DRIFT_PERCENT_MAX)
);

// A third node takes over before the one that has moved away may do it again.
const _: () = assert!(
    2 * EVERY.as_millis() < CHOSEN_TIME.as_millis() && 2 * CHOSEN_TIME.as_millis() < MOVE_TIME.as_millis()
);

/// The key of the owner of the whole array. Owners of pools will be beside it.
pub const OWNER: &str = "owner/array";
/// What its owner is asked to do, also by itself. Whoever watches the owner sees it: standbys lead no more
/// hosts to an owner that is to leave.
pub const ASK: &str = "owner/array/ask";
/// Which owner serves.
pub const SERVES: &str = "owner/array/serves";
/// Above which epoch the next owner must be: drives have it on their labels.
pub const LABELS: &str = "owner/array/labels";
/// The last test of a fail-over.
pub const TEST: &str = "tests/failover";
/// The last take-over from an owner that was gone.
pub const TAKE_OVER: &str = "tests/take-over";
/// Before the names of nodes whose lease lives.
pub const NODES: &str = "nodes/";
/// Before the names of all nodes that have joined and were not removed.
pub const MEMBERS: &str = "members/";
/// Before the numbers of nodes, in decimal.
pub const NUMBERS: &str = "numbers/";
/// Nodes leave an array that was moved to a named node to that one for so long, unless its lease has ended:
/// it takes over at once when it lives, and after two of its intervals when its watch fails.
pub const CHOSEN_TIME: Duration = Duration::from_secs(2);
/// A node that has handed over so that another one takes the array leaves it to the others for so long.
pub const MOVE_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
