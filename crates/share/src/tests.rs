//! Nodes over the model world's registry, in front of an array that serves so many bytes per second.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{AbortHandle, abortable};
use qos::Policy;
use registry::{Faulty, Link, Memory, Registry as _};
use world::World;
use world_model::Model;

use crate::{Node, Store, run, set_policies};

const IO: u64 = 512 << 10;

/// First come, first served, `bytes_per_s` at all; up to `room` bytes are acknowledged at once.
struct Array {
    world: World,
    bytes_per_s: Cell<u64>,
    room: Cell<u64>,
    queue: RefCell<VecDeque<(u64, oneshot::Sender<()>)>>,
}

impl Array {
    fn new(world: &World, bytes_per_s: u64, room: u64) -> Rc<Array> {
        let array = Rc::new(Array {
            world: world.clone(),
            bytes_per_s: Cell::new(bytes_per_s),
            room: Cell::new(room),
            queue: RefCell::default(),
        });
        let (drain, most) = (array.clone(), room);
        world.spawn(async move {
            loop {
                let step = Duration::from_millis(5);
                drain.world.sleep(step).await;
                let drained = drain.bytes_per_s.get() * 5 / 1000;
                drain.room.set((drain.room.get() + drained).min(most));
                drain.answer();
            }
        });
        array
    }

    fn answer(&self) {
        let mut queue = self.queue.borrow_mut();
        while let Some((bytes, _)) = queue.front() {
            let Some(left) = self.room.get().checked_sub(*bytes) else { return };
            self.room.set(left);
            if let Some((_, done)) = queue.pop_front() {
                let _ = done.send(());
            }
        }
    }

    async fn write(&self, bytes: u64) {
        let (done, answered) = oneshot::channel();
        self.queue.borrow_mut().push_back((bytes, done));
        self.answer();
        let _ = answered.await;
    }
}

/// Hosts with disks, each of which has one write outstanding all the time.
struct Bed {
    world: World,
    store: registry::Store,
    nodes: Vec<Rc<Node>>,
    links: Vec<Rc<Link>>,
    tasks: Vec<AbortHandle>,
    /// Bytes written by each disk so far.
    written: Vec<Rc<Cell<u64>>>,
    paused: Vec<Rc<Cell<bool>>>,
}

fn disk(number: usize) -> String {
    format!("vm{number:02}")
}

impl Bed {
    fn new(world: &World, array: &Rc<Array>, nodes: usize, disks: usize) -> Bed {
        let per_node = disks / nodes;
        let mut bed = Bed {
            world: world.clone(),
            store: registry::Store::default(),
            nodes: vec![],
            links: vec![],
            tasks: vec![],
            written: vec![],
            paused: vec![],
        };
        for number in 0..nodes {
            let names = (0..per_node).map(|own| disk(number * per_node + own)).collect();
            let node = Node::new(world, &format!("n{number}"), 8192, names);
            let client = Faulty::new(world, Rc::new(Memory::new(world, &bed.store)));
            client.link().delay.set(Duration::from_millis(2));
            bed.links.push(client.link());
            let (task, handle) = abortable(run(node.clone(), Rc::new(client)));
            world.spawn(async move {
                // Aborted: it was killed.
                let _ = task.await;
            });
            let paused = Rc::new(Cell::new(false));
            for own in 0..per_node {
                let (node, array, world) = (node.clone(), array.clone(), world.clone());
                let (written, paused) = (Rc::new(Cell::new(0)), paused.clone());
                bed.written.push(written.clone());
                world.clone().spawn(async move {
                    loop {
                        while paused.get() {
                            world.sleep(Duration::from_millis(10)).await;
                        }
                        let admitted = node.admit(own, IO).await;
                        array.write(IO).await;
                        admitted.served();
                        written.set(written.get() + IO);
                    }
                });
            }
            bed.nodes.push(node);
            bed.tasks.push(handle);
            bed.paused.push(paused);
        }
        bed
    }

    async fn set(&self, policies: &[Policy]) {
        let all = policies.iter().enumerate().map(|(number, policy)| (disk(number), *policy)).collect();
        let client = Memory::new(&self.world, &self.store);
        set_policies(&client, &all).await.expect("set");
    }

    /// MB/s of every disk over a time.
    async fn rates(&self, seconds: u64) -> Vec<f64> {
        let before: Vec<u64> = self.written.iter().map(|written| written.get()).collect();
        self.world.sleep(Duration::from_secs(seconds)).await;
        let after = self.written.iter().map(|written| written.get());
        after.zip(before).map(|(after, before)| (after - before) as f64 / 1e6 / seconds as f64).collect()
    }

