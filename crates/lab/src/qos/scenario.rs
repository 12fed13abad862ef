//! `qos.toml`: the published experiments, phase by phase. A file that does not fit is refused with one line that names the place.

use std::path::Path;
use std::time::Duration;

use ::qos::Policy;
use serde::Deserialize;

use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::scenario::{ScenarioError, parse, text_of};

/// The scenario of `masu verify qos`, as built in.
const QOS: &str = include_str!("../../../../scenarios/qos.toml");
/// Where the built-in scenario lies in the repository.
const QOS_PATH: &str = "scenarios/qos.toml";

/// Everything that a claim can ask for.
const MEASURES: [&str; 13] = [
    "changes",
    "event",
    "formula",
    "infeasible",
    "maximum",
    "minimum",
    "mixed",
    "neighbour",
    "rebuild",
    "rebuild.load",
    "sum",
    "thousand",
    "uncoordinated",
];

/// `qos.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qos {
    /// Its name.
    pub name: String,
    /// The question that the report answers.
    pub question: String,
    /// What the published experiment states.
    pub published: Published,
    /// The array.
    pub array: ArrayShape,
    /// How it is run.
    pub run: Run,
    /// What is different in the quick form.
    pub quick: Quick,
    /// What is different in real time.
    pub real: Real,
    /// The published experiments.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Experiment>,
    /// What is claimed.
    #[serde(rename = "claim")]
    pub claims: Claims,
}

/// What the published experiment states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Virtual machines.
    pub vms: usize,
    /// The disk of each.
    pub disk: Size,
    /// One write.
    pub transfer: Size,
    /// Writes in flight of each.
    pub outstanding: u16,
    /// Rates are in these.
    pub unit: Size,
    /// Drives of the array.
    pub drives: u32,
    /// One of the catalogue, or a file.
    pub drive: String,
}

/// The array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayShape {
    /// Stripe unit of its group.
    pub stripe_unit: Size,
    /// What else lies on the drives.
    pub others: Size,
    /// Page of its pool.
    pub page: Size,
    /// Cache of its controller, which holds writes until the drives have them; 0: none.
    pub cache: Size,
    /// Requests below the scheduler at most.
    pub depth: u32,
}

/// How it is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Of a phase.
    pub phase: Time,
    /// From a change to when minimums hold.
    pub settle: Time,
    /// Over which is judged.
    pub window: Time,
    /// Before the first phase.
    pub warm_up: Time,
}

/// What the quick form has instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Of a phase.
    pub phase: Time,
}

/// What real time has instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// Of a phase.
    pub phase: Time,
    /// Before the first one.
    pub warm_up: Time,
}

/// A published experiment.
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
    /// Each node its own VMs, within a share of the array that a policy store computes from the claims of all.
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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// In words.
    pub name: String,
    /// What the published experiment says of it.
    pub published: Option<String>,
    /// What is set; VMs that are not named have no policy.
    #[serde(default)]
    pub limits: Vec<Limit>,
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
    /// Part of what is left.
    pub weight: Option<u32>,
}

impl Phase {
    /// The policy of each VM.
    pub fn policies(&self, vms: usize) -> Vec<Policy> {
        let of = |vm: usize| {
            let mut policy = Policy::none();
            for limit in self.limits.iter().filter(|l| (l.vms[0]..=l.vms[1]).contains(&(vm + 1))) {
                policy.minimum_iops = limit.minimum.unwrap_or(policy.minimum_iops);
                policy.maximum_iops = limit.maximum.or(policy.maximum_iops);
                policy.weight = limit.weight.unwrap_or(policy.weight);
            }
            policy
        };
        (0..vms).map(of).collect()
    }
}

fn wrong<T>(path: &str, key: &'static str, cause: &str) -> Result<T, ScenarioError> {
    Err(ScenarioError::Value { path: path.into(), key, cause: cause.into() })
}

impl Qos {
    /// The built-in one, or the file that replaces it, and its text.
    pub fn load(path: Option<&Path>) -> Result<(Qos, String), ScenarioError> {
        let (text, path) = text_of(path, (QOS, QOS_PATH))?;
        Ok((Qos::parse(&text, &path)?, text))
    }

    /// One from its text.
    pub fn parse(text: &str, path: &str) -> Result<Qos, ScenarioError> {
        let qos: Qos = parse(text, path)?;
        qos.check(path)?;
        Ok(qos)
    }

    /// The quick form.
    pub fn quick(self) -> Qos {
        let run = Run { phase: self.quick.phase, ..self.run };
        Qos { run, ..self }
    }

