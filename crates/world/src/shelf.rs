//! The memory of buffers: page-aligned blocks in size classes, kept for reuse.
//!
//! ```text
//!   take ──> this thread's shelf ──empty──> the depot (all threads) ──empty──> a new slab, or a block of its own
//!   give_back ──> this thread's shelf ──full──> half of it to the depot ──idle for long──> its pages to the system
//! ```
//!
//! Small blocks are cut from slabs, whose addresses live as long as the process: an aligned block of 4 KiB of
//! its own would cost 8 KiB of the system's allocator, and a cache has hundreds of thousands. What stays in
//! the depot for a while is *released*: the block stays, the system has its pages ([`release_idle`]). So a
//! flood of commands does not leave its memory with the process. Large blocks return to
//! the system when more of them than the limit are idle; allocating them again costs a page fault per 4 KiB,
//! which at some GB/s takes most of a core. The depot takes blocks that one thread allocates and another
//! drops; it is locked once for many of them.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// The smallest size class, and the alignment of all: the largest memory alignment that O_DIRECT requires on
/// common devices.
pub(crate) const CLASS_LEN_MIN: usize = 4096;
/// Size classes are powers of two from 4 KiB to 8 MiB.
pub(crate) const CLASSES: usize = 12;
/// Classes below this one are cut from slabs: blocks of up to 64 KiB.
const SLAB_CLASSES: usize = 5;
/// A slab: sixteen of the largest blocks that are cut from one.
const SLAB_BYTES: usize = 1 << 20;
/// The limit of a small class on a thread before half goes to the depot.
const SMALL_BYTES_MAX: usize = 8 << 20;
/// The limit of all large classes on a thread: what is in flight on a group of nine drives, with some
/// headroom.
const LARGE_BYTES_MAX: usize = 256 << 20;

/// One aligned page.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; CLASS_LEN_MIN]);

enum Pages {
    /// A part of a slab.
    Cut(&'static mut [Page]),
    Own(Box<[Page]>),
    /// Permanent zeros, with any number of holders.
    Zeros(Box<[Page]>),
}

/// One block.
pub(crate) struct Memory {
    pages: Pages,
    class: usize,
}

impl Memory {
    fn own(class: usize) -> Arc<Memory> {
        Arc::new(Memory { pages: Pages::Own(pages(CLASS_LEN_MIN << class)), class })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.pages {
            Pages::Cut(pages) => pages.as_bytes(),
            Pages::Own(pages) | Pages::Zeros(pages) => pages.as_bytes(),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.pages {
            Pages::Cut(pages) => pages.as_mut_bytes(),
            Pages::Own(pages) => pages.as_mut_bytes(),
            Pages::Zeros(_) => panic!("shared zeros are not written"),
        }
    }

    pub(crate) fn is_zeros(&self) -> bool {
        matches!(self.pages, Pages::Zeros(_))
    }

    fn len(&self) -> usize {
        CLASS_LEN_MIN << self.class
    }
}

fn pages(len: usize) -> Box<[Page]> {
    <[Page]>::new_box_zeroed_with_elems(len / CLASS_LEN_MIN).expect("the system has no memory left")
}

type Blocks = Vec<Arc<Memory>>;

#[derive(Default)]
struct Shelf {
    classes: [Blocks; CLASSES],
    /// Bytes in the large classes.
    large: usize,
    /// As long as the largest buffer; the system allocates no memory for pages that nobody writes.
    zeros: Option<Arc<Memory>>,
}

thread_local! {
    static SHELF: RefCell<Shelf> = RefCell::default();
}

/// Small blocks of one class that no thread has.
struct Depot {
    /// The last one is taken first.
    idle: Blocks,
    /// Those whose pages the system has.
    released: Blocks,
    /// The fewest idle ones since [`release_idle`] looked last: so many were not needed meanwhile.
    fewest: usize,
}

impl Depot {
    const fn new() -> Depot {
        Depot { idle: Vec::new(), released: Vec::new(), fewest: 0 }
    }

    /// At most so many blocks.
    fn take(&mut self, many: usize, to: &mut Blocks) {
        let from = if self.idle.is_empty() { &mut self.released } else { &mut self.idle };
        to.extend(from.drain(from.len().saturating_sub(many)..));
        self.fewest = self.fewest.min(self.idle.len());
    }

