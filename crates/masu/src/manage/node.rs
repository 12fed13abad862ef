//! `masu node`: the nodes as the registry has them, also while none of them answers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use admin::Store;
use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use cluster::{
    ASK, Ask, AskRecord, LookError, MEMBERS, NODES, Overview, SERVES, ServesRecord, TEST, TestRecord, put,
    raise_epoch,
};
use registry::record::{decode, encode};
use registry::{Key, Registry};
use world::World;

use super::confirm::ask_unless;
use super::node_invite::invite;
use super::nouns::NODE;
use super::request::Form;
use crate::daemon::{epoch_owned, epoch_seen};
use crate::known_nodes::known_nodes;
use crate::registry_option::RegistryOption;
use crate::state_key::{StateKeys, new_key};
use crate::table::{self, ListArgs};

/// A new owner has to serve by then.
const MOVE_TIME_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// Most moves have ended by then. Who waits longer is told what for, and again when that changes.
const SILENCE: Duration = Duration::from_secs(5);

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes: the owner of the array with its epoch, those that stand by, and those that are down
    List {
        #[command(flatten)]
        registry: RegistryOption,
        #[command(flatten)]
        args: ListArgs,
        #[command(flatten)]
        form: Form,
    },
    /// Show one node with everything of it
    Show {
        /// The node
        name: String,
        #[command(flatten)]
        registry: RegistryOption,
        #[command(flatten)]
        form: Form,
    },
    /// Move the array from its owner to another node, in order; the drained node stands by. To keep it from
    /// taking over again, stop it afterwards
    Drain {
        /// The owner
        name: String,
        /// The standby that is to take over; without it, the first that does. If it does not within 2 s, any
        /// other may
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
        #[command(flatten)]
        registry: RegistryOption,
    },
    /// Remove a node that is down: hosts do not learn its portals any more. One that starts again joins again
    Remove {
        /// The node
        name: String,
        #[command(flatten)]
        registry: RegistryOption,
    },
    /// Print what to type on a machine that is to be a node. The name must be free; nothing is changed, and
    /// nothing secret is printed: files with keys and passwords are named, to be copied
    Invite {
        /// The new node
        name: String,
        #[command(flatten)]
        registry: RegistryOption,
        /// File with the nodes' key, if they have one
        #[arg(long, value_name = "FILE")]
        state_key: Option<PathBuf>,
    },
    /// Make a key for `masu serve --state-key`: it is printed, for a file that only masu's user can read, the
    /// same on all nodes
    Key,
    /// Take a registry that was restored from a backup for the newest: the next owner has an epoch above this
    /// one. What was changed after the backup (volumes, hosts, drives) is not declared any more
    RaiseEpoch {
        /// The epoch that masu named when it refused the registry or the drives
        epoch: u64,
        #[command(flatten)]
        registry: RegistryOption,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Put the state of a data directory into a registry that has lost it or damaged it. Take that of the
    /// node that owned the array last; no node may own it now. What was changed since (volumes, hosts,
    /// drives) is not declared any more
    RestoreState {
        /// The data directory
        #[arg(long, env = "MASU_DATA")]
        data: PathBuf,
        #[command(flatten)]
        registry: RegistryOption,
        /// File with the nodes' key, if they have one
        #[arg(long, value_name = "FILE")]
        state_key: Option<PathBuf>,
        /// Take it also if its node knows of a later owner
        #[arg(long)]
        older: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Let the owner end as if it had crashed (status 75; a service manager has to start it again), and
    /// print how long it takes until another node serves. Hosts wait meanwhile
    TestFailover {
        #[command(flatten)]
        registry: RegistryOption,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn run(what: &NodeCommand) -> Result<ExitCode> {
    match what {
        NodeCommand::List { registry, args, form } => list(registry, args, *form),
        NodeCommand::Show { name, registry, form } => {
            let seen =
                with(registry, async |_, registry| Ok(Overview::look(&*registry, &Store::SHARED).await?))?;
            table::show(&NODE, name, form.look(), known_nodes(&seen, None), |_| ())
        }
        NodeCommand::Drain { name, to, registry } => drain(name, to.as_deref(), registry),
        NodeCommand::Remove { name, registry } => remove(name, registry),
        NodeCommand::Invite { name, registry, state_key } => {
            let (name, place, state_key) = (name.clone(), registry.clone(), state_key.clone());
            let text = with(registry, async move |_, registry| {
                invite(&*registry, &name, (&place, state_key.as_deref())).await
            })?;
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::Key => {
            println!("{}", new_key()?);
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::RaiseEpoch { epoch, registry, yes } => {
            ask_unless(*yes, "the array will begin with the declaration that this registry has")?;
            let wanted = *epoch;
            let before = with(registry, async move |_, registry| Ok(raise_epoch(&*registry, wanted).await?))?;
            println!("the registry has epoch {epoch} now, before {before}: start the nodes");
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::RestoreState { data, registry, state_key, older, yes } => {
            restore_state(data, registry, state_key.as_deref(), (*older, *yes))
        }
        NodeCommand::TestFailover { registry, yes } => {
            let what =
                "the owner will end as if it had crashed, and hosts wait until another node has taken over";
            ask_unless(*yes, what)?;
            let moved = with(registry, async move |world, registry| {
                let moved = hand_over(&world, &*registry, (None, None), Ask::Crash).await?;
                put(&*registry, TEST, &encode(&moved)).await?;
                Ok(moved)
            })?;
            println!("{}", words(&moved, "failed over"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs a task on a registry.
fn with<T: 'static>(
    place: &RegistryOption,
    work: impl AsyncFnOnce(World, Rc<dyn Registry>) -> Result<T> + 'static,
) -> Result<T> {
    run_on(place.clone(), RegistryOption::open_existing, work)
}

fn run_on<T: 'static>(
    place: RegistryOption,
    open: fn(&RegistryOption, &World) -> Result<Rc<dyn Registry>>,
    work: impl AsyncFnOnce(World, Rc<dyn Registry>) -> Result<T> + 'static,
) -> Result<T> {
    world_real::run(world_real::Options::default(), async move |world| {
        let registry = open(&place, &world)?;
        work(world, registry).await
    })
    .context("no world")?
}

fn restore_state(
    data: &Path,
    registry: &RegistryOption,
    keys: Option<&Path>,
    (older, yes): (bool, bool),
) -> Result<ExitCode> {
    let keys = keys.map(StateKeys::read).transpose()?.unwrap_or_default();
    ensure!(data.is_dir(), "no data directory {}", data.display());
    let store = Store::open(data)?;
    let kept = store.load()?.with_context(|| format!("{}: has no state of an array", data.display()))?;
    let (seen, owned) = (epoch_seen(&store)?, epoch_owned(&store)?);
    if let Some(owned) = owned.filter(|owned| *owned < seen && !older) {
        bail!(
            "{}: its node owned the array in epoch {owned}, and has seen an owner of epoch {seen}, which may have \
             changed the array since: take the data directory of the node that owned it then. If that is lost, pass \
             --older: what was changed since is not declared any more",
            data.display()
        );
    }
    let mut texts = Vec::new();
    for name in Store::SHARED {
        let sealed = store.text(name)?.map(|text| keys.seal(name, &text)).transpose()?;
        texts.push((name, sealed.map(String::into_bytes)));
    }
    let (id, volumes) = (kept.config.id, kept.config.volumes.len());
    let secrets = kept.config.hosts.iter().filter(|host| host.chap.is_some()).count();
    if secrets > 0 && !keys.encrypt() && registry.spans_machines()? {
        eprintln!(
            "masu: the CHAP secrets of {secrets} hosts will be in the registry in the clear: pass --state-key if the nodes have one"
        );
    }
    ask_unless(
        yes,
        &format!("the array will go on as {id} with {volumes} volumes, as {} has it", data.display()),
    )?;
    // Also into a new one, in place of a registry that is gone.
    let epoch = run_on(registry.clone(), RegistryOption::open_named, async move |_, registry| {
        Ok(cluster::restore_state(registry, &texts, seen).await?)
    })?;
    println!("the registry has the state of array {id} (epoch {epoch}, {volumes} volumes): start the nodes");
    Ok(ExitCode::SUCCESS)
}

fn drain(name: &str, to: Option<&str>, registry: &RegistryOption) -> Result<ExitCode> {
    let (from, asked) = (name.to_owned(), to.map(str::to_owned));
    let moved = with(registry, async move |world, registry| {
        hand_over(&world, &*registry, (Some(&from), asked.as_deref()), Ask::Drain).await
    })?;
    if moved.to == moved.from {
        bail!("no other node could take over: {} serves again; see the logs of the others", moved.to);
    }
    println!("{}", words(&moved, "moved"));
    if let Some(to) = to.filter(|to| *to != moved.to) {
        bail!("node {to} did not take over in time, {} did: see its events", moved.to);
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the owner to give the array away, and waits until another node serves. Either may be named.
async fn hand_over(
    world: &World,
    registry: &dyn Registry,
    (from, to): (Option<&str>, Option<&str>),
    ask: Ask,
) -> Result<TestRecord> {
    let (from, epoch) = Overview::look_and_try(registry, &Store::SHARED).await?.movable(from, to)?;
    let begun = world.now();
    let is_test = matches!(ask, Ask::Crash);
    Overview::ask(registry, &AskRecord { ask, epoch, to: to.map(str::to_owned) }).await??;
    let serves = Key::new(SERVES)?;
    let (mut told, mut tells_at) = (String::new(), begun + SILENCE);
    while world.now() - begun < MOVE_TIME_MAX {
        if let Some(refused) = refused(registry, (&from, to), epoch).await {
            bail!("{refused}");
        }
        // A registry that does not answer for a moment is asked again.
        if let Ok(Some(entry)) = registry.get(&serves).await {
            let serves: ServesRecord = decode(SERVES, &entry.value)?;
            if serves.epoch > epoch {
                let took_ms = u64::try_from((world.now() - begun).as_millis()).unwrap_or(u64::MAX);
                return Ok(TestRecord {
                    from,
                    to: serves.node,
                    took_ms,
                    at_ms: now_ms(),
                    is_take_over: false,
                });
            }
        }
        if world.now() >= tells_at {
            tells_at = world.now() + SILENCE;
            let waits = match Overview::look(registry, &Store::SHARED).await {
                Ok(seen) => waits_for(&seen, (&from, epoch), is_test),
                Err(error) => format!("the registry does not answer: {error}"),
            };
            if waits != told {
                eprintln!("still waiting, {} s at most: {waits}", MOVE_TIME_MAX.as_secs());
            }
            told = waits;
        }
        world.sleep(LOOK).await;
    }
    let told = if told.is_empty() { String::new() } else { format!(": {told}") };
    bail!(
        "no other node serves after {} s{told}; see `masu node list` and the logs of the nodes",
        MOVE_TIME_MAX.as_secs()
    )
}

/// Why an owner does not do what it was asked: it takes the request away, and says by its record what it
/// waits for. None: it is still asked, or the registry does not answer for a moment.
async fn refused(registry: &dyn Registry, (from, to): (&str, Option<&str>), epoch: u64) -> Option<String> {
    if !matches!(registry.get(&Key::new(ASK).ok()?).await, Ok(None)) {
        return None;
    }
    let seen = Overview::look(registry, &[]).await.ok()?;
    let (_, now) = seen.living_owner()?;
    match seen.movable(Some(from), to) {
        Err(cause) => Some(cause.to_string()),
        Ok(_) if now == epoch => {
            Some(format!("node {from} does not move the array now: see `masu status` and `masu node list`"))
        }
        Ok(_) => None,
    }
}

/// What keeps an array from being served by another node than `from`, which owned it in this epoch.
fn waits_for(seen: &Overview, (from, epoch): (&str, u64), is_test: bool) -> String {
    match seen.living_owner() {
        Some((owner, now)) if now == epoch && is_test => format!(
            "the lease of node {owner} lives yet, {} s after its last renewal, as after a crash; then another node takes \
             over",
            cluster::LEASE_TIME.as_secs()
        ),
        Some((owner, now)) if now == epoch => format!(
            "node {owner} has not given the array away: it is still ending sessions, or stands still (stopped, or its \
             machine hangs); when its lease has ended, another node takes over"
        ),
        Some((owner, now)) => format!("node {owner} owns the array (epoch {now}), and is opening it"),
        None => match &seen.fault {
            Some(fault) => format!("no node owns the array: {fault}"),
            None => format!("node {from} has given the array away, and no other node has taken over yet"),
        },
    }
}

fn remove(name: &str, registry: &RegistryOption) -> Result<ExitCode> {
    let key = Key::new(&format!("{MEMBERS}{name}")).with_context(|| format!("invalid name {name:?}"))?;
    let removed = name.to_owned();
    with(registry, async move |_, registry| {
        // Its lease says whether it is up: its record may be lost, or something else in the place of one.
        let is_up = match Overview::look(&*registry, &[]).await {
            Ok(seen) => {
                let owns = seen.living_owner().is_some_and(|(owner, _)| owner == removed);
                owns || seen.nodes.iter().any(|(name, _)| *name == removed)
            }
            // Nobody knows who owns it.
            Err(LookError::Damaged(_)) => {
                registry.get(&Key::new(&format!("{NODES}{removed}"))?).await?.is_some()
            }
            Err(LookError::Registry(error)) => return Err(error.into()),
        };
        if is_up {
            bail!("node {removed} is up: stop it first, and wait until its lease has ended (6 s)");
        }
        let entry = registry.get(&key).await?.with_context(|| format!("no node {removed:?}"))?;
        Ok(registry.compare_and_delete(&key, entry.version).await?)
    })?;
    println!("node {name}: removed");
    Ok(ExitCode::SUCCESS)
}

fn list(registry: &RegistryOption, args: &ListArgs, form: Form) -> Result<ExitCode> {
    let mut text = None;
    let read =
        || {
            let seen = with(registry, async |_, registry| {
                Ok(Overview::look_and_try(&*registry, &Store::SHARED).await?)
            })?;
            text = forecast(&seen, now_ms() / 1000);
            seen.passed_over.iter().for_each(|line| eprintln!("warning: {line}"));
            for (name, node) in &seen.nodes {
                let why = node.trouble.iter().chain(&node.waits);
                why.for_each(|why| eprintln!("warning: node {name}: {why}"));
            }
            Ok(known_nodes(&seen, None))
        };
    let code = table::list(&NODE, args, form.look(), read)?;
    if let Some(text) = text.filter(|_| form.is_plain()) {
        println!("\n{text}");
    }
    Ok(code)
}

/// What would happen if the owner failed, and when that was tried.
fn forecast(seen: &Overview, now_s: u64) -> Option<String> {
    let forecast = seen.forecast()?;
    let when = forecast.last.as_ref().filter(|_| !forecast.successors.is_empty());
    let when = when.map_or(String::new(), |last| format!(", {}", ago(last.at_ms, now_s)));
    Some(forecast.text() + &when)
}

fn words(moved: &TestRecord, verb: &str) -> String {
    let took = moved.took_ms as f64 / 1000.0;
    format!("the array has {verb} from {} to {} in {took:.1} s", moved.from, moved.to)
}

/// In the largest unit that says enough.
fn ago(at_ms: u64, now_s: u64) -> String {
    let seconds = now_s.saturating_sub(at_ms / 1000);
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use admin::Node;
    use cluster::{MemberRecord, NodeRecord, OwnerRecord};

    use super::*;

    fn seen(owner: Option<(&str, u64)>) -> Overview {
        let node = |lease| NodeRecord {
            portals: vec!["[::1]:3260".into()],
            version: "1".into(),
            since_ms: 4000,
            lease,
            ..NodeRecord::default()
        };
        let owner = owner.map(|(name, lease)| OwnerRecord {
            node: Some(name.into()),
            lease,
            epoch: 3,
            ..OwnerRecord::default()
        });
        let member = MemberRecord {
            portals: vec![],
            version: "1".into(),
            since_ms: 4000,
            number: Some(0),
            ..MemberRecord::default()
        };
        Overview {
            owner,
            nodes: vec![("n1".into(), node(5)), ("n2".into(), node(6))],
            left: [(5, 5500), (6, 5600)].map(|(lease, ms)| (lease, Duration::from_millis(ms))).into(),
            members: ["n1", "n2", "n3"].map(|name| (name.to_owned(), member.clone())).to_vec(),
            test: None,
            take_over: None,
            passed_over: vec![],
            fault: None,
        }
    }

    #[test]
    fn the_owner_is_the_node_with_the_lease_of_the_record() {
        let roles = |seen: &Overview| {
            let text = |row: Node| {
                let epoch = row.epoch.map_or(String::new(), |epoch| format!(" {epoch}"));
                format!("{}: {}{epoch}", row.name, row.role)
            };
            known_nodes(seen, None).into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(roles(&seen(None)), ["n1: standby", "n2: standby", "n3: down"]);
        assert_eq!(roles(&seen(Some(("n1", 5)))), ["n1: owner 3", "n2: standby", "n3: down"]);
        // A process of the same name that has died.
        assert_eq!(roles(&seen(Some(("n1", 4))))[0], "n1: standby");
        assert_eq!(roles(&seen(Some(("n3", 4))))[2], "n3: lost 3");
        let rows = known_nodes(&seen(Some(("n1", 5))), Some("n2"));
        assert_eq!(rows[0].since_unix_ms, Some(4000));
        assert_eq!(rows.iter().map(|row| row.is_this).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(rows.iter().map(|row| row.could_take_over).collect::<Vec<_>>(), [false, true, false]);
        let left: Vec<_> = rows.iter().map(|row| row.lease_left_us).collect();
        assert_eq!(left, [Some(5_500_000), Some(5_600_000), None], "of its own lease");
        // The registry has lost the record of its node.
        let mut unlisted = seen(Some(("n1", 5)));
        unlisted.nodes.remove(0);
        assert_eq!(roles(&unlisted), ["n1: owner 3", "n2: standby", "n3: down"]);
        unlisted.members.remove(0);
        assert_eq!(roles(&unlisted), ["n1: owner 3", "n2: standby", "n3: down"]);
        assert_eq!(known_nodes(&unlisted, None)[0].lease_left_us, Some(5_500_000));
        unlisted.left.remove(&5);
        assert_eq!(roles(&unlisted), ["n2: standby", "n3: down"]);
    }

    #[test]
    fn who_waits_for_a_move_is_told_what_for() {
        let waits = |seen: &Overview| waits_for(seen, ("n1", 3), false);
        // A test of a fail-over waits for the lease: nothing is wrong.
        let tested = waits_for(&seen(Some(("n1", 5))), ("n1", 3), true);
        assert!(tested.starts_with("the lease of node n1 lives yet, 6 s after"), "{tested}");
        assert!(waits(&seen(Some(("n1", 5)))).starts_with("node n1 has not given the array away"));
        let mut next = seen(Some(("n2", 6)));
        next.owner.iter_mut().for_each(|owner| owner.epoch = 4);
        assert_eq!(waits(&next), "node n2 owns the array (epoch 4), and is opening it");
        let mut gone = seen(Some(("n1", 4)));
        assert!(waits(&gone).contains("no other node has taken over yet"));
        gone.fault = Some("the state is damaged".into());
        assert_eq!(waits(&gone), "no node owns the array: the state is damaged");
    }

    #[test]
    fn the_forecast_says_when_it_was_tried() {
        let mut nodes = seen(Some(("n1", 5)));
        assert!(forecast(&nodes, 10).is_some_and(|text| text.contains("n2 would take over; never tried")));
        let (from, to) = ("n2".into(), "n1".into());
        let test = TestRecord { from, to, took_ms: 7412, at_ms: 1000, is_take_over: false };
        nodes.test = Some(test);
        assert!(forecast(&nodes, 10).is_some_and(|text| text.ends_with("; 7.4 s at the last test, 9 s ago")));
        nodes.nodes.pop();
        assert_eq!(forecast(&nodes, 10).as_deref(), Some("if n1 failed: no other node could take over"));
    }
}
