//! An array in the model world: ten drives with platters in pairs, one pool, a volume and a host for each VM.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use array::config::{
    ArrayId, DriveConfig, GroupConfig, HostConfig, Level, Policy, PolicyConfig, PoolConfig, Provisioning,
    VolumeConfig,
};
use array::status::{ControllerStatus, PoolScheduler};
use array::{Array, Config, ControllerHandle, DriveSpec, LocalPort, LocalSession, Lun, run_with_local_port};
use block::{Buf, Data, Pieces};
use scsi::{Request, Response, Status};
use world::World;
use world_model::drives::catalogue::CHEETAH_15K5;
use world_model::{DiskSpec, Model};

use super::bars::SECOND_NS;
use super::draw::Load;

const DRIVES: usize = 10;
const VOLUME_BYTES: u64 = 2 << 30;
/// Forty volumes on five pairs, and labels.
const DRIVE_BYTES: u64 = 18 << 30;
/// How often a request that is not to be sent asks whether it may.
const PAUSE: Duration = Duration::from_millis(10);
const TARGET: &str = "iqn.2026-11.test:sets";

/// A response: when it came, and how long the request took.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(crate) at_ns: u64,
    pub(crate) took_ns: u64,
}

/// A VM and what it was served.
pub(crate) struct Guest {
    pub(crate) load: Load,
    pub(crate) done: RefCell<Vec<Done>>,
    is_stopped: Cell<bool>,
    running: Cell<u64>,
    /// Of its outstanding requests, those that it sends.
    active: Cell<u64>,
}

/// An array whose VMs keep their requests outstanding.
pub(crate) struct Bed {
    world: World,
    array: Array,
    _port: LocalPort,
    config: Config,
    pub(crate) guests: Vec<Rc<Guest>>,
}

/// Runs VMs with these loads on an array of their own.
pub(crate) fn run<T>(seed: u64, loads: &[Load], judge: impl AsyncFnOnce(&mut Bed) -> T) -> T {
    let model = Model::new(seed);
    for i in 0..DRIVES {
        let spec = DiskSpec::mechanical(&CHEETAH_15K5).with_len_bytes(DRIVE_BYTES).without_content();
        model.disk(&format!("d{i}"), spec);
    }
    model.run(async |world| {
        let mut bed = Bed::start(world, loads).await;
        let result = judge(&mut bed).await;
        bed.stop().await;
        result
    })
}

fn volume(vm: usize) -> String {
    format!("v{vm}")
}

fn initiator(vm: usize) -> String {
    format!("iqn.2026-11.test:h{vm}")
}

/// RAID 1+0 of ten drives with a stripe unit of 256 KiB, as the scenario of the published experiment has it.
fn declaration(vms: usize) -> Config {
    let drive = |i: usize| format!("d{i}");
    let of_volume = |vm: usize| VolumeConfig {
        provisioning: Provisioning::Thick,
        ..VolumeConfig::new(volume(vm), "p".into(), VOLUME_BYTES)
    };
    let host = |vm: usize| HostConfig::new(format!("h{vm}"), initiator(vm), [(0, volume(vm))].into());
    let drives = (0..DRIVES)
        .map(|i| DriveConfig { name: drive(i), spec: DriveSpec::Modelled { name: drive(i) } })
        .collect();
    let group = GroupConfig {
        stripe_unit_bytes: 256 << 10,
        ..GroupConfig::new("g".into(), Level::Raid10, (0..DRIVES).map(drive).collect())
    };
    let pool = PoolConfig {
        page_bytes: 16 << 20,
        placement: false,
        ..PoolConfig::new("p".into(), vec!["g".into()])
    };
    Config {
        id: ArrayId([7; 16]),
        drives,
        groups: vec![group],
        pools: vec![pool],
        volumes: (0..vms).map(of_volume).collect(),
        hosts: (0..vms).map(host).collect(),
        ..Config::empty(TARGET)
    }
}

impl Bed {
    async fn start(world: World, loads: &[Load]) -> Bed {
        let (handle, mailbox) = ControllerHandle::new(0);
        let (port, run) = run_with_local_port(world.clone(), 0, mailbox, vec![handle.clone()]);
        world.spawn(run);
        let config = declaration(loads.len());
        let mut array = Array::new(vec![handle], TARGET);
        array.apply(config.clone()).await.expect("an array");
        let mut guests = Vec::new();
        for (vm, load) in loads.iter().enumerate() {
            let session = Rc::new(port.open(&initiator(vm), [0; 6]).expect("a session"));
            notice_attentions(&session).await;
            let guest = Rc::new(Guest {
                load: *load,
                done: RefCell::default(),
                is_stopped: Cell::new(false),
                running: Cell::new(load.outstanding),
                active: Cell::new(load.outstanding),
            });
            for number in 0..load.outstanding {
                world.spawn(guest_task(world.clone(), session.clone(), guest.clone(), (vm, number)));
            }
            guests.push(guest);
        }
        Bed { world, array, _port: port, config, guests }
    }

