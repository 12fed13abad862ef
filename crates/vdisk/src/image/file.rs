//! The file below an image. Locations in an image's metadata are untrusted: a location outside the file is an
//! error of the image here, before [`Drive`] treats it as a bug of masu.

use std::cell::RefCell;
use std::collections::VecDeque;

use block::Pieces;
use world::{BUF_LEN_MAX, Buf, Data, Drive, DriveError, Filled, Io};

use crate::{Step, VdiskError};

type Writing = Io<Result<(), DriveError>>;

/// Whether a range is in the file, in whole blocks.
fn check(drive: &Drive, at: u64, len: u64) -> Result<(), VdiskError> {
    let block = u64::from(drive.info().block_bytes);
    let is_whole = len > 0 && at.is_multiple_of(block) && len.is_multiple_of(block);
    match at.checked_add(len) {
        Some(end) if is_whole && end <= drive.len_bytes() => Ok(()),
        _ => {
            let cause = format!("{len} bytes at {at} are past its end at {} bytes", drive.len_bytes());
            Err(VdiskError::damaged(drive.info().name.clone(), cause))
        }
    }
}

/// Begins a read.
pub(crate) fn read(drive: &Drive, at: u64, len: usize) -> Result<Io<Filled>, VdiskError> {
    check(drive, at, len as u64)?;
    Ok(drive.read(at, Buf::new(len)))
}

/// Begins a write.
pub(crate) fn write(drive: &Drive, at: u64, data: Data) -> Result<Writing, VdiskError> {
    check(drive, at, data.len() as u64)?;
    Ok(drive.write(at, data))
}

/// Begins a write of pieces, merged if they are too many for one operation.
pub(crate) fn write_pieces(drive: &Drive, at: u64, part: Pieces) -> Result<Writing, VdiskError> {
    check(drive, at, part.len() as u64)?;
    let block = drive.info().block_bytes as usize;
    let count = part.iter().count();
    let is_vectored = (2..=world::VECTORED_MAX).contains(&count)
        && part.iter().all(|data| !data.is_empty() && data.len().is_multiple_of(block));
    Ok(if is_vectored {
        drive.write_vectored(at, part.into_iter().collect())
    } else {
        drive.write(at, part.joined())
    })
}

/// Begins zeroing a range.
pub(crate) fn zero(drive: &Drive, at: u64, len: u64) -> Result<Writing, VdiskError> {
    check(drive, at, len)?;
    Ok(drive.zero(at, len))
}

/// Waits for all writes, and returns the first error. None is left in flight: a late one would overwrite
/// writes after the error.
pub(crate) async fn all(writes: impl IntoIterator<Item = Writing>) -> Result<(), DriveError> {
    let mut outcome = Ok(());
    for write in writes {
        outcome = outcome.and(write.await);
    }
    outcome
}

/// Performs steps.
pub(crate) async fn take_steps(drive: &Drive, steps: Vec<Step>) -> Result<(), VdiskError> {
    take_due(drive, &RefCell::new(steps.into())).await
}

/// What [`take_steps_told`] writes at once: some seconds of a slow drive.
const TOLD_BYTES: u64 = 64 << 20;

/// Performs steps as [`take_steps`], in parts one after the other; tells after each how many bytes are
/// written, of all.
pub(crate) async fn take_steps_told(
    drive: &Drive,
    steps: Vec<Step>,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(), VdiskError> {
    let len = |step: &Step| match step {
        Step::Write { bytes, .. } => bytes.len() as u64,
        Step::Zero { len, .. } => *len,
        Step::Flush => 0,
    };
    let (all, mut done) = (steps.iter().map(len).sum(), 0);
    for part in steps.into_iter().flat_map(parts) {
        done += len(&part);
        take_steps(drive, vec![part]).await?;
        told(done, all);
    }
    Ok(())
}

fn parts(step: Step) -> Vec<Step> {
    match step {
        Step::Zero { part, at, len } => (0..len)
            .step_by(TOLD_BYTES as usize)
            .map(|from| Step::Zero { part, at: at + from, len: TOLD_BYTES.min(len - from) })
            .collect(),
        Step::Write { part, at, bytes } if bytes.len() as u64 > TOLD_BYTES => {
            let pieces = bytes.chunks(TOLD_BYTES as usize).enumerate();
            let piece = |(n, bytes): (usize, &[u8])| Step::Write {
                part,
                at: at + n as u64 * TOLD_BYTES,
                bytes: bytes.to_vec(),
            };
            pieces.map(piece).collect()
        }
        step => vec![step],
    }
}

/// Performs steps: writes concurrently, and every flush after the writes before it. A step stays in `due`
/// until the flush behind it has succeeded: after an error, or if the caller is dropped, the rest must be
/// performed again.
pub(crate) async fn take_due(drive: &Drive, due: &RefCell<VecDeque<Step>>) -> Result<(), VdiskError> {
    loop {
        let mut writes = Vec::new();
        let (count, begun) = {
            let steps = due.borrow();
            let count = steps.iter().take_while(|step| **step != Step::Flush).count();
            (count, steps.iter().take(count).try_for_each(|step| begin_step(drive, step, &mut writes)))
        };
        all(writes).await?;
        begun?;
        if count < due.borrow().len() {
            drive.flush().await?;
        }
        let mut steps = due.borrow_mut();
        let done = (count + 1).min(steps.len());
        steps.drain(..done);
        if steps.is_empty() {
            return Ok(());
        }
    }
}

fn begin_step(drive: &Drive, step: &Step, writes: &mut Vec<Writing>) -> Result<(), VdiskError> {
    match step {
        Step::Write { at, bytes, .. } => {
            check(drive, *at, bytes.len() as u64)?;
            let chunks = bytes.chunks(BUF_LEN_MAX).enumerate();
            writes.extend(
                chunks.map(|(i, chunk)| drive.write(at + (i * BUF_LEN_MAX) as u64, Data::copy_of(chunk))),
            );
        }
        Step::Zero { at, len, .. } => writes.push(zero(drive, *at, *len)?),
        Step::Flush => {}
    }
    Ok(())
}

/// Reads bytes of the file; it reads as zeros past its end.
pub(crate) async fn read_file(drive: &Drive, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
    let there = drive.len_bytes().saturating_sub(at).min(len);
    let mut done = 0;
    while done < there {
        let n = (there - done).min(BUF_LEN_MAX as u64);
        let filled = read(drive, at + done, n as usize)?.await;
        filled.result?;
        out.push(filled.buf.freeze());
        done += n;
    }
    push_zeros(out, len - there);
    Ok(())
}

pub(crate) fn push_zeros(out: &mut Pieces, len: u64) {
    let mut left = len;
    while left > 0 {
        let n = left.min(BUF_LEN_MAX as u64);
        out.push(Buf::shared_zeros(n as usize).freeze());
        left -= n;
    }
}

/// Reads a range of the file contiguously: for metadata, whose length was checked against a limit.
pub(crate) async fn read_vec(drive: &Drive, at: u64, len: u64) -> Result<Vec<u8>, VdiskError> {
    let mut pieces = Pieces::new();
    read_file(drive, at, len, &mut pieces).await?;
    let mut bytes = vec![0; pieces.len()];
    pieces.copy_to(&mut bytes);
    Ok(bytes)
}
