//! Recovery: checkpoint, then journal, from the most recent copy of the metadata.
//!
//! Every acknowledged commit is on all copies, so each valid copy has it. A commit on only one copy was not
//! acknowledged; its data were flushed before, so it may be applied as well.

use std::rc::Rc;

use block::{BlockError, Data, Device, Pieces};
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use raid::Group;
use world::{BUF_LEN_MAX, yield_now};

use crate::area::Area;
use crate::catalog::Catalog;
use crate::checkpoint::{Unpacker, block_body};
use crate::closed::Closed;
use crate::journal::{ReadEnd, claims, merge, read_half};
use crate::layout::{CHECKPOINT_BLOCK, METADATA_BLOCK};
use crate::open::Slots;
use crate::superblock::Superblock;

/// Checkpoint blocks per read: 1 MiB.
const READ_BLOCKS: u64 = (1 << 20) / CHECKPOINT_BLOCK;
/// Reads in flight: the drives are busy while blocks are decoded.
const READS_MAX: usize = 4;

/// So many commits a copy may lack: the one in flight, which is acknowledged when it is on all copies.
const LAG_MAX: u64 = 1;

/// The durable state, and what must be written before the pool can be used.
pub(crate) struct Recovered {
    /// Of group 0, with the last valid commit.
    pub(crate) superblock: Superblock,
    pub(crate) catalog: Catalog,
    /// The generation of the checkpoint that must be written, unless all copies are as after a clean
    /// shutdown.
    pub(crate) next_generation: Option<u64>,
    /// The superblock in force for the groups in whose slot of it there is none, by their positions. To be
    /// written before the next generation.
    pub(crate) torn: Vec<(usize, Superblock)>,
}

/// The state of one holder.
struct Copy {
    superblock: Superblock,
    catalog: Catalog,
    sequence: u64,
    /// The generation of the last frame, or of the checkpoint.
    reached: u64,
    journal_is_empty: bool,
    /// Its journal ends with a frame that is not whole.
    torn: bool,
    /// A block of the checkpoint was damaged, and came from another mirror.
    mended: bool,
}

/// The groups are those of `reference`, the newest superblock. A holder that has only an older superblock
/// (or, a new holder, none) was about to follow: its commits may still be the most recent, but the table is
/// that of the newest superblock. That one was written after all earlier commits were durable, and nothing
/// was mapped to a group that came, or is still mapped to one that left.
///
/// What came from another mirror than its group reads is written again, to all mirrors: the resync that
/// follows copies the mirror that the group reads, whatever it has.
pub(crate) async fn recover(
    (areas, slots): (&[Rc<Area>], &[Slots]),
    reference: &Superblock,
    closed: Option<Closed>,
) -> Result<Recovered, BlockError> {
    let mut mended = false;
    let mut best: Option<Copy> = None;
    let mut failure = None;
    let mut agree = true;
    let mut followers = Vec::new();
    // At once: they are on drives of their own.
    let holders = reference.table.holders.iter().map(|holder| *holder as usize);
    let copies = holders.map(async |holder| {
        let group = &areas[holder].group;
        (group, read_copy((group, &slots[holder]), reference, closed).await)
    });
    for (group, copy) in join_all(copies).await {
        match copy {
            Ok(copy) => {
                followers.extend(copy.follows(group).then_some((group, copy.sequence)));
                mended |= copy.mended;
                agree &= copy.superblock.table == reference.table;
                let furthest = best.as_ref().map(|b| (b.sequence, b.superblock.generation));
                agree &= furthest.is_none_or(|f| f == (copy.sequence, copy.superblock.generation));
                if furthest.is_none_or(|f| f < (copy.sequence, copy.superblock.generation)) {
                    best = Some(copy);
                }
            }
            Err(error) => {
                agree = false;
                failure = failure.or(Some(error));
            }
        }
    }
    let Some(copy) = best else {
        return Err(failure.expect("there is at least one copy, and it failed"));
    };
    if let Some((group, sequence)) = followers.into_iter().find(|(_, s)| s + LAG_MAX < copy.sequence) {
        return Err(earlier(reference, group, sequence, copy.sequence));
    }
    let mut catalog = copy.catalog;
    let tidied = tidy(&mut catalog, reference.page_bytes);
    let is_broken = mended || slots.iter().flat_map(|slots| slots.broken).any(|broken| broken);
    let unclean = !agree || !copy.journal_is_empty || tidied || is_broken;
    // The checkpoint's area and half must not be those in force.
    let counts = copy.superblock.generation;
    // Its checkpoint was durable on all its holders before the first superblock was written.
    let in_force = |i: usize| {
        let position = copy.superblock.table.position(areas[i].group.id())?;
        Some((i, copy.superblock.of_group(position as u32)))
    };
    let is_torn = |i: &usize| slots[*i].broken[(counts % 2) as usize];
    let torn = (0..areas.len()).filter(is_torn).filter_map(in_force).collect();
    let reached = copy.reached.max(reference.generation);
    let next = reached + if (reached + 1) % 2 == counts % 2 { 2 } else { 1 };
    let (table, sequence) = (reference.table.clone(), copy.sequence);
    Ok(Recovered {
        superblock: Superblock { table, sequence, group_index: 0, ..copy.superblock },
        catalog,
        next_generation: unclean.then_some(next),
        torn,
    })
}

