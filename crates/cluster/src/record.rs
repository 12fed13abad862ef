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
    /// The owner's lease: when it has ended, any node may take over.
    #[serde(default)]
    pub lease: u64,
    /// Raised by one with each owner.
    pub epoch: u64,
    /// When it began: milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
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
            let owner = OwnerRecord { node, lease: 3, epoch: 4, since_ms: 5 };
            assert_eq!(OwnerRecord::decode("k", &owner.encode()), Ok(owner));
        }
        for bad in [&b"\xff"[..], b"epoch = -1", b"nonsense", b""] {
            assert!(OwnerRecord::decode("owner/array", bad).is_err());
            assert!(NodeRecord::decode("nodes/n1", bad).is_err());
        }
    }
}
