//! `qos.toml`: the published experiments, phase by phase. A file that does not fit is refused with one line
//! that names the place.

use std::time::Duration;

use ::qos::Policy;
use serde::Deserialize;

use lab_core::checks::Checks;
use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;

/// `qos.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Qos {
    pub name: String,
    /// The question that the report answers.
    pub question: String,
    /// What the published experiment states.
    pub published: Published,
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
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Run {
    pub phase: Time,
    /// From a change to when minimums hold.
    pub settle: Time,
    /// Over which is judged.
    pub window: Time,
    /// Before the first phase.
    pub warm_up: Time,
    /// A VM that has less of its minimum over a phase misses it.
    pub missed_percent: f64,
}

/// What the quick form has instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Quick {
    pub phase: Time,
}

/// What real time has instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Real {
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
    /// Each node its own VMs, within a share of the array that a policy store computes from the claims of
    /// all.
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

impl Qos {
    /// Whether that much of a minimum is what the claim asks for.
    pub(super) fn is_kept(&self, share: f64, world: World) -> bool {
        let least = self.claims.bound("minimum", world).and_then(|bound| bound.lower);
        least.is_none_or(|least| 100.0 * share >= least.value)
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

    fn check_times(&self, c: &mut Checks) {
        let (run, real) = (&self.run, &self.real);
        c.range("run.window", run.window, Time(Duration::from_secs(1))..=HOUR);
        // Time to settle, and two windows.
        let least = Time(run.settle.0.saturating_add(run.window.0.saturating_mul(2)));
        c.range("run.phase", run.phase, least..=HOUR);
        c.range("quick.phase", self.quick.phase, least..=HOUR);
        c.range("real.phase", real.phase, least..=HOUR);
        c.range("run.warm_up", run.warm_up, Time(Duration::ZERO)..=HOUR);
        c.range("real.warm_up", real.warm_up, Time(Duration::ZERO)..=HOUR);
    }

    fn check_experiments(&self, c: &mut Checks) {
        let vms = self.published.vms;
        c.range("number of experiments", self.experiments.len(), 1..=20);
        for experiment in &self.experiments {
            let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
            let named = !experiment.id.is_empty() && experiment.id.chars().all(is_name);
            c.must("experiment.id", named, "be lower-case letters");
            c.range("experiment.hosts", experiment.hosts, 1..=2);
            c.must("experiment.forms", !experiment.forms.is_empty(), "name one form or more");
            c.range("number of phases of an experiment", experiment.phases.len(), 1..=50);
            for limit in experiment.phases.iter().flat_map(|phase| &phase.limits) {
                let [from, to] = limit.vms;
                let in_order = from > 0 && from <= to && to <= vms;
                c.must("experiment.phase.limits.vms", in_order, "be the first and the last VM, from 1 on");
            }
            for policy in experiment.phases.iter().flat_map(|phase| phase.policies(vms)) {
                if let Err(cause) = policy.check() {
                    c.must("experiment.phase.limits", false, &format!("be a policy: {cause}"));
                }
            }
        }
    }
}

/// No phase or window of a scenario is longer.
const HOUR: Time = Time(Duration::from_secs(3600));

impl ScenarioFile for Qos {
    const BUILT_IN: (&'static str, &'static str) =
        (include_str!("../../../scenarios/qos.toml"), "scenarios/qos.toml");
    const MEASURES: &'static [&'static str] = &[
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

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn check(&self, c: &mut Checks) {
        let (p, a) = (&self.published, &self.array);
        c.range("published.vms", p.vms, 2..=100);
        c.must("published.vms", p.vms.is_multiple_of(2), "be even");
        c.range("published.drives", p.drives, 4..=24);
        c.must("published.drives", p.drives.is_multiple_of(2), "be even");
        c.power_of_two("published.transfer", p.transfer, 4096..=8 << 20);
        c.power_of_two("published.unit", p.unit, 4096..=1 << 20);
        c.range("published.outstanding", p.outstanding, 1..=64);
        c.multiple("published.disk", p.disk, Size(1 << 20), 64 << 20..=1 << 40);
        c.power_of_two("array.stripe_unit", a.stripe_unit, 4096..=1 << 20);
        c.power_of_two("array.page", a.page, 4096..=1 << 30);
        c.multiple("array.others", a.others, Size(1 << 20), 0..=64 << 40);
        c.range("array.depth", a.depth, 1..=4096);
        self.check_times(c);
        // Policies are made for each VM: not for any number of them.
        if c.fault().is_none() {
            self.check_experiments(c);
        }
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
            ("forms = [\"array\"]", "forms = []", "experiment.forms"),
            ("phase = \"30s\"", "phase = \"5s\"", "quick.phase"),
            ("depth = 64", "deepth = 64", "deepth"),
        ] {
            assert!(Qos::BUILT_IN.0.contains(from), "{from}");
            let said =
                Qos::parse(&Qos::BUILT_IN.0.replacen(from, to, 1), "my.toml").expect_err(to).to_string();
            assert!(said.contains(expected) && !said.contains('\n'), "{to}: {said}");
        }
    }
}
