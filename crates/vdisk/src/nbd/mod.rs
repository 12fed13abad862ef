//! A server of the Network Block Device protocol: fixed newstyle negotiation, simple replies, many requests
//! in flight.
//!
//! ```text
//!  one connection:  reader ──requests──> workers (each one operation at a time) ──replies──> writer
//! ```
//!
//! It serves an image, or any other device, to local clients (QEMU, nbd-client). It has no authentication:
//! use it on addresses that only trusted clients reach.

mod negotiation;
mod serve;
#[cfg(test)]
mod tests;
mod wire;

pub use serve::{Export, serve};
