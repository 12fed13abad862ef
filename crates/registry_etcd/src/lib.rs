//! The registry in etcd, and which registry an address names.
//!
//! ```text
//!  controller's thread                      thread "etcd" (tokio)
//!  Etcd: Registry ──request──> Members ──gRPC──> one member of the cluster, the next one if it does not answer
//!        <──answer, or CALL_TIME_MAX──
//!        <──hints── follow (a watch, made again after every loss)
//! ```
//!
//! The messages are written by hand (`messages.rs`) and travel by `tonic`. Two other ways were rejected:
//! * `etcd-client` generates them when it is built, and needs `protoc` for that, which a machine with only
//!   Rust does not have. It also creates no watch again after a reconnect.
//! * etcd's JSON gateway needs fewer crates, but a member may not have it: a configuration file of etcd 3.4
//!   turns it off by default, and with `--client-cert-auth` it works only if the member's certificate is also
//!   one for clients.
//!
//! What the contract of [`registry::Registry`] rests on:
//! * A version is the revision of the key's last change. Revisions count all changes of the cluster, so that
//!   a key which was deleted returns with a larger one.
//! * Compare-and-put is one transaction, whose other branch reads the version that it found.
//! * A lease is granted by whole seconds, rounded up; etcd may grant more, by its election timeout. Its
//!   number is etcd's: its members make none twice.
//! * Reads are linearizable. What etcd does not limit is the number of leases.
//! * A change whose answer is missing is never sent again: whether it was made is unknown. Reads, renewals
//!   and revocations are asked again of the next member.

#![forbid(unsafe_code)]

mod access;
mod client;
mod credentials;
mod fault;
mod follow;
mod location;
mod members;
mod messages;
mod open;

pub use access::{Access, AccessError, AccessFiles, Login, read_secret};
pub use client::{Etcd, OpenError};
pub use location::{Address, Location, LocationError, MEMBERS_MAX, PORT, PREFIX};
pub use open::open;

#[cfg(test)]
mod tests;
