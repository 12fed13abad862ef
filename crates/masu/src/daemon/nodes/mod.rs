//! A node of several: it stands by until it owns the array, then starts as any array does, and hands over
//! when it stops.
//!
//! ```text
//!  stand_by ──> owner? ──> state from the registry ──> fence ──> begin ──> serve ──> stop ──> hand over
//!                 │                                                      relay to the next owner <──┘
//!                 └── the term passes, the lease is lost: the process ends at once, wherever it is
//! ```

mod asked;
mod asking;
mod carry;
mod elsewhere;
mod faults;
mod fence;
mod leaving;
mod link;
mod looked;
mod others;
mod owner;
mod paths;
mod relay;
mod repeated;
mod seen;
mod state;
mod thread;
mod trial;
mod withheld;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Once};

use admin::{Bound, NodeTls, STARTING, Standby, Store, hex, random};
use anyhow::{Context, Result, anyhow, ensure};
use array::{ControllerHandle, DriveSpec, Event, EventSender, Nodes, Openers, Ownership, RelayKey, Withheld};
use cluster::{Ask, NODES, NodeRecord, PORTALS_MAX, Standing, State, portal_group};
use config::{Config, ConfigError, Made, PortalConfig};
use lab_core::console::causes;

use elsewhere::{About, Offering, Own, Turn};
use faults::OwnerFaults;
use link::{Link, Offer, Served};
use owner::owner_of;
use paths::{Changes, RelayKeys, follow, keep_telling, other_portals};
use relay::Relay;
use seen::Seen;
use state::Judge;
use thread::{Keeper, Leaves, Thread};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::controllers::Footing;
use super::ports::{OwnPorts, until_all_free};
use super::signals::Signals;
use super::supervision;
use crate::known_nodes::known_nodes;
use crate::registry_option::RegistryOption;
use crate::state_key::StateKeys;

/// What the command line says of this node.
pub(super) struct Join<'a> {
    pub(super) registry: &'a RegistryOption,
    pub(super) name: &'a str,
    pub(super) config: Option<&'a Path>,
    pub(super) listen: Option<SocketAddr>,
    /// Where else it listens.
    pub(super) ports: OwnPorts,
    /// By which the state in the registry is encrypted.
    pub(super) keys: Arc<StateKeys>,
    /// What its controllers run on.
    pub(super) footing: Footing,
    /// Portals that this process listens on since its last life as the owner.
    pub(super) kept: relay::Portals,
}

pub(super) use elsewhere::{Lending, Served as ServedArray};
pub(super) use leaving::{Left, relay_to_successor};
pub(super) use relay::{Portals, keep};
pub(super) use seen::refuse_alone;
pub(crate) use seen::{epoch_owned, epoch_seen};
pub(super) use withheld::Claiming;

/// Nodes that offer to run controllers, and wait for the array.
const OFFERS_MAX: usize = 64;
/// Groups that were refused and are not yet told to the registry; more say nothing new.
const REFUSALS_MAX: usize = 64;

/// The owner of the array: this process, until it is dropped or has handed over.
pub(super) struct Node {
    name: String,
    epoch: u64,
    /// As the labels of the drives are to have it.
    ownership: Ownership,
    /// Takes the epoch to which the registry's must be raised, for each group that a later owner had open.
    refused: async_channel::Sender<u64>,
    /// Puts them into the registry; ends when that channel is closed.
    remembers: JoinHandle<()>,
    thread: Thread,
    /// Until the array serves.
    relay: RefCell<Option<Relay>>,
    portals: Vec<SocketAddr>,
    number: u16,
    link: Option<Link>,
    elsewhere: Elsewhere,
    keys: RelayKeys,
    tls: Arc<NodeTls>,
}

/// What the owner has of controllers that other nodes run.
struct Elsewhere {
    /// Of nodes that offer to run some.
    offers: RefCell<Option<mpsc::Receiver<Offer>>>,
    /// The first controller that runs at each other node, by the node's number.
    runs: watch::Sender<BTreeMap<u16, usize>>,
    /// The controllers that this node runs.
    own_runs: watch::Sender<Vec<u16>>,
    /// What keeps the drives of controllers that other nodes ran.
    waits: watch::Sender<Option<String>>,
    /// The controller that opens this node's portals, whatever is declared later.
    home: Cell<usize>,
    /// What controllers are told; none before they are.
    told: RefCell<Option<watch::Receiver<Arc<Nodes>>>>,
    /// What they do not open yet.
    withheld: watch::Sender<Arc<Withheld>>,
}

