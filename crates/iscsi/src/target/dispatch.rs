//! Dispatches the PDUs of the full feature phase in the order of CmdSN; NOP, logout, reject and asynchronous
//! messages.

use std::rc::Rc;

use super::seam::Target;
use super::session::{Broken, Session};
use super::task::Turn;
use crate::pdu::{
    AsyncMessage, BHS_LEN, FINAL, Header, LogoutRequest, LogoutResponse, NopIn, NopOut, Pdu, Reject,
    TAG_NONE, event, opcode, reject,
};

/// Limit of bytes of early requests: on a single connection only a defective initiator sends any.
const EARLY_BYTES_MAX: usize = 1 << 20;

impl<T: Target> Session<T> {
    /// Processes one PDU. `is_damaged`: its data digest is wrong.
    pub(crate) fn receive(self: &Rc<Self>, pdu: &Pdu<'_>, is_damaged: bool) -> Result<(), Broken> {
        {
            let mut counts = self.link.counts.borrow_mut();
            counts.pdus_in += 1;
            counts.digest_errors += u64::from(is_damaged);
        }
        match pdu.opcode() {
            opcode::SCSI_COMMAND => self.in_turn(pdu, is_damaged),
            opcode::DATA_OUT => {
                self.data_out(pdu, is_damaged);
                Ok(())
            }
            opcode::NOP_OUT | opcode::TASK_REQUEST | opcode::TEXT_REQUEST | opcode::LOGOUT_REQUEST => {
                self.in_turn(pdu, is_damaged)
            }
            opcode::SNACK => {
                self.reject(pdu, reject::SNACK);
                Ok(())
            }
            opcode::LOGIN_REQUEST => {
                self.reject(pdu, reject::PROTOCOL);
                Err(Broken("login request in the full feature phase"))
            }
            _ => {
                self.reject(pdu, reject::NOT_SUPPORTED);
                Ok(())
            }
        }
    }

    /// Immediate requests at once, others in the order of CmdSN (4.2.2.1).
    fn in_turn(self: &Rc<Self>, pdu: &Pdu<'_>, is_damaged: bool) -> Result<(), Broken> {
        if pdu.is_immediate() {
            return self.act(pdu, is_damaged);
        }
        let mut state = self.state.borrow_mut();
        match state.window.judge(pdu.cmd_sn()) {
            Turn::Now => {
                state.window.exp_cmd_sn = state.window.exp_cmd_sn.wrapping_add(1);
                let has_early = !state.early.is_empty();
                drop(state);
                self.act(pdu, is_damaged)?;
                if has_early { self.act_on_early() } else { Ok(()) }
            }
            Turn::Later => {
                let held: usize = state.early.iter().map(|(_, bytes)| bytes.len()).sum();
                if is_damaged || held + pdu.data.len() > EARLY_BYTES_MAX {
                    return Err(Broken("too many requests ahead of the next CmdSN"));
                }
                let cmd_sn = pdu.cmd_sn();
                // A repeated CmdSN: the first request is valid.
                if !state.early.iter().any(|(sn, _)| *sn == cmd_sn) {
                    let bytes = [&pdu.bhs[..], pdu.data].concat().into_boxed_slice();
                    state.early.push((cmd_sn, bytes));
                }
                Ok(())
            }
            Turn::Never => {
                drop(state);
                self.link.counts.borrow_mut().ignored += 1;
                Ok(())
            }
        }
    }

    /// Processes the requests that waited behind a closed gap.
    fn act_on_early(self: &Rc<Self>) -> Result<(), Broken> {
        loop {
            let mut state = self.state.borrow_mut();
            let next = state.window.exp_cmd_sn;
            let Some(at) = state.early.iter().position(|(sn, _)| *sn == next) else { return Ok(()) };
            let (_, bytes) = state.early.swap_remove(at);
            state.window.exp_cmd_sn = next.wrapping_add(1);
            drop(state);
            let (bhs, data) = bytes.split_first_chunk::<BHS_LEN>().expect("a header was kept");
            self.act(&Pdu { bhs, ahs: &[], data }, false)?;
        }
    }

    fn act(self: &Rc<Self>, pdu: &Pdu<'_>, is_damaged: bool) -> Result<(), Broken> {
        if is_damaged {
            self.reject(pdu, reject::DATA_DIGEST);
            if pdu.opcode() != opcode::SCSI_COMMAND {
                self.state.borrow_mut().pass(pdu);
                return Ok(());
            }
        }
        match pdu.opcode() {
            opcode::SCSI_COMMAND => self.command(pdu, is_damaged),
            opcode::TASK_REQUEST => self.task_request(pdu),
            opcode::TEXT_REQUEST => return self.text_request(pdu),
            opcode::LOGOUT_REQUEST => self.logout(pdu),
            _ => self.nop_out(pdu),
        }
        Ok(())
    }

