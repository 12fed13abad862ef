//! A drive with flash: units of a fixed service time behind a link; writes go into a buffer that is
//! programmed in the background. Each direction of the link is a queue of its own: what is read does not wait
//! for what is written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::parameters::{BLOCK_BYTES, FlashParameters};
use super::request::{Completion, Kind, Request, Usage};

/// A flash drive in operation.
#[derive(Clone, Debug)]
pub struct Flash {
    parameters: Arc<FlashParameters>,
    /// When each unit is free, the soonest first.
    units: BinaryHeap<Reverse<u64>>,
    /// When the link is free, reading and writing.
    link_read_free_ns: u64,
    link_write_free_ns: u64,
    /// When the write buffer will be empty if nothing is added.
    empty_ns: u64,
    slow: u64,
    usage: Usage,
}

impl Flash {
    /// A new one. The parameters have been checked.
    pub fn new(parameters: Arc<FlashParameters>) -> Flash {
        Flash {
            units: (0..parameters.units).map(|_| Reverse(0)).collect(),
            parameters,
            link_read_free_ns: 0,
            link_write_free_ns: 0,
            empty_ns: 0,
            slow: 1,
            usage: Usage::default(),
        }
    }

    pub(super) fn len_blocks(&self) -> u64 {
        self.parameters.len_blocks
    }

    pub(super) fn submit(&mut self, now_ns: u64, request: Request, done: &mut Vec<Completion>) {
        let bytes = request.blocks * BLOCK_BYTES;
        let at_ns = match request.kind {
            Kind::Read => self.read(now_ns, bytes),
            Kind::Write => self.write(now_ns, bytes),
            Kind::Flush if !self.parameters.protected_buffer => {
                self.empty_ns.max(now_ns) + u64::from(self.parameters.write_ns) * self.slow
            }
            Kind::Flush | Kind::Zero | Kind::Probe => {
                now_ns + u64::from(self.parameters.write_ns) * self.slow
            }
        };
        done.push(Completion { token: request.token, at_ns });
    }

    fn read(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let work_ns = u64::from(self.parameters.read_ns) * self.slow;
        let Reverse(free_ns) = self.units.pop().expect("a drive has units");
        let ready_ns = free_ns.max(now_ns) + work_ns;
        self.units.push(Reverse(ready_ns));
        self.usage.served += 1;
        self.usage.busy_ns += work_ns / self.parameters.units as u64;
        let sending_ns = time_ns(bytes.into(), self.parameters.link_read_bytes_per_s) * self.slow;
        self.link_read_free_ns = self.link_read_free_ns.max(ready_ns) + sending_ns;
        self.link_read_free_ns
    }

    /// The data crosses the link, then waits for room in the buffer. A write larger than the buffer takes as
    /// long as it is programmed.
    fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let sending_ns = time_ns(bytes.into(), self.parameters.link_write_bytes_per_s) * self.slow;
        let sent_ns = self.link_write_free_ns.max(now_ns) + sending_ns;
        self.link_write_free_ns = sent_ns;
        let begun_ns = self.empty_ns.max(sent_ns);
        self.empty_ns = begun_ns + self.program_ns(bytes);
        self.usage.hits += 1;
        self.usage.busy_ns += self.empty_ns - begun_ns;
        let room_ns = self.empty_ns.saturating_sub(self.program_ns(self.parameters.buffer_bytes));
        sent_ns.max(room_ns) + u64::from(self.parameters.write_ns) * self.slow
    }

    fn program_ns(&self, bytes: u64) -> u64 {
        let programmed = u128::from(bytes) * u128::from(self.parameters.amplification_percent) / 100;
        time_ns(programmed, self.parameters.program_bytes_per_s) * self.slow
    }

    pub(super) fn set_slow(&mut self, factor: u32) {
        self.slow = factor.into();
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }
}

fn time_ns(bytes: u128, bytes_per_s: u64) -> u64 {
    (bytes * 1_000_000_000).div_ceil(bytes_per_s.into()) as u64
}
