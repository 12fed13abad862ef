//! One run: loads begin and end with their phases, and what changes in between changes when a phase begins.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use array::Array;
use array::status::{ControllerStatus, PartitionStatus};
use lab_core::console::causes;
use lab_core::interrupt::Stop;
use world::{Buf, Data, Instant, World};

use super::course::{Course, Played, Recorder, Unended};
use super::plan::{PhasePlan, Plan};
use super::testbed::with_policies;
use lab_tools::load::access::{Op, Walk};
use lab_tools::load::target::{Facts, Target};
use lab_tools::load::workers::{self, Counts, Own};

/// How often it is looked whether what is in flight at the end has ended.
const END_LOOK: Duration = Duration::from_millis(100);
/// What is in flight then is waited for so long: a target that does not answer is given up after 30 s, and so
/// is a drive. What takes longer may never end, as a write that waits for room in a cache whose drives are
/// gone.
const END_MAX: Duration = Duration::from_secs(60);

/// One of the tasks that do a job of a load on a volume.
pub(super) struct Client {
    pub(super) load: usize,
    /// Of the load.
    pub(super) job: usize,
    /// Which of the job's workers on this volume.
    pub(super) worker: usize,
    pub(super) volume: usize,
}

/// The clients of a run, in the order of their numbers; of the searched load only the first so many volumes.
pub(super) fn clients(plan: &Plan, count: Option<usize>) -> Vec<Client> {
    let mut out = Vec::new();
    for (load, of) in plan.loads.iter().enumerate() {
        let searched = plan.search.as_ref().is_some_and(|search| search.load == load);
        let volumes = count.filter(|_| searched).unwrap_or(of.volumes.len());
        for volume in of.volumes.iter().take(volumes) {
            for (job, plan) in of.jobs.iter().enumerate() {
                out.extend((0..plan.workers).map(|worker| Client { load, job, worker, volume: *volume }));
            }
        }
    }
    out
}

/// A client with its path.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) target: Target,
    pub(super) facts: Facts,
}

/// Where a scenario is played.
pub(super) struct Stage<'a> {
    pub(super) plan: &'a Plan,
    pub(super) world: World,
    /// `None`: the LUs of another array.
    pub(super) array: Option<&'a RefCell<Array>>,
    pub(super) clients: Vec<Opened>,
    /// Pulls a drive.
    pub(super) pull: &'a dyn Fn(&str),
    pub(super) stop: &'a Stop,
}

/// What counts the I/Os of a client.
struct Counter {
    recorder: Rc<Recorder>,
    load: usize,
    end: Instant,
}

impl Counts for Counter {
    fn is_open(&self, now: Instant) -> bool {
        now < self.end && !self.recorder.stopped.get()
    }

    fn end(&self) -> Instant {
        self.end
    }

    fn begun(&mut self, due: Instant) {
        self.recorder.begun(self.load, due);
    }

    fn completed(&mut self, due: Instant, completed: Instant, op: Op, good: bool) {
        self.recorder.completed(self.load, (due, completed), op.len, good);
    }

    fn mismatched(&mut self, _: u64) {}

    fn left_behind(&mut self, _: u64) {}
}

/// What the array has said so far.
#[derive(Default)]
struct Looked {
    read_bytes: u64,
    read_hit_bytes: u64,
    rebuilds: Rebuilds,
}

/// How long groups lack drives that were pulled. A drive that is pulled while they lack another prolongs the
/// same time; one that is pulled after it begins another, and the longest counts.
#[derive(Default)]
struct Rebuilds {
    /// Before a drive was pulled: how many more all groups together could lose.
    before: u32,
    /// Since when drives are missing.
    since: Option<Instant>,
    /// Whether a group has missed the last one.
    missed: bool,
    longest_s: Option<f64>,
}

impl Rebuilds {
    fn pulled(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.missed = false;
    }

    /// `tolerates`: how many more drives all groups together can lose now.
    fn look(&mut self, now: Instant, tolerates: u32) {
        let Some(since) = self.since else {
            self.before = tolerates;
            return;
        };
        let is_whole = tolerates >= self.before;
        // A drive is missed when something is asked of it: until then the groups are as they were.
        self.missed |= !is_whole;
        if is_whole && self.missed {
            let seconds = now.since(since).as_secs_f64();
            self.longest_s = Some(self.longest_s.map_or(seconds, |longest| longest.max(seconds)));
            self.since = None;
        }
    }

    /// Not a number: a drive is still missing; none: no drive was pulled.
    fn seconds(&self) -> Option<f64> {
        if self.since.is_some() { Some(f64::NAN) } else { self.longest_s }
    }
}

