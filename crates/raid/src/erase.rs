//! Erases the label of a group that is deleted, or whose creation is undone before it held data.

use world::{Drive, DriveError};

use crate::label::{COPIES_AT, LABEL_LEN};

/// The zeroed range of a drive where zeroing is not cheap: the label region, and the pool's superblock behind
/// it.
const HEAD_LEN: u64 = 64 << 20;

/// Zeroes the label of a drive and everything else that creating a group wrote; all of the drive where that
/// is cheap. The drive is then blank and in no group. Durable on return. The caller knows that the drive
/// holds no data, or that its group is deleted.
///
/// A power failure leaves the label, or no label: the first copy is erased last, because a first copy that
/// remains alone and torn counts as blank.
///
/// # Errors
/// An I/O error of the drive.
pub async fn erase_label(drive: &Drive) -> Result<(), DriveError> {
    let len = drive.len_bytes();
    let end = if drive.info().cheap_zero { len } else { len.min(HEAD_LEN) };
    let first = (LABEL_LEN as u64).min(end);
    let second = COPIES_AT[1].clamp(first, end);
    for part in [second..end, first..second, 0..first] {
        if !part.is_empty() {
            drive.zero(part.start, part.end - part.start).await?;
            drive.flush().await?;
        }
    }
    Ok(())
}
