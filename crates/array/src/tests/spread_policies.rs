//! Aggregated policies whose volumes are in the pools of several controllers, while hosts write.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use block::{Buf, Pieces};
use qos::{Found, Policy};
use scsi::{Request, Status};
use world::{Instant, World};
use world_model::drives::catalogue::CHEETAH_15K5;
use world_model::{DiskSpec, Model};

use super::qos::{maximum, minimum};
use super::rig::{TARGET, declaration, drive, group};
use crate::config::{HostConfig, Level, PolicyConfig, PoolConfig, Provisioning, Sharing, VolumeConfig};
use crate::control::{Control, PlaceParts, Reply};
use crate::place::Place;
use crate::status::ControllerStatus;
use crate::{Array, Config, ControllerHandle, LocalPort, LocalSession, Lun, Mailbox, run_with_local_port};

const LU_BYTES: u64 = 64 << 20;
const WRITE_BYTES: u64 = 64 << 10;
const UNIT_BYTES: u64 = 8192;
const SECOND: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;
/// Writes that each volume has outstanding.
const OUTSTANDING: u64 = 8;

/// A controller with a pool on two drives each, and a volume of the policy and one without in each pool.
fn config(controllers: usize) -> Config {
    let groups = (0..controllers).map(|n| group(&format!("g{n}"), Level::Raid0, 2 * n..2 * n + 2)).collect();
    let mut config = declaration(3, 0, groups);
    let pool = |n: usize| PoolConfig {
        page_bytes: 16 << 20,
        controller: n,
        ..PoolConfig::new(format!("p{n}"), vec![format!("g{n}")])
    };
    let volume = |name: String, n: usize| VolumeConfig {
        provisioning: Provisioning::Thick,
        ..VolumeConfig::new(name, format!("p{n}"), LU_BYTES)
    };
    config.controllers = controllers;
    config.portals.clear();
    config.drives = (0..2 * controllers).map(drive).collect();
    config.pools = (0..controllers).map(pool).collect();
    config.volumes = (0..controllers).map(|n| volume(own(n), n)).collect();
    config.volumes.extend((0..controllers).map(|n| volume(other(n), n)));
    let host = |name: String| {
        HostConfig::new(format!("h-{name}"), format!("iqn.2026-11.test:{name}"), [(0, name)].into())
    };
    config.hosts = config.volumes.iter().map(|volume| host(volume.name.clone())).collect();
    config
}

fn own(pool: usize) -> String {
    format!("own{pool}")
}

fn other(pool: usize) -> String {
    format!("other{pool}")
}

/// The same with this policy for one volume in each of these pools.
fn with(config: &Config, policy: Policy, pools: std::ops::Range<usize>) -> Config {
    let mut config = config.clone();
    let shared = PolicyConfig { sharing: Sharing::Aggregated, ..PolicyConfig::new("p".into(), policy) };
    config.policies = vec![shared];
    config.volumes.iter_mut().for_each(|volume| volume.policy = None);
    pools.for_each(|pool| config.volumes[pool].policy = Some("p".into()));
    config
}

/// What hosts write to a volume.
#[derive(Default)]
struct Load {
    asks: Cell<bool>,
    done: RefCell<Vec<Instant>>,
}

struct Bed {
    world: World,
    array: Array,
    /// Of its controllers.
    handles: Vec<ControllerHandle>,
    config: Config,
    /// Whether messages to a controller stay where they are.
    deaf: Vec<Rc<Cell<bool>>>,
    own: Vec<Rc<Load>>,
    others: Vec<Rc<Load>>,
}

/// Passes messages on, unless the controller is to be deaf.
async fn relay_task(world: World, from: Mailbox, to: ControllerHandle, deaf: Rc<Cell<bool>>) {
    while let Some(message) = from.next().await {
        while deaf.get() {
            world.sleep(SECOND / 100).await;
        }
        if to.send(message).await.is_err() {
            return;
        }
    }
}

