//! What was promised against what was seen: windows, water-filling, what the array can do. Pure.

use ::qos::{Claim, Policy, expected};

use super::play::{Course, Look, Played};
use super::scenario::Qos;
use super::vm::Done;

/// Between two sliding windows.
const STEP_NS: u64 = 50_000_000;
/// The worst of a hundred windows counts, not the worst of all.
const WORST_SHARE: f64 = 0.01;
const SECOND_NS: f64 = 1e9;

/// What the array does with 1, 2, … VMs that have one write outstanding each; bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Capacity(pub(super) Vec<f64>);

impl Capacity {
    /// Between whole numbers in proportion.
    fn at(&self, vms: f64) -> f64 {
        let below = (vms.floor() as usize).min(self.0.len());
        let of = |n: usize| if n == 0 { 0.0 } else { self.0[n.min(self.0.len()) - 1] };
        of(below) + (of(below + 1) - of(below)) * (vms - below as f64).clamp(0.0, 1.0)
    }

    /// With all VMs.
    pub(super) fn all(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }

    /// So many at once leave each the largest minimum: C(k)/k ≥ r (science.md, queue depth), with minimums
    /// that do not fit scaled down.
    pub(super) fn depth_for(&self, policies: &[Rates]) -> usize {
        let most = policies.iter().map(|p| p.minimum).fold(0.0, f64::max);
        let all: f64 = policies.iter().map(|p| p.minimum).sum();
        let fits = |k: &usize| {
            let capacity = self.at(*k as f64);
            let scale = if all > capacity { capacity / all } else { 1.0 };
            // Rounding of the measured curve is no reason to go one lower.
            capacity / *k as f64 * 1.005 >= most * scale
        };
        (1..=self.0.len()).rev().find(fits).unwrap_or(1)
    }

    /// What the array can do for these: the VMs below their maximum keep one write in flight, those at it
    /// less; and no more are in flight than leave the minimums.
    pub(super) fn can_do(&self, policies: &[Rates]) -> f64 {
        let mut in_flight = policies.len() as f64;
        for _ in 0..100 {
            let each = self.at(in_flight) / in_flight.max(1e-9);
            let wanted: f64 = policies.iter().map(|p| (p.maximum / each).min(1.0)).sum();
            in_flight = (in_flight + wanted) / 2.0;
        }
        let at_once = in_flight.min(self.depth_for(policies) as f64);
        self.at(at_once).min(policies.iter().map(|p| p.maximum).sum())
    }
}

/// A policy in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) minimum: f64,
    /// Infinite: none.
    pub(super) maximum: f64,
}

impl Rates {
    /// For I/Os of this size: a small one counts as a unit, too.
    pub(super) fn of(policy: &Policy, unit_bytes: u64, io_bytes: u64) -> Rates {
        let bytes = |units: u64| (units * unit_bytes.min(io_bytes)) as f64;
        Rates {
            minimum: bytes(policy.minimum_iops),
            maximum: policy.maximum_iops.map_or(f64::INFINITY, bytes),
        }
    }
}

/// A VM in a phase. Bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct VmView {
    pub(super) rates: Rates,
    /// From when the change had settled to the end.
    pub(super) mean: f64,
    /// Of the worst of a hundred sliding windows.
    pub(super) worst: f64,
    /// How many I/Os more than its maximum the fullest window has.
    pub(super) over_ios: f64,
    /// By water-filling, with what all got together.
    pub(super) expected: f64,
}

#[derive(Clone, Debug)]
pub(super) struct PhaseView {
    pub(super) name: String,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) vms: Vec<VmView>,
    /// What all got together.
    pub(super) sum: f64,
    pub(super) can_do: f64,
    /// Whether the minimums fit into that.
    pub(super) feasible: bool,
    /// Of the schedulers, on average.
    pub(super) depth: f64,
    /// The least.
    pub(super) scale_permille: u32,
    /// From the change to when the first and the last VM with a minimum was said to miss it, seconds.
    pub(super) told: Option<(f64, f64)>,
}

impl PhaseView {
    /// Of VMs with a minimum that fits: the worst window, as a share of the minimum.
    pub(super) fn worst_of_minimum(&self) -> Option<f64> {
        let with = self.vms.iter().filter(|vm| vm.rates.minimum > 0.0 && self.feasible);
        with.map(|vm| vm.worst / vm.rates.minimum).min_by(f64::total_cmp)
    }