impl Stage<'_> {
    pub(super) async fn play(&self, array: &str, count: Option<usize>) -> Result<Course> {
        let plan = self.plan;
        let window = plan.run.window.0;
        let recorder = Rc::new(Recorder::new(plan.loads.len(), window.as_nanos() as u64));
        let origin = self.world.now();
        let begins = origin + plan.run.warm_up.0;
        let mut course =
            Course { array: array.into(), count, window_s: window.as_secs_f64(), ..Course::default() };
        let mut looked = Looked::default();
        let mut from = begins;
        for (number, phase) in plan.phases.iter().enumerate() {
            if number == 0 {
                self.start(&recorder, 0, begins)?;
                course.warm_up = self.pass(&recorder, phase, (origin, begins), begins, &mut looked).await?;
                if let Some(failure) = recorder.failure.take() {
                    bail!("warm-up: {failure}");
                }
            } else {
                self.start(&recorder, number, from)?;
            }
            self.change(phase, &mut looked).await?;
            let to = from + phase.time;
            let mut played = self.pass(&recorder, phase, (from, to), begins, &mut looked).await?;
            played.first = (plan.run.settle.0.as_nanos().div_ceil(window.as_nanos())) as usize;
            course.phases.push(played);
            from = to;
            course.failure =
                recorder.failure.take().map(|failure| format!("phase {:?}: {failure}", phase.name));
            if self.stop.is_asked() || course.failure.is_some() {
                break;
            }
        }
        recorder.stopped.set(true);
        let counts = |played: &Played| played.all.len() > played.first;
        if let Some(failure) = course.failure.take_if(|_| !course.phases.iter().any(counts)) {
            bail!("{failure}");
        }
        // What is in flight to a LU that went away may never end.
        let given_up = self.world.now() + END_MAX;
        while recorder.running.get() > 0 && course.failure.is_none() && self.world.now() < given_up {
            self.world.sleep(END_LOOK).await;
        }
        if course.failure.is_none() {
            course.unended = unended(&recorder);
        }
        course.rebuild_s = looked.rebuilds.seconds();
        course.is_cut =
            course.phases.len() < plan.phases.len() || course.phases.iter().any(|played| played.is_cut);
        Ok(course)
    }

    /// Starts the loads that begin with a phase; each runs as long as the phases after it name it.
    fn start(&self, recorder: &Rc<Recorder>, number: usize, from: Instant) -> Result<()> {
        let plan = self.plan;
        let runs = |phase: usize, load: usize| plan.phases[phase].loads.contains(&load);
        for opened in &self.clients {
            let Client { load, job, worker, volume } = opened.client;
            if !runs(number, load) || (number > 0 && runs(number - 1, load)) {
                continue;
            }
            let after = (number..plan.phases.len()).take_while(|phase| runs(*phase, load));
            let end = from + after.map(|phase| plan.phases[phase].time).sum::<Duration>();
            let job = plan.loads[load].jobs[job].clone();
            let name = format!("{}, {}, {worker}", plan.loads[load].name, plan.volumes[volume].name);
            let len = lab_tools::load::room(&job, &opened.facts)?;
            let rng = self.world.random(&format!("{name}, {number}"));
            let walk = Walk::new(job.mix.clone(), job.from, len, (worker, job.workers), rng);
            let arrivals = self.world.random(&format!("arrivals of {name}, {number}"));
            let counter = Counter { recorder: recorder.clone(), load, end };
            let (world, target, recorder) = (self.world.clone(), opened.target.clone(), recorder.clone());
            let data: Data = Buf::shared_zeros(job.mix.size_max() as usize).freeze();
            recorder.running.set(recorder.running.get() + 1);
            self.world.spawn(async move {
                let own = Own { arrivals, verify: None, data };
                let ran = workers::run(&world, &target, &job, own, (walk, counter)).await;
                if let Err(error) = ran {
                    recorder.failure.borrow_mut().get_or_insert(format!("{name}: {}", causes(&error)));
                }
                recorder.running.set(recorder.running.get() - 1);
            });
        }
        Ok(())
    }

    /// What changes when a phase begins.
    #[expect(clippy::await_holding_refcell_ref, reason = "one task plays, and nobody else holds the array")]
    async fn change(&self, phase: &PhasePlan, looked: &mut Looked) -> Result<()> {
        let Some(array) = self.array else { return Ok(()) };
        if !phase.policies.is_empty() || !phase.grow.is_empty() {
            let mut array = array.borrow_mut();
            let mut config = with_policies(self.plan, array.config().clone(), phase.policies.iter().copied());
            for (pool, group) in &phase.grow {
                let of = config.pools.iter_mut().filter(|other| other.name == *pool);
                of.for_each(|pool| pool.groups.push(group.clone()));
            }
            array.apply(config).await?;
        }
        if !phase.pull.is_empty() {
            phase.pull.iter().for_each(|drive| (self.pull)(drive));
            looked.rebuilds.pulled(self.world.now());
        }
        Ok(())
    }

    /// Lets a phase pass, window by window.
    async fn pass(
        &self,
        recorder: &Recorder,
        phase: &PhasePlan,
        (from, to): (Instant, Instant),
        begins: Instant,
        looked: &mut Looked,
    ) -> Result<Played> {
        let window = self.plan.run.window.0;
        let windows = (to.since(from).as_nanos() / window.as_nanos()) as usize;
        recorder.begin(from, windows);
        let mut read_hits = Vec::new();
        self.look(looked).await?;
        let mut done = 0;
        for number in 0..windows {
            self.world.sleep_until(from + window * (number as u32 + 1)).await;
            if let Some(failure) = &*recorder.failure.borrow() {
                // An array of masu's own must not fail. One of others may go away, and what was measured
                // before that is kept.
                ensure!(self.array.is_none(), "phase {:?}: {failure}", phase.name);
                break;
            }
            recorder.close(number);
            read_hits.push(self.look(looked).await?);
            done = number + 1;
            if self.stop.is_asked() {
                break;
            }
        }
        if done == windows {
            self.world.sleep_until(to).await;
        }
        let (mut loads, mut all) = recorder.end(&phase.loads);
        loads.iter_mut().for_each(|of| of.truncate(done));
        all.truncate(done);
        let since = |at: Instant| (at.0 as f64 - begins.0 as f64) / 1e9;
        let to_s = if done == windows { since(to) } else { since(from + window * done as u32) };
        let is_cut = done < windows;
        Ok(Played { from_s: since(from), to_s, first: 0, loads, all, read_hits, is_cut })
    }

    /// Looks at the array. Gives the share of the bytes read since the last look that its cache had, in
    /// percent.
    #[expect(clippy::await_holding_refcell_ref, reason = "one task plays, and nobody else holds the array")]
    async fn look(&self, looked: &mut Looked) -> Result<f64> {
        let Some(array) = self.array else { return Ok(f64::NAN) };
        let parts = array.borrow().status().await?;
        let sum = |of: fn(&PartitionStatus) -> u64| {
            let caches = parts.iter().filter_map(|part| part.cache.as_ref());
            caches.flat_map(|cache| &cache.partitions).map(of).sum::<u64>()
        };
        let read = sum(|partition| partition.traffic.read_bytes);
        let hit = sum(|partition| partition.traffic.read_hit_bytes);
        let (new, new_hit) = (read - looked.read_bytes, hit - looked.read_hit_bytes);
        (looked.read_bytes, looked.read_hit_bytes) = (read, hit);
        looked.rebuilds.look(self.world.now(), tolerates(&parts));
        Ok(if new > 0 { 100.0 * new_hit as f64 / new as f64 } else { f64::NAN })
    }
}

