//! The response to a command: Data-In PDUs, the status in the last of them or in a SCSI Response, residual
//! counts.

use block::Pieces;
use scsi::{Response, Status};

use super::task::Window;
use crate::negotiation::Params;
use crate::outgoing::Outgoing;
use crate::pdu::{DataIn, FINAL, Header, Len24, ScsiResponse, TAG_NONE};

/// The fields of a command that its response needs.
pub(crate) struct Answer {
    pub itt: u32,
    pub reads: bool,
    pub writes: bool,
    pub expected_len: u32,
    /// Number of R2Ts sent for it, which count in ExpDataSN.
    pub pdus_before: u32,
}

/// Residual flags and count (11.4.5).
type Residual = (u8, u32);

/// The residual of a transfer for which the command had `wanted` bytes and the initiator expected `expected`.
fn residual(wanted: u64, expected: u32) -> Residual {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    match wanted.cmp(&expected.into()) {
        std::cmp::Ordering::Greater => (ScsiResponse::OVERFLOW, count(wanted - u64::from(expected))),
        std::cmp::Ordering::Less => (ScsiResponse::UNDERFLOW, count(u64::from(expected) - wanted)),
        std::cmp::Ordering::Equal => (0, 0),
    }
}

impl Answer {
    /// Appends the PDUs that end the command.
    pub(crate) fn push(&self, response: Response, out: &mut Outgoing, window: &Window, params: &Params) {
        let Response { status, sense, mut data_in, data_in_wanted, data_out_wanted, .. } = response;
        let wanted = if self.writes {
            data_out_wanted
        } else if self.reads {
            data_in_wanted
        } else {
            // Neither R nor W: the initiator has no buffer and sends nothing.
            data_out_wanted.max(data_in_wanted)
        };
        let residual = residual(wanted, self.expected_len);
        let room = if self.reads { self.expected_len as usize } else { 0 };
        data_in.truncate(room);
        let mut sent = self.pdus_before;
        if !data_in.is_empty() {
            // The status is in the last Data-In if there is no sense data (11.7.3).
            let status_in_data = status == Status::Good;
            sent += self.push_data(data_in, status_in_data.then_some(residual), out, window, params);
            if status_in_data {
                return;
            }
        }
        self.push_status(status, &sense, residual, sent, out, window);
    }

    /// Appends the data, with the residual if the last PDU carries the status. Returns the number of PDUs.
    fn push_data(
        &self,
        data: Pieces,
        last: Option<Residual>,
        out: &mut Outgoing,
        window: &Window,
        params: &Params,
    ) -> u32 {
        let (len, segment) = (data.len(), params.send_segment_len_max as usize);
        let burst = params.max_burst_len as usize;
        if len <= segment.min(burst) {
            self.push_segment(data, 0, 0, (true, last), out, window);
            return 1;
        }
        let (mut at, mut data_sn, mut burst_left) = (0, 0, burst);
        let mut rest = data.parts();
        while at < len {
            let n = segment.min(burst_left).min(len - at);
            let is_end = at + n == len;
            burst_left -= n;
            let ends_burst = is_end || burst_left == 0;
            self.push_segment(rest.next(n), at, data_sn, (ends_burst, last.filter(|_| is_end)), out, window);
            if burst_left == 0 {
                burst_left = burst;
            }
            at += n;
            data_sn += 1;
        }
        data_sn
    }

    fn push_segment(
        &self,
        data: Pieces,
        offset: usize,
        data_sn: u32,
        (is_final, status): (bool, Option<Residual>),
        out: &mut Outgoing,
        window: &Window,
    ) {
        let mut header = DataIn {
            opcode: DataIn::OPCODE,
            flags: if is_final { FINAL } else { 0 },
            data_len: Len24::new(data.len() as u32),
            itt: self.itt.into(),
            ttt: TAG_NONE.into(),
            exp_cmd_sn: window.exp_cmd_sn.into(),
            max_cmd_sn: window.max_cmd_sn.into(),
            data_sn: data_sn.into(),
            offset: (offset as u32).into(),
            ..DataIn::default()
        };
        if let Some((flags, residual)) = status {
            header.flags |= DataIn::STATUS | flags;
            header.status = Status::Good as u8;
            header.stat_sn = out.next_stat_sn().into();
            header.residual = residual.into();
        }
        out.push_pieces(header.bytes(), data);
    }