    /// Of VMs with a maximum: I/Os over it in the fullest window.
    pub(super) fn over_maximum(&self) -> Option<f64> {
        let with = self.vms.iter().filter(|vm| vm.rates.maximum.is_finite());
        with.map(|vm| vm.over_ios).max_by(f64::total_cmp)
    }

    /// How far the farthest VM is from its rate by water-filling, as a share of it; what one I/O per window
    /// makes is left out.
    pub(super) fn off_expected(&self, io_bytes_per_s: f64) -> f64 {
        let off = |vm: &VmView| {
            let far = ((vm.mean - vm.expected).abs() - io_bytes_per_s).max(0.0);
            if vm.expected > 0.0 { far / vm.expected } else { far / io_bytes_per_s }
        };
        self.vms.iter().map(off).fold(0.0, f64::max)
    }

    /// How far the farthest VM is from an even part, as a share of it.
    pub(super) fn off_even(&self) -> f64 {
        let even = self.sum / self.vms.len() as f64;
        self.vms.iter().map(|vm| (vm.mean / even - 1.0).abs()).fold(0.0, f64::max)
    }

    pub(super) fn has_minimum(&self) -> bool {
        self.vms.iter().any(|vm| vm.rates.minimum > 0.0)
    }
}

/// A course, phase by phase.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) course: &'a Course,
    pub(super) phases: Vec<PhaseView>,
}

/// Looks at a course.
pub(super) fn view<'a>(qos: &Qos, capacity: &Capacity, course: &'a Course) -> View<'a> {
    View {
        course,
        phases: course.phases.iter().map(|phase| phase_view(qos, capacity, course, phase)).collect(),
    }
}

fn phase_view(qos: &Qos, capacity: &Capacity, course: &Course, phase: &Played) -> PhaseView {
    let unit = qos.published.unit.0;
    let settled = phase.from_ns + qos.run.settle.0.as_nanos() as u64;
    let window = qos.run.window.0.as_nanos() as u64;
    let both = phase.policies.iter().zip(&course.io_bytes);
    let rates: Vec<Rates> = both.map(|(policy, io)| Rates::of(policy, unit, *io)).collect();
    let means: Vec<f64> = course.done.iter().map(|done| mean(done, settled, phase.to_ns)).collect();
    let sum: f64 = means.iter().sum();
    let can_do = capacity.can_do(&rates);
    let claim = |policy: &Policy| Claim {
        minimum: policy.minimum_iops,
        maximum: policy.maximum_iops,
        weight: u64::from(policy.weight),
        demand: None,
    };
    let claims: Vec<Claim> = phase.policies.iter().map(claim).collect();
    let filled = expected((sum / unit as f64) as u64, &claims);
    let vm = |number: usize| {
        let done = &course.done[number];
        let windows = windows(done, settled, phase.to_ns, window);
        // What was sent before the change is below already.
        let bounded = self::windows(done, phase.from_ns + STEP_NS, phase.to_ns, window);
        let allowed = rates[number].maximum * window as f64 / SECOND_NS;
        let most = bounded.iter().copied().max().unwrap_or_default() as f64;
        VmView {
            rates: rates[number],
            mean: means[number],
            worst: worst(windows) * SECOND_NS / window as f64,
            over_ios: (most - allowed) / course.io_bytes[number] as f64,
            expected: filled.rates[number] as f64 * unit as f64,
        }
    };
    let looks: Vec<&Look> =
        course.looks.iter().filter(|l| l.at_ns > settled && l.at_ns <= phase.to_ns).collect();
    PhaseView {
        name: phase.name.clone(),
        from_s: phase.from_ns as f64 / SECOND_NS,
        to_s: phase.to_ns as f64 / SECOND_NS,
        vms: (0..course.done.len()).map(vm).collect(),
        sum,
        can_do,
        feasible: rates.iter().map(|r| r.minimum).sum::<f64>() <= can_do,
        depth: looks.iter().map(|l| f64::from(l.depth)).sum::<f64>() / looks.len().max(1) as f64,
        scale_permille: looks.iter().map(|l| l.scale_permille).min().unwrap_or(1000),
        told: told(course, phase),
    }
}

