//! A guaranteed service for each of many clients of one array: who is served next. Pure decisions: `now` is an argument, time is integer
//! nanoseconds, work is bytes; nothing is read or written here.
//!
//! ```text
//!  clients (LUs) ──submit──> their queues ──┐
//!                              flows (tags) ├─ next: 1. minimums that are due   2. by weight, within maximums
//!                                           └──────> at most `depth` below ──complete──>
//! ```
//!
//! * A [`Policy`] is what a flow is promised; a *flow* has mClock tags, a *client* has a queue; an aggregated policy is one flow with many clients.
//! * [`Scheduler`] is one for everything that shares drives. `docs/decisions/0004-qos.md` has the rules and their reasons.
//! * [`expected`] is what it must converge to; [`shares`] and [`Tracker`] are for several schedulers before one array.

mod admission;
mod capacity;
mod coordinate;
mod depth;
mod expected;
mod flow;
mod health;
mod heap;
mod judge;
mod members;
mod order;
mod policy;
mod pressure;
mod queue;
mod scheduler;
mod service;
mod tag;

#[cfg(test)]
mod tests;

pub use admission::{Overcommitted, admit};
pub use capacity::Capacity;
pub use coordinate::{Elsewhere, Tracker, shares};
pub use expected::{Claim, Expected, expected};
pub use health::{Health, WINDOW_NS};
pub use members::{ClientCounts, ClientId};
pub use policy::{FlowId, Policy, PolicyError, RATE_MAX, WEIGHT_DEFAULT, WEIGHT_MAX};
pub use queue::{Phase, RequestId};
pub use scheduler::{DEPTH_MAX_DEFAULT, Dispatch, Next, Scheduler, Settings, UNIT_BYTES_DEFAULT};
