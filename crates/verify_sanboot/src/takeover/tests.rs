//! Short runs with little of everything, and claims about runs that were made up.

use std::time::Duration;

use lab_core::claim::Outcome;
use lab_core::scenario::ScenarioFile;
use lab_core::stats::Estimate;

use super::*;
use crate::results::{Layout, Results};

fn small() -> Sanboot {
    let (mut small, _) = Sanboot::load(None).expect("built in");
    (small.published.file.0, small.array.lu.0, small.array.cache.0) = (64 << 20, 256 << 20, 512 << 20);
    (small.takeover.warm_up.0, small.takeover.time.0) = (Duration::from_secs(1), Duration::from_secs(2));
    // More than is written in a run: a full one would have its hosts wait.
    small.takeover.journal.0 = 64 << 20;
    small
}

fn played(sanboot: &Sanboot, which: TakeoverOf, seed: u64) -> Takeover {
    let bed = bed::make(sanboot, which.goes, seed).expect("a bed");
    play::run(sanboot, &bed, which, (seed, &Stop::default())).expect("a run")
}

const OF: TakeoverOf =
    TakeoverOf { pattern: Pattern::RandomMix, servers: 3, goes: Disks::System, way: Way::Killed };

#[test]
fn disks_of_a_lost_controller_are_served_by_the_other_one_and_have_what_was_written() {
    let small = small();
    let noticed = small.takeover.noticed.0.as_secs_f64();
    let killed = played(&small, OF, 1);
    // Nobody serves them before the other controller has noticed and opened their pools, and then it does.
    let opened = noticed..=killed.changed_s + 0.5;
    assert!(killed.changed_s > noticed && opened.contains(&killed.gap_s), "{killed:?}");
    assert!(killed.gap_other_s < 1.0, "{killed:?}");
    assert!(killed.written > 300 && killed.read_back > 300 && killed.wrong == 0, "{killed:?}");
    // Each controller had its share, and then one had all.
    assert!(killed.before.controller_busy.iter().all(|busy| *busy > 0.005), "{killed:?}");
    assert!(killed.after.controller_busy[0] > 0.005 && killed.after.controller_busy[1] == 0.0, "{killed:?}");
    assert!(killed.after.iops.iter().all(|iops| *iops > 100.0), "{killed:?}");
    // A host that hears nothing gives the path up in its own time.
    let mut small = small;
    small.takeover.given_up.0 = Duration::from_secs(20);
    let given_up = (small.takeover.silent.0 + small.takeover.given_up.0).as_secs_f64();
    let silent = played(&small, TakeoverOf { way: Way::Silent, ..OF }, 1);
    assert!((given_up - 0.5..given_up + 1.0).contains(&silent.gap_s) && silent.wrong == 0, "{silent:?}");
}

#[test]
fn pools_move_while_servers_use_them_and_hosts_follow() {
    let moved = played(&small(), TakeoverOf { servers: 2, goes: Disks::Data, way: Way::Moved, ..OF }, 1);
    assert!(moved.refused.is_none() && moved.gap_s < 1.0 && moved.wrong == 0, "{moved:?}");
    // Both servers have their data disk in a pool that moves.
    assert!(moved.after.controller_busy[1] == 0.0, "hosts use the other path: {moved:?}");
}

/// Without its journal a cache that is lost takes acknowledged writes with it.
#[test]
fn acknowledged_writes_that_are_lost_are_found() {
    let (small, mut seen) = (small(), 0);
    let mut bed = bed::make(&small, OF.goes, 1).expect("a bed");
    bed.config.pools.iter_mut().for_each(|pool| pool.journal = None);
    for seed in 1..=2 {
        seen += play::run(&small, &bed, OF, (seed, &Stop::default())).expect("a run").wrong;
    }
    assert!(seen > 0, "nothing was lost without journals");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let small = small();
    let [first, again, other] = [1, 1, 2].map(|seed| played(&small, TakeoverOf { servers: 1, ..OF }, seed));
    assert_eq!(first, again);
    assert_ne!(first.bins, other.bins);
}

