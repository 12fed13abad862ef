//! What a set received against the closed formula.

use array::config::Policy;
use array::status::PoolScheduler;
use qos::{Claim, DEPTH_MAX_DEFAULT, FLOOR_PERCENT_DEFAULT, RATE_MAX, expected_with_floor};

use super::bars::{self, LOOK_NS, SECOND_NS, SETTLES_NS, WINDOW_NS};
use super::bed::{self, Bed, Done, Guest};
use super::draw::{KIB, Load, Set, Vm};

/// The formula counts in these parts of a unit: some VMs are due less than a unit per second.
const PARTS: f64 = 1000.0;

/// Units per second of the array with 64 requests of one kind outstanding: what the work of different
/// requests is compared by. `cargo bench -p array --bench sets -- kinds` measures them.
const KINDS: [(u64, bool, f64); 8] = [
    (4, true, 6871.0),
    (8, true, 6719.0),
    (64, true, 39271.0),
    (512, true, 88224.0),
    (4, false, 3258.0),
    (8, false, 3203.0),
    (64, false, 19133.0),
    (512, false, 43994.0),
];

/// How long the phases of a run take.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// Without policies, after [`SETTLES_NS`]: what the array does without a scheduler, with all outstanding
    /// requests, and then with as many as the scheduler may pass on.
    pub(crate) free_ns: u64,
    /// With a policy that limits nobody: the scheduler finds its depth.
    pub(crate) learns_ns: u64,
    pub(crate) judged_ns: u64,
}

/// A VM in a set; units per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) vm: Vm,
    pub(crate) policy: Policy,
    pub(crate) rate: f64,
    pub(crate) expected: f64,
    /// Without policies.
    pub(crate) free: f64,
    /// In the worst 1 % of the windows.
    pub(crate) worst: f64,
    pub(crate) judged_ns: u64,
    /// What its outstanding requests allow at this depth: q x cost / (time below + wait for the next slot).
    /// The latter is the time between two requests of all that end, at most.
    pub(crate) reach: f64,
    /// The same in the worst 1 % of the windows, in which times below happen to be long.
    pub(crate) steady_reach: f64,
    /// Whether the array reports that its minimum is violated.
    pub(crate) is_reported: bool,
    /// How long one of its requests is below the scheduler, and waits there, on average.
    pub(crate) below_ns: f64,
    pub(crate) waited_ns: f64,
}

impl Served {
    /// How far it is from the formula, as a share of it; what one request makes is left out.
    pub(crate) fn off(&self) -> f64 {
        bars::off(self.rate, self.expected, self.vm.load.cost_units(), self.judged_ns)
    }

    /// Whether its outstanding requests do not allow its minimum in 99 % of the windows at this depth.
    pub(crate) fn is_beyond_reach(&self) -> bool {
        self.policy.minimum_iops as f64 > self.steady_reach
    }

    /// Whether it has less than its minimum on average, by more than the array calls a violation.
    pub(crate) fn is_missed(&self) -> bool {
        self.rate < 0.95 * self.policy.minimum_iops as f64
    }

    /// The worst windows as a share of the minimum, less one request; none without a minimum.
    pub(crate) fn kept(&self) -> Option<f64> {
        bars::kept(self.worst, self.policy.minimum_iops, self.vm.load.cost_units())
    }
}

/// A set as it was served.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) set: Set,
    pub(crate) served: Vec<Served>,
    /// Units per second without policies with all outstanding requests, and with as many as the scheduler may
    /// pass on.
    pub(crate) whole: f64,
    pub(crate) free: f64,
    /// All together, as a share of the latter and of what the VMs ask for.
    pub(crate) sum: f64,
    /// Whether the minimums fit, each limited to its reach.
    pub(crate) feasible: bool,
    /// On average.
    pub(crate) depth: f64,
    /// Time between two requests of all VMs that end.
    pub(crate) slot_ns: f64,
    pub(crate) scheduler: PoolScheduler,
}

impl Outcome {
    /// The VM farthest from the formula.
    pub(crate) fn farthest(&self) -> &Served {
        self.served.iter().max_by(|a, b| a.off().total_cmp(&b.off())).expect("a set has VMs")
    }

    /// The worst windows of all minimums that fit.
    pub(crate) fn kept(&self) -> Option<f64> {
        let fit = self.served.iter().filter(|s| self.feasible && !s.is_beyond_reach());
        fit.filter_map(Served::kept).min_by(f64::total_cmp)
    }

    /// Whether minimums determine the depth, and one of them has no room for a deeper one.
    fn is_depth_needed(&self) -> bool {
        let is_close =
            |s: &Served| s.policy.minimum_iops > 0 && s.steady_reach < ROOM * s.policy.minimum_iops as f64;
        self.scheduler.depth_limit == "minimums" && self.served.iter().any(is_close)
    }

