//! SCSI commands: from the PDU to the array, and back to a response.

use std::rc::Rc;

use scsi::sense::Format;
use scsi::{Arrival, CommandTrace, HostView, Lun, Request, Response, Status, TaskAttribute};
use world::Kind;

use super::respond::Answer;
use super::seam::Target;
use super::session::{Session, State};
use super::slot::Work;
use super::task::{DataOutState, Fault, Phase, Task};
use crate::chunks::Chunks;
use crate::pdu::{FINAL, Pdu, ScsiCommand, TAG_NONE, reject};

/// SAM-5 4.7: the LUN formats of a disk array: peripheral device addressing on bus 0, or flat space
/// addressing.
pub(crate) fn lun_of(field: &[u8; 8]) -> Option<Lun> {
    let [first, second, rest @ ..] = *field;
    match (first >> 6, rest == [0; 6]) {
        (0b00, true) if first == 0 => Some(Lun(second.into())),
        (0b01, true) => Some(Lun(u16::from_be_bytes([first & 0x3f, second]))),
        _ => None,
    }
}

/// 11.3.1.
fn attribute_of(flags: u8) -> TaskAttribute {
    match flags & ScsiCommand::ATTRIBUTE {
        2 => TaskAttribute::Ordered,
        3 => TaskAttribute::HeadOfQueue,
        4 => TaskAttribute::Aca,
        // Untagged and the reserved codes.
        _ => TaskAttribute::Simple,
    }
}

impl<T: Target> Session<T> {
    /// Starts a command whose CmdSN is next. `is_damaged`: the digest of its immediate data is wrong.
    pub(crate) fn command(self: &Rc<Self>, pdu: &Pdu<'_>, is_damaged: bool) {
        let header: &ScsiCommand = pdu.header();
        let itt = header.itt.get();
        let mut state = self.state.borrow_mut();
        if state.is_logged_out {
            return state.pass(pdu);
        }
        let flags = header.flags;
        // 11.3.1: W and F both 0 is an error: it announces data of a command that sends none.
        let follows_nothing = flags & (ScsiCommand::WRITE | FINAL) == 0;
        if self.is_discovery() || itt == TAG_NONE || follows_nothing {
            drop(state);
            return self.refuse(pdu, reject::PROTOCOL);
        }
        if state.tasks.find(itt).is_some() {
            drop(state);
            return self.refuse(pdu, reject::TASK_IN_PROGRESS);
        }
        let is_immediate = pdu.is_immediate();
        if is_immediate && state.tasks.immediates >= self.limits.immediate {
            drop(state);
            return self.refuse(pdu, reject::TOO_MANY_IMMEDIATE);
        }
        // Window and immediate commands are limited to the number of slots: one is free.
        let slot = state.tasks.take(itt).expect("a slot for every command that the window lets in");
        let task = &mut state.tasks.list[usize::from(slot)];
        fill(task, header, is_immediate);
        task.arrived = self.link.heard_at.get();
        task.since = task.arrived;
        let (is_ordered, writes) = (task.attribute == TaskAttribute::Ordered, task.writes);
        state.tasks.immediates += u16::from(is_immediate);
        state.tasks.ordered += u16::from(is_ordered);
        self.link.counts.borrow_mut().commands += 1;
        if writes {
            drop(state);
            return self.command_with_data(slot, pdu, is_damaged);
        }
        let task = &mut state.tasks.list[usize::from(slot)];
        if is_damaged {
            task.fault = Some(Fault::Digest);
        } else if !pdu.data.is_empty() {
            // Immediate data of a command that sends none.
            task.fault = Some(Fault::Unexpected);
        }
        if task.attribute == TaskAttribute::Aca {
            task.fault = Some(Fault::Attribute);
        }
        self.begin(state, slot);
    }

