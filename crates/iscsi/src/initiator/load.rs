//! A load loop with minimal cost, so that a measurement shows the target and not the client: one task, one
//! request and one response per read, data left in the receive buffer.

use scsi::Lun;
use world::{Batch, Instant, TcpCounts, World};

use super::command::lun_field;
use super::connect::{Connected, Error, connect};
use super::options::Options;
use crate::digest::digest;
use crate::pdu::{
    BHS_LEN, DataIn, FINAL, Header, IMMEDIATE, NopIn, NopOut, R2t, ScsiCommand, ScsiResponse, TAG_NONE,
    opcode,
};
use crate::serial::before;

/// The receive buffer: one receive returns 32 responses of 4,144 bytes.
const BUFFER_LEN: usize = 256 << 10;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The LU.
    pub lun: Lun,
    /// The first block.
    pub lba: u64,
    /// Number of blocks; with the block length, the length of the data.
    pub blocks: u32,
    /// Length of a block in bytes.
    pub block_bytes: u32,
}

/// A completed read.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Completed {
    pub read: Read,
    /// SCSI status.
    pub status: u8,
    /// When its batch was submitted.
    pub submitted_at: Instant,
    /// When its response was received.
    pub completed_at: Instant,
}

/// Counters of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads that ended with GOOD.
    pub reads: u64,
    /// Reads that ended with another status.
    pub failed: u64,
    /// Bytes of data received.
    pub data_bytes: u64,
    /// Counters of the kernel.
    pub tcp: TcpCounts,
}

struct InFlight {
    read: Read,
    submitted_at: Instant,
}

struct Load<N, D> {
    next: N,
    done: D,
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    header_digest: bool,
    cmd_sn: u32,
    max_cmd_sn: u32,
    exp_stat_sn: u32,
    batch: Batch,
    totals: Totals,
    has_more: bool,
}

/// Logs in and keeps `depth` reads in flight: `next` returns them, until it returns `None`; `done` is called
/// with the end of each. Data digests are not verified.
pub async fn read(
    world: &World,
    options: &Options,
    depth: u16,
    next: impl FnMut() -> Option<Read>,
    done: impl FnMut(Completed),
) -> Result<Totals, Error> {
    let connected = connect(world, options).await?;
    let mut load = Load {
        next,
        done,
        slots: (0..depth).map(|_| None).collect(),
        free: (0..u32::from(depth)).collect(),
        header_digest: connected.params.header_digest,
        cmd_sn: connected.cmd_sn,
        max_cmd_sn: connected.max_cmd_sn,
        exp_stat_sn: connected.exp_stat_sn,
        batch: Batch::default(),
        totals: Totals::default(),
        has_more: true,
    };
    load.run(world, connected).await?;
    Ok(load.totals)
}

impl<N: FnMut() -> Option<Read>, D: FnMut(Completed)> Load<N, D> {
    async fn run(&mut self, world: &World, connected: Connected) -> Result<(), Error> {
        let stream = connected.receiver.stream.clone();
        let framing = connected.receiver.framing;
        let mut buf = world::Buf::new(BUFFER_LEN);
        let mut held = connected.receiver.bytes().len();
        buf[..held].copy_from_slice(connected.receiver.bytes());
        // Remaining bytes of the current PDU, which are skipped.
        let mut skip = 0usize;
        let mut spare = Some(Batch::default());
        loop {
            self.submit(world.now());
            if self.free.len() == self.slots.len() && !self.has_more {
                self.totals.tcp = stream.tcp_counts();
                stream.close();
                return Ok(());
            }
            let receive = stream.recv(buf, held);
            let mut sending = None;
            if !self.batch.is_empty() {
                let empty = spare.take().unwrap_or_default();
                sending = Some(stream.send(std::mem::replace(&mut self.batch, empty)));
            }
            let received = receive.await;
            buf = received.buf;
            let n = received.result?;
            if n == 0 {
                return Err(crate::receive::ReceiveError::Closed.into());
            }
            if let Some(sending) = sending {
                let sent = sending.await;
                sent.result?;
                spare = Some(sent.batch);
            }
            let (now, end) = (world.now(), held + n);
            let mut at = 0;
            loop {
                let step = skip.min(end - at);
                (at, skip) = (at + step, skip - step);
                if skip > 0 {
                    break;
                }
                let Some(bhs) = buf[at..end].first_chunk::<BHS_LEN>() else { break };
                // Only headers are parsed, so a PDU need not be complete.
                let layout =
                    match framing.layout(&buf[at..end]).map_err(crate::receive::ReceiveError::from)? {
                        Some(layout) => layout,
                        None => break,
                    };
                self.answer(bhs, now)?;
                skip = layout.total_len;
            }
            buf.copy_within(at..end, 0);
            held = end - at;
        }
    }

