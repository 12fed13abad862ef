//! Two controllers, each with a pool and two volumes, as hosts see them through a port of either.

use std::collections::BTreeMap;
use std::time::Duration;

use block::Pieces;
use scsi::{Request, Response, Status};
use world::World;
use world_model::Disks;

use super::rig::{TARGET, VOLUME_BYTES, declaration, drive, group, model};
use crate::config::{HostConfig, Level, PoolConfig, VolumeConfig};
use crate::{
    Array, Config, Control, ControllerHandle, LocalPort, LocalSession, Lun, Mailbox, MoveReceiver,
    TraceSender, move_channel, run_with_local_port,
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
    /// Of controllers that can begin anew.
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
    pub(super) fn run<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
        Rig::run_with(config(), None, test);
    }

    /// The same with another declaration, and with traces that go there.
    pub(super) fn run_with<F: Future<Output = ()>>(
        config: Config,
        traces: Option<TraceSender>,
        test: impl FnOnce(Rig) -> F,
    ) {
        let model = model(9, 3);
        let disks = model.disks().clone();
        let mailboxes = (0..2).map(ControllerHandle::new).collect();
        model.run(async |world| test(Rig::start(&world, disks, (config, traces), mailboxes).await).await);
    }

    /// The same with controllers that can begin anew.
    pub(super) fn run_lasting<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
        let (model, config) = (model(9, 3), config());
        let disks = model.disks().clone();
        let mailboxes = (0..2).map(ControllerHandle::new).map(|(handle, own)| (handle, own.lasting()));
        let mailboxes = mailboxes.collect();
        model.run(async |world| test(Rig::start(&world, disks, (config, None), mailboxes).await).await);
    }

    async fn start(
        world: &World,
        disks: Disks,
        (config, traces): (Config, Option<TraceSender>),
        mailboxes: Vec<(ControllerHandle, Mailbox)>,
    ) -> Rig {
        let (handles, mailboxes): (Vec<_>, Vec<_>) = mailboxes.into_iter().unzip();
        let (mut ports, (moves, asked)) = (Vec::new(), move_channel());
        for (index, mailbox) in mailboxes.iter().cloned().enumerate() {
            let mailbox = match &traces {
                Some(traces) => mailbox.tracing(traces.clone()),
                None => mailbox,
            };
            let mailbox = mailbox.moving(moves.clone());
            let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles.clone());
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

    /// What waits for a controller that has ended.
    pub(super) fn mailbox(&self, index: usize) -> &Mailbox {
        &self.mailboxes[index]
    }

    /// Another one begins in its place.
    pub(super) async fn begin(&mut self, index: usize) {
        let handles = self.array.controllers().to_vec();
        let mailbox = self.mailboxes[index].clone();
        let (port, run) = run_with_local_port(self.world.clone(), index, mailbox, handles);
        self.ports[index] = port;
        self.world.spawn(run);
        self.array.bring_up(index).await.expect("open again");
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
