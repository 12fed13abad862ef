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
pub use throttle::{Go, Throttle, Turns};

/// What is read or written of a drive at once: small enough that it is done in some milliseconds, large enough that drives do it at their full speed.
/// A step has one such piece of each drive, or several where a mirror is copied; writers to its range wait for it.
pub(crate) const STEP_LEN: u64 = 1 << 20;
