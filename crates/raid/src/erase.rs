//! A label is taken off a drive again: of a group whose creation is taken back before it held data.

use world::{Drive, DriveError};

/// What is zeroed of a drive where zeroing is not cheap: the label region, and what a pool begins with behind it.
const HEAD_LEN: u64 = 64 << 20;

/// Zeroes the label of a drive and what else a group that was just made has written: the drive belongs to no group afterwards, and is
/// blank again. Durable when it returns. Whoever calls this knows that the drive holds no data.
///
/// # Errors
/// What the drive answers.
pub async fn erase_label(drive: &Drive) -> Result<(), DriveError> {
    let len = drive.len_bytes();
    drive.zero(0, if drive.info().cheap_zero { len } else { len.min(HEAD_LEN) }).await?;
    drive.flush().await
}
