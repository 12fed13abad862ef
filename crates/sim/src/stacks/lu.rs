//! Volumes as logical units: every operation of the workload is a SCSI command, through the view of one host
//! or through iSCSI sessions.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Buf, Device, Geometry, Pieces};
use iscsi::initiator::Done;
use pool::{Provisioning, Volume};
use scsi::{
    AccessState, HostView, Identity, InitiatorPort, ListedPort, LogicalUnit, Lun, NexusId, Ports, Request,
    TargetPort, Tokens, View, ViewSpec,
};
use stack::PlainVolume;
use world::World;

use crate::actors::paths::Paths;
use crate::actors::sessions::Sessions;
use crate::actors::workload::Subject;

/// The blocks that the host sees.
const BLOCK_BYTES: u32 = 512;
/// Unit attentions before a command: power on, a changed list of LUs, a changed capacity; on every session,
/// and again when a connection breaks.
const ATTENTIONS_MAX: usize = 32;
/// A ROD token (SPC-4 5.16.6).
const TOKEN_LEN: usize = 512;
/// More than the information about one token.
const TOKEN_INFORMATION_LEN: usize = 4096;
/// UNIT ATTENTION (SPC-5 4.4.1).
const SENSE_KEY_UNIT_ATTENTION: u8 = 6;
/// COPY ABORTED.
const SENSE_KEY_COPY_ABORTED: u8 = 0xa;

/// The path of commands to the LUs.
#[derive(Clone)]
pub(crate) enum Path {
    View(Rc<View<PlainVolume>>),
    Sessions(Rc<Sessions>),
    /// To whichever node serves.
    Nodes(Rc<Paths>),
}

/// One logical unit as its host sees it.
#[derive(Clone)]
pub(crate) struct Lu {
    path: Path,
    lun: Lun,
    geometry: Geometry,
    naa: [u8; 16],
    thin: bool,
    /// Copies inside the array reach those of the same home.
    home: usize,
    /// Copies so far.
    copies: Rc<Cell<u32>>,
}

/// Creates a LU for every volume, and maps all of them to one host.
pub(super) fn units_of(world: &World, volumes: &BTreeMap<String, Volume>) -> BTreeMap<String, Lu> {
    let port =
        TargetPort { target: "iqn.2026-11.sim:array".to_owned(), portal_group: 1, relative_id: 1, group: 1 };
    let view = Rc::new(View::new(ViewSpec {
        nexus: NexusId(1),
        initiator: InitiatorPort { name: "iqn.2026-11.sim:host".to_owned(), isid: [0; 6] },
        port: Rc::new(port.clone()),
        ports: Rc::new(Ports::new([ListedPort { port, access: AccessState::Optimized }])),
        others: Rc::from([]),
        tokens: Rc::new(Tokens::new(world.clone(), 0)),
        port_traffic: Rc::default(),
        host_traffic: Rc::default(),
        tracer: None,
        at_port: true,
    }));
    let copies = Rc::new(Cell::new(0));
    let map = |(number, (name, volume)): (u16, (&String, &Volume))| {
        let disk = PlainVolume::new(volume.clone(), BLOCK_BYTES);
        let unit = LogicalUnit::new(world.clone(), Identity::of(1, u64::from(number) + 1), disk);
        let (geometry, naa) = (unit.geometry(), unit.identity().naa);
        let thin = volume.provisioning() == Provisioning::Thin;
        view.map(Lun(number), unit);
        (
            name.clone(),
            Lu {
                path: Path::View(view.clone()),
                lun: Lun(number),
                geometry,
                naa,
                thin,
                home: 0,
                copies: copies.clone(),
            },
        )
    };
    (0..).zip(volumes).map(map).collect()
}

