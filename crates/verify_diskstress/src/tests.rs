//! The model at a small size, and what is refused.

use std::time::Duration;

use super::claims::measures;
use super::model;
use super::results::{On, speed};
use super::scenario::Scenario;
use lab_core::bound::Lies;
use lab_core::claim::{JudgedClaim, Kind};
use lab_core::interrupt::Stop;
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;
use lab_core::stats::Estimate;
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
    assert_eq!((&one.measured, &one.lu, one.kept), (&again.measured, &again.lu, again.kept));
    assert_ne!(one.measured, other.measured);
    let judged = quick().claims.judge(World::Model, &measures(&one, World::Model), false);
    // Nothing is said of other drives, for the test runs one.
    let (other, judged): (Vec<_>, Vec<_>) =
        judged.into_iter().partition(|claim| claim.id.starts_with("other_drive"));
    assert!(judged.len() == 14 && other.iter().all(|claim| claim.verdict == Verdict::NotJudged));
    for claim in judged {
        let estimate = claim.estimate.expect("measured");
        match claim.id.as_str() {
            // Published as flat: with what reads ahead below both, a guest rises like its host.
            "rise.virtual" => assert_eq!(claim.verdict, Verdict::NotHeld, "{estimate:?}"),
            // Published as slightly faster: the drives hide the guest's processor time.
            "native" => assert!((estimate - 100.0).abs() < 0.5, "{estimate:?}"),
            // Published as equal: writes of 256 KiB pass masu's cache by, which then gathers nothing.
            "lu.writes" => assert!(estimate < 70.0, "{estimate:?}"),
            // Three repeats decide these, and two do not.
            "lu.reads" | "lu.rise" | "lu.drive_reads" => assert_ne!(claim.verdict, Verdict::NotJudged),
            _ => assert_eq!(claim.verdict, Verdict::Held, "{}: {estimate:?}", claim.name),
        }
    }
}

/// What a guest costs a processor moves neither reads nor writes, with everything at the end of its range
/// that is worst: eight files or more keep two drives at work, and so does one write. An adapter of the
/// guest that takes one command at a time moves reads, so that they could have failed; before there was
/// one, they followed.
#[test]
fn what_no_input_can_move_beyond_its_bound_follows() {
    let mut scenario = quick();
    scenario.run.repeats = 1;
    let us = Duration::from_micros;
    let guest = &mut scenario.virtualized;
    (guest.io.0, guest.exits, guest.exit.0, guest.layer.0) = (us(40), 16, us(3), us(40));
    (scenario.machine.cores, scenario.machine.transfer.0) = (4, 64 << 10);
    let judged = |scenario: &Scenario| {
        let run = model::run(scenario, 7, &Stop::default()).expect("runs");
        let judged = scenario.claims.judge(World::Model, &measures(&run, World::Model), false);
        ["reads", "writes"].map(|id| judged.iter().find(|claim| claim.id == id).expect("a claim").clone())
    };
    for claim in judged(&scenario) {
        let is_moved = claim.estimate.is_none_or(|percent| (percent - 100.0).abs() > 1.0);
        assert!(!is_moved, "{}: {:?}: a processor moves it", claim.id, claim.estimate);
    }
    // Within their ranges, too.
    scenario.virtualized.outstanding = 1;
    scenario.machine.write_back.0 = 256 << 10;
    let keeps = |claim: &JudgedClaim| {
        let percent = Estimate::exact(claim.estimate.expect("measured"));
        claim.bound.expect("stated").lies(&percent) == Some(Lies::Within)
    };
    let [reads, writes] = judged(&scenario);
    assert_eq!((reads.kind, keeps(&reads)), (Kind::Emerges, false), "{:?}", reads.estimate);
    assert_eq!((writes.kind, keeps(&writes)), (Kind::Follows, true), "{:?}", writes.estimate);
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

/// Zero, less than nothing, beyond any machine, no number, nothing: each number of the scenario, one at a
/// time.
#[test]
fn every_number_at_its_extremes_is_refused_or_played() {
    use lab_core::scenario::extremes::play_all;
    let text = Scenario::BUILT_IN.0;
    let (refused, played) = play_all(text, |text| {
        let Ok(scenario) = Scenario::parse(text, "x.toml") else { return false };
        drop(model::run(&scenario.quick(), 1, &Stop::after_looks(4)));
        true
    });
    assert!(refused > 50 && played > 10, "{refused} refused, {played} played");
}
