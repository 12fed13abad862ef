//! Which reads of a unit are sequential, and how far ahead of them to read.
//!
//! A stream is an interval that was read without a gap; intervals never touch. A read that begins where one ends, or
//! inside it, makes it longer; one that fills the gap between two joins them, so that reads of one stream that arrive
//! out of order end up in one interval. What matches is an exact address, not a neighbourhood: random reads meet the
//! end of one of `limit` intervals among all blocks once in a while, but not twice in a row.
//!
//! ```text
//!        read before           next              ahead_to
//!   ─────[##########]──────────|·················|──────────> address
//!         WINDOW_BYTES at most  <─ window, read ahead when less than half of it is left
//! ```

use crate::frames::queue::{Links, Queue};
use crate::frames::{FRAME_BYTES, NONE};

/// Reads without a gap that make a stream. One neighbour is chance on a unit that is small or has a hot spot.
const READS_TO_TRUST: u32 = 3;
/// The first read-ahead: long enough that the drives of a row share it, short enough to be wrong about.
const AHEAD_BYTES_MIN: u64 = 256 << 10;
/// How far back an interval reaches, and so how late a read may arrive that belongs to it.
const WINDOW_BYTES: u64 = 1 << 20;
/// After so many reads of the unit for each stream that it may have, a stream that was not used has ended.
const IDLE_READS: u64 = 16;

/// What bounds the read-ahead of a unit at the moment.
#[derive(Clone, Copy, Debug)]
pub struct AheadLimits {
    /// Bytes of the unit: nothing is read behind it.
    pub unit_bytes: u64,
    /// Bytes ahead of one stream at most.
    pub stream_bytes_max: u64,
    /// Bytes ahead of all streams together.
    pub budget_bytes: u64,
}

/// What to read ahead now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The first byte.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

#[derive(Clone, Copy)]
struct Stream {
    from: u64,
    /// Where the next read of it is expected: the first byte that was not read.
    next: u64,
    /// Up to here it is read ahead; not before `next` once it is trusted.
    ahead_to: u64,
    /// How far ahead the next read-ahead goes; 0 before the first.
    window: u64,
    reads: u32,
    /// The read of the unit that used it last.
    used: u64,
}

impl Stream {
    fn is_trusted(&self) -> bool {
        self.reads >= READS_TO_TRUST
    }
}

/// The streams of one unit.
pub struct Streams {
    limit: u32,
    /// By slot.
    list: Vec<Stream>,
    free: Vec<u32>,
    /// Slots in order of address.
    sorted: Vec<u32>,
    links: Links,
    /// Those not trusted yet, and those trusted: the least recently used goes first.
    candidates: Queue,
    trusted: Queue,
    reads: u64,
}

impl Streams {
    /// Up to `limit` streams at once, counting those that may become one.
    pub fn new(limit: usize) -> Streams {
        assert!((1..=1 << 16).contains(&limit), "{limit} streams");
        let limit = limit as u32;
        Streams {
            limit,
            list: Vec::new(),
            free: Vec::new(),
            sorted: Vec::new(),
            links: Links::new(limit),
            candidates: Queue::default(),
            trusted: Queue::default(),
            reads: 0,
        }
    }

    /// The streams that are read ahead of.
    pub fn active(&self) -> usize {
        self.trusted.len() as usize
    }

    /// Notes a read, and says what to read ahead because of it.
    pub fn note(&mut self, at: u64, len: u64, limits: &AheadLimits) -> Option<Ahead> {
        self.reads += 1;
        self.end_idle();
        let place = self.place(at, at.saturating_add(len));
        let slot = self.sorted[place];
        self.list[slot as usize].used = self.reads;
        if self.list[slot as usize].is_trusted() { self.ahead(place, len, limits) } else { None }
    }

    /// A stream that is not used any more leaves its budget to others.
    fn end_idle(&mut self) {
        let slot = self.trusted.oldest();
        if slot != NONE && self.list[slot as usize].used + IDLE_READS * u64::from(self.limit) < self.reads {
            self.end(slot);
        }
    }

