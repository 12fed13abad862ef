//! One server or two for some seconds: the same seed gives the same counters, the formats differ where they
//! must, and the report has what it must.

use super::super::scenario::Refused;
use super::Ran;
use super::bed::{Bed, Shape, set};
use super::course::{ArrayWindow, Course, Growth, GrowthWindow, RampStep, Stage, Staged, Which};
use super::disk::Format;
use super::growth::Ground;
use super::play::{self, Set, Use, Watcher};
use super::staged;
use crate::beyond;
use crate::claims::measures;
use crate::figures::figures;
use crate::scenario::Fileserver;
use lab_core::interrupt::Stop;
use lab_core::record::World;
use lab_core::scenario::ScenarioFile;
use lab_core::scenario::frame::Frame;
use std::collections::BTreeSet;

fn small() -> Fileserver {
    let (mut small, _) = Fileserver::load(None).expect("built in");
    small = small.quick();
    (small.published.servers, small.published.trees, small.published.dummy_trees) = (1, 16, 0);
    small.published.disk.0 = 64 << 30;
    small.array.cache.0 = 64 << 20;
    small.run.seconds = 8;
    let seconds = std::time::Duration::from_secs;
    (small.run.from.0, small.run.server_every.0, small.run.array_every.0) =
        (seconds(2), seconds(1), seconds(2));
    small
}

/// Nobody waits for it.
fn run(scenario: &Fileserver, shape: Shape, of: (Which, Use), stop: &Stop) -> Course {
    tried(scenario, shape, of, stop).expect("a run")
}

fn tried(
    scenario: &Fileserver,
    shape: Shape,
    (which, what): (Which, Use),
    stop: &Stop,
) -> anyhow::Result<Course> {
    let (plan, layout) = set(scenario, 1).expect("a set");
    let filled = (which.format != Format::Fixed).then_some(&*layout);
    let bed = Bed::make(scenario, shape, filled, 1).expect("a bed");
    let watcher = Watcher { stop, tell: &|_, _| {} };
    play::run(scenario, (&bed, &Set { plan, layout }), (which, &scenario.run), what, &watcher)
}

fn course(which: Which) -> Course {
    let scenario = small();
    let what = Use::published(&scenario, 1, which.os_cache, 1);
    run(&scenario, Shape::published(which.format, 1), (which, what), &Stop::default())
}

#[test]
fn the_same_seed_gives_the_same_counters_to_the_byte() {
    let text = || serde_json::to_string(&course(Which::VHDX)).expect("text");
    let first = text();
    assert_eq!(first, text());
}

#[test]
fn all_formats_serve_the_clients_and_small_blocks_grow_more_often() {
    let [dynamic, fixed, vhdx] = [Which::DYNAMIC, Which::FIXED, Which::VHDX].map(course);
    for course in [&dynamic, &fixed, &vhdx] {
        assert_eq!((course.hosts.len(), course.arrays.len()), (8, 4));
        let mb = course.of_servers(|w| w.tool_mb_per_s);
        assert!(mb.iter().all(|mb| (5.0..125.0).contains(mb)), "{mb:?}");
        // The array reads no less than the clients get.
        let read = course.of_lus(|w| w.read_mb_per_s).iter().sum::<f64>();
        assert!(read > 0.5 * mb.iter().sum::<f64>(), "{read}");
        let busy = |w: &ArrayWindow| w.controller_percent[0] > 0.0 && w.controller_percent[1] == 0.0;
        assert!(course.arrays.iter().all(busy));
        // One server: the host has 32 GiB, and it 2.
        assert_eq!(course.hosts[0].available_mb, 30.0 * 1024.0 * 1024.0 * 1024.0 / 1e6);
    }
    // In so few seconds a VHDX may not need a second one of its blocks, which are 16 times as large.
    assert!(dynamic.grown_blocks[0] > 5 * vhdx.grown_blocks[0]);
    assert_eq!((fixed.grown_blocks[0], fixed.commands.besides, fixed.commands.crooked), (0, 0, 0));
    // Blocks of 32 MiB need less to be written of them than those of 2 MiB, and nothing of them lies off 4
    // KiB.
    assert!(vhdx.commands.besides * 5 < dynamic.commands.besides, "{:?}", vhdx.commands);
    // Of a VHD's blocks, which are 512 bytes further from one to the next, every eighth happens to lie on
    // them.
    assert!(vhdx.commands.crooked == 0 && dynamic.commands.crooked * 4 > dynamic.commands.payload * 3);
}

