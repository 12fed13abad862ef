//! The report of points whose truth is known: a port that nobody filled, controllers that are nearly full,
//! two servers on one group.

use std::sync::OnceLock;

use super::claims;
use super::ramp::FittedOn;
use super::results::*;
use super::survey::{Batches, Survey};
use super::{figures, summary, tables};
use lab_core::claim::JudgedClaim;
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;
use lab_core::stats;
use lab_core::verdict::Verdict;
use lab_tools::predict::{Basis, Forecast};

const GROUPS: u32 = 4;

/// I/Os per second of each server: all alike but those that share a group, which is full.
fn rates(layout: Layout, servers: u32) -> Vec<f64> {
    let sharers = |n: u32| (0..servers).filter(|other| other % GROUPS == n % GROUPS).count() as f64;
    let rate = |n| match layout {
        Layout::Internal | Layout::Given => 170.0,
        Layout::Raid1x8 => 400.0,
        Layout::Raid5x4 => 300.0 / sharers(n),
    };
    (0..servers).map(rate).collect()
}

fn resource(name: String, kind: ResourceKind, units: u32, utilisation: f64, used_by: Vec<u32>) -> Resource {
    Resource { name, kind, units, utilisation, used_by }
}

fn point(pattern: Pattern, layout: Layout, servers: u32, repeat: u32) -> Point {
    let rates = rates(layout, servers);
    let groups = if layout == Layout::Raid1x8 { 2 * GROUPS } else { GROUPS };
    let total: f64 = rates.iter().sum();
    let wobble = |window: u32| 1.0 + 0.004 * (f64::from(window * 7 + repeat * 3 + servers)).sin();
    let used_by = |g: u32| (0..servers).filter(|n| n % groups == g).collect::<Vec<u32>>();
    let busy = |g: u32| (used_by(g).iter().map(|n| rates[*n as usize]).sum::<f64>() / 410.0).min(1.0);
    let everybody: Vec<u32> = (0..servers).collect();
    let mut resources = vec![
        resource("controller0".into(), ResourceKind::Controller, 1, total * 30e-6, everybody.clone()),
        resource("port0".into(), ResourceKind::Port, 1, total * 20e-6, everybody),
    ];
    for g in 0..groups {
        resources.push(resource(format!("group{g}"), ResourceKind::Group, 1, busy(g), used_by(g)));
        resources.push(resource(format!("g{g}d0"), ResourceKind::Drive, 1, busy(g), used_by(g)));
    }
    let window = |window: u32| Window {
        seconds: 1.0,
        iops: total * wobble(window),
        server_iops: rates.iter().map(|rate| rate * wobble(window)).collect(),
        controller_busy: vec![total * 30e-6 * wobble(window)],
        port_busy: vec![total * 20e-6 * wobble(window)],
        port_mb_per_s: total * 4096.0 / 1e6,
        drive_busy: (0..groups).map(busy).collect(),
        drive_queue_mean: 1.0,
        hit_share: 0.0,
        write_pending: 0.0,
    };
    let server = |iops: &f64| ServerRate {
        iops: *iops,
        mb_per_s: iops * 4096.0 / 1e6,
        response_ms_mean: 4e3 / iops,
        response_ms_p99: 9e3 / iops,
    };
    Point {
        pattern,
        layout,
        servers,
        repeat,
        packing: vec![],
        share_of: 0,
        lost: false,
        seed: 1,
        per_server: rates.iter().map(server).collect(),
        windows: (0..6).map(window).collect(),
        resources: if layout == Layout::Internal { vec![] } else { resources },
        hit_share: 0.0,
        warm_up_s: 1.0,
        settled: true,
        virtual_s: 7.0,
        array_ios: 1000,
    }
}