    /// In real time.
    pub fn real(self) -> Qos {
        let run = Run { phase: self.real.phase, warm_up: self.real.warm_up, ..self.run };
        Qos { run, ..self }
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        let p = &self.published;
        if !(2..=100).contains(&p.vms) || !p.vms.is_multiple_of(2) {
            return wrong(path, "published.vms", "is an even number from 2 to 100");
        }
        if !(4..=24).contains(&p.drives) || !p.drives.is_multiple_of(2) {
            return wrong(path, "published.drives", "is an even number from 4 to 24");
        }
        let is_size = |s: Size, most: u64| s.0.is_power_of_two() && (4096..=most).contains(&s.0);
        if !is_size(p.transfer, 8 << 20) || !is_size(p.unit, 1 << 20) || !(1..=64).contains(&p.outstanding) {
            return wrong(path, "published.transfer", "and unit are powers of two; 1 to 64 are outstanding");
        }
        if !p.disk.0.is_multiple_of(1 << 20) || !(64 << 20..=1 << 40).contains(&p.disk.0) {
            return wrong(path, "published.disk", "is whole MiB, from 64 MiB to 1 TiB");
        }
        if !is_size(self.array.stripe_unit, 1 << 20) || !is_size(self.array.page, 1 << 30) {
            return wrong(path, "array", "stripe_unit and page are powers of two, at most 1 MiB and 1 GiB");
        }
        if !self.array.others.0.is_multiple_of(1 << 20) || self.array.others.0 > 64 << 40 {
            return wrong(path, "array.others", "is whole MiB, at most 64 TiB");
        }
        if !(1..=4096).contains(&self.array.depth) {
            return wrong(path, "array.depth", "is between 1 and 4096");
        }
        if let Some(cause) = self.claims.fault(&MEASURES) {
            return wrong(path, "claim", &cause);
        }
        self.check_times(path)?;
        self.check_experiments(path)
    }

    fn check_times(&self, path: &str) -> Result<(), ScenarioError> {
        let least = self.run.settle.0 + 2 * self.run.window.0;
        if self.run.window.0 < Duration::from_secs(1) {
            return wrong(path, "run.window", "is 1 s at least");
        }
        let phases = [self.run.phase, self.quick.phase, self.real.phase];
        if phases.iter().any(|p| p.0 < least || p.0 > Duration::from_secs(3600)) {
            return wrong(path, "run.phase", "is settle and two windows at least, and at most an hour");
        }
        if [self.run.warm_up, self.real.warm_up].iter().any(|t| t.0 > Duration::from_secs(3600)) {
            return wrong(path, "run.warm_up", "is an hour at most");
        }
        Ok(())
    }

    fn check_experiments(&self, path: &str) -> Result<(), ScenarioError> {
        if self.experiments.is_empty() || self.experiments.len() > 20 {
            return wrong(path, "experiment", "are 1 to 20");
        }
        for experiment in &self.experiments {
            let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
            if experiment.id.is_empty() || !experiment.id.chars().all(is_name) {
                return wrong(path, "experiment.id", "is lower-case letters");
            }
            if !(1..=2).contains(&experiment.hosts) || experiment.forms.is_empty() {
                return wrong(path, "experiment.hosts", "are 1 or 2, scheduled in one form or more");
            }
            if experiment.phases.is_empty() || experiment.phases.len() > 50 {
                return wrong(path, "experiment.phase", "are 1 to 50");
            }
            for limit in experiment.phases.iter().flat_map(|phase| &phase.limits) {
                let [from, to] = limit.vms;
                if from == 0 || from > to || to > self.published.vms {
                    return wrong(
                        path,
                        "experiment.phase.limits.vms",
                        "are the first and the last, from 1 on",
                    );
                }
            }
            for policy in experiment.phases.iter().flat_map(|phase| phase.policies(self.published.vms)) {
                if let Err(cause) = policy.check() {
                    return wrong(path, "experiment.phase.limits", &cause.to_string());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_scenario_reads() {
        let (qos, _) = Qos::load(None).expect("built in");
        let cluster = &qos.experiments[1];
        let policies = cluster.phases[2].policies(10);
        let minimums: Vec<u64> = policies.iter().map(|p| p.minimum_iops).collect();
        assert_eq!(minimums, [3000, 3000, 3000, 3000, 3000, 0, 0, 0, 0, 0]);
        let both = qos.experiments[0].phases[2].policies(10);
        assert_eq!((both[0].maximum_iops, both[9].minimum_iops), (Some(1000), 3000));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        for (from, to, expected) in [
            ("vms = 10 ", "vms = 9 ", "published.vms"),
            ("vms = [1, 5], maximum", "vms = [5, 1], maximum", "limits.vms"),
            ("minimum = 3000", "minimum = 999999999999999", "limits"),
            ("forms = [\"array\"]", "forms = []", "experiment.hosts"),
            ("phase = \"30s\"", "phase = \"5s\"", "run.phase"),
            ("depth = 64", "deepth = 64", "deepth"),
        ] {
            assert!(QOS.contains(from), "{from}");
            let said = Qos::parse(&QOS.replacen(from, to, 1), "my.toml").expect_err(to).to_string();
            assert!(said.contains(expected) && !said.contains('\n'), "{to}: {said}");
        }
    }
}
