//! The reader of a session: responses, data, and requests of the target.

use std::rc::{Rc, Weak};

use block::Pieces;

use super::connect::Error;
use super::done::{Done, Residual};
use super::session::{Inner, Notice, State};
use crate::frame::Layout;
use crate::pdu::{
    AsyncMessage, BHS_LEN, DataIn, FINAL, Header, IMMEDIATE, LogoutResponse, NopIn, NopOut, OPCODE_MASK, Pdu,
    R2t, Reject, ScsiResponse, TAG_NONE, TaskResponse, TextResponse, event, opcode,
};
use crate::receive::{ReceiveError, Receiver};
use crate::serial::before;

/// From this length on, the rest of a Data-In is received directly into its buffer.
const DIRECT_LEN_MIN: usize = 16 << 10;

/// Reads until the session ends.
pub(crate) async fn read_task(inner: Weak<Inner>, mut receiver: Receiver) {
    loop {
        let Some(session) = inner.upgrade() else { return };
        let step = read_held(&session, &mut receiver).await;
        session.flush();
        // The receive does not keep the session alive: dropping its last handle closes the stream, which ends
        // the receive.
        drop(session);
        let result = match step {
            Ok(want_len) => receiver.fill(want_len, usize::MAX).await.map_err(Error::from),
            Err(e) => Err(e),
        };
        if let Err(e) = result {
            if let Some(session) = inner.upgrade() {
                session.fail(e);
            }
            return;
        }
    }
}

/// Processes all complete PDUs; returns the length of the incomplete one.
async fn read_held(session: &Rc<Inner>, receiver: &mut Receiver) -> Result<usize, Error> {
    loop {
        let Some(layout) = receiver.layout().map_err(ReceiveError::from)? else { return Ok(0) };
        let held = receiver.bytes().len();
        if held >= layout.total_len {
            let (pdu, is_right) = receiver.framing.pdu(receiver.bytes(), layout);
            if !is_right {
                return Err(Error::Protocol("wrong data digest".into()));
            }
            session.receive(&pdu)?;
            receiver.consume(layout.total_len);
            continue;
        }
        let is_data_in = receiver.bytes()[0] & OPCODE_MASK == opcode::DATA_IN;
        if is_data_in
            && layout.total_len - held >= DIRECT_LEN_MIN
            && read_direct(session, receiver, layout).await?
        {
            continue;
        }
        return Ok(layout.total_len);
    }
}

/// Receives the rest of a Data-In directly into its command's buffer.
async fn read_direct(session: &Rc<Inner>, receiver: &mut Receiver, layout: Layout) -> Result<bool, Error> {
    let bhs: [u8; BHS_LEN] = *receiver.bytes().first_chunk().expect("the layout was taken from these bytes");
    let header = DataIn::of(&bhs);
    let (itt, offset) = (header.itt.get(), header.offset.get() as usize);
    let lent = {
        let mut state = session.state.borrow_mut();
        state.slots.find(itt).and_then(|(_, slot)| slot.data_in.lend(offset, layout.data_len))
    };
    let Some((buf, from)) = lent else { return Ok(false) };
    receiver.consume(layout.header_len);
    let (buf, received) = receiver.direct(buf, from).await;
    received?;
    while receiver.bytes().len() < layout.tail_len() {
        receiver.fill(layout.tail_len(), usize::MAX).await?;
    }
    if receiver.framing.data_digest {
        let (padding, sum) = receiver.bytes()[..layout.tail_len()].split_at(layout.tail_len() - 4);
        let mut running = crate::digest::Running::new();
        running.add(&buf[from..]);
        running.add(padding);
        if running.finish() != sum {
            return Err(Error::Protocol("wrong data digest".into()));
        }
    }
    receiver.consume(layout.tail_len());
    if let Some((_, slot)) = session.state.borrow_mut().slots.find(itt) {
        slot.data_in.give_back(offset, buf);
    }
    session.data_in(&Pdu { bhs: &bhs, ahs: &[], data: &[] }, false)?;
    Ok(true)
}

fn residual_of(flags: u8, count: u32) -> Residual {
    match flags & (ScsiResponse::OVERFLOW | ScsiResponse::UNDERFLOW) {
        ScsiResponse::OVERFLOW => Residual::Overflow(count),
        ScsiResponse::UNDERFLOW => Residual::Underflow(count),
        _ => Residual::None,
    }
}

