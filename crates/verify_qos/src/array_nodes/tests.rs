//! Short runs with several nodes, and what is made of runs that were made up.

use std::time::Duration;

use lab_core::interrupt::Stop;
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;
use lab_core::verdict::Verdict;

use super::bed::Promised;
use super::judge::{View, view};
use super::model::play;
use super::play::{Course, Played};
use super::scenario::{ArrayNodes, Form};
use crate::scenario::Qos;
use crate::vm::Done;

const S: u64 = 1_000_000_000;

fn built_in() -> (Qos, ArrayNodes) {
    let (qos, _) = Qos::load(None).expect("built in");
    let shape = qos.array_nodes.clone().expect("has it").quick();
    (qos, shape)
}

/// The built-in phases of these names.
fn short(names: &[&str]) -> (Qos, ArrayNodes) {
    let (qos, mut shape) = built_in();
    shape.phases.retain(|phase| names.contains(&phase.name.as_str()));
    assert_eq!(shape.phases.len(), names.len(), "{:?}", shape.phases);
    shape.time.0 = Duration::from_secs(16);
    (qos, shape)
}

fn played((qos, shape): &(Qos, ArrayNodes), nodes: usize, seed: u64) -> Course {
    play(qos, shape, nodes, (seed, &Stop::default())).expect("runs")
}

const MEASURED: &str = "no policies, bronze idle";
const PROMISED: &str = "gold min 35 % again";
const LOST: &str = "node 2 is lost, its drives are not free";
const TAKEN_OVER: &str = "node 1 has taken over";

#[test]
fn minimums_are_kept_while_a_node_is_lost_and_after_its_controller_is_taken_over() {
    let short = short(&[MEASURED, PROMISED, LOST, TAKEN_OVER]);
    let course = played(&short, 3, 1);
    let seen = view(&short.0, &short.1, &course);
    let [_, _, lost, taken_over] = &seen.phases[..] else { panic!("{seen:?}") };
    for phase in [lost, taken_over] {
        let (gold, silver) = (phase.gold.expect("a minimum"), phase.silver.expect("minimums"));
        assert!(phase.fits && gold.share() >= 0.95 && silver.share() >= 0.95, "{phase:?}");
    }
    assert!(lost.is_lost && taken_over.taken_over_s.is_some_and(|after| after < 1.0), "{seen:?}");
    // A VM of the node stands still while it is lost, and goes on.
    let own = &course.done[5];
    let between =
        |from_ns: u64, to_ns: u64| own.iter().filter(|d| (from_ns..to_ns).contains(&d.at_ns)).count();
    let of = |phase: &Played| (phase.from_ns + S / 10, phase.to_ns);
    let [_, _, lost, again] = &course.phases[..] else { panic!("four phases") };
    assert_eq!(between(of(lost).0, of(lost).1), 0);
    assert!(between(of(again).0, of(again).1) > 100, "{}", between(of(again).0, of(again).1));
}

#[test]
fn the_same_seed_gives_the_same_course_and_another_seed_another() {
    let mut short = short(&[MEASURED, PROMISED, LOST]);
    short.1.time.0 = Duration::from_secs(6);
    let [first, again, other] = [1, 1, 2].map(|seed| played(&short, 2, seed).done);
    assert!(first == again && first != other);
    assert!(first.iter().any(|done| done.len() > 20));
}

/// The first Ctrl-C waited for the end of the experiments that were under way.
#[test]
fn a_run_ends_where_it_is_when_somebody_asks_to_stop() {
    let (qos, shape) = short(&[MEASURED]);
    let stop = Stop::default();
    stop.ask();
    let course = play(&qos, &shape, 2, (1, &stop));
    assert!(course.expect_err("nobody wants its end").is::<lab_core::interrupt::Abandoned>());
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (from, to, expected) in [
        ("nodes = [2, 3, 8, 16]", "nodes = [1]", "array_nodes.nodes"),
        ("lost = 2", "lost = 1", "lost: node"),
        ("lost = 2", "lost = 4", "lost: node"),
        ("quick_nodes = [3]", "quick_nodes = [17]", "quick_nodes"),
        ("gold = 150", "gold = 0", "gold"),
        ("gold_at = \"first\"", "taken_over = \"4s\"", "have a lost node"),
        ("bronze_idle = true", "gold = 10", "the first phase"),
        ("quick_time = \"20s\"", "quick_time = \"5s\"", "quick_time"),
        ("quick_time = \"18s\"", "quick_time = \"5s\"", "real.quick_time"),
        ("[array_nodes.real]", "[array_nodes.real]\nseed = 1", "seed"),
        ("taken_over = \"0s\"", "taken_over = \"2s\"", "be 0s with processes"),
        ("[\"real\", \"real_quick\"]", "[\"quick\"]", "quick"),
    ] {
        assert!(Qos::BUILT_IN.0.contains(from), "{from}");
        let said = Qos::parse(&Qos::BUILT_IN.0.replacen(from, to, 1), "my.toml").expect_err(to).to_string();
        assert!(said.contains(expected) && !said.contains('\n'), "{to}: {said}");
    }
}

