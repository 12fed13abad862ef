//! What was promised against what was seen: windows, water-filling, what the array can do. Pure.

use std::ops::RangeInclusive;

use super::capacity::Capacity;
use super::phases::Form;
use super::play::{Course, Look, News, Played};
use super::reach::{Fit, KEPT, Rates, Reach, Short};
use super::scenario::Qos;
use super::vm::Done;
use super::windows::{STEP_NS, WORST_SHARE, windows, worst};
use lab_core::stats::{Estimate, farthest, mean_of_windows};

const SECOND_NS: f64 = 1e9;

/// A maximum limits a VM that has so much of it: windows are not all alike.
const IN_FORCE: f64 = 0.95;

/// A VM in a phase. Bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct VmView {
    pub(super) rates: Rates,
    /// From when the change had settled to the end.
    pub(super) mean: f64,
    /// Of the worst of a hundred sliding windows.
    pub(super) worst: f64,
    /// How many I/Os more than its maximum the fullest window has; none: the phase has no whole window.
    pub(super) over_ios: Option<f64>,
    /// By water-filling, with what all got together.
    pub(super) expected: f64,
    /// How much more than that it has, with the interval of the windows that follow one another, of each what
    /// is beyond one I/O: the one across a border is no difference.
    pub(super) off: Estimate,
    /// The same, with what the array can do, in a bad and in a good time of it.
    pub(super) due: Estimate,
    /// From the change to when its minimum is kept; none: it has none, or is not kept at all.
    pub(super) settled_s: Option<f64>,
    /// From the change to when it was first said to miss its minimum, seconds.
    pub(super) told_s: Option<f64>,
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
    /// The interval in which that lies over a period as long as the phase.
    pub(super) can_do_between: Estimate,
    /// The same, if there were no maximums.
    pub(super) can_do_unlimited: Estimate,
    /// Of each VM, bytes per second in windows that follow one another.
    pub(super) windows: Vec<Vec<f64>>,
    /// Whether hosts or their store were not as they should be.
    pub(super) has_fault: bool,
    /// Whether the minimums can be kept.
    pub(super) fit: Fit,
    /// VMs that have too few in flight for what they would get else.
    pub(super) short: Option<Short>,
    /// Of the schedulers, on average.
    pub(super) depth: f64,
    /// The least.
    pub(super) scale_permille: u32,
}

impl PhaseView {
    pub(super) fn fits(&self) -> bool {
        self.fit == Fit::Fits
    }

    fn promised(&self) -> impl Iterator<Item = &VmView> {
        self.vms.iter().filter(|vm| vm.rates.minimum > 0.0 && self.fits())
    }

    /// What was promised to all VMs together, and what of that came: what one VM gets beyond its minimum
    /// does not make up for another's.
    pub(super) fn minimums(&self) -> (f64, f64) {
        let both = |vm: &VmView| (vm.rates.minimum, vm.mean.min(vm.rates.minimum));
        self.vms.iter().map(both).fold((0.0, 0.0), |(all, got), (minimum, came)| (all + minimum, got + came))
    }

    /// Of VMs with a minimum that fits: the worst window, as a share of the minimum.
    pub(super) fn worst_of_minimum(&self) -> Option<f64> {
        self.promised().map(|vm| vm.worst / vm.rates.minimum).min_by(f64::total_cmp)
    }

    /// From the change to when the last of the minimums that fit is kept; infinite: one never is.
    pub(super) fn settled_s(&self) -> Option<f64> {
        self.promised().map(|vm| vm.settled_s.unwrap_or(f64::INFINITY)).max_by(f64::total_cmp)
    }

    /// Of VMs with a maximum: I/Os over it in the fullest window.
    pub(super) fn over_maximum(&self) -> Option<f64> {
        let with = self.vms.iter().filter(|vm| vm.rates.maximum.is_finite());
        with.filter_map(|vm| vm.over_ios).max_by(f64::total_cmp)
    }

    /// Whether the formula gives a VM as much as its maximum: one that is out of reach limits nothing, and is
    /// kept by a scheduler that knows of none.
    pub(super) fn has_maximum_in_force(&self) -> bool {
        self.vms.iter().any(|vm| vm.expected >= IN_FORCE * vm.rates.maximum)
    }