/// A storm whose last server runs after so many seconds, and in which the drives read so many bytes.
pub(crate) fn storm(
    layout: Layout,
    form: Form,
    servers: u32,
    (last_s, drive_read_bytes): (f64, u64),
) -> Storm {
    Storm {
        layout,
        form,
        servers,
        repeat: 0,
        seed: 1,
        up_s: vec![last_s; servers as usize],
        read_bytes: 1000,
        commands: 10,
        drive_reads: 5,
        drive_read_bytes,
        drive_write_bytes: 0,
        controller_busy: 0.1,
        port_busy: 0.1,
        drive_busy: 0.1,
    }
}

pub(crate) fn results() -> Results {
    let mut points = Vec::new();
    for pattern in Pattern::ALL {
        for layout in Layout::MODELLED {
            let most = if layout == Layout::Internal { 1 } else { 8 };
            points
                .extend((1..=most).flat_map(|n| (0..3).map(move |repeat| point(pattern, layout, n, repeat))));
        }
    }
    Results {
        version: "0".into(),
        scenario: "sanboot".into(),
        world: "model".into(),
        seed: 1,
        quick: false,
        stopped: false,
        conditions: vec![],
        points,
        packed: vec![],
        lost: vec![],
        held_out: vec![],
        storms: vec![],
        takeovers: vec![],
        digest: None,
    }
}

/// The same with something of everything else that a run has.
fn whole() -> Results {
    let mut results = results();
    for form in Form::ALL {
        results.storms.extend([1, 2].map(|n| storm(Layout::Raid1x8, form, n, (10.0 + f64::from(n), 7))));
    }
    for pattern in Pattern::HELD_OUT {
        results.held_out.extend((1..=8).map(|n| point(pattern, Layout::Raid1x8, n, 0)));
    }
    for pattern in [Pattern::RandomMix, Pattern::SequentialMix] {
        results.takeovers.extend(
            [Way::Killed, Way::Moved]
                .map(|way| super::takeover::tests::takeover(pattern, 8, way, (5.0, 90.0))),
        );
    }
    results
}

/// Its survey, made once: each forecast is a hundred samples.
fn survey() -> &'static Survey<'static> {
    static RESULTS: OnceLock<Results> = OnceLock::new();
    static SURVEY: OnceLock<Survey<'static>> = OnceLock::new();
    SURVEY.get_or_init(|| Survey::new(RESULTS.get_or_init(whole)))
}

fn judged_by(survey: &Survey<'_>) -> Vec<JudgedClaim> {
    let (scenario, _) = super::scenario::Sanboot::load(None).expect("built in");
    scenario.claims.judge(World::Model, &claims::measures(survey), false)
}

fn judged(results: &Results) -> Vec<JudgedClaim> {
    judged_by(&Survey::new(results))
}

#[test]
fn every_claim_has_a_figure_and_every_section_what_it_names() {
    let survey = survey();
    let figures = figures::figures(survey);
    for claim in judged_by(survey) {
        assert!(figures.iter().any(|f| Some(&f.id) == claim.figure.as_ref()), "{}: no figure", claim.name);
    }
    for figure in &figures {
        assert!(
            figure.series.iter().all(|s| s.points.iter().flatten().all(|v| v.is_finite())),
            "{}",
            figure.id
        );
    }
    for table in tables::tables(survey) {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.id);
    }
}

#[test]
fn the_answer_names_the_first_server_too_many() {
    let survey = survey();
    // RAID5: the fifth shares a group and gets 150, the mean is 240; with 7 servers it is 171, with 8 it is
    // 150.
    assert_eq!(survey.carried(Layout::Raid5x4).first, Some((8, Pattern::RandomRead)));
    assert_eq!(survey.carried(Layout::Raid1x8).first, None);
    let answer = summary::answer(survey);
    assert!(
        answer.contains("RAID5 × 4 carries 7 servers") && answer.contains("RAID1 × 8 carries all 8"),
        "{answer}"
    );
    assert!(answer.chars().count() < 160, "{answer}");
    assert!(summary::details(survey).contains("the next one costs each"));
}

