//! What the published experiment does not have: other loads, other policies, a drive that dies, a thousand
//! LUs. In the model world, with the array as the scheduler.

use std::borrow::Cow;
use std::time::Duration;

use ::qos::Policy;
use anyhow::Result;
use world::Rng;

use super::bed::{self, Bed, Shape};
use super::capacity::Capacity;
use super::judge;
use super::phases::{Form, NodeFaults, StoreState};
use super::play::{self, Course, Load, Script, Step};
use super::scenario::{Extra, Qos};
use super::vm::Done;
use lab_core::interrupt::Stop;
use lab_core::stats::{Estimate, mean_of_windows, quotient_of_means};
use lab_tools::load::Access;

/// What was found, one number each.
#[derive(Clone, Debug, Default)]
pub(super) struct Extras {
    /// Latencies of the reserved LU, nanoseconds.
    pub(super) neighbour: Option<Neighbour>,
    /// Of several kinds of load with minimums: the worst window, as a share of the minimum.
    pub(super) mixed: Option<f64>,
    /// The same before and after a drive's death.
    pub(super) rebuild: Option<Rebuild>,
    /// The same while policies change, and how often they did.
    pub(super) changes: Option<(Option<f64>, usize)>,
    /// A thousand LUs.
    pub(super) thousand: Option<Thousand>,
    /// For the figures.
    pub(super) courses: Vec<Course>,
}

/// A reserved LU beside a neighbour that keeps 64 in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    /// Its 99th percentile when it is alone and gets no more than its share: an I/O waits for its turn, for
    /// the rate is paced, as it is beside a neighbour.
    pub(super) alone_p99_ns: Estimate,
    /// The same with the neighbour.
    pub(super) beside_p99_ns: Estimate,
    /// When it is alone and gets what it can.
    pub(super) free_p99_ns: f64,
    /// What one I/O takes on an idle array.
    pub(super) service_ns: u64,
    /// I/Os per second that the neighbour had meanwhile.
    pub(super) neighbour_iops: f64,
}

/// A drive died and its spare was filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebuild {
    /// The worst window of VMs with a minimum that can be kept, as a share of it.
    pub(super) worst: Option<f64>,
    /// All VMs together, before and after, bytes per second.
    pub(super) before: f64,
    pub(super) after: f64,
    /// The one of the other, with the interval of windows that follow one another.
    pub(super) left: Option<Estimate>,
    /// What the rebuild did to drives, bytes per second.
    pub(super) rebuilt: f64,
}

/// A thousand LUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thousand {
    /// Of those with a minimum: the worst window, with one I/O more, as a share of the minimum.
    pub(super) worst: f64,
    /// Of those without: the least and the most, as a share of their mean.
    pub(super) spread: (f64, f64),
    /// All together, I/Os per second.
    pub(super) iops: f64,
}

const KIB: u64 = 1 << 10;
const VOLUME_BYTES_MIN: u64 = 64 << 20;
/// Of the phases of these runs.
const PHASE: Duration = Duration::from_secs(40);
/// Of those with a noisy neighbour: the 99th percentile of five seconds is the sixth slowest of 600.
const NEIGHBOUR_PHASE: Duration = Duration::from_secs(600);
const FREE: Policy = Policy {
    minimum_iops: 0,
    maximum_iops: None,
    bandwidth_bytes_per_s: None,
    weight: ::qos::WEIGHT_DEFAULT,
    burst_units: 0,
};

fn minimum(units: u64) -> Policy {
    Policy { minimum_iops: units, ..FREE }
}

fn load(size: u64, read_percent: u32, random_percent: u32, outstanding: u16) -> Load {
    Load { access: Access::new(size, read_percent, random_percent), outstanding }
}

fn script(id: &str, title: &str, loads: Vec<Load>, steps: Vec<Step>) -> Script {
    Script { id: id.into(), title: title.into(), hosts: 1, loads, steps }
}

fn step(name: &str, policies: Vec<Policy>, time: Duration) -> Step {
    let still = vec![false; policies.len()];
    let (nodes, store) = (NodeFaults::default(), StoreState::There);
    Step { name: name.into(), policies, time, dies: None, still, nodes, store }
}

/// What it found.
pub(super) enum Found {
    Neighbour(Neighbour),
    Mixed(f64, Course),
    Rebuild(Rebuild, Course),
    Changes(Option<f64>, usize, Course),
    Thousand(Thousand),
}

