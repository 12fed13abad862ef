//! What a node remembers of earlier lives in its data directory. The highest epoch that it has seen: a
//! registry with an older one was restored from a backup, or is another one. The epoch in which it owned the
//! array last: whether its copy of the state is the newest one that it can know of. The array for which it
//! stood by: a registry that was emptied may have another one. Its number: its target ports stay what they
//! are where the registry has lost all of it.

use admin::Store;
use anyhow::{Context, Result, bail};
use cluster::{EPOCH_MAX, NUMBERS_MAX};
use config::ArrayId;

const FILE: &str = "array.epoch";
const OWNED: &str = "array.owned";
const NUMBER: &str = "node.number";
const ARRAY: &str = "node.array";

pub(super) struct Seen {
    store: Store,
    epoch: u64,
    number: Option<u16>,
}

/// The epoch in which the node of a data directory owned the array last, as its copy of the state was made
/// then. None: it never did, or an older version has not noted it.
pub(crate) fn epoch_owned(store: &Store) -> Result<Option<u64>> {
    let text = store.text(OWNED)?;
    let read = |text: String| text.trim().parse().ok().filter(|epoch| *epoch <= EPOCH_MAX);
    text.map(|text| read(text).with_context(|| invalid_epoch(store, OWNED))).transpose()
}

/// Notes that this node owns the array in this epoch, and has its state. Durable when it returns.
pub(super) fn note_owned(store: &Store, epoch: u64) -> Result<()> {
    Ok(store.adopt(OWNED, &format!("{epoch}\n"))?)
}

/// The array for which the node of a data directory has stood by. None: it never did, or the note is damaged.
pub(super) fn array_followed(store: &Store) -> Option<ArrayId> {
    let text = store.text(ARRAY).ok()??;
    u128::from_str_radix(text.trim(), 16).ok().map(|id| ArrayId(id.to_be_bytes()))
}

/// Notes it. Durable when it returns.
pub(super) fn note_followed(store: &Store, array: ArrayId) -> Result<()> {
    Ok(store.adopt(ARRAY, &format!("{array}\n"))?)
}

fn invalid_epoch(store: &Store, file: &str) -> String {
    let path = store.dir().join(file);
    format!("{}: invalid epoch: must be a number of at most {EPOCH_MAX}", path.display())
}

/// The highest epoch that the node of a data directory has seen; 0: it was never one of several.
pub(crate) fn epoch_seen(store: &Store) -> Result<u64> {
    Ok(Seen::open(store)?.epoch())
}

/// Refuses to serve the data directory of a node without the other ones: its state may be an old one.
pub(in crate::daemon) fn refuse_alone(store: &Store) -> Result<()> {
    let epoch = epoch_seen(store)?;
    if epoch > 0 {
        bail!(
            "{}: was a node of an array of several (epoch {epoch}), and another node may have a newer state; pass \
             --registry and --node. To serve it without other nodes, see docs/cluster.md, \"Back to one node\"",
            store.dir().display()
        );
    }
    Ok(())
}

impl Seen {
    /// 0: this node was never one of several.
    pub(super) fn open(store: &Store) -> Result<Seen> {
        let text = store.text(FILE)?;
        let read = |text: String| text.trim().parse().ok().filter(|epoch| *epoch <= EPOCH_MAX);
        let epoch = text.map(|text| read(text).with_context(|| invalid_epoch(store, FILE))).transpose()?;
        // One that is damaged is as one that is not there: the registry has it, too.
        let number = store.text(NUMBER)?.and_then(|text| text.trim().parse().ok());
        let number = number.filter(|number| *number < NUMBERS_MAX);
        Ok(Seen { store: store.clone(), epoch: epoch.unwrap_or_default(), number })
    }

    /// The number that this node had last.
    pub(super) fn number(&self) -> Option<u16> {
        self.number
    }

    /// Durable when it returns.
    pub(super) fn keep_number(&mut self, number: u16) -> Result<()> {
        if self.number != Some(number) {
            self.store.adopt(NUMBER, &format!("{number}\n"))?;
            self.number = Some(number);
        }
        Ok(())
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Durable when it returns.
    pub(super) fn raise(&mut self, epoch: u64) -> Result<()> {
        if epoch > self.epoch {
            self.store.adopt(FILE, &format!("{epoch}\n"))?;
            self.epoch = epoch;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_epoch_is_remembered_and_a_damaged_file_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let mut seen = Seen::open(&store).expect("new");
        assert_eq!(seen.epoch(), 0);
        seen.raise(4).expect("written");
        seen.raise(3).expect("nothing to do");
        assert_eq!(Seen::open(&store).expect("kept").epoch(), 4);
        assert_eq!(epoch_owned(&store).expect("never"), None);
        note_owned(&store, 3).expect("written");
        assert_eq!(epoch_owned(&store).expect("kept"), Some(3));
        seen.keep_number(7).expect("written");
        assert_eq!(Seen::open(&store).expect("kept").number(), Some(7));
        for bad in ["x", "-1", "1023"] {
            store.adopt(NUMBER, bad).expect("written");
            assert_eq!(Seen::open(&store).expect("the registry has it, too").number(), None, "{bad}");
        }
        for bad in ["x", "-1", "9223372036854775807"] {
            store.adopt(FILE, bad).expect("written");
            assert!(Seen::open(&store).is_err(), "{bad}");
        }
    }
}
