//! Numbers of nodes. From its number follow the portal group tags of a node's portals: they stay the same
//! whoever owns the array, as hosts and their persistent reservations expect of target ports.

use std::collections::{BTreeMap, BTreeSet};

use registry::record::{decode, encode};
use registry::{Key, Registry, RegistryError, Version};

use crate::{MEMBERS, MemberRecord, NUMBERS, NUMBERS_MAX, NumberRecord, PORTALS_MAX};

/// The portal group tag of the portal at this place of a node's record, from 1.
pub fn portal_group(number: u16, index: usize) -> u16 {
    debug_assert!(number < NUMBERS_MAX && index < PORTALS_MAX);
    number * PORTALS_MAX as u16 + index as u16 + 1
}

/// The node, and the place in its record, of the portal with this tag. None: no portal has the tag 0.
pub fn portal_of(group: u16) -> Option<(u16, usize)> {
    let portals = PORTALS_MAX as u16;
    group.checked_sub(1).map(|from_zero| (from_zero / portals, usize::from(from_zero % portals)))
}

/// Nodes that start at the same moment try the same number: each try gives it to one of them.
const TRIES: usize = 32;

/// Who has which number, by the records of the numbers. No name: the record cannot be read.
type Taken = BTreeMap<u16, (Version, Option<String>)>;

/// The number of the node of this name: the one that it had, or else the lowest that none had. Of removed
/// nodes only when no other is left. None: each belongs to a node that was not removed. `remembered` is the
/// one that the node has had in this life: the registry may have lost its record.
///
/// # Errors
/// The registry does not answer, or other nodes were faster at each try.
pub(crate) async fn number_of(
    registry: &dyn Registry,
    name: &str,
    remembered: Option<u16>,
) -> Result<Option<u16>, RegistryError> {
    for _ in 1..TRIES {
        match claim(registry, name, remembered).await {
            Err(RegistryError::Conflict { .. }) => {}
            done => return done,
        }
    }
    claim(registry, name, remembered).await
}

/// Puts the record of this node's number again where the registry has lost or damaged it: the number would be
/// given to another node, too. Some: the node to which it was given.
///
/// # Errors
/// The registry does not answer, or another node was faster.
pub(crate) async fn keep_number(
    registry: &dyn Registry,
    name: &str,
    number: u16,
) -> Result<Option<String>, RegistryError> {
    let key = number_key(number)?;
    let found = registry.get(&key).await?;
    let record = found.as_ref().and_then(|entry| decode::<NumberRecord>(key.as_str(), &entry.value).ok());
    if let Some(NumberRecord { node }) = record {
        return Ok(Some(node).filter(|node| node != name));
    }
    put_number(registry, name, (number, found.map(|entry| entry.version))).await?;
    Ok(None)
}

fn number_key(number: u16) -> Result<Key, RegistryError> {
    Key::new(&format!("{NUMBERS}{number}"))
}

/// None: no number that a node can have, or not as masu writes it.
fn number_of_key(text: &str) -> Option<u16> {
    text.parse().ok().filter(|number: &u16| *number < NUMBERS_MAX && number.to_string() == text)
}

async fn put_number(
    registry: &dyn Registry,
    name: &str,
    (number, expected): (u16, Option<Version>),
) -> Result<(), RegistryError> {
    let record = encode(&NumberRecord { node: name.into() });
    registry.compare_and_put(&number_key(number)?, expected, &record, None).await?;
    Ok(())
}

async fn claim(
    registry: &dyn Registry,
    name: &str,
    remembered: Option<u16>,
) -> Result<Option<u16>, RegistryError> {
    let mut taken = Taken::new();
    for (key, entry) in registry.list(NUMBERS).await? {
        let number = key.as_str().strip_prefix(NUMBERS).and_then(number_of_key);
        // One that cannot be read is somebody's.
        let node = decode::<NumberRecord>(key.as_str(), &entry.value).ok().map(|record| record.node);
        taken.extend(number.map(|number| (number, (entry.version, node))));
    }
    let is_own = |number: &u16| taken.get(number).is_some_and(|(_, node)| node.as_deref() == Some(name));
    if let Some(number) = remembered.iter().chain(taken.keys()).find(|number| is_own(number)) {
        return Ok(Some(*number));
    }
    // The registry may have lost records of numbers: those that stand in members' records are theirs.
    let (mut members, mut own, mut of_others) = (BTreeSet::new(), None, BTreeSet::new());
    for (key, entry) in registry.list(MEMBERS).await? {
        let Some(member) = key.as_str().strip_prefix(MEMBERS) else { continue };
        let number = MemberRecord::decode(key.as_str(), &entry.value).ok().and_then(|member| member.number);
        match member == name {
            true => own = number,
            false => of_others.extend(number),
        }
        members.insert(member.to_owned());
    }
    // A record of its own number that cannot be read is its own.
    let had = remembered.into_iter().chain(own).filter(|number| !of_others.contains(number));
    let mut had = had.filter_map(|number| match taken.get(&number) {
        None => Some((number, None)),
        Some((version, None)) => Some((number, Some(*version))),
        Some((_, Some(_))) => None,
    });
    let is_free = |number: &u16| !taken.contains_key(number) && !of_others.contains(number);
    let removed = || {
        let is_removed = |node: &String| !members.contains(node);
        let mut removed = taken.iter().filter(|(number, _)| !of_others.contains(number));
        let (number, (version, _)) = removed.find(|(_, (_, node))| node.as_ref().is_some_and(is_removed))?;
        Some((*number, Some(*version)))
    };
    let lowest = || (0..NUMBERS_MAX).find(is_free).map(|number| (number, None));
    let Some((number, expected)) = had.next().or_else(lowest).or_else(removed) else { return Ok(None) };
    put_number(registry, name, (number, expected)).await?;
    Ok(Some(number))
}
