//! `masu serve`: the array as a daemon.

mod controllers;
mod declaration;
mod locks;
mod log;
mod nodes;
mod ports;
mod signals;
mod supervision;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use admin::{
    ArrayOwner, Bound, CertificateFiles, EventLog, EventWriter, NewFiles, Server, ServerOptions, Store, Tls,
    Tokens, TraceExporter, cut_short, random,
};
use anyhow::{Context, Result, bail};
use array::{Array, ControlError, Event, EventReceiver, EventSender, MoveSender, Openers, Withheld};
use clap::Args;
use config::{ArrayId, Config};
use lab_core::console::causes;
use lab_tools::testbed::timed_file::FileDrives;
use tokio::task::JoinHandle;

use self::controllers::{Controllers, Ends, Footing, Threads};
use self::declaration::{bring_up_to_date, declared_at, read, refuse_first, reload};
use self::locks::drives_are_free;
use self::log::LogFormat;
use self::nodes::{
    Claiming, Join, Lending, Node, Portals, ServedArray, keep, refuse_alone, refuse_unshared,
    relay_to_successor, share_drives, stand_by,
};
pub(crate) use self::nodes::{epoch_owned, epoch_seen};
use self::ports::OwnPorts;
use self::signals::{Asked, Signals};
use crate::declared::Start;
use crate::manage::socket_in;
use crate::registry_option::{RegistryOption, node_name};
use crate::state_key::StateKeys;
use crate::stderr_queue;
use world_real::is_lent;

/// Serve block storage over iSCSI
///
/// Without a declaration: one pool on a file under the data directory, without mappings. Create volumes and
/// hosts with `masu volume` and `masu host`; they are persistent. A declaration (--config) is applied
/// idempotently: declared objects are created, other existing objects stay. SIGHUP applies the declaration
/// again; SIGTERM and SIGINT stop the array in order. One node of several then leads its hosts to the next
/// owner for at most 3 s; a second signal ends that. For systemd see packaging/systemd/masu.service and
/// docs/operation.md.
#[derive(Args)]
pub(crate) struct Serve {
    /// Data directory: the array's state, and file drives with relative names
    #[arg(long, default_value = "./data", env = "MASU_DATA")]
    data: PathBuf,
    /// Declaration (array.toml) to apply
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address for hosts, if no portal is declared [default: the previous address, at first 127.0.0.1:3260]
    #[arg(long)]
    listen: Option<SocketAddr>,
    // Nodes of one registry that share drives agree in it on the one that owns the array: docs/cluster.md.
    #[command(flatten)]
    registry: RegistryOption,
    /// Name of this node; no other of its registry may have it. The nodes of a registry share their drives:
    /// one owns the array and serves it, the others stand by (docs/cluster.md)
    #[arg(long, requires = "registry", value_parser = node_name)]
    node: Option<String>,
    /// Where the other nodes connect to this one, by TLS [default: the address of its first portal, and any
    /// free port]
    #[arg(long, value_name = "ADDR:PORT", requires = "node")]
    node_listen: Option<SocketAddr>,
    /// File with the key by which the state in the registry is encrypted, which has the secrets of hosts: the
    /// same on all nodes, and other users cannot read it. `masu node key` makes one. Further lines are older
    /// keys
    #[arg(long, value_name = "FILE", requires = "registry")]
    state_key: Option<PathBuf>,
    /// Erase the data on this declared drive when the array first uses it (repeatable). Other drives must be
    /// blank
    #[arg(long, value_name = "DRIVE")]
    overwrite: Vec<String>,
    /// Number of controllers (threads), if not declared
    #[arg(long)]
    controllers: Option<usize>,
    /// Run controller N on processor FIRST + N
    #[arg(long)]
    pin_first: Option<usize>,
    /// File drives take the time of this modelled drive: for `masu verify qos --world real`
    #[arg(long, value_name = "MODEL", hide = true)]
    drive_model: Option<String>,
    /// End with the process that started this one, which has this PID: for `masu verify qos --world real`
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<i32>,
    /// Serve the API on TCP, too. Requests there need a token: `masu token create` makes one
    #[arg(long)]
    api: Option<SocketAddr>,
    /// Certificate of the API on TCP (PEM, with the chain to its root); read again when it changes. Without
    /// it, beyond loopback one is made in the data directory
    #[arg(long, value_name = "FILE", requires_all = ["api", "api_key"])]
    api_cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "api_cert")]
    api_key: Option<PathBuf>,
    /// Serve the API on TCP without TLS also beyond loopback: who hears it learns the tokens
    #[arg(long, requires = "api", conflicts_with = "api_cert")]
    api_plain: bool,
    /// A token that may do everything, beside those of `masu token` (at least 16 characters)
    #[arg(long, env = "MASU_TOKEN", hide_env_values = true)]
    api_token: Option<String>,
    /// LUs, hosts and drives with metrics of their own, the busiest of each; the others are summed as `other`
    #[arg(long, value_name = "N", default_value_t = 100)]
    metrics_top: usize,
    /// Format of the log on standard error; RUST_LOG sets what is logged
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", env = "MASU_LOG_FORMAT")]
    log_format: LogFormat,
}

