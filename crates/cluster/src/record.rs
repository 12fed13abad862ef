//! What nodes write to the registry about themselves and about ownership, as TOML.

use registry::record::{decode, encode};
use registry::{Entry, Key, LeaseId, RecordError, Registry, RegistryError};
use serde::{Deserialize, Serialize};

use crate::{EPOCH_MAX, LABELS, MEMBERS, PORTALS_MAX, Waits, bounds};

/// Characters of a portal, and of a version.
const TEXT_LEN_MAX: usize = 100;

/// Controllers of an array.
const RUNS_MAX: usize = 64;

/// Bytes of a trouble.
pub(crate) const TROUBLE_LEN_MAX: usize = 512;

/// Puts a record in place of the one that is there now. For records with an epoch or a time: the latest one
/// counts.
///
/// # Errors
/// The registry does not answer, or somebody else put one meanwhile.
pub async fn put(registry: &dyn Registry, key: &str, value: &[u8]) -> Result<(), RegistryError> {
    let key = Key::new(key)?;
    let expected = registry.get(&key).await?.map(|entry| entry.version);
    registry.compare_and_put(&key, expected, value, None).await?;
    Ok(())
}

/// Says that no node is to take the array before its epoch was raised to this one; see [`LabelsRecord`]. A
/// higher one that is there stays.
///
/// # Errors
/// The registry does not answer, or somebody else put one meanwhile.
pub async fn wants_epoch(registry: &dyn Registry, epoch: u64) -> Result<(), RegistryError> {
    // Of a label, which may have a higher one than any owner: no node takes the array then.
    let epoch = epoch.min(EPOCH_MAX);
    let key = Key::new(LABELS)?;
    let found = registry.get(&key).await?;
    let wanted = found.as_ref().and_then(|entry| decode::<LabelsRecord>(LABELS, &entry.value).ok());
    if wanted.is_some_and(|wanted| wanted.epoch >= epoch) {
        return Ok(());
    }
    let expected = found.map(|entry| entry.version);
    registry.compare_and_put(&key, expected, &encode(&LabelsRecord { epoch }), None).await?;
    Ok(())
}

/// Why no node is to take the array after an owner of this epoch; see [`wants_epoch`].
///
/// # Errors
/// The registry does not answer.
pub(crate) async fn refused_by_labels(
    registry: &dyn Registry,
    found: u64,
) -> Result<Option<Waits>, RegistryError> {
    // One that cannot be read refuses nobody: the labels themselves still do.
    let wanted = epoch_of_labels(registry).await?.filter(|wanted| *wanted > found);
    Ok(wanted.map(|wanted| Waits::OlderThanDrives { found, wanted }))
}

/// To which epoch the registry's must be raised because of labels; see [`wants_epoch`].
///
/// # Errors
/// The registry does not answer.
pub(crate) async fn epoch_of_labels(registry: &dyn Registry) -> Result<Option<u64>, RegistryError> {
    let entry = registry.get(&Key::new(LABELS)?).await?;
    let wanted = entry.and_then(|entry| decode::<LabelsRecord>(LABELS, &entry.value).ok());
    Ok(wanted.map(|wanted| wanted.epoch))
}

/// The certificates of all nodes that have joined and were not removed, each with the number of its node.
/// Records that cannot be read are passed over.
///
/// # Errors
/// The registry does not answer.
pub async fn certificates(registry: &dyn Registry) -> Result<Vec<(u16, String)>, RegistryError> {
    let members = registry.list(MEMBERS).await?;
    let read = |(key, entry): (Key, Entry)| {
        let member = MemberRecord::decode(key.as_str(), &entry.value).ok()?;
        Some((member.number?, member.certificate?))
    };
    Ok(members.into_iter().filter_map(read).collect())
}

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
    #[serde(default, deserialize_with = "bounds::time_ms")]
    pub since_ms: u64,
    /// The lease that it is bound to. Two processes of one name differ in it.
    pub lease: u64,
    /// What nodes of a version without TLS show that carry connections of hosts to it: 32 hexadecimal digits.
    /// Who reads the registry has it. None: of a version that takes no such connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay_key: Option<String>,
    /// Where other nodes connect to it, by TLS. None: of a version without, or its portals have no address
    /// of an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// By which other nodes know it: the SHA-256 of its certificate, in hexadecimal digits. None: of a
    /// version without TLS between nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Of the messages by which other nodes run controllers for it: those of the same. None: of a version
    /// that runs all of them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers_protocol: Option<u32>,
    /// The controllers of the array that it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<u16>,
    /// Why it could not take over now: it cannot write its data directory, for example. None: nothing is
    /// wrong, or it is of a version that does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Of an owner: what it waits for that a node which takes over would wait for, too, before it serves
    /// anything. None: nothing, or it is of a version that does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