    fn stop_disks(&self, node: usize) {
        self.paused[node].set(true);
    }
}

fn minimum(units: u64) -> Policy {
    Policy { minimum_iops: units, ..Policy::none() }
}

fn weight(weight: u32) -> Policy {
    Policy { weight, ..Policy::none() }
}

const CAPACITY: u64 = 140_000_000;

fn near(rates: &[f64], expected: f64, percent: f64) -> bool {
    rates.iter().all(|rate| (rate / expected - 1.0).abs() * 100.0 <= percent)
}

fn with_bed(room: u64, nodes: usize, disks: usize, play: impl AsyncFnOnce(&Bed, &Array)) {
    Model::new(1).run(async move |world| {
        let array = Array::new(&world, CAPACITY, room);
        let bed = Bed::new(&world, &array, nodes, disks);
        play(&bed, &array).await;
    });
}

/// It took up to 500 ms, in which a host exceeded its new maximum.
#[test]
fn a_new_maximum_is_in_force_at_all_hosts_at_once() {
    with_bed(4 << 20, 2, 10, async |bed, _| {
        // At any point of their intervals.
        for wait_ms in [12_000, 3_100, 3_230, 3_470] {
            bed.world.sleep(Duration::from_millis(wait_ms)).await;
            bed.set(&[Policy { maximum_iops: Some(64), ..Policy::none() }; 10]).await;
            // What was sent before is below: an I/O of each, 5 MB of 140 MB/s.
            bed.world.sleep(Duration::from_millis(60)).await;
            let before: Vec<u64> = bed.written.iter().map(|written| written.get()).collect();
            bed.world.sleep(Duration::from_millis(1500)).await;
            // One I/O a second, and one more.
            let written = bed.written.iter().zip(before).map(|(written, before)| written.get() - before);
            assert!(written.max() <= Some(3 * IO));
            bed.set(&[Policy::none(); 10]).await;
        }
    });
}

#[test]
fn two_hosts_that_cannot_see_each_other_keep_minimums_weights_and_the_floor() {
    for room in [4 << 20, 12 << 20, 1 << 30] {
        with_bed(room, 2, 10, async |bed, _| {
            bed.world.sleep(Duration::from_secs(30)).await;
            let mut policies = vec![Policy::none(); 10];
            for (units, mb, rest) in [(2000, 16.384, 11.6), (3000, 24.576, 3.4)] {
                policies[..5].fill(minimum(units));
                bed.set(&policies).await;
                bed.world.sleep(Duration::from_secs(5)).await;
                for _ in 0..6 {
                    let rates = bed.rates(5).await;
                    assert!(near(&rates[..5], mb, 5.0), "{units}: {rates:?}");
                    assert!(rates[5..].iter().all(|rate| *rate > rest * 0.7), "{units}: {rates:?}");
                }
            }
            let weights: Vec<Policy> = (0..10).map(|disk| weight(100 << (disk % 4))).collect();
            bed.set(&weights).await;
            bed.world.sleep(Duration::from_secs(5)).await;
            let rates = bed.rates(20).await;
            let sum: f64 = rates.iter().sum();
            let all: f64 = weights.iter().map(|policy| f64::from(policy.weight)).sum();
            for (rate, policy) in rates.iter().zip(&weights) {
                let expected = sum * f64::from(policy.weight) / all;
                assert!((rate / expected - 1.0).abs() < 0.05, "{rate} {expected}: {rates:?}");
            }
            assert!(sum > 134.0, "{sum}");
        });
    }
}

#[test]
fn a_host_that_dies_or_hangs_gives_its_share_back_within_its_lease() {
    for hangs in [false, true] {
        with_bed(12 << 20, 2, 10, async |bed, _| {
            let mut policies = vec![minimum(3000); 5];
            policies.resize(10, Policy::none());
            bed.set(&policies).await;
            bed.world.sleep(Duration::from_secs(30)).await;
            // The first is the leader, and has the minimums.
            assert!(bed.nodes[0].state().is_leader);
            bed.stop_disks(0);
            if hangs {
                bed.links[0].paused.set(true);
            } else {
                bed.tasks[0].abort();
            }
            bed.world.sleep(Duration::from_secs(5)).await;
            let rates = bed.rates(10).await;
            assert!(near(&rates[5..], 28.0, 5.0), "{rates:?}");
            if hangs {
                bed.links[0].paused.set(false);
                bed.paused[0].set(false);
                bed.world.sleep(Duration::from_secs(5)).await;
                let rates = bed.rates(10).await;
                assert!(near(&rates[..5], 24.576, 5.0), "{rates:?}");
            }
        });
    }
}

