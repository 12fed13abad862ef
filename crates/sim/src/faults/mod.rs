//! Faults, one file for each kind. A fault draws whether and when it happens from the given random stream, so
//! that the same seed gives the same faults.
//!
//! * [`drives`]: a drive is slow, hangs, cannot read a range, dies. All of it must be survived.
//! * [`links`]: connections break. So must that.
//! * [`nodes`]: a node dies, stands still, loses the registry or hosts, and its writes are late.
//! * [`lies`]: what no array on such drives can survive; a run with it must fail.
//!
//! Power cuts, the death of the process and the loss of drives for good end a life: they are in `lives` and
//! `forks`.

pub(crate) mod drives;
pub(crate) mod lies;
pub(crate) mod links;
pub(crate) mod nodes;

use clap::ValueEnum;

/// A fault that is not among those of each run: mostly one that no array on such disks can survive, to prove
/// that the simulation detects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Only survivable faults.
    #[default]
    None,
    /// Flushes complete without effect.
    FlushLies,
    /// Every disk loses writes in every life.
    LostWrite,
    /// With --cluster: what an earlier owner of the drives has submitted lands, however late.
    NoFence,
    /// With --cluster: nothing of a node that has run controllers for the owner is fenced.
    NoLendingFence,
    /// With --cluster: a node that runs controllers for the owner does not compare its term.
    NoTerm,
    /// With --cluster: what was on its way to a node that is gone is delivered later.
    OldMessages,
    /// With --cluster: a drive of a mirror cannot be fenced at times, and writes of the node that has it are
    /// late. This is survived: the group begins without it.
    SomeFences,
    /// With --cluster: a node cannot claim the drives of controllers that it is to run, since another process
    /// on its machine holds them. This is survived: the owner has them back.
    HeldDrives,
}

impl Fault {
    /// Whether it is one of controllers that several nodes run.
    pub(crate) fn is_of_lending(self) -> bool {
        matches!(self, Fault::NoLendingFence | Fault::NoTerm | Fault::OldMessages)
    }
}