#[test]
fn servers_are_on_their_hosts_and_lus_at_their_controllers() {
    let scenario = small();
    let what = Use { per_host: 1, ..Use::published(&scenario, 2, false, 1) };
    let shape = Shape { owners: 2, ..Shape::published(Format::Fixed, 2) };
    let spread = run(&scenario, shape, (Which::FIXED, what), &Stop::default());
    assert_eq!(spread.files.len(), 2);
    for window in &spread.arrays {
        let [first, second] = window.controller_percent[..] else { panic!("two controllers") };
        assert!(first > 0.0 && second > 0.0 && first < 3.0 * second && second < 3.0 * first, "{window:?}");
        assert!(window.lus.iter().all(|lu| lu.read_iops > 0.0));
    }
    // Each host works as one with one server does.
    let alone = course(Which::FIXED);
    let [both, one] = [&spread, &alone].map(|c| c.of_host(|w| w.logical_percent).iter().sum::<f64>());
    assert!((0.5..2.0).contains(&(both / one)), "{both} and {one}");
}

/// The first I/O behind its end was a panic: the files of the 16 trees are more than 9.1 GB.
#[test]
fn a_client_whose_disk_the_files_do_not_fit_on_is_refused() {
    let mut scenario = small();
    scenario.client.drive = "cheetah-9lp".into();
    let of = (Which::FIXED, Use::published(&scenario, 1, false, 1));
    let refused = tried(&scenario, Shape::published(Format::Fixed, 1), of, &Stop::default());
    let said = format!("{:#}", refused.map(drop).expect_err("no room"));
    assert!(said.contains("client.drive: \"cheetah-9lp\" has 8683 MiB"), "{said}");
}

#[test]
fn a_run_that_is_stopped_keeps_its_whole_windows() {
    let (scenario, stop) = (small(), Stop::default());
    stop.ask();
    let what = Use::published(&scenario, 1, false, 1);
    let course = run(&scenario, Shape::published(Format::Fixed, 1), (Which::FIXED, what), &stop);
    assert_eq!((course.hosts.len(), course.arrays.len()), (2, 1));
}

#[test]
fn each_published_figure_has_a_panel() {
    let scenario = small();
    let courses: Vec<Course> = [Which::DYNAMIC, Which::FIXED, Which::CACHED, Which::VHDX].map(course).into();
    let four = courses[1].clone();
    let ramp = vec![RampStep { owners: 1, servers: 1, course: four }];
    let ran = Ran { courses, ramp, growths: vec![], staged: vec![], stopped: false };
    let measured = [measures(&ran), beyond::measures(&ran)].concat();
    let judged = scenario.claims.judge(World::Model, &measured, false);
    let figures = [figures(&scenario, &ran), beyond::figures(&scenario, &ran)].concat();
    let frame = Frame::read(Fileserver::BUILT_IN.0, "fileserver").expect("it reads");
    assert_eq!(frame.published_figures.len(), 23);
    let panels = |id: &str| figures.iter().find(|f| f.id == id).map(|f| f.panels.len().max(1));
    // One panel for each published figure; but 7-6 shows the state of the array at once.
    let named: BTreeSet<&str> = frame.published_figures.iter().filter_map(|f| f.figure.as_deref()).collect();
    for figure in named.iter().filter(|id| **id != "busy") {
        let wanted = frame.published_figures.iter().filter(|f| f.figure.as_deref() == Some(figure)).count();
        assert_eq!(panels(figure), Some(wanted), "{figure}");
    }
    assert_eq!((named.len(), panels("busy")), (9, Some(4)));
    // And every claim names a figure that is there.
    let measured = judged.iter().filter(|claim| claim.estimate.is_some());
    assert!(measured.clone().count() > 30);
    assert!(measured.into_iter().all(|claim| claim.figure.as_deref().and_then(panels).is_some()));
    assert!(figures.iter().all(|f| f.series.iter().all(|s| !s.points.is_empty())));
}

/// A pool that is full for a while, of one server with a small cache.
fn full(refused: Refused) -> Growth {
    let mut scenario = small();
    (scenario.server.cache.0, scenario.server.refused) = (256 << 20, refused);
    (scenario.growth.seconds, scenario.growth.free.0) = (40, 64 << 20);
    let watcher = Watcher { stop: &Stop::default(), tell: &|_, _| {} };
    Ground::make(&scenario, 1).expect("a bed").run(false, 1, &watcher).expect("a run")
}

