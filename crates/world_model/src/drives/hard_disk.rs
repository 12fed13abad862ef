//! A drive with platters in operation: its cache, its queue, and the one request that the mechanism serves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::mechanics::{Cursor, Mechanics, Pass};
use super::parameters::{AfterReadOrWrite, FastWrite, ReadAhead};
use super::queue::{Head, Queue, Queued};
use super::reading::Reading;
use super::request::{Completion, Kind, Request, Usage};
use super::segments::Segments;
use super::writes::Dirty;

/// A hard disk in operation.
#[derive(Clone, Debug)]
pub struct HardDisk {
    pub(super) mechanics: Arc<Mechanics>,
    /// Where the arm is when it reads nothing.
    pub(super) arm: Cursor,
    /// What the head reads; the arm is where its cursor is.
    pub(super) reading: Option<Reading>,
    pub(super) busy_until_ns: u64,
    /// When the write in progress will be on the medium.
    pub(super) writes_back_until_ns: u64,
    pub(super) segments: Segments,
    pub(super) queue: Queue,
    pub(super) dirty: VecDeque<Dirty>,
    /// The last run of writes that the cache took.
    pub(super) taken: Range<u64>,
    pub(super) dirty_numbers: u64,
    /// Flushes, with the number of the last write that each waits for.
    pub(super) flushes: Vec<(u64, u64)>,
    pub(super) bus_free_ns: u64,
    pub(super) wrote_last: bool,
    pub(super) slow: u64,
    pub(super) usage: Usage,
}

