//! Long work on a group while it serves: rebuilding a drive, scrubbing, bringing mirrors together after a power cut.
//!
//! All go in steps over the drives' data, take turns with the writers of the step's range, and ask a [`Throttle`] after each
//! step how long the foreground is to go first.

mod rebuild;
mod resync;
mod scrub;
mod throttle;

pub use scrub::Scrubbed;
pub(crate) use throttle::Steps;
pub use throttle::{Throttle, Turns};

/// What one step does of each drive: small enough that writers to it wait only some milliseconds, large enough that drives
/// read it at their full speed.
pub(crate) const STEP_LEN: u64 = 1 << 20;
