//! What was read ahead of the streams of a unit, until it is used.
//!
//! ```text
//!   reserve ──> Pending ──fill──> Ready ──taken, all of it──> gone
//!                  │ fail           │ dropped: written over, or the oldest when there is no room
//! ```
//!
//! A reservation shows readers that the bytes are on their way, so that nobody reads them a second time. What is
//! written meanwhile is cut out: nobody gets content from before a write.

use std::collections::BTreeMap;
use std::ops::Range;

use block::Pieces;
use smallvec::SmallVec;

/// The right, and the duty, to fill or fail one reservation.
#[derive(Debug)]
#[must_use = "readers wait until it is filled or failed"]
pub struct Ticket {
    at: u64,
    len: u64,
}

impl Ticket {
    /// The bytes to read.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.len
    }
}

/// A part of what was asked for.
#[derive(Clone, Debug)]
pub enum Part {
    /// It was read ahead.
    Ready {
        /// The first byte.
        at: u64,
        /// The content.
        pieces: Pieces,
    },
    /// It is being read ahead: wait until that ends, and ask again.
    Pending {
        /// The bytes.
        range: Range<u64>,
    },
    /// It was not read ahead.
    Absent {
        /// The bytes.
        range: Range<u64>,
    },
}

/// Counters of a unit's read-ahead: how useful it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Bytes that were read ahead.
    pub read_bytes: u64,
    /// Of these, bytes that were asked for afterwards.
    pub used_bytes: u64,
    /// Of these, bytes that went away without.
    pub unused_bytes: u64,
    /// Bytes that are held or on their way now.
    pub held_bytes: u64,
}

enum What {
    Pending {
        /// What was written since.
        cuts: SmallVec<[Range<u64>; 2]>,
    },
    Ready {
        /// Its number in `ages`.
        age: u64,
        pieces: Pieces,
        /// The bytes that nobody asked for yet, in order.
        unused: SmallVec<[Range<u64>; 2]>,
    },
}

struct Segment {
    end: u64,
    what: What,
}

/// What was read ahead on one unit.
pub struct Segments {
    limit_bytes: u64,
    /// By first byte; they do not overlap.
    list: BTreeMap<u64, Segment>,
    /// First bytes of the ready ones, the least recently used first.
    ages: BTreeMap<u64, u64>,
    next_age: u64,
    counts: SegmentCounts,
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The parts of `ranges` inside and outside of `by`.
fn split(ranges: &[Range<u64>], by: &Range<u64>) -> [SmallVec<[Range<u64>; 2]>; 2] {
    let (mut inside, mut outside) = (SmallVec::new(), SmallVec::new());
    for range in ranges {
        let from = by.start.clamp(range.start, range.end);
        let to = by.end.clamp(from, range.end);
        inside.extend(Some(from..to).filter(|part| !part.is_empty()));
        outside.extend([range.start..from, to..range.end].into_iter().filter(|part| !part.is_empty()));
    }
    [inside, outside]
}

impl Segments {
    /// At most `limit_bytes` held or on their way.
    pub fn new(limit_bytes: u64) -> Segments {
        let (list, ages) = (BTreeMap::new(), BTreeMap::new());
        Segments { limit_bytes, list, ages, next_age: 0, counts: SegmentCounts::default() }
    }

    /// Changes the limit; what is over it goes.
    pub fn set_limit(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
        self.make_room(0);
    }

    /// The first bytes of the segments that overlap the range.
    fn overlapping(&self, range: &Range<u64>) -> SmallVec<[u64; 4]> {
        let before = self.list.range(..range.start).next_back().filter(|(_, s)| s.end > range.start);
        let from = before.map_or(range.start, |(&at, _)| at);
        if from >= range.end {
            return SmallVec::new();
        }
        self.list.range(from..range.end).map(|(&at, _)| at).collect()
    }

    /// Reserves the first part of the bytes that is neither held nor on its way; the oldest that are held make room.
    /// `None`: there is no such part, or no room because too much is on its way.
    pub fn reserve(&mut self, at: u64, len: u64) -> Option<Ticket> {
        let end = at.saturating_add(len);
        let (mut from, mut to) = (at, end);
        for segment in self.overlapping(&(at..end)) {
            if segment > from {
                to = segment;
                break;
            }
            from = self.list[&segment].end;
        }
        let len = to.saturating_sub(from).min(self.limit_bytes);
        if len == 0 || !self.make_room(len) {
            return None;
        }
        let what = What::Pending { cuts: SmallVec::new() };
        self.list.insert(from, Segment { end: from + len, what });
        self.counts.held_bytes += len;
        Some(Ticket { at: from, len })
    }

