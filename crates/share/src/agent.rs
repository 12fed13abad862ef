//! The task of a node: it reports, takes its shares, and divides when it is the leader.
//!
//! | key | value | bound to |
//! |---|---|---|
//! | `qos/policies` | policies by disk | nothing: whoever administers writes it |
//! | `qos/nodes/NAME` | the node's report | the node's lease |
//! | `qos/leader` | the name of the node that divides | that node's lease |
//! | `qos/shares` | what it divided last | nothing: it stays in force when nobody divides |

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::stream::select;
use futures::{FutureExt, Stream, StreamExt};
use qos::Policy;
use registry::{Entry, Key, LeaseId, RecordError, Registry, RegistryError, Version};
use world::Instant;

use crate::divide::Divider;
use crate::record::{POLICIES, SHARES, decode_policies, encode_policies};
use crate::{EVERY, LEASE, Node, Report, Shares, Store};

const NODES: &str = "qos/nodes/";
const LEADER: &str = "qos/leader";
/// So long before the leader divides again the others report: all reports then are of one interval, and new.
const BEFORE: Duration = Duration::from_millis(50);
/// Attempts to change the policies while others change them, too.
const ATTEMPTS_MAX: usize = 100;

fn key(name: &str) -> Key {
    Key::new(name).expect("a constant key")
}

/// What a watch tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Shares,
    Policies,
}

type Changes<'a> = dyn Stream<Item = Result<Changed, RegistryError>> + Unpin + 'a;

/// Why an interval was not done.
#[derive(Debug)]
enum Fault {
    Registry(RegistryError),
    Record(RecordError),
    NameInUse,
}

impl From<RegistryError> for Fault {
    fn from(error: RegistryError) -> Fault {
        Fault::Registry(error)
    }
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Fault {
        Fault::Record(error)
    }
}

/// Sets the policies of some disks; those of others stay.
///
/// # Errors
/// Those of the registry; its policies may be damaged, too, and are then replaced.
pub async fn set_policies(
    registry: &dyn Registry,
    policies: &BTreeMap<String, Policy>,
) -> Result<(), RegistryError> {
    let key = key(POLICIES);
    let mut found = None;
    for _ in 0..ATTEMPTS_MAX {
        let entry = registry.get(&key).await?;
        let mut all = entry.as_ref().and_then(|entry| decode_policies(&entry.value).ok()).unwrap_or_default();
        all.extend(policies.iter().map(|(disk, policy)| (disk.clone(), *policy)));
        let version = entry.map(|entry| entry.version);
        match registry.compare_and_put(&key, version, &encode_policies(&all), None).await {
            Ok(_) => return Ok(()),
            Err(RegistryError::Conflict { found: other }) => found = other,
            Err(error) => return Err(error),
        }
    }
    Err(RegistryError::Conflict { found })
}

/// What a leader remembers from one division to the next.
struct Leading {
    divider: Divider,
    /// Of the shares in force.
    version: Option<Version>,
}

/// The task's own state.
struct Agent {
    node: Rc<Node>,
    registry: Rc<dyn Registry>,
    lease: Option<LeaseId>,
    reported: Option<Version>,
    policies_version: Option<Version>,
    policies: BTreeMap<String, Policy>,
    leading: Option<Leading>,
    /// Until then other nodes may be on their way back, as this one was.
    returns_until: Instant,
}

/// Reports and takes shares until the node leaves.
pub async fn run(node: Rc<Node>, registry: Rc<dyn Registry>) {
    let changes = |what: Changed, key: &str| registry.watch(key).map(move |news| news.map(|()| what));
    let mut watch = select(changes(Changed::Shares, SHARES), changes(Changed::Policies, POLICIES));
    let mut agent = Agent {
        node: node.clone(),
        registry: registry.clone(),
        lease: None,
        reported: None,
        policies_version: None,
        policies: BTreeMap::new(),
        leading: None,
        returns_until: node.world().now(),
    };
    while !node.leaves.get() {
        let begun = node.world().now();
        let done = agent.interval().await;
        agent.note(done);
        agent.follow(begun, &mut watch).await;
    }
    if let Some(lease) = agent.lease {
        // Without an answer it ends by itself.
        let _ = registry.revoke(lease).await;
    }
}

impl Agent {
    /// Says how the interval went.
    fn note(&mut self, done: Result<(), Fault>) {
        let now = self.node.world().now();
        let mut state = self.node.state.borrow_mut();
        state.is_leader = self.leading.is_some();
        state.fault = None;
        match done {
            Err(Fault::Registry(error)) => {
                let since = match &state.store {
                    Store::Away { since, .. } => *since,
                    _ => now,
                };
                state.store = Store::Away { since, cause: error.to_string() };
                self.returns_until = now + LEASE;
                drop(state);
                self.node.hold();
                return;
            }
            Err(Fault::Record(error)) => state.fault = Some(error.to_string()),
            Err(Fault::NameInUse) => {
                state.fault =
                    Some(format!("another node is called {}: give this one another name", self.node.name()));
            }
            Ok(()) => {}
        }
        state.store = Store::Answers;
    }