fn told(course: &Course, phase: &Played) -> Option<(f64, f64)> {
    let within =
        course.news.iter().filter(|n| (phase.from_ns..=phase.to_ns).contains(&n.at_ns) && n.is_below);
    let seconds = within.map(|news| (news.at_ns - phase.from_ns) as f64 / SECOND_NS);
    seconds.fold(None, |told, s| Some(told.map_or((s, s), |(a, b): (f64, f64)| (a.min(s), b.max(s)))))
}

/// Bytes per second that ended from here to there. What ends at the very moment of a change ends after it: a
/// cache answers in no time.
fn mean(done: &[Done], from_ns: u64, to_ns: u64) -> f64 {
    bytes(done, from_ns, to_ns) as f64 * SECOND_NS / (to_ns - from_ns).max(1) as f64
}

fn bytes(done: &[Done], from_ns: u64, to_ns: u64) -> u64 {
    let at = |ns: u64| done.partition_point(|d| d.at_ns < ns);
    done[at(from_ns)..at(to_ns).max(at(from_ns))].iter().map(|d| d.bytes).sum()
}

/// Bytes that ended in each sliding window.
fn windows(done: &[Done], from_ns: u64, to_ns: u64, window_ns: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let (mut first, mut end, mut sum) = (done.partition_point(|d| d.at_ns < from_ns), 0, 0);
    end = end.max(first);
    let mut from = from_ns;
    while from + window_ns <= to_ns {
        while let Some(d) = done.get(end).filter(|d| d.at_ns < from + window_ns) {
            sum += d.bytes;
            end += 1;
        }
        while let Some(d) = done.get(first).filter(|d| d.at_ns < from) {
            sum -= d.bytes;
            first += 1;
        }
        out.push(sum);
        from += STEP_NS;
    }
    out
}

fn worst(mut windows: Vec<u64>) -> f64 {
    windows.sort_unstable();
    let at = (windows.len() as f64 * WORST_SHARE) as usize;
    windows.get(at).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn rates(minimum: f64, maximum: f64) -> Rates {
        Rates { minimum, maximum }
    }

    #[test]
    fn windows_slide_and_the_worst_is_found() {
        // One byte each 100 ms, and nothing from second 10 to second 12.
        let times = (1..=200u64).map(|n| n * S / 10).filter(|t| !(10 * S..12 * S).contains(t));
        let done: Vec<Done> = times.map(|at_ns| Done { at_ns, took_ns: 1, bytes: 1 }).collect();
        let all = windows(&done, 0, 20 * S, 5 * S);
        assert_eq!((all[0], all.iter().min(), all.iter().max()), (49, Some(&30), Some(&50)));
        assert_eq!(worst(all), 30.0);
        assert!((mean(&done, 0, 20 * S + 1) - 9.0).abs() < 1e-6);
        // What ends as the change comes is not counted before it.
        assert_eq!((bytes(&done, 0, S), bytes(&done, S, 2 * S)), (9, 10));
        assert!(windows(&done, 0, 4 * S, 5 * S).is_empty());
    }

    #[test]
    fn what_the_array_can_do_follows_the_load() {
        let capacity = Capacity(vec![50.0, 80.0, 100.0, 110.0]);
        let free = rates(0.0, f64::INFINITY);
        assert_eq!(capacity.can_do(&[free; 4]), 110.0);
        assert_eq!(capacity.can_do(&[rates(0.0, 5.0); 4]), 20.0);
        // C(3)/3 = 33.3 and C(4)/4 = 27.5: three at once leave 30 to each.
        assert_eq!(capacity.depth_for(&[rates(30.0, f64::INFINITY), free, free, free]), 3);
        assert_eq!(capacity.can_do(&[rates(30.0, f64::INFINITY), free, free, free]), 100.0);
        // 160 do not fit into 110: all are scaled alike, and four at once give that.
        assert_eq!(capacity.depth_for(&[rates(40.0, f64::INFINITY); 4]), 4);
        // Two that are limited to little leave about two in flight.
        let two = capacity.can_do(&[free, free, rates(0.0, 1.0), rates(0.0, 1.0)]);
        assert!((80.0..82.0).contains(&two), "{two}");
    }
}