    /// Minimums that outstanding requests do not allow at this depth.
    pub(crate) fn beyond_reach(&self) -> usize {
        self.served.iter().filter(|s| s.is_beyond_reach()).count()
    }
}

/// Units per second of the array for requests like these, from [`KINDS`].
fn capacity_for(load: &Load) -> f64 {
    let kind = KINDS.iter().find(|kind| (kind.0 * KIB, kind.1) == (load.bytes, load.reads));
    kind.expect("a kind that sets are drawn from").2
}

/// Units per second of 16 VMs with 4 such requests each, without a scheduler.
pub(crate) fn measure_kind(bytes: u64, reads: bool) -> f64 {
    let loads = [Load { bytes, reads, outstanding: 4 }; 16];
    bed::run(1, &loads, async |bed| free(bed, 30 * SECOND_NS).await.iter().sum())
}

/// Runs a set.
pub(crate) fn play(set: &Set, times: Times) -> Outcome {
    let loads: Vec<Load> = set.vms.iter().map(|vm| vm.load).collect();
    bed::run(set.seed, &loads, async |bed| {
        let whole: f64 = free(bed, times.free_ns).await.iter().sum();
        bed.limit_outstanding(u64::from(DEPTH_MAX_DEFAULT));
        let free = free(bed, times.free_ns).await;
        bed.limit_outstanding(u64::MAX);
        let mut nothing = vec![Policy::none(); loads.len()];
        nothing[0].maximum_iops = Some(RATE_MAX);
        bed.set_policies(&nothing).await;
        bed.pass(times.learns_ns).await;
        let capacity = free.iter().sum();
        let policies: Vec<Policy> = set.vms.iter().map(|vm| vm.policy(capacity)).collect();
        bed.set_policies(&policies).await;
        bed.pass(SETTLES_NS).await;
        let outcome = judge(set, bed, (&free, &policies), times.judged_ns).await;
        Outcome { whole, ..outcome }
    })
}

/// Rates without policies.
async fn free(bed: &Bed, time_ns: u64) -> Vec<f64> {
    bed.pass(SETTLES_NS).await;
    let from = bed.now();
    bed.pass(time_ns).await;
    rates(bed, from)
}

async fn judge(set: &Set, bed: &Bed, (free, policies): (&[f64], &[Policy]), judged_ns: u64) -> Outcome {
    let (from, waited_before) = (bed.now(), bed.waited_ns().await);
    let looks = judged_ns / LOOK_NS;
    let mut depths = 0;
    for _ in 0..looks {
        bed.pass(LOOK_NS).await;
        depths += u64::from(bed.scheduler().await.depth);
    }
    let (status, depth) = (bed.status().await, depths as f64 / looks as f64);
    let waited_ns: Vec<u64> =
        bed.waited_ns().await.iter().zip(&waited_before).map(|(now, before)| now - before).collect();
    let rates = rates(bed, from);
    let all: f64 = rates.iter().sum();
    let ended: usize = bed.guests.iter().map(|guest| count(&guest.done.borrow(), from, bed.now())).sum();
    let slot_ns = judged_ns as f64 / ended.max(1) as f64;
    let reaches: Vec<Reach> =
        (0..rates.len()).map(|vm| reach(&bed.guests[vm], (from, slot_ns), waited_ns[vm])).collect();
    let claim = |vm: usize| Claim {
        minimum: policies[vm].minimum_iops * PARTS as u64,
        maximum: policies[vm].maximum_iops.map(|most| most * PARTS as u64),
        weight: u64::from(policies[vm].weight),
        demand: Some((reaches[vm].on_average * PARTS) as u64),
    };
    let claims: Vec<Claim> = (0..rates.len()).map(claim).collect();
    let expected = expected_with_floor((all * PARTS) as u64, FLOOR_PERCENT_DEFAULT, &claims);
    let served = |vm: usize| Served {
        vm: set.vms[vm],
        policy: policies[vm],
        rate: rates[vm],
        expected: expected.rates[vm] as f64 / PARTS,
        free: free[vm],
        worst: worst(&bed.guests[vm], from, from + judged_ns),
        judged_ns,
        reach: reaches[vm].on_average,
        steady_reach: reaches[vm].in_windows,
        below_ns: reaches[vm].below_ns,
        waited_ns: reaches[vm].waited_ns,
        is_reported: status.volumes.iter().any(|v| v.name == format!("v{vm}") && v.qos.state != "ok"),
    };
    let asked: f64 = claims.iter().map(most).sum();
    let work = |rates: &[f64]| -> f64 {
        rates.iter().zip(&set.vms).map(|(rate, vm)| rate / capacity_for(&vm.load)).sum()
    };
    Outcome {
        set: set.clone(),
        served: (0..rates.len()).map(served).collect(),
        whole: 0.0,
        free: free.iter().sum(),
        sum: (all / asked).max(work(&rates) / work(free)),
        feasible: expected.feasible,
        depth,
        slot_ns,
        scheduler: status.schedulers[0].clone(),
    }
}

