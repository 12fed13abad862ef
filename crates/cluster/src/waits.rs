//! Why a standby waits, and what a person can do about it.

use crate::{EPOCH_MAX, LABELS, OWNER, RAISED_EPOCH_MAX};

/// What to do about a state that is gone or damaged.
const RESTORE: &str = "put back that of the node that owned the array last: masu node restore-state";

/// Why a standby waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Waits {
    /// An owner has a lease that lives.
    Owner { node: String, epoch: u64 },
    /// This node has handed over, and another one that lives is to take over.
    Moved,
    /// The array was moved to this node, which is to take over.
    Chosen { node: String },
    /// The registry has an older epoch than one that this node has seen.
    Older { found: u64, seen: u64 },
    /// Drives have a later epoch on their labels: the registry's must be raised to this one.
    OlderThanDrives { found: u64, wanted: u64 },
    /// The registry has had an owner, and has no state.
    NoState { epoch: u64 },
    /// The state that follows the owner cannot be read.
    Damaged { cause: String },
    /// The last owner has the highest epoch that there is.
    LastEpoch { found: u64 },
    /// This node must not go on with the state that is there.
    Refuses { cause: String },
}

impl Waits {
    /// For a person.
    pub fn text(&self) -> String {
        match self {
            Waits::Owner { node, epoch } => format!("standby of {node} (epoch {epoch})"),
            Waits::Moved => "standby; another node is to take over".into(),
            Waits::Chosen { node } => format!("standby; {node} is to take over"),
            Waits::Older { found, seen } if *seen > RAISED_EPOCH_MAX => format!(
                "the registry is older than the array: it has epoch {found}, and this node has seen epoch {seen}; \
                 restore a newer registry, or put back the state of the node that owned the array last: masu node \
                 restore-state"
            ),
            Waits::Older { found: 0, seen } => format!(
                "the registry is older than the array: it names no owner, and this node has seen epoch {seen}; if it \
                 has the state, take it with `masu node raise-epoch {seen}`, or else {RESTORE}"
            ),
            Waits::OlderThanDrives { found, wanted } if *wanted >= EPOCH_MAX => format!(
                "drives have an epoch on their labels that no owner can follow ({EPOCH_MAX} or more), and the registry \
                 has epoch {found}: no owner of this array has written that; replace these drives and restore their \
                 data from a backup, then delete the key {LABELS}"
            ),
            Waits::OlderThanDrives { found, wanted } => format!(
                "the registry is older than the array: it has epoch {found}, and drives have a later one on their \
                 labels; restore a newer registry, or take this one with `masu node raise-epoch {wanted}`"
            ),
            Waits::Older { found, seen } => format!(
                "the registry is older than the array: it has epoch {found}, and this node has seen epoch {seen}; \
                 restore a newer registry, or take this one with `masu node raise-epoch {seen}`"
            ),
            Waits::NoState { .. } => {
                format!("the registry has had an owner, and has no state of the array; {RESTORE}")
            }
            Waits::LastEpoch { found } => format!(
                "the registry has epoch {found}, and no owner can have a higher one; if no owner had that, stop all \
                 nodes, delete the key {OWNER}, and {RESTORE}"
            ),
            Waits::Damaged { cause } => format!("{cause}; {RESTORE}"),
            Waits::Refuses { cause } => cause.clone(),
        }
    }
}
