//! Data-Out: unsolicited bursts, R2Ts, and the order of both (RFC 7143 4.2.5, 11.7, 11.8).

use std::cell::RefMut;
use std::rc::Rc;

use world::Buf;

use super::limits::SLOT_BITS;
use super::seam::Target;
use super::session::{Session, State};
use super::task::{Burst, Fault, Phase};
use crate::chunks::CHUNK_LEN;
use crate::pdu::{DataOut, FINAL, Header, Pdu, R2t, TAG_NONE, reject};

impl<T: Target> Session<T> {
    /// The task, and whether the PDU is the next one of its data. `None`: no task waits for it.
    fn expects(&self, state: &mut State, header: &DataOut) -> Option<(u16, Result<(), Fault>)> {
        let (itt, ttt) = (header.itt.get(), header.ttt.get());
        let collects = |slot: &u16| {
            let task = state.tasks.list.get(usize::from(*slot));
            task.is_some_and(|t| t.phase == Phase::Collecting && t.itt == itt)
        };
        let of_tag = (ttt & ((1 << SLOT_BITS) - 1)) as u16;
        // A target transfer tag that does not belong to the command is a fault of the command: the task tag
        // identifies it.
        let slot = Some(of_tag).filter(|_| ttt != TAG_NONE).filter(&collects);
        let slot = slot.or_else(|| state.tasks.find(itt).filter(&collects))?;
        let task = &state.tasks.list[usize::from(slot)];
        let data = &task.data;
        let first_burst = self.params.get().first_burst_len.min(task.expected_len);
        let end = match ttt {
            TAG_NONE if data.is_unsolicited => first_burst,
            TAG_NONE => return Some((slot, Err(Fault::Unexpected))),
            _ => match data.bursts.first().filter(|b| b.ttt == ttt) {
                Some(burst) => burst.end,
                // Not solicited, or R2Ts answered out of order.
                None => return Some((slot, Err(Fault::Order))),
            },
        };
        let (offset, len) = (header.offset.get(), header.data_len.get());
        let verdict = if header.data_sn.get() != data.data_sn || offset != data.next {
            Err(Fault::Order)
        } else if offset.checked_add(len).is_none_or(|after| after > end) {
            Err(if ttt == TAG_NONE { Fault::Unexpected } else { Fault::Amount })
        } else {
            Ok(())
        };
        Some((slot, verdict))
    }

    /// Processes a complete Data-Out PDU.
    pub(crate) fn data_out(self: &Rc<Self>, pdu: &Pdu<'_>, is_damaged: bool) {
        let header: &DataOut = pdu.header();
        let mut state = self.state.borrow_mut();
        let Some((slot, verdict)) = self.expects(&mut state, header) else {
            return self.link.counts.borrow_mut().ignored += 1;
        };
        if is_damaged {
            drop(state);
            self.reject(pdu, reject::DATA_DIGEST);
            state = self.state.borrow_mut();
        }
        let task = &mut state.tasks.list[usize::from(slot)];
        let verdict = if is_damaged { Err(Fault::Digest) } else { verdict };
        if verdict.is_ok() && task.fault.is_none() {
            task.data.chunks.write(header.offset.get() as usize, pdu.data);
        }
        self.data_came(state, slot, header, verdict);
    }

    /// Processes the header of an incomplete Data-Out PDU: returns the destination buffer, if the data may go
    /// there directly. Return the buffer with [`Session::data_received`].
    pub(crate) fn lend_buffer(&self, header: &DataOut) -> Option<(u16, Buf, usize)> {
        let mut state = self.state.borrow_mut();
        let (slot, verdict) = self.expects(&mut state, header)?;
        let task = &mut state.tasks.list[usize::from(slot)];
        if verdict.is_err() || task.fault.is_some() {
            return None;
        }
        let (buf, from) =
            task.data.chunks.lend(header.offset.get() as usize, header.data_len.get() as usize)?;
        Some((slot, buf, from))
    }

    /// The data of a PDU has been received directly into its buffer. The task may have been aborted
    /// meanwhile.
    pub(crate) fn data_received(self: &Rc<Self>, pdu: &Pdu<'_>, slot: u16, buf: Buf, is_damaged: bool) {
        let header: &DataOut = pdu.header();
        let mut state = self.state.borrow_mut();
        match self.expects(&mut state, header) {
            Some((now, verdict)) if now == slot => {
                state.tasks.list[usize::from(slot)].data.chunks.give_back(header.offset.get() as usize, buf);
                if is_damaged {
                    drop(state);
                    self.reject(pdu, reject::DATA_DIGEST);
                    state = self.state.borrow_mut();
                }
                self.data_came(state, slot, header, if is_damaged { Err(Fault::Digest) } else { verdict });
            }
            _ => self.link.counts.borrow_mut().ignored += 1,
        }
    }

