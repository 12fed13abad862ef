//! Hosts, logical units and commands, for the tests of copies, tokens and reservations.

use std::rc::Rc;

use block::Pieces;
use lu::testing::ThinMemory;
use lu::{CommandContext, Durability, LogicalDisk, NexusId};
use world::World;
use world_model::Model;

use crate::host_view::HostView;
use crate::nexus::{AccessState, InitiatorPort, ListedPort, Ports, TargetPort};
use crate::odx::Tokens;
use crate::request::{Lun, Request, Response, Status};
use crate::unit::{Identity, LogicalUnit};
use crate::view::{View, ViewSpec};

/// Block length of every logical unit of a rig.
pub(crate) const BLOCK: u64 = 512;
/// Blocks of every logical unit: 32 MiB.
pub(crate) const BLOCKS: u64 = 65_536;
/// Page of every disk.
pub(crate) const PAGE: u64 = 64 << 10;

/// Some logical units and the controller's tokens.
pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) units: Vec<Rc<LogicalUnit<ThinMemory>>>,
    pub(crate) tokens: Rc<Tokens<ThinMemory>>,
}

/// How a command ended: status, sense as key and code, and data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) sense: Option<(u8, u16)>,
    pub(crate) data: Vec<u8>,
}

impl Rig {
    /// Runs a test with `count` logical units in virtual time.
    pub(crate) fn run<F: Future<Output = ()>>(count: u64, test: impl FnOnce(Rig) -> F) {
        Model::new(1).run(|world| {
            let unit = |n| {
                let disk = ThinMemory::new(BLOCKS * BLOCK, BLOCK as u32, PAGE);
                LogicalUnit::new(world.clone(), Identity::of(0xA, n), disk)
            };
            let units = (0..count).map(unit).collect();
            test(Rig { world: world.clone(), units, tokens: Rc::new(Tokens::new(world, 0)) })
        });
    }

    /// A host that sees the logical units of these indices as LUN 0, 1, ... and has been told everything.
    pub(crate) async fn host(&self, n: u8, units: &[usize]) -> View<ThinMemory> {
        let port =
            TargetPort { target: "iqn.2026-01.test:t".into(), portal_group: 1, relative_id: 1, group: 1 };
        let view = View::new(ViewSpec {
            nexus: NexusId(u64::from(n)),
            initiator: InitiatorPort { name: format!("iqn.2026-01.test:h{n}"), isid: [0x80, 0, 0, 0, 0, n] },
            port: Rc::new(port.clone()),
            ports: Rc::new(Ports::new([ListedPort { port, access: AccessState::Optimized }])),
            others: Rc::from([]),
            tokens: self.tokens.clone(),
            port_traffic: Rc::default(),
            host_traffic: Rc::default(),
            tracer: None,
            at_port: true,
        });
        for (lun, unit) in (0u16..).zip(units) {
            view.map(Lun(lun), self.units[*unit].clone());
        }
        for lun in 0..units.len() {
            while send(&view, lun as u16, &[0; 6], &[]).await.status != Status::Good {}
        }
        view
    }

    /// MODE SELECT: turns the volatile write cache of a LUN off.
    pub(crate) async fn write_through(host: &View<ThinMemory>, lun: u16) {
        let mut list = [0; 24];
        (list[4], list[5]) = (0x08, 0x12);
        send(host, lun, &[0x15, 0x10, 0, 0, 24, 0], &list).await.good();
    }

    /// Fills blocks with a byte.
    pub(crate) async fn fill(&self, unit: usize, lba: u64, blocks: u64, byte: u8) {
        let data = vec![byte; (blocks * BLOCK) as usize];
        self.units[unit]
            .disk()
            .write(CommandContext::DETACHED, lba * BLOCK, &Pieces::copy_of(&data), Durability::Volatile)
            .await
            .expect("writing succeeds");
    }

    /// Whether the blocks hold nothing but `byte`.
    pub(crate) async fn holds(&self, unit: usize, lba: u64, blocks: u64, byte: u8) -> bool {
        let mut data = Pieces::new();
        let len = (blocks * BLOCK) as usize;
        self.units[unit]
            .disk()
            .read(CommandContext::DETACHED, lba * BLOCK, len, &mut data)
            .await
            .expect("reading succeeds");
        data.joined().iter().all(|&b| b == byte)
    }
}

/// Sends a command and gives the raw response.
pub(crate) async fn respond(view: &View<ThinMemory>, lun: u16, cdb: &[u8], data: &[u8]) -> Response {
    let mut full = [0; 16];
    full[..cdb.len()].copy_from_slice(cdb);
    view.execute(Some(Lun(lun)), Request::new(full, Pieces::copy_of(data), 1 << 16)).await
}

/// Sends a command.
pub(crate) async fn send(view: &View<ThinMemory>, lun: u16, cdb: &[u8], data: &[u8]) -> Answer {
    let response = respond(view, lun, cdb, data).await;
    let sense = &response.sense;
    Answer {
        status: response.status,
        sense: (sense.len() >= 14).then(|| (sense[2] & 0x0F, u16::from_be_bytes([sense[12], sense[13]]))),
        data: response.data_in.joined().to_vec(),
    }
}

impl Answer {
    /// The data of a command that must have succeeded.
    pub(crate) fn good(self) -> Vec<u8> {
        assert_eq!((self.status, self.sense), (Status::Good, None));
        self.data
    }

    /// The sense of a command that must have failed.
    pub(crate) fn failed(self) -> (u8, u16) {
        assert_eq!(self.status, Status::CheckCondition);
        self.sense.expect("a failure has sense data")
    }
}

/// A small generator for hostile input: xorshift.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Changes some bytes, and sometimes the length.
    pub(crate) fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(6) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            bytes[at] =
                if self.below(2) == 0 { self.next() as u8 } else { [0, 1, 0x7F, 0xFF][self.below(4)] };
        }
        match self.below(8) {
            0 => bytes.truncate(self.below(bytes.len() + 1)),
            1 => bytes.extend((0..self.below(64)).map(|n| n as u8)),
            _ => {}
        }
    }
}
