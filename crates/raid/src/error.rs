//! What can be wrong when a group is created or opened: one line that names the drive and both identities.

use block::BlockError;

use crate::GroupId;

/// Why a group is not opened without a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingCause {
    /// The level has no redundancy.
    #[error("without it there is no data")]
    NoData,
    /// More drives are missing than the level tolerates.
    #[error("without it and the others that are missing there is no data")]
    NoDataWithOthers,
    /// The drives that are there would do, and so would have done the missing ones: these may have gone on alone.
    /// [`Group::open_degraded`](crate::Group::open_degraded) goes on without them.
    #[error("it may have later data; give it, or say that the group shall start degraded")]
    MayBeNewer,
}

/// Why a group cannot be created or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The declaration makes no sense.
    #[error("group {group}: {cause}")]
    Spec {
        /// The group.
        group: String,
        /// What is wrong.
        cause: String,
    },
    /// A drive is too small.
    #[error("group {group}: drive {drive} has {len_bytes} bytes, at least {needed_bytes} are needed")]
    TooSmall {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// Its size.
        len_bytes: u64,
        /// The size that would do.
        needed_bytes: u64,
    },
    /// Creation would overwrite another group.
    #[error("group {group}: drive {drive} already belongs to {found}; creation refuses to overwrite it")]
    InUse {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// What its label says.
        found: String,
    },
    /// The drive carries something that is no label; creation would overwrite it.
    #[error(
        "group {group}: drive {drive} is not blank: there is data at byte {at}; pass --overwrite if it may be erased"
    )]
    NotBlank {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// The first byte of it that was found.
        at: u64,
    },
    /// A newer version wrote the label.
    #[error(
        "group {group}: drive {drive} carries a label of format {format}, written by a newer masu; nothing was written to it: \
         start the newer masu"
    )]
    NewerFormat {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// The format of its label.
        format: u32,
    },
    /// Both copies of the label are damaged.
    #[error(
        "group {group}: both copies of the label of drive {drive} are damaged; nothing was written to it: leave the drive out, or \
         restore its first MiB"
    )]
    DamagedLabel {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
    },
    /// The drive belongs to a group of the same name, which is another one.
    #[error(
        "group {group}: drive {drive} is of another group that had this name: it carries {found}, expected group {expected}"
    )]
    OtherGroup {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// What its label says.
        found: String,
        /// The identity of the group that was to be opened.
        expected: GroupId,
    },
    /// The drive carries no label.
    #[error("group {group}: drive {drive} carries no label; expected one of {expected}")]
    Unlabelled {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// The identity that was expected.
        expected: String,
    },
    /// The drive belongs to something else.
    #[error("group {group}: drive {drive} belongs to {found}, not to {expected}")]
    Foreign {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// What its label says.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The drive missed changes that the others have.
    #[error("group {group}: drive {drive} is stale: it carries {found}, the others {expected}")]
    Stale {
        /// The group.
        group: String,
        /// The drive.
        drive: String,
        /// What its label says.
        found: String,
        /// What the others say.
        expected: String,
    },
    /// Drives that the group needs were not given.
    #[error("group {group}: the drive at position {position} of {width} is missing: {cause}")]
    Missing {
        /// The group.
        group: String,
        /// The first position without a drive.
        position: u32,
        /// How many drives the group has.
        width: u32,
        /// What follows from it.
        cause: MissingCause,
    },
    /// The mirrors were used apart from each other and both have changes.
    #[error("group {group}: drives {drive} and {other} were used apart and differ; give one of them alone")]
    Diverged {
        /// The group.
        group: String,
        /// One drive.
        drive: String,
        /// The other drive.
        other: String,
    },
    /// The creation of the group did not come to its end.
    #[error("group {group}: its creation was interrupted; create it again")]
    Unfinished {
        /// The group.
        group: String,
    },
    /// The table of lost ranges is damaged on all drives.
    #[error(
        "group {group}: its table of lost ranges is damaged on all drives that were given; reading the group could return wrong \
         data: give the drive that is missing, or restore the data from a backup"
    )]
    LostRanges {
        /// The group.
        group: String,
    },
    /// A drive failed.
    #[error("group {group}: {cause}")]
    Io {
        /// The group.
        group: String,
        /// What failed.
        cause: BlockError,
    },
}
