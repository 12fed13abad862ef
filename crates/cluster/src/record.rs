//! What nodes write to the registry about themselves and about ownership, as TOML.

use registry::RecordError;
use registry::record::{decode, encode};
use serde::{Deserialize, Serialize};

/// A node, as long as its lease lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Where it serves hosts when it is the owner.
    #[serde(default)]
    pub portals: Vec<String>,
    /// Of its program.
    #[serde(default)]
    pub version: String,
    /// When it joined: milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// The lease that it is bound to. Two processes of one name differ in it.
    pub lease: u64,
}

/// Who owns something. Not bound to a lease: its epoch must never be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// None: the last owner has handed it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who has handed it over so that another node takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_by: Option<String>,
    /// The owner's lease: when it has ended, any node may take over.
    #[serde(default)]
    pub lease: u64,
    /// Raised by one with each owner.
    pub epoch: u64,
    /// When it began: milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
}

/// A node that has joined at least once. Not bound to a lease: hosts are to find its portals also while it
/// is down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Where it serves hosts when it is the owner, and lets them through to the owner when it is not.
    #[serde(default)]
    pub portals: Vec<String>,
    /// Of its program.
    #[serde(default)]
    pub version: String,
    /// When it joined last: milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
}

/// What the owner of an epoch is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// To hand over in order.
    Drain,
    /// To end at once without handing over, as if it had crashed.
    Crash,
}

/// A request to the owner. It holds for one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct AskRecord {
    pub ask: Ask,
    pub epoch: u64,
}

/// Says that the owner of this epoch serves hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ServesRecord {
    pub node: String,
    pub epoch: u64,
}

/// The last test of a fail-over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct TestRecord {
    pub from: String,
    pub to: String,
    /// From the request until the new owner served.
    pub took_ms: u64,
    /// When: milliseconds since 1970.
    pub at_ms: u64,
}

impl NodeRecord {
    /// For the registry.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// A value that is not a node.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<NodeRecord, RecordError> {
        decode(key, bytes)
    }
}

impl OwnerRecord {
    /// For the registry.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// A value that is not an owner.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<OwnerRecord, RecordError> {
        decode(key, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_registry_and_damaged_ones_are_errors() {
        let node =
            NodeRecord { portals: vec!["[::1]:3260".into()], version: "1".into(), since_ms: 5, lease: 7 };
        assert_eq!(NodeRecord::decode("k", &node.encode()), Ok(node));
        for node in [None, Some("n1".to_owned())] {
            let owner = OwnerRecord { node, left_by: None, lease: 3, epoch: 4, since_ms: 5 };
            assert_eq!(OwnerRecord::decode("k", &owner.encode()), Ok(owner));
        }
        for bad in [&b"\xff"[..], b"epoch = -1", b"nonsense", b""] {
            assert!(OwnerRecord::decode("owner/array", bad).is_err());
            assert!(NodeRecord::decode("nodes/n1", bad).is_err());
        }
    }
}
