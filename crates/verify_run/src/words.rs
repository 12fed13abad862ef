//! The report's words: the answer, the sections, the method; and what `--check` says before a run. Every
//! number comes from the run or the scenario.

use std::fmt::Write as _;

use array::config::Level;
use lab_core::claim::JudgedClaim;
use lab_core::presentation::HowItWasDone;
use lab_core::quantity::Size;
use lab_core::record::World;
use lab_core::verdict::Verdict;
use lab_core::verification::Setup;
use lab_core::words::{counted, plain, value};

use super::Run;
use super::plan::{ArrayPlan, PhasePlan, Plan};
use super::recording::Recording;

/// The first claim, wherever it was made.
pub(super) fn answer(plan: &Plan, recording: &Recording, claims: &[JudgedClaim]) -> String {
    let Some(first) = plan.asked.first() else { return "The scenario has no claims.".into() };
    let id = |claim: &&JudgedClaim| claim.id == first.id || claim.id.starts_with(&format!("{}.", first.id));
    let own: Vec<&JudgedClaim> = claims.iter().filter(id).collect();
    let verdicts: Vec<Verdict> = own.iter().map(|claim| claim.verdict).collect();
    let all = |verdict: Verdict| verdicts.iter().all(|own| *own == verdict);
    let word = match () {
        () if own.is_empty() || recording.ran.is_empty() => return "Nothing was measured.".into(),
        () if all(Verdict::Held) => "Yes",
        () if all(Verdict::NotHeld) => "No",
        () if all(Verdict::NotJudged) => "Not measured",
        () if all(Verdict::Undecided) => "Undecided",
        () if all(Verdict::InDoubt) => "In doubt",
        () => "It depends",
    };
    let said = |claim: &&JudgedClaim| {
        let measured = claim.interval().map(|estimate| value(&estimate));
        let measured = measured.or_else(|| claim.reason.clone()).unwrap_or("not measured".into());
        let bound = claim.bound.map_or(String::new(), |bound| format!(" ({})", bound.words(&claim.unit)));
        let unit = if claim.estimate.is_some() { format!(" {}", claim.unit) } else { String::new() };
        format!("{}: {measured}{unit}{bound}", claim.name)
    };
    format!("{word}. {}.", own.iter().map(said).collect::<Vec<_>>().join("; "))
}

/// How it was done.
pub(super) fn method(setup: &Setup<'_, Run>, recording: &Recording) -> HowItWasDone {
    let plan = setup.scenario;
    let mut models: Vec<&str> =
        plan.arrays.iter().flat_map(|array| array.drives.iter().filter_map(|drive| drive.model())).collect();
    models.sort_unstable();
    models.dedup();
    let drives = format!("drives {}: docs/model.md says how, and how far off", models.join(", "));
    let (mut modelled, mut real) = (Vec::new(), Vec::new());
    match (setup.own, recording.is_target()) {
        (World::Model, _) => {
            modelled.push(drives);
            modelled.push(
                "time; hosts reach the array as commands: no network and no processor is modelled".into(),
            );
            real.push(
                "scheduler, cache, pool and RAID: the array's own code, as it serves real hosts".into(),
            );
        }
        (World::Real, true) => {
            let lus = recording.lus.iter().map(|lu| format!("{} ({})", lu.url, Size(lu.len_bytes)));
            real.push(format!("everything: {}", lus.collect::<Vec<_>>().join(", ")));
        }
        (World::Real, false) => {
            if !models.is_empty() {
                modelled.push(drives);
            }
            real.push("time, iSCSI sessions over TCP on loopback, the array on a thread".into());
        }
    }
    for load in &plan.loads {
        real.extend(
            load.left_out.iter().map(|line| format!("load {}, not used of its file: {line}", load.name)),
        );
    }
    HowItWasDone {
        scenario_text: setup.text.into(),
        versions: vec![],
        modelled,
        real,
        calibrated: vec![],
        scale: None,
    }
}

/// What happens in which phase.
pub(super) fn phases(plan: &Plan) -> String {
    plan.phases.iter().map(|phase| phase_words(plan, phase)).collect::<Vec<_>>().join("\n\n")
}

fn phase_words(plan: &Plan, phase: &PhasePlan) -> String {
    let loads: Vec<&str> = phase.loads.iter().map(|load| plan.loads[*load].name.as_str()).collect();
    let loads = if loads.is_empty() { "no load".into() } else { loads.join(", ") };
    let mut text = format!("{}: {} s, {loads}", phase.name, plain(phase.time.as_secs_f64()));
    if !phase.policies.is_empty() {
        let of = phase.policies.iter().map(|(volume, policy)| {
            let rate = |name: &str, rate: Option<u64>| rate.map(|rate| format!("{name} {rate}"));
            let minimum = Some(policy.minimum_iops).filter(|rate| *rate > 0);
            let all = [
                rate("minimum", minimum),
                rate("maximum", policy.maximum_iops),
                rate("bytes per second", policy.bandwidth_bytes_per_s),
            ];
            let words: Vec<String> = all.into_iter().flatten().collect();
            let words = if words.is_empty() { "no limits".into() } else { words.join(", ") };
            format!("{} {words}", plan.volumes[*volume].name)
        });
        let _ = write!(text, "; policies: {}", of.collect::<Vec<_>>().join("; "));
    }
    if !phase.pull.is_empty() {
        let _ = write!(text, "; drives pulled: {}", phase.pull.join(", "));
    }
    for (pool, group) in &phase.grow {
        let _ = write!(text, "; pool {pool} gets group {group}");
    }
    text + "."
}

