//! Nobody could take over.

use array::Severity;
use status::{Failover, Trouble};

use super::told::trouble;

/// An array of several nodes that no other node could take over now.
pub(super) fn of_failover(failover: &Failover, all: &mut Vec<Trouble>) {
    if !failover.successors.is_empty() {
        return;
    }
    let to_do = match &failover.fault {
        Some(_) => "repair the registry while this node serves: docs/cluster.md, \"How to lose data\"",
        None => "start another node, or see why it does not join: masu node list",
    };
    all.push(trouble(Severity::Warning, "array", "failover", failover.text.clone(), to_do));
}
