//! The arithmetic of RAID 5 and 6, and nothing else: no I/O, no allocation, no other crate of the workspace.
//!
//! * [`Geometry`]: which drive holds which unit of a row (left-symmetric).
//! * [`Plan`]: what a write of parts of a row reads and writes, in the fewest drive operations.
//! * Kernels: P = Σ dₖ and Q = Σ gᵏ·dₖ over GF(2⁸) with polynomial 11Dh and g = 2, their updates, recovery of any one or
//!   two missing units, and the search for the one unit that does not fit.

#![deny(unsafe_code)]

mod geometry;
mod plan;

pub use geometry::{Geometry, Place, Role, WIDTH_MAX};
pub use plan::{Plan, Span, Way};
