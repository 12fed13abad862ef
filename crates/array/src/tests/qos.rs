//! What volumes are promised, on modelled drives: ten hosts with a write of 512 KiB out each, while policies
//! come and go.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::config::Level;
use crate::config::Provisioning;
use block::{Buf, Data, Pieces};
use lu::{CommandContext, Durability, LogicalDisk};
use qos::Policy;
use scsi::{Request, Response, Status};
use vdisk::vhdx::{Guid, NewVhdx, create};
use world::{DriveSpec, Instant, World};
use world_model::drives::catalogue::CHEETAH_15K5;
use world_model::{DiskSpec, Model};

use super::rig::{declaration, group};
use crate::config::{HostConfig, ImageConfig, PolicyConfig, QosSettings, Sharing, VolumeConfig};
use crate::{Array, Config, ControllerHandle, Event, LocalPort, LocalSession, Lun, run_with_local_port};

const NOBODY: CommandContext<'static> = CommandContext::DETACHED;
const DRIVES: usize = 10;
const HOSTS: usize = 10;
const WRITE_BYTES: u64 = 512 << 10;
const LU_BYTES: u64 = 1 << 30;
const UNIT_BYTES: u64 = 8192;
const SECOND: Duration = Duration::from_secs(1);

/// Ten drives with platters in pairs, one pool, a volume for each host.
fn config() -> Config {
    let mut config = declaration(1, DRIVES, vec![group("g", Level::Raid10, 0..DRIVES)]);
    config.groups[0].stripe_unit_bytes = 64 << 10;
    config.pools[0].page_bytes = 16 << 20;
    let name = |i: usize| format!("v{i}");
    let volume = |i: usize| VolumeConfig {
        name: name(i),
        len_bytes: LU_BYTES,
        provisioning: Provisioning::Thick,
        ..config.volumes[0].clone()
    };
    let host =
        |i: usize| HostConfig::new(format!("h{i}"), format!("iqn.2026-11.test:h{i}"), [(0, name(i))].into());
    let hosts = (0..HOSTS).map(host).collect();
    config.volumes = (0..HOSTS).map(volume).collect();
    Config { hosts, portals: vec![], ..config }
}

/// A policy, and the volumes, or else the images, that have it.
fn with(config: &Config, policies: &[(Policy, Sharing, std::ops::Range<usize>)]) -> Config {
    let mut config = config.clone();
    config.policies.clear();
    config.volumes.iter_mut().for_each(|v| v.policy = None);
    config.images.iter_mut().for_each(|i| i.policy = None);
    for (i, (policy, sharing, volumes)) in policies.iter().enumerate() {
        let name = format!("p{i}");
        for i in volumes.clone() {
            match config.volumes.get_mut(i) {
                Some(volume) => volume.policy = Some(name.clone()),
                None => config.images[i].policy = Some(name.clone()),
            }
        }
        config.policies.push(PolicyConfig { sharing: *sharing, ..PolicyConfig::new(name, *policy) });
    }
    config
}

pub(super) fn minimum(minimum_iops: u64) -> Policy {
    Policy { minimum_iops, ..Policy::none() }
}

pub(super) fn maximum(maximum_iops: u64) -> Policy {
    Policy { maximum_iops: Some(maximum_iops), ..Policy::none() }
}

/// What hosts wrote: when, who.
#[derive(Default)]
struct Written {
    all: RefCell<Vec<(Instant, usize)>>,
    stop: Cell<bool>,
    running: Cell<usize>,
}

impl Written {
    /// Units per second of a host since `from`.
    fn rate(&self, host: usize, from: Instant, to: Instant) -> u64 {
        let all = self.all.borrow();
        let count = all.iter().filter(|(at, h)| *h == host && (from..to).contains(at)).count() as u64;
        count * WRITE_BYTES / UNIT_BYTES * 1_000_000_000 / to.since(from).as_nanos() as u64
    }
}

fn request(opcode: u8, at: u64, len: u64, data: Option<&Data>, tag: u64) -> Request {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
    cdb[10..14].copy_from_slice(&((len / 512) as u32).to_be_bytes());
    let data_out = data.map_or_else(Pieces::new, |data| data.clone().into());
    Request { tag, ..Request::new(cdb, data_out, len as u32) }
}

