//! Nodes over the model world's registry, with partitions, delays, pauses, lost watches, kills, and clocks
//! that drift: within their terms there is never more than one owner.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::{AbortHandle, abortable};
use registry::{Faulty, Key, LeaseId, Link, Memory, Registry, RegistryError};
use world::{Instant, World};
use world_model::Model;

use crate::number::number_of;
use crate::{
    ASK, Ask, AskRecord, CHOSEN_TIME, Clock, DRIFT_PERCENT_MAX, EVERY, Follows, Immovable, Kept, KeptError,
    Lost, MEMBERS, Member, NODES, NUMBERS, NUMBERS_MAX, NodeRecord, NumberRecord, OWNER, Overview,
    OwnerRecord, RaiseError, Standing, State, TEXT_LEN_MAX, Waits, another_lives, portal_group,
    restore_state, run, successor,
};

/// The longest time without an owner after one was killed: the lease, two intervals, and calls.
const TAKE_OVER_MAX: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(5);
/// The text that follows the owner.
const STATE: &str = "array";

/// A process that begins anew when it has lost the array, as a service manager does it.
struct Process {
    name: String,
    /// Permille that its clock is fast.
    drift: i64,
    link: Rc<Link>,
    registry: Rc<dyn Registry>,
    member: RefCell<Rc<Member>>,
    task: RefCell<AbortHandle>,
    lives: Cell<u32>,
    is_up: Cell<bool>,
    lost: Rc<RefCell<Vec<Lost>>>,
}

struct Bed {
    world: World,
    store: registry::Store,
    nodes: Vec<Rc<Process>>,
}

fn clock(world: &World, drift: i64) -> Clock {
    let world = world.clone();
    // All have run for a day, by which they differ already.
    let base = 86_400_000_000_000_u64;
    let steady = move || Instant((base + world.now().0) / 1000 * (1000 + drift) as u64);
    Clock { steady: Rc::new(steady), wall_ms: Rc::new(|| 0) }
}

impl Process {
    fn new(bed: &Bed, name: &str, drift: i64) -> Rc<Process> {
        let client = Faulty::new(&bed.world, Rc::new(Memory::new(&bed.world, &bed.store)));
        client.link().delay.set(Duration::from_millis(2));
        let about = NodeRecord::default();
        let member = Member::new(&bed.world, clock(&bed.world, drift), (name, about), 0, |_| {});
        Rc::new(Process {
            name: name.into(),
            drift,
            link: client.link(),
            registry: Rc::new(client),
            member: RefCell::new(member),
            task: RefCell::new(AbortHandle::new_pair().0),
            lives: Cell::new(0),
            is_up: Cell::new(false),
            lost: Rc::default(),
        })
    }

    fn start(&self, world: &World) {
        let seen = self.member.borrow().state().epoch_seen;
        let member =
            Member::new(world, clock(world, self.drift), (&self.name, NodeRecord::default()), seen, |_| {});
        member.follow(Follows::new(&[STATE], |_, text| match text {
            b"of another array" => Err("another array".into()),
            _ => Ok(()),
        }));
        *self.member.borrow_mut() = member.clone();
        let (registry, lost) = (self.registry.clone(), self.lost.clone());
        let (task, handle) = abortable(async move {
            if let Some(cause) = run(member, registry).await.expect("a name") {
                lost.borrow_mut().push(cause);
            }
        });
        *self.task.borrow_mut() = handle;
        self.is_up.set(true);
        world.spawn(async move {
            // Aborted: it was killed.
            let _ = task.await;
        });
    }

    fn kill(&self) {
        self.task.borrow().abort();
        self.is_up.set(false);
    }

    fn owns(&self) -> Option<u64> {
        self.member.borrow().owns().filter(|_| self.is_up.get())
    }

    fn standing(&self) -> Standing {
        self.member.borrow().state().standing
    }
}

impl Bed {
    fn new(world: &World, drifts: &[i64]) -> Bed {
        let mut bed = Bed { world: world.clone(), store: registry::Store::default(), nodes: vec![] };
        for (number, drift) in drifts.iter().enumerate() {
            let process = Process::new(&bed, &format!("n{}", number + 1), *drift);
            process.start(world);
            bed.nodes.push(process);
        }
        bed
    }

