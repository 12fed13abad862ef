//! Shares of one array for several hosts (nodes) that cannot see each other's load.
//!
//! ```text
//!  disk ──> Limiter: its share, its maximum ──> array          report: demand, service ──┐
//!             ^                                                                          v
//!  node ──────┴── shares in force <── registry <── leader: Estimate (capacity) ── qos::expected
//! ```
//!
//! * [`qos::expected`] is the formula, the floor included: what each disk is to get of a capacity.
//! * [`Estimate`] finds the capacity while the nodes work: a little more than it is granted, so that the
//!   array always has work, and what it serves is its capacity. `Room` knows by the `Curve` of what was
//!   served with more and fewer requests in flight whether less was served because the array is busy, and
//!   what a disk's requests bring it at most. `Deficits` correct each disk's rate by what it got more or
//!   less than its share, and `Grants` put minimums first. All pure, put together by `Divider`.
//! * [`Limiter`] holds each disk of a node to its share and its maximum, and measures what it asked for and
//!   got. While the array is slow, disks without a minimum yield at once (`Crowding`). Pure.
//! * [`Node`] is where requests wait; [`run`] is the task that reports to the registry and takes the shares
//!   that the leader among the nodes writes there, every [`EVERY`].
//!
//! A node that dies or hangs loses its lease, and with it its report: the leader gives its share to the
//! others. A registry that does not answer leaves the last shares in force, and [`Node::state`] says so; when
//! it answers again, they stay in force until all nodes are back, or their leases would have ended.
//! Rates are bytes per second; a request counts at least one unit.

#![forbid(unsafe_code)]

mod agent;
mod crowding;
mod curve;
mod deficit;
mod divide;
mod estimate;
mod grant;
mod limiter;
mod node;
mod record;
mod room;

use std::time::Duration;

pub use agent::{run, set_policies};
pub use crowding::Yields;
pub use estimate::{Estimate, Seen};
pub use limiter::{Limiter, Usage};
pub use node::{Admitted, Node, State, Store};
pub use record::{DiskReport, Grant, POLICIES, Report, SHARES, Shares};

/// How often nodes report, and the leader divides.
pub const EVERY: Duration = Duration::from_millis(500);
/// The lease of a node's report, and of the leader.
pub const LEASE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod tests;
