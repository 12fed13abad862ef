//! The nodes of an array.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node. Of an array of several, all nodes say the same of it: what the registry has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name; `this` in an array of one.
    pub name: String,
    /// `owner`, `standby`, `down`, or `lost`: the last owner, whose lease has ended.
    pub role: String,
    /// Whether it is the node that answers.
    pub is_this: bool,
    /// Whether it would take over if the owner failed: it is a standby whose lease lives, without a trouble.
    pub could_take_over: bool,
    /// Why it could not, as it says itself: it cannot write its data directory, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The epoch that it owns, of the owner.
    pub epoch: Option<u64>,
    /// How long its lease lives yet, in microseconds: a node that is well renews it every 0.5 s.
    pub lease_left_us: Option<u64>,
    /// Since when it has its lease; of one that is down, when it joined last. In milliseconds since 1970.
    pub since_unix_ms: Option<u64>,
    /// Where it serves hosts, or carries their connections to the owner.
    pub portals: Vec<String>,
    /// Of its program.
    pub version: Option<String>,
    /// The SHA-256 of the certificate by which the other nodes know it: what they carry to it is encrypted.
    /// None: of a version without TLS between nodes, or a node alone.
    pub certificate: Option<String>,
    /// Its threads that serve hosts, of the owner that answers.
    pub controllers: Option<usize>,
    /// The numbers of the array's controllers that it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<u16>,
    /// Seconds since it serves, of the owner that answers.
    pub uptime_s: Option<u64>,
}
