//! The laboratory's commands as a person starts them.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of the program looks at its files and waits for its processes"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "laboratory/processes.rs"]
mod processes;

/// A few seconds of virtual time.
const SCENARIO: &str = r#"
name = "small"
question = "Does it answer?"
cannot_say = ["Anything."]
[run]
warm_up = "1s"
settle = "0s"
window = "1s"
[[array]]
name = "a"
[[array.drive]]
name = "d"
count = 2
model = "savvio-10k1"
[[array.group]]
name = "g"
level = "raid1"
drives = ["d"]
[[array.pool]]
name = "p"
groups = ["g"]
[[volume]]
name = "v"
size = "1GiB"
[[load]]
name = "l"
volumes = ["v"]
access = ["size=8KiB,read=100,random=100"]
rate = 20.0
[[phase]]
name = "all"
time = "4s"
loads = ["l"]
[[claim]]
id = "rate"
name = "Rate"
metric = "rate"
at_least = 1
source = "a test"
"#;

fn masu(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.current_dir(folder);
    command
}

fn folder_with(scenario: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("small.toml"), scenario).expect("a scenario");
    let path = dir.path().to_owned();
    (dir, path)
}

/// A progress line that could not be written decided over the run: `masu run … 2>/dev/full` ended at its
/// first step, without a record, and so did one whose reader had left.
#[test]
fn a_run_is_recorded_though_nothing_can_be_printed_and_its_status_says_what_failed() {
    let (_dir, folder) = folder_with(SCENARIO);
    let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("the device"));
    let gone = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    let run = |name: &str, out: Stdio, err: Stdio| {
        let mut command = masu(&folder);
        command.args(["run", "small.toml", "--out", name]).stdout(out).stderr(err);
        let status = command.status().expect("masu runs");
        let record = fs::read_to_string(folder.join(name).join("results.json")).expect("a record");
        assert!(record.contains("\"standing\": \"held\""), "{name}: {record}");
        status.code()
    };
    let whole = run("whole", Stdio::null(), Stdio::null());
    for (name, err) in [("full", full()), ("gone", gone())] {
        assert_eq!(run(name, Stdio::null(), err), whole, "progress is lost, and nothing else: {name}");
    }
    // A build without the viewer writes everything but the page, and prints no answer.
    if whole == Some(0) {
        assert_eq!(run("answer_full", full(), full()), Some(2));
        assert_eq!(run("answer_gone", gone(), gone()), Some(141));
    }
}

/// Names of a scenario went to the terminal as they were: ESC coloured it, or moved its cursor.
#[test]
fn names_of_a_scenario_do_nothing_on_a_terminal() {
    let evil = "\\u001b[31mred\\u0000\\u009b2J";
    let scenario = SCENARIO
        .replace("\"small\"", &format!("\"{evil}\""))
        .replace("Does it answer?", evil)
        .replace("name = \"Rate\"", &format!("name = \"{evil}\""))
        .replace("name = \"all\"", &format!("name = \"{evil}\""))
        .replace("name = \"a\"", &format!("name = \"{evil}\""));
    let (_dir, folder) = folder_with(&scenario);
    let commands: [&[&str]; 5] = [
        &["run", "small.toml", "--check"],
        &["run", "small.toml", "--out", "a"],
        &["report", "a"],
        &["compare", "a", "a"],
        &["compare", "a", "a", "--json"],
    ];
    for args in commands {
        let output = masu(&folder).args(args).output().expect("masu runs");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        let control = said.chars().find(|c| c.is_control() && *c != '\n');
        assert!(control.is_none() && !said.is_empty(), "{args:?}: {control:?} in {said:?}");
    }
}

/// `--from 0` said that no points share a resource, and `--from 1000` was the same as all.
#[test]
fn a_forecast_from_more_or_fewer_servers_than_a_run_has_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for from in ["0", "129", "1000"] {
        let output = masu(dir.path()).args(["predict", ".", "--from", from]).output().expect("masu runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("is not in 1..=128"), "{from}: {said}");
    }
    let points = "{\"version\":\"0\",\"scenario\":\"s\",\"world\":\"model\",\"seed\":1,\"quick\":true,\"stopped\":false,\
                  \"conditions\":[],\"points\":[]}";
    fs::write(dir.path().join("points.json"), points).expect("points");
    let output = masu(dir.path()).args(["predict", ".", "--from", "9"]).output().expect("masu runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("invalid --from 9: the run measured 0 servers at most"), "{said}");
}

/// `--output` was taken and a table printed, so that a program that asked for JSON had text.
#[test]
fn a_replay_is_printed_in_the_format_asked_for() {
    use std::fmt::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = String::new();
    for n in 0..20_u64 {
        let at = n * 7_919 % 1_000_000 * 4096;
        writeln!(log, "{}, {}, 0, 4096, {at}", n * 20, 3_000_000 + n * 100_000).expect("text");
    }
    fs::write(folder.path().join("trace.log"), log).expect("a trace");
    let replay = |output: &str| {
        let args = ["drive", "replay", "savvio-10k1", "trace.log", "--output", output];
        let done = masu(folder.path()).args(args).output().expect("masu runs");
        (done.status.code(), String::from_utf8(done.stdout).expect("text"))
    };
    let (status, text) = replay("json");
    let told: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!((status, &told["requests"], &told["trace"]), (Some(0), &20.into(), &"trace.log".into()));
    assert!(told["demerit_percent"].as_f64().is_some_and(|percent| percent > 0.0), "{told}");
    assert_eq!(told["curve"].as_array().map(Vec::len), Some(11), "{told}");
    let (status, text) = replay("csv");
    assert!(status == Some(0) && text.starts_with("requests_percent,measured_ms,modelled_ms\r\n"), "{text}");
    assert_eq!(text.lines().count(), 12, "{text}");
    assert_eq!(replay("name"), (Some(2), String::new()), "it has no names");
    assert!(replay("table").1.starts_with("The demerit of"));
}
