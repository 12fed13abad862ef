//! A LU as a host uses it: commands with their outcomes, unit attentions noticed and the command repeated, as
//! disk drivers do.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Done, Error as SessionError};
use scsi::{Lun, Status};
use world::{Data, World};

use super::cdb::{self, Cdb};
use super::connection::Connection;
use super::identify::{self, Answers};
use super::plan::{Capabilities, Segment};

/// How often a command is sent again after unit attentions or BUSY before the host gives up.
const TRIES_MAX: u32 = 100;
/// Wait after BUSY or TASK SET FULL.
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// Sense data in short: key and additional code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: u8,
    /// Additional sense code and qualifier.
    pub asc: u16,
}

/// 38h/07h: the pool's soft threshold was crossed.
pub const THRESHOLD_REACHED: u16 = 0x3807;
/// 27h/07h: space allocation failed, write protected.
pub const OUT_OF_SPACE: Sense = Sense { key: 0x7, asc: 0x2707 };
const GOOD: u8 = Status::Good as u8;
const CHECK_CONDITION: u8 = Status::CheckCondition as u8;
const BUSY: u8 = Status::Busy as u8;
const CONFLICT: u8 = Status::ReservationConflict as u8;
const TASK_SET_FULL: u8 = Status::TaskSetFull as u8;
const UNIT_ATTENTION: u8 = 0x6;
const MISCOMPARE: u8 = 0xe;
const ILLEGAL_REQUEST: u8 = 0x5;
/// LOGICAL UNIT NOT SUPPORTED.
const NO_SUCH_LU: u16 = 0x2500;