/// A CDB with an operation code, 64 bits of address from byte 2 and 32 bits of length from byte 10: the
/// layout of all 16-byte block commands (SBC-4 clause 5).
fn cdb16(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

fn blocks(bytes: u64) -> u32 {
    u32::try_from(bytes / u64::from(BLOCK_BYTES)).expect("the workload's transfers are short")
}

fn lba(at: u64) -> u64 {
    at / u64::from(BLOCK_BYTES)
}

fn not_good(cdb: &[u8; 16], done: &Done) -> BlockError {
    let cause = format!("command {:02x}: status {:02x}, sense {:02x?}", cdb[0], done.status, done.sense);
    BlockError::Failed { cause: cause.into() }
}

impl Lu {
    /// A LU that is reached through sessions: its properties are read by commands.
    pub(crate) async fn behind(path: Path, lun: Lun, home: usize) -> Result<Lu, BlockError> {
        let geometry = Geometry { len_bytes: 0, block_bytes: BLOCK_BYTES };
        let mut lu = Lu { path, lun, geometry, naa: [0; 16], thin: false, home, copies: Rc::default() };
        // READ CAPACITY(16), SBC-4 5.20: the last LBA, the block length, and LBPME in bit 7 of byte 14.
        let mut cdb = cdb16(0x9e, 0x10, 0, 0);
        cdb[13] = 32;
        let capacity = lu.command(cdb, Pieces::new(), 32).await?.joined();
        let last = u64::from_be_bytes(*capacity.first_chunk().expect("a capacity has 32 bytes"));
        lu.geometry.len_bytes = (last + 1) * u64::from(BLOCK_BYTES);
        lu.thin = capacity[14] & 0x80 != 0;
        // INQUIRY, VPD page 83h (SPC-5 7.7.6): the first NAA designator of the logical unit.
        let mut cdb = [0; 16];
        cdb[..5].copy_from_slice(&[0x12, 1, 0x83, 0, 255]);
        let page = lu.command(cdb, Pieces::new(), 255).await?.joined();
        let mut at = 4;
        while at + 20 <= page.len() {
            if page[at + 1] & 0x3f == 0x03 && page[at + 3] == 16 {
                lu.naa.copy_from_slice(&page[at + 4..at + 20]);
                return Ok(lu);
            }
            at += 4 + usize::from(page[at + 3]);
        }
        Err(BlockError::Failed { cause: format!("no NAA designator in page 83h of LUN {}", lun.0).into() })
    }

    /// Clears WCE in the caching mode page (SBC-4 6.5.6), and saves that: what is acknowledged is durable.
    pub(crate) async fn write_through(&self) -> Result<(), BlockError> {
        const LEN: usize = 24;
        const CACHING: u8 = 0x08;
        const WCE: u8 = 0x04;
        let mut sense = [0; 16];
        sense[..5].copy_from_slice(&[0x1a, 0x08, CACHING, 0, LEN as u8]);
        let mut list = self.command(sense, Pieces::new(), LEN).await?.joined().to_vec();
        // The header's length is reserved in MODE SELECT, as is PS of the page.
        (list[0], list[4], list[6]) = (0, CACHING, list[6] & !WCE);
        let mut select = [0; 16];
        select[..5].copy_from_slice(&[0x15, 0x11, 0, 0, LEN as u8]);
        self.command(select, Pieces::copy_of(&list), 0).await.map(|_| ())
    }

    /// Sends a command until no unit attention answers it; anything but GOOD is an error.
    async fn command(
        &self,
        cdb: [u8; 16],
        data_out: Pieces,
        data_in_max: usize,
    ) -> Result<Pieces, BlockError> {
        let done = self.done(cdb, data_out, data_in_max).await?;
        match done.is_good() {
            true => Ok(done.data_in),
            false => Err(not_good(&cdb, &done)),
        }
    }

    /// How a command ends that no unit attention answers.
    async fn done(&self, cdb: [u8; 16], data_out: Pieces, data_in_max: usize) -> Result<Done, BlockError> {
        for _ in 0..ATTENTIONS_MAX {
            let done = self.send(cdb, data_out.clone(), data_in_max).await?;
            if done.sense_codes().is_none_or(|(key, ..)| key != SENSE_KEY_UNIT_ATTENTION) {
                return Ok(done);
            }
        }
        Err(BlockError::Failed {
            cause: format!("command {:02x}: unit attentions without end", cdb[0]).into(),
        })
    }

    async fn send(&self, cdb: [u8; 16], data_out: Pieces, data_in_max: usize) -> Result<Done, BlockError> {
        let data_in_max = data_in_max as u32;
        match &self.path {
            Path::View(view) => {
                let request = Request::new(cdb, data_out, data_in_max);
                let response = view.execute(Some(self.lun), request).await;
                let (sense, data_in) = (response.sense, response.data_in);
                Ok(Done { status: response.status as u8, sense, data_in, ..Done::default() })
            }
            Path::Sessions(sessions) => {
                let done = sessions.command(self.lun, cdb, data_out, data_in_max).await;
                done.map_err(|e| BlockError::Failed { cause: format!("command {:02x}: {e}", cdb[0]).into() })
            }
            Path::Nodes(paths) => Ok(paths.command(self.lun, cdb, data_out, data_in_max).await),
        }
    }
}

impl Device for Lu {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// READ(16), SBC-4 5.21.
    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        out.append(self.command(cdb16(0x88, 0, lba(at), blocks(len as u64)), Pieces::new(), len).await?);
        Ok(())
    }

    /// WRITE(16), SBC-4 5.45.
    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        let cdb = cdb16(0x8a, 0, lba(at), blocks(data.len() as u64));
        self.command(cdb, data.clone(), 0).await.map(|_| ())
    }

    /// WRITE SAME(16) with one block of zeros, SBC-4 5.55.
    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let zeros = Pieces::from(Buf::zeroed(BLOCK_BYTES as usize).freeze());
        self.command(cdb16(0x93, 0, lba(at), blocks(len)), zeros, 0).await.map(|_| ())
    }

    /// SYNCHRONIZE CACHE(16), SBC-4 5.36.
    async fn flush(&self) -> Result<(), BlockError> {
        self.command(cdb16(0x91, 0, 0, 0), Pieces::new(), 0).await.map(|_| ())
    }
}