    fn make_room(&mut self, len: u64) -> bool {
        while self.counts.held_bytes + len > self.limit_bytes {
            let Some((_, at)) = self.ages.pop_first() else {
                return false;
            };
            let segment = self.list.remove(&at).expect("a segment with an age is in the list");
            self.counts.held_bytes -= segment.end - at;
            if let What::Ready { unused, .. } = segment.what {
                self.counts.unused_bytes += bytes(&unused);
            }
        }
        true
    }

    /// The reserved bytes were read.
    pub fn fill(&mut self, ticket: Ticket, pieces: Pieces) {
        assert_eq!(pieces.len() as u64, ticket.len, "a reservation is filled as a whole");
        let cuts = self.end_pending(&ticket);
        self.counts.read_bytes += ticket.len;
        let range = ticket.at..ticket.at + ticket.len;
        self.insert(ticket.at, pieces, std::iter::once(range).collect());
        for cut in cuts {
            self.cut(cut);
        }
        self.make_room(0);
    }

    /// The reserved bytes could not be read; readers read for themselves.
    pub fn fail(&mut self, ticket: Ticket) {
        self.end_pending(&ticket);
    }

    fn end_pending(&mut self, ticket: &Ticket) -> SmallVec<[Range<u64>; 2]> {
        let segment = self.list.remove(&ticket.at).expect("a reservation stays until it is filled or failed");
        self.counts.held_bytes -= ticket.len;
        match segment.what {
            What::Pending { cuts } if segment.end == ticket.at + ticket.len => cuts,
            _ => panic!("the segment at {} is not the one of its reservation", ticket.at),
        }
    }

    fn insert(&mut self, at: u64, pieces: Pieces, unused: SmallVec<[Range<u64>; 2]>) {
        let age = self.next_age;
        self.next_age += 1;
        self.ages.insert(age, at);
        self.counts.held_bytes += pieces.len() as u64;
        let end = at + pieces.len() as u64;
        self.list.insert(at, Segment { end, what: What::Ready { age, pieces, unused } });
    }

    /// What is known of the bytes, in order and without gaps. A segment of which everything was taken is gone.
    pub fn take(&mut self, at: u64, len: u64) -> SmallVec<[Part; 2]> {
        let end = at + len;
        let mut parts = SmallVec::new();
        let mut from = at;
        for segment in self.overlapping(&(at..end)) {
            if segment > from {
                parts.push(Part::Absent { range: from..segment });
                from = segment;
            }
            let to = self.list[&segment].end.min(end);
            parts.push(self.take_of(segment, from..to));
            from = to;
        }
        if from < end {
            parts.push(Part::Absent { range: from..end });
        }
        parts
    }

    fn take_of(&mut self, at: u64, range: Range<u64>) -> Part {
        let segment = self.list.get_mut(&at).expect("the segment is in the list");
        let What::Ready { age, pieces, unused } = &mut segment.what else {
            return Part::Pending { range };
        };
        let slice = pieces.slice((range.start - at) as usize, (range.end - range.start) as usize);
        let [used, rest] = split(unused, &range);
        self.counts.used_bytes += bytes(&used);
        *unused = rest;
        self.ages.remove(age);
        if unused.is_empty() {
            self.counts.held_bytes -= segment.end - at;
            self.list.remove(&at);
        } else {
            *age = self.next_age;
            self.next_age += 1;
            self.ages.insert(*age, at);
        }
        Part::Ready { at: range.start, pieces: slice }
    }

    /// The bytes are being changed: what was read of them before is not to be used.
    pub fn drop_range(&mut self, at: u64, len: u64) {
        self.cut(at..at.saturating_add(len));
    }

    fn cut(&mut self, range: Range<u64>) {
        for at in self.overlapping(&range) {
            let segment = self.list.get_mut(&at).expect("the segment is in the list");
            let whole = at..segment.end;
            let [cut, rest] = split(std::slice::from_ref(&whole), &range);
            if let What::Pending { cuts } = &mut segment.what {
                cuts.extend(cut);
                continue;
            }
            let Some(Segment { what: What::Ready { age, pieces, unused }, .. }) = self.list.remove(&at)
            else {
                unreachable!("the segment is ready");
            };
            self.ages.remove(&age);
            self.counts.held_bytes -= whole.end - whole.start;
            self.counts.unused_bytes += bytes(&split(&unused, &range)[0]);
            for part in rest {
                let [unused, _] = split(&unused, &part);
                if !unused.is_empty() {
                    let slice = pieces.slice((part.start - at) as usize, (part.end - part.start) as usize);
                    self.insert(part.start, slice, unused);
                }
            }
        }
    }

    /// Counters.
    pub fn counts(&self) -> SegmentCounts {
        self.counts
    }
}