async fn writer_task(
    (world, session): (World, Rc<LocalSession>),
    (volume, number): (String, u64),
    load: Rc<Load>,
) {
    let data = Buf::zeroed(WRITE_BYTES as usize).freeze();
    let mut rng = world.random(&format!("writer {number} of {volume}"));
    loop {
        while !load.asks.get() {
            world.sleep(SECOND / 50).await;
        }
        let at = rng.u64(..LU_BYTES / WRITE_BYTES / OUTSTANDING) * OUTSTANDING + number % OUTSTANDING;
        let mut cdb = [0; 16];
        cdb[0] = 0x8a;
        cdb[2..10].copy_from_slice(&(at * WRITE_BYTES / 512).to_be_bytes());
        cdb[10..14].copy_from_slice(&((WRITE_BYTES / 512) as u32).to_be_bytes());
        let request = Request::new(cdb, Pieces::from(data.clone()), WRITE_BYTES as u32);
        if session.execute(Lun(0), request).await.status == Status::Good {
            load.done.borrow_mut().push(world.now());
        }
    }
}

impl Bed {
    async fn start(world: World, config: Config) -> Bed {
        let count = config.controllers;
        let (inner, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let (handles, outer): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let mut deaf = Vec::new();
        for (from, to) in outer.into_iter().zip(inner) {
            deaf.push(Rc::new(Cell::new(false)));
            world.spawn(relay_task(world.clone(), from, to, deaf[deaf.len() - 1].clone()));
        }
        let mut ports: Vec<LocalPort> = Vec::new();
        for (index, mailbox) in mailboxes.into_iter().enumerate() {
            let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles.clone());
            ports.push(port);
            world.spawn(run);
        }
        let mut array = Array::new(handles.clone(), TARGET);
        array.apply(config.clone()).await.expect("applied");
        let load = |pool: usize, volume: String| {
            let load = Rc::new(Load::default());
            let session = ports[pool].open(&format!("iqn.2026-11.test:{volume}"), [0; 6]);
            let session = Rc::new(session.expect("a session"));
            for number in 0..OUTSTANDING {
                world.spawn(writer_task(
                    (world.clone(), session.clone()),
                    (volume.clone(), number),
                    load.clone(),
                ));
            }
            load
        };
        let own = (0..count).map(|pool| load(pool, own(pool))).collect();
        let others = (0..count).map(|pool| load(pool, other(pool))).collect();
        Bed { world, array, handles, config, deaf, own, others }
    }

    async fn apply(&mut self, config: &Config) -> Vec<String> {
        self.config = config.clone();
        self.array.apply(config.clone()).await.expect("applied")
    }

    async fn run(&self, seconds: u32) {
        self.world.sleep(seconds * SECOND).await;
    }

    /// Units in all windows of 5 s since then, of the volumes of the policy together; one each 50 ms.
    fn windows(&self, from: Instant) -> Vec<u64> {
        let mut done: Vec<u64> =
            self.own.iter().flat_map(|load| load.done.borrow().clone()).map(|at| at.0).collect();
        done.sort_unstable();
        let until = |at: u64| done.partition_point(|done| *done <= at) as u64;
        let ends = (from.0 + 5 * SECOND_NS..self.world.now().0).step_by(50_000_000);
        ends.map(|end| (until(end) - until(end - 5 * SECOND_NS)) * WRITE_BYTES / UNIT_BYTES).collect()
    }

    fn worst_permille(&self, units_per_s: u64, from: Instant) -> u64 {
        let mut windows = self.windows(from);
        windows.sort_unstable();
        windows[windows.len() / 100] * 1000 / (5 * units_per_s)
    }

    /// Units per second of each load since then.
    fn rates(&self, loads: &[Rc<Load>], from: Instant) -> Vec<u64> {
        let time_ns = self.world.now().since(from).as_nanos() as u64;
        let count = |load: &Rc<Load>| load.done.borrow().iter().filter(|at| **at >= from).count() as u64;
        let rate = |load| count(load) * WRITE_BYTES / UNIT_BYTES * SECOND_NS / time_ns;
        loads.iter().map(rate).collect()
    }