impl Copy {
    /// Whether each acknowledged commit was written to this copy, and is not damaged there: its group was a
    /// holder already, and its journal has a clean end.
    fn follows(&self, group: &Group) -> bool {
        let table = &self.superblock.table;
        let position = table.position(group.id());
        let is_holder = position.is_some_and(|at| table.holders.contains(&(at as u32)));
        self.superblock.generation > 0 && is_holder && !self.torn
    }
}

/// A group whose drives were put back to an earlier copy: where pages were written since, it has old content.
fn earlier(reference: &Superblock, group: &Group, sequence: u64, latest: u64) -> BlockError {
    BlockError::Corrupt {
        place: format!("pool {} on group {}", reference.name, group.name()),
        cause: format!(
            "an earlier copy: it ends with commit {sequence}, and the pool with {latest}; connect its current drives, \
             or put all groups of the pool back to one moment"
        ),
    }
}

/// Drops what an interrupted creation or growth left.
fn tidy(catalog: &mut Catalog, page_bytes: u64) -> bool {
    let before = catalog.volumes.len();
    catalog.volumes.retain(|_, v| !v.unfinished);
    let mut tidied = catalog.volumes.len() != before;
    for volume in catalog.volumes.values_mut() {
        let end = volume.len_bytes.div_ceil(page_bytes).min(u32::MAX.into()) as u32;
        while let Some(index) = volume.map.next_mapped(end, u32::MAX) {
            volume.map.set(index, None);
            tidied = true;
        }
    }
    tidied
}

/// The newest superblock with a valid checkpoint and journal. An older one must lead to the newest commit by
/// itself; reading the journal checks that.
async fn read_copy(
    (group, slots): (&Group, &Slots),
    reference: &Superblock,
    closed: Option<Closed>,
) -> Result<Copy, BlockError> {
    let mut failure = None;
    for superblock in slots.superblocks()?.iter().cloned() {
        if !superblock.is_of(reference) {
            continue;
        }
        match read_generation(group, superblock, reference.table.next_page, closed).await {
            Ok(copy) => return Ok(copy),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| BlockError::Corrupt {
        place: format!("pool {} on group {}", reference.name, group.name()),
        cause: "both superblocks are torn or damaged".to_owned(),
    }))
}

/// `pages` is the end of the newest table's pages: the journal may extend beyond the table of this
/// superblock.
async fn read_generation(
    group: &Group,
    superblock: Superblock,
    pages: u32,
    closed: Option<Closed>,
) -> Result<Copy, BlockError> {
    let (mut catalog, mended) = read_checkpoint(group, &superblock, pages).await?;
    let (id, generation) = (superblock.pool_id, superblock.generation);
    if closed == Some(Closed::with(&superblock)) && !has_commits(group, &superblock).await? {
        check(&catalog, group, &superblock)?;
        let (sequence, reached) = (superblock.sequence, generation);
        let journal_is_empty = true;
        return Ok(Copy { superblock, catalog, sequence, reached, journal_is_empty, torn: false, mended });
    }
    let half = read_journal(group, &superblock, generation, Some(superblock.sequence)).await?;
    let first = read_half(id, &half, generation, superblock.sequence, |b| catalog.replay(b))?;
    let is_first_torn = !first.last && claims(id, &half, first.len, generation);
    // Of many pools at once, no more is kept than is needed.
    drop(half);
    let after = first.last.then_some(first.sequence);
    let other = read_journal(group, &superblock, generation + 1, after).await?;
    // Without a last frame in the first half, the other half may hold nothing later; read_half verifies that.
    let second = match first.last {
        true => read_half(id, &other, generation + 1, first.sequence, |b| catalog.replay(b))?,
        false => read_half(id, &other, generation + 1, u64::MAX - 1, |_| Ok(()))?,
    };
    let sequence = if second.frames { second.sequence } else { first.sequence };
    let torn = match first.last {
        true => !second.last && claims(id, &other, second.len, generation + 1),
        false => is_first_torn,
    };
    let ReadEnd { frames, last, .. } = first;
    check(&catalog, group, &superblock)?;
    Ok(Copy {
        superblock,
        catalog,
        sequence,
        reached: generation + u64::from(last),
        journal_is_empty: !frames,
        torn,
        mended,
    })
}

fn check(catalog: &Catalog, group: &Group, superblock: &Superblock) -> Result<(), BlockError> {
    match catalog.fault(&superblock.layout, superblock.page_bytes) {
        Some(cause) => {
            let place = format!("pool {} on group {}", superblock.name, group.name());
            Err(BlockError::Corrupt { place, cause })
        }
        None => Ok(()),
    }
}

