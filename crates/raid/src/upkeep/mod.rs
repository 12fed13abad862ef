//! Background work on a group while it serves: rebuild, scrub, resync.
//!
//! All of it advances in steps over the drives' data, locks the range of a step against writers, and asks a
//! [`Throttle`] after each step how long the foreground goes first.

mod rebuild;
mod resync;
mod scrub;
mod throttle;

pub use scrub::Scrubbed;
pub(crate) use throttle::Steps;
pub use throttle::{Go, Throttle, Turns, resync_pause};

/// Read or written on a drive at once: small enough to take some milliseconds, large enough for the full
/// speed of a drive. A step has one such piece per drive, or several where a mirror is copied; writers to its
/// range wait for it.
pub(crate) const STEP_LEN: u64 = 1 << 20;