    /// Waits for the end of the interval; takes policies and shares that come meanwhile, and with the shares
    /// the leader's time.
    async fn follow(&mut self, begun: Instant, watch: &mut Changes<'_>) {
        let node = self.node.clone();
        let mut next = begun + EVERY;
        while node.world().now() < next && !node.leaves.get() {
            let mut changed = None;
            node.wait(next, watch.next().map(|news| changed = news.and_then(Result::ok))).await;
            let Some(changed) = changed else {
                // A watch that ended or failed says nothing more: the next interval reads.
                node.wait(next, std::future::pending()).await;
                return;
            };
            if changed == Changed::Policies {
                // Maximums are in force at once. What fails here is said by the next interval.
                let _ = self.take_policies().await;
                continue;
            }
            if self.leading.is_none()
                && let Ok(Some(entry)) = self.registry.get(&key(SHARES)).await
                && let Ok(shares) = Shares::decode(&entry.value)
            {
                node.set_shares(&shares);
                // Shares that come too often must not keep it from reporting.
                next = (node.world().now() + (EVERY - BEFORE)).min(begun + 2 * EVERY);
            }
        }
    }

    async fn interval(&mut self) -> Result<(), Fault> {
        self.take_policies().await?;
        let lease = self.renew().await?;
        self.put_report(lease).await?;
        if !self.leads(lease).await? {
            self.leading = None;
            if let Some(entry) = self.registry.get(&key(SHARES)).await? {
                self.node.set_shares(&Shares::decode(&entry.value)?);
            }
            return Ok(());
        }
        self.divide().await
    }

    async fn take_policies(&mut self) -> Result<(), Fault> {
        let entry = self.registry.get(&key(POLICIES)).await?;
        let version = entry.as_ref().map(|entry| entry.version);
        if version == self.policies_version {
            return Ok(());
        }
        // Damaged policies leave the last ones in force.
        self.policies = entry.map(|entry| decode_policies(&entry.value)).transpose()?.unwrap_or_default();
        self.policies_version = version;
        self.node.set_policies(&self.policies);
        Ok(())
    }

    /// The node's lease: the old one, or a new one when that has ended.
    async fn renew(&mut self) -> Result<LeaseId, Fault> {
        if let Some(lease) = self.lease {
            match self.registry.keep_alive(lease).await {
                Ok(()) => return Ok(lease),
                // What it was bound to is gone, leadership included.
                Err(RegistryError::Expired) => (self.lease, self.reported, self.leading) = (None, None, None),
                Err(error) => return Err(error.into()),
            }
        }
        let lease = self.registry.grant(LEASE).await?;
        self.lease = Some(lease);
        Ok(lease)
    }

    async fn put_report(&mut self, lease: LeaseId) -> Result<(), Fault> {
        let key = key(&format!("{NODES}{}", self.node.name()));
        let report = self.node.report(lease.0).encode();
        match self.registry.compare_and_put(&key, self.reported, &report, Some(lease)).await {
            Ok(version) => {
                self.reported = Some(version);
                return Ok(());
            }
            Err(RegistryError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let found = self.registry.get(&key).await?;
        let lease_of = |entry: &Entry| Report::decode(&key, &entry.value).map(|report| LeaseId(report.lease));
        match &found {
            // Its own, of an attempt that was not answered.
            Some(entry) if lease_of(entry) == Ok(lease) => self.reported = Some(entry.version),
            Some(_) => {
                self.reported = None;
                return Err(Fault::NameInUse);
            }
            None => self.reported = None,
        }
        Ok(())
    }

    /// Whether this node divides; it does if nobody else does.
    async fn leads(&mut self, lease: LeaseId) -> Result<bool, Fault> {
        let (key, own) = (key(LEADER), self.node.name().as_bytes());
        match self.registry.get(&key).await? {
            Some(entry) => Ok(entry.value == own),
            None => match self.registry.compare_and_put(&key, None, own, Some(lease)).await {
                Ok(_) => Ok(true),
                Err(RegistryError::Conflict { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            },
        }
    }

    async fn divide(&mut self) -> Result<(), Fault> {
        let mut reports = BTreeMap::new();
        for (name, entry) in self.registry.list(NODES).await? {
            let report = Report::decode(&name, &entry.value)?;
            reports.insert(name, (entry.version, report));
        }
        let mut leading = match self.leading.take() {
            Some(leading) => leading,
            None => self.begin().await?,
        };
        let now = self.node.world().now();
        if now < self.returns_until && !leading.divider.knows_all(&reports) {
            self.leading = Some(leading);
            return Ok(());
        }
        if let Some(shares) = leading.divider.divide(now, self.node.name(), &reports, &self.policies) {
            let encoded = shares.encode();
            match self.registry.compare_and_put(&key(SHARES), leading.version, &encoded, None).await {
                Ok(version) => leading.version = Some(version),
                // Another leader came between: it is asked for again in the next interval.
                Err(RegistryError::Conflict { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.node.set_shares(&shares);
        }
        self.leading = Some(leading);
        Ok(())
    }

    /// Goes on where the last leader stopped.
    async fn begin(&self) -> Result<Leading, Fault> {
        let entry = self.registry.get(&key(SHARES)).await?;
        let version = entry.as_ref().map(|entry| entry.version);
        let shares = entry.and_then(|entry| Shares::decode(&entry.value).ok());
        Ok(Leading { divider: Divider::new(self.node.world().now(), shares.as_ref()), version })
    }
}
