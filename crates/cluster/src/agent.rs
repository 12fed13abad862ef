//! The task of a node: it renews its lease, looks at the owner, and takes over, serves or stops.

use std::rc::Rc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use registry::record::{decode, encode};
use registry::{Entry, Key, LeaseId, RecordError, Registry, RegistryError, Version, Watch};
use world::Instant;

use crate::followed::{Followed, refusal};
use crate::kept::make_room;
use crate::member::Says;
use crate::number::{keep_number, number_of};
use crate::record::refused_by_labels;
use crate::{
    ASK, AskRecord, CHOSEN_TIME, EPOCH_MAX, EVERY, Held, KeptError, LABELS, LEASE_TIME, Look, Lost, MEMBERS,
    MOVE_TIME, Member, MemberRecord, NODES, NUMBERS, NUMBERS_MAX, NodeRecord, OWNER, Other, OwnerRecord,
    RAISED_EPOCH_MAX, SERVES, Standing, Step, Term, Waits, decide,
};

/// An owner that was not answered asks again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// The owner lists the other nodes, and each node looks for what it has put itself, at one look in so many.
const LOOKS_PER_LIST: u32 = 4;

/// What to do about a state that is gone or damaged.
const RESTORE: &str = "put back that of the node that owned the array last: masu node restore-state";

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

/// Whether it is this node's turn.
enum Turn {
    Own,
    Waits(Waits),
    /// The owner's record was replaced since it was looked at.
    Changed,
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

    /// Puts the node's record, once per lease.
    async fn list_itself(&mut self, lease: LeaseId) -> Result<(), Fault> {
        // An owner goes on without it, and looks for it.
        if self.listed.is_some() || self.held.is_some() {
            return Ok(());
        }
        // First what may have to wait for other nodes: one that is listed is a member a moment later.
        let number = self.number(self.member.state().number).await?;
        let version = self.put_record(lease, None).await?;
        self.join(number).await?;
        self.listed = Some(version);
        Ok(())
    }

    /// Puts its record again when it says something else of itself.
    async fn list_again(&mut self) -> Result<(), Fault> {
        let (Some((lease, _)), Some(version)) = (self.lease, self.listed) else { return Ok(()) };
        if self.listed_as != self.member.says() {
            self.listed = Some(self.put_record(lease, Some(version)).await?);
        }
        Ok(())
    }

    /// Its record in place of nothing, of that version, or of a value that cannot be read: one that no node
    /// can have put is nobody's.
    async fn put_record(&mut self, lease: LeaseId, expected: Option<Version>) -> Result<Version, Fault> {
        let record = self.member.record(lease.0);
        let value = record.encode();
        let put = async |expected| {
            let put = self.registry.compare_and_put(&self.own_key, expected, &value, Some(lease));
            self.member.within(put).await
        };
        let version = match put(expected).await {
            Err(RegistryError::Conflict { .. }) => {
                // Its own, of an attempt that was not answered; or another's.
                let found = self.member.within(self.registry.get(&self.own_key)).await?;
                let found = found.ok_or(Fault::NameInUse)?;
                match NodeRecord::decode(self.own_key.as_str(), &found.value) {
                    Ok(node) if node.lease != lease.0 => return Err(Fault::NameInUse),
                    Ok(node) => {
                        self.listed_as = (node.trouble, node.runs, node.waits);
                        return Ok(found.version);
                    }
                    Err(_) => put(Some(found.version)).await?,
                }
            }
            answer => answer?,
        };
        self.listed_as = (record.trouble, record.runs, record.waits);
        Ok(version)
    }

    /// Puts its record again where the registry has lost or damaged it: others would not know that this node
    /// lives.
    async fn look_for_itself(&mut self) -> Result<(), Fault> {
        let Some((lease, _)) = self.lease else { return Ok(()) };
        let found = self.member.within(self.registry.get(&self.own_key)).await?;
        let node = found.as_ref().map(|entry| NodeRecord::decode(self.own_key.as_str(), &entry.value));
        let version = found.map(|entry| entry.version);
        self.listed = match node {
            Some(Ok(node)) if node.lease == lease.0 => return Ok(()),
            None => Some(self.put_record(lease, None).await?),
            // Whoever has put that, no node did.
            Some(Err(_)) => Some(self.put_record(lease, version).await?),
            // Another process of its name.
            Some(Ok(_)) => None,
        };
        Ok(())
    }

