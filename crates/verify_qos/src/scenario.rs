//! `qos.toml`: the published experiments, phase by phase. A file that does not fit is refused with one line
//! that names the place.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

use lab_core::checks::Checks;
use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;

pub use super::array_nodes::ArrayNodes;
pub use super::phases::{Experiment, Form, Limit, NodeFaults, Phase, StoreState};

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
    /// One array at several nodes.
    pub array_nodes: Option<ArrayNodes>,
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
    /// One I/O.
    pub transfer: Size,
    /// So many of a hundred I/Os read.
    pub reads_percent: u32,
    /// I/Os in flight of each.
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
    /// Of each measurement of what the array can do.
    pub capacity: Time,
    /// With so many in flight it is measured longer.
    #[serde(default)]
    pub capacity_longer: Vec<Longer>,
    /// What is run beside the experiments.
    pub beside: Vec<Extra>,
}

/// A measurement that is longer than the others.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Longer {
    pub in_flight: usize,
    pub time: Time,
}

impl Run {
    /// For how long is measured what the array does with so many in flight.
    pub(super) fn capacity_of(&self, in_flight: usize) -> Time {
        let own = self.capacity_longer.iter().filter(|longer| longer.in_flight == in_flight);
        own.map(|longer| longer.time).fold(self.capacity, Time::max)
    }
}

/// What is run beside the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extra {
    /// A reserved LU beside one that keeps 64 in flight.
    Neighbour,
    /// Several sizes and depths.
    Mixed,
    /// A drive dies.
    Rebuild,
    /// Policies change under load.
    Changes,
    /// A thousand LUs.
    Thousand,
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

impl Qos {
    /// Whether that much of a minimum is what the claim asks for.
    pub(super) fn is_kept(&self, share: f64, world: World) -> bool {
        let least = self.claims.bound("minimum", world).and_then(|bound| bound.lower);
        least.is_none_or(|least| 100.0 * share >= least.value)
    }

    /// The quick form.
    pub fn quick(self) -> Qos {
        let run = Run { phase: self.quick.phase, capacity_longer: vec![], ..self.run };
        let mut experiments = self.experiments;
        experiments.iter_mut().flat_map(|one| &mut one.phases).for_each(|phase| phase.with_shares = None);
        Qos { run, experiments, array_nodes: self.array_nodes.map(ArrayNodes::quick), ..self }
    }

    /// In real time. The quick form has the array at several nodes alone.
    pub fn real(self, is_quick: bool) -> Qos {
        // Without an experiment nothing is judged by what the array can do in all.
        let capacity = if is_quick { Time(2 * self.run.window.0) } else { self.run.capacity };
        let (phase, warm_up) = (self.real.phase, self.real.warm_up);
        let run = Run { phase, warm_up, capacity, capacity_longer: vec![], ..self.run };
        let array_nodes = self.array_nodes.map(|nodes| nodes.real(is_quick));
        let experiments = if is_quick { vec![] } else { self.experiments };
        Qos { run, array_nodes, experiments, ..self }
    }

    /// What all VMs keep in flight together.
    pub(super) fn outstanding(&self) -> usize {
        self.published.vms * usize::from(self.published.outstanding)
    }

    /// Bytes that a unit of a policy is, for an I/O of this size: a small one counts as a unit, too.
    pub(super) fn unit_bytes(&self, io_bytes: u64) -> u64 {
        self.published.unit.0.min(io_bytes)
    }

    /// Whether everything fits on the drives, each of which has so many bytes.
    ///
    /// # Errors
    /// What does not, and what to change.
    pub(super) fn fits(&self, drive_bytes: u64) -> anyhow::Result<()> {
        let (p, others) = (&self.published, self.array.others);
        let needed = p.disk.0.saturating_mul(p.vms as u64).saturating_add(others.0);
        // Labels, maps and journals.
        let room = drive_bytes / 100 * 99 * u64::from(p.drives / 2);
        anyhow::ensure!(
            needed <= room,
            "{} disks of {} (published.vms, published.disk) and array.others = {others} do not fit on {} \
             drives, which have room for {:.0} GiB in RAID 1+0: lower one of them, or raise published.drives",
            p.vms,
            p.disk,
            p.drives,
            room as f64 / f64::from(1 << 30),
        );
        Ok(())
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
        self.array_nodes.iter().for_each(|nodes| nodes.check(c, least));
        // At least two windows.
        c.range("run.capacity", run.capacity, Time(run.window.0.saturating_mul(2))..=HOUR);
        c.range("run.missed_percent", run.missed_percent, 1.0..=100.0);
        for longer in &run.capacity_longer {
            c.range("run.capacity_longer.in_flight", longer.in_flight, 1..=IN_FLIGHT_MAX);
            c.range("run.capacity_longer.time", longer.time, Time(Duration::ZERO)..=HOUR);
        }
    }
}

