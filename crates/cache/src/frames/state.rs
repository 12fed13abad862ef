//! The states of a frame, and what names it.

use std::fmt;

use thiserror::Error;

/// Bytes of one frame: what the operating systems of the virtual machines page and write in.
pub const FRAME_BYTES: usize = 4096;
/// Bytes of one sector: the smallest piece that a LU with 512-byte blocks reads or writes.
pub const SECTOR_BYTES: usize = 512;
/// The mask of a frame of which every sector counts.
pub const ALL_SECTORS: u8 = 0xff;

const _: () = assert!(FRAME_BYTES / SECTOR_BYTES == u8::BITS as usize);

/// One cached unit. A number is never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// One partition of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

/// What a frame caches: block `block` (byte address divided by [`FRAME_BYTES`]) of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Key {
    pub unit: UnitId,
    /// The block of the unit.
    pub block: u64,
}

/// Every frame is dirty: a write waits for the destage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all frames are dirty")]
pub struct NoFrame;

/// Where the content of a frame is.
///
/// ```text
///   Clean ──written──> Dirty ──picked──> Destaging ──destaged──> Clean
///     │                  ^                │   ^ │ written
///     │                  ├────failed──────┘   │ v
///     │                  └────destaged──── Rewritten
///     └──────────picked (fills a gap of a run)┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameState {
    /// The device has the same content.
    Clean,
    /// Newer than the device.
    Dirty,
    /// On its way to the device.
    Destaging,
    /// On its way to the device, and written again since.
    Rewritten,
}

impl FrameState {
    /// The number of states.
    pub(super) const COUNT: usize = 4;

    /// The state after a write.
    pub fn written(self) -> FrameState {
        match self {
            FrameState::Clean | FrameState::Dirty => FrameState::Dirty,
            FrameState::Destaging | FrameState::Rewritten => FrameState::Rewritten,
        }
    }

    /// The state after a destage picked the frame. Panics if a destage already has it: two writes of one
    /// block in flight could arrive in the wrong order.
    pub fn picked(self) -> FrameState {
        match self {
            FrameState::Clean | FrameState::Dirty => FrameState::Destaging,
            FrameState::Destaging | FrameState::Rewritten => {
                panic!("a frame is {self} and is destaged again")
            }
        }
    }

    /// The state after the destage ended. Panics when there was none.
    pub fn destaged(self, ok: bool) -> FrameState {
        match (self, ok) {
            (FrameState::Destaging, true) => FrameState::Clean,
            (FrameState::Destaging, false) | (FrameState::Rewritten, _) => FrameState::Dirty,
            (FrameState::Clean | FrameState::Dirty, _) => panic!("a frame is {self} and its destage ends"),
        }
    }

    /// Whether a destage has the frame.
    pub fn is_in_flight(self) -> bool {
        matches!(self, FrameState::Destaging | FrameState::Rewritten)
    }
}

impl fmt::Display for FrameState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameState::Clean => "clean",
            FrameState::Dirty => "dirty",
            FrameState::Destaging => "destaging",
            FrameState::Rewritten => "rewritten",
        })
    }
}
