//! Mode pages.

use std::cell::Cell;

/// The mode parameters that can change. Shared by all nexuses (the mode page policy is "shared").
#[derive(Default)]
pub struct Modes {
    d_sense: Cell<bool>,
    swp: Cell<bool>,
    tas: Cell<bool>,
    write_through: Cell<bool>,
}

impl Modes {
    /// D_SENSE of the control mode page.
    pub(crate) fn descriptor_sense(&self) -> bool {
        self.d_sense.get()
    }

    /// SWP of the control mode page.
    pub(crate) fn software_write_protect(&self) -> bool {
        self.swp.get()
    }

    /// TAS of the control mode page: commands that another nexus aborted end with TASK ABORTED.
    pub(crate) fn task_aborted_status(&self) -> bool {
        self.tas.get()
    }

    /// WCE = 0 in the caching mode page: every write is flushed before it ends.
    pub(crate) fn write_through(&self) -> bool {
        self.write_through.get()
    }

    /// Back to the defaults, as after power on.
    pub(crate) fn reset(&self) {
        self.d_sense.set(false);
        self.swp.set(false);
        self.tas.set(false);
        self.write_through.set(false);
    }
}