#[test]
fn the_quick_form_has_each_way_and_either_controller() {
    let (sanboot, _) = Sanboot::load(None).expect("built in");
    let quick = all(&sanboot.clone().quick(), true);
    for way in [Way::Killed, Way::Silent, Way::Moved] {
        assert!(quick.iter().any(|one| one.way == way), "{quick:?}");
    }
    for goes in Disks::ALL {
        assert!(quick.iter().any(|one| one.goes == goes), "{quick:?}");
    }
    let whole = all(&sanboot, false);
    assert!(quick.iter().all(|one| whole.contains(one)), "{whole:?}");
}

/// A run that was made up: gaps in seconds, and what was got of what was before, in percent.
pub(crate) fn takeover(pattern: Pattern, servers: u32, way: Way, (gap_s, percent): (f64, f64)) -> Takeover {
    let load = |iops: f64| Load {
        iops: [iops / 2.0; 2],
        server_iops: vec![iops / f64::from(servers); servers as usize],
        controller_busy: [0.5; 2],
        port_busy: [0.5; 2],
        drive_busy: [0.5; 2],
    };
    Takeover {
        pattern,
        servers,
        goes: Disks::System,
        way,
        seed: 1,
        before: load(1000.0),
        after: load(10.0 * percent),
        gap_before_s: 0.1,
        gap_s,
        gap_other_s: 0.2,
        changed_s: 5.0,
        refused: None,
        written: 100,
        read_back: 90,
        wrong: 0,
        lost_at: 1,
        bins: [vec![1.0, 2.0], vec![3.0, 4.0]],
    }
}

fn measured(results: &Results, id: &str) -> Outcome {
    let all = measures(results);
    all.iter().find(|measure| measure.id() == id).expect("measured").outcome().clone()
}

#[test]
fn the_worst_run_decides_each_claim() {
    use Pattern::{RandomMix, SequentialMix};
    let mut results = crate::tests::results();
    assert_eq!(measured(&results, "takeover.gap"), None.into());
    assert_eq!(measured(&results, "takeover.wrong"), None.into());
    results.takeovers = vec![
        takeover(RandomMix, 8, Way::Killed, (5.0, 99.0)),
        takeover(RandomMix, 8, Way::Silent, (9.5, 97.0)),
        takeover(RandomMix, 16, Way::Killed, (5.5, 90.0)),
        takeover(RandomMix, 8, Way::Moved, (0.7, 100.0)),
        takeover(SequentialMix, 8, Way::Killed, (5.0, 60.0)),
        takeover(SequentialMix, 8, Way::Silent, (5.0, 70.0)),
    ];
    let exact = |value: f64| Outcome::from(Estimate::exact(value));
    for (id, value) in [("gap", 9.5), ("others", 0.2), ("moved", 0.7), ("wrong", 0.0)] {
        assert_eq!(measured(&results, &format!("takeover.{id}")), exact(value), "{id}");
    }
    let near = |id: &str, value: f64| match measured(&results, id) {
        Outcome::Estimate(e) => assert!((e.mean - value).abs() < 1e-9, "{id}: {e:?}"),
        other => panic!("{id}: {other:?}"),
    };
    near("takeover.random", 97.0);
    near("takeover.sequential", 70.0);
    results.takeovers[3].refused = Some("a job does not end".into());
    assert!(matches!(measured(&results, "takeover.moved"), Outcome::Refuted(why) if why.contains("a job")));
    results.takeovers[3].wrong = 2;
    assert_eq!(measured(&results, "takeover.wrong"), exact(2.0));
}

#[test]
fn one_controller_carries_servers_up_to_the_first_that_are_too_many() {
    let of = |all: &[(u32, f64)]| {
        let all: Vec<Takeover> = all
            .iter()
            .map(|(servers, percent)| takeover(Pattern::RandomMix, *servers, Way::Killed, (5.0, *percent)))
            .collect();
        survey::carried(all.iter())
    };
    assert_eq!(of(&[(4, 100.0), (8, 96.0), (12, 80.0), (16, 99.0)]), Some(8));
    assert_eq!(of(&[(4, 90.0)]), None);
}

#[test]
fn only_an_array_of_the_advised_layout_is_run() {
    let plan = Plan { seed: 1, quick: true, layouts: vec![Layout::Raid5x4], threads: 1 };
    assert_eq!(run(&small(), &plan, &Stop::default()).expect("nothing"), (vec![], true));
}