    fn push_status(
        &self,
        status: Status,
        sense: &[u8],
        residual: Residual,
        sent: u32,
        out: &mut Outgoing,
        window: &Window,
    ) {
        let header = ScsiResponse {
            opcode: ScsiResponse::OPCODE,
            flags: FINAL | residual.0,
            status: status as u8,
            itt: self.itt.into(),
            stat_sn: out.next_stat_sn().into(),
            exp_cmd_sn: window.exp_cmd_sn.into(),
            max_cmd_sn: window.max_cmd_sn.into(),
            exp_data_sn: sent.into(),
            residual: residual.1.into(),
            ..ScsiResponse::default()
        };
        if sense.is_empty() {
            return out.push(header.bytes());
        }
        // 11.4.7: the sense data with its length; SPC-5 limits it to 252 bytes.
        let len = sense.len().min(252);
        let mut segment = [0u8; 2 + 252];
        segment[..2].copy_from_slice(&(len as u16).to_be_bytes());
        segment[2..2 + len].copy_from_slice(&sense[..len]);
        out.push_small(header.bytes(), &segment[..2 + len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Framing;

    const PARAMS: Params = Params {
        header_digest: false,
        data_digest: false,
        initial_r2t: false,
        immediate_data: true,
        recv_segment_len_max: 8192,
        send_segment_len_max: 1000,
        max_burst_len: 2500,
        first_burst_len: 2500,
        max_outstanding_r2t: 1,
        time2wait_s: 0,
        time2retain_s: 0,
    };

    fn good(data_in: usize, data_out_wanted: u64) -> Response {
        Response::good(Pieces::copy_of(&vec![7u8; data_in]), data_out_wanted)
    }

    /// The PDUs of an answer: opcode, flags, data length, DataSN, offset, residual.
    fn check(answer: Answer, response: Response, want: &[(u8, u8, usize, u32, u32, u32)]) {
        let mut out = Outgoing::new(1);
        answer.push(response, &mut out, &Window { exp_cmd_sn: 1, max_cmd_sn: 2 }, &PARAMS);
        let mut bytes = Vec::new();
        for piece in &out.batch.pieces {
            match piece {
                world::Piece::Head { from, len } => bytes.extend(&out.batch.heads[*from..*from + *len]),
                world::Piece::Data(data) => bytes.extend(&data[..]),
            }
        }
        let framing = Framing { header_digest: false, data_digest: false, data_len_max: 8192 };
        let mut got = Vec::new();
        while let Some(layout) = framing.layout(&bytes).unwrap() {
            let (pdu, _) = framing.pdu(&bytes, layout);
            let h: &DataIn = pdu.header();
            let number = |n: usize| u32::from_be_bytes(pdu.bhs[n..n + 4].try_into().unwrap());
            got.push((pdu.opcode(), h.flags, pdu.data.len(), number(36), number(40), number(44)));
            bytes.drain(..layout.total_len);
        }
        assert_eq!(got, want);
    }

    fn read(expected_len: u32) -> Answer {
        Answer { itt: 1, reads: true, writes: false, expected_len, pdus_before: 0 }
    }

    #[test]
    fn reads() {
        check(read(512), good(512, 0), &[(0x25, 0x81, 512, 0, 0, 0)]);
        check(read(512), good(1024, 0), &[(0x25, 0x85, 512, 0, 0, 512)]);
        check(read(600), good(512, 0), &[(0x25, 0x83, 512, 0, 0, 88)]);
        check(read(0), good(512, 0), &[(0x21, 0x84, 0, 0, 0, 512)]);
        check(read(512), good(0, 0), &[(0x21, 0x82, 0, 0, 0, 512)]);
        // A READ of eight blocks, of which one was read for this initiator, or none.
        let cut = |len| Response { data_in_wanted: 4096, ..good(len, 0) };
        check(read(100), cut(512), &[(0x25, 0x85, 100, 0, 0, 3996)]);
        check(read(0), cut(0), &[(0x21, 0x84, 0, 0, 0, 4096)]);
        // Bursts of 2,500 in segments of 1,000.
        let segments = [
            (0x25, 0, 1000, 0, 0, 0),
            (0x25, 0, 1000, 1, 1000, 0),
            (0x25, 0x80, 500, 2, 2000, 0),
            (0x25, 0x81, 600, 3, 2500, 0),
        ];
        check(read(3100), good(3100, 0), &segments);
        let failed = Response { status: Status::CheckCondition, sense: vec![0x70; 18], ..good(512, 0) };
        check(read(512), failed, &[(0x25, 0x80, 512, 0, 0, 0), (0x21, 0x80, 20, 1, 0, 0)]);
    }

    #[test]
    fn writes() {
        let write =
            |expected_len| Answer { itt: 1, reads: false, writes: true, expected_len, pdus_before: 3 };
        check(write(512), good(0, 512), &[(0x21, 0x80, 0, 3, 0, 0)]);
        check(write(10_000), good(0, 512), &[(0x21, 0x82, 0, 3, 0, 9488)]);
        check(write(200), good(0, 512), &[(0x21, 0x84, 0, 3, 0, 312)]);
        // A read that was sent as a write returns no data.
        check(write(512), good(512, 0), &[(0x21, 0x82, 0, 3, 0, 512)]);
        let neither = Answer { itt: 1, reads: false, writes: false, expected_len: 0, pdus_before: 0 };
        check(neither, good(512, 0), &[(0x21, 0x84, 0, 0, 0, 512)]);
    }
}