/// What a cache can be; a smaller one is none.
const CACHE: RangeInclusive<Size> = Size(8 << 20)..=Size(64 << 30);
/// Of all VMs together.
const IN_FLIGHT_MAX: usize = 6400;
/// No phase or window of a scenario is longer.
pub(super) const HOUR: Time = Time(Duration::from_secs(3600));

impl ScenarioFile for Qos {
    const BUILT_IN: (&'static str, &'static str) =
        (include_str!("../../../scenarios/qos.toml"), "scenarios/qos.toml");
    const MEASURES: &'static [&'static str] = &[
        "advice",
        "advice.busy",
        "advice.idle",
        "changes",
        "event",
        "formula",
        "infeasible",
        "maximum",
        "minimum",
        "mixed",
        "neighbour",
        "nodes",
        "nodes.hung",
        "nodes.killed",
        "nodes.lease",
        "nodes.said",
        "nodes.store",
        "rebuild",
        "rebuild.load",
        "settle",
        "spread.floor",
        "spread.formula",
        "spread.infeasible",
        "spread.lost",
        "spread.maximum",
        "spread.minimum",
        "spread.said",
        "spread.settle",
        "spread.sum",
        "spread.taken_over",
        "sum",
        "thousand",
        "uncoordinated",
        "uncoordinated.even",
        "uncoordinated.last",
    ];

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn check(&self, c: &mut Checks) {
        let (p, a) = (&self.published, &self.array);
        c.range("published.vms", p.vms, 1..=100);
        c.range("published.drives", p.drives, 4..=24);
        c.must("published.drives", p.drives.is_multiple_of(2), "be even");
        c.power_of_two("published.transfer", p.transfer, 4096..=8 << 20);
        c.power_of_two("published.unit", p.unit, 4096..=1 << 20);
        c.range("published.outstanding", p.outstanding, 1..=64);
        c.range("published.reads_percent", p.reads_percent, 0..=100);
        c.multiple("published.disk", p.disk, Size(1 << 20), 64 << 20..=1 << 40);
        c.power_of_two("array.stripe_unit", a.stripe_unit, 4096..=1 << 20);
        c.power_of_two("array.page", a.page, array::config::PAGE_BYTES);
        c.multiple("array.others", a.others, Size(1 << 20), 0..=64 << 40);
        let has_cache = CACHE.contains(&a.cache);
        c.must("array.cache", a.cache.0 == 0 || has_cache, "be 0 (none), or in 8 MiB to 64 GiB");
        if has_cache {
            c.cache("array.cache", a.cache, CACHE);
        }
        c.range("array.depth", a.depth, 1..=4096);
        self.check_times(c);
        c.range("number of experiments", self.experiments.len(), 1..=20);
        // Policies are made for each VM: not for any number of them.
        if c.fault().is_none() {
            self.experiments.iter().for_each(|experiment| experiment.check(c, p.vms));
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
        let policies = cluster.phases[2].policies(10, 0);
        let minimums: Vec<u64> = policies.iter().map(|p| p.minimum_iops).collect();
        assert_eq!(minimums, [3000, 3000, 3000, 3000, 3000, 0, 0, 0, 0, 0]);
        let both = qos.experiments[0].phases[2].policies(10, 0);
        assert_eq!((both[0].maximum_iops, both[9].minimum_iops), (Some(1000), 3000));
    }

    #[test]
    fn more_disks_than_the_drives_have_room_for_are_refused() {
        let (mut qos, _) = Qos::load(None).expect("built in");
        assert!(qos.fits(600_000_000_000).is_ok());
        qos.published.vms = 40;
        let said = qos.fits(600_000_000_000).expect_err("too many").to_string();
        assert!(said.contains("40 disks of 30 GiB") && said.contains("lower one of them"), "{said}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        for (from, to, expected) in [
            ("vms = [1, 10], minimum", "vms = [1, 11], minimum", "VM01 to VM10"),
            ("killed = [1]", "killed = [4]", "host 4"),
            ("capacity = \"120s\"", "capacity = \"6s\"", "run.capacity"),
            ("with_shares = \"180s\"", "with_shares = \"2h\"", "with_shares"),
            ("vms = [1, 5], maximum", "vms = [5, 1], maximum", "limits.vms"),
            ("minimum = 3000", "minimum = 999999999999999", "limits"),
            ("cache = \"12MiB\"", "cache = \"100TiB\"", "array.cache"),
            ("cache = \"12MiB\"", "cache = \"3MiB\"", "array.cache"),
            ("missed_percent = 95", "missed_percent = nan", "run.missed_percent"),
            ("forms = [\"array\"]", "forms = []", "experiment.forms"),
            ("phase = \"30s\"", "phase = \"5s\"", "quick.phase"),
            ("missed_percent = 95", "mised_percent = 95", "mised_percent"),
        ] {
            assert!(Qos::BUILT_IN.0.contains(from), "{from}");
            let said =
                Qos::parse(&Qos::BUILT_IN.0.replacen(from, to, 1), "my.toml").expect_err(to).to_string();
            assert!(said.contains(expected) && !said.contains('\n'), "{to}: {said}");
        }
    }
}
