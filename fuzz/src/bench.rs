//! Four logical units under two hosts, and what must hold for the answer to any command.

use std::rc::Rc;

use block::Pieces;
use scsi::cdb::Cdb;
use scsi::opcode::{self, Needs};
use scsi::{
    AccessState, HostView, Identity, InitiatorPort, ListedPort, LogicalUnit, Lun, NexusId, Ports, Request,
    Response, Status, TargetPort, TaskAttribute, Tokens, View, ViewSpec,
};
use world::World;
use world_model::Model;

use crate::medium::Memory;

/// Size of every logical unit: small, so that a command over all of it takes no time.
const LU_LEN: u64 = 256 << 10;
/// More commands than find anything new in one input.
const COMMANDS_MAX: usize = 12;
/// The most data-out that is made of a few bytes by repeating them.
const REPEATED_LEN_MAX: u64 = 64 << 10;
/// The longest answer to a command that has no allocation length is a read of the whole LU; the longest list
/// is 64 KiB.
const DATA_IN_LEN_MAX: usize = LU_LEN as usize;

/// Two hosts that see the same logical units: 0 thin with 512-byte blocks, 1 thick with 4 KiB blocks, 2
/// read-only, 3 thin.
pub(crate) struct Bench {
    views: [View<Memory>; 2],
    media: Vec<Memory>,
    world: World,
}

impl Bench {
    pub(crate) fn new(world: World) -> Bench {
        let tokens = Rc::new(Tokens::new(world.clone(), 0));
        let media = [(512, true), (4096, false), (512, true), (512, true)]
            .map(|(b, thin)| Memory::new(LU_LEN, b, thin));
        let view = |host: u64| {
            let port = TargetPort {
                target: "iqn.2026-11.example:disk".into(),
                portal_group: 1,
                relative_id: 1,
                group: 1,
            };
            let initiator =
                InitiatorPort { name: format!("iqn.2026-11.example:host{host}"), isid: [0, 0, 0, 0, 0, 1] };
            let ports =
                Ports::new([ListedPort { port: port.clone(), access: AccessState::Optimized }]).into();
            View::new(ViewSpec {
                nexus: NexusId(host),
                initiator,
                port: Rc::new(port),
                ports,
                tokens: tokens.clone(),
                others: Rc::from([]),
                port_traffic: Rc::default(),
                host_traffic: Rc::default(),
                tracer: None,
                at_port: true,
            })
        };
        let views = [view(0), view(1)];
        for (i, medium) in media.iter().enumerate() {
            let identity = Identity { read_only: i == 2, ..Identity::of(7, i as u64) };
            let lu = LogicalUnit::new(world.clone(), identity, medium.clone());
            views.iter().for_each(|v| v.map(Lun(i as u16), lu.clone()));
        }
        Bench { views, media: media.into(), world }
    }

    /// Lets both hosts hear that the logical units are there, so that the next command is carried out.
    pub(crate) async fn greet(&self) {
        for (host, lun) in (0..2).flat_map(|h| (0..4).map(move |l| (h, l))) {
            // One attention for the power-on, and one for the units that were mapped later.
            for _ in 0..2 {
                self.execute(host, Some(lun), [0; 16], &[], TaskAttribute::Simple).await;
            }
        }
    }

    /// How much data-out the host would send.
    pub(crate) fn wanted(&self, host: usize, lun: Option<u16>, cdb: &[u8; 16]) -> u64 {
        self.views[host].data_out_len(lun.map(Lun), cdb)
    }

    /// Executes a command and checks the answer.
    pub(crate) async fn execute(
        &self,
        host: usize,
        lun: Option<u16>,
        cdb: [u8; 16],
        data_out: &[u8],
        attribute: TaskAttribute,
    ) -> Response {
        let changes = || self.media.iter().map(Memory::changes).collect::<Vec<u64>>();
        let before = changes();
        let request = Request { attribute, tag: 1, ..Request::new(cdb, Pieces::copy_of(data_out), 1 << 16) };
        let response = self.views[host].execute(lun.map(Lun), request).await;
        check(&cdb, &response);
        let command = opcode::find(&Cdb(cdb));
        let may_write =
            command.is_some_and(|c| c.needs == Needs::Writable || c.name.starts_with("EXTENDED COPY"));
        assert!(may_write || before == changes(), "{cdb:02x?} changed a medium");
        assert_eq!(self.media[2].changes(), 0, "{cdb:02x?} changed the medium of the read-only unit");
        response
    }