    /// Appends requests for all free tags, as far as the window allows.
    fn submit(&mut self, now: Instant) {
        while self.has_more && !before(self.max_cmd_sn, self.cmd_sn) {
            let Some(tag) = self.free.pop() else { return };
            let Some(read) = (self.next)() else {
                self.free.push(tag);
                self.has_more = false;
                return;
            };
            let header = ScsiCommand {
                opcode: opcode::SCSI_COMMAND,
                flags: FINAL | ScsiCommand::READ,
                lun: lun_field(read.lun),
                itt: tag.into(),
                expected_len: (read.blocks * read.block_bytes).into(),
                cmd_sn: self.cmd_sn.into(),
                exp_stat_sn: self.exp_stat_sn.into(),
                cdb: cdb(read),
                ..ScsiCommand::default()
            };
            self.cmd_sn = self.cmd_sn.wrapping_add(1);
            self.push(header.bytes());
            self.slots[tag as usize] = Some(InFlight { read, submitted_at: now });
        }
    }

    fn push(&mut self, header: &[u8; BHS_LEN]) {
        self.batch.push_head(header);
        if self.header_digest {
            self.batch.push_head(&digest(header));
        }
    }

    fn answer(&mut self, bhs: &[u8; BHS_LEN], now: Instant) -> Result<(), Error> {
        // MaxCmdSN is at the same offset in every PDU of a target.
        let max_cmd_sn = NopIn::of(bhs).max_cmd_sn.get();
        if before(self.max_cmd_sn, max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
        match bhs[0] {
            opcode::DATA_IN => {
                let header = DataIn::of(bhs);
                self.totals.data_bytes += u64::from(header.data_len.get());
                if header.flags & DataIn::STATUS != 0 {
                    self.exp_stat_sn = header.stat_sn.get().wrapping_add(1);
                    self.complete(header.itt.get(), header.status, now)?;
                }
                Ok(())
            }
            opcode::SCSI_RESPONSE => {
                let header = ScsiResponse::of(bhs);
                self.exp_stat_sn = header.stat_sn.get().wrapping_add(1);
                self.complete(header.itt.get(), header.status, now)
            }
            opcode::NOP_IN => {
                let header = NopIn::of(bhs);
                if header.ttt.get() != TAG_NONE {
                    let answer = NopOut {
                        opcode: IMMEDIATE | opcode::NOP_OUT,
                        flags: FINAL,
                        itt: TAG_NONE.into(),
                        ttt: header.ttt,
                        cmd_sn: self.cmd_sn.into(),
                        exp_stat_sn: self.exp_stat_sn.into(),
                        ..NopOut::default()
                    };
                    self.push(answer.bytes());
                }
                Ok(())
            }
            opcode::ASYNC_MESSAGE => Ok(()),
            R2t::OPCODE => Err(Error::Protocol("an R2T for a read".into())),
            other => Err(Error::Protocol(format!("opcode {other:02x}h in response to reads"))),
        }
    }

    fn complete(&mut self, tag: u32, status: u8, now: Instant) -> Result<(), Error> {
        let slot = self.slots.get_mut(tag as usize).and_then(Option::take);
        let Some(InFlight { read, submitted_at }) = slot else {
            return Err(Error::Protocol("a response with an unknown task tag".into()));
        };
        self.free.push(tag);
        match status {
            0 => self.totals.reads += 1,
            _ => self.totals.failed += 1,
        }
        (self.done)(Completed { read, status, submitted_at, completed_at: now });
        Ok(())
    }
}

/// READ(10), or READ(16) where READ(10) does not reach (SBC-4 5.17, 5.19).
fn cdb(read: Read) -> [u8; 16] {
    let mut cdb = [0u8; 16];
    match (u32::try_from(read.lba), u16::try_from(read.blocks)) {
        (Ok(lba), Ok(blocks)) => {
            cdb[0] = 0x28;
            cdb[2..6].copy_from_slice(&lba.to_be_bytes());
            cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
        }
        _ => {
            cdb[0] = 0x88;
            cdb[2..10].copy_from_slice(&read.lba.to_be_bytes());
            cdb[10..14].copy_from_slice(&read.blocks.to_be_bytes());
        }
    }
    cdb
}