    /// The owner and its epoch; more than one at an instant is the failure that all of this is to prevent.
    fn owner(&self) -> Option<(usize, u64)> {
        let owners: Vec<(usize, u64)> =
            self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.owns()?))).collect();
        assert!(owners.len() <= 1, "seed {}: {owners:?} at {:?}", self.world.seed(), self.world.now());
        owners.first().copied()
    }

    /// Looks all the time; returns the changes of owners: when, who, epoch.
    async fn looks(&self, time: Duration) -> Vec<(Instant, usize, u64)> {
        let end = self.world.now() + time;
        let (mut seen, mut epoch_max) = (Vec::new(), 0);
        while self.world.now() < end {
            if let Some((node, epoch)) = self.owner() {
                let is_new = seen.last().is_none_or(|(_, last, of)| (*last, *of) != (node, epoch));
                assert!(epoch >= epoch_max, "seed {}: epoch {epoch} after {epoch_max}", self.world.seed());
                epoch_max = epoch;
                if is_new {
                    seen.push((self.world.now(), node, epoch));
                }
            }
            self.world.sleep(LOOK).await;
        }
        seen
    }

    /// The time until a node owns the array.
    async fn until_owned(&self, by: impl Fn(usize) -> bool) -> Duration {
        let begun = self.world.now();
        while self.owner().is_none_or(|(node, _)| !by(node)) {
            assert!(self.world.now() - begun < Duration::from_secs(60), "nobody owns the array");
            self.world.sleep(LOOK).await;
        }
        self.world.now() - begun
    }

    /// As a service manager does it.
    async fn start_what_has_ended(&self) {
        loop {
            for node in self.nodes.iter().filter(|node| node.is_up.get()) {
                if matches!(node.standing(), Standing::Lost(_) | Standing::Left) {
                    node.kill();
                    node.start(&self.world);
                }
            }
            self.sleep(1).await;
        }
    }

    async fn sleep(&self, seconds: u64) {
        self.world.sleep(Duration::from_secs(seconds)).await;
    }
}

fn with_bed(drifts: &[i64], play: impl AsyncFnOnce(&Bed)) {
    Model::new(1).run(async move |world| play(&Bed::new(&world, drifts)).await);
}

#[test]
fn one_of_three_owns_and_the_next_one_does_within_eight_seconds_of_its_death() {
    let fast = DRIFT_PERCENT_MAX as i64 * 10;
    for drifts in [[0, 0, 0], [fast, -fast, 0], [-fast, fast, fast]] {
        with_bed(&drifts, async |bed| {
            assert!(bed.until_owned(|_| true).await < Duration::from_secs(1));
            for _ in 0..3 {
                bed.sleep(3).await;
                let (owner, epoch) = bed.owner().expect("an owner");
                bed.nodes[owner].kill();
                let gap = bed.until_owned(|node| node != owner).await;
                assert!(gap > Duration::from_secs(4) && gap <= TAKE_OVER_MAX, "{gap:?}");
                assert_eq!(bed.owner().map(|(_, epoch)| epoch), Some(epoch + 1));
                bed.nodes[owner].start(&bed.world);
            }
        });
    }
}

#[test]
fn an_owner_that_leaves_hands_over_at_once() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, _) = bed.owner().expect("an owner");
        bed.nodes[owner].member.borrow().leave();
        let gap = bed.until_owned(|node| node != owner).await;
        assert!(gap <= Duration::from_millis(100), "{gap:?}");
        assert_eq!(bed.nodes[owner].standing(), Standing::Left);
    });
}

/// Asks the owner to drain to the node `to`, lets it go, and returns when it has been away for so long.
async fn drain(bed: &Bed, owner: usize, epoch: u64, to: &str) {
    let ask = AskRecord { ask: Ask::Drain, epoch, to: Some(to.into()) };
    overwrite(bed, ASK, &registry::record::encode(&ask), None).await;
    bed.sleep(2).await;
    assert_eq!(bed.nodes[owner].member.borrow().state().asked, Some(Ask::Drain));
    for node in bed.nodes.iter().filter(|node| node.is_up.get() && node.owns().is_none()) {
        assert!(
            node.member.borrow().state().owner_leaves,
            "{} leads hosts to an owner that leaves",
            node.name
        );
    }
    bed.nodes[owner].member.borrow().move_away();
}

