//! What a node looks at before it takes the array: whether the registry has the state that it is to go on
//! with. A node that began without it would serve another array, or none.

use registry::{Registry, RegistryError};

use crate::kept::{self, Seen};
use crate::{KeptError, Waits};

/// Says why a node must not go on with this text of this name.
type Check = Box<dyn Fn(&str, &[u8]) -> Result<(), String>>;

/// The texts that follow the owner. The first of them must be there as soon as there was an owner.
pub struct Follows {
    pub(crate) names: &'static [&'static str],
    check: Check,
}

/// What the registry has of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// There is no room for the first: no owner was ever here, or it was removed.
    Nothing,
    /// Kept by an owner of this epoch, or by none yet (0).
    There {
        epoch: u64,
        texts: Vec<(&'static str, Vec<u8>)>,
    },
    Damaged {
        cause: String,
    },
}

impl Follows {
    /// `check` says why this node must not go on with a text; it is asked before each take-over.
    pub fn new(
        names: &'static [&'static str],
        check: impl Fn(&str, &[u8]) -> Result<(), String> + 'static,
    ) -> Follows {
        Follows { names, check: Box::new(check) }
    }

    /// Why this node, perhaps as the only one, must not go on with what there is.
    pub(crate) fn refusal(&self, seen: &Followed) -> Option<Waits> {
        let Followed::There { texts, .. } = seen else { return None };
        let cause = texts.iter().find_map(|(name, text)| (self.check)(name, text).err())?;
        Some(Waits::Refuses { cause })
    }
}

impl Followed {
    /// # Errors
    /// The registry does not answer.
    pub(crate) async fn look(
        registry: &dyn Registry,
        names: &[&'static str],
    ) -> Result<Followed, RegistryError> {
        let (mut newest, mut texts) = (0, Vec::new());
        for (at, name) in names.iter().enumerate() {
            match kept::seen(registry, name).await {
                // Only nodes of a later version keep the others.
                Ok(Seen::Nothing) if at > 0 => {}
                Ok(Seen::Nothing) => return Ok(Followed::Nothing),
                Ok(Seen::Text { epoch, text }) => {
                    newest = newest.max(epoch);
                    texts.extend(text.map(|text| (*name, text)));
                }
                Ok(Seen::Damaged(error)) => return Ok(Followed::Damaged { cause: error.to_string() }),
                Err(KeptError::Registry(error)) => return Err(error),
                Err(error) => return Ok(Followed::Damaged { cause: error.to_string() }),
            }
        }
        Ok(Followed::There { epoch: newest, texts })
    }
}

/// Why no node may take the array: `found` is the epoch of the last owner, 0 if there is no record of one;
/// `had_owner` whether anything else tells of one.
pub(crate) fn refusal(found: u64, had_owner: bool, seen: &Followed) -> Option<Waits> {
    match seen {
        Followed::Damaged { cause } => Some(Waits::Damaged { cause: cause.clone() }),
        Followed::Nothing if found > 0 || had_owner => Some(Waits::NoState { epoch: found }),
        Followed::There { epoch, .. } if *epoch > found => Some(Waits::Older { found, seen: *epoch }),
        Followed::Nothing | Followed::There { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_has_had_an_owner_and_has_no_state_is_refused() {
        let there = |epoch| Followed::There { epoch, texts: vec![] };
        let damaged = Followed::Damaged { cause: "why".into() };
        let older = |found, seen| Some(Waits::Older { found, seen });
        let rows = [
            // A new one, with room for the state or without.
            (0, false, Followed::Nothing, None),
            (0, false, there(0), None),
            // Its first owner died before it kept anything.
            (1, false, there(0), None),
            (1, false, there(1), None),
            (2, false, Followed::Nothing, Some(Waits::NoState { epoch: 2 })),
            // The record of the owner was removed.
            (0, true, Followed::Nothing, Some(Waits::NoState { epoch: 0 })),
            (0, true, there(3), older(0, 3)),
            (2, false, there(3), older(2, 3)),
            (2, false, damaged, Some(Waits::Damaged { cause: "why".into() })),
        ];
        for (found, had_owner, seen, expected) in rows {
            assert_eq!(refusal(found, had_owner, &seen), expected, "{found} {had_owner} {seen:?}");
        }
    }
}