#[test]
fn without_the_store_the_last_shares_stay_and_the_nodes_say_so() {
    with_bed(12 << 20, 2, 10, async |bed, _| {
        let mut policies = vec![minimum(3000); 5];
        policies.resize(10, Policy::none());
        bed.set(&policies).await;
        bed.world.sleep(Duration::from_secs(30)).await;
        bed.links.iter().for_each(|link| link.cut.set(true));
        bed.world.sleep(Duration::from_secs(10)).await;
        let rates = bed.rates(20).await;
        assert!(near(&rates[..5], 24.576, 5.0), "{rates:?}");
        assert!(bed.nodes.iter().all(|node| matches!(node.state().store, Store::Away { .. })));
        // Nobody corrects the rates: minimums have room, and the others yield.
        let share = |node: usize| bed.nodes[node].share(0).expect("a share") as f64 / 1e6;
        assert!(share(0) > 24.576 * 1.01 && share(1) < 3.43, "{} {}", share(0), share(1));
        bed.links.iter().for_each(|link| link.cut.set(false));
        bed.world.sleep(Duration::from_secs(8)).await;
        assert!(bed.nodes.iter().all(|node| node.state().store == Store::Answers));
        let leaders = bed.nodes.iter().filter(|node| node.state().is_leader).count();
        assert_eq!(leaders, 1);
    });
}

#[test]
fn two_nodes_of_one_name_and_damaged_values_are_faults_and_not_panics() {
    with_bed(12 << 20, 2, 10, async |bed, _| {
        bed.world.sleep(Duration::from_secs(5)).await;
        let twin = Node::new(&bed.world, "n0", 8192, vec!["other".into()]);
        let client = Rc::new(Memory::new(&bed.world, &bed.store));
        bed.world.spawn(run(twin.clone(), client.clone()));
        bed.world.sleep(Duration::from_secs(1)).await;
        assert!(twin.state().fault.is_some_and(|fault| fault.contains("another node")));
        let policies = registry::Key::new(crate::POLICIES).expect("a key");
        client.compare_and_put(&policies, None, b"\xff", None).await.expect("put");
        bed.world.sleep(Duration::from_secs(1)).await;
        assert!(bed.nodes[1].state().fault.is_some_and(|fault| fault.contains("policies")));
        let set: BTreeMap<String, Policy> = [(disk(0), minimum(1000))].into();
        set_policies(&*client, &set).await.expect("replaced");
        bed.world.sleep(Duration::from_secs(1)).await;
        assert_eq!(bed.nodes[1].state().fault, None);
    });
}

/// All reports are to be of one interval, and new: what the leader divides by is then what is served now.
#[test]
fn nodes_report_shortly_before_the_leader_divides() {
    with_bed(12 << 20, 3, 9, async |bed, _| {
        bed.world.sleep(Duration::from_secs(2)).await;
        assert!(bed.nodes[0].state().is_leader);
        // A slow answer each: they are out of step with the leader.
        for (node, millis) in [(1, 160), (2, 220)] {
            bed.links[node].delay.set(Duration::from_millis(millis));
            bed.world.sleep(Duration::from_millis(800)).await;
            bed.links[node].delay.set(Duration::from_millis(2));
        }
        bed.world.sleep(Duration::from_secs(3)).await;
        let client = Memory::new(&bed.world, &bed.store);
        let key = |name: &str| registry::Key::new(name).expect("a key");
        let mut seen: BTreeMap<&str, (registry::Version, world::Instant)> = BTreeMap::new();
        let mut ages = vec![];
        for _ in 0..600 {
            bed.world.sleep(Duration::from_millis(5)).await;
            for name in ["qos/nodes/n1", "qos/nodes/n2", crate::record::SHARES] {
                let version = client.get(&key(name)).await.expect("answers").expect("written").version;
                let now = bed.world.now();
                let is_news = seen.get(name).is_some_and(|(last, _)| *last != version);
                if is_news && name == crate::record::SHARES {
                    ages.extend(["qos/nodes/n1", "qos/nodes/n2"].map(|node| now.since(seen[node].1)));
                }
                if is_news || !seen.contains_key(name) {
                    seen.insert(name, (version, now));
                }
            }
        }
        assert!(ages.len() >= 8, "{ages:?}");
        assert!(ages[2..].iter().all(|age| *age <= Duration::from_millis(90)), "{ages:?}");
    });
}