/// Whether a commit follows the checkpoint in force. The first one is at the beginning of a half.
async fn has_commits(group: &Group, superblock: &Superblock) -> Result<bool, BlockError> {
    for generation in [superblock.generation, superblock.generation + 1] {
        let mut first = Pieces::new();
        group.read(superblock.layout.journal_at(generation), METADATA_BLOCK as usize, &mut first).await?;
        if claims(superblock.pool_id, &first.joined(), 0, generation) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The checkpoint, and whether a block of it came from another mirror than the group reads.
async fn read_checkpoint(
    group: &Group,
    superblock: &Superblock,
    pages: u32,
) -> Result<(Catalog, bool), BlockError> {
    let entries_max = superblock.layout.entries_max();
    let mut unpacker = Unpacker::new(superblock.pool_id, superblock.generation, pages, entries_max);
    let area = superblock.layout.checkpoint_at(superblock.generation);
    let blocks = u64::from(superblock.checkpoint_blocks);
    if blocks * CHECKPOINT_BLOCK > superblock.layout.checkpoint_area {
        let place = format!("pool {} on group {}", superblock.name, group.name());
        return Err(BlockError::Corrupt {
            place,
            cause: "the checkpoint is longer than its area".to_owned(),
        });
    }
    let step = READ_BLOCKS as usize;
    let reads = (0..blocks).step_by(step).map(|first| read_blocks(group, area, first, blocks));
    let mut reads = stream::iter(reads).buffered(READS_MAX);
    let (mut index, mut mended) = (0, false);
    while let Some(bytes) = reads.next().await {
        for block in bytes?.chunks(CHECKPOINT_BLOCK as usize) {
            let is_whole =
                |block: &[u8]| block_body(superblock.pool_id, superblock.generation, index, block).is_ok();
            let at = area + u64::from(index) * CHECKPOINT_BLOCK;
            let other = match is_whole(block) {
                true => None,
                false => read_other(group, at, block.len(), is_whole).await,
            };
            mended |= other.is_some();
            unpacker.push(other.as_deref().unwrap_or(block))?;
            index += 1;
        }
        // Yield to other pools.
        yield_now().await;
    }
    Ok((unpacker.finish()?, mended))
}

/// What a mirror has whose content is whole, where that which the group reads is not.
pub(crate) async fn read_other(
    group: &Group,
    at: u64,
    len: usize,
    is_whole: impl Fn(&[u8]) -> bool,
) -> Option<Data> {
    for mirror in 0..group.mirrors() {
        let read = group.read_mirror(mirror, at, len).await.map(|pieces| pieces.joined());
        if let Some(data) = read.filter(|data| is_whole(data)) {
            return Some(data);
        }
    }
    None
}

/// The blocks from `first` on in one read.
async fn read_blocks(group: &Group, area: u64, first: u64, blocks: u64) -> Result<Data, BlockError> {
    let count = READ_BLOCKS.min(blocks - first);
    let mut pieces = Pieces::new();
    let len = (count * CHECKPOINT_BLOCK) as usize;
    group.read(area + first * CHECKPOINT_BLOCK, len, &mut pieces).await?;
    Ok(pieces.joined())
}

/// The journal half of a generation. Where frames after commit `after` are wanted, each is from a mirror that
/// has it: a frame that one mirror lost is not the end.
pub(crate) async fn read_journal(
    group: &Group,
    superblock: &Superblock,
    generation: u64,
    after: Option<u64>,
) -> Result<Vec<u8>, BlockError> {
    let from = |mirror| read_from(group, mirror, superblock, generation);
    let (Some(after), 2..) = (after, group.mirrors()) else { return from(None).await };
    // At once: they are on drives of their own, and hosts wait.
    let mirrors = join_all((0..group.mirrors()).map(|mirror| from(Some(mirror)))).await;
    let mut halves = Vec::new();
    // A mirror that cannot be read has nothing to add. What the group reads is of one of them.
    if mirrors.iter().any(Result::is_err) {
        halves.push(from(None).await?);
    }
    halves.extend(mirrors.into_iter().flatten());
    Ok(merge(superblock.pool_id, halves, generation, after))
}

/// Reads a journal half, from one mirror alone or from the group.
async fn read_from(
    group: &Group,
    mirror: Option<usize>,
    superblock: &Superblock,
    generation: u64,
) -> Result<Vec<u8>, BlockError> {
    let at = superblock.layout.journal_at(generation);
    let half_len = superblock.layout.journal_half as usize;
    let mut half = vec![0; half_len];
    let reads = (0..half_len).step_by(BUF_LEN_MAX).map(async |i| {
        let (from, len) = (at + i as u64, BUF_LEN_MAX.min(half_len - i));
        match mirror {
            Some(mirror) => group.read_mirror(mirror, from, len).await.ok_or_else(|| {
                BlockError::Unreadable { at: from, cause: format!("mirror {mirror} cannot be read").into() }
            }),
            None => {
                let mut pieces = Pieces::new();
                group.read(from, len, &mut pieces).await.map(|()| pieces)
            }
        }
    });
    let mut reads = stream::iter(reads).buffered(READS_MAX);
    for part in half.chunks_mut(BUF_LEN_MAX) {
        let pieces = reads.next().await.expect("one for each part")?;
        // Zeros without any user are there already.
        if !pieces.iter().all(Data::is_shared_zeros) {
            pieces.copy_to(part);
        }
    }
    Ok(half)
}
