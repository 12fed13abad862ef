//! The same on this machine: file servers on disks that grow and on fixed ones, in turn, each on a stack of
//! its own down to modelled drives that take their time; or the load alone against any directory.
//!
//! ```text
//!   run ──> kind (what is compared, how large) ──> stack ── attachment, system ──> a server of each kind
//!    └────> measure: one run of the load ──> claims, figures ──> report
//! ```

#![expect(clippy::disallowed_types, reason = "files and mounts of this machine, outside the worlds")]

mod attachment;
mod claims;
mod figures;
mod kind;
mod measure;
mod report;
mod run;
mod stack;
mod system;

pub use kind::Format;
pub use report::Recording;
pub(super) use report::present;
pub(super) use run::play;
