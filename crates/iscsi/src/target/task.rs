//! The tasks of a session: one entry per command slot, and the command window.

use std::collections::VecDeque;

use scsi::sense::{Key, Sense};
use scsi::{Arrival, Lun, TaskAttribute};
use smallvec::SmallVec;
use world::Instant;

use super::limits::Limits;
use crate::chunks::Chunks;
use crate::serial::within;

/// The phase of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// Receiving data: unsolicited, or solicited by R2T.
    Collecting,
    /// Waiting for memory (to solicit data, or to execute), or for its turn.
    Queued,
    /// Executing in the array.
    Executing,
}

/// A fault in a command or its data, which ends the command; see [`Fault::is_violation`] for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A wrong data digest.
    Digest,
    /// Data that was not solicited, or more than was negotiated.
    Unexpected,
    /// A sequence that is too short or too long.
    Amount,
    /// DataSN or offset out of order.
    Order,
    /// A command that both reads and writes.
    Bidirectional,
    /// The task attribute ACA, without that condition: there is none here.
    Attribute,
}

impl Fault {
    /// Whether the initiator violated the protocol: the command ends at once. Data damaged in transit is no
    /// fault of the initiator, which continues its sequences; by RFC 7143 7.8 the target waits for their ends
    /// before it responds.
    pub(crate) fn is_violation(self) -> bool {
        self != Fault::Digest
    }

    /// Sense key, additional sense code and qualifier (RFC 7143 11.4.7.2; SPC-5 annex D).
    pub(crate) fn sense(self) -> Sense {
        match self {
            Fault::Digest => Sense::new(Key::AbortedCommand, 0x4705),
            Fault::Unexpected => Sense::new(Key::AbortedCommand, 0x0c0c),
            Fault::Amount => Sense::new(Key::AbortedCommand, 0x0c0d),
            // DATA PHASE ERROR
            Fault::Order => Sense::new(Key::AbortedCommand, 0x4b00),
            // INVALID FIELD IN COMMAND INFORMATION UNIT
            Fault::Bidirectional => Sense::new(Key::IllegalRequest, 0x0e03),
            // INVALID MESSAGE ERROR (SAM-5 8.6)
            Fault::Attribute => Sense::new(Key::IllegalRequest, 0x4900),
        }
    }
}

/// One solicited sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    pub ttt: u32,
    pub end: u32,
}

/// The data of a write in transit.
#[derive(Default)]
pub(crate) struct DataOutState {
    pub chunks: Chunks,
    /// End of the data that is needed.
    pub wanted: u32,
    /// Length of the buffer.
    pub buffer_len: u32,
    /// Offset of the next byte: data arrives in order.
    pub next: u32,
    /// Offset of the next R2T.
    pub ask_from: u32,
    pub r2t_sn: u32,
    /// DataSN of the next PDU of the current sequence.
    pub data_sn: u32,
    /// Whether unsolicited data is still expected.
    pub is_unsolicited: bool,
    /// R2Ts in flight, oldest first.
    pub bursts: SmallVec<[Burst; 8]>,
}

/// A command of the session.
pub(crate) struct Task {
    pub phase: Phase,
    pub itt: u32,
    pub cmd_sn: u32,
    pub is_immediate: bool,
    pub lun_field: [u8; 8],
    pub lun: Option<Lun>,
    pub cdb: [u8; 16],
    pub attribute: TaskAttribute,
    pub reads: bool,
    pub writes: bool,
    pub expected_len: u32,
    /// Budget that it holds, in bytes.
    pub held: u64,
    /// Whether its response is suppressed.
    pub is_aborted: bool,
    /// Whether it is a task management function.
    pub is_management: bool,
    /// Whether it waits for memory to solicit its data, as opposed to executing.
    pub must_collect: bool,
    pub fault: Option<Fault>,
    pub since: Instant,
    /// When the command arrived; its data may follow.
    pub arrived: Instant,
    /// The same, against what happens to its logical unit until it is executed.
    pub arrival: Arrival,
    pub data: DataOutState,
}

impl Task {
    fn free() -> Task {
        Task {
            phase: Phase::Free,
            itt: 0,
            cmd_sn: 0,
            is_immediate: false,
            lun_field: [0; 8],
            lun: None,
            cdb: [0; 16],
            attribute: TaskAttribute::Simple,
            reads: false,
            writes: false,
            expected_len: 0,
            held: 0,
            is_aborted: false,
            is_management: false,
            must_collect: false,
            fault: None,
            since: Instant::default(),
            arrived: Instant::default(),
            arrival: Arrival::default(),
            data: DataOutState::default(),
        }
    }
}

/// All tasks of a session.
pub(crate) struct Tasks {
    pub list: Vec<Task>,
    free: Vec<u16>,
    /// Tasks that wait for memory or for their turn, in the order of arrival.
    pub queue: VecDeque<u16>,
    /// Number of live tasks per low bits of the tag: a quick check whether a tag is in use.
    tags: [u8; 256],
    pub immediates: u16,
    /// Live tasks with the ORDERED attribute.
    pub ordered: u16,
    pub executing: u16,
    pub collecting: u16,
}

impl Tasks {
    pub(crate) fn new(slots: usize) -> Tasks {
        Tasks {
            list: (0..slots).map(|_| Task::free()).collect(),
            // The lowest free slot is used, so that few slots are created.
            free: (0..slots as u16).rev().collect(),
            queue: VecDeque::with_capacity(slots),
            tags: [0; 256],
            immediates: 0,
            ordered: 0,
            executing: 0,
            collecting: 0,
        }
    }

