//! Faults, one file for each thing that fails. A fault draws whether and when it happens from the random stream that it is given, and
//! does the same with the same seed.
//!
//! * [`drives`]: a drive is slow, hangs, cannot read a range, dies. All of it must be survived.
//! * [`links`]: connections break. So must that.
//! * [`lies`]: what no array on such drives can survive; a run with it must fail.
//!
//! Power cuts, the death of the process and the loss of drives for good end a life: they are in `lives` and `forks`.

pub(crate) mod drives;
pub(crate) mod lies;
pub(crate) mod links;

use clap::ValueEnum;

/// A fault that no array on such disks can survive: to see that the simulation finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Only what must be survived.
    #[default]
    None,
    /// Flushes complete and make nothing durable.
    FlushLies,
    /// In every life every disk loses writes.
    LostWrite,
}