/// What a sample is.
pub(super) fn windows(plan: &Plan) -> String {
    let seconds = |time: std::time::Duration| plain(time.as_secs_f64());
    let counted = "An I/O counts in the window in which it ends. A percentile is that of a window; an estimate is the mean of the windows, with an interval that allows for \
                   windows that are alike.";
    format!(
        "Windows of {} s after a warm-up of {} s; the first {} s of a phase do not count. {counted}",
        seconds(plan.run.window.0),
        seconds(plan.run.warm_up.0),
        seconds(plan.run.settle.0)
    )
}

/// What is searched for, where something is.
pub(super) fn search(plan: &Plan) -> Option<String> {
    let search = plan.search.as_ref()?;
    let load = &plan.loads[search.load];
    Some(format!(
        "The largest number of volumes of {} with which the {} is {}, of up to {}. It is found by bisection, for a quantity that gets worse with each more; counts whose bound lies in their interval are \
         its own interval. What is shown below was recorded with that number.",
        load.name,
        search.quantity.words(),
        search.bound.words(search.quantity.unit()),
        load.volumes.len()
    ))
}

/// As SNIA calls it.
fn level_words(level: Level) -> &'static str {
    match level {
        Level::Raid0 => "RAID 0",
        Level::Raid1 => "RAID 1",
        Level::Raid5 => "RAID 5",
        Level::Raid6 => "RAID 6",
        Level::Raid10 => "RAID 1+0",
    }
}

fn array_words(array: &ArrayPlan) -> String {
    let groups = array.groups.iter().map(|group| {
        format!("{} ({}, {})", group.name, level_words(group.level), counted(group.drives.len(), "drive"))
    });
    let cache = match array.cache_bytes {
        0 => "no cache".into(),
        bytes => format!("{} MiB of cache", bytes >> 20),
    };
    let spares = if array.spares.is_empty() {
        String::new()
    } else {
        format!(", {}", counted(array.spares.len(), "spare"))
    };
    format!("{}: {}; {cache}{spares}", array.name, groups.collect::<Vec<_>>().join(", "))
}

/// What a run would do, and how long it takes.
pub(super) fn check(plan: &Plan, world: World, targets: usize) -> String {
    let mut text = format!("{}: {}\n\n", plan.name, plan.question);
    let runs = match (targets, &plan.search) {
        (0, None) => plan.arrays.len() * plan.run.repeats,
        (_, None) => plan.run.repeats,
        // A bisection halves; the second one begins where the first ended.
        (targets, Some(search)) => {
            let most = plan.loads[search.load].volumes.len();
            let tries = usize::BITS - most.leading_zeros();
            let arrays = if targets > 0 { 1 } else { plan.arrays.len() };
            arrays * plan.run.repeats * tries as usize
        }
    };
    match targets {
        0 => plan.arrays.iter().for_each(|array| text += &format!("array {}\n", array_words(array))),
        n => {
            text +=
                &format!("{} of --target for {}\n", counted(n, "LU"), counted(plan.volumes.len(), "volume"))
        }
    }
    for load in &plan.loads {
        let jobs: Vec<String> = load.jobs.iter().map(|job| job.words()).collect();
        let _ = writeln!(
            text,
            "load {} on {}: {}",
            load.name,
            counted(load.volumes.len(), "volume"),
            jobs.join("; ")
        );
        load.left_out.iter().for_each(|line| text += &format!("  not used: {line}\n"));
    }
    plan.phases.iter().for_each(|phase| text += &format!("phase {}\n", phase_words(plan, phase)));
    if let Some(search) = self::search(plan) {
        let _ = writeln!(text, "search: {search}");
    }
    let _ = writeln!(text, "{}", counted(plan.asked.len(), "claim"));
    let time = plan.time().as_secs_f64();
    let about = if plan.search.is_some() { "about " } else { "" };
    let _ = match world {
        World::Model => write!(
            text,
            "\n{about}{} of {} s of virtual time each, on {}",
            counted(runs, "run"),
            plain(time),
            counted(lab_core::parallel::cores(), "core")
        ),
        World::Real => {
            write!(
                text,
                "\n{about}{} of {} s: {} s in all",
                counted(runs, "run"),
                plain(time),
                plain(time * runs as f64)
            )
        }
    };
    text
}