    /// Puts what the registry has lost or damaged of what stays when the node is down: hosts would not find
    /// its portals any more, and another node would get its number.
    async fn look_for_membership(&mut self) -> Result<(), Fault> {
        if self.held.is_none() {
            self.look_for_itself().await?;
        }
        // While another process of its name is listed, that one looks for it.
        let (Some(_), Some(number)) = (self.listed, self.member.state().number) else { return Ok(()) };
        let kept = keep_number(&*self.registry, self.member.name(), number);
        let number = match self.member.within(kept).await? {
            None => number,
            // Its target ports stay what they are as long as it serves.
            Some(other) if self.held.is_some() => {
                let name = self.member.name();
                let text = format!(
                    "restart {name}: node {other} has its number, too, by the record {NUMBERS}{number}"
                );
                self.member.set(|state| state.passes_over(text));
                number
            }
            Some(_) => self.number(None).await?,
        };
        Ok(self.member.within(self.join(number)).await?)
    }

    async fn number(&self, remembered: Option<u16>) -> Result<u16, Fault> {
        let number = number_of(&*self.registry, self.member.name(), remembered).await?;
        number.ok_or(Fault::TooManyNodes)
    }

    /// Puts what stays of the node when it is down.
    async fn join(&self, number: u16) -> Result<(), RegistryError> {
        let found = self.registry.get(&self.member_key).await?;
        self.member.set(|state| state.number = Some(number));
        let record = encode(&self.member.member_record(number));
        if found.as_ref().is_some_and(|entry| entry.value == record) {
            return Ok(());
        }
        let expected = found.map(|entry| entry.version);
        self.registry.compare_and_put(&self.member_key, expected, &record, None).await?;
        Ok(())
    }

    async fn look(&mut self) -> Result<Look, Fault> {
        let owner_key = key(OWNER);
        let found = self.member.within(self.registry.get(&owner_key)).await?;
        let Some(entry) = found else { return Ok(Look::default()) };
        let owner = match (OwnerRecord::decode(OWNER, &entry.value), self.held) {
            // Whoever has replaced its record, it is the owner no more.
            (Err(_), Some(held)) if held.version != entry.version => {
                return Err(Fault::Lost(Lost::Replaced { by: None }));
            }
            // Nobody has replaced it: its value was damaged where it is.
            (Err(error), Some(held)) => return self.put_again(held, error).await,
            (owner, _) => owner?,
        };
        let own = self.lease.map(|(lease, _)| lease.0);
        let since = Duration::from_millis(self.member.wall_ms().saturating_sub(owner.since_ms));
        let was_own = owner.left_by.as_deref() == Some(self.member.name()) && since < MOVE_TIME;
        let awaited = self.awaited(entry.version, &owner).map(str::to_owned);
        let mut look = Look { owner_lives: own == Some(owner.lease), ..Look::default() };
        // An owner whose record was replaced asks nobody who lives: it stops.
        if self.held.is_none() && !look.owner_lives && (owner.node.is_some() || was_own || awaited.is_some())
        {
            let mut knows_itself = false;
            for (key, entry) in self.registry.list(NODES).await? {
                let node = self.readable(NodeRecord::decode(key.as_str(), &entry.value));
                let is_itself = node.as_ref().is_some_and(|node| Some(node.lease) == own);
                knows_itself |= is_itself;
                look.moved_away |= was_own && !is_itself;
                if awaited.as_deref().is_some_and(|name| key.as_str().strip_prefix(NODES) == Some(name)) {
                    look.left_to.clone_from(&awaited);
                }
                look.owner_node = node.filter(|node| node.lease == owner.lease).or(look.owner_node);
            }
            // Whatever has become of the record of its node.
            look.owner_lives = owner.lives(&*self.registry).await?;
            if !knows_itself {
                self.look_for_itself().await?;
                return Err(Fault::Torn);
            }
        }
        Ok(Look { owner: Some((entry.version, owner)), ..look })
    }

    /// Puts this owner's record again, whose value was damaged: its version says that nobody else has put
    /// one.
    async fn put_again(&mut self, held: Held, error: RecordError) -> Result<Look, Fault> {
        let Some((lease, _)) = self.lease else { return Err(error.into()) };
        let (node, since_ms) = (Some(self.member.name().to_owned()), self.member.wall_ms());
        let owner =
            OwnerRecord { node, lease: lease.0, epoch: held.epoch, since_ms, ..OwnerRecord::default() };
        let (owner_key, value) = (key(OWNER), owner.encode());
        let put = self.registry.compare_and_put(&owner_key, Some(held.version), &value, None);
        let version = self.member.within(put).await?;
        self.held = Some(Held { version, ..held });
        self.member.set(|state| state.mended += 1);
        Ok(Look { owner: Some((version, owner)), owner_lives: true, ..Look::default() })
    }

