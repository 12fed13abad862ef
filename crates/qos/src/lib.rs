//! QoS for the clients of one array: selects the next request to serve. All decisions are pure: `now` is an
//! argument, time is integer nanoseconds, work is bytes; there is no I/O.
//!
//! ```text
//!  clients (LUs) ──submit──> their queues ──┐
//!                              flows (tags) ├─ next: 1. minimums that are due   2. by weight, within maximums
//!                                           └──────> at most `depth` below ──complete──>
//! ```
//!
//! * A [`Policy`] states the minimum and maximum of a flow; a *flow* has mClock tags, a *client* has a queue;
//!   an aggregated policy is one flow with many clients.
//! * One [`Scheduler`] serves everything that shares drives. `docs/decisions/0004-qos.md` has the rules and
//!   their reasons.
//! * A policy whose volumes are in several schedulers has a [`Part`] in each; [`Divider`] says which, by what
//!   they tell of themselves.
//! * [`expected`] computes the service that it must converge to; [`shares`] and [`Tracker`] coordinate
//!   several schedulers in front of one array.

mod admission;
mod capacity;
mod ceiling;
mod coordinate;
mod curve;
mod depth;
mod divide;
mod expected;
mod flow;
mod found;
mod health;
mod heap;
mod judge;
mod knee;
mod members;
mod order;
mod overcommit;
mod part;
mod policy;
mod pressure;
mod queue;
mod scheduler;
mod series;
mod service;
mod slices;
mod tag;
mod tell;
mod turn;

#[cfg(test)]
mod tests;

pub use admission::{Overcommitted, admit};
pub use capacity::Capacity;
pub use ceiling::Ceiling;
pub use coordinate::{Elsewhere, Tracker, shares};
pub use depth::DepthLimit;
pub use divide::{Divider, Parts, ROUND_NS, SILENT_NS, Spread};
pub use expected::{Claim, Expected, FLOOR_PERCENT_DEFAULT, expected, expected_with_floor, reach};
pub use found::{Found, FoundRate, FoundShallower};
pub use health::{Health, Lack, WINDOW_NS};
pub use members::{ClientCounts, ClientId};
pub use part::{Part, PartUse, Room, Slice, Terms};
pub use policy::{FlowId, Policy, PolicyError, RATE_MAX, WEIGHT_DEFAULT, WEIGHT_MAX};
pub use queue::{Phase, RequestId};
pub use scheduler::{DEPTH_MAX_DEFAULT, Dispatch, Next, Scheduler, Settings, UNIT_BYTES_DEFAULT};
