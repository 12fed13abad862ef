//! A server of the Network Block Device protocol: fixed newstyle negotiation, simple replies, many requests in flight.
//!
//! ```text
//!  one connection:  reader ──requests──> workers (each one operation at a time) ──replies──> writer
//! ```
//!
//! It attaches an image, or any other device, locally, where a platform has a client (QEMU, nbd-client). It asks nobody who they are: it is
//! for addresses that only trusted clients reach.

mod negotiation;
mod serve;
#[cfg(test)]
mod tests;
mod wire;

pub use serve::{Export, serve};
