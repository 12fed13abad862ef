//! Controllers of the array that other nodes than the owner run, as the processes of `masu` do it: the
//! decisions are [`cluster::lending`]'s, and what changes a place is [`array::Array::change_places`] over an
//! [`array::Exchange`]; here are the tasks between them, on the modelled network.
//!
//! ```text
//!  owner: serve (owner.rs) ── Lender (lender.rs) ══ node port ══ Offering (offering.rs): a standby
//!                               └── node is gone: taking_back.rs
//! ```

mod changing;
mod frames;
mod lender;
mod offering;
mod owner;
mod peer;
mod process;
mod taking_back;
mod threads;
mod wire;

pub(super) use offering::Offering;
pub(super) use owner::serve;
pub(super) use process::Process;
pub(crate) use process::node_port;
pub(super) use taking_back::fence;