    /// A command with data-out: immediate data first.
    fn command_with_data(self: &Rc<Self>, slot: u16, pdu: &Pdu<'_>, is_damaged: bool) {
        let header: &ScsiCommand = pdu.header();
        let params = self.params.get();
        let Some(nexus) = self.nexus() else { return };
        let mut state = self.state.borrow_mut();
        let (lun, expected) = (lun_of(&header.lun), header.expected_len.get());
        let view: &T::View = (*nexus).as_ref();
        let asked = view.data_out_len(lun, &header.cdb);
        let task = &mut state.tasks.list[usize::from(slot)];
        let wanted = u32::try_from(asked).unwrap_or(u32::MAX).min(expected);
        // Unsolicited data that the command does not need also gets buffer space.
        let buffer_len = wanted.max(params.first_burst_len.min(expected));
        let came = pdu.data.len() as u32;
        let has_more = header.flags & FINAL == 0;
        let unsolicited = if has_more { params.first_burst_len } else { came };
        task.data = DataOutState {
            chunks: Chunks::new(buffer_len as usize, unsolicited as usize),
            wanted,
            buffer_len,
            next: came,
            ..DataOutState::default()
        };
        // 13.10: unsolicited data was not negotiated; 13.14: all of it has arrived.
        let may_have_more = !params.initial_r2t && came < params.first_burst_len.min(expected);
        if task.attribute == TaskAttribute::Aca {
            task.fault = Some(Fault::Attribute);
        } else if task.reads {
            task.fault = Some(Fault::Bidirectional);
        } else if came > 0 && (!params.immediate_data || came > params.first_burst_len) {
            task.fault = Some(Fault::Unexpected);
        } else if came > expected {
            task.fault = Some(Fault::Amount);
        } else if has_more && !may_have_more {
            task.fault = Some(Fault::Unexpected);
        } else {
            task.data.is_unsolicited = has_more;
            match is_damaged {
                true => task.fault = Some(Fault::Digest),
                false => task.data.chunks.write(0, pdu.data),
            }
        }
        self.link.counts.borrow_mut().data_out_bytes += u64::from(came);
        if task.data.is_unsolicited {
            state.tasks.set_phase(slot, Phase::Collecting);
            drop(state);
            self.update_data_since();
        } else {
            self.data_is_through(state, slot);
        }
    }

    /// Executes a task, or queues it if it lacks memory or older tasks come first.
    pub(crate) fn begin(self: &Rc<Self>, mut state: std::cell::RefMut<'_, State>, slot: u16) {
        // A task that has its memory passes tasks that wait for memory: they may wait for what it holds.
        let may_pass = state.tasks.queue.is_empty() || need(&state.tasks.list[usize::from(slot)]) == 0;
        if may_pass && self.try_begin(&mut state, slot) {
            drop(state);
            return self.execute(slot);
        }
        state.tasks.set_phase(slot, Phase::Queued);
        state.tasks.queue.push_back(slot);
    }

    /// Takes the memory that a task needs, if it is its turn.
    fn try_begin(&self, state: &mut State, slot: u16) -> bool {
        if state.tasks.must_wait(slot) {
            return false;
        }
        let need = need(&state.tasks.list[usize::from(slot)]);
        if need == 0 {
            return true;
        }
        if self.link.is_stalled.get() {
            return false;
        }
        let Some(held) = state.budget.take(need, self.link.pump.get()) else { return false };
        state.tasks.list[usize::from(slot)].held = held;
        true
    }

    /// Starts waiting tasks, as far as memory allows.
    pub(crate) fn start_queued(self: &Rc<Self>) {
        // Every round takes a task from the queue, or passes one. Memory is granted in the order of arrival:
        // the first task that lacks memory blocks all behind it.
        let (mut at, mut is_short) = (0, false);
        loop {
            let mut state = self.state.borrow_mut();
            let Some(&slot) = state.tasks.queue.get(at) else { return };
            let needs_memory = need(&state.tasks.list[usize::from(slot)]) > 0;
            if is_short && needs_memory || !self.try_begin(&mut state, slot) {
                is_short |= needs_memory && !state.tasks.must_wait(slot);
                at += 1;
                continue;
            }
            state.tasks.queue.remove(at);
            (at, is_short) = (0, false);
            let task = &mut state.tasks.list[usize::from(slot)];
            if std::mem::take(&mut task.must_collect) {
                task.data.chunks.grow();
                state.tasks.set_phase(slot, Phase::Collecting);
                self.ask_for_data(&mut state, slot);
                drop(state);
                self.update_data_since();
            } else {
                drop(state);
                self.execute(slot);
            }
        }
    }