/// A command until it is not answered with a unit attention.
async fn execute(session: &LocalSession, request: impl Fn() -> Request) -> Response {
    loop {
        let response = session.execute(Lun(0), request()).await;
        if response.status == Status::Good || response.sense.get(2).map(|key| key & 0x0f) != Some(6) {
            return response;
        }
    }
}

/// Writes at random places, one after the other, until it is told to stop.
async fn writer_task(
    (world, session): (World, LocalSession),
    host: usize,
    lu_bytes: u64,
    written: Rc<Written>,
) {
    let data = Buf::zeroed(WRITE_BYTES as usize).freeze();
    let mut rng = world.random(&format!("host {host}"));
    let mut tag = 0;
    while !written.stop.get() {
        tag += 1;
        let at = rng.u64(..lu_bytes / WRITE_BYTES) * WRITE_BYTES;
        let response = execute(&session, || request(0x8a, at, WRITE_BYTES, Some(&data), tag)).await;
        assert_eq!(response.status, Status::Good, "{:02x?}", response.sense);
        written.all.borrow_mut().push((world.now(), host));
    }
    written.running.set(written.running.get() - 1);
}

/// An array with hosts that write.
struct Bench {
    world: World,
    array: Array,
    port: LocalPort,
    config: Config,
    lu_bytes: u64,
    written: Rc<Written>,
}

impl Bench {
    async fn start(world: World, config: Config, lu_bytes: u64) -> Bench {
        let (handle, mailbox) = ControllerHandle::new(0);
        let (port, run) = run_with_local_port(world.clone(), 0, mailbox, vec![handle.clone()]);
        world.spawn(run);
        let mut array = Array::new(vec![handle], &config.target);
        array.apply(config.clone()).await.expect("an array");
        Bench { world, array, port, config, lu_bytes, written: Rc::default() }
    }

    fn session(&self, host: usize) -> LocalSession {
        self.port.open(&format!("iqn.2026-11.test:h{host}"), [0; 6]).expect("a session")
    }

    fn write(&self, hosts: std::ops::Range<usize>) {
        for host in hosts {
            self.written.running.set(self.written.running.get() + 1);
            let task = writer_task(
                (self.world.clone(), self.session(host)),
                host,
                self.lu_bytes,
                self.written.clone(),
            );
            self.world.spawn(task);
        }
    }

    /// Puts policies in force, and gives the rates of all hosts from 5 s later on.
    async fn phase(&mut self, policies: &[(Policy, Sharing, std::ops::Range<usize>)]) -> Vec<u64> {
        self.array.apply(with(&self.config, policies)).await.expect("policies");
        self.world.sleep(5 * SECOND).await;
        let from = self.world.now();
        self.world.sleep(25 * SECOND).await;
        let to = self.world.now();
        let rates: Vec<u64> =
            (0..self.config.hosts.len()).map(|host| self.written.rate(host, from, to)).collect();
        println!("{rates:?}: {} in sum", rates.iter().sum::<u64>());
        rates
    }

    async fn stop(self) {
        self.written.stop.set(true);
        while self.written.running.get() > 0 {
            self.world.sleep(SECOND / 100).await;
        }
        self.array.stop().await.expect("stopped");
    }
}

fn run(check: impl AsyncFnOnce(Bench)) {
    let model = Model::new(1);
    for i in 0..DRIVES {
        let spec = DiskSpec::mechanical(&CHEETAH_15K5).with_len_bytes(4 << 30).without_content();
        model.disk(&format!("d{i}"), spec);
    }
    model.run(async |world| check(Bench::start(world, config(), LU_BYTES).await).await);
}

#[test]
fn minimums_and_maximums_hold_on_drives_with_platters_while_policies_come_and_go() {
    run(async |mut bench| {
        bench.write(0..HOSTS);
        let free = bench.phase(&[]).await;
        let all: u64 = free.iter().sum();
        let even = all / HOSTS as u64;
        // Drives choose what is near: without a policy hosts differ by some percent.
        free.iter().for_each(|rate| assert!(rate.abs_diff(even) * 5 < even, "{rate} of {even}"));
        let own = Sharing::Dedicated;
        let limited = bench.phase(&[(maximum(even / 4), own, 0..5)]).await;
        (0..5).for_each(|h| assert!(limited[h] <= even / 4 && limited[h] * 100 >= even / 4 * 97));
        (5..10).for_each(|h| assert!(limited[h] > even, "the others rise: {}", limited[h]));
        let promised = bench.phase(&[(minimum(even * 2), own, 0..3), (maximum(even / 4), own, 3..5)]).await;
        (0..3).for_each(|h| assert!(promised[h] * 100 >= even * 2 * 98, "host {h}: {}", promised[h]));
        (3..5).for_each(|h| assert!(promised[h] <= even / 4));
        let shared = bench.phase(&[(maximum(even), Sharing::Aggregated, 0..4)]).await;
        let of_set: u64 = shared[..4].iter().sum();
        assert!(of_set <= even && of_set * 100 >= even * 97, "{of_set} of {even}");
        let after = bench.phase(&[]).await;
        after.iter().for_each(|rate| assert!(rate.abs_diff(even) * 5 < even, "{rate} of {even}"));
        bench.stop().await;
    });
}

