//! All runs of a scenario: each array, each repeat, and each count that a search tries.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use lab_core::command_line::without_secret;
use lab_core::console::causes;
use lab_core::interrupt::Stop;
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_core::quantity::Size;
use lab_core::record::World;
use lab_core::stats::Estimate;
use lab_core::verdict::{Verdict, verdict};
use lab_core::verification::{Request, RequestError};
use world_model::Disk;

use super::claims::{fault, level};
use super::course::Course;
use super::plan::{ArrayPlan, LoadPlan, Plan};
use super::play::{Opened, Stage, clients};
use super::recording::{FoundLu, Ran, Recording};
use super::search::{self, Found};
use super::testbed::{self, Paths};
use lab_tools::load;
use lab_tools::testbed::Testbed;
use lab_tools::testbed::TimedArray;

/// Plays all of it.
///
/// # Errors
///
/// Where a run cannot be done.
pub(super) fn run(plan: &Plan, world: World, request: &Request, stop: &Stop) -> Result<Recording> {
    if plan.writes() {
        request.agreed_targets()?;
    }
    let mut lus = Vec::new();
    let ran = match prepare(plan, world, request)? {
        Prepared::Modelled(made) => modelled(plan, &made, request.seed, stop)?,
        Prepared::Real => real(plan, request.seed, stop)?,
        Prepared::Targets(found) => {
            lus = found;
            vec![on_targets(plan, &request.targets, request.seed, stop)?]
        }
    };
    let failed = ran.iter().flat_map(|ran| &ran.courses).any(|course| course.failure.is_some());
    Ok(Recording { ran, lus, stopped: failed || stop.is_asked() })
}

/// What a scenario is played on.
pub(super) enum Prepared {
    /// In the order of the arrays.
    Modelled(Vec<Testbed>),
    /// It is made for each run.
    Real,
    /// In the order of the volumes.
    Targets(Vec<FoundLu>),
}

/// Looks at everything that can keep a scenario from being played, as far as nothing is written: `--check`
/// does this, and so does every run before its first I/O.
///
/// # Errors
///
/// What keeps it from being played, and what to do.
pub(super) fn prepare(plan: &Plan, world: World, request: &Request) -> Result<Prepared> {
    let Request { targets, seed, .. } = request;
    check(plan, world, targets)?;
    if !targets.is_empty() {
        let lus = Paths::to_targets(targets)?.facts()?.into_iter().zip(targets);
        let lus = lus.map(|(facts, url)| FoundLu {
            url: without_secret(url),
            len_bytes: facts.len_bytes,
            read_only: facts.read_only,
        });
        let lus: Vec<FoundLu> = lus.collect();
        check_lus(plan, &lus)?;
        return Ok(Prepared::Targets(lus));
    }
    match world {
        World::Model => Ok(Prepared::Modelled(
            plan.arrays.iter().map(|array| testbed::make(plan, array, *seed)).collect::<Result<_>>()?,
        )),
        World::Real => {
            plan.arrays.iter().try_for_each(|array| testbed::check_real(plan, array, *seed))?;
            Ok(Prepared::Real)
        }
    }
}

/// Whether each LU has room for its volume, and takes the writes of its loads: on another one the load would
/// be another.
pub(super) fn check_lus(plan: &Plan, lus: &[FoundLu]) -> Result<()> {
    for (number, (lu, volume)) in lus.iter().zip(&plan.volumes).enumerate() {
        let writes =
            |load: &&LoadPlan| load.volumes.contains(&number) && load.jobs.iter().any(|job| job.mix.writes());
        if let Some(load) = plan.loads.iter().find(writes).filter(|_| lu.read_only) {
            bail!(
                "--target {}: is write-protected, and load {:?} writes: name another LU",
                lu.url,
                load.name
            );
        }
        ensure!(
            lu.len_bytes >= volume.len_bytes,
            "--target {}: has {}, and volume {:?} of the scenario {}: name a LU that is as large, or change \
             the volume's size",
            lu.url,
            Size(lu.len_bytes),
            volume.name,
            Size(volume.len_bytes)
        );
    }
    Ok(())
}

