//! Writes: on the medium at once, or acknowledged by the cache on the drive and put there later.

use super::geometry::Place;
use super::hard_disk::{HardDisk, Passed};
use super::mechanics::{Cursor, Pass};
use super::parameters::FastWrite;
use super::queue::Queued;
use super::request::{Completion, Kind, Request};

/// An acknowledged write that is not on the medium yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dirty {
    number: u64,
    block: u64,
    blocks: u64,
    /// When the arm may begin to move for it, and when its data are here.
    moves_ns: u64,
    here_ns: u64,
}

/// When the arm may move for a write that the cache takes, and when its data begin to cross the bus.
struct Taken {
    moves_ns: u64,
    bus_ns: u64,
}

impl HardDisk {
    /// A write that waits for the medium.
    pub(super) fn write(&mut self, now_ns: u64, queued: &Queued) -> Passed {
        let request = &queued.request;
        let parameters = self.mechanics.parameters();
        let overheads = parameters.overheads;
        // A write that waited for the one just before it is part of the same pass: its command and its data
        // are here.
        let goes_on = self.write_on(now_ns) == Some(request.block) && queued.arrived_ns < now_ns;
        let overhead_ns = if goes_on { 0 } else { self.after(overheads.write_miss) };
        let moves_ns = now_ns + u64::from(overhead_ns);
        let has_data = !goes_on && request.kind != Kind::Zero;
        let bus_ns = match has_data {
            true => {
                u64::from(overheads.data_preparation_ns)
                    + request.blocks * u64::from(parameters.bus_ns_per_block)
            }
            false => 0,
        };
        // The medium may begin when the bus, if it is the slower one, will be done in time.
        let medium_ns =
            request.blocks * u64::from(parameters.revolution_ns) / u64::from(queued.place.sectors);
        let here_ns = moves_ns + bus_ns.saturating_sub(medium_ns);
        self.stop_reading(moves_ns);
        self.segments.forget(request.block, request.end(), None);
        let last_ns = self.put(request.block, request.blocks, moves_ns, here_ns);
        let free_ns = moves_ns + bus_ns + u64::from(overheads.write_disconnect_ns);
        let done_ns = last_ns.max(free_ns)
            + u64::from(overheads.reselect_ns)
            + u64::from(overheads.write_completion_ns);
        Passed { first_ns: done_ns, last_ns: done_ns }
    }

    /// Moves the arm from `moves_ns` on and writes, from `here_ns` on.
    fn put(&mut self, block: u64, blocks: u64, moves_ns: u64, here_ns: u64) -> u64 {
        self.stop_reading(moves_ns);
        let place: Place = self.mechanics.geometry().place(block);
        let goes_on = self.arm.block == block && self.arm.at_ns >= moves_ns;
        let least_ns = if goes_on { 0 } else { self.mechanics.parameters().write_seek_min_ns };
        let moved_ns = self.mechanics.move_ns(self.arm.place(), &place, Pass::Write).max(least_ns);
        let landed_ns = moves_ns + u64::from(moved_ns);
        self.arm =
            Cursor { cylinder: place.cylinder, head: place.head, block, at_ns: landed_ns.max(here_ns) };
        self.mechanics.pass_to(&mut self.arm, block + blocks, Pass::Write);
        self.busy_until_ns = self.arm.at_ns;
        self.arm.at_ns
    }

    /// Puts the oldest acknowledged write on the medium, if it is its turn. Whether it was.
    pub(super) fn write_back(&mut self, now_ns: u64) -> bool {
        let at_once = self.mechanics.parameters().segments.fast_write == FastWrite::WhenIdle;
        if !(at_once || self.queue.is_empty() || !self.flushes.is_empty()) {
            return false;
        }
        let Some(dirty) = self.dirty.pop_front() else { return false };
        let moves_ns = dirty.moves_ns.max(now_ns);
        self.put(dirty.block, dirty.blocks, moves_ns, dirty.here_ns);
        let busy_ns = (self.busy_until_ns - now_ns) * self.slow;
        self.busy_until_ns = now_ns + busy_ns;
        self.writes_back_until_ns = self.busy_until_ns;
        self.usage.busy_ns += busy_ns;
        self.usage.served += 1;
        true
    }

