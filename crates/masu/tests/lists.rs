//! Lists and single objects of an array with a thousand volumes, in every format; dry runs; secrets.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run a daemon and its clients"
)]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod running;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use running::Running;

const POOL: &str = include_str!("running/pool.toml");
const OBJECTS: usize = 1000;

/// A declaration of a thousand volumes: more than 64 KiB, which was the limit of a request once.
fn volumes() -> String {
    let volume = |i| {
        format!(
            "[[volume]]\nname = \"{i:04}-{}\"\npool = \"p0\"\nsize = \"{}MiB\"\n",
            "v".repeat(59),
            1 + i % 9
        )
    };
    POOL.to_owned() + &(0..OBJECTS).map(volume).collect::<String>()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn check_refused(output: &Output, says: &str) {
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains(says), "{error:?} does not say {says:?}");
}

#[test]
fn a_thousand_volumes_are_imported_at_once_and_listed_in_every_format() {
    let array = Running::start(POOL);
    let file = array.data().join("many.toml");
    std::fs::write(&file, volumes()).expect("a file");
    array.ok(&["config", "import", file.to_str().expect("utf-8"), "--yes"]);

    let names = array.ok(&["volume", "list", "--output", "name"]);
    assert_eq!(names.lines().count(), OBJECTS);
    let narrow = running_at_80_columns(&array, &["volume", "list"]);
    assert_eq!(narrow.lines().count(), OBJECTS + 1);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{}", &narrow[..400]);
    let wide = array.ok(&["volume", "list", "--no-header"]);
    assert!(!wide.contains('…') && !wide.contains('\u{1b}'), "a pipe gets all, and no colours");
    assert_eq!(wide.lines().count(), OBJECTS);

    let json = array.ok(&["volume", "list", "--output", "json", "--filter", "size>8MiB", "--sort", "-name"]);
    let json: Vec<serde_json::Value> = serde_json::from_str(&json).expect("an array");
    assert_eq!(json.len(), OBJECTS / 9, "those of 9 MiB");
    assert!(json.iter().all(|v| v["size_bytes"] == 9 << 20 && v["counters"].is_object()));
    assert!(json[0]["name"].as_str().expect("a name").starts_with("0998-"), "{}", json[0]["name"]);
    let csv = array.ok(&["volume", "list", "--output", "csv", "--columns", "name,size", "--limit", "2"]);
    let expected = format!("name,size_bytes\r\n0000-{v},1048576\r\n0001-{v},2097152\r\n", v = "v".repeat(59));
    assert_eq!(csv, expected);

    let cut = array.command(&["volume", "list", "--limit", "1"]);
    assert!(text(&cut.stderr).contains("999 more volumes"), "{}", text(&cut.stderr));
    check_refused(&array.command(&["volume", "list", "--columns", "colour"]), "there are: name, pool, size");
    check_refused(&array.command(&["volume", "list", "--sort", "colour"]), "there are: name, pool, size");
    check_refused(
        &array.command(&["volume", "show", &format!("0001-{}", "v".repeat(58))]),
        "did you mean \"0001-v",
    );
    let none = array.command(&["snapshot", "list", "--output", "json"]);
    assert_eq!((text(&none.stdout).trim(), none.stderr.len()), ("[]", 0));
    check_closed_pipe(&array);
}

/// The environment variable COLUMNS stands for a terminal's width.
fn running_at_80_columns(array: &Running, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    let output =
        command.env("MASU_DATA", array.data()).env("COLUMNS", "80").args(args).output().expect("masu runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// `masu volume list | head -n 0`: no word about the pipe.
fn check_closed_pipe(array: &Running) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.env("MASU_DATA", array.data()).args(["volume", "list"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("masu runs");
    drop(process.stdout.take());
    let output = process.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let array = Running::start(&format!(
        "{POOL}[[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[volume]]\nname = \"v1\"\npool = \"p0\"\nsize = \"8MiB\"\n\
         [[host]]\nname = \"h0\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
    ));
    let before = array.ok(&["config", "export"]);
    for (args, says) in [
        (&["volume", "create", "v2", "--size", "1MiB"][..], "v2"),
        (&["volume", "set", "v1", "--size", "9MiB"], "v1"),
        (&["volume", "delete", "v1"], "v1"),
        (&["snapshot", "create", "v0", "s0"], "s0"),
        (&["host", "create", "h1", "iqn.2004-10.com.example:h1"], "h1"),
        (&["host", "delete", "h0"], "h0"),
        (&["policy", "create", "gold", "--minimum", "100"], "gold"),
        (&["drive", "create", "s0", "s0.img", "--size", "64MiB"], "s0"),
        (&["group", "scrub", "g0"], "g0"),
        (&["pool", "set", "p0", "--soft-threshold-percent", "50"], "p0"),
    ] {
        let done = array.ok(&[args, &["--dry-run"]].concat());
        assert!(done.contains(says), "{args:?}: {done}");
        assert_eq!(array.ok(&["config", "export"]), before, "{args:?} changed something");
    }
    assert!(!array.data().join("s0.img").exists(), "no file is made");
    for (args, says) in [
        (&["volume", "delete", "v0"][..], "mapped to host \"h0\""),
        (&["volume", "create", "v0", "--size", "1MiB"], "v0"),
        (&["snapshot", "delete", "v0"], "not a snapshot"),
        (&["pool", "export", "p0"], "mapped to host"),
        (&["drive", "delete", "d0"], "has a place in group"),
    ] {
        check_refused(&array.command(&[args, &["--dry-run"]].concat()), says);
    }
    assert!(!array.ok(&["events"]).contains("refused"), "a question is no event");
}

#[test]
fn secrets_come_from_a_file_a_pipe_or_the_environment_and_never_from_the_command_line() {
    let array = Running::start(POOL);
    let create = ["host", "create", "kvm", "iqn.2004-10.com.example:kvm"];
    let refused = array.command(&[&create[..], &["--chap", "kvm:a-secret-of-twelve"]].concat());
    check_refused(&refused, "--chap-file");
    assert!(!text(&refused.stderr).contains("twelve"), "the secret is not repeated");
    let file = array.data().join("chap");
    std::fs::write(&file, "kvm:a-secret-of-twelve\n").expect("a file");
    array.ok(&[&create[..], &["--chap-file", file.to_str().expect("utf-8")]].concat());
    check_refused(&array.command(&create), "is there already");
    let secret = |array: &Running| array.ok(&["config", "export"]);
    assert!(secret(&array).contains("a-secret-of-twelve"));

    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.env("MASU_DATA", array.data()).args(["host", "set", "kvm", "--chap", "-"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("masu runs");
    process.stdin.take().expect("a pipe").write_all(b"kvm:another-secret-12\n").expect("written");
    assert!(process.wait().expect("it ends").success());
    assert!(secret(&array).contains("another-secret-12"));

    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command
        .env("MASU_DATA", array.data())
        .env("MASU_CHAP", "kvm:a-third-secret-12")
        .args(["host", "set", "kvm"]);
    assert!(command.stdout(Stdio::null()).status().expect("masu runs").success());
    assert!(secret(&array).contains("a-third-secret-12"));
}
