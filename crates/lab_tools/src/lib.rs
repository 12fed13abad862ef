//! The tools of the laboratory: what two verifications need, and none of them owns.
//!
//! ```text
//!   cli ──> load: one load alone             files: file sets            drives: files of modelled drives
//!   testbed: an array in either world        hosts ── iSCSI ──> LUs      datastore: on LUs, shared by hosts
//!   samplers: counters on one clock          compare: two runs           predict ──> mva: a forecast
//! ```
//!
//! It drives real arrays with real sessions and knows nothing of their implementation: it judges by what a
//! host sees, what the kernel counts, and the counters that the array reports. It knows no verification.

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
pub mod datastore;
pub mod drives;
pub mod files;
pub mod hosts;
pub mod load;
pub mod lu;
pub mod mva;
pub mod predict;
pub mod samplers;
pub mod testbed;
