//! A target over memory: the few commands that a disk cannot do without, and switches for tests.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;

use block::Pieces;
use iscsi::target::{Chap, InitiatorPort, LoginRefusal, Target};
use iscsi::{RelayKey, Relayed};
use scsi::sense::Format;
use scsi::{HostView, Lun, Request, Response, Status, TaskFunction, TaskOutcome};
use world::Buf;
use world::sync::Signal;

pub(crate) const TARGET: &str = "iqn.2026-01.example.masu:ram";
pub(crate) const BLOCK: usize = 512;
/// What nodes show that carry connections to the target.
pub(crate) const RELAY_KEY: RelayKey = RelayKey([0x5a; 16]);
/// READ that waits until [`Ram::release`]: a vendor's opcode.
pub(crate) const SLOW_READ: u8 = 0xc0;

/// The target: a handle of the disk, as each session has one.
pub(crate) struct Ram(Rc<Disk>);

impl Deref for Ram {
    type Target = Disk;

    fn deref(&self) -> &Disk {
        &self.0
    }
}

#[derive(Default)]
pub(crate) struct Disk {
    memory: RefCell<Vec<u8>>,
    pub chap: RefCell<Option<Chap>>,
    /// Whether discovery needs the proof, too.
    pub discovery_chap: Cell<bool>,
    /// The only initiator that needs the proof; none: all do.
    pub protected: RefCell<Option<String>>,
    /// Initiators whose name ends so are refused.
    pub refused: RefCell<Option<String>>,
    pub nexuses: Cell<u32>,
    pub opened: Cell<u32>,
    /// The portal groups of the sessions that were opened.
    pub groups: RefCell<Vec<u16>>,
    pub holds: Cell<bool>,
    pub released: Signal,
    pub managed: RefCell<Vec<TaskFunction>>,
    pub writes: Cell<u32>,
    /// The attributes of the commands, in the order of their execution.
    pub order: RefCell<Vec<(u8, scsi::TaskAttribute)>>,
    /// Wakes who waits for the next of them.
    pub noted: Signal,
    pub more_targets: Cell<u32>,
    /// Commands that arrived before this event are refused.
    pub changed: Cell<u64>,
    /// Sense data have descriptor format.
    pub descriptors: Cell<bool>,
}

/// What a session sees: all of it.
pub(crate) struct View(Rc<Disk>);

impl Drop for View {
    fn drop(&mut self) {
        self.0.nexuses.set(self.0.nexuses.get() - 1);
    }
}

impl AsRef<View> for View {
    fn as_ref(&self) -> &View {
        self
    }
}

impl Ram {
    pub(crate) fn new(len: usize) -> Rc<Ram> {
        let disk = Disk { memory: RefCell::new(vec![0; len]), ..Disk::default() };
        Rc::new(Ram(Rc::new(disk)))
    }
}

impl Disk {
    pub(crate) fn release(&self) {
        self.holds.set(false);
        self.released.wake_all();
    }

    pub(crate) fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        self.memory.borrow()[from..from + len].to_vec()
    }

    fn range(&self, cdb: &[u8; 16]) -> Option<(usize, usize)> {
        let number =
            |at: usize, len: usize| cdb[at..at + len].iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let (lba, blocks) = match cdb[0] >> 5 {
            0 => (number(1, 3) & 0x1f_ffff, if cdb[4] == 0 { 256 } else { number(4, 1) }),
            4 => (number(2, 8), number(10, 4)),
            5 => (number(2, 4), number(6, 4)),
            _ => (number(2, 4), number(7, 2)),
        };
        let end = lba.checked_add(blocks)?.checked_mul(BLOCK as u64)?;
        (end <= self.memory.borrow().len() as u64).then_some((lba as usize * BLOCK, blocks as usize * BLOCK))
    }

    fn read(&self, cdb: &[u8; 16]) -> Response {
        let Some((at, len)) = self.range(cdb) else { return failed(0x21, 0) };
        let mut pieces = Pieces::new();
        let memory = self.memory.borrow();
        for part in memory[at..at + len].chunks(1 << 20) {
            let mut buf = Buf::new(part.len());
            buf.copy_from_slice(part);
            pieces.push(buf.freeze());
        }
        Response::good(pieces, 0)
    }

    fn write(&self, request: &Request) -> Response {
        let Some((at, len)) = self.range(&request.cdb) else { return failed(0x21, 0) };
        self.writes.set(self.writes.get() + 1);
        let n = request.data_out.len().min(len) / BLOCK * BLOCK;
        if n > 0 {
            request.data_out.slice(0, n).copy_to(&mut self.memory.borrow_mut()[at..at + n]);
        }
        Response::good(Pieces::new(), len as u64)
    }
}

fn failed(code: u8, qualifier: u8) -> Response {
    let mut sense = vec![0u8; 18];
    (sense[0], sense[2], sense[7], sense[12], sense[13]) = (0x70, 5, 10, code, qualifier);
    Response::failed(Status::CheckCondition, sense, 0)
}