    /// The worst 1 % of the windows has 95 % of the minimum, and nobody stands still.
    async fn check_minimum_after_5_s(&self, minimum: u64) {
        self.run(5).await;
        let from = self.world.now();
        self.run(9).await;
        let worst = self.worst_permille(minimum, from);
        assert!(worst >= 950, "{worst} of 1000: {:?} of {minimum}", self.rates(&self.own, from));
        let others = self.rates(&self.others, from);
        others.iter().for_each(|rate| assert!(*rate > 0, "one stands still: {others:?}"));
    }

    /// The depth of the scheduler of a pool.
    async fn depth(&self, pool: &str) -> u32 {
        let status = self.status().await;
        let mut all = status.iter().flat_map(|controller| &controller.schedulers);
        all.find(|scheduler| scheduler.pool.as_deref() == Some(pool)).expect("a scheduler").depth
    }

    async fn status(&self) -> Vec<ControllerStatus> {
        self.array.status().await.expect("status")
    }

    /// Units per second of one pool when all ask and nothing is promised.
    async fn capacity(&self) -> u64 {
        let from = self.world.now();
        self.run(5).await;
        let all = [self.rates(&self.own, from), self.rates(&self.others, from)].concat();
        all.iter().sum::<u64>() / self.own.len() as u64
    }

    fn ask(&self, own: bool, others: bool) {
        self.own.iter().for_each(|load| load.asks.set(own));
        self.others.iter().for_each(|load| load.asks.set(others));
    }
}

fn run(controllers: usize, check: impl AsyncFnOnce(Bed)) {
    run_on(controllers, DiskSpec::without_content, check);
}

fn run_on(controllers: usize, keeps: fn(DiskSpec) -> DiskSpec, check: impl AsyncFnOnce(Bed)) {
    let model = Model::new(1);
    for i in 0..2 * controllers {
        let spec = keeps(DiskSpec::mechanical(&CHEETAH_15K5).with_len_bytes(1 << 30));
        model.disk(&format!("d{i}"), spec);
    }
    model.run(async |world| check(Bed::start(world, config(controllers)).await).await);
}

/// Seven tenths of all pools, and then half of that in the first and in the last half of the pools.
fn check_minimum(controllers: usize) {
    run(controllers, async |mut bed| {
        bed.ask(true, true);
        let wanted = bed.capacity().await * controllers as u64 * 7 / 10;
        bed.apply(&with(&bed.config, minimum(wanted), 0..controllers)).await;
        bed.check_minimum_after_5_s(wanted).await;
        bed.apply(&with(&bed.config, minimum(wanted / 2), 0..controllers)).await;
        let idle = controllers / 2;
        (0..idle).for_each(|pool| bed.own[pool].asks.set(false));
        bed.check_minimum_after_5_s(wanted / 2).await;
        // It goes to the others; 16 controllers take their time.
        if controllers == 16 {
            return;
        }
        (0..controllers).for_each(|pool| bed.own[pool].asks.set(pool < controllers - idle));
        bed.check_minimum_after_5_s(wanted / 2).await;
        bed.array.stop().await.expect("stopped");
    });
}

#[test]
fn a_minimum_holds_in_sum_over_2_and_3_controllers_and_follows_its_load() {
    check_minimum(2);
    check_minimum(3);
}

#[test]
fn a_minimum_holds_in_sum_over_16_controllers_and_follows_its_load() {
    check_minimum(16);
}

/// The parts of the maximum that the status shows, by pool.
fn parts(status: &[ControllerStatus]) -> Vec<(String, u64, Option<u64>)> {
    let schedulers = status.iter().flat_map(|controller| &controller.schedulers);
    let part = |scheduler: &crate::status::PoolScheduler| {
        let part = scheduler.parts.iter().find(|part| part.policy == "p")?;
        Some((scheduler.pool.clone()?, part.minimum_iops, part.maximum_iops))
    };
    let mut parts: Vec<_> = schedulers.filter_map(part).collect();
    parts.sort();
    parts
}

