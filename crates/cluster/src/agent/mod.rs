//! The task of a node: it renews its lease, looks at the owner, and takes over, serves or stops.

mod listing;
mod look;
mod turn;

use std::rc::Rc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use registry::{Key, LeaseId, RecordError, Registry, RegistryError, Version, Watch};
use world::Instant;

use self::turn::Turn;
use crate::member::Says;
use crate::{
    EVERY, Held, KeptError, LEASE_TIME, Lost, MEMBERS, Member, NODES, NUMBERS_MAX, OWNER, Standing, Step,
    Term, Waits, decide,
};

/// An owner that was not answered asks again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// The owner lists the other nodes, and each node looks for what it has put itself, at one look in so many.
const LOOKS_PER_LIST: u32 = 4;

fn key(name: &str) -> Key {
    Key::new(name).expect("a constant key")
}

/// Why an interval was not done.
enum Fault {
    Registry(RegistryError),
    Record(RecordError),
    NameInUse,
    /// No number is left.
    TooManyNodes,
    /// The node's own record was not found where others were looked for: the look cannot be trusted.
    Torn,
    Lost(Lost),
}

impl From<RegistryError> for Fault {
    fn from(error: RegistryError) -> Fault {
        Fault::Registry(error)
    }
}

impl From<KeptError> for Fault {
    fn from(error: KeptError) -> Fault {
        match error {
            KeptError::Registry(error) => Fault::Registry(error),
            KeptError::Damaged(error) => Fault::Record(error),
            error => Fault::Record(RecordError::new("the state", error.to_string())),
        }
    }
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Fault {
        Fault::Record(error)
    }
}

/// The task's own state.
struct Agent {
    member: Rc<Member>,
    registry: Rc<dyn Registry>,
    own_key: Key,
    member_key: Key,
    /// Intervals that were done, so far.
    intervals: u32,
    /// Looks around as the owner, so far.
    looks: u32,
    /// And how long an owner may serve with it.
    lease: Option<(LeaseId, Term)>,
    /// The version of its record, if that was there when it was looked at last.
    listed: Option<Version>,
    /// What its record says of it.
    listed_as: Says,
    held: Option<Held>,
    /// Which node is to take over from this owner.
    to: Option<String>,
    /// The record by which the array was moved to another node, and when this one saw it first.
    left_to: Option<(Version, Instant)>,
    /// The record by which the array is free while this node has a trouble, and when it saw that first.
    free: Option<(Option<Version>, Instant)>,
}

/// Takes part until the node leaves, or has lost the array; then it must not serve any more, and its process
/// has to begin anew: ownership is never taken up again by a process that has lost it.
///
/// # Errors
/// Why it has lost the array; [`RegistryError::Key`] if its name is no part of a key.
pub async fn run(member: Rc<Member>, registry: Rc<dyn Registry>) -> Result<Option<Lost>, RegistryError> {
    let own_key = Key::new(&format!("{NODES}{}", member.name()))?;
    let mut watch = registry.watch(OWNER);
    let member_key = Key::new(&format!("{MEMBERS}{}", member.name()))?;
    let (lease, listed, held) = (None, None, None);
    let mut agent = Agent {
        member: member.clone(),
        registry,
        own_key,
        member_key,
        intervals: 0,
        looks: 0,
        lease,
        listed,
        listed_as: Default::default(),
        held,
        to: None,
        left_to: None,
        free: None,
    };
    while !member.leaves() {
        if let Some(lost) = agent.interval_told().await {
            return Ok(Some(lost));
        }
        if agent.held.is_some() && member.state().fault.is_some() {
            member.wait(AGAIN, std::future::pending()).await;
        } else {
            wait(&member, &mut watch).await;
        }
    }
    agent.leave().await;
    Ok(None)
}

/// Until the next interval, or news of the owner.
async fn wait(member: &Member, watch: &mut Watch) {
    let mut fails = false;
    member.wait(EVERY, watch.next().map(|news| fails = !matches!(news, Some(Ok(()))))).await;
    if fails {
        // A watch that has ended says nothing more: looking at intervals is enough.
        member.wait(EVERY, std::future::pending()).await;
    }
}

impl Agent {
    /// Does an interval and says how it went.
    async fn interval_told(&mut self) -> Option<Lost> {
        let done = self.interval().await;
        if done.is_ok() {
            // Best effort: the next interval tries again, and a node does its work also where others do not
            // learn of its trouble.
            let _ = self.list_again().await;
            self.intervals = self.intervals.wrapping_add(1);
            if self.intervals.is_multiple_of(LOOKS_PER_LIST) {
                let _ = self.look_for_membership().await;
            }
        }
        let late = || self.held.filter(|_| !self.in_term()).map(|_| Lost::Late);
        let (fault, lost) = match done {
            Ok(()) => (None, late()),
            Err(Fault::Lost(lost)) => (None, Some(lost)),
            Err(Fault::Registry(RegistryError::Conflict { .. })) => (
                Some("another node changed the same record at the same moment; this one tries again".into()),
                late(),
            ),
            Err(Fault::Registry(error)) => (Some(error.to_string()), late()),
            Err(Fault::Record(error)) => (Some(error.to_string()), late()),
            Err(Fault::Torn) => (Some("the registry's nodes could not be read as a whole".into()), late()),
            Err(Fault::TooManyNodes) => {
                let cause = format!("{NUMBERS_MAX} nodes have joined the array, and no more can; remove one");
                (Some(cause), late())
            }
            Err(Fault::NameInUse) => {
                let name = self.member.name();
                (Some(format!("another node is called {name}, or was until its lease ends")), late())
            }
        };
        self.member.set(|state| {
            state.fault = fault;
            if let Some(lost) = &lost {
                state.standing = Standing::Lost(lost.clone());
            }
        });
        lost
    }

