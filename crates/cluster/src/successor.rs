//! Who comes after an owner that stops: seen without a lease, so that who looks cannot become the owner.

use registry::{Key, Registry, RegistryError};

use crate::{NODES, NodeRecord, OWNER, OwnerRecord};

/// The next owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// Its name.
    pub node: String,
    /// Of its ownership.
    pub epoch: u64,
    /// Where it serves hosts, as soon as it does.
    pub about: NodeRecord,
}

/// Whether another node than the one of this name lives.
///
/// # Errors
/// The registry does not answer.
pub async fn another_lives(registry: &dyn Registry, name: &str) -> Result<bool, RegistryError> {
    let nodes = registry.list(NODES).await?;
    Ok(nodes.iter().any(|(key, _)| key.as_str().strip_prefix(NODES) != Some(name)))
}

/// The node that owns the array with a later epoch than this one. None: nobody does yet, or its lease has
/// ended, or its records cannot be read.
///
/// # Errors
/// The registry does not answer.
pub async fn successor(registry: &dyn Registry, epoch: u64) -> Result<Option<Successor>, RegistryError> {
    let Some(entry) = registry.get(&Key::new(OWNER)?).await? else { return Ok(None) };
    let owner = OwnerRecord::decode(OWNER, &entry.value).ok().filter(|owner| owner.epoch > epoch);
    let Some(OwnerRecord { node: Some(node), epoch, lease, .. }) = owner else { return Ok(None) };
    let key = Key::new(&format!("{NODES}{node}"))?;
    let found = registry.get(&key).await?;
    let found = found.and_then(|entry| NodeRecord::decode(key.as_str(), &entry.value).ok());
    let found = found.filter(|found| found.lease == lease);
    Ok(found.map(|about| Successor { node, epoch, about }))
}