impl State {
    /// Every PDU of a target updates the window (4.2.2.1).
    fn see_window(&mut self, exp_cmd_sn: u32, max_cmd_sn: u32) -> bool {
        // 4.2.2.1: an impossible pair is ignored.
        let is_possible = !before(max_cmd_sn, exp_cmd_sn.wrapping_sub(1));
        let grows = is_possible && before(self.max_cmd_sn, max_cmd_sn);
        if grows {
            self.max_cmd_sn = max_cmd_sn;
        }
        grows
    }

    fn see_status(&mut self, stat_sn: u32) {
        if !before(stat_sn, self.exp_stat_sn) {
            self.exp_stat_sn = stat_sn.wrapping_add(1);
        }
    }
}

impl Inner {
    fn receive(&self, pdu: &Pdu<'_>) -> Result<(), Error> {
        match pdu.opcode() {
            opcode::DATA_IN => self.data_in(pdu, true),
            opcode::SCSI_RESPONSE => self.response(pdu),
            opcode::R2T => self.r2t(pdu),
            opcode::NOP_IN => self.nop_in(pdu),
            opcode::TASK_RESPONSE => {
                let header: &TaskResponse = pdu.header();
                self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
                self.finish_status(pdu.itt(), header.stat_sn.get(), Ok(reply(header.response, Vec::new())))
            }
            opcode::LOGOUT_RESPONSE => {
                let header: &LogoutResponse = pdu.header();
                self.finish_status(pdu.itt(), header.stat_sn.get(), Ok(reply(header.response, Vec::new())))
            }
            opcode::TEXT_RESPONSE => {
                let header: &TextResponse = pdu.header();
                self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
                let mut done = reply(0, pdu.data.to_vec());
                if header.flags & FINAL == 0 {
                    done.residual = Residual::Overflow(header.ttt.get());
                }
                self.finish_status(pdu.itt(), header.stat_sn.get(), Ok(done))
            }
            opcode::REJECT => self.rejected(pdu),
            opcode::ASYNC_MESSAGE => self.event(pdu),
            other => Err(Error::Protocol(format!("unknown opcode {other:02x}h"))),
        }
    }

    fn window(&self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        let grows = self.state.borrow_mut().see_window(exp_cmd_sn, max_cmd_sn);
        if grows {
            self.room.wake_all();
        }
    }

    /// A Data-In; its data is in the PDU or already in its buffer.
    fn data_in(&self, pdu: &Pdu<'_>, is_inside: bool) -> Result<(), Error> {
        let header: &DataIn = pdu.header();
        self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
        let mut state = self.state.borrow_mut();
        let Some((_, slot)) = state.slots.find(header.itt.get()) else {
            return Err(Error::Protocol("Data-In with an unknown task tag".into()));
        };
        let (offset, len) = (header.offset.get(), header.data_len.get());
        if header.data_sn.get() != slot.data_sn || offset != slot.came_in {
            return Err(Error::Protocol("data out of order".into()));
        }
        if offset.checked_add(len).is_none_or(|end| end > slot.expect_in) {
            return Err(Error::Protocol("more data than expected".into()));
        }
        if is_inside {
            slot.data_in.write(offset as usize, pdu.data);
        }
        slot.came_in += len;
        slot.data_sn += 1;
        if header.flags & DataIn::STATUS == 0 {
            return Ok(());
        }
        let data_in = std::mem::take(&mut slot.data_in).into_pieces(slot.came_in as usize);
        let residual = residual_of(header.flags, header.residual.get());
        drop(state);
        self.finish_status(
            header.itt.get(),
            header.stat_sn.get(),
            Ok(Done { status: header.status, sense: Vec::new(), data_in, residual }),
        )
    }

    fn response(&self, pdu: &Pdu<'_>) -> Result<(), Error> {
        let header: &ScsiResponse = pdu.header();
        self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
        let data_in = {
            let mut state = self.state.borrow_mut();
            let Some((_, slot)) = state.slots.find(header.itt.get()) else {
                return Err(Error::Protocol("a SCSI response with an unknown task tag".into()));
            };
            std::mem::take(&mut slot.data_in).into_pieces(slot.came_in as usize)
        };
        let sense = match pdu.data.split_first_chunk() {
            Some((len, sense)) => sense[..sense.len().min(u16::from_be_bytes(*len).into())].to_vec(),
            None => Vec::new(),
        };
        let outcome = match header.response {
            0 => Ok(Done {
                status: header.status,
                sense,
                data_in,
                residual: residual_of(header.flags, header.residual.get()),
            }),
            failure => Err(Error::TargetFailure(failure)),
        };
        self.finish_status(header.itt.get(), header.stat_sn.get(), outcome)
    }

