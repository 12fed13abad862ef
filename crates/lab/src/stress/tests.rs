//! The model at a small size, and what is refused.

use super::claims::judge;
use super::model;
use super::results::{On, speed};
use super::scenario::Stress;
use crate::interrupt::Stop;
use crate::vaai::Verdict;

fn quick() -> Stress {
    let mut stress = Stress::load(None).expect("built in").0.quick();
    stress.run.repeats = 2;
    stress.run.drives.truncate(1);
    stress
}

#[test]
fn the_same_seed_gives_the_same_results_and_every_claim_holds() {
    let run = |seed| model::run(&quick(), seed, &Stop::default()).expect("runs");
    let (one, again, other) = (run(7), run(7), run(8));
    assert_eq!(one.measured, again.measured);
    assert_ne!(one.measured, other.measured);
    for judged in judge(&one, true) {
        assert_eq!(judged.verdict, Verdict::Held, "{}: {:?}", judged.name, judged.estimate);
    }
}

#[test]
fn the_slope_comes_from_shared_memory() {
    let mut stress = quick();
    stress.run.repeats = 1;
    stress.physical.read_ahead = stress.virtualized.read_ahead;
    let run = model::run(&stress, 1, &Stop::default()).expect("runs");
    let rise = run.rise(&run.drive, ("R4", "R1"), On::Physical).expect("both").mean;
    assert!((rise - 1.0).abs() < 0.03, "{rise}");
    assert!(run.samples(&run.drive, "W1", On::Physical, speed)[0] > 10.0);
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused() {
    let built_in = Stress::load(None).expect("built in").1;
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
        assert!(Stress::parse(&text, "x.toml").is_err(), "{to}");
    }
}
