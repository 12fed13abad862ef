//! A registry that was restored from a backup is taken for the newest, by whoever says so; one that has lost
//! its state gets that of a node's data directory.

use std::rc::Rc;

use registry::record::encode;
use registry::{Key, Registry, RegistryError};

use crate::kept::{Seen, seen};
use crate::record::epoch_of_labels;
use crate::{EPOCH_MAX, Kept, KeptError, LookError, NODES, OWNER, Overview, OwnerRecord, RAISED_EPOCH_MAX};

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
    #[error(
        "invalid epoch {wanted}: must be at most {RAISED_EPOCH_MAX}; if a node has seen it, put back the state of \
         its data directory: masu node restore-state"
    )]
    TooHigh { wanted: u64 },
    #[error(
        "epoch {found} is the highest one that there is, and no owner can have a higher one: take the data directory \
         of another node, or delete the key owner/array of the registry if that has it"
    )]
    LastEpoch { found: u64 },
    #[error("the owner's record cannot be read, and nodes live: stop all nodes first")]
    Unknown,
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// Raises the epoch of the last owner, so that the next one has a higher epoch than what nodes have seen and
/// drives have on their labels. Returns the epoch before.
///
/// # Errors
/// An owner lives, the epoch is not above that of the registry, or the registry does not answer or was
/// changed meanwhile.
pub async fn raise_epoch(registry: &dyn Registry, epoch: u64) -> Result<u64, RaiseError> {
    // What drives have on their labels is no slip of a hand, as far as it leaves room for an owner.
    let of_labels = epoch_of_labels(registry).await?.filter(|epoch| *epoch < EPOCH_MAX);
    if epoch > RAISED_EPOCH_MAX && of_labels != Some(epoch) {
        return Err(RaiseError::TooHigh { wanted: epoch });
    }
    let key = Key::new(OWNER)?;
    // First the version: an owner that comes after it makes the exchange fail.
    let expected = registry.get(&key).await?.map(|entry| entry.version);
    let seen = Overview::look(registry, &[]).await?;
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

/// Puts the texts of a data directory into the registry, in place of whatever it has under these names. One
/// that the directory does not have stays in the registry as it is, unless it cannot be read there.
/// `seen_epoch` is the highest epoch that the node of that directory has seen. Returns the epoch, above which
/// the next owner has its own.
///
/// # Errors
/// An owner lives, or may live; or the registry does not answer, or was changed meanwhile.
pub async fn restore_state(
    registry: Rc<dyn Registry>,
    texts: &[(&'static str, Option<Vec<u8>>)],
    seen_epoch: u64,
) -> Result<u64, RaiseError> {
    let key = Key::new(OWNER)?;
    let entry = registry.get(&key).await?;
    let (found, is_readable) = match Overview::look(&*registry, &[]).await {
        Ok(overview) => {
            if let Some((node, epoch)) = overview.living_owner() {
                return Err(RaiseError::Owned { node: node.to_owned(), epoch });
            }
            (overview.owner.map_or(0, |owner| owner.epoch), true)
        }
        Err(LookError::Damaged(_)) if registry.list(NODES).await?.is_empty() => (0, false),
        Err(LookError::Damaged(_)) => return Err(RaiseError::Unknown),
        Err(error) => return Err(error.into()),
    };
    let mut epoch = found.max(seen_epoch).max(1);
    let mut put = Vec::new();
    for (name, text) in texts {
        let found = seen(&*registry, name).await?;
        if let Seen::Text { epoch: kept, .. } = &found {
            epoch = epoch.max(*kept);
        }
        match (text, found) {
            (Some(text), _) => put.push((name, text.as_slice())),
            (None, Seen::Damaged(_)) => put.push((name, &[])),
            (None, _) => {}
        }
    }
    if epoch >= EPOCH_MAX {
        return Err(RaiseError::LastEpoch { found: epoch });
    }
    // First, so that no new node takes the registry for a new one meanwhile.
    if epoch > found || !is_readable {
        let raised = OwnerRecord { epoch, ..OwnerRecord::default() };
        let expected = entry.map(|entry| entry.version);
        registry.compare_and_put(&key, expected, &encode(&raised), None).await?;
    }
    // The first comes last: without it no node begins.
    for (name, text) in put.into_iter().rev() {
        Kept::restore(registry.clone(), name, epoch, text).await?;
    }
    Ok(epoch)
}
