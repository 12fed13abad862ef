//! `masu run`: a scenario of a user's own. What is compared, what the hosts do, when what changes, and what
//! is claimed are all said in one file.
//!
//! ```text
//!   scenario (keys) ──> read (names, lines, loads, asked) ──> plan ──> runs: each array, each repeat, each count of a search
//!                                                                             │
//!   testbed: modelled drives, real ones, or --target ─────────────────────────┴──> play ──> course ──> recording
//!   recording ──> claims (measures), figures ──> report
//! ```

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]

mod asked;
mod claims;
pub mod cli;
mod course;
mod figures;
mod limits;
mod lines;
mod loads;
mod names;
pub mod plan;
mod play;
mod read;
mod recording;
mod report;
mod runs;
pub mod scenario;
mod search;
mod testbed;
mod words;

/// The verification.
pub struct Run;

#[cfg(test)]
mod tests;
