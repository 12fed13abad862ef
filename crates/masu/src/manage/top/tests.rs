//! The view on a screen of memory, and what is said of who waits for whom.

use std::time::Duration;

use admin::{
    Drive, Group, Histograms, Host, HostLun, HostServed, Latencies, Latency, Load, LuLatency, Member,
};
use admin::{Policy, Pool, StageLatency, Status, Volume};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::board::{Tab, Value};
use super::sample::{Sample, between};
use super::view::{Ended, Shown, View};

const SCREENS: [(u16, u16); 5] = [(60, 20), (80, 24), (160, 50), (20, 5), (1, 1)];

fn latencies(bucket: usize, count: u64, ns_each: u64) -> Latencies {
    let mut reads = Latency { sum_ns: count * ns_each, ..Latency::default() };
    reads.counts[bucket] = count;
    Latencies { reads, ..Latencies::default() }
}

fn stage(stage: &'static str, object: &str, count: u64, ns_each: u64) -> StageLatency {
    StageLatency { stage: stage.into(), object: object.into(), latency: latencies(6, count, ns_each) }
}

/// An array with so many volumes of one host, at this second; each volume serves 160 reads of 1 ms a second.
fn sample(second: u64, volumes: u64, name: impl Fn(u64) -> String) -> Sample {
    let mut status = Status { version: "1".into(), uptime_s: second + 1, ..Status::default() };
    let mut histograms = Histograms::default();
    for i in 0..volumes {
        let commands = second * 160 * (i + 1);
        let mut volume = Volume { name: name(i), pool: "p0".into(), ..Volume::default() };
        (volume.counters.commands, volume.counters.read_bytes) = (commands, commands * 4096);
        status.volumes.push(volume);
        let latency = latencies(6, commands, 1_000_000);
        histograms.lus.push(LuLatency { name: name(i), latency });
    }
    let luns = (0..volumes).map(|i| HostLun { lun: i as u16, volume: name(i) }).collect();
    status.hosts.push(Host { name: "kvm1".into(), luns, ..Host::default() });
    let latency = latencies(6, second * 160, 1_000_000);
    histograms.hosts.push(HostServed {
        host: "kvm1".into(),
        commands: second * 160,
        latency,
        ..HostServed::default()
    });
    status.pools.push(Pool {
        name: "p0".into(),
        groups: vec!["g0".into()],
        size_bytes: 100,
        ..Pool::default()
    });
    let members =
        ["d0", "d1"].map(|d| Member { drive: Some(d.into()), state: "active".into(), ..Member::default() });
    status.groups.push(Group { name: "g0".into(), members: members.into(), ..Group::default() });
    for name in ["d0", "d1"] {
        let reads = second * 100;
        status.drives.push(Drive { name: name.into(), state: "active".into(), reads, ..Drive::default() });
    }
    status.loads.push(Load { controller: 0, busy_ms: second * 250, up_ms: second * 1000 });
    histograms.stages.push(stage("drive", "d0", second * 10, 1_000_000));
    histograms.stages.push(stage("drive", "d1", second * 10, 500_000));
    Sample { at: Duration::from_secs(second), status, histograms }
}

fn short(i: u64) -> String {
    format!("v{i}")
}

/// The lines of a screen.
fn screen(view: &mut View, (columns, rows): (u16, u16), (then, now): (&Sample, &Sample)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("in memory");
    let between = between(then, now);
    let shown = Shown { status: &now.status, between: &between, error: None };
    terminal.draw(|frame| view.draw(frame, &shown)).expect("in memory");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..rows).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(view: &mut View, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        assert_eq!(view.key(KeyEvent::new(code, KeyModifiers::NONE)), None, "{key:?}");
    }
}

