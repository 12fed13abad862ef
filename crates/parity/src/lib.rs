//! The arithmetic of RAID 5 and 6, and nothing else: no I/O, no allocation, no other crate of the workspace.
//!
//! * [`Geometry`]: which drive holds which unit of a row (left-symmetric).
//! * [`Plan`]: what a write of parts of a row reads and writes, in the fewest drive operations.
//! * Kernels: P = Σ dₖ and Q = Σ gᵏ·dₖ over GF(2⁸) with polynomial 11Dh and g = 2 ([`p`], [`pq`]), their
//!   updates by a delta ([`xor_into`], [`mul_xor_into`]), [`recover`]y of any one or two missing units, and
//!   whether a row fits ([`fits`]) or which unit does not ([`locate`]).

#![deny(unsafe_code)]

mod field;
mod fit;
mod geometry;
mod kernels;
mod plan;
mod portable;
mod recover;
mod simd;

#[cfg(test)]
mod oracle_tests;

pub use field::q_coefficient;
pub use fit::{Fit, fits, locate};
pub use geometry::{Geometry, Place, Role, WIDTH_MAX};
pub use kernels::{mul_xor_into, p, pq, q, xor_into};
pub use plan::{Plan, Span, Way};
pub use recover::{TooFewUnits, Unit, recover};
