//! The task of a node: it reports, takes its shares, and divides when it is the leader.
//!
//! | key | value | bound to |
//! |---|---|---|
//! | `qos/policies` | policies by disk | nothing: whoever administers writes it |
//! | `qos/nodes/NAME` | the node's report | the node's lease |
//! | `qos/leader` | the name of the node that divides | that node's lease |
//! | `qos/shares` | what it divided last | nothing: it stays in force when nobody divides |

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures::{FutureExt, StreamExt};
use qos::{Claim, Policy, expected};
use registry::{Entry, Key, LeaseId, Registry, RegistryError, Version, Watch};
use world::Instant;

use crate::limiter::claim;
use crate::record::{decode_policies, encode_policies};
use crate::{EVERY, Estimate, LEASE, Node, RecordError, Report, Seen, Shares, Store};

/// The key of the policies.
pub const POLICIES: &str = "qos/policies";
const NODES: &str = "qos/nodes/";
const LEADER: &str = "qos/leader";
/// The key of the shares in force.
pub const SHARES: &str = "qos/shares";
/// Of the sum, so much must be claimed for the sum to be what limits the disks.
const BOUND_PERMILLE: u64 = 990;
/// Attempts to change the policies while others change them, too.
const ATTEMPTS_MAX: usize = 100;

fn key(name: &str) -> Key {
    Key::new(name).expect("a constant key")
}

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
struct Divider {
    estimate: Estimate,
    /// Who claims what, to see a change.
    claimed: BTreeMap<String, (u64, Option<u64>, u64)>,
    /// Whether the sum limited the disks in the last division; if not, serving all of it says nothing.
    is_bound: bool,
    /// Who had shares when it began.
    disks: BTreeSet<String>,
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
    divider: Option<Divider>,
    /// Until then other nodes may be on their way back, as this one was.
    returns_until: Instant,
}

