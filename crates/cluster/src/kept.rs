//! A text in the registry that follows the owner: split over keys, replaced as a whole, and only by the owner
//! of the newest epoch.
//!
//! ```text
//!  state/NAME         head: epoch, slot, length, and the version of each part
//!  state/NAME/0/NN    parts of one slot
//!  state/NAME/1/NN    parts of the other one; the head says which is in force
//! ```
//!
//! A writer fills the slot that is not in force, and then puts the head: until then the old text is in force.
//! An owner begins by putting the head with its own epoch, by which each older owner's writes fail: heads and
//! parts are put by comparing versions that the writer has read while the head was its own.

use std::rc::Rc;

use registry::record::{decode, encode};
use registry::{Key, RecordError, Registry, RegistryError, VALUE_LEN_MAX, Version};
use serde::{Deserialize, Serialize};

use crate::{OWNER, OwnerRecord, bounds};

/// Parts of a text.
const PARTS_MAX: usize = 64;
/// The longest text.
pub const TEXT_LEN_MAX: usize = PARTS_MAX * VALUE_LEN_MAX;
/// Attempts while calls meet changes: only writers of ended epochs can make one.
const ATTEMPTS_MAX: usize = 10;

/// Why a text was not read, or not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum KeptError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Nothing was changed.
    #[error("another node owns the array: the registry has epoch {found}, this node has {own}")]
    Stale { own: u64, found: u64 },
    #[error("too long for the registry: {len} bytes, at most {TEXT_LEN_MAX}")]
    TooLong { len: usize },
    #[error(transparent)]
    Damaged(#[from] RecordError),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    #[serde(deserialize_with = "bounds::epoch")]
    epoch: u64,
    slot: u8,
    len: usize,
    /// Versions of the parts.
    parts: Vec<u64>,
}

impl Head {
    fn decode(key: &Key, value: &[u8]) -> Result<Head, RecordError> {
        let head: Head = decode(key.as_str(), value)?;
        // Numbers of TOML have a sign, and so have the versions of etcd.
        let has_versions = head.parts.iter().all(|version| i64::try_from(*version).is_ok());
        if head.slot > 1 || head.parts.len() > PARTS_MAX || head.len > TEXT_LEN_MAX || !has_versions {
            return Err(RecordError::new(key.as_str(), "invalid slot, length or parts"));
        }
        Ok(head)
    }
}

/// A text, and this owner's right to replace it.
pub struct Kept {
    registry: Rc<dyn Registry>,
    name: String,
    epoch: u64,
    version: Version,
    head: Head,
    /// The text in force, as this owner has read or put it last.
    text: Option<Vec<u8>>,
}

/// What the registry has of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Not even room for it: no owner has claimed it.
    Nothing,
    /// Kept by an owner of this epoch. No text: none was kept yet.
    Text {
        epoch: u64,
        text: Option<Vec<u8>>,
    },
    Damaged(RecordError),
}

fn key(name: &str) -> Result<Key, KeptError> {
    Ok(Key::new(name)?)
}

fn head_key(name: &str) -> Result<Key, KeptError> {
    key(&format!("state/{name}"))
}

fn part_key(name: &str, slot: u8, part: usize) -> Result<Key, KeptError> {
    key(&format!("state/{name}/{slot}/{part:02}"))
}

async fn read_head(registry: &dyn Registry, name: &str) -> Result<Option<(Version, Head)>, KeptError> {
    let key = head_key(name)?;
    let Some(entry) = registry.get(&key).await? else { return Ok(None) };
    Ok(Some((entry.version, Head::decode(&key, &entry.value)?)))
}

async fn read_parts(registry: &dyn Registry, name: &str, head: &Head) -> Result<Vec<u8>, KeptError> {
    let mut text = Vec::new();
    for (part, version) in head.parts.iter().enumerate() {
        let key = part_key(name, head.slot, part)?;
        let found = registry.get(&key).await?.filter(|entry| entry.version.0 == *version);
        let Some(entry) = found else {
            return Err(RecordError::new(key.as_str(), "not the version that its head names").into());
        };
        text.extend_from_slice(&entry.value);
    }
    if text.len() != head.len {
        let cause = format!("{} bytes instead of {}", text.len(), head.len);
        return Err(RecordError::new(head_key(name)?.as_str(), cause).into());
    }
    Ok(text)
}

/// The text of a head.
async fn read_text(registry: &dyn Registry, name: &str, head: &Head) -> Result<Option<Vec<u8>>, KeptError> {
    match head.parts.is_empty() {
        true => Ok(None),
        false => read_parts(registry, name, head).await.map(Some),
    }
}