impl Extra {
    /// How it is called while it runs.
    pub(super) fn words(self) -> &'static str {
        match self {
            Extra::Neighbour => "a noisy neighbour",
            Extra::Mixed => "several sizes and depths",
            Extra::Rebuild => "a drive dies",
            Extra::Changes => "policies change under load",
            Extra::Thousand => "a thousand LUs",
        }
    }

    pub(super) fn run(self, stand: &Stand<'_>) -> Result<Found> {
        match self {
            Extra::Neighbour => stand.neighbour(),
            Extra::Mixed => stand.mixed(),
            Extra::Rebuild => stand.rebuild(),
            Extra::Changes => stand.changes(),
            Extra::Thousand => stand.thousand(),
        }
    }
}

impl Extras {
    /// What one of them found.
    pub(super) fn add(&mut self, found: Found) {
        let course = match found {
            Found::Neighbour(neighbour) => {
                self.neighbour = Some(neighbour);
                None
            }
            Found::Mixed(worst, course) => {
                self.mixed = Some(worst);
                Some(course)
            }
            Found::Rebuild(rebuild, course) => {
                self.rebuild = Some(rebuild);
                Some(course)
            }
            Found::Changes(worst, changes, course) => {
                self.changes = Some((worst, changes));
                Some(course)
            }
            Found::Thousand(thousand) => {
                self.thousand = Some(thousand);
                None
            }
        };
        self.courses.extend(course);
    }
}

/// What everything is played on.
pub(super) struct Stand<'a> {
    pub(super) qos: &'a Qos,
    pub(super) bed: &'a Bed,
    pub(super) capacity: &'a Capacity,
    pub(super) seed: u64,
    pub(super) stop: &'a Stop,
}

