//! The initiator of the session target: it sends what it is told, right or wrong, and checks all that comes
//! back.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use iscsi::pdu::{
    BHS_LEN, DataIn, DataOut, FINAL, Header, IMMEDIATE, LoginRequest, LogoutRequest, NopOut, R2t,
    ScsiCommand, TAG_NONE, TaskRequest, TextRequest, opcode,
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use world::{Batch, Buf, Stream, StreamOptions, World};

/// The longest data segment that is sent: as much as a portal takes.
const SEGMENT_LEN_MAX: usize = 256 << 10;
/// Transit from the operational stage to the full feature phase (RFC 7143 11.12.3).
const OPERATIONAL_TO_FULL: u8 = 0x87;

/// What came back.
pub(crate) struct Seen {
    /// The connection is at its end.
    pub(crate) has_ended: bool,
    /// The MaxRecvDataSegmentLength that was declared.
    pub(crate) segment_len_max: usize,
    /// R2Ts that were not answered.
    pub(crate) r2ts: Vec<R2t>,
    /// Commands that ended with GOOD.
    pub(crate) good: u64,
    /// Bytes of Data-In.
    pub(crate) data_len: usize,
    stat_sn: Option<u32>,
    max_cmd_sn: Option<u32>,
}

/// One end of a connection.
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    pub(crate) seen: Rc<RefCell<Seen>>,
    /// Whether what comes back is received.
    pub(crate) reads: Rc<Cell<bool>>,
    /// TARGET COLD RESET was sent: it ends the sessions of all hosts (RFC 7143 11.5.1).
    pub(crate) has_reset_all: bool,
    cmd_sn: u32,
    itt: u32,
}

impl Peer {
    pub(crate) async fn connect(world: &World, addr: SocketAddr) -> Peer {
        let stream = world.connect(addr, StreamOptions::default()).await.expect("the portal accepts");
        let seen = Seen {
            has_ended: false,
            segment_len_max: 8192,
            r2ts: Vec::new(),
            good: 0,
            data_len: 0,
            stat_sn: None,
            max_cmd_sn: None,
        };
        let (seen, reads) = (Rc::new(RefCell::new(seen)), Rc::new(Cell::new(true)));
        world.spawn(receive(world.clone(), stream.clone(), seen.clone(), reads.clone()));
        Peer { stream, seen, reads, has_reset_all: false, cmd_sn: 1, itt: 1 }
    }

    async fn send(&mut self, bytes: &[u8]) {
        let mut batch = Batch::default();
        batch.push_head(bytes);
        if self.stream.send(batch).await.result.is_err() {
            self.seen.borrow_mut().has_ended = true;
        }
    }

    async fn send_pdu(&mut self, header: &impl Header, data: &[u8]) {
        let mut bytes = [header.bytes(), data].concat();
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.send(&bytes).await;
    }

    pub(crate) async fn log_in(&mut self, text: &[u8]) {
        let header = LoginRequest {
            opcode: LoginRequest::OPCODE | IMMEDIATE,
            flags: OPERATIONAL_TO_FULL,
            isid: [0, 2, 3, 4, 5, 6],
            itt: 1.into(),
            cmd_sn: self.cmd_sn.into(),
            ..LoginRequest::default()
        };
        self.send_pdu(&header, text).await;
    }

    /// READ(10) of eight blocks.
    pub(crate) async fn read_blocks(&mut self) {
        let cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        let header = self.command_header(0, FINAL | ScsiCommand::READ, 4096, cdb);
        self.send_pdu(&header, &[]).await;
    }

    fn command_header(&mut self, lun: u8, flags: u8, expected_len: u32, cdb: [u8; 16]) -> ScsiCommand {
        self.itt = self.itt.wrapping_add(1);
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        ScsiCommand {
            opcode: ScsiCommand::OPCODE,
            flags,
            lun: [0, lun, 0, 0, 0, 0, 0, 0],
            itt: self.itt.into(),
            expected_len: expected_len.into(),
            cmd_sn: cmd_sn.into(),
            cdb,
            ..ScsiCommand::default()
        }
    }

