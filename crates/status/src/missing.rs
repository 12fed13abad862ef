//! What is declared and not served, and why.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An object that was made and cannot be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missing {
    /// `group`, `pool` or `volume`.
    pub kind: String,
    /// As declared.
    pub name: String,
    /// What was tried, and what the system or the medium said.
    pub cause: String,
    /// What kind of cause that is.
    #[serde(default)]
    pub reason: Reason,
    /// The medium of the drive that is to blame, where it is one drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
}

/// Why an object is not served, as far as it decides what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// None of the others: the cause says it in words.
    #[default]
    Unknown,
    /// What it lies on is not there: a drive, a group, a journal.
    Away,
    /// The storage below a drive has no room for a write.
    NoRoom,
    /// The pool of a volume has no free page.
    PoolFull,
    /// The pool of a volume is not open.
    PoolNotOpen,
    /// The pool of a volume is open and does not have it.
    NotFound,
    /// The journal of a pool is there, and is not declared.
    JournalUndeclared,
    /// The journal with the acknowledged writes of a pool is not there, or damaged.
    JournalAway,
    /// The deletion of a pool was interrupted.
    Deleting,
    /// The node that ran its controller is gone, and may still hold its drives.
    NodeGone,
    /// Whoever owned the array last may still write to one of its drives.
    Unclaimed,
}

/// What is wrong with an image, as far as it decides what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFault {
    /// None of the others: the text says it in words.
    #[default]
    Unknown,
    /// Nothing is under the path of its file.
    Absent,
    /// The file of a raw image is another one than was served, or was cut.
    Replaced,
    /// A parent of a differencing image cannot be used.
    Parent,
    /// The file is not as it was opened: the image is only read until it is.
    FileChanged,
    /// Its file system has no room for a write.
    NoRoom,
    /// A write of its metadata failed: the image is only read.
    ReadOnly,
    /// Whoever owned the array last may still write to it.
    Unclaimed,
}