const IMAGE_BYTES: u64 = 64 << 20;

/// Three images in files of their own, and so a scheduler with as many requests at once as there are for
/// each.
fn config_of_images() -> Config {
    let name = |i: usize| format!("i{i}");
    let image = |i: usize| ImageConfig::new(name(i), DriveSpec::Modelled { name: name(i) });
    let host =
        |i: usize| HostConfig::new(format!("h{i}"), format!("iqn.2026-11.test:h{i}"), [(0, name(i))].into());
    Config {
        images: (0..3).map(image).collect(),
        hosts: (0..3).map(host).collect(),
        qos: QosSettings { depth_max: 1, ..QosSettings::default() },
        volumes: vec![],
        pools: vec![],
        portals: vec![],
        ..declaration(1, 0, vec![])
    }
}

#[test]
fn images_of_a_controller_keep_to_policies_that_come_and_go() {
    let model = Model::new(1);
    for i in 0..3 {
        model.disk(&format!("i{i}"), DiskSpec::mechanical(&CHEETAH_15K5).with_len_bytes(128 << 20));
    }
    model.run(async |world| {
        for i in 0..3 {
            let drive = world.open_now(&DriveSpec::Modelled { name: format!("i{i}") }).expect("opens");
            create(&drive, &NewVhdx::new(IMAGE_BYTES, [1, 2, 3].map(|n| Guid([n; 16])))).await.expect("made");
        }
        let mut bench = Bench::start(world, config_of_images(), IMAGE_BYTES).await;
        bench.write(0..3);
        let own = Sharing::Dedicated;
        let free = bench.phase(&[]).await;
        // One request at a time for all three, and twice what the others get for the first.
        let held = bench.phase(&[(Policy { weight: 200, ..Policy::none() }, own, 0..1)]).await;
        let sum: u64 = held.iter().sum();
        assert!(held[0].abs_diff(sum / 2) * 50 < sum && held[1].abs_diff(sum / 4) * 50 < sum, "{held:?}");
        assert!(sum < free.iter().sum::<u64>(), "without a policy nobody waits: {free:?}, {held:?}");
        let limited = sum / 10;
        let promised =
            bench.phase(&[(minimum(sum * 6 / 10), own, 0..1), (maximum(limited), own, 1..2)]).await;
        assert!(promised[0] * 100 >= sum * 6 / 10 * 97, "{promised:?} of {sum}");
        assert!(promised[1] <= limited && promised[1] * 100 >= limited * 97, "{promised:?} of {sum}");
        let status = bench.array.status().await.expect("status").remove(0);
        let served = status.images[1].state.as_ref().expect("served");
        assert_eq!(served.qos.policy.as_deref(), Some("p1"));
        assert!(served.qos.charged_bytes > 0);
        assert_eq!((status.schedulers.len(), &status.schedulers[0].pool), (1, &None));
        let after = bench.phase(&[]).await;
        assert!(after[1] > 2 * limited, "the policy is gone: {after:?}");
        bench.stop().await;
    });
}

