//! The mode parameters of a logical unit that can change.

use std::cell::Cell;

use block::BlockError;
use lu::LogicalDisk;
use serde::{Deserialize, Serialize};

/// The name of the record with a saved WCE, 0 or 1 in one byte.
const RECORD: &str = "modes";

/// The changeable mode parameters. Shared by all nexuses (the mode page policy is "shared"). WCE can be saved
/// (PS of its page); power on and a reset restore the saved value. The others return to their defaults.
pub(crate) struct Modes {
    pub(crate) now: Cell<Changeable>,
    pub(super) saved: Cell<Changeable>,
    pub(super) default: Changeable,
}

/// The parameters that MODE SELECT can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changeable {
    pub(super) d_sense: bool,
    pub(super) swp: bool,
    pub(super) tas: bool,
    pub(super) write_through: bool,
}

impl Modes {
    /// After power on: as saved with the disk.
    pub(crate) fn load<D: LogicalDisk>(disk: &D) -> Modes {
        let default =
            Changeable { write_through: !disk.capabilities().volatile_cache, ..Changeable::default() };
        let write_through = match disk.load_record(RECORD).as_deref() {
            Some([wce]) => *wce == 0,
            _ => default.write_through,
        };
        let saved = Changeable { write_through, ..default };
        Modes { now: Cell::new(saved), saved: Cell::new(saved), default }
    }

    /// Saves the current values that can be saved.
    pub(super) async fn save<D: LogicalDisk>(&self, disk: &D) -> Result<(), BlockError> {
        let saved = Changeable { write_through: self.now.get().write_through, ..self.default };
        disk.save_record(RECORD, &[u8::from(!saved.write_through)]).await?;
        self.saved.set(saved);
        Ok(())
    }

    /// D_SENSE of the control mode page.
    pub(crate) fn descriptor_sense(&self) -> bool {
        self.now.get().d_sense
    }

    /// SWP of the control mode page.
    pub(crate) fn software_write_protect(&self) -> bool {
        self.now.get().swp
    }

    /// TAS of the control mode page: commands that another nexus aborted end with TASK ABORTED.
    pub(crate) fn task_aborted_status(&self) -> bool {
        self.now.get().tas
    }

    /// WCE = 0 in the caching mode page: every write is flushed before it ends.
    pub(crate) fn write_through(&self) -> bool {
        self.now.get().write_through
    }

    /// Restores the saved values, as after power on.
    pub(crate) fn reset(&self) {
        self.now.set(self.saved.get());
    }
}