impl Stand<'_> {
    /// A script on that bed.
    pub(super) fn play(&self, bed: &Bed, script: &Script, form: Form) -> Result<Course> {
        play::model(self.qos, bed, script, form, (self.seed, self.stop))
    }

    /// A bed with so many LUs or more.
    fn bed_with(&self, volumes: usize) -> Result<Cow<'_, Bed>> {
        if volumes <= self.qos.published.vms {
            return Ok(Cow::Borrowed(self.bed));
        }
        // The same room, in more pieces.
        let published = Shape::published(self.qos);
        let whole = published.volume_bytes * published.volumes as u64;
        let volume_bytes = ((whole / volumes as u64) >> 20 << 20).max(VOLUME_BYTES_MIN);
        let shape = Shape { volumes, volume_bytes, ..published };
        Ok(Cow::Owned(bed::make(self.qos, shape, self.seed)?))
    }

    /// What all can do, in units of policies per second.
    fn units_per_s(&self) -> f64 {
        self.capacity.all() / self.qos.unit_bytes(self.qos.published.transfer.0) as f64
    }

    /// The worst window of all VMs with a minimum in all phases.
    fn worst(&self, course: &Course) -> f64 {
        let view = judge::view(self.qos, self.capacity, course);
        let all = view.phases.iter().flat_map(|phase| &phase.vms).filter(|vm| vm.rates.minimum > 0.0);
        all.map(|vm| vm.worst / vm.rates.minimum).fold(f64::INFINITY, f64::min)
    }

    /// The same of phases whose minimums can be kept.
    fn worst_that_fits(&self, course: &Course) -> Option<f64> {
        let view = judge::view(self.qos, self.capacity, course);
        view.phases.iter().filter_map(|phase| phase.worst_of_minimum()).min_by(f64::total_cmp)
    }

    /// A LU of one random read of 4 KiB at a time, promised 120 per second, and one that keeps 64 in flight.
    fn neighbour(&self) -> Result<Found> {
        let reserved = load(4 * KIB, 100, 100, 1);
        let (share, bed) = (minimum(RESERVED_IOPS), self.bed_with(2)?);
        let run = |loads: Vec<Load>, policies: Vec<Policy>| {
            let steps = vec![step("all", policies, NEIGHBOUR_PHASE)];
            self.play(&bed, &script("neighbour", "A noisy neighbour", loads, steps), Form::Array)
        };
        let idle = run(vec![reserved], vec![FREE])?;
        let alone = run(vec![reserved], vec![Policy { maximum_iops: Some(RESERVED_IOPS), ..share }])?;
        let beside = run(vec![reserved, load(4 * KIB, 100, 100, 64)], vec![share, FREE])?;
        let neighbour = beside.done[1].iter().filter(|d| d.at_ns >= beside.phases[0].from_ns).count();
        let (service_ns, free) = latency(self.qos, &idle);
        Ok(Found::Neighbour(Neighbour {
            alone_p99_ns: latency(self.qos, &alone).1,
            beside_p99_ns: latency(self.qos, &beside).1,
            free_p99_ns: free.mean,
            service_ns,
            neighbour_iops: neighbour as f64 / NEIGHBOUR_PHASE.as_secs_f64(),
        }))
    }

    /// Four kinds of load with minimums, and six without that want all they can get.
    fn mixed(&self) -> Result<Found> {
        let loads = vec![
            load(4 * KIB, 100, 100, 2),
            load(8 * KIB, 67, 100, 8),
            load(64 * KIB, 0, 100, 4),
            load(512 * KIB, 0, 100, 1),
            load(4 * KIB, 100, 100, 16),
            load(8 * KIB, 67, 100, 32),
            load(64 * KIB, 0, 100, 8),
            load(256 * KIB, 50, 100, 2),
            load(4 * KIB, 0, 100, 4),
            load(512 * KIB, 100, 100, 1),
        ];
        let mut policies = vec![minimum(60), minimum(150), minimum(500), minimum(1000)];
        policies.resize(loads.len(), FREE);
        let steps = vec![
            step("nothing", vec![FREE; loads.len()], PHASE),
            step("VM01-04 with minimums", policies, PHASE),
        ];
        let bed = self.bed_with(loads.len())?;
        let course =
            self.play(&bed, &script("mixed", "Several sizes and depths", loads, steps), Form::Array)?;
        Ok(Found::Mixed(self.worst(&course), course))
    }

    /// A drive dies under the VMs of the published load, and its rebuild is promised half of what the array
    /// can do; half of the VMs have minimums, two fifths of it together.
    fn rebuild(&self) -> Result<Found> {
        let shape = Shape { has_spare: true, ..Shape::published(self.qos) };
        let mut bed = bed::make(self.qos, shape, self.seed)?;
        bed.config.qos.background_minimum_iops = self.capacity.all() as u64 / 2 / self.qos.published.unit.0;
        let vms = self.qos.published.vms;
        let promised = vms.div_ceil(2);
        let each = minimum((self.units_per_s() * REBUILD_PROMISED / promised as f64).max(1.0) as u64);
        let policies: Vec<Policy> = (0..vms).map(|vm| if vm < promised { each } else { FREE }).collect();
        let mut steps =
            vec![step("healthy", policies.clone(), PHASE), step("a drive has died", policies, PHASE)];
        steps[1].dies = Some(0);
        let loads = vec![Load::published(self.qos); vms];
        let course = self.play(
            &bed,
            &script("rebuild", "A drive dies, its spare is filled", loads, steps),
            Form::Array,
        )?;
        let view = judge::view(self.qos, self.capacity, &course);
        let (before, after) = (view.phases[0].sum, view.phases[1].sum);
        let all = |phase: &judge::PhaseView| -> Vec<f64> {
            let count = phase.windows.iter().map(Vec::len).min().unwrap_or(0);
            (0..count).map(|at| phase.windows.iter().map(|vm| vm[at]).sum()).collect()
        };
        let left = quotient_of_means(&all(&view.phases[1]), &all(&view.phases[0]), mean_of_windows);
        let died_ns = course.phases[1].from_ns;
        let mut looks = course.looks.iter().skip_while(|look| look.at_ns < died_ns);
        let rebuilt = looks.next().zip(looks.last()).map_or(0.0, |(first, last)| {
            let bytes = last.background_bytes - first.background_bytes;
            bytes as f64 * 1e9 / (last.at_ns - first.at_ns) as f64
        });
        let worst = self.worst_that_fits(&course);
        Ok(Found::Rebuild(Rebuild { worst, before, after, left, rebuilt }, course))
    }

    /// Minimums that fit, drawn anew every 15 s.
    fn changes(&self) -> Result<Found> {
        let mut rng = Rng::with_seed(self.seed);
        let vms = self.qos.published.vms;
        let units = self.units_per_s() as u64;
        let steps = (0..CHANGES).map(|change| {
            let mut policies = vec![FREE; vms];
            // Three of them, of a fortieth to a tenth of what all can do.
            for _ in 0..3 {
                policies[rng.usize(..vms)] = minimum(rng.u64(units / 40..=units / 10).max(1));
            }
            step(&format!("{}", change + 1), policies, Duration::from_secs(15))
        });
        let steps: Vec<Step> = steps.collect();
        let loads = vec![Load::published(self.qos); vms];
        let course =
            self.play(self.bed, &script("changes", "Policies change under load", loads, steps), Form::Array)?;
        Ok(Found::Changes(self.worst_that_fits(&course), CHANGES, course))
    }

    /// A thousand LUs with one random read of 4 KiB each, a hundred of them promised three times an even
    /// part.
    fn thousand(&self) -> Result<Found> {
        let shape = Shape { volumes: LUS, volume_bytes: 64 << 20, others_bytes: 0, has_spare: false };
        let bed = bed::make(self.qos, shape, self.seed)?;
        let policies = |lu: usize| if lu < LUS / 10 { minimum(LU_IOPS) } else { FREE };
        let steps = vec![step("all", (0..LUS).map(policies).collect(), PHASE)];
        let loads = vec![load(4 * KIB, 100, 100, 1); LUS];
        let course = self.play(&bed, &script("thousand", "A thousand LUs", loads, steps), Form::Array)?;
        let view = judge::view(self.qos, self.capacity, &course);
        let (reserved, free) = view.phases[0].vms.split_at(LUS / 10);
        let io_bytes_per_s = 4.0 * KIB as f64 / self.qos.run.window.0.as_secs_f64();
        let worst = reserved
            .iter()
            .map(|vm| (vm.worst + io_bytes_per_s) / vm.rates.minimum)
            .fold(f64::INFINITY, f64::min);
        let mean = free.iter().map(|vm| vm.mean).sum::<f64>() / free.len() as f64;
        let spread = free.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), vm| {
            (low.min(vm.mean / mean), high.max(vm.mean / mean))
        });
        Ok(Found::Thousand(Thousand { worst, spread, iops: view.phases[0].sum / (4 * KIB) as f64 }))
    }
}

