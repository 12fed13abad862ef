//! Creating and opening a journal.

use block::{BlockError, Buf, Device, Pieces};
use futures::{StreamExt, TryStreamExt, stream};
use thiserror::Error;
use world::World;

use super::batch::{BATCH_LEN_MAX, Place, Placed, decode};
use super::commit::{COMMIT_BATCHES, Inner, Journal, Live};
use super::header::{Header, RING_BYTES_MAX, RING_BYTES_MIN, VERSION};
use super::replay::{Replay, Ring, Window, read_source, sources};
use super::{BLOCK, COUNTER_FULL, RING_START};

/// Length of one write of zeros, and number of concurrent ones.
const ZEROS_BYTES: u64 = 1 << 20;
const ZEROS_AT_ONCE: usize = 8;
/// How far behind the last valid batch to search for a batch that proves a gap: the length of two commits.
const LOOK_BYTES: u64 = 2 * (COMMIT_BATCHES * BATCH_LEN_MAX) as u64;

/// Why a journal cannot be created or opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JournalError {
    /// The device is too small.
    #[error("device too small for a journal: has {found} bytes, requires {needed}")]
    TooSmall {
        /// Bytes that it needs at least.
        needed: u64,
        /// Bytes of the device.
        found: u64,
    },
    /// The device has no journal.
    #[error("no journal found on the device")]
    None,
    /// A newer masu created it.
    #[error(
        "the journal is of newer format version {found}, this program reads up to {known}; nothing was written to it: start the newer \
         masu"
    )]
    Version {
        /// Its version.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// An earlier state of the journal, as of a copy of its drive.
    #[error(
        "the journal is an earlier copy: it was opened {found} times, and has been opened {noted} times before; \
         connect its current drives"
    )]
    Earlier {
        /// Its epoch.
        found: u64,
        /// The epoch that it had reached.
        noted: u64,
    },
    /// A batch that was durable is missing or changed.
    #[error(
        "the journal is damaged: batch {number} is invalid, but batch {later} was written after it was durable"
    )]
    Damaged {
        /// The invalid batch.
        number: u64,
        /// The batch that proves the damage.
        later: u64,
    },
    /// Valid batches that contradict each other.
    #[error(
        "the journal is damaged: the records of batch {number} do not follow those of the previous batch"
    )]
    Disordered {
        /// The later of the two.
        number: u64,
    },
    /// A number beyond the range of a journal.
    #[error("the journal is damaged: a counter is out of range")]
    UsedUp,
    /// The device failed.
    #[error("cannot read or write the journal: {0}")]
    Device(#[from] BlockError),
}

impl JournalError {
    /// Whether the journal itself is at fault, not the program or the device.
    pub fn is_damage(&self) -> bool {
        use JournalError::{Damaged, Disordered, Earlier, UsedUp};
        matches!(self, Damaged { .. } | Disordered { .. } | Earlier { .. } | UsedUp)
    }
}

impl<J: Device + Clone + 'static> Journal<J> {
    /// Creates an empty journal on the device. `id` is random: it distinguishes its batches from those of an
    /// earlier journal on the device.
    ///
    /// The ring is filled with zeros once, which takes about a second per GB: in a file that was never
    /// written, every commit would otherwise wait for the file system to record block locations (measured: a
    /// quarter of the commits per second).
    ///
    /// # Errors
    /// The device is too small, or its I/O failed.
    pub async fn create(world: World, device: J, id: [u8; 16]) -> Result<Journal<J>, JournalError> {
        let found = device.geometry().len_bytes;
        let needed = RING_START + RING_BYTES_MIN;
        if found < needed {
            return Err(JournalError::TooSmall { needed, found });
        }
        let ring_len = ((found - RING_START) / BLOCK * BLOCK).min(RING_BYTES_MAX);
        write_zeros(&device, RING_START, ring_len).await?;
        let header = Header { id, turn: 0, epoch: 1, tail: Place::default(), sequence: 1, ring_len };
        let mut blocks = Pieces::from(header.encode().freeze());
        blocks.push(Buf::zeroed(BLOCK as usize).freeze());
        device.write(0, &blocks).await?;
        device.flush().await?;
        Ok(Journal(Inner::new(world, device, header).into()))
    }

    /// Opens a journal. Apply the replay with [`Cache::replay`](crate::Cache::replay) before anything else
    /// uses the units.
    ///
    /// # Errors
    /// The device has no journal, one of a newer version, or a damaged one, or its I/O failed. Except for a
    /// flush, nothing was written then, unless the write of the header itself failed.
    pub async fn open(world: World, device: J) -> Result<(Journal<J>, Replay<J>), JournalError> {
        Journal::open_since(world, device, 0).await
    }

    /// Like [`Journal::open`], if the journal has reached this epoch ([`Journal::epoch`]). An earlier one is
    /// that of a copy of the device, whose records would be replayed over newer data.
    ///
    /// # Errors
    /// As [`Journal::open`], and [`JournalError::Earlier`].
    pub async fn open_since(
        world: World,
        device: J,
        noted: u64,
    ) -> Result<(Journal<J>, Replay<J>), JournalError> {
        // Data in the drives' caches, left by a process that died, must be durable before they are used.
        device.flush().await?;
        let header = read_header(&device).await?;
        if header.epoch < noted {
            return Err(JournalError::Earlier { found: header.epoch, noted });
        }
        let (batches, head) = read_live(&device, &header).await?;
        let sequence = batches.first().map_or(header.sequence, |b| b.found.stamp.first_sequence);
        // Unacknowledged batches behind the last valid one belong to an earlier epoch than the new ones.
        let (turn, epoch) = (header.turn + 1, header.epoch + 1);
        let tail = batches.first().map_or(head, |b| b.place);
        let header = Header { turn, epoch, tail, sequence, ..header };
        let last = batches.last().map_or(0, |b| b.found.stamp.first_sequence);
        let counters = [turn, epoch, sequence, last, head.number, head.position];
        if counters.iter().any(|counter| *counter >= COUNTER_FULL) {
            // The journal could not be opened again after further writes.
            return Err(JournalError::UsedUp);
        }
        mend(&device, header.ring_len, &batches).await?;
        device.write(header.at(), &Pieces::from(header.encode().freeze())).await?;
        device.flush().await?;
        let inner = Inner::new(world, device.clone(), header);
        inner.head.set(head);
        for Placed { place, found, .. } in &batches {
            let first_sequence = found.stamp.first_sequence;
            let last_sequence = first_sequence + found.entries.len() as u64 - 1;
            inner.live.borrow_mut().push_back(Live { place: *place, first_sequence, last_sequence });
            inner.next_sequence.set(last_sequence + 1);
            inner.durable.set(last_sequence);
            let mut regions = inner.regions.borrow_mut();
            for (entry, sequence) in found.entries.iter().zip(first_sequence..) {
                // A replayed Forget voids less than an appended one, never more.
                regions.note(
                    entry.unit,
                    entry.at..entry.at.saturating_add(entry.payload_len() as u64),
                    sequence,
                );
            }
        }
        Ok((Journal(inner.into()), Replay::new(device, header.ring_len, batches)))
    }
}