    /// A command of the table, or any bytes; the length that is expected and the immediate data are right, or
    /// not.
    pub(crate) async fn command(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let cdb = cdb(u)?;
        let expected_len = match u.int_in_range(0..=7)? {
            0 => u.arbitrary()?,
            1 => u.int_in_range(0..=1 << 20)?,
            n => 512 << n,
        };
        let flags = match u.int_in_range(0..=7)? {
            0 => u.arbitrary()?,
            n if n & 1 == 0 => FINAL | ScsiCommand::READ,
            3 => ScsiCommand::WRITE,
            _ => FINAL | ScsiCommand::WRITE,
        };
        let mut header = self.command_header(u.int_in_range(0..=3)?, flags, expected_len, cdb);
        let len = match u.int_in_range(0..=3)? {
            0 => u.int_in_range(0..=65_536)?,
            1 => expected_len.min(4096),
            _ => 0,
        };
        if u.ratio(1, 8)? {
            self.spoil(u, &mut header)?;
        }
        self.send_pdu(&header, &vec![0x5a; len as usize]).await;
        Ok(())
    }

    /// A number that is not the next one, a tag that is in use, an immediate command.
    fn spoil(&mut self, u: &mut Unstructured, header: &mut ScsiCommand) -> Result<()> {
        match u.int_in_range(0..=3)? {
            0 => header.cmd_sn = self.cmd_sn.wrapping_add(u.int_in_range(0..=200)?).into(),
            1 => header.itt = u.int_in_range(0..=self.itt.min(64))?.into(),
            2 => header.lun = u.arbitrary()?,
            _ => {
                header.opcode |= IMMEDIATE;
                self.cmd_sn = self.cmd_sn.wrapping_sub(1);
                header.cmd_sn = self.cmd_sn.into();
            }
        }
        Ok(())
    }

    /// The data that an R2T asks for, whole and in order, or not.
    pub(crate) async fn answer_r2t(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(r2t) = self.seen.borrow_mut().r2ts.pop() else { return Ok(()) };
        let segment_len = *u.choose(&[512, 8192, 65_536, SEGMENT_LEN_MAX])?;
        let damage: u8 = u.arbitrary()?;
        let end = r2t.desired_len.get() as usize;
        let (mut at, mut data_sn) = (0, 0);
        while at < end && data_sn < 64 {
            let len = segment_len.min(end - at);
            let is_final = at + len == end;
            let mut header = DataOut {
                opcode: DataOut::OPCODE,
                flags: if is_final { FINAL } else { 0 },
                lun: r2t.lun,
                itt: r2t.itt,
                ttt: r2t.ttt,
                data_sn: data_sn.into(),
                offset: (r2t.offset.get() + at as u32).into(),
                ..DataOut::default()
            };
            match damage {
                1 => header.data_sn = (data_sn + 1).into(),
                2 => header.offset = u.arbitrary::<u32>()?.into(),
                3 => header.flags ^= FINAL,
                4 => header.ttt = (r2t.ttt.get() ^ 1 << u.int_in_range(0..=31)?).into(),
                5 => header.itt = u.arbitrary::<u32>()?.into(),
                6 => return Ok(()),
                _ => {}
            }
            self.send_pdu(&header, &vec![0x33; len]).await;
            (at, data_sn) = (at + len, data_sn + 1);
        }
        Ok(())
    }

    /// Data that nobody asked for.
    pub(crate) async fn data_out(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let header = DataOut {
            opcode: DataOut::OPCODE,
            flags: u.arbitrary::<u8>()? & FINAL,
            itt: self.itt.wrapping_sub(u.int_in_range(0..=2)?).into(),
            ttt: if u.ratio(1, 4)? { u.arbitrary()? } else { TAG_NONE }.into(),
            data_sn: u.int_in_range(0..=1)?.into(),
            offset: (512 * u.int_in_range(0..=16u32)?).into(),
            ..DataOut::default()
        };
        let len: usize = u.int_in_range(0..=16_384)?;
        self.send_pdu(&header, &vec![0xcc; len]).await;
        Ok(())
    }