/// One read takes about 6 ms: at 120 per second it works most of the time.
const RESERVED_IOPS: u64 = 120;
const CHANGES: usize = 12;
/// What VMs are promised of all that the array can do, while its rebuild is promised half.
const REBUILD_PROMISED: f64 = 0.4;
const LUS: usize = 1000;
/// Ten drives do about 2,000 random reads per second with many in flight.
const LU_IOPS: u64 = 6;

impl Neighbour {
    /// How much longer its 99th percentile is beside the neighbour: two periods that have nothing to do with
    /// each other.
    pub(super) fn more_ns(&self) -> Estimate {
        let (beside, alone) = (self.beside_p99_ns, self.alone_p99_ns);
        let half = |e: Estimate| e.high - e.mean;
        let (mean, half) = (beside.mean - alone.mean, half(beside).hypot(half(alone)));
        Estimate { mean, low: mean - half, high: mean + half }
    }
}

/// Mean and 99th percentile of the first VM, from when the change had settled on; the percentile is that of
/// all, with the interval that those of the windows give it.
fn latency(qos: &Qos, course: &Course) -> (u64, Estimate) {
    let from = course.phases[0].from_ns + qos.run.settle.0.as_nanos() as u64;
    let window = qos.run.window.0.as_nanos() as u64;
    let own: Vec<&Done> = course.done[0].iter().filter(|d| d.at_ns > from).collect();
    let mean = own.iter().map(|d| d.took_ns).sum::<u64>() / own.len().max(1) as u64;
    let of_window = |window_of: &[&Done]| percentile_99(window_of.iter().map(|d| d.took_ns).collect());
    let windows = own.chunk_by(|a, b| (a.at_ns - from) / window == (b.at_ns - from) / window);
    let windows: Vec<f64> = windows.map(of_window).collect();
    (mean, judge::sampled(of_window(&own), &windows))
}

fn percentile_99(mut all: Vec<u64>) -> f64 {
    all.sort_unstable();
    all.get(all.len() * 99 / 100).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two percentiles of one run each were compared as if they had been counted.
    #[test]
    fn a_percentile_beside_a_neighbour_has_an_interval() {
        let p99 = |mean: f64, half: f64| Estimate { mean, low: mean - half, high: mean + half };
        let neighbour = |half: f64| Neighbour {
            alone_p99_ns: p99(16.0, 3.0 * half),
            beside_p99_ns: p99(20.0, 4.0 * half),
            free_p99_ns: 12.0,
            service_ns: 7,
            neighbour_iops: 100.0,
        };
        let more = neighbour(0.1).more_ns();
        assert!((more.low - 3.5).abs() < 1e-9 && (more.high - 4.5).abs() < 1e-9, "{more:?}");
        assert!(neighbour(1.0).more_ns().high > 7.0, "the bound is within");
        assert_eq!((percentile_99((1..=200).collect()), percentile_99(vec![])), (199.0, 0.0));
    }
}
