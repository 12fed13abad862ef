//! Copying a disk into an image of another format.

use block::Pieces;
use world::DriveError;

use super::Image;
use crate::{AnyDisk, VdiskError};

/// Length of one read.
const PIECE_BYTES: u64 = 2 << 20;
/// Runs of zeros of this length, aligned to it, are not written: a new image reads as zeros.
const HOLE_BYTES: usize = 64 << 10;

/// Copies all of `from` to `to`, which is new and at least as long. Calls `goes_on` with the bytes done.
/// Returns the number of bytes that a `rescue` replaced by zeros, because they cannot be read.
///
/// # Errors
///
/// A disk failed, or `goes_on` returned false: [`VdiskError::Stopped`].
pub async fn copy(
    from: &AnyDisk,
    to: &Image,
    rescue: bool,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<u64, VdiskError> {
    let len = from.len_bytes();
    if to.len_bytes() < len {
        return Err(VdiskError::refused(format!("{len} bytes do not fit on a disk of {}", to.len_bytes())));
    }
    let (mut at, mut lost) = (0, 0);
    while at < len {
        if !goes_on(at) {
            return Err(VdiskError::Stopped);
        }
        let hole = from.hole(at).await;
        if hole > 0 {
            at += hole;
            continue;
        }
        let n = PIECE_BYTES.min(len - at);
        let mut bytes = Pieces::new();
        match from.read(at, n, &mut bytes).await {
            Err(error) if rescue && is_of_data(&error) => (bytes, lost) = rescued(from, at, n, lost).await?,
            read => read?,
        }
        write_runs(to, at, &bytes).await?;
        at += n;
    }
    to.close().await?;
    to.drive().flush().await?;
    Ok(lost)
}

/// Whether only the data here cannot be read: other data may be.
fn is_of_data(error: &VdiskError) -> bool {
    matches!(error, VdiskError::Damaged { .. } | VdiskError::Drive(DriveError::Medium { .. }))
}

/// The bytes of a range, with zeros for what cannot be read, which is added to `lost`.
async fn rescued(from: &AnyDisk, at: u64, len: u64, mut lost: u64) -> Result<(Pieces, u64), VdiskError> {
    let (mut here, end, mut all) = (at, at + len, Pieces::new());
    while here < end {
        let n = (HOLE_BYTES as u64).min(end - here);
        let mut bytes = Pieces::new();
        match from.read(here, n, &mut bytes).await {
            Err(error) if is_of_data(&error) => {
                all.push_zeros(n as usize);
                lost += n;
            }
            read => {
                read?;
                all.append(bytes);
            }
        }
        here += n;
    }
    Ok((all, lost))
}

/// Writes the runs that are not zeros.
async fn write_runs(to: &Image, at: u64, bytes: &Pieces) -> Result<(), VdiskError> {
    let mut done = 0;
    while done < bytes.len() {
        let run = |from: usize| HOLE_BYTES.min(bytes.len() - from);
        let is_zero =
            |from: usize| bytes.slice(from, run(from)).iter().all(|data| data.iter().all(|byte| *byte == 0));
        if is_zero(done) {
            done += run(done);
            continue;
        }
        let begin = done;
        while done < bytes.len() && !is_zero(done) {
            done += run(done);
        }
        to.write(at + begin as u64, &bytes.slice(begin, done - begin)).await?;
    }
    Ok(())
}