    /// 11.18: a ping is echoed; an answer to our own ping was recorded on arrival.
    fn nop_out(&self, pdu: &Pdu<'_>) {
        let header: &NopOut = pdu.header();
        let mut state = self.state.borrow_mut();
        state.pass(pdu);
        if header.itt.get() == TAG_NONE {
            return;
        }
        let len = pdu.data.len().min(self.params.get().send_segment_len_max as usize);
        let answer = NopIn {
            opcode: NopIn::OPCODE,
            flags: FINAL,
            lun: header.lun,
            itt: header.itt,
            ttt: TAG_NONE.into(),
            stat_sn: state.out.next_stat_sn().into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            ..NopIn::default()
        };
        state.out.push_small(answer.bytes(), &pdu.data[..len]);
        drop(state);
        self.answers_wait();
    }

    /// 11.14: closing the session or its only connection is the same; error recovery level 0 has no
    /// connection recovery.
    fn logout(self: &Rc<Self>, pdu: &Pdu<'_>) {
        let header: &LogoutRequest = pdu.header();
        let response = match header.reason & 0x7f {
            0 => 0,
            1 if header.cid.get() == self.cid => 0,
            1 => 1,
            2 => 2,
            _ => return self.refuse(pdu, reject::INVALID_FIELD),
        };
        if response == 0 {
            self.abort_where(|task| !task.is_management);
        }
        let params = self.params.get();
        let mut state = self.state.borrow_mut();
        state.pass(pdu);
        let answer = LogoutResponse {
            opcode: LogoutResponse::OPCODE,
            flags: FINAL,
            response,
            itt: header.itt,
            stat_sn: state.out.next_stat_sn().into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            time2wait: (params.time2wait_s as u16).into(),
            time2retain: (params.time2retain_s as u16).into(),
            ..LogoutResponse::default()
        };
        state.out.push(answer.bytes());
        state.out.is_last |= response == 0;
        state.is_logged_out |= response == 0;
        drop(state);
        self.answers_wait();
    }

    /// Rejects a request and frees its place in the window.
    pub(crate) fn refuse(&self, pdu: &Pdu<'_>, reason: u8) {
        self.state.borrow_mut().pass(pdu);
        self.reject(pdu, reason);
    }

    /// 11.17: sends the header back with the reason.
    pub(crate) fn reject(&self, pdu: &Pdu<'_>, reason: u8) {
        self.link.counts.borrow_mut().rejects += 1;
        let mut state = self.state.borrow_mut();
        let header = Reject {
            opcode: Reject::OPCODE,
            flags: FINAL,
            reason,
            tag: TAG_NONE.into(),
            stat_sn: state.out.next_stat_sn().into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            ..Reject::default()
        };
        state.out.push_small(header.bytes(), pdu.bhs);
        drop(state);
        self.answers_wait();
    }

    /// 11.19: pings the initiator. Such a NOP-In does not advance StatSN.
    pub(crate) fn ping(&self) {
        let mut state = self.state.borrow_mut();
        state.ttt_count = state.ttt_count.wrapping_add(1);
        let header = NopIn {
            opcode: NopIn::OPCODE,
            flags: FINAL,
            itt: TAG_NONE.into(),
            ttt: (state.ttt_count & 0x7fff_ffff).into(),
            stat_sn: state.out.stat_sn.into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            ..NopIn::default()
        };
        state.out.push(header.bytes());
    }

    pub(crate) fn request_logout(&self, seconds: u16) {
        self.push_event(event::REQUEST_LOGOUT, 0, seconds);
    }

    /// Announces the end of the session, and ends it once that is sent, and with it the responses of the task
    /// management functions that are under way: what they have done is done.
    pub(crate) fn drop_session(&self) {
        // Commands that have not begun are not started: their access rights may have been removed.
        self.abort_where(|task| !task.is_management);
        let params = self.params.get();
        self.push_event(event::DROP_SESSION, params.time2wait_s as u16, params.time2retain_s as u16);
        let mut state = self.state.borrow_mut();
        state.is_logged_out = true;
        state.is_dropped = true;
        state.end_when_answered();
    }

    fn push_event(&self, event: u8, parameter_2: u16, parameter_3: u16) {
        let mut state = self.state.borrow_mut();
        let header = AsyncMessage {
            opcode: AsyncMessage::OPCODE,
            flags: FINAL,
            tag: TAG_NONE.into(),
            stat_sn: state.out.next_stat_sn().into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            event,
            parameter_1: self.cid.into(),
            parameter_2: parameter_2.into(),
            parameter_3: parameter_3.into(),
            ..AsyncMessage::default()
        };
        state.out.push(header.bytes());
    }
}