/// What the record of this node says of it as the owner: the controllers that it runs, and what it waits for.
type OwnSays = (watch::Sender<Vec<u16>>, watch::Sender<Option<String>>);

impl Elsewhere {
    fn new(offers: mpsc::Receiver<Offer>, (own_runs, waits): OwnSays) -> Elsewhere {
        let (offers, runs) = (RefCell::new(Some(offers)), watch::channel(BTreeMap::new()).0);
        let (home, told, withheld) = (Cell::default(), RefCell::default(), watch::Sender::default());
        Elsewhere { offers, runs, own_runs, waits, home, told, withheld }
    }
}

/// Joins the other nodes, and returns when this one owns the array, with the state as the last owner left it.
/// None: a signal to stop came first.
pub(super) async fn stand_by(
    mut join: Join<'_>,
    store: Store,
    bound: &Bound,
    (signals, events): (&mut Signals, &EventSender),
) -> Result<Option<(Node, Store)>> {
    let name = join.name;
    registry::Key::new(&format!("{NODES}{name}")).with_context(|| format!("invalid --node {name:?}"))?;
    let portals = portals(&join, &store)?;
    join.ports.refuse_shared(portals.iter().copied())?;
    let keys = RelayKeys { own: RelayKey(random()?), plain: RelayKey(random()?) };
    let tls = certificate(&store)?;
    let kept = |at: &SocketAddr| join.kept.iter().any(|(kept, _)| kept == at);
    until_all_free(portals.iter().copied().filter(|at| !kept(at)).chain(join.ports.node_listen)).await;
    let link = listen_for_nodes(join.ports.node_listen, &portals, &tls)?;
    let about = about(&portals, (&keys, link.as_ref(), &tls));
    supervision::watch_controllers(events.clone())?;
    guard_term()?;
    let mut relay = start_relay(&portals, std::mem::take(&mut join.kept), &tls)?;
    let seen = Seen::open(&store)?;
    let joined_before = seen.epoch() > 0;
    let judge = Judge { store: store.clone(), keys: join.keys.clone() };
    let judges = judge.clone();
    let (own_runs, waits) = (watch::channel(vec![]).0, watch::channel(None).0);
    let cannot = watch::Sender::new(None);
    let mut thread =
        Thread::start(join.registry, (name, about, seen), (move || judges.follows(), events.clone()), {
            let trouble = trial::either(trial::of_directory(store.clone()), cannot.subscribe());
            (trouble, own_runs.subscribe(), waits.subscribe())
        })
        .await?;
    judge.refuse(&thread.keeper())?;
    tokio::spawn(tell_passed_over(thread.watch(), events.clone()));
    let api = link::Api { socket: bound.socket().to_owned(), keys: join.keys.clone() };
    let owners_api = asking::owners_api(name, tls.clone(), join.keys.clone(), thread.watch());
    let standby = bound.stand_by(owners_api).context("cannot answer as a standby")?;
    supervision::ready();
    let about = About {
        tls: tls.clone(),
        portals: portals.clone(),
        spans_machines: join.registry.spans_machines()?,
        footing: join.footing.clone(),
        cannot,
    };
    let mut offering = Offering::start(about, thread.watch());
    let parts = (&standby, &mut relay, &mut offering);
    let owned = until_owner(name, &mut thread, parts, (&portals, &tls, &own_runs), signals).await;
    offering.end().await;
    standby.end().await;
    let Some(epoch) = owned? else {
        thread.leave(Leaves::Ends).await;
        return Ok(None);
    };
    let node = owner_of_array(
        (name, epoch),
        (thread, relay),
        (portals, link, api),
        (keys, tls, (own_runs, waits)),
        events,
    )
    .await?;
    match judge.take_state(node.thread.keeper(), epoch, joined_before) {
        Ok(store) => Ok(Some((node, store))),
        Err(error) => {
            node.hand_over(false).await;
            Err(error)
        }
    }
}

