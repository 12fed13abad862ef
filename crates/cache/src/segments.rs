//! Read-ahead data of a unit's streams, until they are used.
//!
//! ```text
//!   reserve ──> Pending ──fill──> Ready ──taken, all of it──> gone
//!                  │ fail           │ dropped: written over, or the oldest when there is no room
//! ```
//!
//! A reservation tells readers that the bytes are being read, so that they are not read twice. Ranges written
//! meanwhile are cut out: no reader gets content from before a write.

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

/// A part of a requested range.
#[derive(Clone, Debug)]
pub enum Part {
    /// It was read ahead.
    Ready {
        /// The first byte.
        at: u64,
        /// The content.
        pieces: Pieces,
    },
    /// It is being read ahead: wait for its end, and look it up again.
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

/// Counters of a unit's read-ahead: its usefulness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Bytes read ahead.
    pub read_bytes: u64,
    /// Of these, bytes requested afterwards.
    pub used_bytes: u64,
    /// Of these, bytes dropped unused.
    pub unused_bytes: u64,
    /// Bytes stored or being read now.
    pub held_bytes: u64,
}

enum What {
    Pending {
        /// Ranges written since.
        cuts: SmallVec<[Range<u64>; 2]>,
    },
    Ready {
        /// Its number in `ages`.
        age: u64,
        pieces: Pieces,
        /// The bytes not requested yet, in order.
        unused: SmallVec<[Range<u64>; 2]>,
    },
}

struct Segment {
    end: u64,
    what: What,
}