/// A journal that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundJournal {
    /// Its identity.
    pub id: [u8; 16],
    /// How often it was opened.
    pub epoch: u64,
}

/// A journal that is not open and has records which a replay would apply; none: the device has no journal, or
/// an empty one. Nothing is written.
///
/// # Errors
/// The journal is damaged or of a newer masu, or the device failed.
pub async fn journal_with_records(device: &impl Device) -> Result<Option<FoundJournal>, JournalError> {
    let header = match read_header(device).await {
        Ok(header) => header,
        Err(JournalError::None) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (batches, _) = read_live(device, &header).await?;
    Ok((!batches.is_empty()).then_some(FoundJournal { id: header.id, epoch: header.epoch }))
}

/// The journal that a device has, with records or without; none where it has none.
///
/// # Errors
/// Its header is damaged, or of a newer masu; or the device failed.
pub async fn journal_on(device: &impl Device) -> Result<Option<FoundJournal>, JournalError> {
    match read_header(device).await {
        Ok(header) => Ok(Some(FoundJournal { id: header.id, epoch: header.epoch })),
        Err(JournalError::None) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The batches that a replay reads, and where the next one would be.
async fn read_live(device: &impl Device, header: &Header) -> Result<(Vec<Placed>, Place), JournalError> {
    let (mut batches, head) = scan(device, header).await?;
    let newest = batches.last().map(|batch| batch.found.stamp.tail);
    let tail = newest.filter(|tail| tail.number > header.tail.number).unwrap_or(header.tail);
    batches.retain(|batch| batch.place.number >= tail.number);
    Ok((batches, head))
}

/// Erases the header of a journal that is not open: the device has none then. A device without one stays as
/// it is. Durable on return.
///
/// # Errors
/// A newer masu created the journal: nothing was written then. Or the device failed.
pub async fn erase_journal(device: &impl Device) -> Result<(), JournalError> {
    match read_header(device).await {
        Ok(_) => {}
        Err(JournalError::None) => return Ok(()),
        Err(error) => return Err(error),
    }
    device.write(0, &Pieces::from(Buf::zeroed(RING_START as usize).freeze())).await?;
    Ok(device.flush().await?)
}

async fn write_zeros(device: &impl Device, at: u64, len: u64) -> Result<(), BlockError> {
    let zeros = Buf::zeroed(ZEROS_BYTES as usize).freeze();
    let write = |from: u64| {
        let data = Pieces::from(zeros.slice(0..ZEROS_BYTES.min(at + len - from) as usize));
        async move { device.write(from, &data).await }
    };
    let writes = stream::iter((at..at + len).step_by(ZEROS_BYTES as usize)).map(write);
    writes.buffer_unordered(ZEROS_AT_ONCE).try_collect().await
}

/// Writes batches again that only another mirror had, to all mirrors: a resync copies the one that is read,
/// whatever it has. They are durable with the header that is written next.
async fn mend(device: &impl Device, ring_len: u64, batches: &[Placed]) -> Result<(), BlockError> {
    for Placed { place, found, mirror } in batches.iter().filter(|batch| batch.mirror.is_some()) {
        let at = RING_START + place.position % ring_len;
        let data = read_source(device, *mirror, at, found.len() as usize).await?;
        device.write(at, &data).await?;
    }
    Ok(())
}

/// The header of the most turns that any mirror has.
async fn read_header(device: &impl Device) -> Result<Header, JournalError> {
    let len = device.geometry().len_bytes;
    if len < RING_START {
        return Err(JournalError::None);
    }
    let mut newest: Option<Header> = None;
    for (copy, mirror) in sources(device).into_iter().flat_map(|mirror| [(0, mirror), (1, mirror)]) {
        let block = match read_source(device, mirror, copy * BLOCK, BLOCK as usize).await {
            Ok(block) => block,
            // One mirror alone has nothing to add then.
            Err(_) if mirror.is_some() => continue,
            Err(error) => return Err(error.into()),
        };
        let header = Header::decode(&block.joined(), len)
            .map_err(|found| JournalError::Version { found, known: VERSION })?;
        newest = newest.into_iter().chain(header).max_by_key(|h| h.turn);
    }
    newest.ok_or(JournalError::None)
}

/// The batches from the header's tail on, and the place of the next one.
async fn scan(device: &impl Device, header: &Header) -> Result<(Vec<Placed>, Place), JournalError> {
    let mut ring = Ring::new(device, header.ring_len);
    let mut batches: Vec<Placed> = Vec::new();
    let (mut next, mut epoch) = (header.tail, 0);
    loop {
        let mut placed = batch_at(device, &mut ring, header, next, epoch).await?;
        if placed.is_none() && !next.position.is_multiple_of(header.ring_len) {
            // It may not have fitted before the end of the ring.
            let position = next.position.next_multiple_of(header.ring_len);
            placed = batch_at(device, &mut ring, header, Place { position, ..next }, epoch).await?;
        }
        let Some(placed) = placed else { break };
        let number = placed.place.number;
        let follows = |last: &Placed| last.found.next_sequence() == placed.found.stamp.first_sequence;
        if !batches.last().is_none_or(follows) {
            return Err(JournalError::Disordered { number });
        }
        epoch = placed.found.stamp.epoch;
        next = Place { number: next.number + 1, position: placed.place.position + placed.found.len() };
        batches.push(placed);
    }
    for window in ring.windows() {
        match look_behind(device, window, header, next).await {
            // One mirror alone that cannot be read proves nothing.
            Err(JournalError::Device(_)) if window.mirror.is_some() => {}
            looked => looked?,
        }
    }
    Ok((batches, next))
}

/// The batch at a place, if it is complete and valid on the device or on one of its mirrors.
async fn batch_at(
    device: &impl Device,
    ring: &mut Ring,
    header: &Header,
    place: Place,
    epoch: u64,
) -> Result<Option<Placed>, JournalError> {
    for window in ring.windows() {
        match batch_in(device, window, header, place, epoch).await {
            Ok(None) => {}
            // One mirror alone that cannot be read has nothing to add.
            Err(_) if window.mirror.is_some() => {}
            found => return found,
        }
    }
    Ok(None)
}

async fn batch_in(
    device: &impl Device,
    window: &mut Window,
    header: &Header,
    place: Place,
    epoch: u64,
) -> Result<Option<Placed>, JournalError> {
    let offset = place.position % header.ring_len;
    let is_past = place.position - header.tail.position >= header.ring_len;
    let Some(found) = decode(&window.read(device, offset, BLOCK as usize).await?, &header.id) else {
        return Ok(None);
    };
    let fits = found.stamp.place == place
        && (epoch..=header.epoch).contains(&found.stamp.epoch)
        && offset + found.len() <= header.ring_len;
    if !fits || is_past {
        return Ok(None);
    }
    let payload = window.read(device, offset + BLOCK, found.payload_len).await?;
    let mirror = window.mirror;
    Ok(found.fits(&payload).then_some(Placed { place, found, mirror }))
}

/// A batch of a later commit than the missing one was written when the missing one was durable, whatever its
/// epoch: leftovers of an earlier epoch were never behind a commit, and numbers only grow. The same holds for
/// a batch of a later lap or epoch than the header's: then this header is not the last durable one.
async fn look_behind(
    device: &impl Device,
    window: &mut Window,
    header: &Header,
    missing: Place,
) -> Result<(), JournalError> {
    let end = (missing.position + LOOK_BYTES).min(header.tail.position + header.ring_len);
    let mut position = missing.position;
    while position < end {
        let block = window.read(device, position % header.ring_len, BLOCK as usize).await?;
        let later = decode(&block, &header.id).filter(|f| {
            let Place { number, position: at } = f.stamp.place;
            let is_here = at >= position && (at - position).is_multiple_of(header.ring_len);
            is_here && number > missing.number && f.stamp.commit > missing.number
        });
        if let Some(later) = later {
            let later = later.stamp.place.number;
            return Err(JournalError::Damaged { number: missing.number, later });
        }
        position += BLOCK;
    }
    Ok(())
}
