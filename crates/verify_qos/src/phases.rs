//! The experiments of `qos.toml`: their phases, what is set in each, and what is wrong with the hosts.

use std::time::Duration;

use ::qos::Policy;
use serde::Deserialize;

use lab_core::checks::Checks;
use lab_core::quantity::Time;

use super::scenario::HOUR;

/// An experiment: the published ones, and ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// In names of files and figures.
    pub id: String,
    /// In words.
    pub title: String,
    /// Hosts that the VMs are on, evenly.
    pub hosts: usize,
    /// Who schedules.
    pub forms: Vec<Form>,
    /// One after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

/// Who schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Each host its own VMs, and knows nothing of the other hosts.
    Uncoordinated,
    /// The array, where all hosts meet.
    Array,
    /// Each host its own VMs, by shares of the array that the hosts agree on through a store.
    Coordinated,
}

impl Form {
    /// In names.
    pub fn name(self) -> &'static str {
        match self {
            Form::Uncoordinated => "uncoordinated",
            Form::Array => "array",
            Form::Coordinated => "coordinated",
        }
    }
}

/// A stretch of time with the same policies.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// In words.
    pub name: String,
    /// What the published experiment says of it.
    pub published: Option<String>,
    /// What is set; VMs that are not named have no policy.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// VMs that do nothing, from one to another, counted from 1.
    #[serde(default)]
    pub idle: Vec<[usize; 2]>,
    /// What is wrong with the hosts in it.
    #[serde(default)]
    pub nodes: NodeFaults,
    /// How the policy store is.
    #[serde(default)]
    pub store: StoreState,
    /// How long it is with hosts that share, if that is more than `run.phase`: what high minimums leave is
    /// little, and known the better the longer it is looked at. The quick form has none.
    pub with_shares: Option<Time>,
}

/// Hosts that are not there, counted from 1, with their VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFaults {
    /// They died, and start again when the phase is over.
    #[serde(default)]
    pub killed: Vec<usize>,
    /// They stand still, and go on when the phase is over.
    #[serde(default)]
    pub hung: Vec<usize>,
}

impl NodeFaults {
    /// The hosts that are not there.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.killed.iter().chain(&self.hung).copied()
    }
}

/// Whether the hosts reach the policy store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreState {
    /// It answers.
    #[default]
    There,
    /// It answers nobody.
    Away,
}

/// A policy for some VMs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// From this one to that one, counted from 1.
    pub vms: [usize; 2],
    /// Units per second; none: no minimum.
    pub minimum: Option<u64>,
    /// Units per second; none: no maximum.
    pub maximum: Option<u64>,
    /// A maximum, as an even part for each VM of so many percent of what the array can do.
    pub maximum_percent: Option<u32>,
    /// Part of what is left.
    pub weight: Option<u32>,
}

fn within([from, to]: [usize; 2], vm: usize) -> bool {
    (from..=to).contains(&(vm + 1))
}

impl Phase {
    /// The policy of each VM, on an array that can do so many units per second.
    pub fn policies(&self, vms: usize, capacity: u64) -> Vec<Policy> {
        let of = |vm: usize| {
            let mut policy = Policy::none();
            for limit in self.limits.iter().filter(|limit| within(limit.vms, vm)) {
                let named = (limit.vms[1] - limit.vms[0] + 1) as u64;
                let part = |percent: u32| (capacity * u64::from(percent) / 100 / named).max(1);
                let maximum = limit.maximum.or(limit.maximum_percent.map(part));
                policy.minimum_iops = limit.minimum.unwrap_or(policy.minimum_iops);
                policy.maximum_iops = maximum.or(policy.maximum_iops);
                policy.weight = limit.weight.unwrap_or(policy.weight);
            }
            policy
        };
        (0..vms).map(of).collect()
    }

    /// How long it is in a form, if the others are so long.
    pub fn time(&self, form: Form, others: Time) -> Time {
        let own = self.with_shares.filter(|_| form == Form::Coordinated);
        own.map_or(others, |own| own.max(others))
    }

