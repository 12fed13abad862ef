//! The thread on which a node talks to the registry.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use array::{Event, EventSender};
use cluster::{
    ASK, AskRecord, Clock, Follows, Immovable, Kept, Member, NodeRecord, Other, Overview, SERVES,
    ServesRecord, Standing, State, TAKE_OVER, TestRecord, put,
};
use lab_core::console::causes;
use registry::record::encode;
use registry::{Registry, RegistryError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use world::World;
use world_real::{RunError, set_term};

use super::link::Knows;
use super::looked::Looked;
use super::seen::Seen;
use crate::registry_option::RegistryOption;
use admin::{Store, random};

/// A text is put with a few calls, each of which ends after 2 s.
const KEEP_TIME_MAX: Duration = Duration::from_secs(10);
/// Hosts are served meanwhile, or nobody waits.
const LOOK_TIME_MAX: Duration = Duration::from_secs(1);

/// How often a node looks at all of them, to say what would happen in a failure.
const OVERVIEW_EVERY: Duration = Duration::from_secs(2);
/// At one look in so many it tries whether the registry can be written.
const LOOKS_PER_TRIAL: u64 = 5;

type Reply<T> = Sender<Result<T>>;

/// The texts that this owner has claimed, by their names.
type AllKept = Rc<tokio::sync::Mutex<BTreeMap<String, Kept>>>;

enum Ask {
    Claim { name: String, epoch: u64, reply: Reply<Option<String>> },
    Keep { name: String, text: String, reply: Reply<()> },
    Serves { record: ServesRecord, reply: Reply<()> },
    Leaves { record: AskRecord, reply: Reply<()> },
    TakenOver { record: TestRecord, reply: Reply<()> },
    WantsEpoch { epoch: u64, reply: Reply<()> },
    Drain { from: Option<String>, to: Option<String>, reply: Reply<Result<(), Immovable>> },
    LookAt { name: String, reply: Reply<Option<String>> },
    AnotherLives { reply: Reply<bool> },
    Certificates { reply: Reply<Vec<(u16, String)>> },
}

/// The node's task.
pub(super) struct Thread {
    state: watch::Receiver<State>,
    overview: watch::Receiver<Option<Overview>>,
    keeper: Keeper,
    leave: oneshot::Sender<Leaves>,
    joined: JoinHandle<Result<(), RunError>>,
}

/// What a node's record says of it that changes: its trouble, the controllers that it runs, and what it
/// waits for as the owner.
pub(super) type Says =
    (watch::Receiver<Option<String>>, watch::Receiver<Vec<u16>>, watch::Receiver<Option<String>>);

/// How a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Ends,
    /// Another node is to take over, also if this one joins again at once.
    Moves,
}

/// Reads and keeps texts in the registry, from any thread.
#[derive(Clone)]
pub(super) struct Keeper(mpsc::UnboundedSender<Ask>);

pub(super) fn wall_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}

