//! The highest epoch that this node has seen, in its data directory: a registry with an older one was
//! restored from a backup, or is another one.

use admin::Store;
use anyhow::{Context, Result, bail};
use cluster::EPOCH_MAX;

const FILE: &str = "array.epoch";

pub(super) struct Seen {
    store: Store,
    epoch: u64,
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
        let invalid = || {
            format!(
                "{}: invalid epoch: must be a number of at most {EPOCH_MAX}",
                store.dir().join(FILE).display()
            )
        };
        let read = |text: String| text.trim().parse().ok().filter(|epoch| *epoch <= EPOCH_MAX);
        let epoch = text.map(|text| read(text).with_context(invalid)).transpose()?;
        Ok(Seen { store: store.clone(), epoch: epoch.unwrap_or_default() })
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
        for bad in ["x", "-1", "9223372036854775807"] {
            store.adopt(FILE, bad).expect("written");
            assert!(Seen::open(&store).is_err(), "{bad}");
        }
    }
}