#[test]
fn a_named_node_takes_over_at_once_and_the_others_leave_the_array_to_it() {
    for named in 0..4 {
        with_bed(&[0, 0, 0, 0], async |bed| {
            bed.until_owned(|_| true).await;
            let (owner, epoch) = bed.owner().expect("an owner");
            if named == owner {
                return;
            }
            // Its watch is not heard: it sees the move at its next look, and the others wait for that.
            bed.nodes[named].link.loses_watches.set(true);
            drain(bed, owner, epoch, &format!("n{}", named + 1)).await;
            let gap = bed.until_owned(|at| at != owner).await;
            assert!(gap < Duration::from_secs(1), "{gap:?}");
            assert_eq!(bed.owner(), Some((named, epoch + 1)));
            let state = bed.nodes[named].member.borrow().state();
            assert_eq!((state.instead_of, state.asked), (None, None));
            bed.sleep(1).await;
            // What was asked of an earlier owner does not hold for this one.
            let standbys: Vec<State> = bed.nodes.iter().map(|node| node.member.borrow().state()).collect();
            let standbys = standbys.iter().filter(|state| matches!(state.standing, Standing::Standby(_)));
            assert_eq!(standbys.map(|state| state.owner_leaves).collect::<Vec<_>>(), [false, false]);
        });
    }
}

#[test]
fn when_a_named_node_has_died_another_one_takes_over_in_its_place_and_says_so() {
    with_bed(&[0, 40, -40], async |bed| {
        bed.until_owned(|_| true).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let (named, other) = ((owner + 1) % 3, (owner + 2) % 3);
        drain(bed, owner, epoch, &format!("n{}", named + 1)).await;
        // Its lease lives for seconds.
        bed.nodes[named].kill();
        bed.world.sleep(Duration::from_millis(900)).await;
        let waits = Waits::Chosen { node: format!("n{}", named + 1) };
        assert_eq!(bed.nodes[other].standing(), Standing::Standby(waits));
        let gap = bed.until_owned(|at| at != owner).await + Duration::from_millis(900);
        assert!(gap > CHOSEN_TIME.mul_f64(0.95) && gap < 2 * CHOSEN_TIME, "{gap:?}");
        assert_eq!(bed.owner(), Some((other, epoch + 1)));
        let instead_of = bed.nodes[other].member.borrow().state().instead_of;
        assert_eq!(instead_of, Some(format!("n{}", named + 1)));
    });
}

#[test]
fn a_named_node_whose_lease_has_ended_is_not_waited_for() {
    with_bed(&[0, 0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let (named, other) = ((owner + 1) % 3, (owner + 2) % 3);
        bed.nodes[named].kill();
        bed.sleep(8).await;
        drain(bed, owner, epoch, &format!("n{}", named + 1)).await;
        let gap = bed.until_owned(|at| at != owner).await;
        assert!(gap < Duration::from_secs(1), "{gap:?}");
        assert_eq!(bed.owner(), Some((other, epoch + 1)));
    });
}

#[test]
fn nobody_flaps_while_the_registry_is_away() {
    with_bed(&[0, 0, 0], async |bed| {
        bed.sleep(3).await;
        let before = bed.owner();
        // For less than the term: the owner stays.
        bed.nodes.iter().for_each(|node| node.link.cut.set(true));
        bed.sleep(3).await;
        bed.nodes.iter().for_each(|node| node.link.cut.set(false));
        let changes = bed.looks(Duration::from_secs(20)).await;
        assert_eq!((changes.len(), bed.owner()), (1, before));
        // For longer: the owner stops, and nobody takes over until it is back.
        bed.nodes.iter().for_each(|node| node.link.cut.set(true));
        bed.sleep(6).await;
        assert_eq!(bed.looks(Duration::from_secs(30)).await, []);
        let (owner, epoch) = before.expect("an owner");
        assert_eq!(bed.nodes[owner].standing(), Standing::Lost(Lost::Late));
        bed.nodes.iter().for_each(|node| node.link.cut.set(false));
        let changes = bed.looks(Duration::from_secs(20)).await;
        assert!(matches!(changes[..], [(_, node, e)] if node != owner && e == epoch + 1), "{changes:?}");
    });
}

#[test]
fn an_owner_that_slept_longer_than_its_lease_does_not_wake_as_the_owner() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, _) = bed.owner().expect("an owner");
        bed.nodes[owner].link.paused.set(true);
        bed.until_owned(|node| node != owner).await;
        bed.nodes[owner].link.paused.set(false);
        bed.looks(Duration::from_secs(5)).await;
        assert!(
            matches!(bed.nodes[owner].standing(), Standing::Lost(_)),
            "{:?}",
            bed.nodes[owner].standing()
        );
    });
}