/// Time limit of a start that is requested to stop.
const OPEN_GRACE: Duration = Duration::from_secs(20);
/// Where another node takes over, hosts that do not log out when they are asked to are sent away after this
/// time: those that did wait for the next owner. A planned move is to take a second.
const MOVE_GRACE: Duration = Duration::from_millis(500);

impl Serve {
    /// Of the state in the registry. Whoever can reach etcd reads what is in the clear there.
    fn state_keys(&self) -> Result<StateKeys> {
        let keys = self.state_key.as_deref().map(StateKeys::read).transpose()?.unwrap_or_default();
        if !keys.encrypt() && self.registry.spans_machines()? {
            tracing::warn!(
                "the registry has the secrets of hosts in the clear; make a key by `masu node key`, and pass --state-key"
            );
        }
        Ok(keys)
    }

    fn own_ports(&self) -> OwnPorts {
        OwnPorts { node_listen: self.node_listen, api: self.api }
    }

    /// What the controllers run on.
    fn footing(&self) -> Result<Footing> {
        let drives = self.drive_model.as_deref().map(FileDrives::alike).transpose()?;
        Ok(Footing { pin_first: self.pin_first, drives })
    }

    /// TLS of the API on TCP: nobody else hears loopback, so there it is asked for.
    fn tls(&self, store: &Store) -> Result<Option<Tls>> {
        let Some(address) = self.api else { return Ok(None) };
        let tls = match (&self.api_cert, &self.api_key) {
            (Some(certificate), Some(key)) => {
                let files = CertificateFiles { certificate: certificate.clone(), key: key.clone() };
                Tls::open(files).context("cannot use --api-cert with --api-key")?
            }
            _ if address.ip().is_loopback() => return Ok(None),
            _ if self.api_plain => {
                tracing::warn!("the API at {address} is not encrypted: who hears it learns the tokens");
                return Ok(None);
            }
            _ => Tls::own(store, address)?,
        };
        tracing::info!("API at https://{address}, certificate SHA-256 {}", tls.fingerprint());
        Ok(Some(tls))
    }
}

