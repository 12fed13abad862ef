//! A node as the rest of its process sees it.

use std::cell::{Cell, OnceCell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use registry::RegistryError;
use world::sync::Signal;
use world::{Instant, World};

use crate::record::TROUBLE_LEN_MAX;
use crate::{Ask, Follows, Lost, MemberRecord, NodeRecord, Waits};

/// A renewal or look without an answer is given up after this time.
const TRY_TIME: Duration = Duration::from_secs(1);

/// Lines about records that were passed over.
const PASSED_OVER_MAX: usize = 64;

/// The clocks of a node.
#[derive(Clone)]
pub struct Clock {
    /// Never set and never stopped, not even while the machine sleeps: terms are counted by it.
    pub steady: Rc<dyn Fn() -> Instant>,
    /// Milliseconds since 1970, to be shown only.
    pub wall_ms: Rc<dyn Fn() -> u64>,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Standing {
    /// It has not seen an owner yet.
    Joining,
    Standby(Waits),
    /// It owns the array, and may serve until then by its own clock.
    Owner {
        epoch: u64,
        until: Instant,
    },
    /// It was the owner. Final: the process has to begin anew.
    Lost(Lost),
    /// It has left.
    Left,
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What it is.
    pub standing: Standing,
    /// Why the last interval was not done: the registry does not answer, a value is damaged, the name is in
    /// use.
    pub fault: Option<String>,
    /// The highest epoch that it has seen.
    pub epoch_seen: u64,
    /// This node's number, as soon as it has joined.
    pub number: Option<u16>,
    /// The owner's record, if this is a standby.
    pub owner: Option<NodeRecord>,
    /// Whether that owner was asked to leave: connections that are led to it now would end with it.
    pub owner_leaves: bool,
    /// The other nodes, if this is the owner.
    pub others: Vec<Other>,
    /// What this owner is asked to do.
    pub asked: Option<Ask>,
    /// The owner whose lease had ended when this node took over, and since when it was.
    pub taken_from: Option<(String, Instant)>,
    /// The node to which the array was moved, if this one has taken over in its place.
    pub instead_of: Option<String>,
    /// Records of other nodes that could not be read since this one joined: a line for each, with its key.
    pub passed_over: Vec<String>,
    /// How often this owner has put its record again, which the registry had damaged.
    pub mended: u32,
}

impl State {
    /// A node that has not looked yet.
    pub fn joining(epoch_seen: u64) -> State {
        State {
            standing: Standing::Joining,
            fault: None,
            epoch_seen,
            number: None,
            owner: None,
            owner_leaves: false,
            others: vec![],
            asked: None,
            taken_from: None,
            instead_of: None,
            passed_over: vec![],
            mended: 0,
        }
    }

    /// Each text once.
    pub(crate) fn passes_over(&mut self, text: String) {
        if self.passed_over.len() < PASSED_OVER_MAX && !self.passed_over.contains(&text) {
            self.passed_over.push(text);
        }
    }
}

/// Another node, as the owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// As `--node` says.
    pub name: String,
    /// Its number in the array.
    pub number: u16,
    /// In the order of its portal group tags.
    pub portals: Vec<String>,
    /// Whether its lease lives.
    pub is_up: bool,
    /// The SHA-256 of its certificate. None: of a version without TLS between nodes.
    pub certificate: Option<String>,
}

/// As much of a text as a record has, in one line: other nodes print it.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        let escaped = if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        if shown.len() + escaped.len() > TROUBLE_LEN_MAX {
            break;
        }
        shown.push_str(&escaped);
    }
    shown
}

type Tell = Box<dyn Fn(&State)>;

/// What a node's record says of it that changes: its trouble, the controllers that it runs, and what it
/// waits for.
pub(crate) type Says = (Option<String>, Vec<u16>, Option<String>);

/// A node.
pub struct Member {
    world: World,
    clock: Clock,
    name: String,
    about: NodeRecord,
    trouble: RefCell<Option<String>>,
    runs: RefCell<Vec<u16>>,
    waits: RefCell<Option<String>>,
    state: RefCell<State>,
    tell: Tell,
    leaves: Cell<bool>,
    moves: Cell<bool>,
    changed: Signal,
    follows: OnceCell<Follows>,
}