/// Whether it can be played there.
///
/// # Errors
///
/// What keeps it from being played, and what to do.
pub(super) fn check(plan: &Plan, world: World, targets: &[String]) -> Result<()> {
    if world == World::Model && !targets.is_empty() {
        return Err(RequestError::Modelled.into());
    }
    if targets.is_empty() && plan.arrays.is_empty() {
        bail!("the scenario has no [[array]]: pass --world real and --target, or add one");
    }
    if !targets.is_empty() {
        ensure!(
            targets.len() == plan.volumes.len(),
            "--target: {} LUs for {} volumes of the scenario: pass one for each",
            targets.len(),
            plan.volumes.len()
        );
        if let Some(phase) = plan.phases.iter().find(|phase| phase.changes_array()) {
            bail!("phase {:?} changes the array: leave out --target, or policies, pull and grow", phase.name);
        }
    }
    for of_volumes in &plan.loads {
        let on = of_volumes.volumes.iter().map(|number| &plan.volumes[*number]);
        for (volume, job) in on.flat_map(|volume| of_volumes.jobs.iter().map(move |job| (volume, job))) {
            load::within(job, volume.len_bytes)
                .with_context(|| format!("load {:?} on volume {:?}", of_volumes.name, volume.name))?;
        }
    }
    let pulls = plan.phases.iter().find(|phase| !phase.pull.is_empty());
    match (world, pulls) {
        (World::Real, Some(phase)) => {
            bail!("phase {:?} pulls a drive: it requires --world model", phase.name)
        }
        (World::Real, None) => Ok(()),
        (World::Model, _) => plan.arrays.iter().try_for_each(testbed::check_modelled),
    }
}

/// A seed for each repeat; the same for each array, so that the same places are read.
fn seed_of(seed: u64, repeat: usize) -> u64 {
    // The odd constant is 2^64 divided by the golden ratio.
    seed ^ (repeat as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// An array, and the one repeat of it that a piece of work does; of a search all.
struct Piece<'a> {
    array: usize,
    made: &'a Testbed,
    repeat: Option<usize>,
}

/// In virtual time, every piece on the next free core.
fn modelled(plan: &Plan, made: &[Testbed], seed: u64, stop: &Stop) -> Result<Vec<Ran>> {
    let repeats: Vec<Option<usize>> = match plan.search {
        Some(_) => vec![None],
        None => (0..plan.run.repeats).map(Some).collect(),
    };
    let pieces: Vec<Piece<'_>> = made
        .iter()
        .enumerate()
        .flat_map(|(array, made)| repeats.iter().map(move |repeat| Piece { array, made, repeat: *repeat }))
        .collect();
    let progress = Progress::new(pieces.len() as u64);
    let work = |index: usize, says: &dyn Fn(String)| {
        let Piece { array, made, repeat } = pieces[index];
        let array = &plan.arrays[array];
        let once = |repeat: usize, count: Option<usize>| {
            model(plan, (array, made), count, (seed_of(seed, repeat), stop), &|_, drive| drive.kill())
        };
        says(array.name.clone());
        match repeat {
            Some(repeat) => Ok((vec![once(repeat, None)?], None)),
            None => searched(plan, once, stop),
        }
    };
    let done =
        parallel::run((pieces.len(), parallel::cores()), stop, work, |text: String| progress.step(&text))?;
    progress.end();
    let mut out: Vec<Ran> = Vec::new();
    for (index, (courses, found)) in done {
        let name = &plan.arrays[pieces[index].array].name;
        match out.iter_mut().find(|ran| ran.array == *name) {
            Some(ran) => ran.courses.extend(courses),
            None => out.push(Ran { array: name.clone(), courses, found }),
        }
    }
    Ok(out)
}

/// Plays with several counts, and gives what was recorded with the largest that holds; with one volume where
/// none does. If it is stopped or fails, nothing is found, and there is what was recorded with the smallest
/// count.
fn searched(
    plan: &Plan,
    once: impl Fn(usize, Option<usize>) -> Result<Course>,
    stop: &Stop,
) -> Result<(Vec<Course>, Option<Found>)> {
    let search = plan.search.as_ref().context("missing [search] in the scenario")?;
    let tried = RefCell::new(BTreeMap::new());
    let measure = |count: usize| -> Result<(Estimate, Verdict)> {
        ensure!(!stop.is_asked(), "the search was stopped");
        let courses =
            (0..plan.run.repeats).map(|repeat| once(repeat, Some(count))).collect::<Result<Vec<_>>>()?;
        if let Some(failure) = courses.iter().find_map(|course| course.failure.as_ref()) {
            bail!("with {count} volumes: {failure}");
        }
        let ran = Ran { array: String::new(), courses, found: None };
        ensure!(!stop.is_asked(), "the search was stopped");
        let estimate = level(&ran, search.quantity, search.at);
        let outcome = fault(&ran, search.quantity, search.at).unwrap_or(estimate.into());
        let Some(estimate) = estimate else {
            bail!("with {count} volumes no I/O ended in a window that counts");
        };
        tried.borrow_mut().insert(count, ran.courses);
        Ok((estimate, verdict(Some(&search.bound), &outcome, false).0))
    };
    let found = search::largest(plan.loads[search.load].volumes.len(), measure);
    let mut tried = tried.into_inner();
    let smallest = |mut tried: BTreeMap<usize, Vec<Course>>| tried.pop_first().map(|(_, courses)| courses);
    if stop.is_asked() {
        return Ok((smallest(tried).unwrap_or_default(), None));
    }
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let mut courses = smallest(tried).unwrap_or_default();
            kept(&mut courses, error, "search")?;
            return Ok((courses, None));
        }
    };
    let courses = tried.remove(&found.largest.max(1)).context("every count was tried")?;
    Ok((courses, Some(found)))
}