impl Bed {
    /// That no window has more than the maximum and a request of each pool, and that most of it is given.
    #[track_caller]
    fn check_maximum(&self, most: u64, from: Instant) {
        let fullest = self.windows(from).into_iter().max().expect("windows");
        let allowed = 5 * most + self.own.len() as u64 * WRITE_BYTES / UNIT_BYTES;
        assert!(fullest <= allowed, "{fullest} units in 5 s, {allowed} are allowed");
        let sum: u64 = self.rates(&self.own, from).iter().sum();
        assert!(sum * 100 >= most * 90, "{sum} of {most}");
    }
}

#[test]
fn a_maximum_holds_in_sum_while_its_load_and_its_pools_move_and_the_policy_changes() {
    // A pool that moves is opened anew.
    run_on(
        3,
        |drive| drive,
        async |mut bed| {
            bed.ask(true, false);
            let most = bed.capacity().await * 8 / 10;
            bed.apply(&with(&bed.config, maximum(most), 0..3)).await;
            let from = bed.world.now();
            bed.run(20).await;
            bed.check_maximum(most, from + 2 * SECOND);
            let shown = parts(&bed.status().await);
            let sum: u64 = shown.iter().map(|(_, _, maximum)| maximum.expect("a part")).sum();
            assert!(shown.len() == 3 && sum <= most && sum + 3 >= most, "{shown:?} of {most}");
            // One volume is all that asks; then another one.
            for busy in [0, 2] {
                bed.own.iter().enumerate().for_each(|(pool, load)| load.asks.set(pool == busy));
                bed.run(5).await;
                let from = bed.world.now();
                bed.run(15).await;
                bed.check_maximum(most, from);
            }
            // Its pool moves to another controller.
            bed.array.move_pool("p2", 0).await.expect("moved");
            bed.config.pools[2].controller = 0;
            bed.run(6).await;
            let at = bed.world.now();
            bed.run(15).await;
            bed.check_maximum(most, at);
            let fullest = bed.windows(from).into_iter().max().expect("windows");
            assert!(
                fullest <= 5 * most + 3 * WRITE_BYTES / UNIT_BYTES,
                "{fullest} units of {} while all this was done",
                5 * most
            );
            // Less is in force at once, and so is that a volume leaves the policy.
            let moved = bed.config.clone();
            bed.apply(&with(&moved, maximum(most / 2), 0..3)).await;
            bed.own.iter().for_each(|load| load.asks.set(true));
            let from = bed.world.now();
            bed.run(15).await;
            bed.check_maximum(most / 2, from);
            bed.apply(&with(&moved, maximum(most / 2), 0..1)).await;
            assert_eq!(parts(&bed.status().await), [], "all of it is in one pool");
            bed.run(2).await;
            let from = bed.world.now();
            bed.run(10).await;
            let rates = bed.rates(&bed.own, from);
            assert!(rates[0] <= most / 2 && rates[0] * 100 >= most / 2 * 95, "{rates:?} of {}", most / 2);
            assert!(rates[1] > most / 2 && rates[2] > most / 2, "{rates:?}");
            bed.array.stop().await.expect("stopped");
        },
    );
}

/// Each search costs throughput for 10 s and more.
#[test]
fn the_depth_that_was_found_goes_with_a_pool_that_moves() {
    run_on(
        2,
        |drive| drive,
        async |mut bed| {
            bed.ask(true, true);
            let minimum = minimum(bed.capacity().await / 10);
            bed.apply(&with(&bed.config, minimum, 0..2)).await;
            // Until a search has ended: the same depth at two looks, and not the one that it begins with.
            let (mut last, mut found) = (64, 64);
            for _ in 0..20 {
                bed.run(10).await;
                (last, found) = (found, bed.depth("p1").await);
                if found < 64 && found == last {
                    break;
                }
            }
            assert!(found < 64 && found == last, "{last}, then {found}");
            bed.array.move_pool("p1", 0).await.expect("moved");
            assert_eq!(bed.depth("p1").await, found);
            bed.array.stop().await.expect("stopped");
        },
    );
}