fn inquiry(cdb: &[u8; 16]) -> Response {
    let mut data = vec![0u8; 36];
    (data[2], data[3], data[4]) = (6, 2, 31);
    data[8..32].copy_from_slice(b"masu    RAM disk        ");
    data.truncate(usize::from(u16::from_be_bytes([cdb[3], cdb[4]])));
    Response::good(Pieces::copy_of(&data), 0)
}

impl Target for Ram {
    type View = View;
    type Nexus = View;

    fn discover(&self, _: &str, at: SocketAddr) -> Vec<(String, Vec<(SocketAddr, u16)>)> {
        let one = |name: String| (name, vec![(at, 1)]);
        std::iter::once(TARGET.to_owned())
            .chain((0..self.more_targets.get()).map(|i| format!("{TARGET}{i}")))
            .map(one)
            .collect()
    }

    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal> {
        if self.refused.borrow().as_ref().is_some_and(|end| initiator.ends_with(end)) {
            return Err(LoginRefusal::NotAllowed);
        }
        match target {
            Some(name) if name != TARGET => Err(LoginRefusal::NotFound),
            None if !self.discovery_chap.get() => Ok(None),
            _ if self.protected.borrow().as_ref().is_some_and(|name| name != initiator) => Ok(None),
            _ => Ok(self.chap.borrow().clone()),
        }
    }

    fn portal_group(&self) -> u16 {
        1
    }

    fn admits(&self, relayed: &Relayed) -> bool {
        relayed.key == RELAY_KEY
    }

    fn open(&self, _: &InitiatorPort, _: &str, portal_group: u16) -> Result<View, LoginRefusal> {
        self.groups.borrow_mut().push(portal_group);
        self.nexuses.set(self.nexuses.get() + 1);
        self.opened.set(self.opened.get() + 1);
        Ok(View(self.0.clone()))
    }
}

impl HostView for View {
    fn data_out_len(&self, lun: Option<Lun>, cdb: &[u8; 16]) -> u64 {
        match (lun, cdb[0]) {
            (Some(Lun(0)), 0x0a | 0x2a | 0x8a | 0xaa) => self.0.range(cdb).map_or(0, |(_, len)| len as u64),
            _ => 0,
        }
    }

    fn sense_format(&self, _: Option<Lun>) -> Format {
        if self.0.descriptors.get() { Format::Descriptor } else { Format::Fixed }
    }

    async fn execute(&self, lun: Option<Lun>, request: Request) -> Response {
        if lun != Some(Lun(0)) || request.arrival.is_before(self.0.changed.get()) {
            return failed(0x25, 0);
        }
        let cdb = &request.cdb;
        if cdb[0] == SLOW_READ {
            self.0.released.wait_for(|| (!self.0.holds.get()).then_some(())).await;
        }
        if request.attribute != scsi::TaskAttribute::Simple || cdb[15] != 0 {
            self.0.order.borrow_mut().push((cdb[15], request.attribute));
            self.0.noted.wake_all();
        }
        match cdb[0] {
            0x00 | 0x35 | 0x91 => Response::good(Pieces::new(), 0),
            0x12 if cdb[1] & 1 == 0 => inquiry(cdb),
            0x1a => Response::good(Pieces::copy_of(&[3, 0, 0, 0]), 0),
            0x25 => {
                let blocks = (self.0.memory.borrow().len() / BLOCK) as u32;
                let data = [(blocks - 1).to_be_bytes(), (BLOCK as u32).to_be_bytes()].concat();
                Response::good(Pieces::copy_of(&data), 0)
            }
            0x9e if cdb[1] & 0x1f == 0x10 => {
                let mut data = [0u8; 32];
                let blocks = (self.0.memory.borrow().len() / BLOCK) as u64;
                data[..8].copy_from_slice(&(blocks - 1).to_be_bytes());
                data[8..12].copy_from_slice(&(BLOCK as u32).to_be_bytes());
                Response::good(Pieces::copy_of(&data), 0)
            }
            0xa0 => Response::good(Pieces::copy_of(&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 0),
            0x08 | 0x28 | 0x88 | 0xa8 | SLOW_READ => self.0.read(cdb),
            0x0a | 0x2a | 0x8a | 0xaa => self.0.write(&request),
            _ => failed(0x20, 0),
        }
    }

    async fn manage(&self, function: TaskFunction) -> TaskOutcome {
        self.0.managed.borrow_mut().push(function);
        match function {
            TaskFunction::AbortTask(Lun(0), _)
            | TaskFunction::AbortTaskSet(Lun(0))
            | TaskFunction::ClearTaskSet(Lun(0))
            | TaskFunction::LunReset(Lun(0)) => TaskOutcome::Complete,
            TaskFunction::TargetReset => TaskOutcome::Complete,
            _ => TaskOutcome::NoSuchLun,
        }
    }

    fn end(&self) {}
}
