//! `masu node`: the nodes as the registry has them, also while none of them answers.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use cluster::{
    ASK, Ask, AskRecord, MEMBERS, MemberRecord, NODES, NodeRecord, OWNER, OwnerRecord, SERVES, ServesRecord,
    TEST, TestRecord,
};
use registry::record::{decode, encode};
use registry::{Entry, Key, LeaseId, RecordError, Registry, RegistryError};
use world::World;

use super::confirm::ask_unless;
use super::nouns::{NODE, NodeRow};
use super::request::Form;
use crate::registry_option::RegistryOption;
use crate::state_key::new_key;
use crate::table::{self, ListArgs};

/// A new owner has to serve by then.
const MOVE_TIME_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

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
    /// Make a key for `masu serve --state-key`: it is printed, for a file that only masu's user can read, the
    /// same on all nodes
    Key,
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
            let seen = with(registry, async |_, registry| look(&*registry).await)?;
            table::show(&NODE, name, form.look(), rows(&seen), |_| ())
        }
        NodeCommand::Drain { name, registry } => {
            let name = name.clone();
            let moved = with(registry, async move |world, registry| {
                hand_over(&world, &*registry, Some(&name), Ask::Drain).await
            })?;
            println!("{}", words(&moved, "moved"));
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::Remove { name, registry } => remove(name, registry),
        NodeCommand::Key => {
            println!("{}", new_key()?);
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::TestFailover { registry, yes } => {
            let what =
                "the owner will end as if it had crashed, and hosts wait until another node has taken over";
            ask_unless(*yes, what)?;
            let moved = with(registry, async move |world, registry| {
                let moved = hand_over(&world, &*registry, None, Ask::Crash).await?;
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
    let place = place.clone();
    world_real::run(world_real::Options::default(), async move |world| {
        let registry = place.open_named(&world)?;
        work(world, registry).await
    })
    .context("no world")?
}

/// What the registry has of the nodes.
struct Seen {
    owner: Option<OwnerRecord>,
    /// Those whose lease lives.
    nodes: Vec<(String, NodeRecord)>,
    /// How long leases live yet, by their numbers.
    left: BTreeMap<u64, Duration>,
    members: Vec<(String, MemberRecord)>,
    test: Option<TestRecord>,
    /// What cannot be read: a line for each record, with its key.
    passed_over: Vec<String>,
}

async fn look(registry: &dyn Registry) -> Result<Seen> {
    let owner = registry.get(&Key::new(OWNER)?).await?;
    let owner = owner.map(|entry| OwnerRecord::decode(OWNER, &entry.value)).transpose()?;
    let mut passed_over = Vec::new();
    let nodes = registry.list(NODES).await?;
    let nodes = readable(NODES, nodes, NodeRecord::decode, &mut passed_over);
    let mut left = BTreeMap::new();
    for lease in nodes.iter().map(|(_, node)| node.lease) {
        match registry.time_left(LeaseId(lease)).await {
            Ok(time) => _ = left.insert(lease, time),
            // It has just ended.
            Err(RegistryError::Expired) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let members = registry.list(MEMBERS).await?;
    let members = readable(MEMBERS, members, MemberRecord::decode, &mut passed_over);
    let test = registry.get(&Key::new(TEST)?).await?;
    let test = test.and_then(|entry| {
        decode(TEST, &entry.value).map_err(|error| passed_over.push(error.to_string())).ok()
    });
    Ok(Seen { owner, nodes, left, members, test, passed_over })
}

/// The records below a prefix, by name. One that cannot be read hides no other.
fn readable<T>(
    prefix: &str,
    entries: Vec<(Key, Entry)>,
    decode: impl Fn(&str, &[u8]) -> Result<T, RecordError>,
    passed_over: &mut Vec<String>,
) -> Vec<(String, T)> {
    let mut read = Vec::new();
    for (key, entry) in entries {
        match decode(key.as_str(), &entry.value) {
            Ok(record) => read.push((key.as_str().trim_start_matches(prefix).to_owned(), record)),
            Err(error) => passed_over.push(error.to_string()),
        }
    }
    read
}

async fn put(registry: &dyn Registry, key: &str, value: &[u8]) -> Result<()> {
    let key = Key::new(key)?;
    let expected = registry.get(&key).await?.map(|entry| entry.version);
    registry.compare_and_put(&key, expected, value, None).await?;
    Ok(())
}

/// Asks the owner to give the array away, and waits until another node serves.
async fn hand_over(
    world: &World,
    registry: &dyn Registry,
    name: Option<&str>,
    what: Ask,
) -> Result<TestRecord> {
    let (from, epoch) = movable(&look(registry).await?, name)?;
    let begun = world.now();
    put(registry, ASK, &encode(&AskRecord { ask: what, epoch })).await?;
    let serves = Key::new(SERVES)?;
    while world.now() - begun < MOVE_TIME_MAX {
        // A registry that does not answer for a moment is asked again.
        if let Ok(Some(entry)) = registry.get(&serves).await {
            let serves: ServesRecord = decode(SERVES, &entry.value)?;
            if serves.epoch > epoch {
                let took_ms = u64::try_from((world.now() - begun).as_millis()).unwrap_or(u64::MAX);
                return Ok(TestRecord { from, to: serves.node, took_ms, at_ms: now_s() * 1000 });
            }
        }
        world.sleep(LOOK).await;
    }
    bail!(
        "no other node serves after {} s; see `masu node list` and the logs of the nodes",
        MOVE_TIME_MAX.as_secs()
    )
}

/// The owner, if it is the node of this name and another one can take over; and its epoch.
fn movable(seen: &Seen, name: Option<&str>) -> Result<(String, u64)> {
    let owner = seen.owner.as_ref().filter(|owner| owner.node.is_some());
    let owner = owner.filter(|owner| seen.nodes.iter().any(|(_, node)| node.lease == owner.lease));
    let Some((owner, owns)) = owner.and_then(|owner| Some((owner, owner.node.as_deref()?))) else {
        bail!("no node owns the array: see `masu node list`");
    };
    if let Some(name) = name.filter(|name| *name != owns) {
        let is_known = seen.nodes.iter().any(|(node, _)| node == name);
        ensure!(is_known, "no node {name:?}: see `masu node list`");
        bail!("node {name} does not own the array, {owns} does: there is nothing to move");
    }
    ensure!(seen.nodes.len() > 1, "no other node can take over from {owns}: start one first");
    Ok((owns.to_owned(), owner.epoch))
}

fn remove(name: &str, registry: &RegistryOption) -> Result<ExitCode> {
    let key = Key::new(&format!("{MEMBERS}{name}")).with_context(|| format!("invalid name {name:?}"))?;
    let removed = name.to_owned();
    with(registry, async move |_, registry| {
        if registry.get(&Key::new(&format!("{NODES}{removed}"))?).await?.is_some() {
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
    let read = || {
        let seen = with(registry, async |_, registry| look(&*registry).await)?;
        text = forecast(&seen, now_s());
        seen.passed_over.iter().for_each(|line| eprintln!("warning: {line}"));
        Ok(rows(&seen))
    };
    let code = table::list(&NODE, args, form.look(), read)?;
    if let Some(text) = text.filter(|_| form.is_plain()) {
        println!("\n{text}");
    }
    Ok(code)
}

/// What would happen if the owner failed.
fn forecast(seen: &Seen, now_s: u64) -> Option<String> {
    let (owner, _) = match movable(seen, None) {
        Ok(movable) => movable,
        Err(_) => return seen.owner.as_ref()?.node.as_ref().map(|_| "no other node can take over".into()),
    };
    let others: Vec<&str> =
        seen.nodes.iter().map(|(name, _)| name.as_str()).filter(|name| *name != owner).collect();
    let test = match &seen.test {
        Some(test) => {
            let (took, ago) = (test.took_ms as f64 / 1000.0, ago(test.at_ms, now_s));
            format!("{took:.1} s in the last test, {ago}")
        }
        None => "not tested; see `masu node test-failover`".into(),
    };
    Some(format!("if {owner} fails, the array moves to {} ({test})", others.join(" or ")))
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

fn now_s() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0)
}

fn rows(seen: &Seen) -> Vec<NodeRow> {
    let owner = seen.owner.as_ref().filter(|owner| owner.node.is_some());
    let row = |(name, node): &(String, NodeRecord)| {
        let owner = owner.filter(|owner| owner.lease == node.lease);
        NodeRow {
            name: name.clone(),
            role: if owner.is_some() { "owner" } else { "standby" }.into(),
            epoch: owner.map(|owner| owner.epoch),
            lease_left_us: seen.left.get(&node.lease).and_then(|left| u64::try_from(left.as_micros()).ok()),
            since_unix_ms: Some(node.since_ms),
            portals: node.portals.clone(),
            version: Some(node.version.clone()),
        }
    };
    let is_up = |name: &str| seen.nodes.iter().any(|(node, _)| node == name);
    let down = seen.members.iter().filter(|(name, _)| !is_up(name)).map(|(name, member)| {
        let owner = owner.filter(|owner| owner.node.as_deref() == Some(name));
        NodeRow {
            name: name.clone(),
            role: if owner.is_some() { "lost" } else { "down" }.into(),
            epoch: owner.map(|owner| owner.epoch),
            lease_left_us: None,
            since_unix_ms: Some(member.since_ms),
            portals: member.portals.clone(),
            version: Some(member.version.clone()),
        }
    });
    seen.nodes.iter().map(row).chain(down).collect()
}

#[cfg(test)]
mod tests {
    use registry::Version;

    use super::*;

    fn seen(owner: Option<(&str, u64)>) -> Seen {
        let node = |lease| NodeRecord {
            portals: vec!["[::1]:3260".into()],
            version: "1".into(),
            since_ms: 4000,
            lease,
            relay_key: None,
        };
        let owner = owner.map(|(name, lease)| OwnerRecord {
            node: Some(name.into()),
            lease,
            epoch: 3,
            ..OwnerRecord::default()
        });
        let member = MemberRecord { portals: vec![], version: "1".into(), since_ms: 4000, number: Some(0) };
        Seen {
            owner,
            nodes: vec![("n1".into(), node(5)), ("n2".into(), node(6))],
            left: [(5, Duration::from_millis(5500))].into(),
            members: ["n1", "n2", "n3"].map(|name| (name.to_owned(), member.clone())).to_vec(),
            test: None,
            passed_over: vec![],
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_hides_no_other() {
        let entry = |name: &str, value: Vec<u8>| {
            (Key::new(&format!("{MEMBERS}{name}")).expect("a key"), Entry { version: Version(1), value })
        };
        let entries = vec![entry("n1", b"\xff".to_vec()), entry("n2", encode(&MemberRecord::default()))];
        let mut passed_over = vec![];
        let members = readable(MEMBERS, entries, MemberRecord::decode, &mut passed_over);
        assert_eq!(members, [("n2".to_owned(), MemberRecord::default())]);
        assert!(matches!(&passed_over[..], [line] if line.contains("members/n1")), "{passed_over:?}");
    }

    #[test]
    fn the_owner_is_the_node_with_the_lease_of_the_record() {
        let roles = |seen: &Seen| {
            let text = |row: NodeRow| {
                let epoch = row.epoch.map_or(String::new(), |epoch| format!(" {epoch}"));
                format!("{}: {}{epoch}", row.name, row.role)
            };
            rows(seen).into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(roles(&seen(None)), ["n1: standby", "n2: standby", "n3: down"]);
        assert_eq!(roles(&seen(Some(("n1", 5)))), ["n1: owner 3", "n2: standby", "n3: down"]);
        // A process of the same name that has died.
        assert_eq!(roles(&seen(Some(("n1", 4))))[0], "n1: standby");
        assert_eq!(roles(&seen(Some(("n3", 4))))[2], "n3: lost 3");
        assert_eq!(rows(&seen(None))[0].since_unix_ms, Some(4000));
        let left: Vec<_> = rows(&seen(None)).iter().map(|row| row.lease_left_us).collect();
        assert_eq!(left, [Some(5_500_000), None, None], "of its own lease, and of none that has ended");
    }

    #[test]
    fn only_the_owner_can_be_drained_and_only_to_another_node() {
        let mut nodes = seen(Some(("n1", 5)));
        let refused =
            |seen: &Seen, name| movable(seen, name).map_err(|e| e.to_string()).expect_err("refused");
        assert_eq!(movable(&nodes, Some("n1")).expect("it can"), ("n1".into(), 3));
        assert!(refused(&nodes, Some("n2")).contains("n1 does"));
        assert!(refused(&nodes, Some("nx")).contains("no node \"nx\""));
        assert!(refused(&seen(Some(("n3", 4))), None).contains("no node owns"));
        assert!(forecast(&nodes, 10).expect("text").contains("moves to n2 (not tested"));
        nodes.test = Some(TestRecord { from: "n2".into(), to: "n1".into(), took_ms: 7412, at_ms: 1000 });
        assert!(forecast(&nodes, 10).expect("text").contains("(7.4 s in the last test, 9 s ago)"));
        nodes.nodes.pop();
        assert!(refused(&nodes, None).contains("no other node"));
        assert_eq!(forecast(&nodes, 10).as_deref(), Some("no other node can take over"));
    }
}