    /// How far the farthest VM is from its rate by water-filling, as a share of it, with the interval in
    /// which the farthest of all lies; what one I/O per window makes is left out.
    pub(super) fn off_expected(&self, io_bytes_per_s: f64) -> Option<Estimate> {
        let off = |vm: &VmView| {
            let share = |far: f64| {
                let far = (far - io_bytes_per_s).max(0.0);
                if vm.expected > 0.0 { far / vm.expected } else { far / io_bytes_per_s }
            };
            let Estimate { low, mean, high } = size(vm.off);
            Estimate { low: share(low), mean: share(mean), high: share(high) }
        };
        let all: Vec<Estimate> = self.vms.iter().map(off).collect();
        Some(farthest(&all, 0.0)?.1)
    }

    /// The VM that gets least of what is due to it by water-filling of what the array can do, as a share;
    /// what one I/O per window makes is left out. What high minimums leave is a small part of what the array
    /// can do, and all of its uncertainty falls on that.
    pub(super) fn least_of_due(&self, io_bytes_per_s: f64) -> Option<Estimate> {
        let least = |due: fn(&VmView) -> f64| {
            let share = |vm: &VmView| match vm.mean {
                0.0 => 0.0,
                mean => (mean + io_bytes_per_s).min(due(vm).max(mean)) / due(vm),
            };
            self.vms.iter().filter(|vm| due(vm) > 0.0).map(share).min_by(f64::total_cmp)
        };
        let (low, mean) = (least(|vm| vm.due.high)?, least(|vm| vm.due.mean)?);
        // Nothing is due in a bad time: nobody lacks anything then.
        Some(Estimate { low, mean, high: least(|vm| vm.due.low).unwrap_or(1.0).max(mean) })
    }

    /// What some VMs have together on average, with the interval of the windows that follow one another: so
    /// many more seconds would have given another mean.
    pub(super) fn together(&self, which: impl Fn(usize) -> bool) -> Estimate {
        let own = || (0..self.vms.len()).filter(|vm| which(*vm));
        let mean: f64 = own().map(|vm| self.vms[vm].mean).sum();
        let count = own().filter_map(|vm| self.windows.get(vm)).map(Vec::len).min().unwrap_or(0);
        let sums: Vec<f64> = (0..count).map(|at| own().map(|vm| self.windows[vm][at]).sum()).collect();
        sampled(mean, &sums)
    }

    /// What all got together of what the array can do in such a time, as a share.
    pub(super) fn of_can_do(&self) -> Estimate {
        let Estimate { low, high, .. } = self.can_do_between;
        Estimate { mean: self.sum / self.can_do, low: self.sum / high, high: self.sum / low }
    }

    /// What of the array is unused that VMs without maximums would use, as a share.
    pub(super) fn unused(&self) -> Estimate {
        let Estimate { low, mean, high } = self.can_do_unlimited;
        let of = |can_do: f64| 1.0 - self.sum / can_do;
        Estimate { mean: of(mean), low: of(low), high: of(high) }
    }

    /// How far the farthest VM is from an even part, as a share of it, with the interval in which the
    /// farthest of all lies.
    pub(super) fn off_even(&self) -> Option<Estimate> {
        let even = self.sum / self.vms.len() as f64;
        let count = self.windows.iter().map(Vec::len).min().unwrap_or(0);
        let middle =
            |at: usize| self.windows.iter().map(|vm| vm[at]).sum::<f64>() / self.windows.len() as f64;
        let off = |(number, vm): (usize, &VmView)| {
            let more: Vec<f64> = (0..count).map(|at| self.windows[number][at] - middle(at)).collect();
            size(sampled(vm.mean - even, &more).scaled(1.0 / even))
        };
        let all: Vec<Estimate> = self.vms.iter().enumerate().map(off).collect();
        Some(farthest(&all, 0.0)?.1)
    }

    /// VMs that have less than so many percent of their minimum.
    pub(super) fn missed(&self, percent: f64) -> impl Iterator<Item = &VmView> {
        let misses =
            move |vm: &&VmView| vm.rates.minimum > 0.0 && 100.0 * vm.mean < percent * vm.rates.minimum;
        self.vms.iter().filter(misses)
    }

    /// From the change to when the last of all VMs that were said to miss their minimum was.
    pub(super) fn last_told_s(&self) -> Option<f64> {
        self.vms.iter().filter_map(|vm| vm.told_s).max_by(f64::total_cmp)
    }

    pub(super) fn has_minimum(&self) -> bool {
        self.vms.iter().any(|vm| vm.rates.minimum > 0.0)
    }
}

/// The mean of a phase with the interval of its windows, which leave out a rest; fewer than two have none.
pub(super) fn sampled(mean: f64, windows: &[f64]) -> Estimate {
    let half = match windows.len() {
        0 | 1 => f64::INFINITY,
        _ => {
            let all = mean_of_windows(windows);
            all.high - all.mean
        }
    };
    Estimate { mean, low: mean - half, high: mean + half }
}

