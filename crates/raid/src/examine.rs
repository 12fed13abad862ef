//! Examines a drive before anything is written to it: a label, a label that this version cannot read,
//! nothing, or other data.

use std::fmt;

use smallvec::SmallVec;
use world::{Buf, Drive, DriveError};

use crate::ArrayId;
use crate::blank::first_data;
use crate::label::{COPIES_AT, LABEL_LEN, LABEL_REGION_LEN, Label, LabelCopy};
use crate::lost_table;

/// What a drive carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnDrive {
    /// A label of a format that this version reads. The other copy may be damaged; the next change of the
    /// label repairs it.
    Label(Box<Label>),
    /// The label of a spare. The other copy is the same, unless the power failed while it was written or
    /// erased.
    Spare {
        /// The array that owns the spare.
        array_id: ArrayId,
    },
    /// The label of the second level of a cache, whose content ends with the process.
    Cache {
        /// The array that owns the cache.
        array_id: ArrayId,
    },
    /// A label of a newer masu. Nothing else is known of the drive, and nothing may be written to it.
    NewerFormat {
        /// The number of the format.
        format: u32,
    },
    /// The magic of a label, but no valid copy.
    DamagedLabel,
    /// Zeros everywhere it was read: all data that a file has, of a device places and samples (`blank.rs`).
    /// At most, the first copy of the drive's first label is torn.
    Blank,
    /// Other data.
    NotBlank {
        /// The first nonzero byte that was read.
        at: u64,
    },
}

impl fmt::Display for OnDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnDrive::Label(label) => write!(f, "belongs to {label}"),
            OnDrive::Spare { array_id } => write!(f, "is labelled as a spare of array {array_id}"),
            OnDrive::Cache { array_id } => write!(f, "is labelled as a cache of array {array_id}"),
            OnDrive::NewerFormat { format } => {
                write!(f, "carries a label of format {format}, written by a newer masu")
            }
            OnDrive::DamagedLabel => f.write_str("carries a damaged label"),
            OnDrive::Blank => f.write_str("carries no label"),
            OnDrive::NotBlank { at } => write!(f, "carries no label, but data at byte {at}"),
        }
    }
}

/// Examines a drive; writes nothing.
///
/// # Errors
/// If no copy of a label is found and a part that decides cannot be read.
pub async fn examine(drive: &Drive) -> Result<OnDrive, DriveError> {
    let mut copies: SmallVec<[LabelCopy; 2]> = SmallVec::new();
    let mut failure = None;
    for read in label_copies(drive).await {
        match read {
            Ok(copy) => copies.push(copy),
            Err(error) => failure = Some(error),
        }
    }
    if let Some(format) = copies.iter().find_map(newer_format) {
        return Ok(OnDrive::NewerFormat { format });
    }
    if let Some(label) = copies.iter().filter_map(LabelCopy::label).max_by_key(|l| l.believed()) {
        return Ok(OnDrive::Label(Box::new(label.clone())));
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if let Some(of_array) = copies.iter().find_map(of_array) {
        return Ok(of_array);
    }
    let claimed = copies.iter().find_map(damaged_format);
    match (claimed, copies.as_slice()) {
        (Some(format), _) if format > crate::label::FORMAT => Ok(OnDrive::NewerFormat { format }),
        // Creation writes the second copy after the first one is durable: this label was never in force.
        (Some(_), [LabelCopy::Damaged { .. }, LabelCopy::None]) => {
            match first_data(drive, LABEL_LEN as u64).await? {
                None => Ok(OnDrive::Blank),
                Some(_) => Ok(OnDrive::DamagedLabel),
            }
        }
        (Some(_), _) => Ok(OnDrive::DamagedLabel),
        (None, _) => Ok(first_data(drive, 0).await?.map_or(OnDrive::Blank, |at| OnDrive::NotBlank { at })),
    }
}

fn of_array(copy: &LabelCopy) -> Option<OnDrive> {
    match copy {
        LabelCopy::Spare { array_id } => Some(OnDrive::Spare { array_id: *array_id }),
        LabelCopy::Cache { array_id } => Some(OnDrive::Cache { array_id: *array_id }),
        _ => None,
    }
}

fn newer_format(copy: &LabelCopy) -> Option<u32> {
    if let LabelCopy::NewerFormat { format } = copy { Some(*format) } else { None }
}

fn damaged_format(copy: &LabelCopy) -> Option<u32> {
    if let LabelCopy::Damaged { format } = copy { Some(*format) } else { None }
}

/// The two copies of a drive's label; none on a drive that is too small for a label.
pub async fn label_copies(drive: &Drive) -> Vec<Result<LabelCopy, DriveError>> {
    if drive.len_bytes() < LABEL_REGION_LEN {
        return Vec::new();
    }
    let mut said = Vec::new();
    for (i, copy) in COPIES_AT.map(|at| drive.read(at, Buf::new(LABEL_LEN))).into_iter().enumerate() {
        let filled = copy.await;
        said.push(match filled.result {
            Ok(()) => lost_table::complete(drive, LabelCopy::of(&filled.buf), i).await,
            Err(error) => Err(error),
        });
    }
    said
}

/// The label of a drive, or `None` if it carries no readable one; [`examine`] returns what it carries
/// instead. Of two different copies, the newer one counts.
///
/// # Errors
///
/// The drive could not be read.
pub async fn inspect(drive: &Drive) -> Result<Option<Label>, DriveError> {
    let mut newest: Option<Label> = None;
    let mut failure = None;
    for copy in label_copies(drive).await {
        match copy {
            Ok(LabelCopy::Label(label))
                if newest.as_ref().is_none_or(|n| n.believed() < label.believed()) =>
            {
                newest = Some(*label);
            }
            Ok(_) => {}
            Err(error) => failure = Some(error),
        }
    }
    match (newest, failure) {
        (Some(label), _) => Ok(Some(label)),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(None),
    }
}