    pub(crate) async fn nop(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let is_immediate: bool = u.arbitrary()?;
        let header = NopOut {
            opcode: NopOut::OPCODE | if is_immediate { IMMEDIATE } else { 0 },
            flags: FINAL,
            itt: if u.arbitrary()? { self.itt } else { TAG_NONE }.into(),
            ttt: if u.ratio(1, 4)? { u.arbitrary()? } else { TAG_NONE }.into(),
            cmd_sn: self.cmd_sn.into(),
            ..NopOut::default()
        };
        self.cmd_sn = self.cmd_sn.wrapping_add(u32::from(!is_immediate));
        let len: usize = u.int_in_range(0..=9000)?;
        self.send_pdu(&header, &vec![1; len]).await;
        Ok(())
    }

    pub(crate) async fn task_management(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let function = u.int_in_range(0..=9)?;
        self.has_reset_all |= function == iscsi::pdu::function::TARGET_COLD_RESET;
        let header = TaskRequest {
            opcode: TaskRequest::OPCODE | IMMEDIATE,
            function: FINAL | function,
            lun: [0, u.int_in_range(0..=3)?, 0, 0, 0, 0, 0, 0],
            itt: self.itt.wrapping_add(0x1000).into(),
            referenced_task: self.itt.wrapping_sub(u.int_in_range(0..=4)?).into(),
            cmd_sn: self.cmd_sn.into(),
            ref_cmd_sn: self.cmd_sn.wrapping_sub(u.int_in_range(0..=4)?).into(),
            ..TaskRequest::default()
        };
        self.send_pdu(&header, &[]).await;
        Ok(())
    }

    pub(crate) async fn text(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let header = TextRequest {
            opcode: TextRequest::OPCODE | IMMEDIATE,
            flags: *u.choose(&[FINAL, FINAL, 0x40, 0, 0xc0])?,
            itt: self.itt.into(),
            ttt: if u.ratio(1, 3)? { u.int_in_range(0..=3)? } else { TAG_NONE }.into(),
            cmd_sn: self.cmd_sn.into(),
            ..TextRequest::default()
        };
        let texts: [&[u8]; 4] = [
            b"SendTargets=All\0",
            b"SendTargets=\0",
            b"MaxRecvDataSegmentLength=512\0",
            b"SendTargets=iqn.2026-11",
        ];
        let text = match u.int_in_range(0..=4)? {
            4 => u.arbitrary::<[u8; 16]>()?.to_vec(),
            n => texts[n].to_vec(),
        };
        // Declared again, the length of what comes back may be any of the two for a while: the larger one is
        // checked.
        self.send_pdu(&header, &text).await;
        Ok(())
    }

    pub(crate) async fn logout(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let header = LogoutRequest {
            opcode: LogoutRequest::OPCODE | IMMEDIATE,
            reason: FINAL | u.int_in_range(0..=3)?,
            cid: u.int_in_range(0..=1)?.into(),
            itt: self.itt.into(),
            cmd_sn: self.cmd_sn.into(),
            ..LogoutRequest::default()
        };
        self.send_pdu(&header, &[]).await;
        Ok(())
    }