#[test]
fn a_registry_that_is_older_than_an_epoch_seen_is_refused() {
    with_bed(&[0], async |bed| {
        bed.sleep(2).await;
        assert!(bed.owner().is_some());
        let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &registry::Store::default()));
        let about = NodeRecord::default();
        let late = Member::new(&bed.world, clock(&bed.world, 0), ("n9", about), 7, |_| {});
        let (task, member) = (late.clone(), client.clone());
        bed.world.spawn(async move {
            run(task, member).await.expect("a name");
        });
        bed.sleep(3).await;
        assert_eq!(late.state().standing, Standing::Standby(Waits::Older { found: 0, seen: 7 }));
        let owner = OwnerRecord { epoch: 7, ..OwnerRecord::default() };
        let key = Key::new(OWNER).expect("a key");
        client.compare_and_put(&key, None, &owner.encode(), None).await.expect("put");
        bed.sleep(3).await;
        assert_eq!(late.owns(), Some(8));
    });
}

#[test]
fn two_nodes_of_one_name_and_damaged_values_are_faults_and_not_panics() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let twin = Process::new(bed, "n1", 0);
        twin.start(&bed.world);
        bed.sleep(3).await;
        let fault = twin.member.borrow().state().fault.expect("a fault");
        assert!(fault.contains("another node is called n1"), "{fault}");
        let (owner, _) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let key = Key::new(OWNER).expect("a key");
        let version = client.get(&key).await.expect("there").expect("an owner").version;
        client.compare_and_put(&key, Some(version), b"\xff", None).await.expect("put");
        bed.sleep(3).await;
        let fault = bed.nodes[1 - owner].member.borrow().state().fault.expect("a fault");
        assert!(fault.contains("damaged value of owner/array"), "{fault}");
    });
}

/// Random faults for a minute; then all is well, and within the limit there is an owner again.
async fn chaos(world: &World, nodes: usize) {
    let mut random = world.random("faults");
    let most = DRIFT_PERCENT_MAX as i64 * 10;
    let drifts: Vec<i64> = (0..nodes).map(|_| random.i64(-most..=most)).collect();
    let bed = Rc::new(Bed::new(world, &drifts));
    let manager = bed.clone();
    world.spawn(async move { manager.start_what_has_ended().await });
    let (ends, playing) = (Rc::new(Cell::new(false)), bed.clone());
    let end = ends.clone();
    world.spawn(async move {
        while !end.get() {
            playing.world.sleep(Duration::from_millis(random.u64(10..4000))).await;
            let node = &playing.nodes[random.usize(..playing.nodes.len())];
            let link = &node.link;
            match random.u32(..8) {
                0 | 1 => link.cut.set(!link.cut.get()),
                2 => link.paused.set(!link.paused.get()),
                3 => link.delay.set(Duration::from_millis(random.u64(..900))),
                4 => link.loses_watches.set(!link.loses_watches.get()),
                5 if node.is_up.get() => node.kill(),
                6 if node.is_up.get() => node.member.borrow().leave(),
                _ => {
                    node.kill();
                    node.lives.set(node.lives.get() + 1);
                    node.start(&playing.world);
                }
            }
        }
    });
    bed.looks(Duration::from_secs(60)).await;
    ends.set(true);
    bed.looks(Duration::from_secs(5)).await;
    for node in &bed.nodes {
        node.link.cut.set(false);
        node.link.paused.set(false);
        node.link.loses_watches.set(false);
        node.link.delay.set(Duration::from_millis(2));
        if !node.is_up.get() {
            node.start(&bed.world);
        }
    }
    // Those whose link was cut may notice only now that they have lost the array.
    bed.looks(Duration::from_secs(3)).await;
    let gap = bed.until_owned(|_| true).await;
    assert!(gap <= TAKE_OVER_MAX, "seed {}: {gap:?}", world.seed());
    let changes = bed.looks(Duration::from_secs(20)).await;
    assert_eq!(changes.len(), 1, "seed {}: {changes:?}", world.seed());
}

#[test]
fn never_two_owners_whatever_fails() {
    for seed in 0..200 {
        Model::new(seed).run(async move |world| chaos(&world, 2 + seed as usize % 4).await);
    }
}

#[test]
#[ignore = "long: make soak"]
fn never_two_owners_whatever_fails_many_seeds() {
    for seed in 1000..11_000 {
        Model::new(seed).run(async move |world| chaos(&world, 2 + seed as usize % 4).await);
    }
}