impl Thread {
    /// Starts it.
    ///
    /// # Errors
    /// The registry cannot be opened.
    pub(super) async fn start(
        place: &RegistryOption,
        (name, about, seen): (&str, NodeRecord, Seen),
        (follows, events): (impl FnOnce() -> Follows + Send + 'static, EventSender),
        (mut trouble, mut runs, mut waits): Says,
    ) -> Result<Thread> {
        let (tell, state) = watch::channel(State::joining(seen.epoch()));
        let (looks, overview) = watch::channel(None);
        let (keeper, asks) = mpsc::unbounded_channel();
        let (leave, leaves) = oneshot::channel();
        let (opened, is_open) = oneshot::channel();
        let (place, name) = (place.clone(), name.to_owned());
        let seed = u64::from_le_bytes(random()?);
        let options = world_real::Options { seed, watch: false, ..world_real::Options::default() };
        let joined = world_real::start("cluster", options, move |world| async move {
            let registry = match place.open_named(&world) {
                Ok(registry) => registry,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(()));
            let clock = Clock { steady: Rc::new(world_real::boot_now), wall_ms: Rc::new(wall_ms) };
            let (epoch, number) = (seen.epoch(), seen.number());
            let told = told(seen, tell);
            let member = Member::new(&world, clock, (&name, about), epoch, told);
            member.follow(follows());
            number.into_iter().for_each(|number| member.had_number(number));
            let leaving = member.clone();
            world.spawn(async move {
                // Dropped without being sent: the daemon ends without handing over.
                match leaves.await {
                    Ok(Leaves::Ends) => leaving.leave(),
                    Ok(Leaves::Moves) => leaving.move_away(),
                    Err(_) => {}
                }
            });
            let troubled = member.clone();
            world.spawn(async move {
                while trouble.changed().await.is_ok() {
                    troubled.set_trouble(trouble.borrow_and_update().clone());
                }
            });
            let kept = AllKept::default();
            let running = member.clone();
            world.spawn(async move {
                while runs.changed().await.is_ok() {
                    running.set_runs(runs.borrow_and_update().clone());
                }
            });
            let waiting = member.clone();
            world.spawn(async move {
                while waits.changed().await.is_ok() {
                    waiting.set_waits(waits.borrow_and_update().clone());
                }
            });
            world.spawn(answer(registry.clone(), (name, kept.clone()), asks));
            world.spawn(look_around(world.clone(), registry.clone(), (kept, events), looks));
            // A lost array has ended the process before.
            if let Err(error) = cluster::run(member, registry).await {
                tracing::error!("the node's task has ended: {error}");
            }
        });
        let joined = joined.context("cannot start the thread of the node")?;
        is_open.await.map_err(|_| anyhow!("the thread of the node has ended"))??;
        Ok(Thread { state, overview, keeper: Keeper(keeper), leave, joined })
    }

    pub(super) fn state(&mut self) -> State {
        self.state.borrow_and_update().clone()
    }

    /// Returns when the state has changed.
    ///
    /// # Errors
    /// The thread has ended.
    pub(super) async fn changed(&mut self) -> Result<()> {
        self.state.changed().await.map_err(|_| anyhow!("the thread of the node has ended"))
    }

    /// A second view of the state, for another task.
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// All nodes as they were at the last look; none before the first one.
    pub(super) fn overview(&self) -> watch::Receiver<Option<Overview>> {
        self.overview.clone()
    }

    /// The numbers of the other nodes that have a certificate with this SHA-256. One that this owner has not
    /// seen is looked for in the registry, but not by every stranger: between two looks, what the last one
    /// found counts.
    pub(super) fn knows_certificates(&self) -> Knows {
        let (state, keeper, looked) = (self.state.clone(), self.keeper.clone(), Looked::default());
        Box::new(move |sha256| {
            let is_it = |other: &&Other| other.certificate.as_deref() == Some(sha256);
            let known: Vec<u16> = state.borrow().others.iter().filter(is_it).map(|o| o.number).collect();
            if !known.is_empty() {
                return known;
            }
            let look = || keeper.ask(LOOK_TIME_MAX, |reply| Ask::Certificates { reply }).unwrap_or_default();
            looked
                .certificates(Instant::now(), look)
                .iter()
                .filter(|(_, found)| found == sha256)
                .map(|(n, _)| *n)
                .collect()
        })
    }

    pub(super) fn keeper(&self) -> Keeper {
        self.keeper.clone()
    }

    /// Leaves, and waits for the registry's answer.
    pub(super) async fn leave(self, how: Leaves) {
        let _ = self.leave.send(how);
        let joined = self.joined;
        // It ends in seconds: its calls do.
        let _ = tokio::task::spawn_blocking(move || joined.join()).await;
    }
}

/// What happens with each change of the state, renewals included: the term of the process follows it.
fn told(seen: Seen, tell: watch::Sender<State>) -> impl Fn(&State) {
    let (seen, owned) = (RefCell::new(seen), Cell::new(false));
    move |state| {
        match &state.standing {
            Standing::Owner { until, .. } => {
                owned.set(true);
                set_term(Some(*until));
            }
            Standing::Lost(lost) => world_real::end(&format!("it does not own the array any more: {lost}")),
            // A standby that runs controllers has a term that its owner gives.
            Standing::Joining | Standing::Standby(_) | Standing::Left if owned.take() => set_term(None),
            Standing::Joining | Standing::Standby(_) | Standing::Left => {}
        }
        if let Err(error) = seen.borrow_mut().raise(state.epoch_seen) {
            if matches!(state.standing, Standing::Owner { .. }) {
                world_real::end(&format!("the epoch cannot be kept: {}", causes(&error)));
            }
            tracing::error!("the epoch cannot be kept: {}", causes(&error));
        }
        let kept = state.number.map_or(Ok(()), |number| seen.borrow_mut().keep_number(number));
        if let Err(error) = kept {
            tracing::error!("the number of this node cannot be kept: {}", causes(&error));
        }
        tell.send_replace(state.clone());
    }
}

/// One look that fails changes nothing: an owner that cannot look for long is none. After a second one
/// nobody knows what would happen.
async fn look_around(
    world: World,
    registry: Rc<dyn Registry>,
    (kept, events): (AllKept, EventSender),
    looks: watch::Sender<Option<Overview>>,
) {
    let (mut failed, mut unwritable) = (0, None);
    for number in 0_u64.. {
        if looks.is_closed() {
            return;
        }
        mend(&kept, &events).await;
        if number % LOOKS_PER_TRIAL == 0 {
            unwritable = match registry.examine().await {
                Err(
                    error @ (RegistryError::Unwritable { .. }
                    | RegistryError::Damaged { .. }
                    | RegistryError::Refused { .. }),
                ) => Some(error.to_string()),
                Ok(Some(mended)) => {
                    let text = format!("the registry was damaged; this node has mended it: {mended}");
                    events.tell(Event::warning("array", text));
                    None
                }
                // Without an answer the look has none either.
                Err(_) | Ok(None) => None,
            };
        }
        match Overview::look(&*registry, &Store::SHARED).await {
            Ok(mut overview) => {
                failed = 0;
                overview.fault = overview.fault.or_else(|| unwritable.clone());
                looks.send_replace(Some(overview));
            }
            Err(error) => {
                failed += 1;
                if failed > 1 {
                    looks.send_modify(|last| {
                        last.iter_mut().for_each(|last| last.fault = Some(error.to_string()));
                    });
                }
            }
        }
        world.sleep(OVERVIEW_EVERY).await;
    }
}

/// An owner has the whole state: what the registry has damaged or lost of it is put again. What fails is
/// tried again at the next look, which says what is wrong.
async fn mend(kept: &AllKept, events: &EventSender) {
    for name in Store::SHARED {
        // For each by itself: a change does not wait for all of them.
        let mut kept = kept.lock().await;
        let Some(kept) = kept.get_mut(name) else { continue };
        match kept.mend().await {
            Ok(None) => {}
            Ok(Some(cause)) => {
                let text = format!("{cause}; this owner has put its state into the registry again");
                events.tell(Event::warning("array", text));
            }
            // The others would wait as long.
            Err(_) => return,
        }
    }
}

/// One request after the other.
async fn answer(
    registry: Rc<dyn Registry>,
    (own_name, kept): (String, AllKept),
    mut asks: mpsc::UnboundedReceiver<Ask>,
) {
    while let Some(ask) = asks.recv().await {
        // Who asked may have given up: a reply that nobody waits for is no error.
        match ask {
            Ask::Claim { name, epoch, reply } => {
                let claimed = Kept::claim(registry.clone(), &name, epoch).await;
                let _ = reply.send(match claimed {
                    Ok((claimed, text)) => {
                        kept.lock().await.insert(name, claimed);
                        text.map(String::from_utf8).transpose().context("the kept state is not UTF-8")
                    }
                    Err(error) => Err(error.into()),
                });
            }
            Ask::Keep { name, text, reply } => {
                let _ = reply.send(match kept.lock().await.get_mut(&name) {
                    Some(kept) => kept.replace(text.as_bytes()).await.map_err(Into::into),
                    None => Err(anyhow!("{name} was not claimed")),
                });
            }
            Ask::Serves { record, reply } => {
                let _ = reply.send(put(&*registry, SERVES, &encode(&record)).await.map_err(Into::into));
            }
            Ask::Leaves { record, reply } => {
                let _ = reply.send(put(&*registry, ASK, &encode(&record)).await.map_err(Into::into));
            }
            Ask::TakenOver { record, reply } => {
                let _ = reply.send(put(&*registry, TAKE_OVER, &encode(&record)).await.map_err(Into::into));
            }
            Ask::WantsEpoch { epoch, reply } => {
                let _ = reply.send(cluster::wants_epoch(&*registry, epoch).await.map_err(Into::into));
            }
            Ask::Drain { from, to, reply } => {
                let _ = reply.send(ask_to_move(&*registry, from.as_deref(), to).await);
            }
            Ask::LookAt { name, reply } => {
                let text = cluster::kept_text(&*registry, &name).await;
                let text = text.map(|text| text.and_then(|text| String::from_utf8(text).ok()));
                let _ = reply.send(text.map_err(Into::into));
            }
            Ask::AnotherLives { reply } => {
                let lives = cluster::another_lives(&*registry, &own_name).await;
                let _ = reply.send(lives.map_err(Into::into));
            }
            Ask::Certificates { reply } => {
                let _ = reply.send(cluster::certificates(&*registry).await.map_err(Into::into));
            }
        }
    }
}

/// Asks the owner to hand over, if the array can move.
async fn ask_to_move(
    registry: &dyn Registry,
    from: Option<&str>,
    to: Option<String>,
) -> Result<Result<(), Immovable>> {
    let epoch = match Overview::look_and_try(registry, &Store::SHARED).await?.movable(from, to.as_deref()) {
        Ok((_, epoch)) => epoch,
        Err(cause) => return Ok(Err(cause)),
    };
    Ok(Overview::ask(registry, &AskRecord { ask: cluster::Ask::Drain, epoch, to }).await?)
}

impl Keeper {
    /// Says that this owner serves hosts.
    pub(super) fn serves(&self, node: &str, epoch: u64) -> Result<()> {
        let record = ServesRecord { node: node.into(), epoch };
        self.ask(KEEP_TIME_MAX, |reply| Ask::Serves { record, reply })
    }