    /// When all is done and time has passed, every unit still answers.
    pub(crate) async fn end(&self) {
        self.world.sleep(std::time::Duration::from_secs(3600)).await;
        for (host, lun) in (0..2).flat_map(|h| (0..4).map(move |l| (h, l))) {
            let inquiry = [0x12, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let response = self.execute(host, Some(lun), inquiry, &[], TaskAttribute::Simple).await;
            assert_eq!((response.status, response.data_in.len()), (Status::Good, 36));
        }
    }
}

/// What holds for every answer: sense data with CHECK CONDITION and only then, in a format that hosts can
/// read; data only from commands that give some, and no more than was allocated.
fn check(cdb: &[u8; 16], response: &Response) {
    let command = opcode::find(&Cdb(*cdb));
    let sense = &response.sense[..];
    assert_eq!(response.status == Status::CheckCondition, !sense.is_empty(), "{cdb:02x?}: {response:?}");
    assert!(!response.aborted, "{cdb:02x?} was aborted by nobody");
    // The highest bit says whether INFORMATION is valid.
    match sense.first().map(|code| code & 0x7f) {
        None => {}
        Some(0x70) => {
            assert!(
                sense.len() >= 18 && usize::from(sense[7]) + 8 == sense.len(),
                "{cdb:02x?}: sense {sense:02x?}"
            );
            assert!(sense[2] & 0x0f != 0 || sense[12] == 0, "{cdb:02x?}: no key, but a code: {sense:02x?}");
        }
        Some(0x72) => {
            assert!(
                sense.len() >= 8 && usize::from(sense[7]) + 8 == sense.len(),
                "{cdb:02x?}: sense {sense:02x?}"
            );
            let mut rest = &sense[8..];
            while let [_, len, after @ ..] = rest {
                rest = after.get(usize::from(*len)..).expect("a sense data descriptor past the end");
            }
            assert!(rest.is_empty(), "{cdb:02x?}: sense {sense:02x?}");
        }
        Some(_) => panic!("{cdb:02x?}: sense of no known format: {sense:02x?}"),
    }
    assert!(response.data_in.len() <= DATA_IN_LEN_MAX, "{cdb:02x?}: {} bytes", response.data_in.len());
    assert!(
        response.status == Status::Good || response.data_in.is_empty(),
        "{cdb:02x?}: data with {:?}",
        response.status
    );
    let gives = command.is_some_and(|c| c.data_in);
    assert!(gives || response.data_in.is_empty(), "{cdb:02x?}: data from a command that gives none");
    if let Some(allocated) = allocation_len(cdb) {
        assert!(response.data_in.len() as u64 <= allocated, "{cdb:02x?}: more data than allocated");
    }
}

/// The allocation length of the commands that have one, where their standards put it.
fn allocation_len(cdb: &[u8; 16]) -> Option<u64> {
    let number = |at: usize, width: usize| cdb[at..at + width].iter().fold(0, |n, &b| n << 8 | u64::from(b));
    match cdb[0] {
        0x03 | 0x1a => Some(number(4, 1)),
        0x12 => Some(number(3, 2)),
        0x37 | 0x4d | 0x5a | 0x5e => Some(number(7, 2)),
        0xa0 | 0xa3 => Some(number(6, 4)),
        0x84 | 0x9e => Some(number(10, 4)),
        _ => None,
    }
}

/// Commands in a row. Each is a byte of choices, the CDB, a byte of length and as much data-out.
pub fn run_commands(data: &[u8]) {
    Model::new(1).run(async |world| {
        let bench = Bench::new(world);
        bench.greet().await;
        let mut rest = data;
        for _ in 0..COMMANDS_MAX {
            let Some(([choices, head @ ..], after)) = rest.split_first_chunk::<18>() else { break };
            let cdb: [u8; 16] = head[..16].try_into().expect("sixteen of seventeen");
            let (given, after) = after.split_at(after.len().min(head[16].into()));
            rest = after;
            command(&bench, *choices, cdb, given).await;
        }
        bench.end().await;
    });
}

/// Bit 0: the host; bits 1 to 3: the LUN, or none; bits 4 and 5: the attribute; bit 6: the data is repeated
/// to what the command asks for.
async fn command(bench: &Bench, choices: u8, cdb: [u8; 16], given: &[u8]) {
    let host = usize::from(choices & 1);
    let lun =
        [Some(0), Some(1), Some(2), Some(3), Some(0), Some(1), Some(9), None][usize::from(choices >> 1 & 7)];
    let attribute =
        [TaskAttribute::Simple, TaskAttribute::Ordered, TaskAttribute::HeadOfQueue, TaskAttribute::Aca];
    let attribute = attribute[usize::from(choices >> 4 & 3)];
    let mut data_out = given.to_vec();
    if choices & 0x40 != 0 {
        let wanted = bench.wanted(host, lun, &cdb).min(REPEATED_LEN_MAX) as usize;
        let pattern = if given.is_empty() { &[0xa5][..] } else { given };
        data_out = pattern.iter().copied().cycle().take(wanted).collect();
    }
    bench.execute(host, lun, cdb, &data_out, attribute).await;
}