#[test]
fn a_text_follows_the_owner_and_a_stale_one_cannot_replace_it() {
    Model::new(1).run(async |world| {
        let registry: Rc<dyn Registry> = Rc::new(Memory::new(&world, &registry::Store::default()));
        let claim = |epoch| Kept::claim(registry.clone(), "array", epoch);
        let (mut first, none) = claim(1).await.expect("claimed");
        assert_eq!(none, None);
        for len in [1, 65_536, 65_537, 200_000, 3, TEXT_LEN_MAX] {
            let text: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            first.replace(&text).await.expect("replaced");
            first = {
                let (again, found) = claim(1).await.expect("claimed");
                assert_eq!(found.as_deref(), Some(&text[..]));
                again
            };
        }
        let too_long = first.replace(&vec![0; TEXT_LEN_MAX + 1]).await;
        assert_eq!(too_long, Err(KeptError::TooLong { len: TEXT_LEN_MAX + 1 }));
        first.replace(b"one").await.expect("replaced");
        let (mut second, found) = claim(2).await.expect("claimed");
        assert_eq!(found.as_deref(), Some(&b"one"[..]));
        assert_eq!(first.replace(b"stale").await, Err(KeptError::Stale { own: 1, found: 2 }));
        second.replace(b"two").await.expect("replaced");
        assert_eq!(first.replace(b"stale").await, Err(KeptError::Stale { own: 1, found: 2 }));
        assert!(matches!(claim(1).await, Err(KeptError::Stale { own: 1, found: 2 })));
        assert_eq!(claim(2).await.expect("claimed").1.as_deref(), Some(&b"two"[..]));
    });
}

#[test]
fn a_stale_writer_that_meets_the_next_one_at_any_call_changes_nothing() {
    let text = |byte: u8| vec![byte; 150_000];
    for lag_us in (0..40_000).step_by(500) {
        Model::new(lag_us).run(async move |world| {
            let store = registry::Store::default();
            let slow = Faulty::new(&world, Rc::new(Memory::new(&world, &store)));
            slow.link().delay.set(Duration::from_micros(900));
            let quick = Faulty::new(&world, Rc::new(Memory::new(&world, &store)));
            quick.link().delay.set(Duration::from_micros(700));
            let (mut stale, _) = Kept::claim(Rc::new(slow), "array", 1).await.expect("claimed");
            stale.replace(&text(1)).await.expect("replaced");
            let done = Rc::new(RefCell::new(None));
            let said = done.clone();
            world.spawn(async move {
                let outcome = stale.replace(&text(2)).await;
                *said.borrow_mut() = Some(outcome);
            });
            world.sleep(Duration::from_micros(lag_us)).await;
            let (mut next, found) = Kept::claim(Rc::new(quick), "array", 2).await.expect("claimed");
            let found = found.expect("a text");
            assert!(found == text(1) || found == text(2), "torn at {lag_us}");
            next.replace(&text(3)).await.expect("replaced");
            world.sleep(Duration::from_secs(1)).await;
            let outcome = done.borrow_mut().take().expect("ended");
            match outcome {
                // An acknowledged one is what the next owner found.
                Ok(()) => assert_eq!(found, text(2), "at {lag_us}"),
                Err(error) => {
                    assert!(matches!(error, KeptError::Stale { own: 1, found: 2 }), "at {lag_us}: {error}");
                }
            }
            let client: Rc<dyn Registry> = Rc::new(Memory::new(&world, &store));
            let (_, last) = Kept::claim(client, "array", 2).await.expect("claimed");
            assert_eq!(last, Some(text(3)), "at {lag_us}");
        });
    }
}

/// Replaces a value, bound to the lease if there is one.
async fn overwrite(bed: &Bed, key: &str, value: &[u8], lease: Option<LeaseId>) {
    let client = Memory::new(&bed.world, &bed.store);
    let key = Key::new(key).expect("a key");
    let version = client.get(&key).await.expect("it answers").map(|entry| entry.version);
    client.compare_and_put(&key, version, value, lease).await.expect("put");
}

#[test]
fn records_of_others_that_cannot_be_read_are_passed_over_and_said_once() {
    with_bed(&[0, 0], async |bed| {
        let keys = ["members/n8", "nodes/n9", "owner/array/ask"];
        for key in keys {
            overwrite(bed, key, b"\xff", None).await;
        }
        let state = |at: usize| bed.nodes[at].member.borrow().state();
        bed.sleep(10).await;
        let (owner, _) = bed.owner().expect("an owner");
        assert_eq!(state(owner).others.len(), 1, "the standby");
        let said = |at: usize| {
            let named = |key: &&str| state(at).passed_over.iter().filter(|text| text.contains(*key)).count();
            keys.iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!((said(owner)[0], said(owner)[2], said(1 - owner)[1]), (1, 1, 1));
        assert_eq!((state(owner).fault, state(1 - owner).fault), (None, None));
        // A request that can be read is heeded again.
        let ask = AskRecord { ask: Ask::Drain, epoch: state(owner).epoch_seen, to: None };
        overwrite(bed, keys[2], &registry::record::encode(&ask), None).await;
        bed.sleep(1).await;
        assert_eq!(state(owner).asked, Some(Ask::Drain));
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
    });
}

#[test]
fn an_owner_whose_node_cannot_be_read_lives_until_its_lease_ends() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, _) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let entry =
            client.get(&Key::new(OWNER).expect("a key")).await.expect("it answers").expect("an owner");
        let lease = OwnerRecord::decode(OWNER, &entry.value).expect("an owner").lease;
        let key = format!("{NODES}{}", bed.nodes[owner].name);
        overwrite(bed, &key, b"\xff", Some(LeaseId(lease))).await;
        assert_eq!(bed.looks(Duration::from_secs(20)).await.len(), 1, "one owner all the time");
        let standing = bed.nodes[1 - owner].standing();
        assert!(matches!(standing, Standing::Standby(Waits::Owner { .. })), "{standing:?}");
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
    });
}

