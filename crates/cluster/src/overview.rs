//! What the registry has of all nodes, for who takes no part: who owns the array, who could take over, and
//! whether it can be moved.

use std::collections::BTreeMap;
use std::time::Duration;

use registry::record::{decode, encode};
use registry::{Entry, Key, LeaseId, RecordError, Registry, RegistryError};

use crate::followed::{Followed, refusal};
use crate::record::refused_by_labels;
use crate::{
    ASK, AskRecord, MEMBERS, MemberRecord, NODES, NodeRecord, OWNER, OwnerRecord, TAKE_OVER, TEST, TestRecord,
};

/// A look at all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Also one whose lease has ended.
    pub owner: Option<OwnerRecord>,
    /// Those whose lease lives. The owner may be missing: its node may have lost its record.
    pub nodes: Vec<(String, NodeRecord)>,
    /// How long the leases of these nodes, and of the owner, live yet, by their numbers.
    pub left: BTreeMap<u64, Duration>,
    /// All that have joined and were not removed.
    pub members: Vec<(String, MemberRecord)>,
    /// The last test of a fail-over.
    pub test: Option<TestRecord>,
    /// The last take-over from an owner that was gone.
    pub take_over: Option<TestRecord>,
    /// What cannot be read: a line for each record, with its key.
    pub passed_over: Vec<String>,
    /// Why no node could take over from the owner: the state that follows it is not there, or damaged.
    pub fault: Option<String>,
}

/// Why there is no overview.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum LookError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The owner's record cannot be read.
    #[error(
        "{0}: an owner that lives repairs it or ends; if no node serves, put back the state of the one that owned the \
         array last: masu node restore-state"
    )]
    Damaged(#[from] RecordError),
}

/// Why the array cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Immovable {
    #[error("no node owns the array: see `masu node list`")]
    NoOwner,
    #[error("no node {name:?}: see `masu node list`")]
    Unknown { name: String },
    #[error("node {name} does not own the array, {owner} does: there is nothing to move")]
    NotOwner { name: String, owner: String },
    #[error("no other node can take over from {owner}: start one first")]
    Alone { owner: String },
    #[error("node {name} owns the array already: name a standby, or none")]
    ToItself { name: String },
    #[error("node {name} is down: start it first, or name another standby")]
    Down { name: String },
    #[error("no standby {name:?} of this array: see `masu node list`")]
    NoStandby { name: String },
    #[error("no node could take over from {owner}: {fault}")]
    Fault { owner: String, fault: String },
    #[error("node {name} could not take over: {trouble}")]
    Troubled { name: String, trouble: String },
    #[error("the array would not be served after a move from {owner}: {waits}")]
    Waits { owner: String, waits: String },
    #[error("another drain, or a test of a fail-over, is under way: see `masu node list`")]
    UnderWay,
}

