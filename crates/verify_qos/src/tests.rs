//! Short runs of the published experiments.

use std::time::Duration;

use super::bed::{self, Bed, Shape};
use super::capacity::{Capacity, Point};
use super::hosts::Hosts;
use super::judge::view;
use super::phases::Form;
use super::play::{self, Course, Script};
use super::scenario::Qos;
use lab_core::interrupt::Stop;
use lab_core::scenario::ScenarioFile;

/// The cluster's experiment with minimums, its first two phases, on an array with nothing else on it: 220
/// MB/s, with any number of writes at once.
fn short() -> (Qos, Bed, Script) {
    let (mut qos, _) = Qos::load(None).expect("built in");
    qos.run.phase.0 = Duration::from_secs(30);
    qos.run.warm_up.0 = Duration::from_secs(2);
    let bed = bed::make(&qos, Shape { others_bytes: 0, ..Shape::published(&qos) }, 1).expect("a bed");
    let mut script = Script::of(&qos, &qos.experiments[1], Form::Array, 220e6);
    script.steps.truncate(2);
    // 22 MB/s is an even part of this array.
    script.steps[1].policies.iter_mut().take(5).for_each(|policy| policy.minimum_iops = MINIMUM);
    (qos, bed, script)
}

/// 28.7 MB/s.
const MINIMUM: u64 = 3500;

fn capacity() -> Capacity {
    let point = |in_flight| Point {
        in_flight,
        rate: 220e6,
        error: 0.0,
        seconds: 60.0,
        worst_each: 220e6 / in_flight as f64,
    };
    Capacity((1..=10).map(point).collect())
}

fn played((qos, bed, script): &(Qos, Bed, Script), form: Form, seed: u64) -> Course {
    play::model(qos, bed, script, form, (seed, &Stop::default())).expect("runs")
}

#[test]
fn a_minimum_holds_where_all_hosts_meet_and_not_where_each_is_alone() {
    let short = short();
    let share = |form: Form| {
        let course = played(&short, form, 1);
        let view = view(&short.0, &capacity(), &course);
        let phase = &view.phases[1];
        assert!(phase.fits() && phase.has_minimum());
        let least = |vms: std::ops::Range<usize>| {
            phase.vms[vms].iter().map(|vm| vm.mean).fold(f64::INFINITY, f64::min) / (MINIMUM * 8192) as f64
        };
        (least(0..5), least(5..10), phase.off_even().expect("VMs").mean)
    };
    let (promised, others, _) = share(Form::Array);
    assert!(promised > 0.98 && others < 0.7, "the array: {promised} {others}");
    let (promised, _, off_even) = share(Form::Uncoordinated);
    assert!(promised < 0.9 && off_even < 0.08, "each host by itself: {promised} {off_even}");
}

#[test]
fn the_same_seed_gives_the_same_course_and_another_seed_another() {
    let mut short = short();
    short.2.steps.truncate(1);
    short.0.run.phase.0 = Duration::from_secs(2);
    short.2.steps[0].time = Duration::from_secs(2);
    let [first, again, other] = [1, 1, 2].map(|seed| played(&short, Form::Array, seed).done);
    assert!(first == again && first != other);
    assert!(first.iter().all(|done| done.len() > 20));
}

/// The first Ctrl-C waited for the end of the experiments that were under way.
#[test]
fn an_experiment_ends_where_it_is_when_somebody_asks_to_stop() {
    let (qos, bed, script) = short();
    let stop = Stop::default();
    stop.ask();
    let course = play::model(&qos, &bed, &script, Form::Array, (1, &stop));
    assert!(course.expect_err("nobody wants its end").is::<lab_core::interrupt::Abandoned>());
    let capacity = super::capacity::measure(&qos, &bed, 1, &stop);
    assert!(capacity.err().is_some_and(|error| error.is::<lab_core::interrupt::Abandoned>()));
}

/// A VM filled a cache of 64 GiB in one step of the world: nobody else came in between, not even who stops
/// the run.
#[test]
fn a_vm_whose_ios_take_no_time_lets_others_go_on() {
    let (mut qos, _) = Qos::load(None).expect("built in");
    (qos.array.cache.0, qos.published.transfer.0) = (256 << 20, 4096);
    let bed = bed::make(&qos, Shape { others_bytes: 0, ..Shape::published(&qos) }, 1).expect("a bed");
    let script = Script {
        id: "one".into(),
        title: "One".into(),
        hosts: 1,
        loads: vec![play::Load::published(&qos)],
        steps: vec![],
    };
    let written = bed.model(1).run(async |world| {
        let started = bed.start(&world).await.expect("an array");
        let hosts = Hosts::new(&qos, &world, (1, 1), Form::Array);
        let vms = play::vms(&world, &started, &script, &hosts).await.expect("a VM");
        vms[0].start(1);
        while vms[0].log.borrow().is_empty() {
            world::yield_now().await;
        }
        vms[0].log.borrow().len()
    });
    assert!((1000..=2048).contains(&written), "{written} I/Os in a step");
}

/// A point of a sweep is this scenario with other values of its ranges. Those with another size were all
/// refused.
#[test]
fn the_scenario_can_have_any_size_of_its_range() {
    let own = Qos::BUILT_IN.0;
    for size in ["4KiB", "16KiB", "64KiB", "256KiB"] {
        let text = own.replacen("transfer = \"512KiB\"", &format!("transfer = \"{size}\""), 1);
        assert_ne!(text, own);
        Qos::parse(&text, "a point").expect(size);
    }
}
