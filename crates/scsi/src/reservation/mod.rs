//! Reservations of a logical unit: persistent ones (SPC-5 5.14) and the older RESERVE and RELEASE (SPC-2).
//!
//! ```text
//!   CDB and parameter list ──> State (pure: no I/O) ──> Verdict
//!                                                         ├─ unit attentions for other nexuses
//!                                                         ├─ nexuses whose tasks are aborted
//!                                                         └─ the record to save, if it is kept
//! ```
//!
//! The logical unit works on a clone: it saves the record first, replaces the old state only if that
//! succeeded, and then raises the verdict's unit attentions. So a reservation that was acknowledged with
//! APTPL survives a power failure, one of an array of several nodes survives the node ([`Persistence`]), and
//! one that could not be saved never existed.

mod carried;
mod everywhere;
mod execute;
mod it_nexus;
mod kind;
mod legacy;
mod out;
mod preempt;
mod record;
mod register;
mod report;
mod reservations;
mod state;
#[cfg(test)]
mod tests;
mod transport_id;
#[cfg(test)]
mod wire_tests;

pub(crate) use execute::{persistent_in, persistent_out, release, reserve};
pub(crate) use it_nexus::ItNexus;
pub use record::Persistence;
pub(crate) use reservations::Reservations;
pub(crate) use state::State;