#[test]
fn an_owner_whose_record_was_replaced_by_one_that_it_cannot_read_stops_and_nobody_takes_over() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, _) = bed.owner().expect("an owner");
        overwrite(bed, OWNER, b"epoch = \"of a newer version\"", None).await;
        bed.sleep(1).await;
        assert_eq!(bed.nodes[owner].standing(), Standing::Lost(Lost::Replaced { by: None }));
        assert_eq!(bed.looks(Duration::from_secs(20)).await, []);
    });
}

/// The owner keeps a text, as the array does when it serves.
async fn keeps(bed: &Bed, text: &[u8]) -> (Rc<dyn Registry>, Kept, usize, u64) {
    bed.until_owned(|_| true).await;
    let (owner, epoch) = bed.owner().expect("an owner");
    let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
    let (mut kept, _) = Kept::claim(client.clone(), STATE, epoch).await.expect("claimed");
    kept.replace(text).await.expect("kept");
    (client, kept, owner, epoch)
}

fn named(key: &str) -> Key {
    Key::new(key).expect("a key")
}

#[test]
fn without_the_state_of_the_last_owner_nobody_takes_over_until_it_is_put_back() {
    let gone = |bed: &Bed| bed.store.forget("state/");
    let damaged = |bed: &Bed| bed.store.damage(&named("state/array"), b"");
    let torn = |bed: &Bed| bed.store.damage(&named("state/array/1/00"), b"x");
    let of_another = |bed: &Bed| bed.store.damage(&named("state/array/1/00"), b"of another array");
    let no_owner = |bed: &Bed| bed.store.forget("owner/array");
    type Harm<'a> = &'a dyn Fn(&Bed);
    let harms: [(Harm<'_>, &str); 5] = [
        (&gone, "has had an owner, and has no state"),
        (&damaged, "damaged value of state/array"),
        (&torn, "1 bytes instead of 16"),
        (&of_another, "another array"),
        (&no_owner, "older than the array"),
    ];
    for (harm, said) in harms {
        with_bed(&[0, 0], async |bed| {
            let (client, _, owner, epoch) = keeps(bed, b"of this one's 16").await;
            bed.sleep(1).await;
            bed.nodes[owner].kill();
            harm(bed);
            // Also one that has never seen the array.
            let new = Process::new(bed, "n9", 0);
            new.start(&bed.world);
            assert_eq!(bed.looks(Duration::from_secs(20)).await, [], "{said}");
            assert_eq!(new.owns(), None, "{said}");
            let Standing::Standby(waits) = bed.nodes[1 - owner].standing() else { panic!("{said}") };
            assert!(waits.text().contains(said), "{}", waits.text());
            assert_eq!(bed.nodes[1 - owner].member.borrow().state().fault, None);
            new.kill();
            let text = Some(b"put back".to_vec());
            let restored = restore_state(client.clone(), &[(STATE, text.clone())], epoch + 7).await;
            assert_eq!(restored, Ok(epoch + 7));
            assert!(bed.until_owned(|node| node != owner).await < Duration::from_secs(2), "{said}");
            let (next, now) = bed.owner().expect("an owner");
            assert_eq!((next, now), (1 - owner, epoch + 8));
            assert_eq!(Kept::claim(client.clone(), STATE, now).await.expect("claimed").1, text);
            let refused = restore_state(client, &[(STATE, text)], 0).await;
            assert!(matches!(refused, Err(RaiseError::Owned { .. })), "{refused:?}");
        });
    }
}

#[test]
fn an_owner_puts_a_damaged_state_again_and_an_older_owner_does_not() {
    with_bed(&[0, 0], async |bed| {
        let text = b"the state".repeat(10_000);
        let (client, mut kept, owner, epoch) = keeps(bed, &text).await;
        let head = named("state/array");
        assert_eq!(kept.mend().await, Ok(None));
        let damage = |part: &str| bed.store.damage(&named(part), b"x");
        let harms: [(&str, &dyn Fn()); 4] = [
            ("damaged value of state/array in", &|| damage("state/array")),
            ("bytes instead of 90000", &|| damage("state/array/0/00")),
            ("it was deleted", &|| bed.store.forget("state/array")),
            ("state/array/", &|| {
                ["state/array/0/", "state/array/1/"].iter().for_each(|p| bed.store.forget(p))
            }),
        ];
        for (said, harm) in harms {
            harm();
            let cause = kept.mend().await.expect("mended").unwrap_or_default();
            // Whichever slot is in force.
            assert!(cause.contains(said) || said.contains("instead") && cause.is_empty(), "{cause}");
            assert_eq!(kept.mend().await, Ok(None));
            assert_eq!(crate::kept_text(&*client, STATE).await, Ok(Some(text.clone())));
        }
        kept.replace(b"the next").await.expect("kept");
        // Another owner has followed, and its head is damaged now.
        let next = OwnerRecord { epoch: epoch + 1, ..OwnerRecord::default() };
        bed.nodes[owner].kill();
        bed.nodes[1 - owner].kill();
        overwrite(bed, OWNER, &next.encode(), None).await;
        bed.store.damage(&head, b"");
        assert_eq!(kept.mend().await, Err(KeptError::Stale { own: epoch, found: epoch + 1 }));
        assert!(crate::kept_text(&*client, STATE).await.is_err());
    });
}

#[test]
fn an_owner_whose_record_is_damaged_where_it_is_puts_it_again_and_goes_on() {
    with_bed(&[0, 0], async |bed| {
        let (client, _, owner, epoch) = keeps(bed, b"text").await;
        for value in [&b""[..], b"\xff"] {
            bed.store.damage(&named(OWNER), value);
            bed.sleep(2).await;
            assert_eq!(bed.owner(), Some((owner, epoch)));
            let seen = Overview::look(&*client, &[STATE]).await.expect("readable");
            assert_eq!(seen.living_owner(), Some((&*bed.nodes[owner].name, epoch)));
            assert_eq!(seen.fault, None);
        }
        let state = bed.nodes[owner].member.borrow().state();
        assert_eq!((state.mended, state.fault), (2, None));
        assert_eq!(bed.looks(Duration::from_secs(20)).await.len(), 1, "one owner all the time");
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
    });
}

#[test]
fn of_two_requests_to_move_at_once_the_second_one_learns_of_the_first() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(1).await;
        let (_, epoch) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let asks = async |epoch| {
            let asked = AskRecord { ask: Ask::Drain, epoch, to: None };
            Overview::ask(&client, &asked).await.expect("it answers")
        };
        // Of an epoch that has ended.
        assert_eq!(asks(epoch - 1).await, Ok(()));
        // Both have seen no request of this epoch when they put theirs.
        let slow = Faulty::new(&bed.world, Rc::new(Memory::new(&bed.world, &bed.store)));
        slow.link().delay.set(Duration::from_millis(2));
        let drain = AskRecord { ask: Ask::Drain, epoch, to: None };
        let test = AskRecord { ask: Ask::Crash, ..drain.clone() };
        let (one, other) = futures::join!(Overview::ask(&slow, &drain), Overview::ask(&slow, &test));
        let mut both = [one.expect("it answers"), other.expect("it answers")];
        both.sort_by_key(Result::is_err);
        assert_eq!(both, [Ok(()), Err(Immovable::UnderWay)]);
        assert_eq!(asks(epoch).await, Err(Immovable::UnderWay));
    });
}