/// Sixteen workers with two requests each: those that are held back ask for no read any more.
#[test]
fn a_full_pool_holds_readers_up_only_if_the_server_keeps_what_was_refused() {
    for refused in [Refused::Kept, Refused::Discarded] {
        let growth = full(refused);
        let (first, last) = growth.refused_s.expect("the pool was full");
        assert!(last <= growth.expanded_s + 2.0, "{last}");
        let within = |w: &&GrowthWindow| w.at_s > first && w.at_s <= growth.expanded_s;
        let full: Vec<&GrowthWindow> = growth.windows.iter().filter(within).collect();
        assert!(full.len() > 10 && full.iter().all(|w| w.refused > 0), "{full:?}");
        let silent: Vec<&GrowthWindow> = full.iter().copied().filter(|w| w.read_mb_per_s == 0.0).collect();
        let lost_mb: f64 = growth.windows.iter().map(|w| w.lost_mb).sum();
        let lost_files: u64 = growth.windows.iter().map(|w| w.lost_files).sum();
        match refused {
            Refused::Kept => {
                // A worker at the end of a file has one request instead of two.
                let are_held = silent.iter().all(|w| w.held_back >= 30);
                assert!(2 * silent.len() > full.len() && are_held, "{full:?}");
                assert_eq!((lost_mb, lost_files), (0.0, 0));
            }
            Refused::Discarded => {
                // Up to 31 of the 32 requests may be refused writes at a time: a second without a read is
                // chance, two of them are not.
                let stands_still = full.windows(2).any(|two| two.iter().all(|w| w.read_mb_per_s == 0.0));
                assert!(!stands_still && 5 * silent.len() < full.len(), "{full:?}");
                assert!(lost_mb > full.len() as f64 && lost_files > 16, "{lost_mb} MB, {lost_files} files");
            }
        }
        let after = growth.windows.iter().filter(|w| w.at_s > growth.expanded_s + 2.0);
        assert!(after.map(|w| w.read_mb_per_s + w.write_mb_per_s).sum::<f64>() > 0.0);
    }
}

/// One server, on a pool that is full within seconds.
fn grown(format: Format, stop: &Stop) -> Staged {
    let mut scenario = small();
    scenario.server.cache.0 = 256 << 20;
    let own = &mut scenario.staged;
    (own.trees, own.fill.0, own.seconds, own.full_seconds) = (2, 512 << 20, 3, 4);
    (own.drive_bytes, own.disk.0) = (Some(lab_core::quantity::Size(1 << 30)), 128 << 30);
    own.free.0 = 384 << 20;
    let watcher = Watcher { stop, tell: &|_, _| {} };
    staged::Ground::make(&scenario, format, 1).expect("a bed").run(1, &watcher).expect("a run")
}

#[test]
fn everything_grows_comes_back_and_fills_up_under_both_formats() {
    for format in [Format::Dynamic, Format::Vhdx] {
        let run = grown(format, &Stop::default());
        assert!(run.stages.iter().map(|span| span.stage).eq(Stage::ALL), "{:?}", run.stages);
        let span = |stage| run.span(stage).expect("it was run");
        // The group has the size of the first one, and takes nothing from it.
        let [before, after] = [Stage::Full, Stage::GroupJoined].map(span);
        assert_eq!(after.size_bytes, 2 * before.size_bytes);
        assert!(run.seen_s.is_some_and(|s| s < 1.0), "{:?}", run.seen_s);
        // What is deleted is the disk's no more, and the pool's when the file has been compacted.
        assert!(run.deleted_bytes <= 512 << 20 && run.deleted_bytes > 256 << 20, "{run:?}");
        assert_eq!(run.shrunk_bytes, 0);
        assert!(run.compacted_bytes * 10 > (run.deleted_bytes - run.reused_bytes) * 8, "{run:?}");
        assert!((run.returned_bytes + run.reused_bytes) * 10 > run.deleted_bytes * 8, "{run:?}");
        let [heard, again] = run.warned_s[..] else { panic!("two thresholds: {:?}", run.warned_s) };
        let refused = run.refused_s.expect("it was full");
        assert!(heard < again && again < refused, "{heard}, {again}, {refused}");
        assert_eq!(run.wrongly_refused, 0);
        let full = run.seconds(&[Stage::Full]);
        // One second without a read is chance, as above.
        let stands_still = full.windows(2).any(|two| two.iter().all(|w| w.load.read_mb_per_s == 0.0));
        assert!(full.len() >= 3 && !stands_still, "{full:?}");
        // All files were compared with the same ones where nothing grows, and 16 workers were always at one.
        for w in run.seconds(&[Stage::AsMade, Stage::Full, Stage::VolumeGrown]) {
            let spent = w.spent.expect("compared");
            let all_s = spent.reading.here_s + spent.writing.here_s;
            let there_s = spent.reading.there_s + spent.writing.there_s;
            assert!((all_s - 16.0).abs() < 0.1 && there_s > 0.0, "{spent:?}");
        }
        let after = run.seconds(&[Stage::LuGrown, Stage::Filled]);
        assert!(after.iter().all(|w| w.load.refused == 0), "an expanded pool takes writes again");
    }
}

#[test]
fn a_run_that_is_stopped_ends_with_the_stages_that_it_has() {
    let stop = Stop::default();
    stop.ask();
    assert!(grown(Format::Vhdx, &stop).stages.is_empty());
}
