//! The model at a small size, and what is refused.

use super::claims::measures;
use super::model;
use super::results::{On, speed};
use super::scenario::Scenario;
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
fn the_same_seed_gives_the_same_results_and_every_claim_holds() {
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
        assert_eq!(claim.verdict, Verdict::Held, "{}: {:?}", claim.name, claim.estimate);
    }
}

#[test]
fn the_slope_comes_from_shared_memory() {
    let mut scenario = quick();
    scenario.run.repeats = 1;
    scenario.physical.read_ahead = scenario.virtualized.read_ahead;
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
        ("\"384MiB\"", "\"100KiB\""),
        ("scale = 0.01", "scale = 2"),
        ("transfer = \"256KiB\"", "transfer = \"1000\""),
        ("memory = ", "memery = "),
    ] {
        let text = built_in.replacen(from, to, 1);
        assert_ne!(text, built_in, "{from}");
        assert!(Scenario::parse(&text, "x.toml").is_err(), "{to}");
    }
}
