//! Groups and pools deleted by command, and a deletion that a crash interrupted.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run a daemon, and wait for it in the system's time"
)]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod running;

use running::Running;

const DRIVES: &str = "[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"64MiB\"\n\
    [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n\
    [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\npage = \"1MiB\"\n";

/// Creates the group `g1` on two files, and the pool `p1` on it.
fn create(running: &Running) {
    let drives = ["--drive", "a.img", "--drive", "b.img", "--drive-size", "64MiB"];
    running.ok(&[&["group", "create", "g1", "--level", "1"][..], &drives].concat());
    running.ok(&["pool", "create", "p1", "--group", "g1"]);
}

fn check_refused(running: &Running, args: &[&str], part: &str) {
    let output = running.command(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(part), "masu {args:?}: {said:?} does not say {part:?}");
}

#[test]
fn groups_and_pools_are_deleted_by_command() {
    let mut running = Running::start(DRIVES);
    create(&running);
    running.ok(&["volume", "create", "v1", "--pool", "p1", "--size", "8MiB"]);
    check_refused(&running, &["group", "delete", "g1"], "pass --yes to confirm");
    check_refused(&running, &["group", "delete", "g1", "--yes"], "in use by pool \"p1\"");
    check_refused(&running, &["pool", "delete", "p1", "--yes"], "in use by volume \"v1\"");
    check_refused(&running, &["pool", "delete", "p9", "--yes"], "pool \"p9\": not found");
    running.ok(&["volume", "delete", "v1", "--yes"]);
    let told = running.ok(&["pool", "delete", "p1", "--dry-run"]);
    assert!(told.contains("would be deleted"), "{told}");
    assert!(running.ok(&["pool", "list"]).contains("p1"));
    assert!(running.ok(&["pool", "delete", "p1", "--yes"]).contains("pool p1: deleted"));
    assert!(running.ok(&["group", "delete", "g1", "--yes"]).contains("group g1: deleted"));
    assert!(!running.ok(&["drive", "list"]).contains("g1-"));
    running.wait_until(&["events"], "who deleted it", |events| events.contains("deleted"));
    for file in ["a.img", "b.img"] {
        let content = std::fs::read(running.data().join(file)).expect("the file stays");
        assert!(content.len() == 64 << 20 && content.iter().all(|b| *b == 0), "{file} is blank");
    }
    running.stop();
    running.restart();
    assert!(!running.ok(&["group", "list"]).contains("g1"));
    create(&running);
}

#[test]
fn a_start_completes_the_deletion_of_a_pool() {
    let mut running = Running::start(DRIVES);
    create(&running);
    running.stop();
    let state = running.data().join("array.state.toml");
    let text = std::fs::read_to_string(&state).expect("the state");
    let text: String =
        text.lines().filter(|line| !line.starts_with("# masu-state")).fold(String::new(), |text, line| {
            match line {
                "[made]" => text + "[made]\ndeleted_pools = [\"p1\"]\n",
                line => text + line + "\n",
            }
        });
    std::fs::write(&state, text).expect("write");
    running.restart();
    running.wait_until(&["events"], "its end", |events| {
        events.contains("pool p1") && events.contains("deleted")
    });
    assert!(!running.ok(&["pool", "list"]).contains("p1"), "nor is it created again");
    assert!(running.ok(&["status"]).contains("No problems"));
    running.ok(&["group", "delete", "g1", "--yes"]);
}
