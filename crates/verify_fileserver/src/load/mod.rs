//! The load: workers that copy the files of their trees from the server and to it, on one client or on
//! several that begin at one moment.
//!
//! ```text
//!   cli ──> lead ── JSON lines over TCP ──> agent ──> client ──> worker ──> steps (what next)
//!    │        └─ clock (offset of each agent)           ^           └─────> share (a folder, or SMB)
//!    └──────────────── one client, here ────────────────┘
//! ```

#![expect(
    clippy::disallowed_types,
    reason = "clients are machines of their own, outside the worlds: files, sockets, clocks"
)]

mod agent;
pub mod cli;
mod client;
mod clock;
mod lead;
mod line;
mod outcome;
mod secret;
mod share;
mod smb;
mod steps;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

pub(crate) use client::run_here;
pub use outcome::Outcome;
pub(crate) use share::Address;
pub(crate) use steps::{Step, unit};
pub(crate) use wire::Part;