    /// Which VMs do nothing in it: they are idle, or their host is not there.
    pub fn stand_still(&self, vms: usize, hosts: usize) -> Vec<bool> {
        let is_idle = |vm: usize| self.idle.iter().any(|idle| within(*idle, vm));
        let is_gone = |vm: usize| self.nodes.all().any(|node| host_of(vm, vms, hosts) == node - 1);
        (0..vms).map(|vm| is_idle(vm) || is_gone(vm)).collect()
    }
}

/// The host of a VM: VMs are on hosts in order, evenly.
pub(super) fn host_of(vm: usize, vms: usize, hosts: usize) -> usize {
    vm * hosts / vms.max(1)
}

impl Experiment {
    /// Whether it makes sense with so many VMs.
    pub(super) fn check(&self, c: &mut Checks, vms: usize) {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let named = !self.id.is_empty() && self.id.chars().all(is_name);
        c.must("experiment.id", named, "be lower-case letters");
        let key = |what: &str| format!("experiment {}: {what}", self.id);
        c.range(&key("hosts"), self.hosts, 1..=vms.min(8));
        c.must(&key("experiment.forms"), !self.forms.is_empty(), "name one form or more");
        c.range(&key("number of phases"), self.phases.len(), 1..=50);
        for phase in &self.phases {
            let key = |what: &str| format!("experiment {}, phase {:?}: {what}", self.id, phase.name);
            let limits = phase.limits.iter().map(|limit| ("limits.vms", limit.vms));
            for (what, [from, to]) in limits.chain(phase.idle.iter().map(|idle| ("idle", *idle))) {
                let in_order = from > 0 && from <= to && to <= vms;
                let must = format!("be the first and the last of VM01 to VM{vms:02} (published.vms)");
                c.must(&key(&format!("{what} [{from}, {to}]")), in_order, &must);
            }
            for node in phase.nodes.all() {
                c.range(&key("host"), node, 1..=self.hosts);
            }
            if let Some(time) = phase.with_shares {
                c.range(&key("with_shares"), time, Time(Duration::ZERO)..=HOUR);
            }
            if c.fault().is_some() {
                return;
            }
            let both = |limit: &Limit| {
                limit.maximum_percent.is_some() && (limit.maximum.is_some() || limit.minimum.is_some())
            };
            let alone = !phase.limits.iter().any(both);
            c.must(&key("limits"), alone, "have maximum_percent without minimum and maximum");
            for percent in phase.limits.iter().filter_map(|limit| limit.maximum_percent) {
                c.range(&key("limits.maximum_percent"), percent, 1..=100);
            }
            let rest = phase.stand_still(vms, self.hosts).contains(&false);
            c.must(&key("idle, nodes"), rest, "leave one VM or more at work");
            for policy in phase.policies(vms, 1 << 30) {
                if let Err(cause) = policy.check() {
                    c.must(&key("limits"), false, &format!("be a policy: {cause}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vms_are_on_hosts_evenly_and_stand_still_with_them() {
        for (vms, hosts) in [(10, 2), (10, 8), (7, 3), (1, 1), (100, 8)] {
            let mut count = vec![0; hosts];
            (0..vms).for_each(|vm| count[host_of(vm, vms, hosts)] += 1);
            let [least, most] = [count.iter().min(), count.iter().max()].map(|n| *n.expect("hosts"));
            assert!(least >= 1 && most - least <= 1, "{vms} on {hosts}: {count:?}");
        }
        let phase = Phase {
            idle: vec![[1, 2]],
            nodes: NodeFaults { killed: vec![3], hung: vec![] },
            ..Phase::default()
        };
        assert_eq!(phase.stand_still(6, 3), [true, true, false, false, true, true]);
    }

    #[test]
    fn a_maximum_in_percent_is_an_even_part() {
        let limit =
            Limit { vms: [1, 4], minimum: None, maximum: None, maximum_percent: Some(90), weight: None };
        let phase = Phase { limits: vec![limit], ..Phase::default() };
        let maximums: Vec<_> = phase.policies(5, 1000).iter().map(|p| p.maximum_iops).collect();
        assert_eq!(maximums, [Some(225), Some(225), Some(225), Some(225), None]);
    }
}