/// The node that owns the array from now on: hosts that wait at its portals, and nodes at its port, reach it.
async fn owner_of_array(
    (name, epoch): (&str, u64),
    (mut thread, mut relay): (Thread, Relay),
    (portals, link, api): (Vec<SocketAddr>, Option<Link>, link::Api),
    (keys, tls, says): (RelayKeys, Arc<NodeTls>, OwnSays),
    events: &EventSender,
) -> Result<Node> {
    let owner = u64::from_le_bytes(random()?);
    tell_owned(name, epoch, thread.state(), events);
    relay.set_owner(None);
    relay.lend().await.context("cannot lend the portals to the array")?;
    let number = thread.state().number.context("the node has no number")?;
    let (offer, offers) = mpsc::channel(OFFERS_MAX);
    let served = |knows| {
        let (portals, key, offer, api) = (portals.clone(), keys.own.clone(), offer.clone(), api.clone());
        Served { portals, key, knows, offer, api }
    };
    link.iter().for_each(|link| link.leads_to(Some(served(thread.knows_certificates()))));
    let relay = RefCell::new(Some(relay));
    let (name, ownership) = (name.into(), Ownership { epoch, owner });
    let (refused, heard) = async_channel::bounded(REFUSALS_MAX);
    let remembers = tokio::spawn(remember(heard, thread.keeper()));
    let elsewhere = Elsewhere::new(offers, says);
    Ok(Node {
        name,
        epoch,
        ownership,
        refused,
        remembers,
        thread,
        relay,
        portals,
        number,
        link,
        elsewhere,
        keys,
        tls,
    })
}

/// From now on the process ends with its term, as the owner or as one that runs controllers for it.
fn guard_term() -> Result<()> {
    static GUARDED: Once = Once::new();
    let mut guarded = Ok(());
    GUARDED.call_once(|| guarded = world_real::guard_term());
    guarded.context("cannot start the thread that guards the term")
}

fn tell_owned(name: &str, epoch: u64, State { taken_from, instead_of, .. }: State, events: &EventSender) {
    let cause = taken_from.map(|(last, _)| format!(": the lease of {last} has ended")).unwrap_or_default();
    let text = format!("node {name} owns the array (epoch {epoch}){cause}");
    tracing::info!("{text}");
    events.tell(Event::warning("array", text));
    if let Some(chosen) = instead_of {
        let text = format!("the array was moved to {chosen}, which did not take over in time: {name} does");
        events.tell(Event::warning("array", text));
    }
}

/// Where this node will serve hosts. The state that it takes over has the portals of another node.
fn portals(join: &Join<'_>, store: &Store) -> Result<Vec<SocketAddr>> {
    let declared = join.config.map(|path| Config::read(path, store.dir())).transpose()?;
    if let Some(declared) = &declared {
        refuse_unshared(declared, store.dir(), join.registry.spans_machines()?)?;
    }
    let declared = declared.map(|declared| declared.portals).unwrap_or_default();
    let portals: Vec<SocketAddr> = match join.listen {
        Some(listen) if declared.is_empty() => vec![listen],
        _ => declared.iter().map(|portal| portal.listen).collect(),
    };
    ensure!(!portals.is_empty(), "no portal of this node: pass --listen, or declare a [[portal]]");
    let count = portals.len();
    ensure!(
        count <= PORTALS_MAX,
        "{count} portals: a node of several has at most {PORTALS_MAX}; declare fewer"
    );
    Ok(portals)
}

/// That of this node.
fn certificate(store: &Store) -> Result<Arc<NodeTls>> {
    let tls = NodeTls::own(store).context(
        "no certificate of this node; remove node.cert.pem and node.key.pem from its data directory, so that it \
         makes new ones",
    );
    Ok(Arc::new(tls?))
}

/// What the registry is to say of this node.
fn about(portals: &[SocketAddr], (keys, link, tls): (&RelayKeys, Option<&Link>, &NodeTls)) -> NodeRecord {
    NodeRecord {
        portals: portals.iter().map(ToString::to_string).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        since_ms: thread::wall_ms(),
        lease: 0,
        relay_key: Some(hex(&keys.plain.0)),
        link: link.map(|link| link.address().to_string()),
        certificate: Some(tls.fingerprint().into()),
        controllers_protocol: Some(array::PROTOCOL),
        runs: vec![],
        trouble: None,
        waits: None,
    }
}

