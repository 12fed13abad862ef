//! QoS: a scheduler for each pool, between its LUs and the cache, and one for all images of a controller.
//!
//! ```text
//!  Disk::read ──> Gate (of its LU) ──enter──> Service (of the pool): who is next? ──Permit──> cache, volume
//!  jobs, rebuilds ──> Gate of background work ──┘
//! ```
//!
//! While no policy is in force in a pool, its gates are open: an operation reads one flag. Otherwise an
//! operation holds a permit from its turn until it ends; dropping a waiting operation withdraws it. `qos`
//! decides; this module has the waiting tasks and the clock.
//!
//! An aggregated policy with volumes in several schedulers has a part in each. The first controller divides
//! it (`divide`) and sends the parts to all; each says what is asked of them (`parts`).

mod apply;
mod divide;
mod judge;
mod parts;
mod standing;

pub(crate) use apply::{image_gate, open_service, set_policies};
pub(crate) use parts::take_parts;
pub(crate) use standing::{below_minimum, qos_of, schedulers_status};