    /// Continues after a PDU's data: more of the sequence, the next sequence, or the command itself.
    fn data_came(
        self: &Rc<Self>,
        mut state: RefMut<'_, State>,
        slot: u16,
        header: &DataOut,
        verdict: Result<(), Fault>,
    ) {
        let (len, params) = (header.data_len.get(), self.params.get());
        self.link.counts.borrow_mut().data_out_bytes += u64::from(len);
        let task = &mut state.tasks.list[usize::from(slot)];
        if len > 0 {
            // One without data is no progress: it would keep the command's buffer for ever.
            task.since = self.link.heard_at.get();
        }
        let data = &mut task.data;
        match verdict {
            Ok(()) => {
                data.next += len;
                data.data_sn = data.data_sn.wrapping_add(1);
            }
            Err(fault) => {
                task.fault.get_or_insert(fault);
            }
        }
        if task.fault.is_some_and(Fault::is_violation) {
            return self.give_up(state, slot);
        }
        if header.flags & FINAL == 0 {
            return;
        }
        data.data_sn = 0;
        if header.ttt.get() == TAG_NONE {
            data.is_unsolicited = false;
            // 11.4.7.2: of a longer transfer exactly FirstBurstLength is unsolicited.
            if task.expected_len > params.first_burst_len && data.next != params.first_burst_len {
                task.fault.get_or_insert(Fault::Amount);
            }
        } else if let Some(at) = data.bursts.iter().position(|b| b.ttt == header.ttt.get()) {
            let burst = data.bursts.remove(at);
            if data.next != burst.end {
                task.fault.get_or_insert(Fault::Amount);
            }
        }
        match task.fault.is_some_and(Fault::is_violation) {
            true => self.give_up(state, slot),
            false => self.data_is_through(state, slot),
        }
    }

    /// Ends a command without waiting for the rest of its data, which is then data for no task.
    fn give_up(self: &Rc<Self>, mut state: RefMut<'_, State>, slot: u16) {
        let data = &mut state.tasks.list[usize::from(slot)].data;
        data.bursts.clear();
        data.is_unsolicited = false;
        self.data_is_through(state, slot);
    }

    /// Ends a sequence: solicits more data if needed, otherwise executes the command.
    pub(crate) fn data_is_through(self: &Rc<Self>, mut state: RefMut<'_, State>, slot: u16) {
        let task = &mut state.tasks.list[usize::from(slot)];
        let data = &mut task.data;
        let is_faulty = task.fault.is_some();
        if !data.bursts.is_empty() || data.is_unsolicited {
            if !is_faulty && !data.bursts.is_empty() {
                self.ask_for_data(&mut state, slot);
            }
            return;
        }
        if is_faulty || data.next >= data.wanted {
            // No longer collecting data.
            state.tasks.set_phase(slot, Phase::Queued);
            self.begin(state, slot);
            return self.update_data_since();
        }
        if task.held > 0 {
            return self.ask_for_data(&mut state, slot);
        }
        // The first R2T needs memory for all solicited data of the command.
        data.ask_from = data.next;
        task.must_collect = true;
        state.tasks.set_phase(slot, Phase::Queued);
        state.tasks.queue.push_back(slot);
        drop(state);
        self.update_data_since();
        self.start_queued();
    }

    /// Sends R2Ts, as many as may be in flight. No sequence crosses a chunk of the command's buffer.
    pub(crate) fn ask_for_data(&self, state: &mut State, slot: u16) {
        let params = self.params.get();
        loop {
            let task = &mut state.tasks.list[usize::from(slot)];
            let data = &mut task.data;
            if data.ask_from >= data.wanted || data.bursts.len() >= params.max_outstanding_r2t as usize {
                break;
            }
            let to_chunk_end = CHUNK_LEN as u32 - data.ask_from % CHUNK_LEN as u32;
            let len = params.max_burst_len.min(to_chunk_end).min(data.wanted - data.ask_from);
            state.ttt_count = state.ttt_count.wrapping_add(1);
            // The counter skips its highest values, so that no tag is all ones.
            let count = state.ttt_count % ((1 << (32 - SLOT_BITS)) - 1);
            let ttt = count << SLOT_BITS | u32::from(slot);
            let header = R2t {
                opcode: R2t::OPCODE,
                flags: FINAL,
                lun: task.lun_field,
                itt: task.itt.into(),
                ttt: ttt.into(),
                stat_sn: state.out.stat_sn.into(),
                exp_cmd_sn: state.window.exp_cmd_sn.into(),
                max_cmd_sn: state.window.max_cmd_sn.into(),
                r2t_sn: data.r2t_sn.into(),
                offset: data.ask_from.into(),
                desired_len: len.into(),
                ..R2t::default()
            };
            data.ask_from += len;
            data.r2t_sn += 1;
            data.bursts.push(Burst { ttt, end: data.ask_from });
            state.out.push(header.bytes());
        }
        self.answers_wait();
    }

    /// Updates since when the oldest command waits for its data, for the watch.
    pub(crate) fn update_data_since(&self) {
        let state = self.state.borrow();
        let since = match state.tasks.collecting {
            0 => None,
            _ => state.tasks.list.iter().filter(|t| t.phase == Phase::Collecting).map(|t| t.since).min(),
        };
        self.link.data_since.set(since);
    }

    /// Whether solicited data is in transit: smaller receives are then worthwhile, so that it goes directly
    /// into the commands' buffers.
    pub(crate) fn is_collecting(&self) -> bool {
        self.state.borrow().tasks.collecting > 0
    }
}