#[test]
fn claims_are_judged_by_their_intervals() {
    let judged = judged_by(survey());
    let verdict = |id: &str| judged.iter().find(|j| j.id == id).expect("the claim").verdict;
    assert!(verdict("random_read.raid5") == Verdict::Held);
    assert!(verdict("random_read.raid1") == Verdict::Held);
    assert!(verdict("random_write.least") == Verdict::NotHeld);
    assert!(verdict("sequential_mix.ninth") == Verdict::NotJudged);
    assert!(verdict("port") == Verdict::NotHeld);
}

#[test]
fn outstanding_ios_come_from_littles_law_where_nobody_states_them() {
    let results = results();
    let six = FittedOn::UpTo(6);
    let ramp = super::ramp::ramp(&results, Pattern::RandomRead, Layout::Raid1x8, six).expect("a ramp");
    assert_eq!((ramp.outstanding, ramp.groups, ramp.servers().len()), (4, 8, 6));
    assert!(super::ramp::ramp(&results, Pattern::RandomRead, Layout::Internal, six).is_none());
    let json = serde_json::to_string(&results).expect("text");
    let read: Results = serde_json::from_str(&json).expect("the same");
    assert_eq!(read.points.len(), results.points.len());
}

/// Points with a share of hits of 2, a window of -1 s, other servers or any other number were forecast from.
#[test]
fn points_that_were_changed_or_contradict_themselves_are_refused() {
    let whole = Results { points: vec![point(Pattern::RandomRead, Layout::Raid1x8, 2, 0)], ..results() };
    let json = |results: &Results| serde_json::to_string(results).expect("text");
    let sealed = whole.clone().sealed();
    assert_eq!(Results::read(&json(&sealed)), Ok(sealed.clone()));
    assert_eq!(Results::read(&json(&whole)), Ok(whole.clone()), "of a run before points had a digest");
    type Change = fn(&mut Results);
    let mut changed = whole.clone();
    changed.storms.push(Storm { up_s: vec![-1.0], ..storm(Layout::Raid1x8, Form::Copies, 1, (1.0, 1)) });
    let refused = Results::read(&json(&changed)).expect_err("a time below nothing");
    assert!(refused.contains("boot storm"), "{refused}");
    let changes: [(Change, &str); 11] = [
        // Its interval became narrower with each copy.
        (|r| r.points.push(r.points[0].clone()), "stands there twice"),
        (|r| r.points[0].hit_share = 2.0, "share of hits"),
        (|r| r.points[0].hit_share = -1.0, "share of hits"),
        (|r| r.points[0].per_server[1].iops = 1e308, "is not in its range"),
        (|r| r.points[0].servers = 3, "as many servers"),
        (|r| r.points[0].servers = 0, "as many servers"),
        (|r| r.points[0].windows[2].seconds = -1.0, "a window has no time"),
        (|r| r.points[0].windows[2].seconds = 0.0, "a window has no time"),
        (|r| r.points[0].windows[2].drive_busy.clear(), "other servers, controllers, ports or drives"),
        (|r| r.points[0].windows[2].iops *= 2.0, "are not those of the window"),
        (|r| r.points[0].resources[0].used_by.push(2), "a server uses it that does not run"),
    ];
    for (change, said) in changes {
        let mut changed = whole.clone();
        change(&mut changed);
        let refused = Results::read(&json(&changed)).expect_err(said);
        assert!(refused.contains(said) && refused.contains("random_read, raid1x8"), "{said}: {refused}");
    }
    let mut other = sealed.clone();
    other.points[0].per_server[0].response_ms_p99 *= 2.0;
    assert!(Results::read(&json(&other)).expect_err("changed").contains("was changed after the run"));
    let more = json(&sealed).replacen("\"servers\":2", "\"servers\":2,\"more\":1", 1);
    assert!(Results::read(&more).expect_err("more").contains("unknown field `more`"));
}

