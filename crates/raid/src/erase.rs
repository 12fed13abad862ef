//! A label is taken off a drive again: of a group whose creation is taken back before it held data.

use world::{Drive, DriveError};

use crate::label::LABEL_REGION_LEN;

/// Zeroes the label region of a drive: it belongs to no group afterwards. Durable when it returns. Whoever calls this knows that
/// the drive holds no data.
///
/// # Errors
/// What the drive answers.
pub async fn erase_label(drive: &Drive) -> Result<(), DriveError> {
    drive.zero(0, LABEL_REGION_LEN.min(drive.info().len_bytes)).await?;
    drive.flush().await
}