/// Listens for other nodes: by default at any port of the interface of its first portal. None: no portal says
/// which interface that is.
fn listen_for_nodes(
    asked: Option<SocketAddr>,
    portals: &[SocketAddr],
    tls: &Arc<NodeTls>,
) -> Result<Option<Link>> {
    if let Some(asked) = asked {
        ensure!(
            !asked.ip().is_unspecified(),
            "--node-listen {asked}: other nodes must learn where to connect; give an address of an interface"
        );
    }
    let named = portals.iter().find(|portal| !portal.ip().is_unspecified());
    let any_port = |mut portal: SocketAddr| {
        portal.set_port(0);
        portal
    };
    let Some(address) = asked.or(named.copied().map(any_port)) else { return Ok(None) };
    let link = Link::listen(address, tls.clone()).with_context(|| match (asked, named) {
        // Nobody has chosen a node port: the address is the portal's.
        (None, Some(portal)) => format!("portal {portal}: cannot listen"),
        _ => format!("--node-listen {address}: cannot listen"),
    })?;
    tracing::info!("node port {}, certificate SHA-256 {}", link.address(), tls.fingerprint());
    Ok(Some(link))
}

/// Of the declaration of an array that this node owns: refuses what nodes cannot share, and has devices
/// reserved that machines share.
pub(super) fn share_drives(config: &Config, dir: &Path, spans_machines: bool) -> Result<()> {
    refuse_unshared(config, dir, spans_machines)?;
    if spans_machines {
        world_real::reserve_devices(config.id.0);
    }
    Ok(())
}

/// Refuses drives and images that no other node can have, and those that two nodes could write to at once: on
/// several machines, what only the kernel of one machine locks.
pub(super) fn refuse_unshared(config: &Config, dir: &Path, spans_machines: bool) -> Result<(), ConfigError> {
    let cause = |spec: &DriveSpec| match spec {
        DriveSpec::File { path, .. } | DriveSpec::Image { path, .. } if path.starts_with(dir) => {
            Some("in the data directory of this node; give a path that all nodes share")
        }
        DriveSpec::Memory { .. } => Some("in the memory of this node; give a file or a device"),
        DriveSpec::File { .. } | DriveSpec::Image { .. } if spans_machines => Some(
            "locked on one machine only, and nodes of an etcd registry may be on several: use RBD images or \
             shared block devices, or a registry in a directory",
        ),
        _ => None,
    };
    let drives = config.drives.iter().map(|drive| ("drive", &drive.name, &drive.spec));
    let images = config.images.iter().map(|image| ("image", &image.name, &image.spec));
    for (kind, name, spec) in drives.chain(images) {
        if let Some(cause) = cause(spec) {
            return Err(ConfigError { place: format!("{kind} {name:?}"), cause: cause.into() });
        }
    }
    Ok(())
}

/// Returns the epoch when this node owns the array; none: a signal to stop came first.
async fn until_owner(
    name: &str,
    thread: &mut Thread,
    (standby, relay, offering): (&Standby, &mut Relay, &mut Offering),
    (portals, tls, own_runs): (&[SocketAddr], &Arc<NodeTls>, &watch::Sender<Vec<u16>>),
    signals: &mut Signals,
) -> Result<Option<u64>> {
    let (mut said, mut overview) = (String::new(), thread.overview());
    let runs_too = || match own_runs.borrow().as_slice() {
        [] => String::new(),
        controllers => format!("; {}", elsewhere::text_of(controllers)),
    };
    loop {
        let state = thread.state();
        if let Standing::Owner { epoch, .. } = state.standing {
            return Ok(Some(epoch));
        }
        relay.set_owner(owner_of(&state));
        let text = format!("node {name}: {}{}", words(&state), runs_too());
        if text != said {
            tracing::info!("{text}");
            said = text;
        }
        let seen = overview.borrow_and_update().clone();
        let nodes = seen.as_ref().map_or_else(Vec::new, |seen| known_nodes(seen, Some(name)));
        standby.say(&others::with_forecast(&said, seen.as_ref()), nodes);
        tokio::select! {
            Ok(()) = overview.changed() => {}
            changed = thread.changed() => changed?,
            turn = offering.turn() => match turn {
                Turn::Opens(controllers, lent) => {
                    relay.lend().await.context("cannot lend the portals to the controllers")?;
                    // Hosts that it carries to the owner come back to the controllers of this node.
                    *relay = Relay::start(portals, Portals::new(), tls)?;
                    own_runs.send_replace(controllers);
                    let _ = lent.send(());
                }
                Turn::Closed => {
                    *relay = start_relay(portals, keep(portals.to_vec()).await, tls)?;
                    own_runs.send_replace(vec![]);
                }
            },
            () = signals.stop() => {
                tracing::info!("node {name}: stops");
                return Ok(None);
            }
        }
    }
}