    pub(crate) fn now(&self) -> u64 {
        self.world.now().0
    }

    pub(crate) async fn pass(&self, time_ns: u64) {
        self.world.sleep(Duration::from_nanos(time_ns)).await;
    }

    /// Lets the VMs have so many requests outstanding in total, as evenly as they ask for it.
    pub(crate) fn limit_outstanding(&self, total: u64) {
        let with = |each: u64| self.guests.iter().map(move |guest| guest.load.outstanding.min(each));
        let most = self.guests.iter().map(|guest| guest.load.outstanding).max().unwrap_or(1);
        let each = (1..=most).take_while(|each| with(*each).sum::<u64>() <= total).last().unwrap_or(1);
        self.guests.iter().zip(with(each)).for_each(|(guest, active)| guest.active.set(active));
    }

    /// Puts policies in force, one for each VM that is promised anything.
    pub(crate) async fn set_policies(&mut self, policies: &[Policy]) {
        let mut config = self.config.clone();
        for (vm, policy) in policies.iter().enumerate().filter(|(_, policy)| !policy.is_none()) {
            config.policies.push(PolicyConfig::new(volume(vm), *policy));
            config.volumes[vm].policy = Some(volume(vm));
        }
        self.array.apply(config).await.expect("policies");
    }

    pub(crate) async fn status(&self) -> ControllerStatus {
        self.array.status().await.expect("status").remove(0)
    }

    pub(crate) async fn scheduler(&self) -> PoolScheduler {
        self.status().await.schedulers.remove(0)
    }

    /// How long requests of each VM have waited for their turn, since the beginning.
    pub(crate) async fn waited_ns(&self) -> Vec<u64> {
        let volumes = self.status().await.volumes;
        let of = |vm: usize| volumes.iter().find(|v| v.name == volume(vm)).expect("its volume").qos.waited_us;
        (0..self.guests.len()).map(|vm| of(vm) * 1000).collect()
    }

    async fn stop(mut self) {
        self.guests.iter().for_each(|guest| guest.is_stopped.set(true));
        while self.guests.iter().any(|guest| guest.running.get() > 0) {
            self.set_policies(&[]).await;
            self.pass(SECOND_NS / 10).await;
        }
        self.array.stop().await.expect("stopped");
    }
}

fn request(opcode: u8, at: u64, len: u64, data_out: Pieces, tag: u64) -> Request {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
    cdb[10..14].copy_from_slice(&((len / 512) as u32).to_be_bytes());
    Request { tag, ..Request::new(cdb, data_out, len as u32) }
}

/// What a LU reports first.
async fn notice_attentions(session: &LocalSession) {
    let is_good = |response: Response| response.status == Status::Good;
    while !is_good(session.execute(Lun(0), request(0x00, 0, 0, Pieces::new(), 1)).await) {}
}

/// One outstanding request of a VM, again and again.
async fn guest_task(world: World, session: Rc<LocalSession>, guest: Rc<Guest>, (vm, number): (usize, u64)) {
    let Load { bytes, reads, .. } = guest.load;
    let data: Data = Buf::zeroed(if reads { 0 } else { bytes as usize }).freeze();
    let mut rng = world.random(&format!("VM {vm}, request {number}"));
    while !guest.is_stopped.get() {
        if number >= guest.active.get() {
            world.sleep(PAUSE).await;
            continue;
        }
        let at = rng.u64(..VOLUME_BYTES / bytes) * bytes;
        let from = world.now();
        let request = match reads {
            true => request(0x88, at, bytes, Pieces::new(), number + 2),
            false => request(0x8a, at, bytes, data.clone().into(), number + 2),
        };
        let response = session.execute(Lun(0), request).await;
        assert_eq!(response.status, Status::Good, "{:02x?}", response.sense);
        let at_ns = world.now().0;
        guest.done.borrow_mut().push(Done { at_ns, took_ns: at_ns - from.0 });
    }
    guest.running.set(guest.running.get() - 1);
}