#[test]
fn an_array_whose_state_is_damaged_is_not_moved() {
    with_bed(&[0, 0], async |bed| {
        let (client, _, owner, _) = keeps(bed, b"text").await;
        bed.sleep(1).await;
        let look = async || Overview::look(&*client, &[STATE]).await.expect("readable");
        assert!(look().await.movable(None, None).is_ok());
        bed.store.damage(&named("state/array"), b"");
        let refused = look().await.movable(None, None).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("damaged value of state/array")
            && text.contains(&format!("take over from {}", bed.nodes[owner].name))));
    });
}

#[test]
fn each_node_has_a_number_of_its_own_which_it_keeps_when_it_is_removed_and_comes_back() {
    with_bed(&[0, 0, 0, 0], async |bed| {
        bed.sleep(10).await;
        let number = |at: usize| bed.nodes[at].member.borrow().state().number.expect("it has joined");
        let before: Vec<u16> = (0..4).map(number).collect();
        let mut sorted = before.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3], "all joined at once");
        let (owner, _) = bed.owner().expect("an owner");
        let others = || bed.nodes[owner].member.borrow().state().others;
        let mut seen: Vec<(u16, bool)> = others().iter().map(|other| (other.number, other.is_up)).collect();
        seen.sort_unstable();
        let of_others = (0..4).filter(|at| *at != owner).map(|at| (before[at], true));
        let mut expected: Vec<_> = of_others.collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        // Killed, and removed when its lease has ended.
        let gone = (owner + 1) % 4;
        bed.nodes[gone].kill();
        bed.sleep(10).await;
        let is_up =
            |number: u16| others().iter().find(|other| other.number == number).map(|other| other.is_up);
        assert_eq!(is_up(before[gone]), Some(false));
        let client = Memory::new(&bed.world, &bed.store);
        let key = Key::new(&format!("{MEMBERS}{}", bed.nodes[gone].name)).expect("a key");
        let version = client.get(&key).await.expect("it answers").expect("a member").version;
        client.compare_and_delete(&key, version).await.expect("removed");
        bed.sleep(5).await;
        assert_eq!(is_up(before[gone]), None);
        bed.nodes[gone].start(&bed.world);
        bed.sleep(5).await;
        assert_eq!((number(gone), is_up(before[gone])), (before[gone], Some(true)));
    });
}