    /// The other node that is to take over next, for a time that counts from this node's first look at
    /// that: the clocks of nodes show different times.
    fn awaited<'a>(&mut self, version: Version, owner: &'a OwnerRecord) -> Option<&'a str> {
        let name =
            owner.left_to.as_deref().filter(|name| owner.node.is_none() && *name != self.member.name());
        let now = self.member.now();
        let since = match self.left_to {
            Some((seen, since)) if seen == version => since,
            _ => now,
        };
        self.left_to = name.map(|_| (version, since));
        name.filter(|_| now - since < CHOSEN_TIME)
    }

    /// What another node has written, if it can be read. If not, that is said once, and the node goes on.
    fn readable<T>(&self, decoded: Result<T, RecordError>) -> Option<T> {
        decoded.map_err(|error| self.member.set(|state| state.passes_over(error.to_string()))).ok()
    }

    /// What the owner of this epoch is asked to do, and the version of that.
    async fn asked(&self, epoch: u64) -> Result<Option<(AskRecord, Version)>, Fault> {
        let asked = self.member.within(self.registry.get(&key(ASK))).await?;
        let asked = asked.and_then(|Entry { version, value }| {
            Some((self.readable(decode::<AskRecord>(ASK, &value))?, version))
        });
        Ok(asked.filter(|(asked, _)| asked.epoch == epoch))
    }

    /// Does what this owner is asked to do. While it waits for what its successor would wait for, too, it
    /// takes the request away: who has asked could not know of that yet.
    async fn obey(&mut self, epoch: u64) -> Result<(), Fault> {
        let Some((asked, version)) = self.asked(epoch).await? else { return Ok(()) };
        // It leaves already: a request is obeyed once.
        if self.member.state().asked.is_none() && self.member.waits() {
            let ask = key(ASK);
            let refused = self.registry.compare_and_delete(&ask, version);
            return Ok(self.member.within(refused).await?);
        }
        self.to = asked.to;
        self.member.set(|state| state.asked = Some(asked.ask));
        Ok(())
    }

    /// What an owner has to know of the others, and what it is asked to do.
    async fn look_around(&mut self, epoch: u64) -> Result<(), Fault> {
        self.obey(epoch).await?;
        self.looks += 1;
        if self.looks % LOOKS_PER_LIST != 1 {
            return Ok(());
        }
        self.look_for_itself().await?;
        let living = self.member.within(self.registry.list(NODES)).await?;
        let lives = |name: &str| living.iter().any(|(key, _)| key.as_str().strip_prefix(NODES) == Some(name));
        let mut others = Vec::new();
        for (key, entry) in self.member.within(self.registry.list(MEMBERS)).await? {
            let Some(name) = key.as_str().strip_prefix(MEMBERS).filter(|_| key != self.member_key) else {
                continue;
            };
            if let Some(other) = self.readable(MemberRecord::decode(key.as_str(), &entry.value)) {
                // Of a version without numbers: its portals have no tags.
                let MemberRecord { portals, certificate, number: Some(number), .. } = other else { continue };
                let (name, is_up) = (name.to_owned(), lives(name));
                others.push(Other { name, number, portals, is_up, certificate });
            }
        }
        self.member.set(|state| state.others = others);
        Ok(())
    }

    /// Whether this node has a trouble, and leaves the array to one that has none. Not for longer than a
    /// chosen node is waited for: that one may not be able to take it either.
    async fn yields(&mut self, last: Option<Version>) -> Result<bool, Fault> {
        if self.member.trouble().is_none() {
            self.free = None;
            return Ok(false);
        }
        let now = self.member.now();
        let since = match self.free {
            Some((seen, since)) if seen == last => since,
            _ => now,
        };
        self.free = Some((last, since));
        if now - since >= CHOSEN_TIME {
            return Ok(false);
        }
        let own = self.lease.map(|(lease, _)| lease.0);
        let nodes = self.registry.list(NODES).await?;
        let read = |(key, entry): &(Key, Entry)| NodeRecord::decode(key.as_str(), &entry.value).ok();
        let mut others = nodes.iter().filter_map(read).filter(|node| Some(node.lease) != own);
        Ok(others.any(|node| node.trouble.is_none()))
    }

    /// Whether this node may take the array from the last owner, whose record has this version and epoch.
    async fn turn(&self, last: Option<Version>, found: u64) -> Result<Turn, Fault> {
        if let Some(waits) = refused_by_labels(&*self.registry, found).await? {
            return Ok(Turn::Waits(waits));
        }
        let Some(follows) = self.member.follows() else { return Ok(Turn::Own) };
        let seen = Followed::look(&*self.registry, follows.names).await?;
        let had_owner = last.is_none() && self.registry.get(&key(SERVES)).await?.is_some();
        if let Some(waits) = refusal(found, had_owner, &seen).or_else(|| follows.refusal(&seen)) {
            // What another node has put since the owner was looked at is no reason.
            let now = self.registry.get(&key(OWNER)).await?.map(|entry| entry.version);
            return Ok(if now == last { Turn::Waits(waits) } else { Turn::Changed });
        }
        if let (None, Followed::Nothing, Some(name)) = (last, seen, follows.names.first()) {
            make_room(&*self.registry, name).await?;
        }
        Ok(Turn::Own)
    }

    async fn take(&mut self, lease: LeaseId, expected: Option<Version>, epoch: u64) -> Result<(), Fault> {
        let node = Some(self.member.name().to_owned());
        let since_ms = self.member.wall_ms();
        let record = OwnerRecord { node, lease: lease.0, epoch, since_ms, ..OwnerRecord::default() };
        match self.registry.compare_and_put(&key(OWNER), expected, &record.encode(), None).await {
            Ok(version) => {
                self.serve(Held { version, epoch });
                Ok(())
            }
            // Another node was faster: the next interval sees it.
            Err(RegistryError::Conflict { .. }) => Ok(()),
            // If it was made, the next interval sees it, too.
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over what it owns, and ends its lease. Without an answer the lease ends by itself.
    async fn leave(&mut self) {
        let is_owner = self.in_term();
        self.member.set(|state| state.standing = Standing::Left);
        let left_by = self.member.moves().then(|| self.member.name().to_owned());
        if let Some(Held { version, epoch }) = self.held.take().filter(|_| is_owner) {
            let (left_to, since_ms) = (self.to.take().filter(|_| left_by.is_some()), self.member.wall_ms());
            let record = OwnerRecord { left_by, left_to, epoch, since_ms, ..OwnerRecord::default() };
            let _ = self.registry.compare_and_put(&key(OWNER), Some(version), &record.encode(), None).await;
        }
        if let Some((lease, _)) = self.lease.take() {
            let _ = self.registry.revoke(lease).await;
        }
    }
}

impl Waits {
    /// For a person.
    pub fn text(&self) -> String {
        match self {
            Waits::Owner { node, epoch } => format!("standby of {node} (epoch {epoch})"),
            Waits::Moved => "standby; another node is to take over".into(),
            Waits::Chosen { node } => format!("standby; {node} is to take over"),
            Waits::Older { found, seen } if *seen > RAISED_EPOCH_MAX => format!(
                "the registry is older than the array: it has epoch {found}, and this node has seen epoch {seen}; \
                 restore a newer registry, or put back the state of the node that owned the array last: masu node \
                 restore-state"
            ),
            Waits::Older { found: 0, seen } => format!(
                "the registry is older than the array: it names no owner, and this node has seen epoch {seen}; if it \
                 has the state, take it with `masu node raise-epoch {seen}`, or else {RESTORE}"
            ),
            Waits::OlderThanDrives { found, wanted } if *wanted >= EPOCH_MAX => format!(
                "drives have an epoch on their labels that no owner can follow ({EPOCH_MAX} or more), and the registry \
                 has epoch {found}: no owner of this array has written that; replace these drives and restore their \
                 data from a backup, then delete the key {LABELS}"
            ),
            Waits::OlderThanDrives { found, wanted } => format!(
                "the registry is older than the array: it has epoch {found}, and drives have a later one on their \
                 labels; restore a newer registry, or take this one with `masu node raise-epoch {wanted}`"
            ),
            Waits::Older { found, seen } => format!(
                "the registry is older than the array: it has epoch {found}, and this node has seen epoch {seen}; \
                 restore a newer registry, or take this one with `masu node raise-epoch {seen}`"
            ),
            Waits::NoState { .. } => {
                format!("the registry has had an owner, and has no state of the array; {RESTORE}")
            }
            Waits::LastEpoch { found } => format!(
                "the registry has epoch {found}, and no owner can have a higher one; if no owner had that, stop all \
                 nodes, delete the key {OWNER}, and {RESTORE}"
            ),
            Waits::Damaged { cause } => format!("{cause}; {RESTORE}"),
            Waits::Refuses { cause } => cause.clone(),
        }
    }
}
