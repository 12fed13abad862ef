//! What claims say of phases that were made up.

use lab_core::claim::JudgedClaim;
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;
use lab_core::verdict::Verdict;

use super::*;
use crate::judge::VmView;
use crate::judge::tests::{phase, vm};
use crate::phases::{NodeFaults, StoreState};
use crate::play::{Course, Played};

/// The published cluster's experiment with minimums; nothing was seen of it.
fn course(form: Form) -> Course {
    Course {
        id: "minimums".into(),
        title: "Cluster, minimums".into(),
        form,
        world: "model",
        phases: vec![],
        loads: vec![],
        done: vec![],
        looks: vec![],
        news: vec![],
    }
}

/// A VM with a minimum, and what it has on average; MB/s.
fn promised(minimum: f64, mean: f64) -> VmView {
    let vm = vm(mean * 1e6, Estimate::exact(mean * 1e6));
    VmView { rates: Rates { minimum: minimum * 1e6, ..vm.rates }, ..vm }
}

fn of_vms(name: &str, vms: Vec<VmView>) -> PhaseView {
    let sum = vms.iter().map(|vm| vm.mean).sum();
    let windows = vms.iter().map(|vm| vec![vm.mean; 3]).collect();
    PhaseView { name: name.into(), sum, windows, ..phase(vms) }
}

/// The claims of that id of a course with these phases.
fn judged(form: Form, phases: Vec<PhaseView>, id: &str) -> Vec<JudgedClaim> {
    let (qos, _) = Qos::load(None).expect("built in");
    let course = course(form);
    let view = View { course: &course, phases };
    let measures = measures(&qos, &[view], None);
    let all = qos.claims.judge(World::Model, &measures, false);
    all.into_iter().filter(|claim| claim.id.split('.').next() == id.split('.').next()).collect()
}

/// On an array that is fast enough an even part is more than the minimum: the published failure did not come
/// out, and once was held all the same.
#[test]
fn a_minimum_that_an_even_part_reaches_is_no_published_failure() {
    let verdict = |minimum: f64| {
        let vms = (0..10).map(|vm| promised(if vm < 5 { minimum } else { 0.0 }, 14.0)).collect();
        let all = judged(Form::Uncoordinated, vec![of_vms("VM01-05 min 2000", vms)], "uncoordinated");
        let [came, even, ..] = &all[..] else { panic!("{all:?}") };
        assert_eq!(even.verdict, Verdict::Held, "{even:?}");
        assert!(even.id.starts_with("uncoordinated.even."), "{}", even.id);
        (came.verdict, came.estimate.map(f64::round))
    };
    assert_eq!(verdict(16.38), (Verdict::Held, Some(85.0)));
    assert_eq!(verdict(14.0), (Verdict::NotHeld, Some(100.0)));
}

/// The publication has VM06-10 come to 24 MB/s each once all have that minimum: a statement of its own, and
/// none of the failure that was published of the phases before.
#[test]
fn vms_that_get_minimums_after_others_are_judged_by_their_own_mean() {
    let judge = |last: f64| {
        let first = |minimum: f64| (0..5).map(move |_| promised(minimum, 14.0));
        let before = first(24.576).chain((0..5).map(|_| promised(0.0, 14.0))).collect();
        let after = first(24.576).chain((0..5).map(|_| promised(24.576, last))).collect();
        let after = PhaseView { fit: Fit::Over, ..of_vms("all min 3000", after) };
        let phases = vec![of_vms("VM01-05 min 3000", before), after];
        let all = judged(Form::Uncoordinated, phases, "uncoordinated");
        let own = all.into_iter().find(|claim| claim.id.starts_with("uncoordinated.last")).expect("a claim");
        assert_eq!(own.published, Some(Published::Words("VM06-10 came to 24 MB/s each".into())));
        assert!(own.id.ends_with("all_min_3000"), "{}", own.id);
        own.verdict
    };
    assert_eq!((judge(14.0), judge(24.2)), (Verdict::NotHeld, Verdict::Held));
}

/// An event of one of five VMs once stood for all of them.
#[test]
fn an_event_must_come_of_every_vm_that_misses_its_minimum() {
    let judge = |told: [Option<f64>; 2]| {
        let missed = told.map(|told_s| VmView { told_s, ..promised(16.0, 12.0) });
        // One that has its minimum, and of which nothing is to be said.
        let vms = missed.into_iter().chain([promised(10.0, 12.0)]).collect();
        let all = judged(Form::Array, vec![of_vms("VM01-05 min 2000", vms)], "event");
        let [claim] = &all[..] else { panic!("{all:?}") };
        (claim.verdict, claim.estimate)
    };
    assert_eq!(judge([Some(10.0), Some(12.5)]), (Verdict::Held, Some(12.5)));
    assert_eq!(judge([Some(10.0), None]), (Verdict::NotHeld, None));
    assert_eq!(judge([None, None]), (Verdict::NotHeld, None));
}