    /// Completes a request and wakes its waiter.
    fn finish_status(&self, itt: u32, stat_sn: u32, outcome: Result<Done, Error>) -> Result<(), Error> {
        let mut state = self.state.borrow_mut();
        state.see_status(stat_sn);
        let Some((index, slot)) = state.slots.find(itt) else {
            return Err(Error::Protocol("a response with an unknown task tag".into()));
        };
        let waker = slot.waker.take();
        let is_abandoned = slot.is_abandoned;
        if is_abandoned {
            state.slots.release(index);
        } else {
            slot.outcome = Some(outcome);
        }
        drop(state);
        if is_abandoned {
            self.room.wake_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    fn r2t(&self, pdu: &Pdu<'_>) -> Result<(), Error> {
        let header: &R2t = pdu.header();
        self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
        let mut state = self.state.borrow_mut();
        let Some((index, slot)) = state.slots.find(header.itt.get()) else {
            // The task was aborted while the R2T was in transit.
            return Ok(());
        };
        let (from, len) = (header.offset.get(), header.desired_len.get());
        let Some(to) = from.checked_add(len).filter(|to| len > 0 && *to as usize <= slot.data_out.len())
        else {
            return Err(Error::Protocol("an R2T beyond the data of its command".into()));
        };
        state.push_data_out(index, header.ttt.get(), from, to);
        Ok(())
    }

    fn nop_in(&self, pdu: &Pdu<'_>) -> Result<(), Error> {
        let header: &NopIn = pdu.header();
        self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
        if header.itt.get() != TAG_NONE {
            return self.finish_status(
                header.itt.get(),
                header.stat_sn.get(),
                Ok(reply(0, pdu.data.to_vec())),
            );
        }
        if header.ttt.get() != TAG_NONE {
            let mut state = self.state.borrow_mut();
            let answer = NopOut {
                opcode: IMMEDIATE | opcode::NOP_OUT,
                flags: FINAL,
                lun: header.lun,
                itt: TAG_NONE.into(),
                ttt: header.ttt,
                cmd_sn: state.cmd_sn.into(),
                exp_stat_sn: state.exp_stat_sn.into(),
                ..NopOut::default()
            };
            state.out.push(answer.bytes());
        }
        Ok(())
    }

    fn rejected(&self, pdu: &Pdu<'_>) -> Result<(), Error> {
        let header: &Reject = pdu.header();
        self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
        self.state.borrow_mut().see_status(header.stat_sn.get());
        let error = Error::Rejected(header.reason);
        // The rejected header identifies the request. A rejected Data-Out leaves its command to the target.
        let Some(refused) = pdu.data.first_chunk::<BHS_LEN>() else { return Err(error) };
        let refused = Pdu { bhs: refused, ahs: &[], data: &[] };
        if matches!(refused.opcode(), opcode::DATA_OUT | opcode::SNACK) || refused.itt() == TAG_NONE {
            return Ok(());
        }
        self.finish_status(refused.itt(), header.stat_sn.get(), Err(error)).or(Ok(()))
    }

    fn event(&self, pdu: &Pdu<'_>) -> Result<(), Error> {
        let header: &AsyncMessage = pdu.header();
        self.window(header.exp_cmd_sn.get(), header.max_cmd_sn.get());
        let mut state = self.state.borrow_mut();
        state.see_status(header.stat_sn.get());
        let notice = match header.event {
            event::REQUEST_LOGOUT => Notice::LogoutRequested(header.parameter_3.get()),
            event::DROP_CONNECTION | event::DROP_SESSION => Notice::Dropped,
            event::SCSI => Notice::Scsi(pdu.data.get(2..).unwrap_or_default().to_vec()),
            other => Notice::Other(other),
        };
        state.notice(notice);
        drop(state);
        self.noticed.wake_all();
        Ok(())
    }
}

/// The result of a request that is not a command: its response code and text.
fn reply(response: u8, text: Vec<u8>) -> Done {
    Done { status: response, sense: text, data_in: Pieces::new(), residual: Residual::None }
}