impl Overview {
    /// Looks at the registry, and at the texts of these names that follow the owner.
    ///
    /// # Errors
    /// The registry does not answer, or the owner's record cannot be read. Other records that cannot be
    /// read are passed over.
    pub async fn look(registry: &dyn Registry, state: &[&'static str]) -> Result<Overview, LookError> {
        let owner_key = Key::new(OWNER)?;
        let entry = registry.get(&owner_key).await?;
        let version = entry.as_ref().map(|entry| entry.version);
        let owner = entry.map(|entry| OwnerRecord::decode(OWNER, &entry.value)).transpose()?;
        let mut fault = match &owner {
            Some(owner) if !state.is_empty() => fault_of(registry, owner.epoch, state).await,
            _ => None,
        };
        // The state of a later owner is not that of this one.
        if fault.is_some() && registry.get(&owner_key).await?.map(|entry| entry.version) != version {
            fault = None;
        }
        let mut passed_over = Vec::new();
        let nodes = registry.list(NODES).await?;
        let nodes = readable(NODES, nodes, NodeRecord::decode, &mut passed_over);
        let mut left = BTreeMap::new();
        // The owner's, too: its node may have lost its record.
        let owned = owner.iter().filter(|owner| owner.node.is_some()).map(|owner| owner.lease);
        for lease in nodes.iter().map(|(_, node)| node.lease).chain(owned) {
            match registry.time_left(LeaseId(lease)).await {
                Ok(time) => _ = left.insert(lease, time),
                // It has just ended.
                Err(RegistryError::Expired) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let nodes: Vec<_> = nodes.into_iter().filter(|(_, node)| left.contains_key(&node.lease)).collect();
        let members = registry.list(MEMBERS).await?;
        let members = readable(MEMBERS, members, MemberRecord::decode, &mut passed_over);
        let mut tried = [None, None];
        for (key, tried) in [TEST, TAKE_OVER].into_iter().zip(&mut tried) {
            let found = registry.get(&Key::new(key)?).await?;
            *tried = found.and_then(|entry| {
                decode(key, &entry.value).map_err(|error| passed_over.push(error.to_string())).ok()
            });
        }
        let [test, take_over] = tried;
        Ok(Overview { owner, nodes, left, members, test, take_over, passed_over, fault })
    }

    /// Looks, and tries whether the registry can be written: a node that takes over has to.
    ///
    /// # Errors
    /// As [`Overview::look`].
    pub async fn look_and_try(
        registry: &dyn Registry,
        state: &[&'static str],
    ) -> Result<Overview, LookError> {
        let mut seen = Overview::look(registry, state).await?;
        if seen.fault.is_none() {
            seen.fault = registry.examine().await.err().map(|error| error.to_string());
        }
        Ok(seen)
    }

    /// The node that owns the array and lives, and its epoch: whether it lives, its lease says.
    pub fn living_owner(&self) -> Option<(&str, u64)> {
        let owner = self.owner.as_ref()?;
        let lives = self.left.contains_key(&owner.lease);
        owner.node.as_deref().filter(|_| lives).map(|name| (name, owner.epoch))
    }

    /// The owner and its epoch, if the array can be moved from it: from the node `from`, if one is named,
    /// and to the node `to`, if one is named.
    ///
    /// # Errors
    /// Why it cannot be moved.
    pub fn movable(&self, from: Option<&str>, to: Option<&str>) -> Result<(String, u64), Immovable> {
        let (owner, epoch) = self.living_owner().ok_or(Immovable::NoOwner)?;
        if let Some(name) = from.filter(|name| *name != owner).map(str::to_owned) {
            let is_known = self.is_up(&name) || self.is_member(&name);
            let owner = owner.to_owned();
            return Err(if is_known {
                Immovable::NotOwner { name, owner }
            } else {
                Immovable::Unknown { name }
            });
        }
        if let Some(to) = to.filter(|to| *to == owner || !self.is_up(to)) {
            let name = to.to_owned();
            return Err(match () {
                () if to == owner => Immovable::ToItself { name },
                () if self.is_member(to) => Immovable::Down { name },
                () => Immovable::NoStandby { name },
            });
        }
        if self.nodes.iter().all(|(name, _)| name == owner) {
            return Err(Immovable::Alone { owner: owner.to_owned() });
        }
        let others = self.nodes.iter().filter(|(name, _)| name != owner);
        let mut wanted = others.filter(|(name, _)| to.is_none_or(|to| to == name));
        let troubled = wanted.clone().find_map(|(name, node)| Some((name, node.trouble.as_ref()?)));
        if let Some((name, trouble)) = troubled.filter(|_| wanted.all(|(_, node)| node.trouble.is_some())) {
            return Err(Immovable::Troubled { name: name.clone(), trouble: trouble.clone() });
        }
        let record = self.nodes.iter().find(|(name, _)| name == owner);
        if let Some(waits) = record.and_then(|(_, node)| node.waits.clone()) {
            return Err(Immovable::Waits { owner: owner.to_owned(), waits });
        }
        if let Some(fault) = self.fault.clone() {
            return Err(Immovable::Fault { owner: owner.to_owned(), fault });
        }
        Ok((owner.to_owned(), epoch))
    }

    /// Asks the owner of an epoch to give the array away.
    ///
    /// # Errors
    /// The registry does not answer. Inside: the owner is asked already, perhaps at the same moment.
    pub async fn ask(
        registry: &dyn Registry,
        asked: &AskRecord,
    ) -> Result<Result<(), Immovable>, RegistryError> {
        let key = Key::new(ASK)?;
        let found = registry.get(&key).await?;
        let before = found.as_ref().and_then(|entry| decode::<AskRecord>(ASK, &entry.value).ok());
        if before.is_some_and(|before| before.epoch == asked.epoch) {
            return Ok(Err(Immovable::UnderWay));
        }
        let expected = found.map(|entry| entry.version);
        match registry.compare_and_put(&key, expected, &encode(asked), None).await {
            Ok(_) => Ok(Ok(())),
            Err(RegistryError::Conflict { .. }) => Ok(Err(Immovable::UnderWay)),
            Err(error) => Err(error),
        }
    }

    fn is_up(&self, name: &str) -> bool {
        self.nodes.iter().any(|(node, _)| node == name)
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|(member, _)| member == name)
    }
}

/// A key that does not answer while the others do is damaged, too.
async fn fault_of(registry: &dyn Registry, epoch: u64, state: &[&'static str]) -> Option<String> {
    match refused_by_labels(registry, epoch).await {
        Ok(None) => {}
        Ok(Some(waits)) => return Some(waits.text()),
        Err(error) => return Some(error.to_string()),
    }
    match Followed::look(registry, state).await {
        Ok(seen) => refusal(epoch, false, &seen).map(|waits| waits.text()),
        Err(error) => Some(error.to_string()),
    }
}

/// The records below a prefix, by name. One that cannot be read hides no other.
fn readable<T>(
    prefix: &str,
    entries: Vec<(Key, Entry)>,
    decode: impl Fn(&str, &[u8]) -> Result<T, RecordError>,
    passed_over: &mut Vec<String>,
) -> Vec<(String, T)> {
    let mut read = Vec::new();
    for (key, entry) in entries {
        match decode(key.as_str(), &entry.value) {
            Ok(record) => read.push((key.as_str().trim_start_matches(prefix).to_owned(), record)),
            Err(error) => passed_over.push(error.to_string()),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use registry::Version;

    use super::*;

    /// n1 and n2 are up, n3 is down.
    fn overview(owner: Option<(&str, u64)>) -> Overview {
        let node = |lease| NodeRecord { lease, ..NodeRecord::default() };
        let owner = owner.map(|(name, lease)| OwnerRecord {
            node: Some(name.into()),
            lease,
            epoch: 3,
            ..OwnerRecord::default()
        });
        Overview {
            owner,
            nodes: vec![("n1".into(), node(5)), ("n2".into(), node(6))],
            left: [5, 6].map(|lease| (lease, Duration::from_secs(4))).into(),
            members: ["n1", "n2", "n3"].map(|name| (name.to_owned(), MemberRecord::default())).to_vec(),
            ..Overview::default()
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_hides_no_other() {
        let entry = |name: &str, value: Vec<u8>| {
            (Key::new(&format!("{MEMBERS}{name}")).expect("a key"), Entry { version: Version(1), value })
        };
        let entries = vec![entry("n1", b"\xff".to_vec()), entry("n2", encode(&MemberRecord::default()))];
        let mut passed_over = vec![];
        let members = readable(MEMBERS, entries, MemberRecord::decode, &mut passed_over);
        assert_eq!(members, [("n2".to_owned(), MemberRecord::default())]);
        assert!(matches!(&passed_over[..], [line] if line.contains("members/n1")), "{passed_over:?}");
    }

    #[test]
    fn only_the_owner_can_be_drained_and_only_to_another_node_that_lives() {
        let name = |name: &str| name.to_owned();
        let all = overview(Some(("n1", 5)));
        let owned = Ok((name("n1"), 3));
        let mut alone = all.clone();
        alone.nodes.pop();
        let (owner, fault) = (name("n1"), "damaged".to_owned());
        let damaged = Overview { fault: Some(fault.clone()), ..all.clone() };
        let rows = [
            (&damaged, Some("n1"), Some("n2"), Err(Immovable::Fault { owner, fault })),
            (&all, None, None, owned.clone()),
            (&all, Some("n1"), None, owned.clone()),
            (&all, Some("n1"), Some("n2"), owned.clone()),
            (&all, Some("n2"), None, Err(Immovable::NotOwner { name: name("n2"), owner: name("n1") })),
            (&all, Some("n3"), Some("n2"), Err(Immovable::NotOwner { name: name("n3"), owner: name("n1") })),
            (&all, Some("nx"), None, Err(Immovable::Unknown { name: name("nx") })),
            (&all, Some("n1"), Some("n1"), Err(Immovable::ToItself { name: name("n1") })),
            (&all, Some("n1"), Some("n3"), Err(Immovable::Down { name: name("n3") })),
            (&all, Some("n1"), Some("nx"), Err(Immovable::NoStandby { name: name("nx") })),
            (&alone, None, None, Err(Immovable::Alone { owner: name("n1") })),
            (&alone, Some("n1"), Some("n2"), Err(Immovable::Down { name: name("n2") })),
            // Its lease has ended, or nobody was the owner yet.
            (&overview(Some(("n1", 4))), Some("n1"), None, Err(Immovable::NoOwner)),
            (&overview(None), None, None, Err(Immovable::NoOwner)),
        ];
        for (overview, from, to, expected) in rows {
            assert_eq!(overview.movable(from, to), expected, "{from:?} to {to:?}");
        }
    }
}
