//! Commands: submit, complete, return the result to the caller.

use std::future::poll_fn;
use std::task::Poll;

use block::Pieces;
use scsi::Lun;

use super::connect::Error;
use super::done::Done;
use super::session::{Session, State};
use crate::chunks::Chunks;
use crate::pdu::{DataOut, FINAL, Header, Len24, ScsiCommand, TAG_NONE, opcode};

/// The LUN field of a LUN (SAM-5 4.7): peripheral device addressing up to 255, flat space addressing above.
pub(crate) fn lun_field(Lun(lun): Lun) -> [u8; 8] {
    let [high, low] = if lun < 256 { lun.to_be_bytes() } else { (lun | 0x4000).to_be_bytes() };
    [high, low, 0, 0, 0, 0, 0, 0]
}

impl Session {
    /// Executes a command: waits for a place in the window, sends the command with its data, and waits for
    /// its end.
    ///
    /// `expect_in` is the maximum length of data-in. A command either reads or writes. In steady state
    /// nothing is allocated. Dropping the future abandons the response, not the command.
    ///
    /// # Errors
    ///
    /// The session ended before the command did: whether the command was executed is unknown. A SCSI status
    /// other than GOOD is no error.
    pub async fn command(
        &self,
        lun: Lun,
        cdb: [u8; 16],
        data_out: Pieces,
        expect_in: u32,
    ) -> Result<Done, Error> {
        assert!(data_out.is_empty() || expect_in == 0, "a command reads or writes");
        let expected = expect_in.max(data_out.len() as u32);
        self.transfer(lun, cdb, data_out, expect_in, expected, false).await
    }

    /// Like [`Session::command`], but sends another expected length than that of the data, and may be
    /// immediate: for tests of targets.
    pub async fn odd_command(
        &self,
        lun: Lun,
        cdb: [u8; 16],
        data_out: Pieces,
        expected_len: u32,
        writes: bool,
    ) -> Result<Done, Error> {
        let expect_in = if writes { 0 } else { expected_len };
        self.transfer(lun, cdb, data_out, expect_in, expected_len, writes).await
    }

    async fn transfer(
        &self,
        lun: Lun,
        cdb: [u8; 16],
        data_out: Pieces,
        expect_in: u32,
        expected: u32,
        force_write: bool,
    ) -> Result<Done, Error> {
        let index = self.take_slot(false).await?;
        self.submit(index, (lun, cdb), data_out, expect_in, (expected, force_write));
        self.answer(index).await
    }

    /// Appends a command with its unsolicited data.
    fn submit(
        &self,
        index: u16,
        (lun, cdb): (Lun, [u8; 16]),
        data_out: Pieces,
        expect_in: u32,
        (expected, force_write): (u32, bool),
    ) {
        let mut state = self.0.state.borrow_mut();
        let writes = force_write || !data_out.is_empty();
        let slot = state.slots.get(index);
        slot.lun = lun_field(lun);
        slot.expect_in = expect_in;
        slot.data_in = Chunks::new(expect_in as usize, expect_in as usize);
        slot.data_out = data_out;
        let itt = slot.itt;
        let params = state.params;
        let unsolicited =
            if writes { params.first_burst_len.min(expected).min(slot_len(&mut state, index)) } else { 0 };
        let immediate = if params.immediate_data { unsolicited.min(params.send_segment_len_max) } else { 0 };
        let has_more = !params.initial_r2t && immediate < unsolicited;
        let mut flags = if has_more { 0 } else { FINAL };
        flags |= if writes { ScsiCommand::WRITE } else { 0 };
        flags |= if expect_in > 0 { ScsiCommand::READ } else { 0 };
        let header = ScsiCommand {
            opcode: opcode::SCSI_COMMAND,
            flags,
            data_len: Len24::new(immediate),
            lun: lun_field(lun),
            itt: itt.into(),
            expected_len: expected.into(),
            cmd_sn: state.next_cmd_sn().into(),
            exp_stat_sn: state.exp_stat_sn.into(),
            cdb,
            ..ScsiCommand::default()
        };
        if immediate == 0 {
            state.out.push(header.bytes());
        } else {
            let data = state.slots.get(index).data_out.slice(0, immediate as usize);
            state.out.push_pieces(header.bytes(), data);
        }
        if has_more {
            state.push_data_out(index, TAG_NONE, immediate, unsolicited);
        }
        drop(state);
        self.submitted();
    }

    /// Waits for the response of a request and frees its slot.
    pub(crate) async fn answer(&self, index: u16) -> Result<Done, Error> {
        let _guard = Waiting { session: self, index };
        self.outcome(index).await
    }

    /// Waits for the response of a request.
    pub(crate) async fn outcome(&self, index: u16) -> Result<Done, Error> {
        poll_fn(|cx| {
            let mut state = self.0.state.borrow_mut();
            let slot = state.slots.get(index);
            match slot.outcome.take() {
                Some(outcome) => {
                    slot.is_answered = true;
                    Poll::Ready(outcome)
                }
                None => {
                    match &mut slot.waker {
                        Some(waker) => waker.clone_from(cx.waker()),
                        none => *none = Some(cx.waker().clone()),
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Frees the slot of a completed request; if the caller dropped it earlier, the response frees the slot.
pub(crate) struct Waiting<'a> {
    pub session: &'a Session,
    pub index: u16,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.session.0.state.borrow_mut();
        let slot = state.slots.get(self.index);
        if slot.is_answered || slot.outcome.is_some() {
            state.slots.release(self.index);
            drop(state);
            self.session.0.room.wake_all();
        } else {
            slot.is_abandoned = true;
        }
    }
}

fn slot_len(state: &mut State, index: u16) -> u32 {
    state.slots.get(index).data_out.len() as u32
}

impl State {
    /// Appends Data-Out PDUs with bytes `from..to` of a request's data.
    pub(crate) fn push_data_out(&mut self, index: u16, ttt: u32, from: u32, to: u32) {
        let segment = self.params.send_segment_len_max;
        let (mut at, mut data_sn) = (from, 0u32);
        while at < to {
            let len = segment.min(to - at);
            let slot = self.slots.get(index);
            let header = DataOut {
                opcode: DataOut::OPCODE,
                flags: if at + len == to { FINAL } else { 0 },
                data_len: Len24::new(len),
                lun: slot.lun,
                itt: slot.itt.into(),
                ttt: ttt.into(),
                exp_stat_sn: self.exp_stat_sn.into(),
                data_sn: data_sn.into(),
                offset: at.into(),
                ..DataOut::default()
            };
            let data = slot.data_out.slice(at as usize, len as usize);
            self.out.push_pieces(header.bytes(), data);
            at += len;
            data_sn += 1;
        }
    }
}