/// Drives that are not free are an array's whose node stands still; processes are killed.
#[test]
fn processes_have_the_phases_of_the_model_but_for_how_a_node_is_lost() {
    let (qos, _) = Qos::load(None).expect("built in");
    let names = |shape: ArrayNodes| shape.phases.into_iter().map(|phase| phase.name).collect::<Vec<_>>();
    let of = |qos: Qos| qos.array_nodes.expect("has it");
    let model = names(of(qos.clone()).in_form(Form::Model));
    let (real, quick) = (of(qos.clone().real(false)), of(qos.clone().real(true)));
    assert_eq!((&real.nodes, real.time), (&quick.nodes, quick.real.time));
    assert!(quick.time < real.time && qos.real(true).experiments.is_empty());
    let killed = "node 2 is killed, node 1 takes over";
    for (names, count) in [(names(real), 7), (names(quick), 4)] {
        let (last, others) = names.split_last().expect("phases");
        assert!(last == killed && names.len() == count, "{names:?}");
        assert!(others.iter().all(|name| model.contains(name)), "{names:?}");
    }
    assert_eq!(model.len(), 8);
}

/// A VM that had so many I/Os of 64 KiB in each second.
fn steady(per_s: u64, from_s: u64, to_s: u64) -> Vec<Done> {
    let done = |n: u64| Done { at_ns: from_s * S + (n + 1) * S / per_s - 1, took_ns: 1, bytes: 64 << 10 };
    (0..per_s * (to_s - from_s)).map(done).collect()
}

/// A phase of 20 s from there on with minimums of 80 I/Os for gold in sum and 10 for each silver VM.
fn phase(name: &str, from_s: u64) -> Played {
    Played {
        name: name.into(),
        from_ns: from_s * S,
        to_ns: (from_s + 20) * S,
        promised: Promised { gold: 80 * 8, silver: 10 * 8, bronze: Some(20 * 8) },
        still: vec![false; 10],
        lost: None,
        taken_over_ns: None,
        took_over_ns: 0,
        said_ns: vec![None; 10],
    }
}

/// Two nodes that do 100 each: so many I/Os per second for each VM of a node.
fn course(rates: [u64; 5]) -> Course {
    let first = Played { promised: Promised::default(), ..phase("nothing", 0) };
    let done = |vm: usize| [steady(20, 0, 20), steady(rates[vm % 5], 20, 40)].concat();
    Course {
        nodes: 2,
        is_real: false,
        phases: vec![first, phase("minimums", 20)],
        done: (0..10).map(done).collect(),
        node_can_do: 100.0 * 65536.0,
    }
}

fn seen(course: &Course) -> View {
    let (qos, shape) = built_in();
    view(&qos, &shape, course)
}

fn verdict(course: &Course, id: &str) -> Verdict {
    let (qos, _) = built_in();
    let seen = seen(course);
    let all = qos.claims.judge(World::Model, &super::measures(&[(course, &seen)]), false);
    let own: Vec<_> =
        all.iter().filter(|claim| claim.id.starts_with(id)).map(|claim| claim.verdict).collect();
    assert!(!own.is_empty(), "{all:?}");
    let held = own.iter().all(|verdict| *verdict == Verdict::Held);
    if held { Verdict::Held } else { *own.iter().find(|v| **v != Verdict::Held).expect("one") }
}

#[test]
fn a_minimum_counts_in_sum_over_all_nodes() {
    // 40 + 40 for gold of 80 at each node of two that share it.
    let kept = course([20, 20, 20, 10, 30]);
    assert_eq!(verdict(&kept, "spread.minimum"), Verdict::Held);
    assert_eq!(verdict(&kept, "spread.settle"), Verdict::Held);
    // 68 of 80.
    assert_eq!(verdict(&course([17, 17, 20, 10, 36]), "spread.minimum"), Verdict::NotHeld);
    assert_eq!(verdict(&course([17, 17, 20, 10, 36]), "spread.settle"), Verdict::NotHeld);
    // What one node lacks the other one has.
    let mut uneven = kept.clone();
    uneven.done[0] = [steady(20, 0, 20), steady(10, 20, 40)].concat();
    uneven.done[5] = [steady(20, 0, 20), steady(30, 20, 40)].concat();
    assert_eq!(verdict(&uneven, "spread.minimum"), Verdict::Held);
    // A dedicated one does not count in sum.
    let mut short = kept;
    short.done[2] = [steady(20, 0, 20), steady(9, 20, 40)].concat();
    assert_eq!(verdict(&short, "spread.minimum"), Verdict::NotHeld);
}