/// Reports and takes shares until the node leaves.
pub async fn run(node: Rc<Node>, registry: Rc<dyn Registry>) {
    let mut watch = registry.watch(SHARES);
    let mut agent = Agent {
        node: node.clone(),
        registry: registry.clone(),
        lease: None,
        reported: None,
        policies_version: None,
        policies: BTreeMap::new(),
        divider: None,
        returns_until: node.world().now(),
    };
    while !node.leaves.get() {
        let next = node.world().now() + EVERY;
        let done = agent.interval().await;
        agent.note(done);
        agent.follow(next, &mut watch).await;
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
        state.is_leader = self.divider.is_some();
        state.fault = None;
        match done {
            Err(Fault::Registry(error)) => {
                let since = match &state.store {
                    Store::Away { since, .. } => *since,
                    _ => now,
                };
                state.store = Store::Away { since, cause: error.to_string() };
                self.returns_until = now + LEASE;
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

    /// Waits for the next interval; takes shares that come meanwhile.
    async fn follow(&mut self, next: Instant, watch: &mut Watch) {
        let node = self.node.clone();
        while node.world().now() < next && !node.leaves.get() {
            let mut has_news = false;
            let news = watch.next().map(|news| has_news = matches!(news, Some(Ok(()))));
            node.wait(next, news).await;
            if !has_news {
                // A watch that ended or failed says nothing more: the next interval reads.
                node.wait(next, std::future::pending()).await;
                return;
            }
            if self.divider.is_none()
                && let Ok(Some(entry)) = self.registry.get(&key(SHARES)).await
                && let Ok(shares) = Shares::decode(&entry.value)
            {
                node.set_shares(&shares);
            }
        }
    }

    async fn interval(&mut self) -> Result<(), Fault> {
        self.take_policies().await?;
        let lease = self.renew().await?;
        self.put_report(lease).await?;
        if !self.leads(lease).await? {
            self.divider = None;
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
                Err(RegistryError::Expired) => (self.lease, self.reported, self.divider) = (None, None, None),
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
        let lease_of = |entry: &Entry| Report::decode(&entry.value).map(|report| LeaseId(report.lease));
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
            reports.insert(name, Report::decode(&entry.value)?);
        }
        let mut divider = match self.divider.take() {
            Some(divider) => divider,
            None => self.begin().await?,
        };
        if self.node.world().now() < self.returns_until && !divider.knows_all(&reports) {
            self.divider = Some(divider);
            return Ok(());
        }
        let shares = divider.divide(self.node.name(), &reports, &self.policies);
        if let Some(shares) = shares {
            let put =
                self.registry.compare_and_put(&key(SHARES), divider.version, &shares.encode(), None).await;
            match put {
                Ok(version) => divider.version = Some(version),
                // Another leader came between: it is asked for again in the next interval.
                Err(RegistryError::Conflict { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.node.set_shares(&shares);
        }
        self.divider = Some(divider);
        Ok(())
    }

    /// Goes on where the last leader stopped.
    async fn begin(&self) -> Result<Divider, Fault> {
        let entry = self.registry.get(&key(SHARES)).await?;
        let version = entry.as_ref().map(|entry| entry.version);
        let shares = entry.and_then(|entry| Shares::decode(&entry.value).ok());
        let estimate = shares.as_ref().map_or_else(Estimate::default, |old| Estimate::resumed(old.sum));
        let disks = shares.map_or_else(BTreeSet::new, |shares| shares.disks.into_keys().collect());
        Ok(Divider { estimate, claimed: BTreeMap::new(), is_bound: false, disks, version })
    }
}

impl Divider {
    /// Whether all who had shares report. After the store was away nodes come back one after the other: to
    /// divide among the first ones would give them what the others still use.
    fn knows_all(&self, reports: &BTreeMap<Key, Report>) -> bool {
        self.disks.iter().all(|disk| reports.values().any(|report| report.disks.contains_key(disk)))
    }

    /// The shares of all disks; none while nothing is known of the array.
    fn divide(
        &mut self,
        leader: &str,
        reports: &BTreeMap<Key, Report>,
        policies: &BTreeMap<String, Policy>,
    ) -> Option<Shares> {
        let policy = |disk: &String| policies.get(disk).copied().unwrap_or_else(Policy::none);
        let disks: Vec<(&String, &crate::DiskReport, Claim)> = reports
            .values()
            .flat_map(|report| report.disks.iter().map(move |(disk, seen)| (report.unit, disk, seen)))
            .map(|(unit, disk, seen)| (disk, seen, claim(&policy(disk), unit, seen.demand)))
            .collect();
        let claimed: BTreeMap<String, (u64, Option<u64>, u64)> = disks
            .iter()
            .map(|(disk, _, claim)| ((*disk).clone(), (claim.minimum, claim.maximum, claim.weight)))
            .collect();
        if claimed != self.claimed {
            self.estimate.changed();
            self.claimed = claimed;
        }
        let is_first = self.estimate.sum().is_none();
        self.estimate.observe(seen(disks.iter().map(|(_, seen, _)| *seen), is_first, self.is_bound));
        let sum = self.estimate.sum()?;
        let claims: Vec<Claim> = disks.iter().map(|(_, _, claim)| *claim).collect();
        let rates = expected(sum, &claims).rates;
        let used: u64 = rates.iter().sum();
        self.is_bound = used >= sum / 1000 * BOUND_PERMILLE;
        let scale_permille = scale_permille(&claims, &rates);
        let disks = disks.iter().zip(&rates).map(|((disk, _, _), rate)| ((*disk).clone(), *rate)).collect();
        Some(Shares { leader: leader.into(), sum, scale_permille, disks })
    }
}

/// Of 1000: what is given of the minimums, of the disk that gets least of what it asks for.
fn scale_permille(claims: &[Claim], rates: &[u64]) -> u64 {
    let given = |(claim, rate): (&Claim, &u64)| {
        let asked = claim.minimum.min(claim.demand.unwrap_or(u64::MAX));
        // Rates are rounded down.
        (asked > 0).then(|| ((u128::from(*rate) + 1) * 1000 / u128::from(asked)).min(1000) as u64)
    };
    claims.iter().zip(rates).filter_map(given).min().unwrap_or(1000)
}

/// What the reports say together. Before the first shares nobody has any: all service counts then.
fn seen<'a>(disks: impl Iterator<Item = &'a crate::DiskReport>, is_first: bool, is_bound: bool) -> Seen {
    let mut seen = Seen { is_bound, ..Seen::default() };
    let mut squares = 0.0;
    for disk in disks {
        seen.shares += disk.granted.unwrap_or_default();
        match disk.granted {
            Some(granted) if disk.hungry => {
                seen.granted += granted;
                seen.served += disk.served;
                squares += (disk.largest as f64).powi(2);
            }
            None if is_first => seen.served += disk.served,
            _ => {}
        }
    }
    // Each disk may be off by a request, in either direction.
    seen.grain = (squares.sqrt() / EVERY.as_secs_f64()) as u64;
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(minimum: u64) -> Claim {
        Claim { minimum, maximum: None, weight: 1, demand: None }
    }

    /// The floor is that of the array's own scheduler: one formula for both.
    #[test]
    fn shares_are_those_of_the_formula_and_say_what_of_the_minimums_is_given() {
        let claims = [claim(500), claim(1500), claim(0), claim(0)];
        let rates = expected(1000, &claims).rates;
        assert_eq!((rates.as_slice(), scale_permille(&claims, &rates)), (&[245, 735, 10, 10][..], 490));
        let claims = [claim(400), claim(0)];
        assert_eq!(scale_permille(&claims, &expected(1000, &claims).rates), 1000);
        let idle = Claim { demand: Some(10), ..claim(400) };
        assert_eq!(scale_permille(&[idle], &[10]), 1000);
        assert_eq!(scale_permille(&[claim(0)], &[0]), 1000);
    }

    #[test]
    fn a_sum_is_judged_by_the_disks_that_want_more_and_told_of_all() {
        let disk = |served, granted, hungry| crate::DiskReport {
            served,
            granted,
            largest: 8192,
            hungry,
            demand: None,
        };
        let disks = [disk(90, Some(100), true), disk(5, Some(50), false), disk(7, None, true)];
        let seen = seen(disks.iter(), false, true);
        assert_eq!((seen.shares, seen.granted, seen.served), (150, 100, 90));
        assert_eq!(super::seen(disks[2..].iter(), true, true).served, 7);
    }
}
