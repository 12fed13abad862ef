//! A drive with platters in operation: its cache, its queue, and the one request that the mechanism serves.

use std::collections::VecDeque;
use std::sync::Arc;

use super::geometry::Place;
use super::mechanics::{Cursor, Mechanics, Pass};
use super::parameters::{AfterReadOrWrite, ReadAhead};
use super::queue::{Head, Queue, Queued};
use super::reading::Reading;
use super::request::{Completion, Kind, Request, Usage};
use super::segments::Segments;

/// A hard disk in operation.
#[derive(Clone, Debug)]
pub struct HardDisk {
    mechanics: Arc<Mechanics>,
    /// Where the arm is when it reads nothing.
    arm: Cursor,
    /// What the head reads; the arm is where its cursor is.
    reading: Option<Reading>,
    busy_until_ns: u64,
    /// When the write in progress will be on the medium.
    writes_back_until_ns: u64,
    segments: Segments,
    queue: Queue,
    dirty: VecDeque<Dirty>,
    dirty_numbers: u64,
    /// Flushes, with the number of the last write that each waits for.
    flushes: Vec<(u64, u64)>,
    bus_free_ns: u64,
    wrote_last: bool,
    slow: u64,
    usage: Usage,
}

/// An acknowledged write that is not on the medium yet.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    number: u64,
    block: u64,
    blocks: u64,
    /// When the arm may begin to move for it, and when its data are here.
    moves_ns: u64,
    here_ns: u64,
}

/// When a request's data pass the head.
struct Passed {
    first_ns: u64,
    last_ns: u64,
}

impl HardDisk {
    /// A new drive, its arm at the first cylinder.
    pub fn new(mechanics: Arc<Mechanics>) -> HardDisk {
        let parameters = mechanics.parameters();
        HardDisk {
            arm: Cursor::default(),
            reading: None,
            busy_until_ns: 0,
            writes_back_until_ns: 0,
            segments: Segments::new(parameters.segments.count, parameters.segments.blocks),
            queue: Queue::new(parameters.queue_depth),
            dirty: VecDeque::new(),
            dirty_numbers: 0,
            flushes: Vec::new(),
            bus_free_ns: 0,
            wrote_last: false,
            slow: 1,
            usage: Usage::default(),
            mechanics,
        }
    }

