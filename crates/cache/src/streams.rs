//! Detects sequential reads of a unit, and how far ahead to read.
//!
//! A stream is an interval that was read without a gap; intervals never overlap. A read that begins at the
//! end of one, or inside it, extends it; one that fills the gap between two merges them, so that reads of one
//! stream that arrive out of order end up in one interval. A match is an exact address, not a neighbourhood:
//! random reads occasionally hit the end of one of `limit` intervals, but not twice in a row.
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
/// How far back an interval reaches, and so how late a read of it may arrive.
const WINDOW_BYTES: u64 = 1 << 20;
/// After this many reads of the unit per possible stream, an unused stream ends.
const IDLE_READS: u64 = 16;

/// The current limits of a unit's read-ahead.
#[derive(Clone, Copy, Debug)]
pub struct AheadLimits {
    /// Size of the unit: nothing is read beyond it.
    pub unit_bytes: u64,
    /// Limit of bytes ahead of one stream.
    pub stream_bytes_max: u64,
    /// Limit of bytes ahead of all streams.
    pub budget_bytes: u64,
}

/// A range to read ahead now.
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
    /// Up to `limit` concurrent streams, including candidates.
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

    /// The streams with read-ahead.
    pub fn active(&self) -> usize {
        self.trusted.len() as usize
    }

    /// Records a read, and returns what to read ahead because of it.
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
        let Some(&slot) = self.sorted.get(after) else {
            return self.begin(at, end);
        };
        let stream = &mut self.list[slot as usize];
        if end < stream.from || stream.next.saturating_sub(at) > WINDOW_BYTES {
            // Not its neighbour, or another reader that arrives where this one was long ago.
            let end = end.min(stream.from);
            return self.begin(at, end);
        }
        // It came late: the interval begins earlier, and is no more of a stream by that.
        stream.from = at;
        if end > stream.next { self.extend(after, end) } else { self.touch(after) }
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
        let place = self.sorted.partition_point(|&slot| self.list[slot as usize].from < at);
        // In what was read ahead of another stream it is most likely that stream, of which a read is late.
        let before = place.checked_sub(1).map(|before| self.list[self.sorted[before] as usize]);
        let (ahead_to, window) = before
            .filter(|before| at < before.ahead_to)
            .map_or((0, 0), |before| (before.ahead_to, before.window));
        let stream = Stream { from: at, next: end, ahead_to, window, reads: 1, used: self.reads };
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
        let early = self.sorted.get(place + 1).map(|&slot| self.list[slot as usize]);
        let stream = &mut self.list[self.sorted[place] as usize];
        let near = stream.next.saturating_add(WINDOW_BYTES);
        let early = early.filter(|other| other.from <= near);
        if early.is_some_and(|other| other.is_trusted()) {
            // The same stream, of which a read is late; or another reader was here just now, and is read
            // ahead of.
            return None;
        }
        // What follows may have been asked for already, by a read that came early.
        let asked_to = early.map_or(0, |other| other.next);
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
        self.share_ahead(place, at, to);
        Some(Ahead { at, len: to - at })
    }

    /// Reads that are late leave a stream in pieces for a moment: all of them know how far it is read ahead.
    fn share_ahead(&mut self, place: usize, at: u64, to: u64) {
        let (before, after) = self.sorted.split_at(place);
        for &slot in before.iter().rev() {
            let stream = &mut self.list[slot as usize];
            if stream.ahead_to < at {
                break;
            }
            stream.ahead_to = stream.ahead_to.max(to);
        }
        for &slot in &after[1..] {
            let stream = &mut self.list[slot as usize];
            if stream.from >= to {
                break;
            }
            stream.ahead_to = stream.ahead_to.max(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;

    use super::*;

    const KIB: u64 = 1 << 10;
    const UNIT_BYTES: u64 = 64 << 30;

    fn limits() -> AheadLimits {
        AheadLimits { unit_bytes: UNIT_BYTES, stream_bytes_max: 4 << 20, budget_bytes: 64 << 20 }
    }

    /// One reader from `at` on: what was read ahead at which read (counted from 1).
    fn follow(
        streams: &mut Streams,
        at: u64,
        len: u64,
        reads: u64,
        limits: &AheadLimits,
    ) -> Vec<(u64, Ahead)> {
        let note = |n: u64| Some((n + 1, streams.note(at + n * len, len, limits)?));
        (0..reads).filter_map(note).collect()
    }

    #[test]
    fn a_stream_is_read_ahead_of_in_windows_that_double() {
        let mut streams = Streams::new(256);
        let got = follow(&mut streams, 1 << 30, 64 * KIB, 400, &limits());
        assert_eq!(got[0], (3, Ahead { at: (1 << 30) + 192 * KIB, len: 256 * KIB }));
        let mut read_to = (1 << 30) + 192 * KIB;
        let mut window = 256 * KIB;
        for (read, ahead) in got {
            let next = (1 << 30) + read * 64 * KIB;
            assert_eq!(ahead.at, read_to, "without a gap, nothing twice");
            assert_eq!(ahead.at + ahead.len, next + window);
            assert!(ahead.at >= next && ahead.at - next < window / 2);
            read_to = ahead.at + ahead.len;
            window = (window * 2).min(4 << 20);
        }
        assert_eq!(window, 4 << 20);
        assert!(read_to >= (1 << 30) + 400 * 64 * KIB + (2 << 20));
        assert_eq!(streams.active(), 1);
    }

    #[test]
    fn large_reads_are_kept_ahead_of_too() {
        let got = follow(&mut Streams::new(4), 0, 1 << 20, 10, &limits());
        assert_eq!(got[0], (3, Ahead { at: 3 << 20, len: 2 << 20 }));
        assert!(got.len() > 3);
    }

    #[test]
    fn the_end_of_the_unit_is_the_end() {
        let at = UNIT_BYTES - (1 << 20);
        let got = follow(&mut Streams::new(4), at, 64 * KIB, 16, &limits());
        let read_to = got.iter().map(|(_, ahead)| ahead.at + ahead.len).max();
        assert_eq!(read_to, Some(UNIT_BYTES));
        assert!(got.iter().all(|(_, ahead)| ahead.len > 0));
        let total: u64 = got.iter().map(|(_, ahead)| ahead.len).sum();
        assert_eq!(total, (1 << 20) - 192 * KIB);
    }

    #[test]
    fn sixty_four_streams_share_the_budget() {
        let (mut streams, mut rng) = (Streams::new(256), Rng::with_seed(1));
        let limits = AheadLimits { budget_bytes: 32 << 20, ..limits() };
        let mut next: Vec<u64> = (0..64).map(|n| n << 30).collect();
        let mut ahead_to = next.clone();
        let mut covered = 0;
        for _ in 0..64 * 400 {
            let n = rng.usize(0..64);
            let at = next[n];
            next[n] += 64 * KIB;
            covered += u32::from(next[n] <= ahead_to[n]);
            if let Some(ahead) = streams.note(at, 64 * KIB, &limits) {
                assert_eq!(ahead.at >> 30, n as u64, "of the stream that was read");
                ahead_to[n] = ahead.at + ahead.len;
            }
        }
        assert_eq!(streams.active(), 64);
        assert!(covered > 64 * 400 * 95 / 100, "{covered}: nearly everything was read ahead");
        for n in 0..64 {
            assert!(ahead_to[n] - next[n] <= 512 * KIB, "its part of the budget");
        }
    }

    #[test]
    fn random_reads_are_not_a_stream() {
        for (seed, len) in [(1, 4 * KIB), (2, 64 * KIB), (3, 8 * KIB)] {
            let (mut streams, mut rng) = (Streams::new(256), Rng::with_seed(seed));
            for _ in 0..200_000 {
                let at = rng.u64(0..UNIT_BYTES / len) * len;
                assert_eq!(streams.note(at, len, &limits()), None);
            }
            assert_eq!(streams.active(), 0);
        }
    }

    #[test]
    fn a_stream_among_random_reads_is_found_and_kept() {
        let (mut streams, mut rng) = (Streams::new(256), Rng::with_seed(4));
        let (mut next, mut ahead_to, mut covered) = (40 << 30, 0, 0);
        for n in 0..100_000 {
            if n % 50 == 0 {
                covered += u32::from(next + 64 * KIB <= ahead_to);
                if let Some(ahead) = streams.note(next, 64 * KIB, &limits()) {
                    ahead_to = ahead.at + ahead.len;
                }
                next += 64 * KIB;
            } else {
                let at = rng.u64(0..(32 << 30) / 4096) * 4096;
                assert_eq!(streams.note(at, 4096, &limits()), None);
            }
        }
        assert!(covered > 2000 * 95 / 100, "{covered}");
    }

    #[test]
    fn reads_in_flight_may_arrive_out_of_order() {
        for seed in 0..20 {
            let (mut streams, mut rng) = (Streams::new(256), Rng::with_seed(seed));
            let mut in_flight: Vec<u64> = (0..8).collect();
            let (mut ahead_to, mut covered, mut started) = (0, 0, None);
            let (mut once, mut twice) = (0, 0);
            for n in 8..400 {
                let i = rng.usize(0..8);
                let read = std::mem::replace(&mut in_flight[i], n);
                covered += u32::from((read + 1) * 32 * KIB <= ahead_to);
                if let Some(ahead) = streams.note(read * 32 * KIB, 32 * KIB, &limits()) {
                    twice += ahead_to.saturating_sub(ahead.at).min(ahead.len);
                    once += ahead.len;
                    ahead_to = ahead_to.max(ahead.at + ahead.len);
                    started.get_or_insert(n);
                }
            }
            assert!(started.is_some_and(|n| n < 60), "seed {seed}: began at {started:?}");
            assert!(covered > 300, "seed {seed}: {covered} of 392");
            assert!(twice * 10 < once, "seed {seed}: {twice} of {once} bytes asked for again");
        }
    }

    #[test]
    fn reading_backwards_or_again_is_not_a_stream() {
        let mut streams = Streams::new(16);
        for n in (0..1000).rev() {
            assert_eq!(streams.note(n * 4096, 4096, &limits()), None);
        }
        let mut streams = Streams::new(16);
        for _ in 0..100 {
            assert_eq!(streams.note(8192, 4096, &limits()), None);
        }
    }

    #[test]
    fn a_stream_that_ended_leaves_its_budget() {
        let (mut streams, mut rng) = (Streams::new(8), Rng::with_seed(5));
        for n in 0..6 {
            follow(&mut streams, n << 30, 64 * KIB, 10, &limits());
        }
        assert_eq!(streams.active(), 6);
        for _ in 0..1000 {
            streams.note(rng.u64(10..60) << 30, 4096, &limits());
        }
        assert_eq!(streams.active(), 0);
    }

    #[test]
    fn the_intervals_are_sorted_and_apart_whatever_comes() {
        let mut rng = Rng::with_seed(6);
        let mut streams = Streams::new(12);
        let mut started = 0;
        for step in 0..100_000 {
            // A small unit: everything meets everything.
            let at = rng.u64(0..800) * 4096;
            started += u32::from(streams.note(at, rng.u64(1..20) * 4096, &limits()).is_some());
            if step % 100 == 0 {
                let list: Vec<Stream> = streams.sorted.iter().map(|&s| streams.list[s as usize]).collect();
                assert!(list.windows(2).all(|pair| pair[0].next <= pair[1].from));
                assert!(list.iter().all(|s| s.from < s.next && s.next - s.from <= WINDOW_BYTES));
                let trusted = list.iter().filter(|s| s.is_trusted()).count();
                assert_eq!(trusted, streams.active());
                assert_eq!(list.len(), trusted + streams.candidates.len() as usize);
                assert!(list.len() <= 12);
                let slots: BTreeSet<&u32> = streams.sorted.iter().chain(&streams.free).collect();
                assert_eq!(slots.len(), streams.list.len());
            }
        }
        assert!(started > 0, "on so small a unit there are streams by chance");
    }
}