/// What holds `kvm1` up, when the newest sample is changed in this way.
fn check(change: impl Fn(&mut Sample), expected: Option<&str>) {
    let (then, mut now) = (sample(1, 1, short), sample(2, 1, short));
    change(&mut now);
    let between = between(&then, &now);
    let rows = Tab::Hosts.rows(&now.status, &between);
    assert_eq!(rows[0].values[6], expected.into());
}

#[test]
fn every_tab_fits_every_screen_with_a_thousand_volumes_and_names_of_64_characters() {
    let long = |i: u64| format!("{i:04}-{}", "n".repeat(59));
    let (then, now) = (sample(1, 1000, long), sample(2, 1000, long));
    for size in SCREENS {
        for tab in Tab::ALL {
            let lines = screen(&mut View::new(tab, String::new()), size, (&then, &now));
            let titled = lines.iter().any(|line| line.contains(tab.columns()[0].title));
            assert!(titled || size.0 < 20, "{tab:?} at {size:?}: {lines:#?}");
        }
    }
    let lines = screen(&mut View::new(Tab::Lus, String::new()), (80, 24), (&then, &now));
    assert!(lines[4].starts_with("0999-") && lines[4].contains("160000"), "{lines:#?}");
    assert!(lines[4].contains("nnnn") && lines[3].contains("99 %"), "{lines:#?}");
    assert!(lines[22].starts_with("0981-"), "{lines:#?}");
}

#[test]
fn rates_and_latencies_are_of_the_interval() {
    let (then, now) = (sample(1, 1, short), sample(3, 1, short));
    let between = between(&then, &now);
    let lu = between.lus["v0"];
    assert_eq!((lu.operations, lu.read_bytes, lu.write_bytes), (160.0, 160.0 * 4096.0, 0.0));
    assert_eq!((lu.mean_us(), lu.at_once), (Some(1000.0), 0.16));
    let (drive, timed) = (between.drives["d1"], between.of("drive", "d1"));
    assert_eq!((drive.operations, timed.operations, timed.at_once), (100.0, 160.0, 0.08));
    assert_eq!(between.controllers[&0], 0.25);
}

#[test]
fn lus_and_the_objects_of_a_stage_add_up() {
    let (then, now) = (sample(1, 2, short), sample(2, 2, short));
    let between = between(&then, &now);
    let (all, drives) = (between.all(), between.stage("drive"));
    assert_eq!((all.operations, all.read_bytes, all.at_once), (480.0, 480.0 * 4096.0, 0.48));
    assert_eq!((drives.operations, drives.at_once, drives.latency.operations()), (320.0, 0.24, 20));
}

#[test]
fn an_array_that_was_started_in_between_did_everything_since() {
    let (then, mut now) = (sample(50, 1, short), sample(2, 1, short));
    now.at = then.at + Duration::from_secs(1);
    assert_eq!(between(&then, &now).lus["v0"].operations, 320.0);
}

#[test]
fn keys_choose_sort_filter_pause_and_end() {
    let (then, now) = (sample(1, 12, short), sample(2, 12, short));
    let mut view = View::new(Tab::Waits, String::new());
    let names = |view: &mut View| -> Vec<String> {
        let lines = screen(view, (80, 24), (&then, &now));
        lines[4..23]
            .iter()
            .filter_map(|l| l.split(' ').next())
            .filter(|n| !n.is_empty())
            .map(Into::into)
            .collect()
    };
    press(&mut view, "3");
    assert_eq!(names(&mut view)[..2], ["v11", "v10"]);
    press(&mut view, "r");
    assert_eq!(names(&mut view)[..2], ["v0", "v1"]);
    // By READ, descending: as IOPS.
    press(&mut view, "s");
    assert_eq!(names(&mut view)[..2], ["v11", "v10"]);
    press(&mut view, "/V1\n");
    assert_eq!(names(&mut view), ["v11", "v10", "v1"]);
    press(&mut view, "\u{1b}p");
    assert!(view.is_paused && view.filter.is_empty());
    press(&mut view, "?");
    assert!(screen(&mut view, (80, 24), (&then, &now)).iter().any(|line| line.contains("quit")));
    press(&mut view, "q");
    assert!(!view.is_help, "any key ends the help");
    let key = |c: char, with: KeyModifiers| KeyEvent::new(KeyCode::Char(c), with);
    assert_eq!(view.key(key('q', KeyModifiers::NONE)), Some(Ended::Quit));
    press(&mut view, "/");
    assert_eq!(view.key(key('c', KeyModifiers::CONTROL)), Some(Ended::Interrupted));
}

