//! A registry that was restored from a backup is taken for the newest, by whoever says so.

use registry::record::encode;
use registry::{Key, Registry, RegistryError};

use crate::{LookError, OWNER, Overview, OwnerRecord};

/// No epoch is above this one: owners count on from it.
const EPOCH_MAX: u64 = 1 << 48;

/// Why the epoch cannot be raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum RaiseError {
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("node {node} owns the array (epoch {epoch}): stop it first")]
    Owned { node: String, epoch: u64 },
    #[error("the registry has epoch {found}, which is not below {wanted}: there is nothing to raise")]
    NotBelow { found: u64, wanted: u64 },
    #[error("invalid epoch {wanted}: must be at most {EPOCH_MAX}")]
    TooHigh { wanted: u64 },
}

/// Raises the epoch of the last owner, so that the next one has a higher epoch than what nodes have seen and
/// drives have on their labels. Returns the epoch before.
///
/// # Errors
/// An owner lives, the epoch is not above that of the registry, or the registry does not answer or was
/// changed meanwhile.
pub async fn raise_epoch(registry: &dyn Registry, epoch: u64) -> Result<u64, RaiseError> {
    if epoch > EPOCH_MAX {
        return Err(RaiseError::TooHigh { wanted: epoch });
    }
    let key = Key::new(OWNER)?;
    // First the version: an owner that comes after it makes the exchange fail.
    let expected = registry.get(&key).await?.map(|entry| entry.version);
    let seen = Overview::look(registry).await?;
    if let Some((node, epoch)) = seen.living_owner() {
        return Err(RaiseError::Owned { node: node.to_owned(), epoch });
    }
    let found = seen.owner.unwrap_or_default().epoch;
    if found >= epoch {
        return Err(RaiseError::NotBelow { found, wanted: epoch });
    }
    let raised = OwnerRecord { epoch, ..OwnerRecord::default() };
    registry.compare_and_put(&key, expected, &encode(&raised), None).await?;
    Ok(found)
}