/// Of each VM in each window how much more it has than water-filling makes of the window, beyond what one I/O
/// makes that ends in the next one.
fn apart(windows: &[Vec<f64>], reach: &Reach<'_>, io_bytes_per_s: f64) -> Vec<Vec<f64>> {
    let count = windows.iter().map(Vec::len).min().unwrap_or(0);
    let mut out = vec![Vec::with_capacity(count); windows.len()];
    for at in 0..count {
        let filled = reach.expected(windows.iter().map(|vm| vm[at]).sum());
        for ((own, vm), filled) in out.iter_mut().zip(windows).zip(filled) {
            own.push(beyond(vm[at] - filled, io_bytes_per_s));
        }
    }
    out
}

/// What of a difference is beyond so much, whichever way.
fn beyond(difference: f64, allowed: f64) -> f64 {
    difference.signum() * (difference.abs() - allowed).max(0.0)
}

/// How large a difference is, whichever way.
fn size(difference: Estimate) -> Estimate {
    let Estimate { low, mean, high } = difference;
    let least = if low <= 0.0 && high >= 0.0 { 0.0 } else { low.abs().min(high.abs()) };
    Estimate { low: least, mean: mean.abs(), high: low.abs().max(high.abs()) }
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
    // A host that is not there gives its share back within its lease.
    let lease_ns = if phase.nodes.all().next().is_some() { share::LEASE.as_nanos() as u64 } else { 0 };
    let settled = phase.from_ns + qos.run.settle.0.as_nanos() as u64 + lease_ns;
    let window = qos.run.window.0.as_nanos() as u64;
    let rates: Vec<Rates> = (0..course.loads.len())
        .map(|vm| Rates::of(qos, &phase.policies[vm], &course.loads[vm], phase.still[vm]))
        .collect();
    let means: Vec<f64> = course.done.iter().map(|done| mean(done, settled, phase.to_ns)).collect();
    let sum: f64 = means.iter().sum();
    let reach = Reach::new(capacity, &rates, qos.array.depth);
    let can_do = reach.can_do();
    let unlimited: Vec<Rates> = rates.iter().map(|r| Rates { maximum: f64::INFINITY, ..*r }).collect();
    // What the array can do was measured in another period.
    let seconds = phase.to_ns.saturating_sub(settled).max(1) as f64 / SECOND_NS;
    let can_do_between = reach.can_do_between(seconds);
    let filled = reach.expected(sum);
    let windows_of: Vec<Vec<f64>> =
        course.done.iter().map(|done| following(done, settled, phase.to_ns, window)).collect();
    let apart = apart(&windows_of, &reach, qos.published.transfer.0 as f64 / qos.run.window.0.as_secs_f64());
    let [low, due, high] = [can_do_between.low, can_do, can_do_between.high].map(|sum| reach.expected(sum));
    // What was sent before the change is below already.
    let below: f64 = course.loads.iter().map(|load| f64::from(load.outstanding)).sum();
    // Hosts see only their own: all of it may be at the array.
    let at_most = if course.form == Form::Array { f64::from(qos.array.depth) } else { f64::INFINITY };
    let below_bytes = below.min(at_most) * qos.published.transfer.0 as f64;
    let drained_ns = (below_bytes / capacity.all().max(1.0) * SECOND_NS) as u64;
    let vm = |number: usize| {
        let (done, rates) = (&course.done[number], rates[number]);
        let of_phase = windows(done, settled, phase.to_ns, window);
        let bounded = windows(done, phase.from_ns + drained_ns.max(STEP_NS), phase.to_ns, window);
        let allowed = rates.maximum * window as f64 / SECOND_NS;
        let over = |most: u64| (most as f64 - allowed) / course.loads[number].access.size as f64;
        let needed = KEPT * rates.minimum * window as f64 / SECOND_NS;
        VmView {
            rates,
            mean: means[number],
            worst: worst(of_phase) * SECOND_NS / window as f64,
            over_ios: bounded.into_iter().max().map(over),
            expected: filled[number],
            off: sampled(means[number] - filled[number], &apart[number]),
            due: Estimate { low: low[number], mean: due[number], high: high[number] },
            settled_s: settles(&windows(done, phase.from_ns, phase.to_ns, window), needed),
            told_s: told_s(&course.news, phase.from_ns..=phase.to_ns, number),
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
        can_do_between,
        can_do_unlimited: Reach::new(capacity, &unlimited, qos.array.depth).can_do_between(seconds),
        windows: windows_of,
        has_fault: phase.has_fault(),
        fit: reach.fit(),
        short: reach.short(),
        depth: looks.iter().map(|l| f64::from(l.depth)).sum::<f64>() / looks.len().max(1) as f64,
        scale_permille: looks.iter().map(|l| l.scale_permille).min().unwrap_or(1000),
    }
}

/// Bytes per second in windows that follow one another.
pub(super) fn following(done: &[Done], from_ns: u64, to_ns: u64, window_ns: u64) -> Vec<f64> {
    let all = windows(done, from_ns, to_ns, window_ns).into_iter();
    all.step_by((window_ns / STEP_NS).max(1) as usize)
        .map(|bytes| bytes as f64 * SECOND_NS / window_ns as f64)
        .collect()
}

/// From which window on at most one of a hundred has less than is needed, in seconds; none: never.
pub(super) fn settles(windows: &[u64], needed: f64) -> Option<f64> {
    let (mut short, mut settled) = (0, None);
    for (place, bytes) in windows.iter().enumerate().rev() {
        short += usize::from((*bytes as f64) < needed);
        let judged = windows.len() - place;
        if short as f64 <= judged as f64 * WORST_SHARE {
            settled = Some(place);
        }
    }
    settled.map(|place| place as f64 * STEP_NS as f64 / SECOND_NS)
}

/// From the beginning of a time to when a VM was first said to miss its minimum in it.
fn told_s(news: &[News], time: RangeInclusive<u64>, vm: usize) -> Option<f64> {
    let first = news.iter().find(|n| n.vm == vm && n.is_below && time.contains(&n.at_ns))?;
    Some((first.at_ns - time.start()) as f64 / SECOND_NS)
}

/// Bytes per second that ended from here to there. What ends at the very moment of a change ends after it: a
/// cache answers in no time.
fn mean(done: &[Done], from_ns: u64, to_ns: u64) -> f64 {
    bytes(done, from_ns, to_ns) as f64 * SECOND_NS / (to_ns - from_ns).max(1) as f64
}

pub(super) fn bytes(done: &[Done], from_ns: u64, to_ns: u64) -> u64 {
    let at = |ns: u64| done.partition_point(|d| d.at_ns < ns);
    done[at(from_ns)..at(to_ns).max(at(from_ns))].iter().map(|d| d.bytes).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

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

    pub(crate) fn vm(mean: f64, due: Estimate) -> VmView {
        VmView {
            rates: Rates { minimum: 0.0, maximum: f64::INFINITY, weight: 100, outstanding: 1.0, charge: 1.0 },
            mean,
            worst: 0.0,
            over_ios: None,
            expected: due.mean,
            off: Estimate::exact(mean - due.mean),
            due,
            settled_s: None,
            told_s: None,
        }
    }

    /// Of an array that does 100, and is known to 1 %.
    pub(crate) fn phase(vms: Vec<VmView>) -> PhaseView {
        PhaseView {
            name: "phase".into(),
            from_s: 0.0,
            to_s: 30.0,
            vms,
            sum: 100.0,
            can_do: 100.0,
            can_do_between: Estimate { low: 99.0, mean: 100.0, high: 101.0 },
            can_do_unlimited: Estimate { low: 99.0, mean: 100.0, high: 101.0 },
            windows: vec![],
            has_fault: false,
            fit: Fit::Fits,
            short: None,
            depth: 1.0,
            scale_permille: 1000,
        }
    }

    #[test]
    fn what_a_vm_gets_beyond_its_minimum_makes_up_for_no_other() {
        let promised = |minimum: f64, mean: f64| {
            let vm = vm(mean, Estimate::exact(mean));
            VmView { rates: Rates { minimum, ..vm.rates }, ..vm }
        };
        let phase = phase(vec![promised(10.0, 25.0), promised(10.0, 5.0), promised(0.0, 70.0)]);
        assert_eq!(phase.minimums(), (20.0, 15.0));
    }

    /// 5 % of an array that is known to 1 %: 4 to 6.
    #[test]
    fn a_small_remainder_decides_nothing_that_the_array_itself_leaves_open() {
        let promised = vm(95.0, Estimate::exact(95.0));
        let due = Estimate { low: 4.0, mean: 5.0, high: 6.0 };
        let least = |got: f64| phase(vec![promised, vm(got, due)]).least_of_due(0.0).expect("due");
        assert_eq!(least(4.5), Estimate { low: 0.75, mean: 0.9, high: 1.0 });
        assert!(least(3.0).high < 0.95, "surely short: {:?}", least(3.0));
        assert_eq!(
            least(0.0),
            Estimate::exact(0.0),
            "one that gets nothing is short whatever the array does"
        );
    }

    #[test]
    fn what_was_sampled_has_an_interval() {
        // 5, 15 and 10 of 5 s each, from one to the next.
        let times = [1, 6, 7, 8, 11, 12].map(|s| s * S);
        let done = times.map(|at_ns| Done { at_ns, took_ns: 1, bytes: 25 });
        assert_eq!(following(&done, 0, 15 * S, 5 * S), [5.0, 15.0, 10.0]);
        assert_eq!(following(&done, 0, 4 * S, 5 * S), [] as [f64; 0]);
        let vms = vec![vm(10.0, Estimate::exact(10.0)), vm(50.0, Estimate::exact(50.0))];
        let phase =
            PhaseView { sum: 96.0, windows: vec![vec![5.0, 15.0, 10.0], vec![50.0; 3]], ..phase(vms) };
        let (first, both) = (phase.together(|vm| vm == 0), phase.together(|_| true));
        // t(0.975, 2) = 4.3027, by 5 over the square root of 3.
        assert!((first.mean, first.high.round()) == (10.0, 22.0), "{first:?}");
        assert!(both.mean == 60.0 && (both.high - first.high - 50.0).abs() < 1e-9, "{both:?}");
        assert!(phase.together(|vm| vm == 7).high.is_infinite(), "of nothing");
        // An array that is known to 1 %: 96 are 95.05 to 96.97 % of it.
        let (of, unused) = (phase.of_can_do(), phase.unused());
        assert!(of.low < 0.951 && of.high > 0.969 && (of.mean - 0.96).abs() < 1e-12, "{of:?}");
        assert!(unused.low < 0.031 && unused.high > 0.049, "{unused:?}");
    }

    /// How far the farthest was from its rate counted as exact, however few windows said so.
    #[test]
    fn how_far_a_vm_is_from_its_rate_has_the_interval_of_its_windows() {
        let off = |windows: &[f64]| {
            let off = sampled(1.0, windows);
            phase(vec![VmView { off, ..vm(11.0, Estimate::exact(10.0)) }]).off_expected(0.0).expect("a VM")
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-3;
        let steady = off(&[1.0; 4]);
        assert!(close(steady.low, 0.1) && close(steady.high, 0.1), "{steady:?}");
        // 1 ± 4.303 · 1 / sqrt(3) of 10.
        let varied = off(&[1.0, 0.0, 2.0]);
        assert!(varied.low == 0.0 && close(varied.mean, 0.1) && close(varied.high, 0.3484), "{varied:?}");
        assert!(off(&[1.0]).high.is_infinite(), "one window decides nothing");
        assert_eq!([3.0, 1.0, 0.0, -0.5, -2.5].map(|of| beyond(of, 1.0)), [2.0, 0.0, 0.0, 0.0, -1.5]);
        // 10.5 and 9.5 of 10; the windows of both lie on both sides.
        let both = [vm(10.5, Estimate::exact(10.0)), vm(9.5, Estimate::exact(10.0))];
        let even =
            |windows| PhaseView { sum: 20.0, windows, ..phase(both.to_vec()) }.off_even().expect("VMs");
        let steady = even(vec![vec![10.5; 3], vec![9.5; 3]]);
        assert!(close(steady.low, 0.05) && close(steady.high, 0.05), "{steady:?}");
        let varied = even(vec![vec![10.5, 9.5, 11.5], vec![9.5, 10.5, 8.5]]);
        assert!(varied.low == 0.0 && varied.high > 0.2, "{varied:?}");
    }

    #[test]
    fn each_vm_is_told_of_by_itself() {
        let said = |at_ns, vm, is_below| News { at_ns, vm, is_below };
        let news = [said(S, 1, true), said(12 * S, 0, true), said(13 * S, 1, false), said(14 * S, 0, true)];
        let told = |vm| told_s(&news, 10 * S..=20 * S, vm);
        assert_eq!((told(0), told(1), told(2)), (Some(2.0), None, None));
    }

    #[test]
    fn it_settles_when_the_rest_is_kept() {
        let windows: Vec<u64> = (0..400).map(|n| if n < 40 { 5 } else { 10 }).collect();
        // Three of the last 363 may be short.
        assert_eq!(settles(&windows, 9.0), Some(37.0 * 0.05));
        assert_eq!((settles(&windows, 11.0), settles(&[], 1.0)), (None, None));
    }
}