/// Why a command did not end with GOOD.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum DiskError {
    /// The session is broken.
    #[error("{what}: {cause}")]
    Session { what: &'static str, cause: SessionError },
    /// Another nexus holds the LU.
    #[error("{what}: reservation conflict")]
    Conflict { what: &'static str },
    /// CHECK CONDITION.
    #[error("{what}: sense {:x}h/{:02x}h/{:02x}h", sense.key, sense.asc >> 8, sense.asc & 0xff)]
    Check { what: &'static str, sense: Sense },
    /// 25h/00h to the first command.
    #[error("the target has no LU {} for this initiator: name a LUN that it maps, as in iscsi://HOST/IQN/LUN", lun.0)]
    Missing { lun: Lun },
    /// Another status.
    #[error("{what}: status {status:02x}h")]
    Other { what: &'static str, status: u8 },
    /// The answer is too short.
    #[error("{what}: {got} bytes came of {wanted}")]
    Short { what: &'static str, got: usize, wanted: usize },
}

impl DiskError {
    /// Whether the LU does not know the command, or not so.
    pub fn is_refusal(&self) -> bool {
        self.sense().is_some_and(|s| s.key == ILLEGAL_REQUEST)
    }

    /// The sense data, if that is what came.
    pub fn sense(&self) -> Option<Sense> {
        match self {
            DiskError::Check { sense, .. } => Some(*sense),
            _ => None,
        }
    }
}

/// What a host has noticed about a LU.
#[derive(Clone, Debug, Default)]
pub struct Noticed {
    /// Unit attention codes in the order in which they came.
    pub attentions: Vec<u16>,
}

/// One LU of one connection; clones are the same.
#[derive(Clone)]
pub struct Disk {
    world: World,
    connection: Connection,
    lun: Lun,
    block_bytes: u32,
    noticed: Rc<RefCell<Noticed>>,
}

impl Disk {
    /// The LU of that number, asked for its block length.
    pub async fn open(world: World, connection: impl Into<Connection>, lun: Lun) -> Result<Disk, DiskError> {
        let connection = connection.into();
        let mut disk = Disk { world, connection, lun, block_bytes: 512, noticed: Rc::default() };
        let data = disk.ask("READ CAPACITY(16)", cdb::read_capacity(), 32).await;
        let data = data.map_err(|error| match error.sense() {
            Some(Sense { key: ILLEGAL_REQUEST, asc: NO_SUCH_LU }) => DiskError::Missing { lun },
            _ => error,
        })?;
        let (_, block) = identify::capacity(&data).ok_or(DiskError::Short {
            what: "READ CAPACITY(16)",
            got: data.len(),
            wanted: 12,
        })?;
        disk.block_bytes = block;
        Ok(disk)
    }

    /// The world that the host lives in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Takes what was noticed since the last call.
    pub fn take_noticed(&self) -> Noticed {
        std::mem::take(&mut self.noticed.borrow_mut())
    }

    fn lba(&self, at: u64) -> u64 {
        debug_assert!(at.is_multiple_of(self.block_bytes.into()));
        at / u64::from(self.block_bytes)
    }

    fn blocks(&self, len: u64) -> u32 {
        (len / u64::from(self.block_bytes)) as u32
    }

    /// One command; unit attentions are noted and the command sent again, as is one that met a busy LU.
    async fn command(
        &self,
        what: &'static str,
        cdb: Cdb,
        data_out: Pieces,
        in_len: u32,
    ) -> Result<Done, DiskError> {
        for _ in 0..TRIES_MAX {
            let sent = self.connection.command(self.lun, cdb, data_out.clone(), in_len).await;
            let outcome = sent.map_err(|cause| DiskError::Session { what, cause })?;
            match outcome.status {
                GOOD => return Ok(outcome),
                CONFLICT => return Err(DiskError::Conflict { what }),
                BUSY | TASK_SET_FULL => self.world.sleep(BUSY_WAIT).await,
                CHECK_CONDITION => {
                    let (key, code, qualifier) = outcome.sense_codes().unwrap_or_default();
                    let sense = Sense { key, asc: u16::from_be_bytes([code, qualifier]) };
                    if sense.key != UNIT_ATTENTION {
                        return Err(DiskError::Check { what, sense });
                    }
                    self.noticed.borrow_mut().attentions.push(sense.asc);
                }
                status => return Err(DiskError::Other { what, status }),
            }
        }
        Err(DiskError::Other { what, status: BUSY })
    }

    async fn ask(&self, what: &'static str, cdb: Cdb, len: u32) -> Result<Vec<u8>, DiskError> {
        let outcome = self.command(what, cdb, Pieces::new(), len).await?;
        Ok(outcome.data_in.joined().to_vec())
    }

    /// A page or report that a LU need not have: empty when it refuses.
    async fn ask_optional(&self, what: &'static str, cdb: Cdb, len: u32) -> Result<Vec<u8>, DiskError> {
        match self.ask(what, cdb, len).await {
            Err(error) if error.is_refusal() => Ok(Vec::new()),
            other => other,
        }
    }

    /// What the LU can do, asked as a host asks before it leaves work to the array.
    pub async fn capabilities(&self) -> Result<Capabilities, DiskError> {
        let what = "READ CAPACITY(16)";
        let answers = Answers {
            capacity: self.ask(what, cdb::read_capacity(), 32).await?,
            identification: self.ask_optional("INQUIRY 83h", cdb::vpd(0x83, 1024), 1024).await?,
            limits: self.ask_optional("INQUIRY B0h", cdb::vpd(0xb0, 64), 64).await?,
            provisioning: self.ask_optional("INQUIRY B2h", cdb::vpd(0xb2, 64), 64).await?,
            third_party_copy: self.ask_optional("INQUIRY 8Fh", cdb::vpd(0x8f, 1024), 1024).await?,
            copy: self
                .ask_optional("RECEIVE COPY RESULTS", cdb::copy_operating_parameters(1024), 1024)
                .await?,
            write_same: self
                .ask_optional(
                    "REPORT SUPPORTED OPERATION CODES",
                    cdb::report_supported_operation(0x93, 64),
                    64,
                )
                .await?,
        };
        answers.capabilities().ok_or(DiskError::Short { what, got: answers.capacity.len(), wanted: 12 })
    }

    /// Vendor and product, for the report.
    pub async fn product(&self) -> Result<String, DiskError> {
        let data = self.ask("INQUIRY", cdb::inquiry(96), 96).await?;
        let text = data.get(8..36).map(String::from_utf8_lossy).unwrap_or_default();
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// TEST UNIT READY: also brings what the array wants to tell.
    pub async fn ready(&self) -> Result<(), DiskError> {
        self.command("TEST UNIT READY", cdb::test_unit_ready(), Pieces::new(), 0).await.map(drop)
    }

    /// Reads, in commands of at most what the session carries.
    pub async fn read(&self, at: u64, len: u64) -> Result<Pieces, DiskError> {
        let what = "READ(16)";
        let outcome =
            self.command(what, cdb::read(self.lba(at), self.blocks(len)), Pieces::new(), len as u32).await?;
        let got = outcome.data_in.len();
        if got as u64 == len {
            Ok(outcome.data_in)
        } else {
            Err(DiskError::Short { what, got, wanted: len as usize })
        }
    }

    /// Writes, in commands of at most what the session carries.
    pub async fn write(&self, at: u64, data: Pieces) -> Result<(), DiskError> {
        let cdb = cdb::write(self.lba(at), self.blocks(data.len() as u64));
        self.command("WRITE(16)", cdb, data, 0).await.map(drop)
    }

    /// Has the array zero a range.
    pub async fn write_same(&self, at: u64, len: u64, zero_block: Data) -> Result<(), DiskError> {
        let cdb = cdb::write_same(self.lba(at), self.blocks(len));
        self.command("WRITE SAME(16)", cdb, zero_block.into(), 0).await.map(drop)
    }

    /// The same, and has it give back the space where it can.
    pub async fn write_same_unmap(&self, at: u64, len: u64, zero_block: Data) -> Result<(), DiskError> {
        let cdb = cdb::write_same_unmap(self.lba(at), self.blocks(len));
        self.command("WRITE SAME(16)", cdb, zero_block.into(), 0).await.map(drop)
    }

    /// What was written is durable afterwards.
    pub async fn synchronize_cache(&self) -> Result<(), DiskError> {
        self.command("SYNCHRONIZE CACHE(16)", cdb::synchronize_cache(), Pieces::new(), 0).await.map(drop)
    }

    /// Whether the LU may be read only.
    pub async fn is_write_protected(&self) -> Result<bool, DiskError> {
        let header = self.ask_optional("MODE SENSE(6)", cdb::mode_sense(4), 4).await?;
        Ok(header.get(2).is_some_and(|specific| specific & 0x80 != 0))
    }

    /// Writes one block if it still is as expected. `false`: it is not.
    pub async fn compare_and_write(&self, at: u64, expected: &[u8], new: &[u8]) -> Result<bool, DiskError> {
        let data = Pieces::copy_of(&[expected, new].concat());
        match self.command("COMPARE AND WRITE", cdb::compare_and_write(self.lba(at)), data, 0).await {
            Ok(_) => Ok(true),
            Err(DiskError::Check { sense, .. }) if sense.key == MISCOMPARE => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives ranges back: place and length in bytes.
    pub async fn unmap(&self, ranges: &[(u64, u64)]) -> Result<(), DiskError> {
        let list: Vec<(u64, u32)> =
            ranges.iter().map(|(at, len)| (self.lba(*at), self.blocks(*len))).collect();
        let (cdb, list) = cdb::unmap(&list);
        self.command("UNMAP", cdb, Pieces::copy_of(&list), 0).await.map(drop)
    }

    /// Has the array copy: from the LU that `from` names to the one that `to` names. Sent to this LU.
    pub async fn extended_copy(&self, naa: [&[u8]; 2], segments: &[Segment]) -> Result<(), DiskError> {
        let (cdb, list) = cdb::extended_copy(naa, self.block_bytes, segments);
        self.command("EXTENDED COPY", cdb, Pieces::copy_of(&list), 0).await.map(drop)
    }

    /// A token for a range of this LU, place and bytes. The list identifier is that of no other command in
    /// flight.
    pub async fn populate_token(
        &self,
        list_id: u32,
        (at, len): (u64, u64),
    ) -> Result<Box<[u8; 512]>, DiskError> {
        let (cdb, list) = cdb::populate_token(list_id, (self.lba(at), self.blocks(len)));
        self.command("POPULATE TOKEN", cdb, Pieces::copy_of(&list), 0).await?;
        let (what, wanted) = ("RECEIVE ROD TOKEN INFORMATION", 1024);
        let data = self.ask(what, cdb::receive_token_information(list_id, wanted), wanted).await?;
        let token = cdb::token_in(&data).ok_or(DiskError::Short { what, got: data.len(), wanted: 550 })?;
        Ok(Box::new(*token))
    }

    /// Writes the data of a token to a range of this LU, and deletes the token.
    pub async fn write_using_token(
        &self,
        list_id: u32,
        token: &[u8; 512],
        (at, len): (u64, u64),
    ) -> Result<(), DiskError> {
        let (cdb, list) = cdb::write_using_token(list_id, token, (self.lba(at), self.blocks(len)));
        self.command("WRITE USING TOKEN", cdb, Pieces::copy_of(&list), 0).await.map(drop)
    }

    /// Takes the whole LU.
    pub async fn reserve(&self) -> Result<(), DiskError> {
        self.command("RESERVE(6)", cdb::reserve(), Pieces::new(), 0).await.map(drop)
    }

    /// Gives it back.
    pub async fn release(&self) -> Result<(), DiskError> {
        self.command("RELEASE(6)", cdb::release(), Pieces::new(), 0).await.map(drop)
    }
}