/// The text of this name as it is now, for who takes no part; none: there is none yet.
///
/// # Errors
/// The registry does not answer, or it cannot be read.
pub async fn kept_text(registry: &dyn Registry, name: &str) -> Result<Option<Vec<u8>>, KeptError> {
    match seen(registry, name).await? {
        Seen::Nothing => Ok(None),
        Seen::Text { text, .. } => Ok(text),
        Seen::Damaged(error) => Err(error.into()),
    }
}

/// Looks at a text. One that is replaced meanwhile is looked at again: it is not damaged.
pub(crate) async fn seen(registry: &dyn Registry, name: &str) -> Result<Seen, KeptError> {
    let mut last = None;
    loop {
        let head = match read_head(registry, name).await {
            Ok(None) => return Ok(Seen::Nothing),
            Ok(Some(head)) => head,
            Err(KeptError::Damaged(error)) => return Ok(Seen::Damaged(error)),
            Err(error) => return Err(error),
        };
        match read_text(registry, name, &head.1).await {
            Ok(text) => return Ok(Seen::Text { epoch: head.1.epoch, text }),
            Err(KeptError::Damaged(error)) if last == Some(head.0) => return Ok(Seen::Damaged(error)),
            Err(KeptError::Damaged(_)) => last = Some(head.0),
            Err(error) => return Err(error),
        }
    }
}