fn words(state: &State) -> String {
    match (&state.fault, &state.standing) {
        (Some(fault), _) => format!("standby; {fault}"),
        (None, Standing::Standby(waits)) => waits.text(),
        (None, _) => STARTING.into(),
    }
}

/// Listens on the portals of a standby, except those that it has kept.
fn start_relay(portals: &[SocketAddr], kept: Portals, tls: &Arc<NodeTls>) -> Result<Relay> {
    let missing: Vec<SocketAddr> =
        portals.iter().filter(|at| !kept.iter().any(|(kept, _)| kept == *at)).copied().collect();
    let mut open = relay::listen(&missing)
        .map_err(|(address, error)| anyhow!("portal {address}: cannot listen: {error}"))?;
    open.extend(kept);
    open.sort_by_key(|(address, _)| portals.iter().position(|at| at == address));
    for unnamed in portals.iter().filter(|at| !relay::can_be_named(at)) {
        let way = if unnamed.port() == 0 { "give it a port" } else { "listen on an address of an interface" };
        tracing::warn!(
            "portal {unnamed}: hosts and other nodes do not learn how to reach it, and it is closed while this \
             node is a standby; {way}"
        );
    }
    Relay::start(portals, open, tls).context("cannot listen on the portals")
}

/// Tells of records of other nodes that are passed over, and of those that an owner has put again. Only an
/// owner has events.
async fn tell_passed_over(mut state: watch::Receiver<State>, events: EventSender) {
    let (mut told, mut told_mended) = (0, 0);
    let mut faults = OwnerFaults::default();
    loop {
        let State { passed_over, standing, mended, fault, .. } = state.borrow_and_update().clone();
        if matches!(standing, Standing::Owner { .. }) {
            faults.say(fault.as_deref());
        }
        if mended > told_mended {
            told_mended = mended;
            let text = "owner/array in the registry was damaged; this owner has put its record into the registry again";
            events.tell(Event::warning("array", text));
        }
        for text in passed_over.iter().skip(told) {
            let text = format!("{text}; it is passed over: see `masu node list`");
            match standing {
                Standing::Owner { .. } => events.tell(Event::warning("array", text)),
                _ => tracing::warn!("{text}"),
            }
        }
        told = passed_over.len();
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// No node takes the array again before its epoch was raised to these: with each take-over the registry's
/// would come nearer to that of the labels, and in the end be above it.
async fn remember(refused: async_channel::Receiver<u64>, keeper: Keeper) {
    while let Ok(epoch) = refused.recv().await {
        if let Err(error) = keeper.wants_epoch(epoch) {
            tracing::error!(
                "the registry does not keep that its epoch must be raised to {epoch}: {}",
                causes(&error)
            );
        }
    }
}

impl Node {
    /// What controllers have to know of this node and of the others before they begin, and what they do not
    /// open yet.
    pub(super) fn known_nodes(&self, config: &Config, withheld: Withheld) -> Arc<Nodes> {
        // Controllers of other nodes open theirs.
        let home = cluster::lending::home(&config.controller_nodes, config.controllers, &self.name);
        self.elsewhere.home.set(home);
        self.elsewhere.withheld.send_replace(Arc::new(withheld));
        let at_home = |portal: &PortalConfig| PortalConfig { controller: home, ..portal.clone() };
        let lends = !config.controller_nodes.is_empty();
        Arc::new(Nodes {
            first_group: portal_group(self.number, 0),
            portals: lends.then(|| config.portals.iter().map(at_home).collect()),
            // An older node is learnt of in a moment, with a warning.
            relay_keys: self.keys.of(&[]),
            others: other_portals(&self.thread.watch().borrow(), &BTreeMap::new()),
            ownership: Some(self.ownership),
            refused: Some(self.refused.clone()),
            keeps_spares: Some(home),
            withheld: self.elsewhere.withheld.borrow().clone(),
        })
    }

    /// Tells the controllers, which know these, of all changes.
    pub(super) fn tell_of_nodes(&self, known: Arc<Nodes>, controllers: &[ControllerHandle]) {
        let (told, tells) = watch::channel(known);
        for controller in controllers {
            tokio::spawn(keep_telling(controller.clone(), tells.clone()));
        }
        *self.elsewhere.told.borrow_mut() = Some(tells);
        let Elsewhere { runs, withheld, .. } = &self.elsewhere;
        let changes =
            Changes { state: self.thread.watch(), runs: runs.subscribe(), withheld: withheld.subscribe() };
        tokio::spawn(follow(changes, told, self.keys.clone()));
    }

    /// Claims what the array began without, from now on.
    pub(super) fn claim_withheld(&self, openers: Openers, events: EventSender) -> Claiming {
        Claiming::start(self.elsewhere.withheld.clone(), openers, events)
    }

    /// Has other nodes run the controllers that are declared for them, from now on. None: the controllers
    /// were not told of the nodes, or it is done already.
    pub(super) fn lend_controllers(&self, served: elsewhere::Served) -> Option<Lending> {
        let Elsewhere { offers, runs, own_runs, waits, home, told, .. } = &self.elsewhere;
        let own = Own {
            ownership: self.ownership,
            state: self.thread.watch(),
            nodes: told.borrow().clone()?,
            runs: runs.clone(),
            home: home.get(),
            own_runs: own_runs.clone(),
            waits: waits.clone(),
        };
        Some(Lending::start(own, served, offers.borrow_mut().take()?))
    }

    /// Where this node serves.
    pub(super) fn portals(&self) -> Vec<SocketAddr> {
        self.portals.clone()
    }

    /// What it is when it has handed over.
    pub(super) fn left(&self) -> Left {
        Left {
            name: self.name.clone(),
            number: self.number,
            epoch: self.epoch,
            portals: self.portals.clone(),
            tls: self.tls.clone(),
        }
    }

    /// Other nodes carry nothing more here: the array is about to stop.
    pub(super) fn admits_no_more(&self) {
        self.link.iter().for_each(|link| link.leads_to(None));
    }

    /// Whether another node can take over when this one stops. A registry that does not answer knows of none.
    pub(super) fn has_successor(&self) -> bool {
        self.thread.keeper().another_lives().unwrap_or_else(|error| {
            tracing::warn!("node {}: stops without looking for another node: {}", self.name, causes(&error));
            false
        })
    }

    /// Standbys lead no more hosts here: this owner is about to stop, and another node takes over.
    pub(super) fn leaves(&self) {
        if let Err(error) = self.thread.keeper().leaves(self.epoch) {
            tracing::warn!("standbys do not learn that node {} leaves: {}", self.name, causes(&error));
        }
    }

    /// The array serves: hosts that wait for the last owner are sent to this one.
    pub(super) fn serves(&self) {
        self.relay.borrow_mut().take();
        let keeper = self.thread.keeper();
        // Before who tests a fail-over learns of its end: the test is what came last.
        let taken_over = others::take_over(&self.thread.watch().borrow(), &self.name);
        let told = keeper.serves(&self.name, self.epoch);
        let told = told.and_then(|()| taken_over.map_or(Ok(()), |record| keeper.taken_over(record)));
        if let Err(error) = told {
            tracing::warn!("the registry does not learn that node {} serves: {}", self.name, causes(&error));
        }
    }

    /// For the API.
    pub(super) fn others(&self) -> admin::Nodes {
        others::of(&self.name, self.thread.overview(), self.thread.keeper())
    }

    /// Returns when the array is to move to another node.
    pub(super) async fn drained(&self) {
        let mut state = self.thread.watch();
        match state.wait_for(|state| state.asked.is_some()).await.map(|state| state.asked) {
            Ok(Some(Ask::Crash)) => world_real::end("a fail-over is tested"),
            Ok(_) => {}
            // Its thread has ended: the term ends the process.
            Err(_) => std::future::pending().await,
        }
    }

    /// Fences the drives, and waits until no other process holds one. Returns what the array begins without;
    /// none: a signal to stop came first.
    pub(super) async fn wait_for_drives(
        &self,
        declared: (&Config, Option<&Made>),
        (events, signals): (&EventSender, &mut Signals),
    ) -> Result<Option<Withheld>> {
        fence::wait_for_drives((&self.name, self.epoch), declared, events, signals).await
    }

    /// Lets the next node take over at once: called when this one has closed its drives.
    pub(super) async fn hand_over(self, moves: bool) {
        tracing::info!("node {}: hands over (epoch {})", self.name, self.epoch);
        self.admits_no_more();
        self.refused.close();
        // If it has panicked, the thread of the node still hands over.
        let _ = self.remembers.await;
        self.thread.leave(if moves { Leaves::Moves } else { Leaves::Ends }).await;
        if let Some(link) = self.link {
            link.end().await;
        }
    }
}