#[test]
fn a_ramp_of_a_run_is_predicted() {
    let results = results();
    let whole =
        super::ramp::predicted(&results, Pattern::SequentialRead, Layout::Raid1x8, FittedOn::UpTo(8), 8);
    let Forecast { points, .. } = whole.expect("a ramp").expect("a prediction");
    for point in points {
        assert!((point.iops.median / f64::from(point.servers) / 400.0 - 1.0).abs() < 0.05, "{point:?}");
    }
}

/// A group that has lost a drive gives half of what the others do: no forecast, whatever the mean says.
#[test]
fn a_group_that_has_lost_a_drive_is_a_reason_to_refuse() {
    let (pattern, layout, on) = (Pattern::RandomRead, Layout::Raid1x8, FittedOn::UpTo(6));
    let healthy = super::ramp::ramp(&results(), pattern, layout, on).expect("a ramp").uneven;
    assert!(healthy.is_some_and(|uneven| uneven.share > 0.99), "{healthy:?}");
    let mut results = results();
    results.points.retain(|point| (point.pattern, point.layout) == (pattern, layout));
    let of_eight = |servers| Point { lost: true, ..point(pattern, layout, servers, 0) };
    results.lost = [1, 2, 3, 4, 5, 6, 8].map(of_eight).into();
    let lost = |results: &Results| {
        let judged = judged(results).into_iter().find(|claim| claim.id == "prediction.lost").expect("stated");
        (judged.verdict, judged.estimate, judged.reason.unwrap_or_default())
    };
    let (verdict, _, reason) = lost(&results);
    assert!(verdict == Verdict::Held && reason.contains("the worst"), "alike: {reason}");
    for point in &mut results.lost {
        point.per_server[0].iops *= 0.5;
    }
    let (verdict, off, reason) = lost(&results);
    assert!(verdict == Verdict::Held && off == Some(0.0), "{reason}");
    assert!(reason.contains("refused") && reason.contains("gives 50 %"), "{reason}");
    // Eight servers give a third of what was predicted for them.
    for point in &mut results.lost {
        point.per_server[0].iops *= 2.0;
        let fall = if point.servers == 8 { 3.0 } else { 1.0 };
        for window in &mut point.windows {
            window.iops /= fall;
            window.server_iops.iter_mut().for_each(|iops| *iops /= fall);
        }
    }
    assert!(lost(&results).0 == Verdict::NotHeld && lost(&results).1 == Some(1.0));
}

/// What no forecast was made for is judged by the same bar, and by how much of it is refused.
#[test]
fn loads_that_nobody_fitted_are_judged_by_the_same_bar() {
    let mut results = results();
    results.points.retain(|point| point.pattern == Pattern::RandomRead);
    let of = |pattern, servers| point(pattern, Layout::Raid1x8, servers, 0);
    results.held_out =
        Pattern::HELD_OUT.iter().flat_map(|p| [1, 2, 3, 4, 5, 6, 8].map(|n| of(*p, n))).collect();
    let verdicts = |results: &Results| {
        let judged = judged(results);
        ["prediction.held_out", "prediction.held_out_refused"]
            .map(|id| judged.iter().find(|claim| claim.id == id).expect("stated").clone())
            .map(|claim| (claim.verdict, claim.estimate))
    };
    assert_eq!(verdicts(&results), [(Verdict::Held, Some(0.0)); 2]);
    // Eight servers give a third of what was predicted for them.
    let mut falls = results.clone();
    for point in falls.held_out.iter_mut().filter(|point| point.servers == 8) {
        for window in &mut point.windows {
            window.iops /= 3.0;
            window.server_iops.iter_mut().for_each(|iops| *iops /= 3.0);
        }
    }
    assert_eq!(verdicts(&falls), [(Verdict::NotHeld, Some(2.0)), (Verdict::Held, Some(0.0))]);
    // Two numbers of servers are no forecast: two of four rows are refused.
    results.held_out.retain(|point| point.pattern == Pattern::Boots || [1, 2, 3, 8].contains(&point.servers));
    assert_eq!(verdicts(&results), [(Verdict::Held, Some(0.0)), (Verdict::NotHeld, Some(50.0))]);
}

