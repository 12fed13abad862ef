//! Erases the label of a group whose creation is undone before it held data.

use world::{Drive, DriveError};

/// The zeroed range of a drive where zeroing is not cheap: the label region, and the pool's superblock behind
/// it.
const HEAD_LEN: u64 = 64 << 20;

/// Zeroes the label of a drive and everything else that creating a group wrote. The drive is then blank and
/// in no group. Durable on return. The caller knows that the drive holds no data.
///
/// # Errors
/// An I/O error of the drive.
pub async fn erase_label(drive: &Drive) -> Result<(), DriveError> {
    let len = drive.len_bytes();
    drive.zero(0, if drive.info().cheap_zero { len } else { len.min(HEAD_LEN) }).await?;
    drive.flush().await
}