#[test]
fn the_screen_scrolls_to_the_last_row_and_no_further() {
    let (then, now) = (sample(1, 40, short), sample(2, 40, short));
    let mut view = View::new(Tab::Lus, String::new());
    for code in [KeyCode::End, KeyCode::PageDown, KeyCode::Down] {
        view.key(KeyEvent::new(code, KeyModifiers::NONE));
        let lines = screen(&mut view, (80, 24), (&then, &now));
        assert!(lines[22].starts_with("v0 "), "{lines:#?}");
    }
    view.key(KeyEvent::new(KeyCode::Home, KeyModifiers::NONE));
    assert!(screen(&mut view, (80, 24), (&then, &now))[4].starts_with("v39 "));
}

#[test]
fn an_unknown_column_is_answered_with_those_that_there_are() {
    let mut view = View::new(Tab::Pools, String::new());
    let error = view.sort_by("-colour").expect_err("no such column");
    assert!(error.contains("pool, used, ops/s"), "{error}");
    assert_eq!(view.sort_by("-at-once"), Ok(()));
}

#[test]
fn a_host_is_held_up_by_what_delays_it_most() {
    check(|_| {}, None);
    check(|now| now.status.groups[0].members[1].slow = true, Some("drive d1: does not answer"));
    // 100 more measured reads of 20 ms: 1,600 in a second.
    let busy = |now: &mut Sample| {
        now.histograms.stages.retain(|of| of.object != "d0");
        now.histograms.stages.push(stage("drive", "d0", 110, 20_000_000));
    };
    check(busy, Some("drive d0: 35.0 requests at once, 21.9 ms each"));
    let policy = |maximum_iops: Option<u64>| {
        move |now: &mut Sample| {
            let volume = &mut now.status.volumes[0];
            // Of 160 ms in all.
            volume.qos.waited_us = 120_000;
            volume.qos.policy = Some("gold".into());
            now.status.policies.push(Policy { name: "gold".into(), maximum_iops, ..Policy::default() });
        }
    };
    check(policy(Some(160)), Some("policy gold: 75 % of the time, its maximum or others' turns"));
    check(policy(None), Some("QoS of pool p0: 75 %, others' turns"));
    check(
        |now| now.histograms.stages.push(stage("port", "127.0.0.1:3260", 9, 1_500_000)),
        Some("port: data or memory of commands"),
    );
    check(|now| now.status.loads[0].busy_ms += 700, Some("controller 0: 95 % busy"));
    check(|now| now.histograms.hosts.clear(), None);
}

#[test]
fn numbers_have_few_digits_and_a_unit() {
    use super::board::Kind;
    let shown = |number: f64, kind: Kind| Value::Number(number).shown(kind);
    let micros = [0.0, 999.4, 1_000.0, 9_990.0, 12_345.0, 1_500_000.0].map(|us| shown(us, Kind::Micros));
    assert_eq!(micros, ["0 µs", "999 µs", "1.0 ms", "10.0 ms", "12 ms", "1.5 s"]);
    assert_eq!([0.0, 0.25, 12.6].map(|n| shown(n, Kind::Number)), ["0", "0.2", "13"]);
    assert_eq!(
        (shown(0.954, Kind::Share), shown(2048.0, Kind::BytesPerSecond)),
        ("95 %".into(), "2 KiB/s".into())
    );
    assert_eq!(Value::None.shown(Kind::Micros), "-");
}