    /// Enters the read into the interval that it belongs to, or makes one; its place among the sorted.
    fn place(&mut self, at: u64, end: u64) -> usize {
        let after = self.sorted.partition_point(|&slot| self.list[slot as usize].from <= at);
        if let Some(before) = after.checked_sub(1)
            && self.list[self.sorted[before] as usize].next >= at
        {
            return self.extend(before, end);
        }
        if let Some(&slot) = self.sorted.get(after) {
            let stream = &mut self.list[slot as usize];
            // It came late: the interval begins earlier, and is no more of a stream by that.
            if end >= stream.from && stream.next.saturating_sub(at) <= WINDOW_BYTES {
                stream.from = at;
                return if end > stream.next { self.extend(after, end) } else { self.touch(after) };
            }
        }
        self.begin(at, end)
    }

    /// An interval grows up to `end`, and swallows those that it meets.
    fn extend(&mut self, place: usize, end: u64) -> usize {
        let slot = self.sorted[place];
        let mut stream = self.list[slot as usize];
        if end <= stream.next {
            return self.touch(place);
        }
        let was_trusted = stream.is_trusted();
        stream.next = end;
        stream.reads = stream.reads.saturating_add(1);
        while let Some(&met) = self.sorted.get(place + 1) {
            let other = self.list[met as usize];
            if other.from > stream.next {
                break;
            }
            stream.next = stream.next.max(other.next);
            stream.ahead_to = stream.ahead_to.max(other.ahead_to);
            stream.window = stream.window.max(other.window);
            stream.reads = stream.reads.saturating_add(other.reads);
            self.end(met);
        }
        stream.from = stream.from.max(stream.next.saturating_sub(WINDOW_BYTES));
        self.list[slot as usize] = stream;
        if stream.is_trusted() && !was_trusted {
            self.candidates.remove(&mut self.links, slot);
            self.trusted.push(&mut self.links, slot);
            return place;
        }
        self.touch(place)
    }

    /// The stream is the most recently used.
    fn touch(&mut self, place: usize) -> usize {
        let slot = self.sorted[place];
        let queue = match self.list[slot as usize].is_trusted() {
            true => &mut self.trusted,
            false => &mut self.candidates,
        };
        queue.remove(&mut self.links, slot);
        queue.push(&mut self.links, slot);
        place
    }

    fn begin(&mut self, at: u64, end: u64) -> usize {
        if self.sorted.len() as u32 == self.limit {
            let candidate = self.candidates.oldest();
            self.end(if candidate == NONE { self.trusted.oldest() } else { candidate });
        }
        let stream = Stream { from: at, next: end, ahead_to: 0, window: 0, reads: 1, used: self.reads };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.list[slot as usize] = stream;
                slot
            }
            None => {
                self.list.push(stream);
                self.list.len() as u32 - 1
            }
        };
        self.candidates.push(&mut self.links, slot);
        let place = self.sorted.partition_point(|&slot| self.list[slot as usize].from < at);
        self.sorted.insert(place, slot);
        place
    }

    fn end(&mut self, slot: u32) {
        let stream = self.list[slot as usize];
        let queue = if stream.is_trusted() { &mut self.trusted } else { &mut self.candidates };
        queue.remove(&mut self.links, slot);
        let place = self.sorted.partition_point(|&slot| self.list[slot as usize].from < stream.from);
        assert_eq!(self.sorted[place], slot, "streams are sorted");
        self.sorted.remove(place);
        self.free.push(slot);
    }

    /// What a trusted stream that was just read wants to have read ahead.
    fn ahead(&mut self, place: usize, len: u64, limits: &AheadLimits) -> Option<Ahead> {
        let share = (limits.budget_bytes / u64::from(self.trusted.len())).min(limits.stream_bytes_max);
        // What follows may have been asked for already, by a read that came early.
        let early = self.sorted.get(place + 1).map(|&slot| self.list[slot as usize]);
        let stream = &mut self.list[self.sorted[place] as usize];
        let near = stream.next.saturating_add(WINDOW_BYTES);
        let asked_to = early.filter(|other| other.from <= near).map_or(0, |other| other.next);
        // Two reads ahead at least, so that one is read while the other is used.
        let window = stream.window.max(AHEAD_BYTES_MIN).max(len.saturating_mul(2)).min(share);
        let window = window - window % FRAME_BYTES as u64;
        let left = stream.ahead_to.saturating_sub(stream.next);
        if window == 0 || left >= window / 2 {
            return None;
        }
        let at = stream.ahead_to.max(stream.next).max(if stream.window == 0 { asked_to } else { 0 });
        let to = stream.next.saturating_add(window).min(limits.unit_bytes);
        if at >= to {
            return None;
        }
        stream.ahead_to = to;
        stream.window = window.saturating_mul(2).min(share);
        Some(Ahead { at, len: to - at })
    }
}