    /// Any header with lengths that are believable, or bytes without any order.
    pub(crate) async fn other(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let mut bytes: [u8; BHS_LEN] = u.arbitrary()?;
        let rest = u.bytes(u.len().min(64))?.to_vec();
        if u.arbitrary()? {
            (bytes[4], bytes[5], bytes[6], bytes[7]) = ((rest.len() / 8) as u8, 0, 0, (rest.len() / 2) as u8);
            bytes[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
        }
        self.send(&[&bytes[..], &rest].concat()).await;
        Ok(())
    }
}

/// A command of the table over a few blocks, with some bits of what it looks at, or any bytes.
fn cdb(u: &mut Unstructured) -> Result<[u8; 16]> {
    let small = u.int_in_range(0..=32u8)?;
    Ok(match u.int_in_range(0..=7)? {
        0 => u.arbitrary()?,
        1 | 2 => [0x28, 0, 0, 0, 0, 0, 0, 0, small, 0, 0, 0, 0, 0, 0, 0],
        3 | 4 => [0x2a, 0, 0, 0, 0, small, 0, 0, small, 0, 0, 0, 0, 0, 0, 0],
        5 => [0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, small, 0, 0],
        _ => {
            let command = u.choose(scsi::opcode::TABLE)?;
            let bits: [u8; 16] = u.arbitrary()?;
            let mut cdb: [u8; 16] = std::array::from_fn(|i| command.usage[i] & bits[i]);
            cdb[0] = command.opcode;
            cdb[1] |= command.service_action.unwrap_or(0);
            cdb
        }
    })
}

/// Receives until the end and checks every PDU.
async fn receive(world: World, stream: Stream, seen: Rc<RefCell<Seen>>, reads: Rc<Cell<bool>>) {
    let mut bytes = Vec::new();
    loop {
        while !reads.get() && !seen.borrow().has_ended {
            world.sleep(Duration::from_secs(10)).await;
        }
        let received = stream.recv(Buf::new(65_536), 0).await;
        match received.result {
            Ok(n) if n > 0 => bytes.extend_from_slice(&received.buf[..n]),
            _ => break,
        }
        while let Some(len) = whole_pdu(&bytes) {
            check(&mut seen.borrow_mut(), &bytes[..len]);
            bytes.drain(..len);
        }
    }
    seen.borrow_mut().has_ended = true;
}

/// Length of the PDU at the front, padding included, when it is there whole.
fn whole_pdu(bytes: &[u8]) -> Option<usize> {
    let bhs: &[u8; BHS_LEN] = bytes.first_chunk()?;
    assert_eq!(bhs[4], 0, "additional header segments from a target");
    let len = BHS_LEN + u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]).next_multiple_of(4) as usize;
    (bytes.len() >= len).then_some(len)
}

/// What holds for every PDU of a target (RFC 7143 11.2 and 4.2.2).
fn check(seen: &mut Seen, pdu: &[u8]) {
    let bhs: &[u8; BHS_LEN] = pdu.first_chunk().expect("a whole PDU");
    let data_in = DataIn::of(bhs);
    let (kind, data_len) = (bhs[0], data_in.data_len.get() as usize);
    assert!(matches!(kind, 0x20..=0x26 | 0x31 | 0x32 | 0x3f), "a target sent opcode {kind:02x}");
    assert!(data_len <= seen.segment_len_max.max(8192), "{data_len} bytes of data in opcode {kind:02x}");
    let has_status = match kind {
        opcode::DATA_IN => bhs[1] & DataIn::STATUS != 0,
        opcode::R2T => false,
        opcode::NOP_IN => data_in.itt.get() != TAG_NONE,
        _ => true,
    };
    if has_status {
        let stat_sn = data_in.stat_sn.get();
        assert!(
            seen.stat_sn.is_none_or(|last| stat_sn == last.wrapping_add(1)),
            "StatSN {stat_sn} in opcode {kind:02x}"
        );
        seen.stat_sn = Some(stat_sn);
    }
    let max = data_in.max_cmd_sn.get();
    assert!(
        seen.max_cmd_sn.is_none_or(|last| max.wrapping_sub(last) < 1 << 31),
        "MaxCmdSN went back to {max}"
    );
    seen.max_cmd_sn = Some(max);
    match kind {
        opcode::R2T => {
            let r2t = R2t::of(bhs);
            assert!(r2t.desired_len.get() > 0 && r2t.ttt.get() != TAG_NONE);
            seen.r2ts.push(*r2t);
        }
        opcode::DATA_IN => {
            seen.data_len += data_len;
            seen.good += u64::from(has_status && bhs[3] == 0);
        }
        opcode::SCSI_RESPONSE => seen.good += u64::from(bhs[2] == 0 && bhs[3] == 0),
        _ => {}
    }
}
