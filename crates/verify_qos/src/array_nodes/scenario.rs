//! `[array_nodes]` of `qos.toml`: the nodes, what is promised in each phase, and which node is lost.

use std::time::Duration;

use lab_core::checks::Checks;
use lab_core::quantity::{Size, Time};
use serde::Deserialize;

/// The form *array nodes*.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayNodes {
    /// So many nodes, one run for each number.
    pub nodes: Vec<usize>,
    /// The same in the quick form.
    pub quick_nodes: Vec<usize>,
    /// Of each node: RAID 1+0.
    pub drives: u32,
    /// Of each VM.
    pub disk: Size,
    /// One random write.
    pub transfer: Size,
    /// Of each VM.
    pub outstanding: u16,
    /// From one node to another.
    pub latency: Time,
    /// Of each phase.
    pub time: Time,
    /// The same in the quick form.
    pub quick_time: Time,
    /// After BUSY a host sends a command again after this time.
    pub retry: Time,
    /// What is different in real time.
    pub real: Real,
    /// One after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

/// Nodes that are processes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// So many nodes, one run for each number; none: no run.
    pub nodes: Vec<usize>,
    /// Of each phase.
    pub time: Time,
    /// The same in the quick form.
    pub quick_time: Time,
}

/// What plays a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Nodes in virtual time.
    Model,
    /// Processes.
    Real,
    /// Processes, in the quick form.
    RealQuick,
}

/// A stretch of time with the same promises.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// In words.
    pub name: String,
    /// Minimum of the aggregated policy, in percent of what all nodes can do; none: it does not exist.
    pub gold: Option<u64>,
    /// Minimum of the VM of each node that has a dedicated policy, in percent of what a node can do.
    pub silver: Option<u64>,
    /// Maximum of the other aggregated policy, in percent of what all nodes can do.
    pub bronze: Option<u64>,
    /// Where the VMs of the aggregated minimum work.
    #[serde(default)]
    pub gold_at: Half,
    /// Whether the VMs of the aggregated maximum do nothing.
    #[serde(default)]
    pub bronze_idle: bool,
    /// A node that dies when the phase begins, counted from 1.
    pub lost: Option<usize>,
    /// When the first node begins to take over its controller; none: when the next phase begins. Processes do
    /// it by themselves, and have it at 0.
    pub taken_over: Option<Time>,
    /// The forms that have this phase.
    #[serde(default = "Form::all")]
    pub only: Vec<Form>,
}

impl Form {
    fn all() -> Vec<Form> {
        vec![Form::Model, Form::Real, Form::RealQuick]
    }
}

impl Phase {
    fn promises(&self) -> [Option<u64>; 3] {
        [self.gold, self.silver, self.bronze]
    }
}

/// Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// All of them.
    #[default]
    All,
    /// The first half, with the one in the middle.
    First,
    /// The last half, likewise.
    Last,
}

impl Half {
    /// Whether it has that one of so many nodes, counted from 0.
    pub(super) fn has(self, node: usize, nodes: usize) -> bool {
        let half = nodes.div_ceil(2);
        match self {
            Half::All => true,
            Half::First => node < half,
            Half::Last => node >= nodes - half,
        }
    }
}

/// Nodes of one run.
const NODES_MAX: usize = 16;
const HOUR: Time = Time(Duration::from_secs(3600));

impl ArrayNodes {
    /// The quick form.
    pub fn quick(self) -> ArrayNodes {
        ArrayNodes { nodes: self.quick_nodes.clone(), time: self.quick_time, ..self }
    }

    /// In real time.
    pub fn real(self, is_quick: bool) -> ArrayNodes {
        let (form, time) = match is_quick {
            true => (Form::RealQuick, self.real.quick_time),
            false => (Form::Real, self.real.time),
        };
        ArrayNodes { nodes: self.real.nodes.clone(), time, ..self }.in_form(form)
    }

