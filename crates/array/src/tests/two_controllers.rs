//! Two controllers, each with a pool and two volumes, as hosts see them through a port of either: in one
//! process, and each in its own, with an exchange between them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use scsi::{Request, Response, Status};
use world::World;
use world_model::Disks;

use super::rig::{TARGET, VOLUME_BYTES, declaration, drive, group, model};
use crate::config::{HostConfig, Level, PoolConfig, VolumeConfig};
use crate::{
    Array, ClosedControllers, Config, Control, ControlError, ControllerHandle, Exchange, LocalPort,
    LocalSession, Lun, Mailbox, MoveReceiver, MoveSender, Told, TraceSender, event_channel, move_channel,
    run_with_local_port,
};

pub(super) const BLOCK: u64 = 512;

/// Two controllers, a pool and two volumes at each. Host `a` sees `v0` and `v1`, host `b` all four.
pub(super) struct Rig {
    pub(super) array: Array,
    pub(super) world: World,
    pub(super) disks: Disks,
    /// The moves that hosts ask for.
    pub(super) asked: MoveReceiver,
    ports: Vec<LocalPort>,
    /// Of controllers that can begin anew: those of one process.
    mailboxes: Vec<Mailbox>,
}

pub(super) fn config() -> Config {
    let mut config =
        declaration(9, 2, vec![group("g0", Level::Raid0, 0..1), group("g1", Level::Raid0, 1..2)]);
    let pool = |n: usize| PoolConfig {
        page_bytes: 64 << 10,
        controller: n,
        ..PoolConfig::new(format!("p{n}"), vec![format!("g{n}")])
    };
    let volume = |name: &str, n: usize| VolumeConfig::new(name.into(), format!("p{n}"), VOLUME_BYTES);
    let host = |name: &str, volumes: &[&str]| {
        let luns: BTreeMap<u16, String> = (0..).zip(volumes.iter().map(|v| (*v).to_owned())).collect();
        HostConfig::new(name.into(), format!("iqn.2026-11.test:{name}"), luns)
    };
    config.controllers = 2;
    config.portals.clear();
    config.drives = (0..2).map(drive).collect();
    config.pools = vec![pool(0), pool(1)];
    config.volumes = vec![volume("v0", 0), volume("v1", 1), volume("w0", 0), volume("w1", 1)];
    config.hosts = vec![host("a", &["v0", "v1"]), host("b", &["v0", "v1", "w0", "w1"])];
    config
}

impl Rig {
    pub(super) fn run<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F + Clone) {
        Rig::run_with(config(), None, test);
    }

    /// The same with another declaration, and with traces that go there. Without traces, which do not
    /// cross, each test runs with both controllers in one process, and with controller 1 in another one.
    pub(super) fn run_with<F: Future<Output = ()>>(
        config: Config,
        traces: Option<TraceSender>,
        test: impl FnOnce(Rig) -> F + Clone,
    ) {
        let ways = if traces.is_some() { &[false][..] } else { &[false, true] };
        for apart in ways {
            Rig::run_once((config.clone(), *apart), traces.clone(), test.clone());
        }
    }

    /// With both controllers in one process only: the test sends what each process makes itself.
    pub(super) fn run_in_one_process<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
        Rig::run_once((config(), false), None, test);
    }

    fn run_once<F: Future<Output = ()>>(
        config: (Config, bool),
        traces: Option<TraceSender>,
        test: impl FnOnce(Rig) -> F,
    ) {
        let model = model(9, 3);
        let disks = model.disks().clone();
        model.run(async |world| test(Rig::start(&world, disks, config, traces).await).await);
    }

    async fn start(
        world: &World,
        disks: Disks,
        (config, apart): (Config, bool),
        traces: Option<TraceSender>,
    ) -> Rig {
        let (mut ports, (moves, asked)) = (Vec::new(), move_channel());
        let (handles, controllers, of_node) = match apart {
            false => {
                let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..2).map(ControllerHandle::new).unzip();
                let controllers = mailboxes.into_iter().map(|mailbox| (mailbox.lasting(), handles.clone()));
                (handles.clone(), controllers.collect::<Vec<_>>(), moves.clone())
            }
            true => two_processes(world, moves.clone()),
        };
        let mailboxes = controllers.iter().map(|(mailbox, _)| mailbox.clone()).collect();
        for (index, (mailbox, handles)) in controllers.into_iter().enumerate() {
            let moves = if index == 0 { &moves } else { &of_node };
            let mailbox = match &traces {
                Some(traces) => mailbox.tracing(traces.clone()),
                None => mailbox,
            };
            let mailbox = mailbox.moving(moves.clone());
            let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles);
            ports.push(port);
            world.spawn(run);
        }
        let mut array = Array::new(handles, TARGET);
        array.apply(config).await.expect("applied");
        Rig { array, world: world.clone(), disks, asked, ports, mailboxes }
    }

    /// Ends a controller, which closes what it has.
    pub(super) async fn end(&self, index: usize) {
        let stop = Control::Stop { grace: Duration::ZERO };
        self.array.controllers()[index].ask(stop).await.expect("stopped");
    }

    /// The node of a controller is gone: who asks for it hears that it has stopped.
    pub(super) fn lose(&self, index: usize) {
        self.mailboxes[index].close();
        self.array.controllers()[index].close();
    }

    /// What waits for a controller that has ended.
    pub(super) fn mailbox(&self, index: usize) -> &Mailbox {
        &self.mailboxes[index]
    }

    /// Another one begins in its place.
    pub(super) async fn begin(&mut self, index: usize) {
        self.start_anew(index);
        self.array.bring_up(index).await.expect("open again");
    }

    /// Another one begins that was left closed.
    pub(super) async fn begin_left(&mut self, closed: ClosedControllers) -> Result<(), ControlError> {
        self.start_anew(1);
        self.array.begin_places(closed, async || {}).await
    }

    /// Another one runs in its place, and has opened nothing yet.
    pub(super) fn start_anew(&mut self, index: usize) {
        let handles = self.array.controllers().to_vec();
        let mailbox = self.mailboxes[index].clone();
        let (port, run) = run_with_local_port(self.world.clone(), index, mailbox, handles);
        self.ports[index] = port;
        self.world.spawn(run);
    }

    /// A new session of a host at a port.
    pub(super) fn open(&self, name: &str, port: usize) -> Host {
        Host(self.ports[port].open(&format!("iqn.2026-11.test:{name}"), [0; 6]).expect("a host"))
    }

    /// A session of a host at a port, past the first unit attention of its LUs.
    pub(super) async fn host(&self, name: &str, port: usize, luns: u16) -> Host {
        self.host_on(name, port, 0..luns).await
    }

    /// The same, which has used these LUNs and no others.
    pub(super) async fn host_on(&self, name: &str, port: usize, luns: impl IntoIterator<Item = u16>) -> Host {
        let host = self.open(name, port);
        for lun in luns {
            while host.send(lun, &[0; 6], Pieces::new(), 0).await.status != Status::Good {}
        }
        host
    }

    /// Bytes that copies wrote to a volume.
    pub(super) async fn moved(&self, volume: &str) -> u64 {
        let parts = self.array.status().await.expect("a status");
        let all = parts.into_iter().flat_map(|part| part.volumes);
        all.filter(|v| v.name == volume).map(|v| v.counters.moved_bytes).sum()
    }
}