#[test]
fn nodes_that_start_at_the_same_moment_have_all_joined_before_their_next_interval() {
    with_bed(&[0; 12], async |bed| {
        bed.world.sleep(EVERY / 2).await;
        let client = Memory::new(&bed.world, &bed.store);
        assert_eq!(client.list(MEMBERS).await.expect("it answers").len(), 12);
        let fault = |node: &Rc<Process>| node.member.borrow().state().fault;
        assert_eq!(bed.nodes.iter().find_map(fault), None);
    });
}

#[test]
fn when_all_numbers_are_given_that_of_a_removed_node_is_given_again_and_never_that_of_another() {
    with_bed(&[], async |bed| {
        let client = Memory::new(&bed.world, &bed.store);
        for number in 0..NUMBERS_MAX {
            let record = match number {
                7 => b"\xff".to_vec(),
                _ => registry::record::encode(&NumberRecord { node: format!("m{number}") }),
            };
            overwrite(bed, &format!("{NUMBERS}{number}"), &record, None).await;
            if number != 700 {
                overwrite(bed, &format!("{MEMBERS}m{number}"), b"", None).await;
            }
        }
        let get = async |name: &str| number_of(&client, name).await.expect("it answers");
        assert_eq!(get("m12").await, Some(12));
        assert_eq!(get("new").await, Some(700));
        assert_eq!(get("new").await, Some(700), "it is its own now");
        overwrite(bed, &format!("{MEMBERS}new"), b"", None).await;
        assert_eq!(get("newer").await, None);
        assert_eq!(portal_group(NUMBERS_MAX - 1, 63), 65_472);
    });
}

#[test]
fn the_successor_is_the_next_owner_that_lives_and_nobody_else() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let found = async |after| successor(&client, after).await.expect("the registry answers");
        let name = |at: usize| bed.nodes[at].name.clone();
        assert_eq!(found(epoch).await, None, "the owner itself");
        assert_eq!(found(epoch - 1).await.map(|next| (next.node, next.epoch)), Some((name(owner), epoch)));
        assert!(another_lives(&client, &name(owner)).await.expect("it answers"));
        bed.nodes[owner].member.borrow().leave();
        bed.sleep(2).await;
        assert_eq!(found(epoch).await.map(|next| next.node), Some(name(1 - owner)));
        assert!(!another_lives(&client, &name(1 - owner)).await.expect("it answers"));
        // Its lease ends, and its record stays.
        bed.nodes[1 - owner].kill();
        bed.sleep(8).await;
        assert_eq!(found(epoch).await, None);
    });
}

#[test]
fn an_invalid_name_of_a_node_is_an_error() {
    Model::new(1).run(async |world| {
        let registry = Rc::new(Memory::new(&world, &registry::Store::default()));
        let about = NodeRecord::default();
        let member = Member::new(&world, clock(&world, 0), ("a/../b c", about), 0, |_| {});
        assert!(matches!(run(member, registry).await, Err(RegistryError::Key { .. })));
    });
}