impl Member {
    /// A node that is to join. `tell` hears of each change of its state, renewals included. `epoch_seen` is
    /// the highest epoch that it has seen in an earlier life: a registry with an older one is refused.
    pub fn new(
        world: &World,
        clock: Clock,
        (name, about): (&str, NodeRecord),
        epoch_seen: u64,
        tell: impl Fn(&State) + 'static,
    ) -> Rc<Member> {
        Rc::new(Member {
            world: world.clone(),
            clock,
            name: name.into(),
            about,
            trouble: RefCell::default(),
            runs: RefCell::default(),
            waits: RefCell::default(),
            state: RefCell::new(State::joining(epoch_seen)),
            tell: Box::new(tell),
            leaves: Cell::new(false),
            moves: Cell::new(false),
            changed: Signal::default(),
            follows: OnceCell::new(),
        })
    }

    /// The number that it had in an earlier life: it keeps that also where the registry has lost it, if no
    /// other node was given it. Said before it joins.
    pub fn had_number(&self, number: u16) {
        self.set(|state| state.number = Some(number));
    }

    /// It takes the array only if the registry has these texts, as its last owner kept them. Said once,
    /// before it joins.
    pub fn follow(&self, follows: Follows) {
        let is_first = self.follows.set(follows).is_ok();
        debug_assert!(is_first, "said once");
    }

    pub(crate) fn follows(&self) -> Option<&Follows> {
        self.follows.get()
    }

    /// Why this node could not take over now, or that nothing is wrong: other nodes learn of it, and where
    /// one without a trouble lives, this one leaves the array to it.
    pub fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.borrow_mut() = trouble.map(|text| shown(&text));
    }

    /// The controllers of the array that this node runs, for those who look at its record.
    pub fn set_runs(&self, runs: Vec<u16>) {
        *self.runs.borrow_mut() = runs;
    }

    /// What this owner waits for that a node which takes over would wait for, too: the array is not moved by
    /// command then.
    pub fn set_waits(&self, waits: Option<String>) {
        *self.waits.borrow_mut() = waits.map(|text| shown(&text));
    }

    /// What its record says of it that changes.
    pub(crate) fn says(&self) -> Says {
        (self.trouble(), self.runs(), self.waits.borrow().clone())
    }

    /// Whether it waits for what a node that takes over would wait for.
    pub(crate) fn waits(&self) -> bool {
        self.waits.borrow().is_some()
    }

    pub(crate) fn runs(&self) -> Vec<u16> {
        self.runs.borrow().clone()
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The epoch if it may serve at this instant.
    pub fn owns(&self) -> Option<u64> {
        match self.state.borrow().standing {
            Standing::Owner { epoch, until } if self.now() < until => Some(epoch),
            _ => None,
        }
    }

    /// Ends the task. An owner hands over: whoever calls this has stopped serving, and closed the drives.
    pub fn leave(&self) {
        self.leaves.set(true);
        self.changed.wake_all();
    }

    /// As [`Member::leave`], so that another node takes over also if this one joins again at once.
    pub fn move_away(&self) {
        self.moves.set(true);
        self.leave();
    }

    pub(crate) fn moves(&self) -> bool {
        self.moves.get()
    }

    pub(crate) fn leaves(&self) -> bool {
        self.leaves.get()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn now(&self) -> Instant {
        (self.clock.steady)()
    }

    pub(crate) fn wall_ms(&self) -> u64 {
        (self.clock.wall_ms)()
    }

    pub(crate) fn record(&self, lease: u64) -> NodeRecord {
        let (trouble, runs, waits) = self.says();
        NodeRecord { lease, trouble, runs, waits, ..self.about.clone() }
    }

    pub(crate) fn member_record(&self, number: u16) -> MemberRecord {
        let NodeRecord { portals, version, since_ms, certificate, .. } = self.about.clone();
        MemberRecord { portals, version, since_ms, number: Some(number), certificate }
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        let mut next = self.state();
        change(&mut next);
        if *self.state.borrow() != next {
            *self.state.borrow_mut() = next.clone();
            (self.tell)(&next);
        }
    }

    /// The answer, or that there is none: an owner has to renew again before its term ends. If the call is
    /// carried out later, nobody counts on it.
    pub(crate) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        match select(pin!(call), pin!(self.world.sleep(TRY_TIME))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                Err(RegistryError::Unreachable { cause: format!("no answer in {} s", TRY_TIME.as_secs()) })
            }
        }
    }

    /// Waits; ends early when the node is to leave, or when `early` ends.
    pub(crate) async fn wait(&self, time: Duration, early: impl Future<Output = ()>) {
        let leaves = self.changed.wait_for(|| self.leaves.get().then_some(()));
        let sleep = self.world.sleep(time);
        select(pin!(select(pin!(leaves), pin!(early))), pin!(sleep)).await;
    }
}