impl Subject for Lu {
    /// WRITE SAME(16) with UNMAP and NDOB: every block reads as zeros afterwards, whole pages are released. A
    /// thick LU has no UNMAP: it is zeroed.
    async fn unmap(&self, at: u64, len: u64) -> Result<(), BlockError> {
        const UNMAP: u8 = 0x08;
        const NDOB: u8 = 0x01;
        if !self.thin {
            return self.zero(at, len).await;
        }
        self.command(cdb16(0x93, UNMAP | NDOB, lba(at), blocks(len)), Pieces::new(), 0).await.map(|_| ())
    }

    /// COMPARE AND WRITE, SBC-4 5.3. Through sessions, where a command may be executed twice, and would then
    /// miscompare, a WRITE.
    async fn swap(&self, at: u64, old: &Pieces, new: &Pieces) -> Result<(), BlockError> {
        if !matches!(self.path, Path::View(_)) {
            return self.write(at, new).await;
        }
        let mut cdb = cdb16(0x89, 0, lba(at), 0);
        cdb[13] = blocks(new.len() as u64) as u8;
        let mut data = old.clone();
        data.append(new.clone());
        self.command(cdb, data, 0).await.map(|_| ())
    }

    /// By turns EXTENDED COPY and a token. Between homes the host copies.
    async fn copy_from(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        if source.home != self.home {
            return self.copy_by_host(source, from, at, len).await;
        }
        let turn = self.copies.replace(self.copies.get() + 1);
        if turn.is_multiple_of(2) && matches!(self.path, Path::View(_)) {
            return self.copy_by_token(source, from, at, len).await;
        }
        self.extended_copy(source, from, at, len).await
    }
}

impl Lu {
    /// POPULATE TOKEN, RECEIVE ROD TOKEN INFORMATION and WRITE USING TOKEN (SBC-4 5.16, 5.25, 5.54), which
    /// deletes the token.
    async fn copy_by_token(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        const DEL_TKN: u8 = 0x02;
        let list_id = self.copies.get() + 1;
        let populate = token_list(16, lba(from), blocks(len));
        source.command(token_cdb(0x83, 0x10, list_id, populate.len()), Pieces::copy_of(&populate), 0).await?;
        let asked = token_cdb(0x84, 0x07, list_id, TOKEN_INFORMATION_LEN);
        let information = source.command(asked, Pieces::new(), TOKEN_INFORMATION_LEN).await?.joined();
        // SPC-4 6.22: the token follows the header and its own descriptor's header.
        let token = information.get(38..38 + TOKEN_LEN).ok_or_else(|| BlockError::Failed {
            cause: format!("no token in {} bytes of information", information.len()).into(),
        })?;
        let mut list = token_list(536, lba(at), blocks(len));
        list[2] = DEL_TKN;
        list[16..16 + TOKEN_LEN].copy_from_slice(token);
        let cdb = token_cdb(0x83, 0x11, list_id, list.len());
        self.command(cdb, Pieces::copy_of(&list), 0).await.map(|_| ())
    }