/// The quick run said "3 (measured)" of three servers that were never run.
#[test]
fn a_row_says_measured_only_where_points_csv_has_that_number_of_servers() {
    let mut results = results();
    results.points.retain(|point| ![3, 7].contains(&point.servers));
    let csv = super::write::points_csv(&results);
    for predicted in Survey::new(&results).whole.iter().filter(|p| p.layout == Layout::Raid1x8) {
        let forecast = predicted.forecast.as_ref().expect("a prediction");
        let rows: Vec<u32> = forecast.points.iter().map(|p| p.servers).collect();
        assert_eq!(rows, (1..=rows.len() as u32).collect::<Vec<_>>());
        assert!(rows.len() >= 8, "{forecast:?}");
        for row in &forecast.points {
            let key = format!("\n{},{},{},", predicted.pattern.name(), predicted.layout.name(), row.servers);
            let of_servers = csv.lines().filter(|line| format!("\n{line}").starts_with(&key));
            let iops: f64 = of_servers
                .map(|line| line.split(',').nth(5).expect("iops").parse::<f64>().expect("a number"))
                .sum();
            // Three repeats of each.
            let measured = (iops > 0.0).then_some(iops / 3.0);
            assert_eq!(row.basis == Basis::Measured, measured.is_some(), "{key}{row:?}");
            let is_near = measured.is_none_or(|iops| (row.iops.median / iops - 1.0).abs() < 0.01);
            assert!(is_near, "{key}{row:?} {measured:?}");
        }
    }
}

#[test]
fn every_row_that_is_judged_is_in_the_count_of_the_quick_form_too() {
    let mut results = results();
    (results.quick, results.points) =
        (true, results.points.iter().filter(|point| point.repeat == 0).cloned().collect());
    let rows = super::bar::rows(&results);
    // Three, seven and eight servers, six patterns, two layouts.
    assert_eq!(rows.len(), 3 * 6 * 2);
    for claim in judged(&results).iter().filter(|claim| claim.id.starts_with("prediction.")) {
        let is_judged = claim.verdict != Verdict::NotJudged;
        let left_out = ["prediction.far", "prediction.lost", "prediction.held_out"];
        let is_run = !left_out.iter().any(|id| claim.id.starts_with(id));
        assert_eq!(is_judged, is_run, "{}: {:?}", claim.id, claim.verdict);
    }
}

/// Ctrl-C before the points that predictions need besides made each ramp one that is refused, and the promise
/// not held.
#[test]
fn a_run_that_was_stopped_judges_no_prediction() {
    let mut results = Results { stopped: true, ..results() };
    results.points.retain(|point| point.pattern == Pattern::RandomRead);
    let judged = judged(&results);
    let all = |id: &str, verdict: Verdict| {
        judged.iter().filter(|claim| claim.id.starts_with(id)).all(|claim| claim.verdict == verdict)
    };
    assert!(all("prediction.", Verdict::NotJudged));
    assert!(all("random_read.raid5", Verdict::Held), "what was run is judged");
}

/// The windows of one repeat drift; taken as independent they gave an interval that was too narrow.
#[test]
fn the_windows_of_one_repeat_are_no_repeats() {
    let mut results = results();
    let place = (Pattern::SequentialRead, Layout::Raid1x8, 8);
    results.points.retain(|point| point.repeat == 0 && point.pattern == place.0);
    for point in &mut results.points {
        for (n, window) in point.windows.iter_mut().enumerate() {
            window.port_mb_per_s = 100.0 + n as f64;
        }
    }
    let survey = Survey::new(&results);
    let values = survey.port_mb_per_s(place.0, place.1, place.2);
    let Batches::Windows(windows) = &values else { panic!("{values:?}") };
    let (found, plain) = (values.mean().expect("windows"), stats::mean(windows));
    assert_eq!(found, stats::mean_of_windows(windows));
    assert!(found.high - found.mean > 1.5 * (plain.high - plain.mean), "{found:?} {plain:?}");
    let port = judged(&results).into_iter().find(|claim| claim.id == "port").expect("the claim");
    assert_eq!((port.low, port.high), (Some(found.low), Some(found.high)));
}