/// What a VM asks for at most, units per second.
fn most(claim: &Claim) -> f64 {
    claim.maximum.unwrap_or(u64::MAX).min(claim.demand.unwrap_or(u64::MAX)) as f64 / PARTS
}

/// Units per second of each VM since then.
fn rates(bed: &Bed, from: u64) -> Vec<f64> {
    let now = bed.now();
    let rate = |guest: &Guest| {
        let done = guest.done.borrow();
        count(&done, from, now) as f64 * guest.load.cost_units() * SECOND_NS as f64 / (now - from) as f64
    };
    bed.guests.iter().map(|guest| rate(guest)).collect()
}

/// What a VM's outstanding requests allow by Little's law; units per second.
#[derive(Clone, Copy)]
struct Reach {
    on_average: f64,
    /// That less 2.33 standard errors of the times in a window: 1 % of a normal distribution is below.
    in_windows: f64,
    /// Times of a request below the scheduler and in it, on average.
    below_ns: f64,
    waited_ns: f64,
}

/// A request that comes back while all slots are in use waits for the next one that ends, of whichever VM.
fn reach(guest: &Guest, (from, slot_ns): (u64, f64), waited_ns: u64) -> Reach {
    let done = guest.done.borrow();
    let done = &done[done.partition_point(|done| done.at_ns < from)..];
    let count = done.len().max(1) as f64;
    let took: f64 = done.iter().map(|done| done.took_ns as f64).sum();
    let squares: f64 = done.iter().map(|done| (done.took_ns as f64).powi(2)).sum();
    let mean = took / count;
    let deviation = (squares / count - mean * mean).max(0.0).sqrt() / mean.max(1.0);
    let (below_ns, waited_ns) = ((took - waited_ns as f64).max(1.0) / count, waited_ns as f64 / count);
    let cost = guest.load.cost_units();
    let on_average =
        guest.load.outstanding as f64 * cost * SECOND_NS as f64 / (below_ns + waited_ns.min(slot_ns));
    let of_window = on_average / cost * WINDOW_NS as f64 / SECOND_NS as f64;
    let in_windows = on_average * (1.0 - 2.33 * deviation / of_window.sqrt()).max(0.0);
    Reach { on_average, in_windows, below_ns, waited_ns }
}

fn count(done: &[Done], from: u64, to: u64) -> usize {
    done.partition_point(|done| done.at_ns < to) - done.partition_point(|done| done.at_ns < from)
}

/// Units per second in the worst of a hundred windows.
fn worst(guest: &Guest, from: u64, to: u64) -> f64 {
    let done = guest.done.borrow();
    bars::worst(|from, to| count(&done, from, to), (from, to), guest.load.cost_units())
}

/// Bars of the project's issue: a VM is this far from the formula at most, the sum reaches this share of the
/// capacity, the worst 1 % of the windows this share of a minimum.
pub(crate) const OFF: f64 = 0.03;
const SUM: f64 = 0.97;
const KEPT: f64 = 0.98;
/// A depth that minimums determine is as deep as they allow if one of them has no more than this share beyond
/// its minimum: a quarter deeper would be too deep for it.
const ROOM: f64 = 1.25;

/// Whether a set is held: every bar, or the array reports what cannot be and why.
pub(crate) fn check(outcome: &Outcome) -> Result<(), String> {
    let Outcome { set, depth, scheduler, .. } = outcome;
    let of = format!(
        "set {} ({:.0} % promised, {} beyond reach, depth {depth:.1} by {})",
        set.seed,
        set.promised() * 100.0,
        outcome.beyond_reach(),
        scheduler.depth_limit
    );
    let farthest = outcome.farthest();
    if farthest.off() > OFF {
        return Err(format!("{of}: {:.2} % off: {farthest:?}", farthest.off() * 100.0));
    }
    if outcome.sum < SUM && !outcome.is_depth_needed() {
        return Err(format!("{of}: {:.1} % of the capacity", outcome.sum * 100.0));
    }
    if let Some(kept) = outcome.kept().filter(|kept| *kept < KEPT) {
        return Err(format!("{of}: {:.1} % of a minimum", kept * 100.0));
    }
    match outcome.served.iter().find(|served| served.is_missed() && !served.is_reported) {
        Some(served) => Err(format!("{of}: not reported: {served:?}")),
        None => Ok(()),
    }
}