    /// Says how long the take-over by this owner took.
    pub(super) fn taken_over(&self, record: TestRecord) -> Result<()> {
        self.ask(LOOK_TIME_MAX, |reply| Ask::TakenOver { record, reply })
    }

    /// Says that no node is to take the array before its epoch was raised to this one.
    pub(super) fn wants_epoch(&self, epoch: u64) -> Result<()> {
        self.ask(KEEP_TIME_MAX, |reply| Ask::WantsEpoch { epoch, reply })
    }

    /// Asks the owner to hand over, if the array can move: from the one node, and to the other, if named.
    pub(super) fn drain(&self, from: Option<&str>, to: Option<&str>) -> Result<Result<(), Immovable>> {
        let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
        self.ask(KEEP_TIME_MAX, |reply| Ask::Drain { from, to, reply })
    }

    /// Says that the owner of this epoch is to leave, as if it had been asked to.
    pub(super) fn leaves(&self, epoch: u64) -> Result<()> {
        let record = AskRecord { ask: cluster::Ask::Drain, epoch, to: None };
        self.ask(LOOK_TIME_MAX, |reply| Ask::Leaves { record, reply })
    }

    /// Whether another node lives, which can take over.
    pub(super) fn another_lives(&self) -> Result<bool> {
        self.ask(LOOK_TIME_MAX, |reply| Ask::AnotherLives { reply })
    }

    /// The text of the last owner, which from now on only this one replaces.
    pub(super) fn claim(&self, name: &str, epoch: u64) -> Result<Option<String>> {
        self.ask(KEEP_TIME_MAX, |reply| Ask::Claim { name: name.into(), epoch, reply })
    }

    /// The text of the owner, whoever that is.
    pub(super) fn look_at(&self, name: &str) -> Result<Option<String>> {
        self.ask(LOOK_TIME_MAX, |reply| Ask::LookAt { name: name.into(), reply })
    }

    /// Replaces a text.
    pub(super) fn keep(&self, name: &str, text: &str) -> Result<()> {
        self.ask(KEEP_TIME_MAX, |reply| Ask::Keep { name: name.into(), text: text.into(), reply })
    }

    fn ask<T>(&self, time_max: Duration, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T> {
        let (reply, answer) = channel();
        if self.0.send(ask(reply)).is_err() {
            bail!("the thread of the node has ended");
        }
        // The other tasks of this thread go on elsewhere meanwhile.
        tokio::task::block_in_place(|| answer.recv_timeout(time_max))
            .map_err(|_| anyhow!("the registry does not answer"))?
    }
}