    fn in_term(&self) -> bool {
        self.lease.as_ref().is_some_and(|(_, term)| term.holds(self.member.now()))
    }

    async fn interval(&mut self) -> Result<(), Fault> {
        let lease = self.renew().await?;
        self.tell_owner();
        self.list_itself(lease).await?;
        let look = self.look().await?;
        let found = look.owner.as_ref().map_or(0, |(_, owner)| owner.epoch);
        match decide(lease, self.held, &look, self.member.state().epoch_seen) {
            Step::Wait(waits) => {
                let owner_leaves = match &waits {
                    Waits::Owner { epoch, .. } => self.asked(*epoch).await?.is_some(),
                    _ => false,
                };
                let lease = look.owner.as_ref().map(|(_, owner)| owner.lease);
                self.member.set(|state| {
                    state.owner_leaves = owner_leaves;
                    // What nobody can go on from is not remembered: the record may be wrong.
                    if !matches!(waits, Waits::LastEpoch { .. }) {
                        state.epoch_seen = state.epoch_seen.max(found);
                    }
                    // While its node is not listed, it is where it was.
                    let last =
                        state.owner.take().filter(|last| look.owner_lives && Some(last.lease) == lease);
                    state.owner = look.owner_node.clone().or(last);
                    state.standing = Standing::Standby(waits);
                });
                Ok(())
            }
            Step::Take { expected, epoch } => {
                let is_chosen = look
                    .owner
                    .as_ref()
                    .is_some_and(|(_, owner)| owner.left_to.as_deref() == Some(self.member.name()));
                let turn = match !is_chosen && self.yields(expected).await? {
                    true => Turn::Waits(Waits::Moved),
                    false => self.turn(expected, found).await?,
                };
                match turn {
                    Turn::Own => {}
                    Turn::Changed => return Ok(()),
                    Turn::Waits(waits) => {
                        self.member.set(|state| {
                            state.epoch_seen = state.epoch_seen.max(found);
                            (state.owner, state.owner_leaves) = (None, false);
                            state.standing = Standing::Standby(waits);
                        });
                        return Ok(());
                    }
                }
                let last = look.owner.map(|(_, owner)| owner).unwrap_or_default();
                let instead_of = last.left_to.filter(|name| name != self.member.name());
                let taken_from = last.node.map(|node| (node, self.member.now()));
                self.member.set(|state| (state.instead_of, state.taken_from) = (instead_of, taken_from));
                self.take(lease, expected, epoch).await
            }
            Step::Serve(held) => {
                self.serve(held);
                self.look_around(held.epoch).await
            }
            Step::Stop(lost) => Err(Fault::Lost(lost)),
        }
    }

    /// The node's lease: the old one, or a new one when that has ended.
    async fn renew(&mut self) -> Result<LeaseId, Fault> {
        let sent = self.member.now();
        if let Some((lease, _)) = self.lease {
            let answer = self.member.within(self.registry.keep_alive(lease)).await;
            let now = self.member.now();
            let in_time = self.lease.as_mut().is_some_and(|(_, term)| match answer {
                Ok(()) => term.renewed(sent, now),
                Err(_) => term.holds(now),
            });
            match (answer, in_time) {
                (Err(RegistryError::Expired), _) if self.held.is_some() => {
                    return Err(Fault::Lost(Lost::Expired));
                }
                (_, false) if self.held.is_some() => return Err(Fault::Lost(Lost::Late)),
                (Ok(()), true) => return Ok(lease),
                // A standby whose term has passed while its lease lives: nothing was served, it begins anew.
                (Ok(()), false) => {
                    self.lease = Some((lease, Term::granted(sent)));
                    return Ok(lease);
                }
                (Err(RegistryError::Expired), _) => (self.lease, self.listed) = (None, None),
                (Err(error), _) => return Err(error.into()),
            }
        }
        let sent = self.member.now();
        let lease = self.registry.grant(LEASE_TIME).await?;
        self.lease = Some((lease, Term::granted(sent)));
        Ok(lease)
    }

    /// Tells the new end of the term.
    fn tell_owner(&self) {
        if let (Some(held), Some((_, term))) = (self.held, self.lease) {
            self.serve_until(held, term);
        }
    }

    fn serve_until(&self, held: Held, term: Term) {
        self.member.set(|state| {
            state.epoch_seen = state.epoch_seen.max(held.epoch);
            state.standing = Standing::Owner { epoch: held.epoch, until: term.until() };
        });
    }

    /// It is the owner, if its term still holds; if not, the next interval looks again.
    fn serve(&mut self, held: Held) {
        if let Some((_, term)) = self.lease.filter(|_| self.in_term()) {
            if self.held.is_none() {
                // It looks for what it has put at other intervals than around: each has to fit its term.
                self.intervals = 0;
            }
            self.held = Some(held);
            self.serve_until(held, term);
        }
    }
}