#[test]
fn a_maximum_is_exceeded_by_one_write_of_each_pool_at_most() {
    // 20 in sum are allowed, 100 in 5 s; 11 at each node are 10 more, five for each pool.
    assert_eq!(seen(&course([20, 20, 20, 10, 30])).over_ios, Some(0.0));
    assert_eq!(verdict(&course([20, 20, 20, 10, 30]), "spread.maximum"), Verdict::Held);
    assert_eq!(seen(&course([20, 20, 20, 11, 29])).over_ios, Some(5.0));
    assert_eq!(verdict(&course([20, 20, 20, 11, 29]), "spread.maximum"), Verdict::NotHeld);
}

/// 40 of a pool's 100 are promised to gold and 10 to silver. By weight gold as one client, silver and the
/// free one share what is left of bronze's 10.
#[test]
fn every_vm_is_compared_with_the_closed_formula_in_its_pool() {
    // max(40, w), max(10, w), w of 90: 25 for silver and the free one.
    let exact = course([20, 20, 25, 10, 25]);
    let phase = &seen(&exact).phases[1];
    assert!(phase.fits && phase.least > 0.99 && phase.farthest < 0.02, "{phase:?}");
    let off = course([20, 20, 20, 10, 30]);
    let phase = &seen(&off).phases[1];
    // 20 of 25, beyond the fifth of an I/O per second that one in a window is.
    assert!((phase.least - (1.0 - 4.8 / 25.0)).abs() < 0.01, "{phase:?}");
}

#[test]
fn minimums_that_do_not_fit_are_judged_by_what_is_scaled_and_said() {
    let with = |said_s: [u64; 2], rates: [u64; 5]| {
        let mut course = course(rates);
        let phase = &mut course.phases[1];
        phase.promised.gold = 300 * 8;
        for (vm, said_s) in [(0, said_s[0]), (1, said_s[0]), (5, said_s[1]), (6, said_s[1])] {
            phase.said_ns[vm] = (said_s > 0).then_some(said_s * S);
        }
        course
    };
    // The floor of 2 leaves 98 for 150 and 10 at each node; bronze and the free one have the floor.
    let scaled = with([30, 35], [46, 46, 6, 1, 1]);
    let phase = &seen(&scaled).phases[1];
    assert!(!phase.fits && phase.said_s == Some(15.0), "{phase:?}");
    assert!(phase.farthest < 0.02, "{phase:?}");
    assert_eq!(verdict(&scaled, "spread.said"), Verdict::Held);
    assert_eq!(verdict(&with([30, 0], [46, 46, 6, 1, 1]), "spread.said"), Verdict::NotHeld);
    assert!(seen(&with([30, 35], [40, 40, 18, 1, 1])).phases[1].farthest > 0.1);
}

/// The floor is 2 of 100 in each pool, one for each of two.
#[test]
fn a_vm_without_a_minimum_has_its_part_of_the_floor_also_where_minimums_do_not_fit() {
    let with = |gold: u64, rates: [u64; 5]| {
        let mut course = course(rates);
        course.phases[1].promised.gold = gold * 8;
        course
    };
    for gold in [80, 300] {
        assert_eq!(verdict(&with(gold, [46, 46, 6, 1, 1]), "spread.floor"), Verdict::Held);
        assert_eq!(verdict(&with(gold, [46, 46, 6, 2, 0]), "spread.floor"), Verdict::NotHeld);
        assert_eq!(verdict(&with(gold, [46, 46, 6, 0, 2]), "spread.floor"), Verdict::NotHeld);
    }
}

#[test]
fn the_sum_is_judged_where_minimums_fit() {
    assert_eq!(verdict(&course([20, 20, 20, 10, 30]), "spread.sum"), Verdict::Held);
    assert_eq!(verdict(&course([20, 20, 20, 10, 26]), "spread.sum"), Verdict::NotHeld);
    let mut beyond = course([20, 20, 20, 10, 26]);
    beyond.phases[1].promised.gold = 300 * 8;
    assert_eq!(verdict(&beyond, "spread.sum"), Verdict::NotJudged);
}