/// A controller's mailbox, and the handles that it has.
type Started = (Mailbox, Vec<ControllerHandle>);

/// Controller 1 at a node that is not the owner. The handles of the owner, the controllers, and where
/// that node's hosts ask for moves.
fn two_processes(world: &World, moves: MoveSender) -> (Vec<ControllerHandle>, Vec<Started>, MoveSender) {
    let ((here_0, at_0), (away_1, to_1)) = (ControllerHandle::new(0), ControllerHandle::new(1));
    let ((away_0, to_0), (here_1, at_1)) = (ControllerHandle::new(0), ControllerHandle::new(1));
    let ((events, _), (_, of_events)) = (event_channel(), event_channel());
    let ((refused, _), (_, of_groups)) = (async_channel::bounded(8), async_channel::bounded(8));
    let (of_node, of_moves) = move_channel();
    let told = Told::Owner { events, moves, refused };
    let owner = Rc::new(Exchange::in_one_process(vec![to_1], vec![here_0.clone()], told));
    let told = Told::Node { events: of_events, moves: of_moves, refused: of_groups };
    let node = Rc::new(Exchange::in_one_process(vec![to_0], vec![here_1.clone()], told));
    for (from, to) in [(owner.clone(), node.clone()), (node, owner)] {
        world.spawn(async move {
            while let Some(frame) = from.outgoing().await {
                to.incoming(&frame[4..]).await.expect("a valid frame");
            }
        });
    }
    let handles = vec![here_0, away_1];
    let controllers = vec![(at_0, handles.clone()), (at_1, vec![away_0, here_1])];
    (handles, controllers, of_node)
}

pub(super) struct Host(LocalSession);

impl Host {
    pub(super) async fn send(&self, lun: u16, cdb: &[u8], data_out: Pieces, data_in_max: u32) -> Response {
        let mut full = [0; 16];
        full[..cdb.len()].copy_from_slice(cdb);
        self.0.execute(Lun(lun), Request { tag: 1, ..Request::new(full, data_out, data_in_max) }).await
    }

    /// A command that arrived before.
    pub(super) async fn execute(&self, lun: u16, request: Request) -> Response {
        self.0.execute(Lun(lun), request).await
    }

    pub(super) async fn manage(&self, function: scsi::TaskFunction) -> scsi::TaskOutcome {
        self.0.manage(function).await
    }

    /// Ends the session while its commands run.
    pub(super) fn end(&self) {
        self.0.end();
    }

    pub(super) async fn transfer(&self, opcode: u8, lun: u16, at: u64, data: Pieces, len: u64) -> Pieces {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb[2..10].copy_from_slice(&(at / BLOCK).to_be_bytes());
        cdb[10..14].copy_from_slice(&((len / BLOCK) as u32).to_be_bytes());
        let response = self.send(lun, &cdb, data, len as u32).await;
        assert_eq!(response.status, Status::Good, "{:02x?}", response.sense);
        response.data_in
    }

    /// The NAA designator, from VPD page 83h.
    pub(super) async fn naa(&self, lun: u16) -> [u8; 16] {
        let page = self.send(lun, &[0x12, 1, 0x83, 4, 0, 0], Pieces::new(), 1024).await.data_in.joined();
        let mut rest = &page[4..];
        while (rest[0] & 0x0f, rest[1] & 0x3f, rest[3]) != (1, 3, 16) {
            rest = &rest[4 + usize::from(rest[3])..];
        }
        *rest[4..].first_chunk().expect("16 bytes")
    }

    /// How a command without data-out ended: its status, and sense key with code.
    pub(super) async fn outcome(&self, lun: u16, cdb: &[u8]) -> (Status, Option<(u8, u16)>) {
        outcome(&self.send(lun, cdb, Pieces::new(), 4096).await)
    }
}

/// The status, and sense key with code.
pub(super) fn outcome(response: &Response) -> (Status, Option<(u8, u16)>) {
    let sense = &response.sense;
    let code = (sense.len() > 13).then(|| (sense[2] & 15, u16::from_be_bytes([sense[12], sense[13]])));
    (response.status, code)
}