/// As when a controller was taken over: it knows nothing of before, but whoever divides policies does.
#[test]
fn a_scheduler_that_has_found_nothing_yet_hears_what_the_last_one_had_found() {
    run(2, async |mut bed| {
        bed.ask(true, true);
        bed.apply(&with(&bed.config, minimum(10), 0..2)).await;
        let found =
            Found { depth_max: 64, depth: 9, too_shallow: 7, cost_permille: 15, rate: None, shallower: None };
        let place = Place::Pool("p1".into());
        let ask = |found| {
            let parts = PlaceParts { place: place.clone(), parts: vec![], found };
            bed.handles[1].ask(Control::PolicyParts(vec![parts]))
        };
        let told = async |found| match ask(found).await.expect("an answer") {
            Reply::PolicyDemand(all) => all[0].found,
            other => panic!("{other:?}"),
        };
        assert_eq!((told(None).await, bed.depth("p1").await), (None, 64));
        assert_eq!((told(Some(found)).await, bed.depth("p1").await), (Some(found), 9));
        // It says so itself now.
        assert_eq!(told(None).await, Some(found));
        bed.array.stop().await.expect("stopped");
    });
}

#[test]
fn a_controller_that_does_not_answer_keeps_its_part_and_the_others_have_the_minimum() {
    run(3, async |mut bed| {
        bed.ask(true, true);
        let pool = bed.capacity().await;
        let limits = Policy { maximum_iops: Some(pool * 2), ..minimum(pool * 12 / 10) };
        bed.apply(&with(&bed.config, limits, 0..3)).await;
        bed.run(15).await;
        bed.deaf[1].set(true);
        bed.own[1].asks.set(false);
        bed.run(8).await;
        let from = bed.world.now();
        bed.run(15).await;
        let worst = bed.worst_permille(pool * 12 / 10, from);
        assert!(worst >= 950, "{worst}");
        // It is there all along, and its host uses what it had.
        bed.own[1].asks.set(true);
        bed.run(10).await;
        bed.deaf[1].set(false);
        bed.run(15).await;
        let fullest = bed.windows(from).into_iter().max().expect("windows");
        assert!(fullest <= 5 * pool * 2 + 3 * WRITE_BYTES / UNIT_BYTES, "{fullest} units of {}", 10 * pool);
        let shown: u64 = parts(&bed.status().await).iter().map(|(_, minimum, _)| minimum).sum();
        assert!(shown.abs_diff(pool * 12 / 10) <= 3, "{shown} of {}", pool * 12 / 10);
        bed.array.stop().await.expect("stopped");
    });
}

/// As it is where all volumes are in one pool.
#[test]
fn a_minimum_that_no_pool_can_give_is_said_and_nobody_stands_still() {
    run(2, async |mut bed| {
        bed.ask(true, true);
        let pool = bed.capacity().await;
        bed.apply(&with(&bed.config, minimum(pool * 4), 0..2)).await;
        let from = bed.world.now();
        bed.run(25).await;
        let others = bed.rates(&bed.others, from);
        others.iter().for_each(|rate| assert!(*rate > 0, "one stands still: {others:?}"));
        let said = |status: &[ControllerStatus], what: &str| {
            let events = status.iter().flat_map(|controller| &controller.events);
            events.filter(|event| format!("{}: {}", event.object, event.text).contains(what)).count()
        };
        let status = bed.status().await;
        assert_eq!(said(&status, "policy p in pool p0: minimum violated"), 1, "{:?}", status[0].events);
        assert_eq!(said(&status, "policy p in pool p1: minimum violated"), 1, "{:?}", status[1].events);
        let states: Vec<&str> =
            status.iter().flat_map(|c| &c.volumes).map(|v| v.qos.state.as_str()).collect();
        assert_eq!(states.iter().filter(|state| **state == "below_minimum").count(), 2, "{states:?}");
        let lines = bed.apply(&with(&bed.config, minimum(pool * 4), 0..2)).await;
        let warnings = lines.iter().filter(|line| line.contains("the minimums are over-committed"));
        assert_eq!(warnings.count(), 2, "{lines:?}");
        bed.apply(&with(&bed.config, minimum(pool), 0..2)).await;
        bed.run(25).await;
        let status = bed.status().await;
        assert_eq!(said(&status, "minimum met again"), 2, "{:?}", status[0].events);
        bed.array.stop().await.expect("stopped");
    });
}
