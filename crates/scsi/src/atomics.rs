//! The atomic writes of a logical unit: the old blocks are in records of its disk until the new ones are
//! durable.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockError, Pieces, RangeLocks};
use lu::{CommandContext, Durability, LogicalDisk};

use crate::error::CommandError;
use crate::limits::ATOMIC_BYTES_MAX;

/// Bytes per record, below the 64 KiB limit of a medium.
const PART_BYTES: usize = 60 << 10;
/// The head: address, length and checksum of the old blocks.
const HEAD: &str = "atomic";
const HEAD_LEN: usize = 24;

const _: () = assert!(ATOMIC_BYTES_MAX as usize <= 9 * PART_BYTES, "a part has a name of one digit");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// After power on: the old blocks are being restored.
    Undoing,
    /// The old blocks could not be restored.
    Failed,
}

/// The atomic writes of a logical unit.
pub(crate) struct Atomics {
    pub(crate) state: Cell<State>,
    pub(crate) one_at_a_time: RangeLocks,
}

impl Atomics {
    /// The state after power on. If it is not ready, [`undo_task`] must run.
    pub(crate) fn load<D: LogicalDisk>(disk: &D) -> Atomics {
        let state = if load(disk).is_some() { State::Undoing } else { State::Ready };
        Atomics { state: Cell::new(state), one_at_a_time: RangeLocks::default() }
    }

    /// Why the medium cannot be used now.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self.state.get() {
            State::Ready => Ok(()),
            State::Undoing => Err(CommandError::BecomingReady),
            State::Failed => Err(CommandError::NotRecovered),
        }
    }
}

fn part_name(index: usize) -> String {
    format!("{HEAD}-{index}")
}

/// The head's checksum covers the parts, and each record has the medium's own checksum.
fn checksum(bytes: &[u8]) -> u64 {
    world::fnv1a(bytes.iter().copied())
}

/// An interrupted atomic write: its position, and the old blocks.
fn load<D: LogicalDisk>(disk: &D) -> Option<(u64, Vec<u8>)> {
    let head = disk.load_record(HEAD).filter(|h| h.len() == HEAD_LEN)?;
    let field = |at: usize| head[at..at + 8].iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
    let (at, len, sum) = (field(0), field(8), field(16));
    if len > ATOMIC_BYTES_MAX {
        return None;
    }
    let parts = (len as usize).div_ceil(PART_BYTES);
    let old: Vec<u8> = (0..parts).filter_map(|i| disk.load_record(&part_name(i))).flatten().collect();
    (old.len() as u64 == len && checksum(&old) == sum).then_some((at, old))
}

/// Saves the old blocks: from then on the write has not happened.
pub(crate) async fn save<D: LogicalDisk>(disk: &D, at: u64, old: &[u8]) -> Result<(), BlockError> {
    for (i, part) in old.chunks(PART_BYTES).enumerate() {
        disk.save_record(&part_name(i), part).await?;
    }
    let head = [at, old.len() as u64, checksum(old)].map(u64::to_be_bytes).concat();
    disk.save_record(HEAD, &head).await
}

/// Removes the head first: from then on the write has happened.
pub(crate) async fn forget<D: LogicalDisk>(disk: &D, len: usize) -> Result<(), BlockError> {
    disk.save_record(HEAD, &[]).await?;
    for i in 0..len.div_ceil(PART_BYTES) {
        disk.save_record(&part_name(i), &[]).await?;
    }
    Ok(())
}

/// Restores the old blocks. Blocks of zeros need no page, which matters if the pool is full.
pub(crate) async fn undo<D: LogicalDisk>(disk: &D, at: u64, old: &[u8]) -> Result<(), BlockError> {
    let command = CommandContext::DETACHED;
    let block = disk.geometry().block_bytes as usize;
    let is_zero = |block: &[u8]| block.iter().all(|&b| b == 0);
    let mut done = 0;
    while done < old.len() {
        let zeros = is_zero(&old[done..(done + block).min(old.len())]);
        let run =
            old[done..].chunks(block).take_while(|b| is_zero(b) == zeros).map(<[u8]>::len).sum::<usize>();
        match zeros {
            true => disk.zero(command, at + done as u64, run as u64).await?,
            false => {
                let old = Pieces::copy_of(&old[done..done + run]);
                disk.write(command, at + done as u64, &old, Durability::Volatile).await?
            }
        }
        done += run;
    }
    disk.flush().await?;
    forget(disk, old.len()).await
}

/// After power on: undoes an interrupted write before the first command reaches the disk.
pub(crate) async fn undo_task<D: LogicalDisk>(disk: D, atomics: Rc<Atomics>) {
    let result = match load(&disk) {
        Some((at, old)) => undo(&disk, at, &old).await,
        None => Ok(()),
    };
    atomics.state.set(if result.is_ok() { State::Ready } else { State::Failed });
}
