//! The label of a spare. It names the array that owns the drive. It is stored where the label of a group
//! would be, and is overwritten when the drive takes a position.
//!
//! | on the drive | after a power cut it is |
//! |---|---|
//! | blank, the first copy is being written | blank, or a spare |
//! | a spare, the label of a group is being written | a spare, or a drive of the group that is not counted in |
//! | a spare, the label is being erased | a spare, or blank |

use world::{Buf, Drive, DriveError};
use zerocopy::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ArrayId;
use crate::label::{COPIES_AT, FORMAT_SPARE, LABEL_LEN, MAGIC, checksum};

const FIXED_LEN: usize = 32;

/// The fields are laid out as in the label of a group, so that its decoder also reads this label.
#[derive(IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Format {
    magic: [u8; 8],
    format: U32,
    crc32c: U32,
    array_id: [u8; 16],
    rest: [u8; LABEL_LEN - FIXED_LEN],
}

const _: () = assert!(size_of::<Format>() == LABEL_LEN);

fn encode(array_id: ArrayId) -> Buf {
    let mut format = Format {
        magic: MAGIC,
        format: FORMAT_SPARE.into(),
        crc32c: 0.into(),
        array_id: array_id.0,
        rest: [0; LABEL_LEN - FIXED_LEN],
    };
    format.crc32c = checksum(format.as_bytes()).into();
    Buf::copy_of(format.as_bytes())
}

/// Labels a drive as a spare of an array. Durable on return. The caller has examined the drive: the label
/// region is overwritten.
///
/// # Errors
/// An I/O error of the drive.
pub async fn label_spare(drive: &Drive, array_id: ArrayId) -> Result<(), DriveError> {
    for at in COPIES_AT {
        drive.write(at, encode(array_id).freeze()).await?;
        drive.flush().await?;
    }
    Ok(())
}

/// Erases the label of a spare, and nothing else. Durable on return.
///
/// # Errors
/// An I/O error of the drive.
pub async fn erase_spare_label(drive: &Drive) -> Result<(), DriveError> {
    // The second copy first: a first copy that remains alone after a power failure counts as blank.
    for at in COPIES_AT.into_iter().rev() {
        drive.write(at, Buf::zeroed(LABEL_LEN).freeze()).await?;
        drive.flush().await?;
    }
    Ok(())
}