/// When a request's data pass the head.
pub(super) struct Passed {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
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
            taken: 0..0,
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
            Kind::Write if self.takes_write(now_ns, &request) => {
                self.take_write(now_ns, &request, false, done)
            }
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
        if self.write_back(now_ns) || self.queue.is_empty() {
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
            if self.takes_when_free(&queued.request) {
                self.take_write(now_ns, &queued.request, true, done);
                self.write_back(now_ns);
                return;
            }
            self.serve(now_ns, &queued, done);
        }
    }

    /// A write that waited until the mechanism was free, and that the cache takes then.
    fn takes_when_free(&self, request: &Request) -> bool {
        let segments = &self.mechanics.parameters().segments;
        request.kind == Kind::Write
            && segments.fast_write == FastWrite::WhenIdle
            && segments.write_segments > 0
            && request.blocks <= segments.fast_write_max_blocks
    }

    /// Lets the mechanism work for a request.
    fn serve(&mut self, now_ns: u64, queued: &Queued, done: &mut Vec<Completion>) {
        let request = &queued.request;
        let from = self.arm().cylinder;
        let passed = match queued.pass() {
            Pass::Read => self.read(now_ns, queued),
            Pass::Write => self.write(now_ns, queued),
        };
        let at_ns = passed.last_ns;
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
        let moves_ns = now_ns + u64::from(self.after(overheads.read_miss));
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
        let segments = self.mechanics.parameters().segments;
        let enough = (request.blocks * u64::from(segments.read_watermark_permille) / 1000).max(1);
        let first_ns = match reading.cursor.block >= request.block + enough {
            true => moves_ns,
            false => reading.pass_to(request.block + enough, &self.mechanics).max(moves_ns),
        };
        let last_ns = reading.pass_to(request.end(), &self.mechanics).max(moves_ns);
        let least = segments.read_ahead_min_blocks;
        self.busy_until_ns =
            reading.pass_to((request.end() + least).min(target), &self.mechanics).max(moves_ns);
        self.keep(reading);
        let is_hit = in_stream || in_cache.is_some();
        self.sent(now_ns, request.blocks, is_hit, Passed { first_ns, last_ns })
    }

    /// When the blocks of a read are over the bus, which carries them as they pass, the last one after it
    /// has.
    fn sent(&self, now_ns: u64, blocks: u64, is_hit: bool, passed: Passed) -> Passed {
        let overheads = &self.mechanics.parameters().overheads;
        let bus_ns = u64::from(self.mechanics.parameters().bus_ns_per_block);
        let preparation_ns = u64::from(overheads.data_preparation_ns);
        let again_ns = u64::from(overheads.reselect_ns) + preparation_ns;
        let free_ns =
            u64::from(self.after(overheads.read_miss)) + u64::from(self.after(overheads.read_disconnect));
        let (begin_ns, last_ns) = match is_hit {
            true => {
                let ready_ns = now_ns + u64::from(self.after(overheads.read_hit)) + preparation_ns;
                (ready_ns, passed.last_ns + again_ns)
            }
            false => (passed.first_ns.max(now_ns + free_ns) + again_ns, passed.last_ns),
        };
        let all_ns = (begin_ns + blocks * bus_ns).max(last_ns + bus_ns);
        Passed { last_ns: all_ns + u64::from(overheads.read_completion_ns), ..passed }
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
        let segments = &self.mechanics.parameters().segments;
        let ahead = match segments.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Segment => match segments.read_ahead_max_blocks {
                Some(most) => end + most,
                None => request.block + segments.blocks,
            },
            ReadAhead::ThisTrack => geometry.track(end - 1).end,
            ReadAhead::Cylinder => geometry.cylinder(end - 1).end,
            ReadAhead::Track => {
                let next = geometry.track(end.min(geometry.len_blocks() - 1));
                match segment_start < next.start && next.end < geometry.len_blocks() {
                    true => geometry.track(next.end).end,
                    false => next.end,
                }
            }
        };
        let most = segments.read_ahead_max_blocks.map_or(u64::MAX, |most| end + most);
        ahead.min(most).max(end).min(geometry.len_blocks())
    }

    fn is_in_cache(&self, now_ns: u64, request: &Request) -> bool {
        let Some(segment) = self.segments.find(request.block) else { return false };
        // What the mechanism reads for a request that it has begun is there when it has ended.
        let is_coming = |reading: &Reading| reading.segment == Some(segment) && reading.cursor.at_ns > now_ns;
        self.segments.get(segment).end >= request.end() && !self.reading.as_ref().is_some_and(is_coming)
    }

    /// A read that the cache serves.
    fn hit(&mut self, now_ns: u64, request: &Request, done: &mut Vec<Completion>) {
        let overheads = self.mechanics.parameters().overheads;
        let ready_ns =
            now_ns + u64::from(self.after(overheads.read_hit)) + u64::from(overheads.data_preparation_ns);
        let at_ns = self.over_the_bus(ready_ns, request.blocks) + u64::from(overheads.read_completion_ns);
        if let Some(segment) = self.segments.find(request.block) {
            self.segments.touch(segment);
            let target = self.target(request, Some(self.segments.get(segment).start));
            match &mut self.reading {
                Some(reading) if reading.segment == Some(segment) && reading.is_under_way() => {
                    reading.go_on_to(target, now_ns);
                }
                _ => self.read_ahead_again(now_ns, ready_ns, segment, target),
            }
        }
        self.wrote_last = false;
        self.usage.hits += 1;
        done.push(Completion { token: request.token, at_ns: now_ns + (at_ns - now_ns) * self.slow });
    }

    /// A drive that reads ahead after a hit, too, does so while its mechanism is free.
    fn read_ahead_again(&mut self, now_ns: u64, from_ns: u64, segment: usize, target: u64) {
        let is_free = self.busy_until_ns <= now_ns && self.queue.is_empty() && self.dirty.is_empty();
        let block = self.segments.get(segment).end;
        if !self.mechanics.parameters().segments.reads_ahead_after_hit || !is_free || block >= target {
            return;
        }
        self.stop_reading(now_ns);
        let mut reading = Reading::new(Some(segment), Cursor { block, at_ns: from_ns, ..self.arm });
        reading.go_on_to(target, from_ns);
        self.reading = Some(reading);
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
    pub(super) fn over_the_bus(&mut self, ready_ns: u64, blocks: u64) -> u64 {
        let bus_ns = u64::from(self.mechanics.parameters().bus_ns_per_block);
        self.bus_free_ns = self.bus_free_ns.max(ready_ns) + blocks * bus_ns;
        self.bus_free_ns
    }

    pub(super) fn after(&self, overhead: AfterReadOrWrite) -> u32 {
        if self.wrote_last { overhead.after_write_ns } else { overhead.after_read_ns }
    }

    fn arm(&self) -> Cursor {
        self.reading.as_ref().map_or(self.arm, |reading| reading.cursor)
    }

    /// The blocks that the head has read and is about to read.
    fn stream(&self) -> std::ops::Range<u64> {
        let Some(reading) = &self.reading else { return 0..0 };
        let Some(segment) = reading.segment else { return 0..0 };
        let hits = self.mechanics.parameters().segments.hits_what_is_read;
        let next = u64::from(hits && reading.is_under_way());
        self.segments.get(segment).start..reading.cursor.block + next
    }

    /// The block after a write that ends now.
    pub(super) fn write_on(&self, now_ns: u64) -> Option<u64> {
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

    pub(super) fn stop_reading(&mut self, now_ns: u64) {
        self.read_on(now_ns);
        if let Some(reading) = self.reading.take() {
            self.arm = reading.cursor;
        }
    }
}