/// One run in the model world; `pull` does to a drive what a phase says.
pub(super) fn model(
    plan: &Plan,
    (array, made): (&ArrayPlan, &Testbed),
    count: Option<usize>,
    (seed, stop): (u64, &Stop),
    pull: &dyn Fn(&world::World, &Disk),
) -> Result<Course> {
    let model = made.model(seed);
    let played = model.run(async |world| {
        let started = made.start(&world).await?;
        let mut opened = Vec::new();
        for (number, client) in clients(plan, count).into_iter().enumerate() {
            let (target, facts) = testbed::open_local(plan, &started, client.volume, number)?;
            opened.push(Opened { client, target, facts });
        }
        let pull = |drive: &str| model.disks().get(drive).iter().for_each(|disk| pull(&world, disk));
        let controller = RefCell::new(started.array);
        let stage = Stage {
            plan,
            world: world.clone(),
            array: Some(&controller),
            clients: opened,
            pull: &pull,
            stop,
        };
        stage.play(&array.name, count).await
    });
    played.with_context(|| format!("array {:?}", array.name))
}

/// In real time, one run after the other, each on an array of its own.
fn real(plan: &Plan, seed: u64, stop: &Stop) -> Result<Vec<Ran>> {
    let progress = Progress::new((plan.arrays.len() * plan.run.repeats) as u64);
    let mut out = Vec::new();
    for array in &plan.arrays {
        let once = |repeat: usize, count: Option<usize>| {
            progress.step(&array.name);
            let timed = testbed::start(plan, array, seed_of(seed, repeat))?;
            let paths = Paths::to_array(plan, timed.listen());
            over_sessions(plan, &array.name, paths, Some(timed), count, (seed_of(seed, repeat), stop))
        };
        match repeated(plan, &array.name, once, stop) {
            Ok(ran) => out.extend(ran),
            Err(error) => {
                let before = out.last_mut().map_or(&mut [][..], |ran: &mut Ran| &mut ran.courses[..]);
                kept(before, error, &format!("array {:?}", array.name))?;
                break;
            }
        }
    }
    progress.end();
    Ok(out)
}

fn on_targets(plan: &Plan, targets: &[String], seed: u64, stop: &Stop) -> Result<Ran> {
    let progress = Progress::new(plan.run.repeats as u64);
    let once = |repeat: usize, count: Option<usize>| {
        progress.step("the LUs of --target");
        let paths = Paths::to_targets(targets)?;
        over_sessions(plan, TARGET_NAME, paths, None, count, (seed_of(seed, repeat), stop))
    };
    let ran = repeated(plan, TARGET_NAME, once, stop)?;
    progress.end();
    ran.context("the run was stopped before anything was measured")
}

/// The name of an array that is not masu's.
const TARGET_NAME: &str = "target";

/// All repeats, or the search, until it is stopped; `None` if nothing was done.
fn repeated(
    plan: &Plan,
    array: &str,
    once: impl Fn(usize, Option<usize>) -> Result<Course>,
    stop: &Stop,
) -> Result<Option<Ran>> {
    let mut ran = Ran { array: array.to_owned(), courses: vec![], found: None };
    if plan.search.is_some() && !stop.is_asked() {
        let (courses, found) = searched(plan, once, stop)?;
        return Ok(Some(Ran { courses, found, ..ran }));
    }
    for repeat in 0..plan.run.repeats {
        let is_over = ran.courses.iter().any(|course: &Course| course.failure.is_some());
        if !is_over && !stop.is_asked() {
            match once(repeat, None) {
                Ok(course) => ran.courses.push(course),
                Err(error) => kept(&mut ran.courses, error, &format!("repeat {}", repeat + 1))?,
            }
        }
    }
    Ok((!ran.courses.is_empty()).then_some(ran))
}