/// Read-ahead data of one unit.
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
    /// At most `limit_bytes` stored or being read.
    pub fn new(limit_bytes: u64) -> Segments {
        let (list, ages) = (BTreeMap::new(), BTreeMap::new());
        Segments { limit_bytes, list, ages, next_age: 0, counts: SegmentCounts::default() }
    }

    /// Changes the limit; the excess is dropped.
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

    /// Reserves the first part of the bytes that is neither stored nor being read; the oldest stored segments
    /// make room. `None`: there is no such part, or no room because too much is being read.
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

    /// Fills a reservation.
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

    /// Fails a reservation; readers then read for themselves.
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

    /// Whether a byte is being read.
    pub fn is_pending(&self, at: u64) -> bool {
        let before = self.list.range(..=at).next_back();
        before.is_some_and(|(_, s)| at < s.end && matches!(s.what, What::Pending { .. }))
    }

    /// Looks up the bytes, in order and without gaps, up to the first part that is being read; the rest is
    /// looked up when that has arrived. A fully used segment is removed.
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
            let part = self.take_of(segment, from..to);
            let is_pending = matches!(part, Part::Pending { .. });
            parts.push(part);
            if is_pending {
                return parts;
            }
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

    /// Invalidates bytes that are being changed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Bytes that show their address and which version of it they are.
    fn content(range: &Range<u64>, version: impl Fn(u64) -> u8) -> Pieces {
        let bytes: Vec<u8> = range.clone().map(|at| (at as u8).wrapping_mul(7) ^ version(at)).collect();
        Pieces::copy_of(&bytes)
    }

    fn read(segments: &mut Segments, at: u64, len: u64) {
        while let Some(ticket) = segments.reserve(at, len) {
            let pieces = content(&ticket.range(), |_| 0);
            segments.fill(ticket, pieces);
        }
    }

    /// The parts as letters: R ready, P pending, - absent, with their lengths.
    fn take(segments: &mut Segments, at: u64, len: u64) -> String {
        let mut next = at;
        let mut text = String::new();
        for part in segments.take(at, len) {
            let (letter, range) = match part {
                Part::Ready { at, pieces } => {
                    let range = at..at + pieces.len() as u64;
                    assert_eq!(pieces.first_difference(&content(&range, |_| 0)), None);
                    ('R', range)
                }
                Part::Pending { range } => ('P', range),
                Part::Absent { range } => ('-', range),
            };
            assert_eq!(range.start, next, "in order, without gaps");
            next = range.end;
            text += &format!("{letter}{} ", range.end - range.start);
        }
        assert!(next == at + len || text.rsplit(' ').nth(1).is_some_and(|last| last.starts_with('P')));
        text.trim_end().to_owned()
    }

    #[test]
    fn what_is_taken_wholly_is_gone() {
        let mut segments = Segments::new(1000);
        read(&mut segments, 100, 200);
        assert_eq!(take(&mut segments, 50, 100), "-50 R50");
        assert_eq!(take(&mut segments, 120, 30), "R30", "again, while it is there");
        assert_eq!(take(&mut segments, 150, 200), "R150 -50");
        assert_eq!(take(&mut segments, 100, 200), "-200");
        let expected = SegmentCounts { read_bytes: 200, used_bytes: 200, unused_bytes: 0, held_bytes: 0 };
        assert_eq!(segments.counts(), expected);
    }

    #[test]
    fn a_reader_sees_what_is_on_its_way_and_nobody_reads_it_twice() {
        let mut segments = Segments::new(1000);
        let first = segments.reserve(100, 100).unwrap();
        assert_eq!(take(&mut segments, 90, 60), "-10 P50");
        let second = segments.reserve(50, 200).unwrap();
        assert_eq!(second.range(), 50..100, "what is missing before");
        let third = segments.reserve(50, 200).unwrap();
        assert_eq!(third.range(), 200..250);
        assert!(segments.reserve(50, 200).is_none());
        segments.fail(third);
        let pieces = content(&first.range(), |_| 0);
        segments.fill(first, pieces);
        assert_eq!(take(&mut segments, 50, 200), "P50", "what is behind waits, too");
        segments.fail(second);
        assert_eq!(take(&mut segments, 50, 200), "-50 R100 -50");
        assert_eq!(take(&mut segments, 50, 200), "-200");
        assert_eq!(segments.counts().held_bytes, 0);
    }

    #[test]
    fn what_is_written_is_cut_out() {
        let mut segments = Segments::new(1000);
        read(&mut segments, 100, 100);
        segments.drop_range(120, 10);
        assert_eq!(segments.counts().unused_bytes, 10);
        let ticket = segments.reserve(100, 100).unwrap();
        assert_eq!(ticket.range(), 120..130);
        segments.drop_range(125, 500);
        let pieces = content(&ticket.range(), |_| 0);
        segments.fill(ticket, pieces);
        assert_eq!(take(&mut segments, 100, 100), "R20 R5 -75");
        let counts = segments.counts();
        assert_eq!(counts.read_bytes, counts.used_bytes + counts.unused_bytes + counts.held_bytes);
    }

    #[test]
    fn the_oldest_goes_and_what_is_in_use_stays() {
        let mut segments = Segments::new(300);
        read(&mut segments, 0, 100);
        read(&mut segments, 1000, 100);
        read(&mut segments, 2000, 100);
        assert_eq!(take(&mut segments, 0, 10), "R10");
        read(&mut segments, 3000, 100);
        assert_eq!(take(&mut segments, 1000, 100), "-100");
        assert_eq!(take(&mut segments, 0, 100), "R100");
        assert_eq!(segments.counts().unused_bytes, 100);
        let held = segments.reserve(4000, 1000).unwrap();
        assert_eq!(held.range(), 4000..4300, "no more than there may be");
        assert!(segments.reserve(6000, 1).is_none(), "all is on its way: no room");
        segments.set_limit(10);
        let pieces = content(&held.range(), |_| 0);
        segments.fill(held, pieces);
        assert_eq!(segments.counts().held_bytes, 0);
    }

    #[test]
    fn whatever_happens_nobody_gets_content_from_before_a_write() {
        const BYTES: u64 = 600;
        for seed in 0..20 {
            let mut rng = Rng::with_seed(seed);
            let mut segments = Segments::new(rng.u64(50..500));
            let mut versions = vec![0u8; BYTES as usize];
            let mut on_their_way: Vec<(Ticket, Pieces)> = Vec::new();
            let mut ready_bytes = 0;
            for _ in 0..5000 {
                let at = rng.u64(0..BYTES);
                let len = rng.u64(1..=60.min(BYTES - at));
                match rng.u32(0..10) {
                    0..3 => {
                        if let Some(ticket) = segments.reserve(at, len) {
                            // The read happens now, and its end is seen later.
                            let pieces = content(&ticket.range(), |at| versions[at as usize]);
                            on_their_way.push((ticket, pieces));
                        }
                    }
                    3..5 if !on_their_way.is_empty() => {
                        let (ticket, pieces) = on_their_way.swap_remove(rng.usize(0..on_their_way.len()));
                        match rng.u32(0..5) {
                            0 => segments.fail(ticket),
                            _ => segments.fill(ticket, pieces),
                        }
                    }
                    5..7 => {
                        versions[at as usize..(at + len) as usize]
                            .iter_mut()
                            .for_each(|v| *v = v.wrapping_add(1));
                        segments.drop_range(at, len);
                    }
                    _ => {
                        for part in segments.take(at, len) {
                            if let Part::Ready { at, pieces } = part {
                                let range = at..at + pieces.len() as u64;
                                let now = content(&range, |at| versions[at as usize]);
                                assert_eq!(pieces.first_difference(&now), None, "seed {seed}, at {at}");
                                ready_bytes += pieces.len();
                            }
                        }
                    }
                }
                let counts = segments.counts();
                assert!(counts.held_bytes <= segments.limit_bytes);
                let held: u64 = segments.list.iter().map(|(at, s)| s.end - at).sum();
                assert_eq!(counts.held_bytes, held);
                assert!(counts.used_bytes + counts.unused_bytes <= counts.read_bytes);
                let ready = segments.list.values().filter(|s| matches!(s.what, What::Ready { .. }));
                assert_eq!(ready.count(), segments.ages.len());
            }
            assert!(ready_bytes > 300, "seed {seed}: {ready_bytes}");
        }
    }
}