#[test]
fn a_minimum_that_is_not_kept_is_told_within_a_minute_and_its_recovery_too() {
    run(async |mut bench| {
        bench.write(0..HOSTS);
        let free = bench.phase(&[]).await;
        let even = free.iter().sum::<u64>() / HOSTS as u64;
        let own = Sharing::Dedicated;
        bench.phase(&[(minimum(even * 3), own, 0..HOSTS)]).await;
        let lines = bench.array.apply(with(&bench.config, &[(minimum(even * 3), own, 0..HOSTS)])).await;
        let lines = lines.expect("applied again");
        assert!(lines.iter().any(|l| l.starts_with("warning: pool p: the minimums are")), "{lines:?}");
        let status = bench.array.status().await.expect("status").remove(0);
        let told = |events: &[Event], what: &str| events.iter().filter(|e| e.text.contains(what)).count();
        assert_eq!(told(&status.events, "minimum violated"), HOSTS, "{:?}", status.events);
        // The measured capacity settles with the load: that may be told once more.
        let (over, no_longer) = (
            told(&status.events, "are over-committed: all"),
            told(&status.events, "no longer over-committed"),
        );
        assert!(over == no_longer + 1 && over <= 2, "{:?}", status.events);
        let scheduler = &status.schedulers[0];
        assert!(
            scheduler.capacity_is_full && (200..500).contains(&scheduler.scale_permille),
            "{scheduler:?}"
        );
        for volume in &status.volumes {
            assert!(volume.qos.state == "below_minimum", "{:?}", volume.qos);
        }
        let fits = with(&bench.config, &[(minimum(even / 2), own, 0..HOSTS)]);
        bench.array.apply(fits).await.expect("applied");
        bench.world.sleep(60 * SECOND).await;
        let status = bench.array.status().await.expect("status").remove(0);
        assert_eq!(told(&status.events, "minimum met again"), HOSTS, "{:?}", status.events);
        assert!(status.volumes.iter().all(|v| v.qos.state == "ok"));
        let mut unknown = with(&bench.config, &[]);
        unknown.volumes[0].policy = Some("nobody".to_owned());
        bench.array.apply(unknown).await.expect("applied");
        let status = bench.array.status().await.expect("status").remove(0);
        assert_eq!(status.volumes[0].qos.state, "unknown_policy");
        bench.stop().await;
    });
}

#[test]
fn what_waits_ends_when_it_is_aborted_and_when_its_session_ends() {
    run(async |mut bench| {
        let own = Sharing::Dedicated;
        // A unit in a second: the second write waits for a minute.
        bench.array.apply(with(&bench.config, &[(maximum(1), own, 0..1)])).await.expect("applied");
        let session = Rc::new(bench.session(0));
        let data = Buf::zeroed(WRITE_BYTES as usize).freeze();
        execute(&session, || request(0x8a, 0, WRITE_BYTES, Some(&data), 1)).await;
        let began = bench.world.now();
        let answered = Rc::new(Cell::new(0));
        for tag in 2..10 {
            let (session, data, answered) = (session.clone(), data.clone(), answered.clone());
            bench.world.spawn(async move {
                // Each at a place of its own: overlapping writes would wait for each other.
                let write = request(0x8a, tag * WRITE_BYTES, WRITE_BYTES, Some(&data), tag);
                session.execute(Lun(0), write).await;
                answered.set(answered.get() + 1);
            });
        }
        bench.world.sleep(SECOND).await;
        let status = bench.array.status().await.expect("status").remove(0);
        assert_eq!((answered.get(), status.schedulers[0].waiting), (0, 8));
        session.manage(scsi::TaskFunction::LunReset(Lun(0))).await;
        assert_eq!(answered.get(), 8);
        assert!(bench.world.now().since(began) < 2 * SECOND);
        let status = bench.array.status().await.expect("status").remove(0);
        assert_eq!(status.schedulers[0].waiting, 0);
        // Its policy gone, it is served at once.
        bench.array.apply(bench.config.clone()).await.expect("applied");
        let response = execute(&session, || request(0x88, 0, 4096, None, 20)).await;
        assert_eq!(response.status, Status::Good);
        bench.stop().await;
    });
}

#[test]
fn work_in_the_background_neither_starves_nor_starves_others() {
    run(async |mut bench| {
        bench.write(0..HOSTS);
        let even = bench.phase(&[]).await.iter().sum::<u64>() / HOSTS as u64;
        bench.array.scrub("g").await.expect("it begins");
        let rates = bench.phase(&[(minimum(even), Sharing::Dedicated, 0..3)]).await;
        (0..3).for_each(|h| assert!(rates[h] * 100 >= even * 98, "host {h}: {} of {even}", rates[h]));
        (3..HOSTS).for_each(|h| assert!(rates[h] > 0, "host {h} starves"));
        let status = bench.array.status().await.expect("status").remove(0);
        let scrubbed = status.schedulers[0].background_bytes;
        println!("{} units in a second for the scrub", scrubbed / UNIT_BYTES / 30);
        // What is promised to it when nobody says otherwise.
        assert!(scrubbed >= 1280 * UNIT_BYTES * 30 * 95 / 100, "{scrubbed} bytes in 30 s");
        bench.stop().await;
    });
}

