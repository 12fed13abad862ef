//! Nodes over the model world's registry, with partitions, delays, pauses, lost watches, kills, and clocks
//! that drift: within their terms there is never more than one owner.

mod bounds;
mod damage;
mod numbers;
mod trouble;

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
    OwnerRecord, RaiseError, Standing, State, TEXT_LEN_MAX, Waits, another_lives, raise_epoch, restore_state,
    run, successor, wants_epoch,
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

/// Replaces a value, bound to the lease if there is one.
async fn overwrite(bed: &Bed, key: &str, value: &[u8], lease: Option<LeaseId>) {
    let client = Memory::new(&bed.world, &bed.store);
    let key = Key::new(key).expect("a key");
    let version = client.get(&key).await.expect("it answers").map(|entry| entry.version);
    client.compare_and_put(&key, version, value, lease).await.expect("put");
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

/// Before, each take-over brought the registry's epoch nearer to that of the labels, and the next owner but
/// one opened the groups.
#[test]
fn no_node_takes_the_array_while_labels_want_a_higher_epoch() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        wants_epoch(&client, epoch + 2).await.expect("put");
        wants_epoch(&client, epoch + 1).await.expect("the higher one stays");
        let forecast = Overview::look(&client, &["array"]).await.expect("a look").forecast();
        let fault = forecast.and_then(|forecast| forecast.fault).unwrap_or_default();
        assert!(fault.contains("raise-epoch"), "{fault}");
        bed.nodes[owner].link.cut.set(true);
        bed.sleep(20).await;
        let other = &bed.nodes[1 - owner];
        let older = Waits::OlderThanDrives { found: epoch, wanted: epoch + 2 };
        assert_eq!(other.standing(), Standing::Standby(older));
        raise_epoch(&client, epoch + 2).await.expect("raised");
        bed.sleep(3).await;
        assert_eq!(other.member.borrow().owns(), Some(epoch + 3));
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