    fn execute(self: &Rc<Self>, slot: u16) {
        let mut state = self.state.borrow_mut();
        state.tasks.set_phase(slot, Phase::Executing);
        let task = &mut state.tasks.list[usize::from(slot)];
        if let Some(fault) = task.fault {
            let lun = task.lun;
            drop(state);
            return self.finish(slot, self.fault_response(lun, fault));
        }
        let data = &mut task.data;
        let came = data.next.min(data.buffer_len) as usize;
        let mut request = Request {
            cdb: task.cdb,
            attribute: task.attribute,
            data_out: std::mem::take(&mut data.chunks).into_pieces(came),
            data_out_max: if task.writes { task.expected_len } else { 0 },
            data_in_max: if task.reads { task.expected_len } else { 0 },
            tag: u64::from(task.itt),
            arrival: task.arrival,
            trace: None,
        };
        let (lun, arrived) = (task.lun, task.arrived);
        let kind = if task.writes { Kind::Write } else { Kind::Read };
        drop(state);
        if let Some(nexus) = self.nexus() {
            let view: &T::View = (*nexus).as_ref();
            if let Some(waits) = view.waits().filter(|waits| waits.draws()) {
                waits.record(self.world.now() - arrived, kind);
            }
            request.trace = view.sample(&request.cdb, arrived);
        }
        self.run(slot, Work::Command(lun, request));
    }

    /// Completes a command that has ended in the array.
    pub(crate) fn finish(&self, slot: u16, mut response: Response) {
        if let Some(trace) = response.trace.take() {
            self.tell_trace(slot, *trace, &response);
        }
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let task = &mut state.tasks.list[usize::from(slot)];
        if !task.is_immediate {
            state.window.max_cmd_sn = state.window.max_cmd_sn.wrapping_add(1);
        }
        let mut held = std::mem::take(&mut task.held);
        if !task.is_aborted && !response.aborted && !state.is_logged_out && !self.is_over() {
            if task.reads {
                // The memory of a read is returned when its data has been sent.
                state.out.held += std::mem::take(&mut held);
            }
            let answer = Answer {
                itt: task.itt,
                reads: task.reads,
                writes: task.writes,
                expected_len: task.expected_len,
                pdus_before: task.data.r2t_sn,
            };
            answer.push(response, &mut state.out, &state.window, &self.params.get());
        }
        task.is_aborted = false;
        state.budget.give_back(held);
        state.tasks.release(slot);
        self.answers_wait();
        self.task_ended.wake_all();
    }

    /// The response to a command with a fault.
    fn fault_response(&self, lun: Option<Lun>, fault: Fault) -> Response {
        let format = self.nexus().map_or(Format::Fixed, |nexus| {
            let view: &T::View = (*nexus).as_ref();
            view.sense_format(lun)
        });
        Response::failed(Status::CheckCondition, fault.sense().encode(format), 0)
    }

    /// A command that was traced has ended.
    fn tell_trace(&self, slot: u16, trace: CommandTrace, response: &Response) {
        let lun = self.state.borrow().tasks.list[usize::from(slot)].lun;
        if let Some(nexus) = self.nexus() {
            let view: &T::View = (*nexus).as_ref();
            view.traced(trace, lun, response);
        }
    }
}

/// How much budget a task still needs: a write for the data to solicit, a read for its data-in.
fn need(task: &Task) -> u64 {
    match (task.must_collect, task.reads && task.held == 0) {
        // It will not be executed.
        _ if task.fault.is_some() => 0,
        (true, _) => task.data.wanted.into(),
        (false, true) => task.expected_len.into(),
        (false, false) => 0,
    }
}

fn fill(task: &mut Task, header: &ScsiCommand, is_immediate: bool) {
    // Before the view is asked how much data it has: what comes later is noticed.
    task.arrival = Arrival::now();
    task.cmd_sn = header.cmd_sn.get();
    task.is_immediate = is_immediate;
    task.lun_field = header.lun;
    task.lun = lun_of(&header.lun);
    task.cdb = header.cdb;
    task.attribute = attribute_of(header.flags);
    task.reads = header.flags & ScsiCommand::READ != 0;
    task.writes = header.flags & ScsiCommand::WRITE != 0;
    task.expected_len = header.expected_len.get();
    task.held = 0;
    task.is_aborted = false;
    task.is_management = false;
    task.must_collect = false;
    task.fault = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lun_fields() {
        assert_eq!(lun_of(&[0, 7, 0, 0, 0, 0, 0, 0]), Some(Lun(7)));
        assert_eq!(lun_of(&[0x40 | 0x3f, 0xff, 0, 0, 0, 0, 0, 0]), Some(Lun(16383)));
        for bad in [
            [1, 7, 0, 0, 0, 0, 0, 0],
            [0xc1, 1, 0, 0, 0, 0, 0, 0],
            [0x80, 0, 0, 0, 0, 0, 0, 0],
            [0, 7, 0, 1, 0, 0, 0, 0],
        ] {
            assert_eq!(lun_of(&bad), None, "{bad:?}");
        }
    }
}
