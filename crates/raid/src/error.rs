//! Errors of creating and opening a group: one line that names the drive and both identities.

use block::BlockError;

use crate::GroupId;

/// What to do about a drive that is not blank. Not all that bring a drive can erase it (a declaration
/// cannot).
pub const TO_ERASE: &str =
    "only --overwrite of masu drive create, group create, group replace and serve erases it";

/// Why a group does not open without a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingCause {
    /// The level has no redundancy.
    #[error("the level has no redundancy; reconnect the drive")]
    NoData,
    /// More drives are missing than the level tolerates.
    #[error("too many drives are missing; reconnect them")]
    NoDataWithOthers,
    /// The available drives would suffice, but so would the missing ones: the missing ones may have continued
    /// alone. [`Group::open_degraded`](crate::Group::open_degraded) opens the group without them.
    #[error("it may hold newer data; reconnect it, or start the group degraded")]
    MayBeNewer,
}

/// Why a group cannot be created or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum GroupError {
    /// The declaration is invalid.
    #[error("group {group}: {cause}")]
    Spec {
        group: String,
        /// What is wrong.
        cause: String,
    },
    /// A drive is too small.
    #[error(
        "group {group}: drive {drive} is too small: it has {len_bytes} bytes, at least {needed_bytes} \
        are required"
    )]
    TooSmall {
        group: String,
        drive: String,
        /// Its size.
        len_bytes: u64,
        /// The size that would do.
        needed_bytes: u64,
    },
    /// Creation would overwrite another group.
    #[error("group {group}: drive {drive} already belongs to {found}; refusing to overwrite it")]
    InUse {
        group: String,
        drive: String,
        /// What its label says.
        found: String,
    },
    /// The drive carries data that is not a label; creation would overwrite it.
    #[error("group {group}: drive {drive} is not blank: data at byte {at}; {}", TO_ERASE)]
    NotBlank {
        group: String,
        drive: String,
        /// The first byte of it that was found.
        at: u64,
    },
    /// A newer masu wrote the label.
    #[error(
        "group {group}: drive {drive} carries a label of format {format}, written by a newer masu; masu \
         wrote nothing to it; start the newer masu"
    )]
    NewerFormat { group: String, drive: String, format: u32 },
    /// An owner that the one who opens it now knows nothing of had the group open.
    #[error(
        "group {group}: another owner had it open with epoch {found}, and this one has epoch {own}; masu wrote \
         nothing to its drives"
    )]
    LaterOwner {
        group: String,
        /// The epoch on the labels.
        found: u64,
        /// The epoch of the ownership that opens it.
        own: u64,
    },
    /// Both copies of the label are damaged.
    #[error(
        "group {group}: both copies of the label of drive {drive} are damaged; masu wrote nothing to it; \
         remove the drive, or restore its first MiB"
    )]
    DamagedLabel { group: String, drive: String },
    /// Two drives are the same medium.
    #[error(
        "group {group}: drives {other} and {drive} are one medium: what is written to the one is read from the \
         other; masu put back what was in the places of the labels; name the medium once (two paths of one LU \
         need multipathd)"
    )]
    SameMedium {
        group: String,
        /// The drive that has the label of the other one.
        drive: String,
        other: String,
    },
    /// The drive belongs to another group of the same name.
    #[error(
        "group {group}: drive {drive} belongs to another group of this name: it carries {found}, expected \
         group {expected}"
    )]
    OtherGroup {
        group: String,
        drive: String,
        /// What its label says.
        found: String,
        /// The identity of the group that was to be opened.
        expected: GroupId,
    },
    /// The drive carries no label.
    #[error("group {group}: drive {drive} carries no label; expected one of {expected}")]
    Unlabelled {
        group: String,
        drive: String,
        /// The identity that was expected.
        expected: String,
    },
    /// The drive belongs to another group or array.
    #[error("group {group}: drive {drive} belongs to {found}, not to {expected}")]
    Foreign {
        group: String,
        drive: String,
        /// What its label says.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The drive missed changes that the others have.
    #[error("group {group}: drive {drive} is stale: it carries {found}, the others {expected}")]
    Stale {
        group: String,
        drive: String,
        /// What its label says.
        found: String,
        /// What the others say.
        expected: String,
    },
    /// Required drives are missing.
    #[error("group {group}: the drive at position {position} of {width} is missing: {cause}")]
    Missing {
        group: String,
        /// The first position without a drive.
        position: u32,
        /// How many drives the group has.
        width: u32,
        /// What follows from it.
        cause: MissingCause,
    },
    /// The mirrors were used separately, and both have changes.
    #[error(
        "group {group}: drives {drive} and {other} were used separately and have diverged; start with \
        one of them only"
    )]
    Diverged {
        group: String,
        drive: String,
        /// The other drive.
        other: String,
    },
    /// The creation of the group was interrupted.
    #[error("group {group}: creation was interrupted; create the group again")]
    Unfinished { group: String },
    /// The table of lost ranges is damaged on all drives.
    #[error(
        "group {group}: the table of lost ranges is damaged on all available drives, so reads could return \
         wrong data; reconnect the missing drive, or restore the data from a backup"
    )]
    LostRanges { group: String },
    /// A drive failed.
    #[error("group {group}: {cause}")]
    Io {
        group: String,
        /// What failed.
        cause: BlockError,
    },
}