    /// Whether the cache takes this write now, which no other request waits before.
    pub(super) fn takes_write(&self, now_ns: u64, request: &Request) -> bool {
        let segments = &self.mechanics.parameters().segments;
        if segments.write_segments == 0 || request.blocks > segments.fast_write_max_blocks {
            return false;
        }
        match segments.fast_write {
            FastWrite::Always => {
                // A write that is on its way to the medium still needs its segment.
                let on_its_way = usize::from(self.writes_back_until_ns > now_ns);
                self.dirty.len() + on_its_way < segments.write_segments
            }
            FastWrite::WhenIdle => {
                let is_idle = self.busy_until_ns <= now_ns && self.dirty.is_empty();
                self.queue.is_empty() && (is_idle || self.goes_on(now_ns, request))
            }
        }
    }

    /// A write that goes on with the one that is on its way to the medium, in the same segment.
    fn goes_on(&self, now_ns: u64, request: &Request) -> bool {
        let room = self.mechanics.parameters().segments.blocks;
        let on_its_way = self.writes_back_until_ns > now_ns || !self.dirty.is_empty();
        on_its_way && self.taken.end == request.block && request.end() - self.taken.start <= room
    }

    /// The cache takes a write, which is done when its data are here. `waited`: it was in the queue.
    pub(super) fn take_write(
        &mut self,
        now_ns: u64,
        request: &Request,
        waited: bool,
        done: &mut Vec<Completion>,
    ) {
        self.stop_reading(now_ns);
        let taken = self.taken_at(now_ns, request, waited);
        let here_ns = self.over_the_bus(taken.bus_ns, request.blocks);
        let at_ns = here_ns + u64::from(self.mechanics.parameters().overheads.write_completion_ns);
        self.keep_written(request);
        self.dirty_numbers += 1;
        let number = self.dirty_numbers;
        let room = self.mechanics.parameters().segments.blocks;
        match self.dirty.back_mut() {
            Some(last)
                if last.block + last.blocks == request.block && last.blocks + request.blocks <= room =>
            {
                *last = Dirty { number, blocks: last.blocks + request.blocks, here_ns, ..*last };
            }
            _ => self.dirty.push_back(Dirty {
                number,
                block: request.block,
                blocks: request.blocks,
                moves_ns: taken.moves_ns,
                here_ns,
            }),
        }
        let goes_on = self.taken.end == request.block;
        self.taken = if goes_on { self.taken.start } else { request.block }..request.end();
        self.wrote_last = true;
        self.usage.hits += 1;
        done.push(Completion { token: request.token, at_ns: now_ns + (at_ns - now_ns) * self.slow });
    }

    fn taken_at(&self, now_ns: u64, request: &Request, waited: bool) -> Taken {
        let overheads = self.mechanics.parameters().overheads;
        let preparation_ns = u64::from(overheads.data_preparation_ns);
        let extra = overheads.extra_write_disconnect;
        match extra.filter(|_| self.wrote_last && self.taken.end != request.block && !waited) {
            Some(extra) => {
                let command_ns = now_ns + u64::from(extra.command_ns);
                let away_ns = u64::from(extra.disconnect_ns) + u64::from(extra.between_ns);
                let bus_ns = command_ns + away_ns + u64::from(overheads.reselect_ns) + preparation_ns;
                Taken { moves_ns: command_ns + u64::from(extra.seek_delay_ns), bus_ns }
            }
            // Its command was read when it arrived.
            None if waited => {
                Taken { moves_ns: now_ns, bus_ns: now_ns + u64::from(overheads.reselect_ns) + preparation_ns }
            }
            None => {
                let moves_ns = now_ns + u64::from(self.after(overheads.write_hit));
                Taken { moves_ns, bus_ns: moves_ns + preparation_ns }
            }
        }
    }

    /// What was written is in a segment, where reads find it.
    fn keep_written(&mut self, request: &Request) {
        if !self.mechanics.parameters().segments.keeps_written {
            return self.segments.forget(request.block, request.end(), None);
        }
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
    }

    pub(super) fn complete_flushes(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        let first = self.dirty.front().map_or(u64::MAX, |dirty| dirty.number);
        self.flushes.retain(|(token, last)| {
            let waits = first <= *last;
            if !waits {
                done.push(Completion { token: *token, at_ns: now_ns });
            }
            waits
        });
    }
}