/// A failure ends a run; what was measured before it is kept, and says it.
///
/// # Errors
///
/// The failure, where nothing was measured.
fn kept(measured: &mut [Course], error: anyhow::Error, at: &str) -> Result<()> {
    let Some(last) = measured.last_mut() else { return Err(error) };
    last.failure = Some(format!("{at}: {}", causes(&error)));
    Ok(())
}

/// One run in real time: hosts on a thread of their own.
fn over_sessions(
    plan: &Plan,
    name: &str,
    paths: Paths,
    mut timed: Option<TimedArray>,
    count: Option<usize>,
    (seed, stop): (u64, &Stop),
) -> Result<Course> {
    let (plan, name, stop) = (plan.clone(), name.to_owned(), stop.clone());
    let control = timed.as_mut().map(TimedArray::control);
    let options = world_real::Options { seed, ..world_real::Options::default() };
    let hosts = world_real::start("hosts", options, move |world| async move {
        let mut opened = Vec::new();
        for (number, client) in clients(&plan, count).into_iter().enumerate() {
            let outstanding = plan.loads[client.load].jobs[client.job].outstanding;
            let (target, facts) = paths.open(&world, client.volume, number, outstanding).await?;
            opened.push(Opened { client, target, facts });
        }
        let array = control.map(RefCell::new);
        let stage =
            Stage { plan: &plan, world, array: array.as_ref(), clients: opened, pull: &|_| {}, stop: &stop };
        stage.play(&name, count).await
    })?;
    // The array ends after its hosts.
    let course = hosts.join().map_err(|_| anyhow!("the hosts have panicked"))?;
    drop(timed);
    course?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::Played;
    use crate::scenario::Quantity;

    fn plan(name: &str) -> Plan {
        let request = Request {
            scenario: Some(format!("../../scenarios/examples/{name}.toml").into()),
            ..Request::default()
        };
        crate::report::load(&request).expect("reads").0
    }

    /// A LU that went away in the warm-up of a second repeat, or could not be opened for it, lost the first
    /// one: exit status 2, and no folder.
    #[test]
    fn a_repeat_that_fails_does_not_lose_those_before_it() {
        let mut plan = plan("my_fio_file");
        plan.run.repeats = 3;
        let once = |good: usize| {
            move |repeat: usize, _: Option<usize>| {
                ensure!(repeat < good, "connection closed");
                Ok(Course { array: "a".into(), ..Course::default() })
            }
        };
        for good in 1..3 {
            let ran = repeated(&plan, "a", once(good), &Stop::default()).expect("kept").expect("measured");
            assert_eq!(ran.courses.len(), good);
            let said = format!("repeat {}: connection closed", good + 1);
            assert_eq!(ran.courses[good - 1].failure.as_deref(), Some(&said[..]));
        }
        let nothing = repeated(&plan, "a", once(0), &Stop::default()).map(drop).map_err(|e| e.to_string());
        assert_eq!(nothing, Err("connection closed".into()), "nothing was measured");
    }

    /// A search whose LU went away with the fifth count lost the four before it.
    #[test]
    fn a_search_that_fails_does_not_lose_what_it_tried() {
        let plan = plan("how_many_more_vms");
        let search = plan.search.as_ref().expect("it searches");
        let once = |fails_from: usize| {
            let window = super::super::course::Window { ios: 9, bytes: 9, ..Default::default() };
            let loads = plan.loads.len();
            let windows = move || vec![vec![window; 5]; loads];
            let played = move || Played { loads: windows(), all: vec![window; 5], ..Played::default() };
            let phases = search.at.phase + 1;
            move |_: usize, count: Option<usize>| {
                ensure!(count.is_some_and(|count| count < fails_from), "connection closed");
                let phases = (0..phases).map(|_| played()).collect();
                Ok(Course { phases, window_s: 1.0, count, ..Course::default() })
            }
        };
        let most = plan.loads[search.load].volumes.len();
        let mut plan = plan.clone();
        plan.search.as_mut().expect("it searches").quantity = Quantity::Rate;
        let (courses, found) = searched(&plan, once(most), &Stop::default()).expect("kept");
        assert!(found.is_none() && !courses.is_empty() && most > 2, "{courses:?}");
        assert_eq!(courses.last().and_then(|of| of.failure.as_deref()), Some("search: connection closed"));
        assert!(searched(&plan, once(1), &Stop::default()).is_err(), "nothing was measured");
    }
}
