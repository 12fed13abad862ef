//! Controllers of the array that other nodes run.
//!
//! ```text
//!  owner n1: control plane, controller 0 ══ TLS: messages, terms ══ node n2: controller 1, its own portals
//!        │                                                              │
//!        └── when n2 is gone: fences its drives, runs controller 1 ─────┴── when n1 is gone: stops it in order
//! ```
//!
//! * A standby connects to the owner's node port and offers to run controllers (`offering.rs`). The owner
//!   assigns those that the declaration gives to this node ([`cluster::lending::of_node`]), and everything
//!   that one controller says to another crosses in frames (`frames.rs`).
//! * A node claims the drives of its controllers before they begin, for 15 s at most. If it cannot, it says
//!   so, and they begin at the owner again. While controllers run nowhere, the array changes without them.
//! * The owner ([`Lending`]) opens nothing of such a controller meanwhile. When the connection breaks, it
//!   waits for the end of the term that it gave, fences the drives, and runs the controller itself.
//! * A node serves only within a term that the owner gave, which is within the owner's own
//!   ([`cluster::lending::Terms`]).

mod claim;
pub(super) mod frames;
mod lending;
mod offering;
mod wire;

use tokio::sync::watch;

pub(super) use lending::Own;
pub(in crate::daemon) use lending::{Lending, Served};
pub(super) use offering::{About, Offering, Turn};

/// Returns when it is told to end.
async fn told(end: &mut watch::Receiver<bool>) {
    // Who would say so is gone: that is the end, too.
    let _ = end.wait_for(|end| *end).await;
}

/// Controllers as records have them.
fn numbers(controllers: &[usize]) -> Vec<u16> {
    controllers.iter().filter_map(|index| u16::try_from(*index).ok()).collect()
}

/// These controllers in words.
fn name_of(controllers: &[u16]) -> String {
    let names: Vec<String> = controllers.iter().map(ToString::to_string).collect();
    let word = if names.len() == 1 { "controller" } else { "controllers" };
    format!("{word} {}", names.join(", "))
}

/// What a node does that runs these controllers.
pub(super) fn text_of(controllers: &[u16]) -> String {
    format!("runs {}", name_of(controllers))
}
