//! The state that follows the owner: what a node takes over, and what it refuses.

use std::sync::Arc;

use admin::Store;
use anyhow::{Result, bail};
use cluster::Follows;
use lab_core::console::causes;

use super::seen::{array_followed, note_followed, note_owned};
use super::thread::Keeper;
use crate::state_key::StateKeys;

/// Says whether this node may go on with a state.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) store: Store,
    pub(super) keys: Arc<StateKeys>,
}

impl Judge {
    /// Refuses to stand by for an array whose state this node could not take over.
    pub(super) fn refuse(&self, keeper: &Keeper) -> Result<()> {
        for name in Store::SHARED {
            // A registry that does not answer is waited for later, and so is one whose state is damaged.
            if let Ok(Some(text)) = keeper.look_at(name) {
                self.judge(name, &text)?;
            }
        }
        Ok(())
    }

    fn judge(&self, name: &str, text: &str) -> Result<()> {
        let (text, _) = self.keys.open(name, text)?;
        let Some(found) = self.store.id_of(name, &text) else { return Ok(()) };
        let (own, followed) = (self.store.own_id(name), array_followed(&self.store));
        let dir = self.store.dir().display();
        if let Some(own) = own.filter(|own| *own != found) {
            bail!(
                "the registry has the state of array {found}, and {dir} that of array {own}, which would be lost; \
                 give this node an empty data directory, or, if the registry has the wrong one, stop all nodes \
                 and put this one back: masu node restore-state --data {dir}"
            );
        }
        match followed {
            Some(followed) if followed == found => Ok(()),
            // A registry that was emptied, in which a new node has begun a new array.
            Some(followed) if own.is_none() => bail!(
                "the registry has the state of array {found}, and the node of {dir} has stood by for array {followed}; \
                 stop all nodes and put the state of that one back, from the data directory of the node that owned it last \
                 (masu node restore-state), or, if the other one is right, give this node an empty data directory"
            ),
            _ => {
                // A directory that cannot be written is a trouble of its own.
                let _ = note_followed(&self.store, found);
                Ok(())
            }
        }
    }

    /// For each take-over.
    pub(super) fn follows(self) -> Follows {
        Follows::new(&Store::SHARED, move |name, text| {
            let text = std::str::from_utf8(text).map_err(|_| format!("{name} in the registry: not UTF-8"))?;
            self.judge(name, text).map_err(|error| causes(&error))
        })
    }

    /// Takes over what the last owner kept; what this one keeps goes to the registry first.
    pub(super) fn take_state(self, keeper: Keeper, epoch: u64, joined_before: bool) -> Result<Store> {
        let Judge { store, keys } = self;
        let keep = |name: &str, text: &str| keeper.keep(name, &keys.seal(name, text)?);
        let mut is_new = true;
        for name in Store::SHARED {
            let (found, own) = (keeper.claim(name, epoch)?, store.text(name)?);
            let found = found.map(|text| keys.open(name, &text)).transpose()?;
            match (found, own) {
                (Some(_), Some(_)) if !joined_before => {
                    let dir = store.dir().display();
                    bail!("{dir}: has the state of another array; give this node an empty data directory");
                }
                (Some((text, is_sealed)), _) => {
                    is_new = false;
                    store.adopt(name, &text)?;
                    // Twice: the registry has the form before it, too.
                    for _ in 0..if is_sealed { 0 } else { 2 } {
                        keep(name, &text)?;
                    }
                }
                (None, Some(_)) if joined_before && is_new => {
                    let dir = store.dir().display();
                    bail!(
                        "the registry has no state of the array; restore a newer registry, or stop all nodes and put \
                         that of this node back: masu node restore-state --data {dir}"
                    )
                }
                // An array of one node that becomes one of several.
                (None, Some(text)) => keep(name, &text)?,
                (None, None) => {}
            }
        }
        note_owned(&store, epoch)?;
        Ok(store.shared_by(Arc::new(move |name, text| {
            let kept = keys.seal(name, text).and_then(|sealed| keeper.keep(name, &sealed));
            kept.map_err(|error| causes(&error))
        })))
    }
}

#[cfg(test)]
mod tests {
    use config::{ArrayId, Config, Made};

    use super::*;

    #[test]
    fn the_state_of_another_array_is_refused_and_both_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let text = |id: u8| {
            let config = Config { id: ArrayId([id; 16]), ..Config::empty("iqn.2026-11.net.example:x") };
            config.to_state_text(&Made::default(), dir.path())
        };
        let name = Store::SHARED[0];
        let judge = Judge { store: store.clone(), keys: Arc::default() };
        assert!(judge.judge(name, &text(1)).is_ok(), "a new node takes any");
        let refused = judge.judge(name, &text(2)).expect_err("it stood by for the other one").to_string();
        for part in [&*"01".repeat(16), &"02".repeat(16), "has stood by for array"] {
            assert!(refused.contains(part), "{refused}");
        }
        store.adopt(name, &text(1)).expect("written");
        assert!(judge.judge(name, &text(1)).is_ok());
        let refused = judge.judge(name, &text(2)).expect_err("another array").to_string();
        for part in [&*"01".repeat(16), &"02".repeat(16), "restore-state --data"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(judge.judge(Store::SHARED[1], &text(2)).is_ok(), "what is no state has no identifier");
    }
}