pub(crate) fn run(serve: &Serve) -> Result<ExitCode> {
    log::begin(serve.log_format)?;
    supervision::end_on_panic();
    if let Some(parent) = serve.parent {
        supervision::end_with(parent)?;
    }
    // A thousand sessions need more open files than the default limit.
    world_real::raise_open_files_max();
    world_real::start_releasing_memory().context("cannot start a thread")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let ended = runtime.block_on(start_and_serve(serve));
    match (&ended, serve.log_format) {
        (Ok(()), _) => {}
        // The reader of a JSON log gets why it ended as JSON, too.
        (Err(error), LogFormat::Json) => tracing::error!("{}", causes(error)),
        (Err(error), LogFormat::Text) => stderr_queue::note(&format!("masu: {}", causes(error))),
    }
    stderr_queue::drain();
    Ok(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The life of the daemon. If a step of the start fails, the earlier ones are undone in order.
async fn start_and_serve(serve: &Serve) -> Result<()> {
    let mut signals = Signals::heed()?;
    serve.registry.warn_if_readable()?;
    if let Some(file) = &serve.config {
        // It is read again at each SIGHUP.
        config::must_be_file(file).with_context(|| format!("--config {}", file.display()))?;
    }
    let mut kept = Portals::new();
    // Each turn is a life of its own: a node that was drained stands by again.
    while let Some(portals) = live(serve, &mut signals, kept).await? {
        kept = portals;
    }
    Ok(())
}

/// One life, from the data directory to the end. Some: the node was drained, and has these portals.
async fn live(serve: &Serve, signals: &mut Signals, kept: Portals) -> Result<Option<Portals>> {
    let store = Store::open(&serve.data).context("--data")?;
    // First the steps that are cheap and fail for reasons that the operator can fix: no host is served
    // without administration.
    let socket = socket_in(store.dir());
    Tokens::check_given(serve.api_token.as_deref())?;
    let options = ServerOptions { socket: socket.clone(), tcp: serve.api, metrics_top: serve.metrics_top };
    ports::until_all_free(serve.api).await;
    // A certificate is made for an address that is to be had.
    let bound = admin::bind(options)?.with_tls(serve.tls(&store)?);
    let events = array::event_channel();
    let name = match (&serve.node, serve.registry.is_named()) {
        (Some(name), true) => name,
        (None, true) => bail!("--registry without a name for this node: pass --node NAME, too"),
        (_, false) => {
            refuse_alone(&store)?;
            serve_array(serve, store, bound, (signals, events, None)).await?;
            return Ok(None);
        }
    };
    let (registry, config) = (&serve.registry, serve.config.as_deref());
    let keys = serve.state_keys()?.into();
    let (listen, ports) = (serve.listen, serve.own_ports());
    let footing = serve.footing()?;
    let join = Join { registry, name, config, listen, ports, keys, footing, kept };
    let Some((node, store)) = stand_by(join, store, &bound, (signals, &events.0)).await? else {
        return Ok(None);
    };
    let outcome = serve_array(serve, store, bound, (signals, events, Some(&node))).await;
    let left = node.left();
    node.hand_over(matches!(outcome, Ok(Ended::Drained(_)))).await;
    match outcome? {
        Ended::Drained(portals) => return Ok(Some(portals)),
        Ended::Left(open) => relay_to_successor(registry, left, open, signals).await?,
        Ended::Stopped => {}
    }
    Ok(None)
}

/// How an array has ended in order. Portals are those that the process still listens on.
enum Ended {
    Stopped,
    /// It moves to another node, and this one stands by.
    Drained(Portals),
    /// It moves to another node, and this one ends.
    Left(Portals),
}

/// From the declaration to the end. Its drives are closed when it returns.
async fn serve_array(
    serve: &Serve,
    store: Store,
    bound: Bound,
    (signals, (events, arriving), node): (&mut Signals, (EventSender, EventReceiver), Option<&Node>),
) -> Result<Ended> {
    let mut start = read(serve, &store)?;
    if start.config.id == ArrayId::default() {
        start.config.id = ArrayId(random()?);
    }
    let tokens = Tokens::open(&store, serve.api_token.as_deref())?;
    let moved = start.find_devices();
    start.config.check()?;
    ports_are_free(serve, &start.config).await?;
    let Some(withheld) = claim_drives(serve, (&store, &start), (&events, signals, node)).await? else {
        tracing::info!("array: stopped before its drives were opened");
        return Ok(Ended::Stopped);
    };
    if start.kept.is_none() {
        refuse_first(serve, &start.config, store.dir()).await?;
    }
    let (log, writer) = EventLog::open(store.dir(), arriving)?;
    tell_of_start(&events, &moved, &start, node.is_some());
    let (traces, traced) = array::trace_channel();
    let (moves, asked) = array::move_channel();
    let ends = Ends { events: events.clone(), traces: Some(traces), moves: moves.clone() };
    let count = (start.config.controllers, node.is_some());
    let nodes = node.map(|node| node.known_nodes(&start.config, withheld));
    let mut controllers = Controllers::start(count, serve.footing()?, ends, nodes.as_ref())?;
    let exporter = TraceExporter::start(traced, events.clone(), world_real::time_of_day);
    match node.zip(nodes) {
        Some((node, known)) => node.tell_of_nodes(known, &controllers.handles),
        None => supervision::watch_controllers(events.clone())?,
    }
    let kept = start.kept.clone().map(|kept| (kept.config, kept.made));
    let array = Array::new(controllers.handles.clone(), &start.config.target);
    let mut array = array.kept_by(Box::new(store.clone()), kept);
    if node.is_some() {
        let (dir, spans_machines) = (store.dir().to_owned(), serve.registry.spans_machines()?);
        array = array.refusing(Box::new(move |config| refuse_unshared(config, &dir, spans_machines)));
    }
    let begun = begin(serve, &mut array, &start, (&mut controllers, signals)).await;
    if let Ok(Begun::Serves) = begun {
        let fault = bring_up_to_date(serve, &mut array, (&store, &events), &start).await;
        tracing::info!("API at {}", socket_in(store.dir()).display());
        let bound = bound.with_nodes(node.map(Node::others)).with_traces(exporter.meter()).with_moves(asked);
        let openers = array.openers();
        let (server, owner) = bound.serve(array, (store, tokens), (log, events.clone()));
        owner.declaration_is_faulty(fault);
        let spans_machines = serve.registry.spans_machines()?;
        let claiming = node.map(|node| node.claim_withheld(openers.clone(), events.clone()));
        let parts = (owner.clone(), openers, controllers.threads());
        let lending = node.and_then(|node| lend(node, parts, (events.clone(), moves), spans_machines));
        let running = (server, owner, controllers, (lending, claiming));
        let (outcome, keeping) = serve_and_stop(serve, running, (&events, node), signals).await;
        let is_drained = matches!(outcome, Ok(Told::Drain));
        exporter.stop().await;
        told(outcome.map(drop), &events, writer)?;
        return Ok(match keeping {
            Some(keeping) if is_drained => Ended::Drained(keeping.await?),
            Some(keeping) => Ended::Left(keeping.await?),
            None => Ended::Stopped,
        });
    }
    supervision::stopping();
    let stopped = array.stop().await;
    exporter.stop().await;
    told(ended(begun.map(drop), stopped, controllers), &events, writer)?;
    Ok(Ended::Stopped)
}

/// Has other nodes run controllers from now on.
fn lend(
    node: &Node,
    (owner, openers, threads): (ArrayOwner, Openers, Arc<Threads>),
    (events, moves): (EventSender, MoveSender),
    spans_machines: bool,
) -> Option<Lending> {
    node.lend_controllers(ServedArray { owner, openers, threads, events, moves, spans_machines })
}

/// Waits until nobody else has the drives. Returns what the array begins without; none: a signal to stop came
/// first.
async fn claim_drives(
    serve: &Serve,
    (store, start): (&Store, &Start),
    (events, signals, node): (&EventSender, &mut Signals, Option<&Node>),
) -> Result<Option<Withheld>> {
    let Some(node) = node else {
        return Ok(drives_are_free(&start.config, signals).await?.then(Withheld::default));
    };
    share_drives(&start.config, store.dir(), serve.registry.spans_machines()?)?;
    let made = start.kept.as_ref().map(|kept| &kept.made);
    node.wait_for_drives((&start.config, made), (events, signals)).await
}

/// The first events of a life. `moved` says which devices have other paths now.
fn tell_of_start(events: &EventSender, moved: &[String], start: &Start, is_node: bool) {
    events.tell(Event::info("array", format!("starting, version {}", env!("CARGO_PKG_VERSION"))));
    moved.iter().for_each(|line| events.tell(Event::of_line(line)));
    if is_node {
        // It may be changed on purpose; or the nodes' files differ, and each move applies another one.
        let text = |line| format!("this node's declaration is not the one applied last: {line}");
        let changed = start.changed().into_iter();
        changed.for_each(|line| events.tell(Event::warning("array", text(line))));
    }
}

/// What serves, and what a node does meanwhile.
type Running = (Server, ArrayOwner, Controllers, (Option<Lending>, Option<Claiming>));

/// Serves until told otherwise, and stops in order. Some: another node takes over; the portals that this one
/// keeps.
async fn serve_and_stop(
    serve: &Serve,
    (server, owner, mut controllers, (lending, claiming)): Running,
    (events, node): (&EventSender, Option<&Node>),
    signals: &mut Signals,
) -> (Result<Told>, Option<JoinHandle<Portals>>) {
    events.tell(Event::info("array", "serves"));
    supervision::ready();
    if let Some(node) = node {
        node.serves();
    }
    let outcome = serve_until_told(serve, &owner, (&mut controllers, node), signals).await;
    // Hosts that are sent away come back at once, and wait here for the next owner.
    let moves = node.filter(|node| match outcome {
        Ok(Told::Drain) => true,
        Ok(Told::Stop) => node.has_successor(),
        Err(_) => false,
    });
    if matches!(outcome, Ok(Told::Stop)) {
        // Whoever asks for a drain has said it.
        moves.iter().for_each(|node| node.leaves());
    }
    node.iter().for_each(|node| node.admits_no_more());
    let keeping = moves.map(|node| tokio::spawn(keep(node.portals())));
    if !matches!(outcome, Ok(Told::Drain)) {
        supervision::stopping();
    }
    tracing::info!("stopping: ending sessions, making data durable");
    server.stop();
    lending.iter().for_each(Lending::stops);
    let stopped = owner.stop_array(moves.map(|_| MOVE_GRACE)).await;
    if let Some(lending) = lending {
        lending.ended().await;
    }
    if let Some(claiming) = claiming {
        claiming.end().await;
    }
    (ended(outcome, stopped, controllers), keeping)
}

/// Checks that all ports can be opened, which comes last: a start that fails there would already have created
/// drives.
async fn ports_are_free(serve: &Serve, config: &Config) -> Result<()> {
    serve.own_ports().refuse_shared(config.portals.iter().map(|portal| portal.listen))?;
    for portal in config.portals.iter().filter(|p| p.listen.port() != 0 && !is_lent(p.listen)) {
        if let Err(error) = ports::until_free(portal.listen).await {
            let place = format!("portal {}", portal.listen);
            let error = ControlError::failed(place, format!("cannot listen: {error}"));
            bail!("{}{error}", declared_at(serve, &error));
        }
    }
    Ok(())
}

/// The last event: the result.
fn told(outcome: Result<()>, events: &EventSender, writer: EventWriter) -> Result<()> {
    events.tell(match &outcome {
        Ok(()) => Event::info("array", "stopped"),
        Err(error) => Event::error("array", format!("ended: {}", causes(error))),
    });
    writer.finish();
    outcome
}

/// The overall result: of several errors, the one that caused the others.
fn ended<T>(outcome: Result<T>, stopped: Result<(), ControlError>, controllers: Controllers) -> Result<T> {
    controllers.join()?;
    let outcome = outcome?;
    stopped?;
    Ok(outcome)
}

/// The result of a start without an error.
enum Begun {
    Serves,
    /// A signal stopped it.
    Stopped,
}

/// Applies the declaration. A signal to stop waits until objects that are being opened are open, with a time
/// limit.
async fn begin(
    serve: &Serve,
    array: &mut Array,
    start: &Start,
    (controllers, signals): (&mut Controllers, &mut Signals),
) -> Result<Begun> {
    let files;
    let applied = {
        let overwrite = if start.kept.is_none() { serve.overwrite.as_slice() } else { &[] };
        files = NewFiles::of(&start.first().drives).await;
        let mut applying = pin!(array.apply_over(start.first(), overwrite));
        tokio::select! {
            applied = &mut applying => Some(applied),
            index = controllers.one_ended() => bail!("controller {index} has ended"),
            () = signals.stop() => {
                tracing::info!("stopping: waiting for objects that are being opened");
                // Its result no longer matters.
                let _ = tokio::time::timeout(OPEN_GRACE, cut_short(&controllers.handles, applying)).await;
                None
            }
        }
    };
    match applied {
        None => return Ok(Begun::Stopped),
        Some(Ok(done)) => done.iter().for_each(|line| tracing::info!("{line}")),
        Some(Err(error)) => {
            // What an earlier life made stays, also where it was not there a moment ago.
            files.remove(start.kept.as_ref().map_or(array.config(), |kept| &kept.config)).await;
            bail!("{}{error}", declared_at(serve, &error));
        }
    }
    let parts = array.status().await?;
    if let Some(cause) = admin::no_room_for_any(&parts, array.config()) {
        bail!("{cause}");
    }
    for missing in parts.iter().flat_map(|part| &part.missing) {
        tracing::error!("{} {:?}: {}; not served", missing.kind, missing.name, missing.cause);
    }
    for image in parts.iter().flat_map(|part| &part.images) {
        if let Err(cause) = &image.state {
            let error = ControlError::failed(format!("image {:?}", image.name), cause.to_string());
            tracing::error!("{}{error}; not served", declared_at(serve, &error));
        }
    }
    for port in parts.iter().flat_map(|part| &part.ports) {
        tracing::info!("serving {} at {}", array.config().target, port.listen);
    }
    Ok(Begun::Serves)
}

/// Applies the declaration again. True: a signal to stop came meanwhile.
async fn reload_until_told(serve: &Serve, owner: &ArrayOwner, signals: &mut Signals) -> bool {
    let mut reloading = pin!(reload(serve, owner));
    tokio::select! {
        () = &mut reloading => return false,
        () = signals.stop() => {}
    }
    owner.cut_short(reloading).await;
    true
}

/// Why an array stops in order.
enum Told {
    /// A signal.
    Stop,
    /// It moves to another node.
    Drain,
}

/// Returns when the array is to stop: an error when a part of it has ended.
async fn serve_until_told(
    serve: &Serve,
    owner: &ArrayOwner,
    (controllers, node): (&mut Controllers, Option<&Node>),
    signals: &mut Signals,
) -> Result<Told> {
    let drained = async {
        match node {
            Some(node) => node.drained().await,
            None => std::future::pending().await,
        }
    };
    let mut drained = pin!(drained);
    loop {
        tokio::select! {
            () = &mut drained => return Ok(Told::Drain),
            index = controllers.one_ended() => bail!("controller {index} has ended"),
            asked = signals.next() => match asked {
                Asked::Stop => return Ok(Told::Stop),
                Asked::Reload => {
                    supervision::reloading();
                    if reload_until_told(serve, owner, signals).await {
                        return Ok(Told::Stop);
                    }
                    supervision::ready();
                }
            },
        }
    }
}
