//! The laboratory: loads, scenarios, measurements, checks and reports.
//!
//! ```text
//!   verify ── scenario ──> vaai ──> embedded array ─┐
//!                           │   └─> hosts ── iSCSI ─┘
//!                           │         └── datastore
//!                           └──> stats ──> results, report
//!   cli ──> load: one load alone
//! ```
//!
//! It drives real arrays with real sessions and knows nothing of their implementation: it judges by what a
//! host sees, what the kernel counts, and the counters that the array reports.

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory stands outside the worlds: it starts threads, reads files and clocks"
)]

pub mod attached;
pub mod cli;
pub mod compare;
mod datastore;
pub mod diskstress;
pub mod drives;
pub mod files;
pub mod fileserver;
mod hosts;
pub mod load;
pub mod lu;
pub mod mva;
pub mod predict;
pub mod qos;
pub mod run;
pub mod samplers;
pub mod sanboot;
mod testbed;
pub mod vaai;
pub mod verify;