/// A ratio of servers took windows of one run for repeats, and left those out in which nothing was done.
#[test]
fn a_ratio_of_servers_counts_windows_as_their_mean_does() {
    let mut results = results();
    results.points.retain(|point| point.repeat == 0 && point.pattern == Pattern::RandomRead);
    let eight = (Layout::Raid1x8, 8);
    let is_eight = |point: &&mut Point| {
        (point.pattern, point.layout, point.servers) == (Pattern::RandomRead, eight.0, eight.1)
    };
    let over = |results: &Results| {
        Survey::new(results).over(Pattern::RandomRead, eight, (Layout::Internal, 1)).expect("both")
    };
    for point in results.points.iter_mut().filter(is_eight) {
        for (n, window) in point.windows.iter_mut().enumerate() {
            window.iops = 8.0 * (340.0 + 20.0 * n as f64);
        }
    }
    let drifting = over(&results);
    let windows = Survey::new(&results).estimate(Pattern::RandomRead, eight.0, eight.1).expect("windows");
    let half = |e: stats::Estimate| (e.high - e.mean) / e.mean;
    assert!((drifting.mean - windows.mean / 170.0).abs() < 0.02, "{drifting:?}");
    assert!(half(drifting) >= half(windows), "{drifting:?} is surer than {windows:?}");
    for point in results.points.iter_mut().filter(is_eight) {
        point.windows.iter_mut().skip(3).for_each(|window| window.iops = 0.0);
    }
    let stood_still = over(&results);
    assert!((stood_still.mean - 0.5 * 360.0 / 170.0).abs() < 0.02, "{stood_still:?}");
}

/// What the runs that a prediction is held against had in the cache once went into it.
#[test]
fn a_prediction_knows_nothing_of_the_points_that_it_is_held_against() {
    let mut results = results();
    let kept = [Pattern::RandomWrite, Pattern::SequentialRead];
    results.points.retain(|point| kept.contains(&point.pattern));
    let pending = |servers: u32| if servers <= 6 { 0.5 } else { 0.7 };
    for point in &mut results.points {
        let held = pending(point.servers);
        point.windows.iter_mut().for_each(|window| window.write_pending = held);
    }
    let limit = |results: &Results, on| {
        super::ramp::ramp(results, Pattern::RandomWrite, Layout::Raid5x4, on).expect("a ramp").write_limit
    };
    assert_eq!(limit(&results, FittedOn::Only(&[1, 2, 4, 5, 6])), Some(0.5));
    assert_eq!(limit(&results, FittedOn::UpTo(8)), Some(0.7));
    let tried =
        |results: &Results| Survey::new(results).tried.into_iter().map(|p| p.forecast).collect::<Vec<_>>();
    let before = tried(&results);
    for point in results.points.iter_mut().filter(|point| ![1, 2, 4, 5, 6].contains(&point.servers)) {
        point.windows.iter_mut().for_each(|window| window.write_pending = 0.9);
    }
    assert!(before == tried(&results));
}

/// Zero, less than nothing, beyond any machine, no number, nothing: each number of the scenario, one at a
/// time.
#[test]
fn every_number_at_its_extremes_is_refused_or_played() {
    use lab_core::scenario::extremes::play_all;
    let (refused, played) = play_all(super::scenario::Sanboot::BUILT_IN.0, |text| {
        let Ok(scenario) = super::scenario::Sanboot::parse(text, "x.toml") else { return false };
        let plan = super::run::Plan { seed: 1, quick: true, layouts: vec![Layout::Internal], threads: 1 };
        // The arrays take a second each to be made.
        drop(super::run::run(&scenario.quick(), &plan, &lab_core::interrupt::Stop::after_looks(4)));
        true
    });
    assert!(refused > 50 && played > 10, "{refused} refused, {played} played");
}