#[test]
fn copies_are_charged_by_what_moves() {
    run(async |mut bench| {
        let own = Sharing::Dedicated;
        for volume in &mut bench.config.volumes[..3] {
            volume.provisioning = Provisioning::Thin;
            volume.name = format!("thin-{}", volume.name);
        }
        (0..3).for_each(|i| bench.config.hosts[i].luns = [(0, format!("thin-v{i}"))].into());
        bench.array.apply(with(&bench.config, &[(minimum(10), own, 0..3)])).await.expect("applied");
        let disk = |name: &str| bench.port.0.state().lus[name].disk().clone();
        let (from, to) = (disk("thin-v0"), disk("thin-v1"));
        let charged = || to.gate().counts().charged_bytes;
        let mib = Pieces::from(Buf::zeroed(1 << 20).freeze());
        for at in (0..64 << 20).step_by(1 << 20) {
            from.write(NOBODY, at, &mib, Durability::Volatile).await.expect("written");
        }
        let before = charged();
        let copied = to.copy_from(NOBODY, &from, 0, 0, 64 << 20).await.expect("copied");
        assert_eq!((copied.shared_bytes, copied.moved_bytes), (64 << 20, 0));
        // Four pages of 16 MiB.
        assert_eq!(charged() - before, 4 * UNIT_BYTES);
        let before = charged();
        let copied = to.copy_from(NOBODY, &from, 0, 1 << 20, 8 << 20).await.expect("copied");
        assert_eq!((copied.shared_bytes, copied.moved_bytes), (0, 8 << 20));
        assert_eq!(charged() - before, 2 * (8 << 20));
        drop((from, to));
        bench.stop().await;
    });
}

#[test]
fn an_operation_that_passes_a_gate_allocates_nothing() {
    run(async |mut bench| {
        let own = Sharing::Dedicated;
        bench.array.apply(with(&bench.config, &[(minimum(10), own, 0..1)])).await.expect("applied");
        let disk = bench.port.0.state().lus["v0"].disk().clone();
        let gate = disk.gate().clone();
        assert!(!gate.is_open());
        let pass = || {
            for _ in 0..1000 {
                drop(futures::executor::block_on(gate.enter(NOBODY, 4096)).expect("it passes"));
            }
        };
        pass();
        assert_eq!(allocation_counter::measure(pass).count_total, 0);
        drop((disk, gate));
        bench.stop().await;
    });
}

/// A WRITE SAME of a GiB is charged what it costs: pages that are only given back next to nothing.
#[test]
fn offloads_are_charged_the_drive_io_that_they_cause() {
    run(async |mut bench| {
        bench.config.volumes[0].provisioning = Provisioning::Thin;
        bench.config.volumes[0].name = "thin".to_owned();
        bench.config.hosts[0].luns = [(0, "thin".to_owned())].into();
        bench.array.apply(bench.config.clone()).await.expect("a thin volume");
        let own = Sharing::Dedicated;
        bench.array.apply(with(&bench.config, &[(minimum(10), own, 0..2)])).await.expect("applied");
        let charged = async |bench: &Bench, name: &str| {
            let status = bench.array.status().await.expect("status").remove(0);
            let volume = status.volumes.into_iter().find(|v| v.name == name).expect("it is there");
            volume.qos.charged_bytes
        };
        let block = Buf::zeroed(512).freeze();
        let same = |len| request(0x93, 0, len, Some(&block), 1);
        for (host, name, least, most) in [(0, "thin", 1, 128 * UNIT_BYTES), (1, "v1", LU_BYTES, LU_BYTES)] {
            let session = bench.session(host);
            let before = charged(&bench, name).await;
            let response = execute(&session, || same(LU_BYTES)).await;
            assert_eq!(response.status, Status::Good, "{:02x?}", response.sense);
            let cost = charged(&bench, name).await - before;
            assert!((least..=most).contains(&cost), "zeroing 1 GiB of {name} cost {cost} bytes");
        }
        bench.stop().await;
    });
}