/// What is in flight after all phases, and neither ended nor was given up in time.
fn unended(recorder: &Recorder) -> Option<Unended> {
    let waiting = recorder.running.get();
    let waited = || format!("{waiting} workers waited for {} s", END_MAX.as_secs());
    let failure = recorder.failure.take();
    let why = failure.or_else(|| (waiting > 0).then(waited))?;
    Some(Unended { loads: recorder.waiting(), why })
}

/// How many more drives all groups together can lose, each whichever they are.
fn tolerates(parts: &[ControllerStatus]) -> u32 {
    parts.iter().flat_map(|part| &part.groups).map(|group| group.raid.tolerates).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second drive that was pulled began the time anew while the first was being rebuilt, and was not
    /// looked at when the first was done.
    #[test]
    fn a_rebuild_lasts_until_every_drive_that_was_pulled_is_replaced() {
        enum At {
            Pull(u64),
            Look(u64, u32),
        }
        use At::{Look, Pull};
        for (course, expected) in [
            (vec![Look(1, 2)], None),
            (vec![Look(1, 2), Pull(2), Look(3, 1), Look(9, 2)], Some(7.0)),
            (vec![Look(1, 2), Pull(2), Look(3, 2), Look(4, 1), Look(9, 2)], Some(7.0)),
            (vec![Look(1, 2), Pull(2), Look(3, 1), Pull(6), Look(7, 0), Look(8, 1), Look(9, 2)], Some(7.0)),
            (vec![Look(1, 2), Pull(2), Look(3, 1), Pull(6), Look(7, 0), Look(8, 1)], Some(f64::NAN)),
            (vec![Look(1, 2), Pull(2), Look(3, 1), Look(9, 2), Pull(10), Look(11, 1)], Some(f64::NAN)),
            (
                vec![Look(1, 2), Pull(2), Look(3, 1), Look(9, 2), Pull(10), Look(11, 1), Look(30, 2)],
                Some(20.0),
            ),
        ] {
            let mut rebuilds = Rebuilds::default();
            for at in course {
                match at {
                    Pull(s) => rebuilds.pulled(Instant(s * 1_000_000_000)),
                    Look(s, tolerates) => rebuilds.look(Instant(s * 1_000_000_000), tolerates),
                }
            }
            assert_eq!(rebuilds.seconds().map(f64::to_bits), expected.map(f64::to_bits), "{expected:?}");
        }
    }
}
