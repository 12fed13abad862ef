//! Numbers of nodes. From its number follow the portal group tags of a node's portals: they stay the same
//! whoever owns the array, as hosts and their persistent reservations expect of target ports.

use std::collections::BTreeMap;

use registry::record::{decode, encode};
use registry::{Key, Registry, RegistryError};

use crate::{MEMBERS, NUMBERS, NumberRecord, PORTALS_MAX};

/// As many nodes have portal group tags of their own, of which there are 65,535.
pub const NUMBERS_MAX: u16 = u16::MAX / PORTALS_MAX as u16;

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

/// Who has which number.
type Taken = BTreeMap<u16, (registry::Version, Option<String>)>;

/// The number of the node of this name: the one that it had, or else the lowest that none had. Of removed
/// nodes only when no other is left. None: each belongs to a node that was not removed.
///
/// # Errors
/// The registry does not answer, or other nodes were faster at each try.
pub(crate) async fn number_of(registry: &dyn Registry, name: &str) -> Result<Option<u16>, RegistryError> {
    for _ in 1..TRIES {
        match claim(registry, name).await {
            Err(RegistryError::Conflict { .. }) => {}
            done => return done,
        }
    }
    claim(registry, name).await
}

/// None: no number that a node can have, or not as masu writes it.
fn number_of_key(text: &str) -> Option<u16> {
    text.parse().ok().filter(|number: &u16| *number < NUMBERS_MAX && number.to_string() == text)
}

async fn claim(registry: &dyn Registry, name: &str) -> Result<Option<u16>, RegistryError> {
    let mut taken = Taken::new();
    for (key, entry) in registry.list(NUMBERS).await? {
        let number = key.as_str().strip_prefix(NUMBERS).and_then(number_of_key);
        // One that cannot be read is somebody's.
        let node = decode::<NumberRecord>(key.as_str(), &entry.value).ok().map(|record| record.node);
        taken.extend(number.map(|number| (number, (entry.version, node))));
    }
    if let Some((number, _)) = taken.iter().find(|(_, (_, node))| node.as_deref() == Some(name)) {
        return Ok(Some(*number));
    }
    let mut free = (0..NUMBERS_MAX).find(|number| !taken.contains_key(number)).map(|number| (number, None));
    if free.is_none() {
        let members = registry.list(MEMBERS).await?;
        let is_removed =
            |node: &String| !members.iter().any(|(key, _)| key.as_str() == format!("{MEMBERS}{node}"));
        let removed = taken.iter().find(|(_, (_, node))| node.as_ref().is_some_and(is_removed));
        free = removed.map(|(number, (version, _))| (*number, Some(*version)));
    }
    let Some((number, expected)) = free else { return Ok(None) };
    let key = Key::new(&format!("{NUMBERS}{number}"))?;
    let record = encode(&NumberRecord { node: name.into() });
    registry.compare_and_put(&key, expected, &record, None).await?;
    Ok(Some(number))
}