/// Who owns something. Not bound to a lease: its epoch must never be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// None: the last owner has handed it over.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounds::some_name")]
    pub node: Option<String>,
    /// Who has handed it over so that another node takes it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounds::some_name")]
    pub left_by: Option<String>,
    /// Whom it was left to: the others wait for that node for a moment. None: any node may take over.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounds::some_name")]
    pub left_to: Option<String>,
    /// The owner's lease: when it has ended, any node may take over.
    #[serde(default)]
    pub lease: u64,
    /// Raised by one with each owner.
    #[serde(deserialize_with = "bounds::epoch")]
    pub epoch: u64,
    /// When it began: milliseconds since 1970.
    #[serde(default, deserialize_with = "bounds::time_ms")]
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
    #[serde(default, deserialize_with = "bounds::time_ms")]
    pub since_ms: u64,
    /// Its number in the array, from 0. None: of a version that had none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounds::number")]
    pub number: Option<u16>,
    /// As in [`NodeRecord`]. A node that leaves still carries connections of hosts to the next owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// Whose number it is. It stays when a node is removed: a node of the same name gets the same number, and
/// hosts find the same target ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct NumberRecord {
    #[serde(deserialize_with = "bounds::name")]
    pub node: String,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct AskRecord {
    pub ask: Ask,
    #[serde(deserialize_with = "bounds::epoch")]
    pub epoch: u64,
    /// Which node is to take over after a drain. An owner of a version that does not know it leaves that
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounds::some_name")]
    pub to: Option<String>,
}

/// Says that the owner of this epoch serves hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ServesRecord {
    #[serde(deserialize_with = "bounds::name")]
    pub node: String,
    #[serde(deserialize_with = "bounds::epoch")]
    pub epoch: u64,
}

/// An owner was refused groups that a later one had open. No node takes the array until the epoch was raised
/// to this one, on purpose: with each take-over the registry's epoch would come nearer to that of the labels,
/// and in the end be above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct LabelsRecord {
    #[serde(deserialize_with = "bounds::epoch")]
    pub epoch: u64,
}

/// The last test of a fail-over, or the last take-over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct TestRecord {
    #[serde(deserialize_with = "bounds::name")]
    pub from: String,
    #[serde(deserialize_with = "bounds::name")]
    pub to: String,
    /// Until the new owner served: from the request of a test; of a take-over the time of the lease, and
    /// from its end.
    #[serde(deserialize_with = "bounds::time_ms")]
    pub took_ms: u64,
    /// When: milliseconds since 1970.
    #[serde(deserialize_with = "bounds::time_ms")]
    pub at_ms: u64,
    /// The owner was gone, and nobody had asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_take_over: bool,
}

impl NodeRecord {
    /// For the registry.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// A value that is not a node, or more than one has.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<NodeRecord, RecordError> {
        let node: NodeRecord = decode(key, bytes)?;
        bounded(key, &node.portals, &node.version)?;
        short(key, [&node.relay_key, &node.link, &node.certificate])?;
        if node.trouble.as_ref().is_some_and(|trouble| trouble.len() > TROUBLE_LEN_MAX) {
            return Err(RecordError::new(key, format!("a trouble of more than {TROUBLE_LEN_MAX} bytes")));
        }
        if node.waits.as_ref().is_some_and(|waits| waits.len() > TROUBLE_LEN_MAX) {
            return Err(RecordError::new(key, format!("waits with more than {TROUBLE_LEN_MAX} bytes")));
        }
        if node.runs.len() > RUNS_MAX {
            return Err(RecordError::new(key, format!("runs more than {RUNS_MAX} controllers")));
        }
        Ok(node)
    }
}

impl MemberRecord {
    /// # Errors
    /// A value that is not a node, or more than one has.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<MemberRecord, RecordError> {
        let member: MemberRecord = decode(key, bytes)?;
        bounded(key, &member.portals, &member.version)?;
        short(key, [&member.certificate])?;
        Ok(member)
    }
}

fn short<const N: usize>(key: &str, texts: [&Option<String>; N]) -> Result<(), RecordError> {
    match texts.into_iter().flatten().any(|text| text.len() > TEXT_LEN_MAX) {
        true => Err(RecordError::new(key, "a key, address or certificate that is too long")),
        false => Ok(()),
    }
}

