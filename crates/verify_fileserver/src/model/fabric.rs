//! What servers share: the machines that they are on, the controllers of the array with their ports.

use std::cell::{Cell, RefCell};

use world::{Buf, Data, Instant, World};
use world_model::Link;
use world_model::station::Station;

use super::super::scenario::Fileserver;
use lab_core::quantity::Time;

/// What a command takes of a port beside its data, and its response: the headers of the frames that they
/// stand for.
pub(super) const COMMAND_BYTES: u64 = 48;
/// The longest command: that of the largest transfer of a scenario, with what a block of a virtual disk makes
/// of it.
pub(super) const COMMAND_BYTES_MAX: u64 = 4 << 20;

/// Nanoseconds of a time.
pub(super) fn ns(time: Time) -> u64 {
    time.0.as_nanos() as u64
}

/// A machine with servers on it.
pub(super) struct Host {
    pub(super) processors: RefCell<Station>,
    /// What the root partition did on them.
    pub(super) root_ns: Cell<u64>,
}

/// A controller of the array, with its port.
pub(super) struct Controller {
    pub(super) cores: RefCell<Station>,
    pub(super) inbound: RefCell<Station>,
    pub(super) outbound: RefCell<Station>,
}

/// What servers share.
pub(super) struct Fabric {
    pub(super) world: World,
    pub(super) hosts: Vec<Host>,
    pub(super) controllers: Vec<Controller>,
    link: Link,
    pub(super) costs: Costs,
    pub(super) zeros: Data,
    /// Whether a new block of a VHD is written full of zeros first.
    pub(super) zeroes_blocks: bool,
}

/// In nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) io: u64,
    pub(super) lookup: u64,
    pub(super) command: u64,
    pub(super) per_kib: u64,
}

impl Fabric {
    pub(super) fn new(scenario: &Fileserver, world: &World, hosts: usize) -> Fabric {
        let (host, controller) = (&scenario.host, &scenario.controller);
        let station = |servers: u32| RefCell::new(Station::new(servers as usize));
        let new_host = |_| Host { processors: station(host.cores), root_ns: Cell::default() };
        let new_controller =
            |_| Controller { cores: station(controller.cores), inbound: station(1), outbound: station(1) };
        Fabric {
            world: world.clone(),
            hosts: (0..hosts).map(new_host).collect(),
            controllers: (0..scenario.array.controllers).map(new_controller).collect(),
            link: scenario.fabric(),
            costs: Costs {
                io: ns(host.io),
                lookup: ns(host.lookup),
                command: ns(controller.command),
                per_kib: ns(controller.per_kib),
            },
            zeroes_blocks: host.zeroes_blocks,
            zeros: Buf::shared_zeros(COMMAND_BYTES_MAX as usize).freeze(),
        }
    }

    /// Waits until a station has done work that comes now.
    pub(super) async fn at(&self, station: &RefCell<Station>, work_ns: u64) {
        let end = station.borrow_mut().serve(self.world.now().0, work_ns);
        self.world.sleep_until(Instant(end)).await;
    }

    pub(super) async fn cross(&self, direction: &RefCell<Station>, bytes: u64) {
        let end = direction.borrow_mut().serve(self.world.now().0, self.link.wire_ns(bytes));
        self.world.sleep_until(Instant(end) + self.link.latency).await;
    }
}
