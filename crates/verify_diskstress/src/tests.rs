//! The model at a small size, and what is refused.

use std::time::Duration;

use super::claims::measures;
use super::model;
use super::results::{On, speed};
use super::scenario::Scenario;
use lab_core::claim::Kind;
use lab_core::interrupt::Stop;
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;
use lab_core::verdict::Verdict;

fn quick() -> Scenario {
    let mut scenario = Scenario::load(None).expect("built in").0.quick();
    scenario.run.repeats = 2;
    scenario.run.drives.truncate(1);
    scenario
}

#[test]
fn the_same_seed_gives_the_same_results_and_a_guest_rises_like_its_host() {
    let run = |seed| model::run(&quick(), seed, &Stop::default()).expect("runs");
    let (one, again, other) = (run(7), run(7), run(8));
    assert_eq!(one.measured, again.measured);
    assert_ne!(one.measured, other.measured);
    let judged = quick().claims.judge(World::Model, &measures(&one, World::Model), false);
    // Nothing is said of other drives, for the test runs one.
    let (other, judged): (Vec<_>, Vec<_>) =
        judged.into_iter().partition(|claim| claim.id.starts_with("other_drive"));
    assert!(judged.len() == 6 && other.iter().all(|claim| claim.verdict == Verdict::NotJudged));
    for claim in judged {
        let estimate = claim.estimate.expect("measured");
        match claim.id.as_str() {
            // Published as flat: with what reads ahead below both, a guest rises like its host.
            "rise.virtual" => assert_eq!(claim.verdict, Verdict::NotHeld, "{estimate:?}"),
            // Published as slightly faster: the drives hide the guest's processor time.
            "native" => assert!((estimate - 100.0).abs() < 0.5, "{estimate:?}"),
            _ => assert_eq!(claim.verdict, Verdict::Held, "{}: {estimate:?}", claim.name),
        }
    }
}

/// With what a guest costs at the end of all ranges that is worst for it, reads and writes stay what they
/// are: eight files or more keep two drives at work. They counted among the claims that could have failed.
#[test]
fn what_no_input_can_move_beyond_its_bound_follows() {
    let mut scenario = quick();
    scenario.run.repeats = 1;
    let us = Duration::from_micros;
    let guest = &mut scenario.virtualized;
    (guest.io.0, guest.exits, guest.exit.0, guest.layer.0) = (us(40), 16, us(3), us(40));
    (scenario.machine.cores, scenario.machine.transfer.0) = (4, 64 << 10);
    let run = model::run(&scenario, 7, &Stop::default()).expect("runs");
    let judged = scenario.claims.judge(World::Model, &measures(&run, World::Model), false);
    for id in ["reads", "writes", "other_drive.reads", "other_drive.writes"] {
        let claim = judged.iter().find(|claim| claim.id == id).expect("a claim");
        assert_eq!(claim.kind, Kind::Follows, "{id}");
        let is_moved = claim.estimate.is_some_and(|percent| (percent - 100.0).abs() > 1.0);
        assert!(!is_moved, "{id}: {:?}: something can move it", claim.estimate);
    }
}

#[test]
fn windows_double_up_to_the_share_of_a_stream() {
    let ahead = quick().machine.read_ahead;
    let transfer = 256 << 10;
    assert_eq!(ahead.window_bytes(8, 0, transfer), ahead.first.0);
    assert_eq!(ahead.window_bytes(8, 1, transfer), 2 * ahead.first.0);
    assert_eq!(ahead.window_bytes(64, u32::MAX, transfer), ahead.memory.0 / 64);
    assert_eq!(ahead.window_bytes(1, u32::MAX, transfer), ahead.most.0);
    assert_eq!(
        ahead.window_bytes(1 << 20, u32::MAX, transfer),
        transfer,
        "what does not fit is not read ahead"
    );
}

#[test]
fn the_slope_comes_from_windows_that_share_a_memory() {
    let mut scenario = quick();
    scenario.run.repeats = 1;
    // Windows that do not grow are as long for 8 files as for 64.
    scenario.machine.read_ahead.most = scenario.machine.read_ahead.first;
    let run = model::run(&scenario, 1, &Stop::default()).expect("runs");
    let rise = run.rise(&run.drive, ("R4", "R1"), On::Physical).expect("both").mean;
    assert!((rise - 1.0).abs() < 0.03, "{rise}");
    assert!(run.samples(&run.drive, "W1", On::Physical, speed)[0] > 10.0);
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused() {
    let built_in = Scenario::load(None).expect("built in").1;
    for (from, to) in [
        ("repeats = 5", "repeats = 0"),
        ("cores = 8", "cores = 0"),
        ("\"384MiB\"", "\"1000\""),
        ("scale = 0.01", "scale = 2"),
        ("transfer = \"256KiB\"", "transfer = \"1000\""),
        ("memory = \"384MiB\"", "memery = \"384MiB\""),
    ] {
        let text = built_in.replacen(from, to, 1);
        assert_ne!(text, built_in, "{from}");
        assert!(Scenario::parse(&text, "x.toml").is_err(), "{to}");
    }
}