/// Each portal is told to hosts at each discovery, and kept by the owner.
fn bounded(key: &str, portals: &[String], version: &str) -> Result<(), RecordError> {
    if portals.len() > PORTALS_MAX {
        let cause = format!("{} portals, at most {PORTALS_MAX}", portals.len());
        return Err(RecordError::new(key, cause));
    }
    if portals.iter().map(String::as_str).chain([version]).any(|text| text.len() > TEXT_LEN_MAX) {
        let cause = format!("a portal or version of more than {TEXT_LEN_MAX} characters");
        return Err(RecordError::new(key, cause));
    }
    Ok(())
}

impl OwnerRecord {
    /// For the registry.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Whether this owner lives: its lease says so. The record of its node may be lost or damaged meanwhile.
    ///
    /// # Errors
    /// The registry does not answer.
    pub(crate) async fn lives(&self, registry: &dyn Registry) -> Result<bool, RegistryError> {
        if self.node.is_none() {
            return Ok(false);
        }
        match registry.time_left(LeaseId(self.lease)).await {
            Ok(_) => Ok(true),
            Err(RegistryError::Expired) => Ok(false),
            Err(error) => Err(error),
        }
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
        let node = NodeRecord { portals: vec!["[::1]:3260".into()], lease: 7, ..NodeRecord::default() };
        assert_eq!(NodeRecord::decode("k", &node.encode()), Ok(node));
        for node in [None, Some("n1".to_owned())] {
            let owner = OwnerRecord { node, left_by: None, left_to: None, lease: 3, epoch: 4, since_ms: 5 };
            assert_eq!(OwnerRecord::decode("k", &owner.encode()), Ok(owner));
        }
        for bad in [&b"\xff"[..], b"epoch = -1", b"nonsense", b""] {
            assert!(OwnerRecord::decode("owner/array", bad).is_err());
            assert!(NodeRecord::decode("nodes/n1", bad).is_err());
        }
    }

    #[test]
    fn a_record_of_a_version_without_certificates_is_read_and_one_with_a_long_one_is_not() {
        let older = NodeRecord::decode("nodes/n1", b"lease = 7\nrelay_key = \"00\"\n").expect("read");
        assert_eq!((older.relay_key.as_deref(), older.link, older.certificate), (Some("00"), None, None));
        assert_eq!(older.trouble, None);
        let older = MemberRecord::decode("members/n1", b"number = 1\n").expect("read");
        assert_eq!((older.number, older.certificate), (Some(1), None));
        let certificate = |len: usize| Some("a".repeat(len));
        let node = |len| NodeRecord { certificate: certificate(len), ..NodeRecord::default() };
        let member = |len| MemberRecord { certificate: certificate(len), ..MemberRecord::default() };
        assert_eq!(NodeRecord::decode("k", &node(64).encode()), Ok(node(64)));
        assert_eq!(MemberRecord::decode("k", &encode(&member(64))), Ok(member(64)));
        assert!(NodeRecord::decode("k", &node(101).encode()).is_err());
        assert!(MemberRecord::decode("k", &encode(&member(101))).is_err());
    }

    #[test]
    fn a_record_of_a_newer_version_is_read_and_one_that_is_too_large_is_not() {
        let newer = b"portals = [\"a:1\"]\nlease = 7\nbase = 3\n[more]\nx = 1\n";
        assert_eq!(NodeRecord::decode("nodes/n1", newer).map(|node| node.lease), Ok(7));
        let member = |portals: usize, len: usize| {
            let portals = vec!["p".repeat(len); portals];
            encode(&MemberRecord { portals, ..MemberRecord::default() })
        };
        let read = |value: &[u8]| MemberRecord::decode("members/n1", value).map_err(|e| e.to_string());
        assert_eq!(read(&member(64, 100)).map(|member| member.portals.len()), Ok(64));
        assert!(read(&member(65, 1)).is_err_and(|e| e.contains("members/n1") && e.contains("65 portals")));
        assert!(read(&member(1, 101)).is_err_and(|e| e.contains("more than 100 characters")));
        let node = NodeRecord { runs: (0..65).collect(), ..NodeRecord::default() };
        assert!(NodeRecord::decode("nodes/n1", &node.encode()).is_err());
        let node = NodeRecord { version: "1".repeat(101), ..NodeRecord::default() };
        assert!(NodeRecord::decode("nodes/n1", &node.encode()).is_err());
    }
}