/// Makes room for the text of a new array, before its first owner: from then on a registry that has had an
/// owner has this key.
///
/// # Errors
/// The registry does not answer.
pub(crate) async fn make_room(registry: &dyn Registry, name: &str) -> Result<(), KeptError> {
    let head = Head { epoch: 0, slot: 0, len: 0, parts: vec![] };
    match registry.compare_and_put(&head_key(name)?, None, &encode(&head), None).await {
        // Another new node was faster.
        Ok(_) | Err(RegistryError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Kept {
    /// Takes over the text of this name with the epoch of an owner, and reads it; none: there was none yet.
    /// From here on no owner of an older epoch can replace it.
    ///
    /// # Errors
    /// [`KeptError::Stale`] if an owner of a newer epoch has taken it over.
    pub async fn claim(
        registry: Rc<dyn Registry>,
        name: &str,
        epoch: u64,
    ) -> Result<(Kept, Option<Vec<u8>>), KeptError> {
        let key = head_key(name)?;
        let mut found = None;
        for _ in 0..ATTEMPTS_MAX {
            let before = read_head(&*registry, name).await?;
            if let Some((_, head)) = before.as_ref().filter(|(_, head)| head.epoch > epoch) {
                return Err(KeptError::Stale { own: epoch, found: head.epoch });
            }
            let text = match &before {
                Some((_, head)) => read_text(&*registry, name, head).await,
                None => Ok(None),
            };
            let head = match &before {
                Some((_, head)) => Head { epoch, ..head.clone() },
                None => Head { epoch, slot: 0, len: 0, parts: vec![] },
            };
            let expected = before.map(|(version, _)| version);
            match registry.compare_and_put(&key, expected, &encode(&head), None).await {
                // The parts were in force when they were read, because the head has not changed meanwhile.
                Ok(version) => {
                    let text = text?;
                    let kept = Kept { registry, name: name.into(), epoch, version, head, text: text.clone() };
                    return Ok((kept, text));
                }
                Err(RegistryError::Conflict { found: other }) => found = other,
                Err(error) => return Err(error.into()),
            }
        }
        Err(RegistryError::Conflict { found }.into())
    }

    /// Replaces the text.
    ///
    /// # Errors
    /// [`KeptError::Stale`] if another owner has taken it over: nothing was changed. After
    /// [`RegistryError::Unreachable`] either text may be in force.
    pub async fn replace(&mut self, text: &[u8]) -> Result<(), KeptError> {
        if text.len() > TEXT_LEN_MAX {
            return Err(KeptError::TooLong { len: text.len() });
        }
        let mut found = None;
        for _ in 0..ATTEMPTS_MAX {
            match self.try_replace(text).await {
                Err(KeptError::Registry(RegistryError::Conflict { found: other })) => found = other,
                Ok(()) => {
                    self.text = Some(text.into());
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Err(RegistryError::Conflict { found }.into())
    }

    /// Puts this owner's text again, if the registry has damaged or lost it. Returns what was wrong; none:
    /// nothing.
    ///
    /// # Errors
    /// [`KeptError::Stale`] if another owner has followed: nothing was changed. The registry does not answer,
    /// or the owner's record cannot be read.
    pub async fn mend(&mut self) -> Result<Option<String>, KeptError> {
        let cause = match seen(&*self.registry, &self.name).await? {
            Seen::Text { epoch, .. } if epoch > self.epoch => {
                return Err(KeptError::Stale { own: self.epoch, found: epoch });
            }
            Seen::Text { epoch, text } if epoch == self.epoch && text == self.text => return Ok(None),
            Seen::Text { .. } => format!("{}: not what this owner has kept", head_key(&self.name)?),
            Seen::Nothing => format!("{}: it was deleted", head_key(&self.name)?),
            Seen::Damaged(error) => error.to_string(),
        };
        // In this order: where a later owner has put something since, the version here is an older one, or
        // the record of that owner is seen.
        let (slot, text) = (1 - self.head.slot, self.text.clone().unwrap_or_default());
        let before = self.versions(slot, &text).await?;
        let key = head_key(&self.name)?;
        let expected = self.registry.get(&key).await?.map(|entry| entry.version);
        let owner = self.registry.get(&Key::new(OWNER)?).await?;
        let owner = owner.map(|entry| OwnerRecord::decode(OWNER, &entry.value)).transpose()?;
        let found = owner.map_or(0, |owner| owner.epoch);
        if found != self.epoch {
            return Err(KeptError::Stale { own: self.epoch, found });
        }
        self.put(slot, before, &text, expected).await?;
        Ok(Some(cause))
    }

    /// Puts a text in the place of whatever the registry has under this name. Nobody may own the array, nor
    /// take it meanwhile.
    ///
    /// # Errors
    /// The registry does not answer, or another node has changed the text meanwhile.
    pub async fn restore(
        registry: Rc<dyn Registry>,
        name: &str,
        epoch: u64,
        text: &[u8],
    ) -> Result<(), KeptError> {
        if text.len() > TEXT_LEN_MAX {
            return Err(KeptError::TooLong { len: text.len() });
        }
        let key = head_key(name)?;
        let found = registry.get(&key).await?;
        let version = found.as_ref().map_or(Version(0), |entry| entry.version);
        let head = found.as_ref().and_then(|entry| Head::decode(&key, &entry.value).ok());
        let slot = head.map_or(0, |head| 1 - head.slot);
        let head = Head { epoch, slot: 1 - slot, len: 0, parts: vec![] };
        let mut kept = Kept { registry, name: name.into(), epoch, version, head, text: None };
        let before = kept.versions(slot, text).await?;
        kept.put(slot, before, text, found.map(|entry| entry.version)).await
    }

    async fn try_replace(&mut self, text: &[u8]) -> Result<(), KeptError> {
        // In the next round the head may be another one of this owner, whose put was not answered.
        self.follow().await?;
        let slot = 1 - self.head.slot;
        let before = self.versions(slot, text).await?;
        // Read before the head is seen to be this owner's: a later owner's parts have later versions.
        self.follow().await?;
        if slot == self.head.slot {
            return Err(RegistryError::Conflict { found: Some(self.version) }.into());
        }
        self.put(slot, before, text, Some(self.version)).await
    }

    /// Of the parts that a text needs in this slot.
    async fn versions(&self, slot: u8, text: &[u8]) -> Result<Vec<Option<Version>>, KeptError> {
        let mut versions = Vec::new();
        for part in 0..text.len().div_ceil(VALUE_LEN_MAX) {
            let found = self.registry.get(&part_key(&self.name, slot, part)?).await?;
            versions.push(found.map(|entry| entry.version));
        }
        Ok(versions)
    }

    /// Puts the parts in place of those of these versions, and then the head.
    async fn put(
        &mut self,
        slot: u8,
        before: Vec<Option<Version>>,
        text: &[u8],
        head_before: Option<Version>,
    ) -> Result<(), KeptError> {
        let mut parts = Vec::new();
        for (part, (value, expected)) in text.chunks(VALUE_LEN_MAX).zip(before).enumerate() {
            let key = part_key(&self.name, slot, part)?;
            parts.push(self.registry.compare_and_put(&key, expected, value, None).await?.0);
        }
        let head = Head { epoch: self.epoch, slot, len: text.len(), parts };
        let key = head_key(&self.name)?;
        self.version = self.registry.compare_and_put(&key, head_before, &encode(&head), None).await?;
        self.head = head;
        Ok(())
    }

    /// Reads the head again: it must be of this epoch.
    async fn follow(&mut self) -> Result<(), KeptError> {
        let Some((version, head)) = read_head(&*self.registry, &self.name).await? else {
            let key = head_key(&self.name)?.as_str().into();
            return Err(RecordError { key, cause: "it was deleted".into() }.into());
        };
        if head.epoch != self.epoch {
            return Err(KeptError::Stale { own: self.epoch, found: head.epoch });
        }
        (self.version, self.head) = (version, head);
        Ok(())
    }
}
