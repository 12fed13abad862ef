//! A sweep: the scenario again with other values of its inputs, and which claims hold there.
//!
//! ```text
//!   [[range]] of the scenario ──> design (Sobol' points over all ranges; each input alone)
//!   design ──> text with these values ──> load, play, claims: the verification's own ──> judged by the scenario's bounds
//!   judged points ──> summary (shares, ranges of estimates, which input decides) ──> results.json, report, sweep.csv
//! ```
//!
//! The bounds of the scenario never change in a sweep. Every point has the same seed.

pub mod decide;
mod design;
mod play;
mod record;
mod show;
pub mod sobol;
mod summary;

pub use play::{SweepError, check, sweep};
pub use record::{AloneRecord, ClaimRecord, DeciderRecord, RangeRecord, ShareRecord, SweepRecord};
pub use show::{page, sentence, terminal};

/// Points over all ranges together, unless the command line asks for others.
pub const POINTS_DEFAULT: u32 = 64;
/// As many as it may ask for.
pub const POINTS: std::ops::RangeInclusive<u32> = 8..=4096;