    /// With the phases of a form alone.
    pub(super) fn in_form(mut self, form: Form) -> ArrayNodes {
        self.phases.retain(|phase| phase.only.contains(&form));
        self
    }

    /// Whether it makes sense, where a phase takes so long at least.
    pub(crate) fn check(&self, c: &mut Checks, least: Time) {
        let real = &self.real;
        let all = [("nodes", &self.nodes), ("quick_nodes", &self.quick_nodes), ("real.nodes", &real.nodes)];
        for (key, numbers) in all {
            c.range(&format!("array_nodes.number of {key}"), numbers.len(), 0..=NODES_MAX);
            for nodes in numbers {
                c.range(&format!("array_nodes.{key}"), *nodes, 2..=NODES_MAX);
            }
        }
        c.range("array_nodes.drives", self.drives, 4..=24);
        c.must("array_nodes.drives", self.drives.is_multiple_of(2), "be even");
        c.multiple("array_nodes.disk", self.disk, Size(1 << 20), 64 << 20..=1 << 40);
        c.power_of_two("array_nodes.transfer", self.transfer, 4096..=1 << 20);
        c.range("array_nodes.outstanding", self.outstanding, 1..=64);
        c.range("array_nodes.latency", self.latency, Time(Duration::ZERO)..=Time(Duration::from_secs(1)));
        c.range("array_nodes.time", self.time, least..=HOUR);
        c.range("array_nodes.quick_time", self.quick_time, least..=HOUR);
        c.range("array_nodes.real.time", real.time, least..=HOUR);
        c.range("array_nodes.real.quick_time", real.quick_time, least..=HOUR);
        let tick = Time(Duration::from_millis(1));
        c.range("array_nodes.retry", self.retry, tick..=Time(Duration::from_secs(60)));
        c.range("array_nodes: number of phases", self.phases.len(), 1..=50);
        for form in Form::all() {
            self.check_phases(c, least, form);
        }
    }

    fn check_phases(&self, c: &mut Checks, least: Time, form: Form) {
        let is_real = form != Form::Model;
        let fewest = match is_real {
            true => self.real.nodes.iter().min(),
            false => self.nodes.iter().chain(&self.quick_nodes).min(),
        };
        let fewest = fewest.copied().unwrap_or(NODES_MAX);
        let phases: Vec<&Phase> = self.phases.iter().filter(|phase| phase.only.contains(&form)).collect();
        let mut lost = Vec::new();
        for (number, phase) in phases.iter().enumerate() {
            let key = |what: &str| format!("array_nodes, phase {:?}: {what}", phase.name);
            let all = [("gold", phase.gold), ("silver", phase.silver), ("bronze", phase.bronze)];
            for (what, percent) in all.iter().filter_map(|(what, percent)| Some((what, (*percent)?))) {
                c.must(&key(what), number > 0, "not be in the first phase, which measures what nodes can do");
                c.range(&key(what), percent, 1..=1000);
            }
            c.must(
                &key("taken_over"),
                phase.lost.is_some() || phase.taken_over.is_none(),
                "have a lost node",
            );
            if let Some(after) = phase.taken_over {
                // Windows before and after it.
                let most = self.time.0.min(self.quick_time.0).saturating_sub(least.0);
                c.range(&key("taken_over"), after, Time(Duration::ZERO)..=Time(most));
            }
            let Some(node) = phase.lost else { continue };
            let at_once = phase.taken_over == Some(Time(Duration::ZERO));
            c.must(
                &key("taken_over"),
                !is_real || at_once,
                "be 0s with processes, which take over themselves",
            );
            let before = phases.get(number.wrapping_sub(1)).map(|before| before.promises());
            c.must(&key("lost"), before == Some(phase.promises()), "leave what is promised as it was before");
            c.range(&key("lost: node"), node, 2..=fewest);
            c.must(&key("lost"), !lost.contains(&node), "be a node that is there");
            lost.push(node);
        }
    }
}