/// A phase that is over before what was sent earlier has ended has no window to judge a maximum by: it once
/// was as far below it as can be.
#[test]
fn a_maximum_without_a_window_is_not_judged() {
    let judge = |over_ios: Option<f64>| {
        let own = vm(8e6, Estimate::exact(8e6));
        let own = VmView { rates: Rates { maximum: 8.192e6, ..own.rates }, over_ios, ..own };
        let all = judged(Form::Array, vec![of_vms("VM01-05 max 1000", vec![own])], "maximum");
        let [claim] = &all[..] else { panic!("{all:?}") };
        claim.verdict
    };
    assert_eq!(judge(None), Verdict::NotJudged);
    assert_eq!((judge(Some(0.5)), judge(Some(1.5))), (Verdict::Held, Verdict::NotHeld));
}

/// A maximum of three times what its VM could get was held, "-2242 I/Os over it": no scheduler would have
/// missed it.
#[test]
fn a_maximum_that_no_vm_reaches_is_not_judged() {
    let judge = |maximum: f64, over_ios: f64| {
        let own = vm(8e6, Estimate::exact(8e6));
        let own = VmView { rates: Rates { maximum, ..own.rates }, over_ios: Some(over_ios), ..own };
        let all = judged(Form::Array, vec![of_vms("VM01-05 max 1000", vec![own])], "maximum");
        let [claim] = &all[..] else { panic!("{all:?}") };
        claim.verdict
    };
    assert_eq!(judge(24e6, -240.0), Verdict::NotJudged);
    assert_eq!(judge(24e6, 2.0), Verdict::NotHeld, "it had more than the formula gives it");
    assert_eq!(judge(8e6, -0.5), Verdict::Held);
}

/// "6 VMs promised 73.73 MB/s each" were one of them, and five with 1.64 and 0.41.
#[test]
fn minimums_that_differ_are_not_told_as_one() {
    let note = |minimums: &[f64]| {
        let vms = minimums.iter().map(|minimum| promised(*minimum, 14.0)).collect();
        let all = judged(Form::Array, vec![of_vms("VM01-05 min 2000", vms)], "minimum");
        let [claim] = &all[..] else { panic!("{all:?}") };
        claim.reason.clone().unwrap_or_default()
    };
    assert_eq!(note(&[10.0]), "promised 10.00 MB/s, it gets 14.00 on average");
    assert_eq!(note(&[10.0, 10.0]), "2 VMs promised 10.00 MB/s each get 14.00 on average, 28.0 together");
    assert_eq!(note(&[10.0, 2.0]), "2 VMs promised 2.00 to 10.00 MB/s get 28.0 together");
}

/// Hosts that share: phases with minimums that no scheduler can keep are not judged, with a host killed, too.
#[test]
fn a_phase_out_of_reach_is_not_judged_with_a_host_killed_either() {
    let judge = |fit: Fit| {
        let nodes = NodeFaults { killed: vec![1], hung: vec![] };
        let short = VmView { due: Estimate::exact(10e6), ..promised(0.0, 5.0) };
        let phase = PhaseView { fit, has_fault: true, ..of_vms("host 1 is killed", vec![short]) };
        let played = Played {
            name: phase.name.clone(),
            from_ns: 0,
            to_ns: 30_000_000_000,
            policies: vec![],
            still: vec![],
            nodes,
            store: StoreState::There,
        };
        let course = Course { phases: vec![played], ..course(Form::Coordinated) };
        let view = View { course: &course, phases: vec![phase] };
        let (qos, _) = Qos::load(None).expect("built in");
        let all = qos.claims.judge(World::Model, &measures(&qos, &[view], None), false);
        let own = all.into_iter().find(|claim| claim.id.starts_with("nodes.killed")).expect("a claim");
        (own.verdict, own.estimate.map(f64::round))
    };
    // 5 of 10 MB/s, and one write of 512 KiB in 5 s.
    assert_eq!(judge(Fit::Fits), (Verdict::NotHeld, Some(51.0)));
    assert_eq!(judge(Fit::OutOfReach("no scheduler can".into())).0, Verdict::NotJudged);
}
