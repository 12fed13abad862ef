//! What would happen if a node failed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What would happen if the node that owns the array failed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failover {
    /// The owner.
    pub node: String,
    /// Those that could take over: the first that sees it does. None of them: hosts would wait.
    pub successors: Vec<String>,
    /// Why none could take over although others may live: the registry has damaged or lost something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How it went the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastFailover>,
    /// The same as a sentence.
    pub text: String,
}

/// A fail-over that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastFailover {
    /// `test`, or `take-over`: the owner was gone.
    pub kind: String,
    /// The owner before it.
    pub from: String,
    /// The owner after it.
    pub to: String,
    /// Until the new owner served: from the request of a test; of a take-over the time of the lease, and
    /// from its end.
    pub took_ms: u64,
    /// When: milliseconds since 1970.
    pub at_ms: u64,
}