    /// The live task with this tag.
    pub(crate) fn find(&self, itt: u32) -> Option<u16> {
        if self.tags[(itt & 0xff) as usize] == 0 {
            return None;
        }
        self.list.iter().position(|t| t.phase != Phase::Free && t.itt == itt).map(|i| i as u16)
    }

    /// Allocates a slot for a new task with this tag; the caller sets its phase.
    pub(crate) fn take(&mut self, itt: u32) -> Option<u16> {
        let slot = self.free.pop()?;
        self.tags[(itt & 0xff) as usize] += 1;
        self.list[usize::from(slot)].itt = itt;
        Some(slot)
    }

    /// Moves a task to another phase and updates the counts.
    pub(crate) fn set_phase(&mut self, slot: u16, phase: Phase) {
        let task = &mut self.list[usize::from(slot)];
        match std::mem::replace(&mut task.phase, phase) {
            Phase::Executing => self.executing -= 1,
            Phase::Collecting => self.collecting -= 1,
            _ => {}
        }
        match phase {
            Phase::Executing => self.executing += 1,
            Phase::Collecting => self.collecting += 1,
            _ => {}
        }
    }

    /// Frees a slot.
    pub(crate) fn release(&mut self, slot: u16) {
        self.set_phase(slot, Phase::Free);
        let task = &mut self.list[usize::from(slot)];
        self.tags[(task.itt & 0xff) as usize] -= 1;
        self.immediates -= u16::from(task.is_immediate);
        self.ordered -= u16::from(task.attribute == TaskAttribute::Ordered);
        if task.writes {
            task.data = DataOutState::default();
        }
        self.free.push(slot);
    }

    /// SAM-5 8.7: whether a task must wait for others of its LU: an ordered one for all older ones, any one
    /// for an older ordered one.
    pub(crate) fn must_wait(&self, slot: u16) -> bool {
        let task = &self.list[usize::from(slot)];
        if self.ordered == 0 || matches!(task.attribute, TaskAttribute::HeadOfQueue | TaskAttribute::Aca) {
            return false;
        }
        let is_ordered = task.attribute == TaskAttribute::Ordered;
        self.list.iter().any(|other| {
            other.phase != Phase::Free
                && other.lun == task.lun
                && crate::serial::before(other.cmd_sn, task.cmd_sn)
                && (is_ordered || other.attribute == TaskAttribute::Ordered)
        })
    }
}

/// The command window (RFC 7143 4.2.2.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub exp_cmd_sn: u32,
    pub max_cmd_sn: u32,
}

/// The order of a request's CmdSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is the next.
    Now,
    /// Others come before it.
    Later,
    /// Outside the window, or seen before: to be ignored.
    Never,
}

impl Window {
    pub(crate) fn new(cmd_sn: u32, limits: &Limits) -> Window {
        Window { exp_cmd_sn: cmd_sn, max_cmd_sn: cmd_sn.wrapping_add(u32::from(limits.window) - 1) }
    }

    pub(crate) fn judge(&self, cmd_sn: u32) -> Turn {
        // A closed window has MaxCmdSN = ExpCmdSN - 1, and is empty.
        if self.max_cmd_sn.wrapping_add(1) == self.exp_cmd_sn
            || !within(cmd_sn, self.exp_cmd_sn, self.max_cmd_sn)
        {
            Turn::Never
        } else if cmd_sn == self.exp_cmd_sn {
            Turn::Now
        } else {
            Turn::Later
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_takes_what_is_in_it() {
        let limits = Limits { window: 4, ..Limits::default() };
        let mut w = Window::new(u32::MAX, &limits);
        for (sn, want) in [
            (u32::MAX, Turn::Now),
            (0, Turn::Later),
            (2, Turn::Later),
            (3, Turn::Never),
            (u32::MAX - 1, Turn::Never),
        ] {
            assert_eq!(w.judge(sn), want, "CmdSN {sn}");
        }
        w.exp_cmd_sn = 3;
        for sn in [2, 3, 4] {
            assert_eq!(w.judge(sn), Turn::Never, "CmdSN {sn} in a closed window");
        }
    }

    #[test]
    fn tags_are_found_while_they_live() {
        let mut tasks = Tasks::new(4);
        let a = tasks.take(0x101).unwrap();
        tasks.set_phase(a, Phase::Queued);
        assert_eq!(tasks.find(0x101), Some(a));
        assert_eq!(tasks.find(0x201), None);
        tasks.release(a);
        assert_eq!(tasks.find(0x101), None);
    }

    #[test]
    fn ordered_tasks_are_fences() {
        let mut tasks = Tasks::new(8);
        let mut add = |sn: u32, attribute, lun| {
            let slot = tasks.take(sn).unwrap();
            let task = &mut tasks.list[usize::from(slot)];
            (task.cmd_sn, task.attribute, task.lun) = (sn, attribute, Some(Lun(lun)));
            tasks.ordered += u16::from(attribute == TaskAttribute::Ordered);
            tasks.set_phase(slot, Phase::Queued);
            slot
        };
        let first = add(1, TaskAttribute::Simple, 0);
        let fence = add(2, TaskAttribute::Ordered, 0);
        let after = add(3, TaskAttribute::Simple, 0);
        let other = add(4, TaskAttribute::Simple, 1);
        let head = add(5, TaskAttribute::HeadOfQueue, 0);
        let waits: Vec<bool> =
            [first, fence, after, other, head].iter().map(|&s| tasks.must_wait(s)).collect();
        assert_eq!(waits, [false, true, true, false, false]);
        tasks.release(first);
        assert!(!tasks.must_wait(fence));
        tasks.release(fence);
        assert!(!tasks.must_wait(after));
    }
}