    /// EXTENDED COPY(LID1), SPC-4 6.3: two identification descriptors, one block to block segment.
    async fn extended_copy(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        let targets = [target_descriptor(&source.naa), target_descriptor(&self.naa)].concat();
        let segment = segment_descriptor(lba(from), lba(at), blocks(len));
        let mut list = vec![0; 16];
        list[2..4].copy_from_slice(&(targets.len() as u16).to_be_bytes());
        list[8..12].copy_from_slice(&(segment.len() as u32).to_be_bytes());
        // No list identifier is needed: its status is the command's (LIST ID USAGE 11b).
        list[1] = 0x18;
        list.extend(targets);
        list.extend(segment);
        let mut cdb = [0; 16];
        cdb[0] = 0x83;
        cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
        let done = self.done(cdb, Pieces::copy_of(&list), 0).await?;
        match done.sense_codes() {
            _ if done.is_good() => Ok(()),
            // One of the two is at a node that is gone: hosts go on by themselves.
            Some((SENSE_KEY_COPY_ABORTED, ..)) if matches!(self.path, Path::Nodes(_)) => {
                self.copy_by_host(source, from, at, len).await
            }
            _ => Err(not_good(&cdb, &done)),
        }
    }

    async fn copy_by_host(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        let mut data = Pieces::new();
        source.read(from, len as usize, &mut data).await?;
        self.write(at, &data).await
    }
}

/// A CDB of the token commands: the list identifier, whose place depends on the direction, and a length.
fn token_cdb(opcode: u8, action: u8, list_id: u32, len: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, action);
    let at = if opcode == 0x83 { 6 } else { 2 };
    cdb[at..at + 4].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

/// A parameter list of the token commands: a fixed part that begins and ends with lengths, and one range.
fn token_list(fixed_len: usize, lba: u64, blocks: u32) -> Vec<u8> {
    let mut list = vec![0; fixed_len];
    list.extend(lba.to_be_bytes());
    list.extend(blocks.to_be_bytes());
    list.extend([0; 4]);
    let len = list.len();
    list[..2].copy_from_slice(&(len as u16 - 2).to_be_bytes());
    list[fixed_len - 2..fixed_len].copy_from_slice(&16_u16.to_be_bytes());
    list
}

/// SPC-4 6.3.6.4: identification descriptor CSCD descriptor with a NAA designator.
fn target_descriptor(naa: &[u8; 16]) -> [u8; 32] {
    let mut descriptor = [0; 32];
    descriptor[0] = 0xe4;
    // Binary, NAA, of the logical unit, 16 bytes.
    descriptor[4..8].copy_from_slice(&[1, 3, 0, 16]);
    descriptor[8..24].copy_from_slice(naa);
    descriptor[28..32].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
    descriptor
}

/// SPC-4 6.3.7.5: block device to block device.
fn segment_descriptor(from: u64, to: u64, blocks: u32) -> [u8; 28] {
    let mut descriptor = [0; 28];
    descriptor[0] = 0x02;
    descriptor[2..4].copy_from_slice(&0x18_u16.to_be_bytes());
    descriptor[6..8].copy_from_slice(&1_u16.to_be_bytes());
    let blocks = u16::try_from(blocks).expect("the workload's copies are short");
    descriptor[10..12].copy_from_slice(&blocks.to_be_bytes());
    descriptor[12..20].copy_from_slice(&from.to_be_bytes());
    descriptor[20..28].copy_from_slice(&to.to_be_bytes());
    descriptor
}
