//! The label of a drive that belongs to an array, and to none of its groups: a spare, or the second level of
//! a cache. It names the array. It is stored where the label of a group would be. That of a spare is
//! overwritten when the drive takes a position.
//!
//! | on the drive | after a power cut it is |
//! |---|---|
//! | blank, the first copy is being written | blank, or a spare |
//! | a spare, the label of a group is being written | a spare, or a drive of the group that is not counted in |
//! | a spare, the label is being erased | a spare, or blank |
//! | a drive whose data may be erased, the label of a cache is being written | what it was but for 4 KiB, or the cache's |

use world::{Buf, Drive, DriveError};
use zerocopy::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ArrayId;
use crate::label::{COPIES_AT, FORMAT_CACHE, FORMAT_SPARE, LABEL_LEN, MAGIC, checksum};

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

fn encode(format: u32, array_id: ArrayId) -> Buf {
    let mut format = Format {
        magic: MAGIC,
        format: format.into(),
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
    label(drive, FORMAT_SPARE, array_id).await
}

/// Labels a drive as the second level of a cache of an array. Its data begin behind the label region. Durable
/// on return. The caller has examined the drive: the label region is overwritten.
///
/// # Errors
/// An I/O error of the drive.
pub async fn label_cache(drive: &Drive, array_id: ArrayId) -> Result<(), DriveError> {
    label(drive, FORMAT_CACHE, array_id).await
}

async fn label(drive: &Drive, format: u32, array_id: ArrayId) -> Result<(), DriveError> {
    for at in COPIES_AT {
        drive.write(at, encode(format, array_id).freeze()).await?;
        drive.flush().await?;
    }
    Ok(())
}

/// Erases such a label, and nothing else. Durable on return.
///
/// # Errors
/// An I/O error of the drive.
pub async fn erase_array_label(drive: &Drive) -> Result<(), DriveError> {
    // The second copy first: a first copy that remains alone after a power failure counts as blank.
    for at in COPIES_AT.into_iter().rev() {
        drive.write(at, Buf::zeroed(LABEL_LEN).freeze()).await?;
        drive.flush().await?;
    }
    Ok(())
}