    /// The blocks that were not needed since the last call, but for a reserve, and at most so many.
    fn unneeded(&mut self, reserve: usize, many: usize) -> Blocks {
        let count = self.fewest.saturating_sub(reserve).min(many);
        let blocks = self.idle.drain(..count).collect();
        self.fewest = self.idle.len();
        blocks
    }
}

static DEPOT: [Mutex<Depot>; SLAB_CLASSES] = [const { Mutex::new(Depot::new()) }; SLAB_CLASSES];

/// Idle memory of a small class that is never released.
const RESERVE_BYTES: usize = 8 << 20;
/// What one call of [`release_idle`] releases of a class at most.
const RELEASED_AT_ONCE_BYTES: usize = 256 << 20;

/// Releases the memory of small blocks that were idle since the last call: `release` gives the pages of a
/// block, which nobody uses, to the system. Returns the number of bytes.
pub fn release_idle(mut release: impl FnMut(&mut [u8])) -> usize {
    let mut bytes = 0;
    for class in 0..SLAB_CLASSES {
        let len = CLASS_LEN_MIN << class;
        let mut blocks = depot(class).unneeded(RESERVE_BYTES / len, RELEASED_AT_ONCE_BYTES / len);
        for memory in &mut blocks {
            release(Arc::get_mut(memory).expect("what is in the depot has no other holder").bytes_mut());
        }
        bytes += blocks.len() * len;
        depot(class).released.append(&mut blocks);
    }
    bytes
}

/// A block of this class without another holder.
pub(crate) fn take(class: usize) -> Arc<Memory> {
    // The shelf is gone while the thread ends.
    SHELF.try_with(|shelf| shelf.borrow_mut().take(class)).unwrap_or_else(|_| Memory::own(class))
}

/// The zeros of this thread.
pub(crate) fn zeros() -> Arc<Memory> {
    let class = CLASSES - 1;
    let new = || Arc::new(Memory { pages: Pages::Zeros(pages(CLASS_LEN_MIN << class)), class });
    SHELF.try_with(|shelf| shelf.borrow_mut().zeros.get_or_insert_with(new).clone()).unwrap_or_else(|_| new())
}

/// Returns the memory to the shelf if there is no other holder.
pub(crate) fn give_back(mut memory: Arc<Memory>) {
    if Arc::get_mut(&mut memory).is_none() {
        return;
    }
    let mut given = Some(memory);
    let shelved = SHELF.try_with(|shelf| shelf.borrow_mut().give_back(given.take().expect("given once")));
    if let (Err(_), Some(memory)) = (shelved, given)
        && memory.class < SLAB_CLASSES
    {
        depot(memory.class).idle.push(memory);
    }
}

fn depot(class: usize) -> MutexGuard<'static, Depot> {
    DEPOT[class].lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    fn take(&mut self, class: usize) -> Arc<Memory> {
        if let Some(memory) = self.classes[class].pop() {
            self.large -= if class < SLAB_CLASSES { 0 } else { memory.len() };
            return memory;
        }
        if class >= SLAB_CLASSES {
            return Memory::own(class);
        }
        let blocks = &mut self.classes[class];
        depot(class).take(SLAB_BYTES / (CLASS_LEN_MIN << class), blocks);
        blocks.pop().unwrap_or_else(|| {
            let slab: &'static mut [Page] = Box::leak(pages(SLAB_BYTES));
            let cut = slab.chunks_exact_mut(1 << class);
            blocks.extend(cut.map(|pages| Arc::new(Memory { pages: Pages::Cut(pages), class })));
            blocks.pop().expect("a slab has blocks")
        })
    }

    fn give_back(&mut self, memory: Arc<Memory>) {
        let class = memory.class;
        if memory.is_zeros() {
            return;
        }
        if class >= SLAB_CLASSES {
            if self.large + memory.len() <= LARGE_BYTES_MAX || self.give_up_other(class) {
                self.large += memory.len();
                self.classes[class].push(memory);
            }
            return;
        }
        // A block of a thread that ended, or had just begun: return it to the system.
        if matches!(memory.pages, Pages::Own(_)) {
            return;
        }
        let blocks = &mut self.classes[class];
        blocks.push(memory);
        if blocks.len() * (CLASS_LEN_MIN << class) > SMALL_BYTES_MAX {
            let half = blocks.len() / 2;
            depot(class).idle.extend(blocks.drain(half..));
        }
    }

    /// Makes room for a block of this class by returning a block of another class, at least as large, to the
    /// system. Returns whether there was one.
    fn give_up_other(&mut self, class: usize) -> bool {
        let other = (class + 1..CLASSES).rev().find(|c| !self.classes[*c].is_empty());
        let Some(memory) = other.and_then(|c| self.classes[c].pop()) else { return false };
        self.large -= memory.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_slab_are_apart_and_come_back_through_the_depot() {
        let count = 2 * SMALL_BYTES_MAX / CLASS_LEN_MIN;
        let mut blocks: Vec<_> = (0..count).map(|_| take(0)).collect();
        let mut addresses: Vec<_> = blocks.iter().map(|b| b.bytes().as_ptr() as usize).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[0] + CLASS_LEN_MIN <= pair[1]));
        // Another thread drops them, and the first one gets them again.
        std::thread::scope(|s| s.spawn(|| blocks.drain(..).for_each(give_back)).join()).expect("dropped");
        let again = take(0);
        assert!(addresses.binary_search(&(again.bytes().as_ptr() as usize)).is_ok());
    }

    #[test]
    fn only_what_was_not_needed_meanwhile_is_released_and_taken_last() {
        let mut depot = Depot::new();
        depot.idle.extend((0..10).map(|_| Memory::own(0)));
        assert!(depot.unneeded(2, 100).is_empty(), "it has just come");
        let mut taken = Vec::new();
        depot.take(3, &mut taken);
        depot.idle.append(&mut taken);
        let mut released = depot.unneeded(2, 100);
        assert_eq!((released.len(), depot.idle.len()), (5, 5), "three were needed, two are the reserve");
        depot.released.append(&mut released);
        assert_eq!(depot.unneeded(2, 1).len(), 1, "at most so many at once");
        depot.take(100, &mut taken);
        assert_eq!((taken.len(), depot.released.len()), (4, 5));
        depot.take(2, &mut taken);
        assert_eq!((taken.len(), depot.released.len()), (6, 3));
    }

    #[test]
    fn large_blocks_are_kept_up_to_the_limit() {
        let mut shelf = Shelf::default();
        let blocks: Vec<_> = (0..40).map(|_| shelf.take(CLASSES - 1)).collect();
        blocks.into_iter().for_each(|b| shelf.give_back(b));
        assert_eq!(shelf.large, LARGE_BYTES_MAX);
        assert_eq!(shelf.classes[CLASSES - 1].len(), 32);
        let small = shelf.take(SLAB_CLASSES);
        shelf.give_back(small);
        assert_eq!(shelf.classes[SLAB_CLASSES].len(), 1, "a larger one made room");
    }
}