    /// Its parameters, prepared.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// Requests that wait for the mechanism.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    pub(super) fn set_slow(&mut self, factor: u32) {
        self.slow = factor.into();
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        let work = !self.queue.is_empty() || !self.dirty.is_empty() || !self.flushes.is_empty();
        work.then_some(self.busy_until_ns)
    }

    pub(super) fn submit(&mut self, now_ns: u64, request: Request, done: &mut Vec<Completion>) {
        let overheads = self.mechanics.parameters().overheads;
        match request.kind {
            Kind::Probe => {
                let at_ns = now_ns + u64::from(overheads.read_hit.after_read_ns) * self.slow;
                done.push(Completion { token: request.token, at_ns });
                return;
            }
            Kind::Flush => self.flushes.push((request.token, self.dirty_numbers)),
            Kind::Read => {
                self.read_on(now_ns);
                if self.is_in_cache(now_ns, &request) {
                    self.hit(now_ns, &request, done);
                    return;
                }
                self.enqueue(now_ns, request);
            }
            Kind::Write if self.has_room_for_dirty(now_ns) => self.take_write(now_ns, &request, done),
            Kind::Write | Kind::Zero => self.enqueue(now_ns, request),
        }
        self.wake(now_ns, done);
    }

    fn enqueue(&mut self, now_ns: u64, request: Request) {
        let place = self.mechanics.geometry().place(request.block);
        self.queue.push(request, place, now_ns);
    }

    pub(super) fn wake(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        if self.busy_until_ns > now_ns {
            return;
        }
        self.read_on(now_ns);
        self.serve_what_was_read(now_ns, done);
        self.complete_flushes(now_ns, done);
        if (self.queue.is_empty() || !self.flushes.is_empty())
            && let Some(dirty) = self.dirty.pop_front()
        {
            self.write_back(now_ns, dirty);
            return;
        }
        if self.queue.is_empty() {
            return;
        }
        let moves_ns = now_ns + u64::from(self.after(self.mechanics.parameters().overheads.read_miss));
        self.read_on(moves_ns);
        let head = Head {
            mechanics: &self.mechanics,
            at: self.arm().place(),
            moves_ns,
            stream: self.stream(),
            write_on: self.write_on(now_ns),
        };
        let next = self.queue.choose(self.mechanics.parameters().scheduling, &head);
        if let Some(queued) = next {
            self.serve(now_ns, &queued, done);
        }
    }

    /// Lets the mechanism work for a request.
    fn serve(&mut self, now_ns: u64, queued: &Queued, done: &mut Vec<Completion>) {
        let request = &queued.request;
        let from = self.arm().cylinder;
        let passed = match queued.pass() {
            Pass::Read => self.read(now_ns, queued),
            Pass::Write => self.write(now_ns, queued),
        };
        let bus_ns = u64::from(self.mechanics.parameters().bus_ns_per_block);
        let at_ns = match request.kind {
            // The bus carries the blocks as they pass, the last one after it has.
            Kind::Read => (passed.first_ns + request.blocks * bus_ns).max(passed.last_ns + bus_ns),
            _ => passed.last_ns,
        };
        self.wrote_last = !request.is_read();
        self.usage.served += 1;
        self.usage.cylinders += u64::from(from.abs_diff(self.arm().cylinder));
        let busy_ns = self.busy_until_ns.saturating_sub(now_ns) * self.slow;
        self.usage.busy_ns += busy_ns;
        self.busy_until_ns = now_ns + busy_ns;
        if self.slow > 1 {
            self.stop_reading(now_ns);
        }
        done.push(Completion { token: request.token, at_ns: now_ns + (at_ns - now_ns) * self.slow });
    }

    fn read(&mut self, now_ns: u64, queued: &Queued) -> Passed {
        let (request, overheads) = (&queued.request, self.mechanics.parameters().overheads);
        let in_cache = self.segments.find(request.block);
        let in_stream = self.stream().contains(&request.block);
        let hit = in_stream || in_cache.is_some();
        let overhead = if hit { overheads.read_hit } else { overheads.read_miss };
        let moves_ns = now_ns + u64::from(self.after(overhead));
        let mut reading = match self.reading.take() {
            Some(mut reading) if in_stream => {
                reading.pass_until(moves_ns, &self.mechanics);
                reading
            }
            reading => {
                self.arm = reading.map_or(self.arm, |reading| reading.cursor);
                self.begin_reading(moves_ns, queued, in_cache)
            }
        };
        let target = self.target(request, reading.segment.map(|segment| self.segments.get(segment).start));
        reading.go_on_to(target, moves_ns);
        let first_ns = match reading.cursor.block > request.block {
            true => moves_ns,
            false => reading.pass_to(request.block + 1, &self.mechanics).max(moves_ns),
        };
        let last_ns = reading.pass_to(request.end(), &self.mechanics).max(moves_ns);
        let least = self.mechanics.parameters().segments.read_ahead_min_blocks;
        self.busy_until_ns =
            reading.pass_to((request.end() + least).min(target), &self.mechanics).max(moves_ns);
        self.keep(reading);
        Passed { first_ns, last_ns }
    }

    /// The arm leaves what it does for this read: for its first block, or for the first that is not in a
    /// segment which holds the beginning.
    fn begin_reading(&mut self, moves_ns: u64, queued: &Queued, in_cache: Option<usize>) -> Reading {
        let mut cursor = Cursor { block: queued.request.block, at_ns: moves_ns, ..self.arm };
        if let Some(segment) = in_cache {
            self.segments.touch(segment);
            cursor.block = self.segments.get(segment).end;
            return Reading::new(Some(segment), cursor);
        }
        let Some(segment) = self.segments.take(queued.request.block) else {
            return Reading::new(None, cursor);
        };
        if !self.mechanics.parameters().segments.keeps_whole_track {
            return Reading::new(Some(segment), cursor);
        }
        let reading = Reading::of_track(segment, cursor, &queued.place, &self.mechanics);
        self.segments.begin(segment, reading.cursor.block);
        reading
    }

    /// How far to read for this request, and ahead of the next one, into a segment that begins here.
    fn target(&self, request: &Request, segment_start: Option<u64>) -> u64 {
        let (end, geometry) = (request.end(), self.mechanics.geometry());
        let Some(segment_start) = segment_start else { return end };
        let ahead = match self.mechanics.parameters().segments.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Segment => request.block + self.mechanics.parameters().segments.blocks,
            ReadAhead::Track => {
                let last: Place = geometry.place(end - 1);
                let next_track = end - 1 + u64::from(last.left);
                let from_before = segment_start < end - 1 - u64::from(last.sector);
                match from_before && next_track < geometry.len_blocks() {
                    true => next_track + u64::from(geometry.place(next_track).left),
                    false => next_track,
                }
            }
        };
        ahead.max(end).min(geometry.len_blocks())
    }

    fn write(&mut self, now_ns: u64, queued: &Queued) -> Passed {
        let request = &queued.request;
        let parameters = self.mechanics.parameters();
        // A write that waited for the one just before it is part of the same pass: its command and its data
        // are here.
        let goes_on = self.write_on(now_ns) == Some(request.block) && queued.arrived_ns < now_ns;
        let overhead_ns = if goes_on { 0 } else { self.after(parameters.overheads.write_miss) };
        let moves_ns = now_ns + u64::from(overhead_ns);
        let bus_ns = match request.kind {
            Kind::Zero => 0,
            _ if goes_on => 0,
            _ => request.blocks * u64::from(parameters.bus_ns_per_block),
        };
        // The medium may begin when the bus, if it is the slower one, will be done in time.
        let medium_ns =
            request.blocks * u64::from(parameters.revolution_ns) / u64::from(queued.place.sectors);
        let here_ns = moves_ns + bus_ns.saturating_sub(medium_ns);
        self.stop_reading(moves_ns);
        self.segments.forget(request.block, request.end(), None);
        let last_ns = self.put(request.block, request.blocks, moves_ns, here_ns);
        Passed { first_ns: last_ns, last_ns }
    }

    /// Moves the arm from `moves_ns` on and writes, from `here_ns` on.
    fn put(&mut self, block: u64, blocks: u64, moves_ns: u64, here_ns: u64) -> u64 {
        self.stop_reading(moves_ns);
        let place = self.mechanics.geometry().place(block);
        let landed_ns = moves_ns + u64::from(self.mechanics.move_ns(self.arm.place(), &place, Pass::Write));
        self.arm =
            Cursor { cylinder: place.cylinder, head: place.head, block, at_ns: landed_ns.max(here_ns) };
        self.mechanics.pass_to(&mut self.arm, block + blocks, Pass::Write);
        self.busy_until_ns = self.arm.at_ns;
        self.arm.at_ns
    }

    /// Puts an acknowledged write on the medium.
    fn write_back(&mut self, now_ns: u64, dirty: Dirty) {
        let moves_ns = dirty.moves_ns.max(now_ns);
        self.put(dirty.block, dirty.blocks, moves_ns, dirty.here_ns);
        let busy_ns = (self.busy_until_ns - now_ns) * self.slow;
        self.busy_until_ns = now_ns + busy_ns;
        self.writes_back_until_ns = self.busy_until_ns;
        self.usage.busy_ns += busy_ns;
        self.usage.served += 1;
    }

    /// A write that is on its way to the medium still needs its segment.
    fn has_room_for_dirty(&self, now_ns: u64) -> bool {
        let on_its_way = usize::from(self.writes_back_until_ns > now_ns);
        self.dirty.len() + on_its_way < self.mechanics.parameters().segments.write_segments
    }

    /// The cache takes a write, which is done when its data are here.
    fn take_write(&mut self, now_ns: u64, request: &Request, done: &mut Vec<Completion>) {
        self.stop_reading(now_ns);
        let moves_ns = now_ns + u64::from(self.after(self.mechanics.parameters().overheads.write_hit));
        let here_ns = self.over_the_bus(moves_ns, request.blocks);
        let before = request.block.checked_sub(1).and_then(|block| self.segments.find(block));
        let before = before.filter(|segment| self.segments.get(*segment).end == request.block);
        let segment = match before {
            Some(segment) => {
                self.segments.touch(segment);
                Some(segment)
            }
            None => self.segments.take(request.block),
        };
        self.segments.forget(request.block, request.end(), segment);
        if let Some(segment) = segment {
            self.segments.extend(segment, request.end());
        }
        self.dirty_numbers += 1;
        let number = self.dirty_numbers;
        match self.dirty.back_mut() {
            Some(last) if last.block + last.blocks == request.block => {
                *last = Dirty { number, blocks: last.blocks + request.blocks, here_ns, ..*last };
            }
            _ => self.dirty.push_back(Dirty {
                number,
                block: request.block,
                blocks: request.blocks,
                moves_ns,
                here_ns,
            }),
        }
        self.wrote_last = true;
        self.usage.hits += 1;
        done.push(Completion { token: request.token, at_ns: now_ns + (here_ns - now_ns) * self.slow });
    }

    fn complete_flushes(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        let first = self.dirty.front().map_or(u64::MAX, |dirty| dirty.number);
        self.flushes.retain(|(token, last)| {
            let waits = first <= *last;
            if !waits {
                done.push(Completion { token: *token, at_ns: now_ns });
            }
            waits
        });
    }

    fn is_in_cache(&self, now_ns: u64, request: &Request) -> bool {
        let Some(segment) = self.segments.find(request.block) else { return false };
        // What the mechanism reads for a request that it has begun is there when it has ended.
        let is_coming = |reading: &Reading| reading.segment == Some(segment) && reading.cursor.at_ns > now_ns;
        self.segments.get(segment).end >= request.end() && !self.reading.as_ref().is_some_and(is_coming)
    }

    /// A read that the cache serves.
    fn hit(&mut self, now_ns: u64, request: &Request, done: &mut Vec<Completion>) {
        let ready_ns = now_ns + u64::from(self.after(self.mechanics.parameters().overheads.read_hit));
        let at_ns = self.over_the_bus(ready_ns, request.blocks);
        if let Some(segment) = self.segments.find(request.block) {
            self.segments.touch(segment);
            let target = self.target(request, Some(self.segments.get(segment).start));
            if let Some(reading) = &mut self.reading
                && reading.segment == Some(segment)
                && reading.is_under_way()
            {
                reading.go_on_to(target, now_ns);
            }
        }
        self.wrote_last = false;
        self.usage.hits += 1;
        done.push(Completion { token: request.token, at_ns: now_ns + (at_ns - now_ns) * self.slow });
    }

    /// Waiting reads that the head has read ahead need it no more.
    fn serve_what_was_read(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        let Some(segment) = self.reading.as_ref().and_then(|reading| reading.segment) else { return };
        let run = self.segments.get(segment);
        let is_in = |request: &Request| run.start <= request.block && request.end() <= run.end;
        // Each that is found leaves the queue.
        while let Some(i) = self.queue.find_read(is_in) {
            let queued = self.queue.remove(i);
            self.hit(now_ns, &queued.request, done);
        }
    }

    /// When so many blocks are over the bus, which carries what the cache serves and takes one after the
    /// other.
    fn over_the_bus(&mut self, ready_ns: u64, blocks: u64) -> u64 {
        let bus_ns = u64::from(self.mechanics.parameters().bus_ns_per_block);
        self.bus_free_ns = self.bus_free_ns.max(ready_ns) + blocks * bus_ns;
        self.bus_free_ns
    }

    fn after(&self, overhead: AfterReadOrWrite) -> u32 {
        if self.wrote_last { overhead.after_write_ns } else { overhead.after_read_ns }
    }

    fn arm(&self) -> Cursor {
        self.reading.as_ref().map_or(self.arm, |reading| reading.cursor)
    }

    /// The blocks that the head has read and is about to read.
    fn stream(&self) -> std::ops::Range<u64> {
        let Some(reading) = &self.reading else { return 0..0 };
        let Some(segment) = reading.segment else { return 0..0 };
        let next = u64::from(reading.is_under_way());
        self.segments.get(segment).start..reading.cursor.block + next
    }

    /// The block after a write that ends now.
    fn write_on(&self, now_ns: u64) -> Option<u64> {
        (self.wrote_last && self.reading.is_none() && self.arm.at_ns == now_ns).then_some(self.arm.block)
    }

    /// The head has read on until now.
    fn read_on(&mut self, now_ns: u64) {
        if let Some(mut reading) = self.reading.take() {
            reading.pass_until(now_ns, &self.mechanics);
            self.keep(reading);
        }
    }

    fn keep(&mut self, reading: Reading) {
        if let Some(segment) = reading.segment {
            self.segments.extend(segment, reading.cursor.block);
        }
        self.reading = Some(reading);
    }

    fn stop_reading(&mut self, now_ns: u64) {
        self.read_on(now_ns);
        if let Some(reading) = self.reading.take() {
            self.arm = reading.cursor;
        }
    }
}
