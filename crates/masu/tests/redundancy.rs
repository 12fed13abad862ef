//! Drives fail, are replaced and examined, groups and pools come and go, as an operator meets it: real
//! processes, real files, QEMU's initiator as the host.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of a process run processes")]

mod running;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use running::{Running, masu, qemu_io};

/// RAID 5 of four file drives, a spare, one volume that everybody sees.
fn raid5() -> String {
    let mut text = String::from("spares = [\"s0\"]\n");
    for drive in ["d0", "d1", "d2", "d3", "s0"] {
        text += &format!("[[drive]]\nname = \"{drive}\"\nfile = \"{drive}.img\"\nsize = \"128MiB\"\n");
    }
    text + "[[group]]\nname = \"g0\"\nlevel = \"raid5\"\ndrives = [\"d0\", \"d1\", \"d2\", \"d3\"]\n\
        [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n\
        [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"64MiB\"\n\
        [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = { 0 = \"v0\" }\n"
}

/// Waits until a command prints all of this.
fn wait_for(array: &Running, command: &[&str], expected: &[&str]) {
    array.wait_until(command, &format!("{expected:?}"), |text| {
        expected.iter().all(|part| text.contains(part))
    });
}

/// The exit status of an examination, and what it printed.
fn examine(data: &Path, args: &[&str]) -> (Option<i32>, String) {
    let path = data.display().to_string();
    let output: Output = masu(data, &[&["check", path.as_str()], args].concat());
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn check_clean(data: &Path) {
    let (status, text) = examine(data, &["--data"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("clean: "), "{text}");
}

/// Reads and compares again and again while `work` runs; how often it did.
fn verifying_while(array: &Running, commands: &[&'static str], work: impl FnOnce()) -> u32 {
    let (url, commands) = (array.url(0), commands.to_vec());
    let (stop, passes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let host = thread::spawn({
        let (stop, passes) = (stop.clone(), passes.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                qemu_io(&url, &commands).expect("the host notices nothing");
                passes.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    work();
    let seen = passes.load(Ordering::Relaxed);
    while passes.load(Ordering::Relaxed) < seen + 2 && !host.is_finished() {
        thread::sleep(Duration::from_millis(10));
    }
    stop.store(true, Ordering::Relaxed);
    host.join().expect("every comparison held");
    passes.load(Ordering::Relaxed)
}

#[test]
fn a_lost_drive_is_replaced_by_the_spare_then_one_by_hand() {
    let mut array = Running::start(&raid5());
    qemu_io(&array.url(0), &["write -P 0x5a 0 48M", "flush"]).expect("write");
    let passes = verifying_while(&array, &["read -P 0x5a 0 48M", "write -P 0x11 56M 1M"], || {
        fs::remove_file(array.data().join("d2.img")).expect("a drive's file");
        wait_for(
            &array,
            &["status"],
            &["spare s0 takes position 2", "No problems", "position 2 is in sync again"],
        );
    });
    assert!(passes > 0);
    let said = array.ok(&["group", "replace", "g0", "d1", "new.img"]);
    assert!(said.contains("in sync again") || said.contains("done"), "{said}");
    wait_for(&array, &["group", "show", "g0"], &["optimal"]);
    qemu_io(&array.url(0), &["read -P 0x5a 0 48M", "read -P 0x11 56M 1M"]).expect("all is there");
    let scrubbed = array.ok(&["group", "scrub", "g0"]);
    assert!(scrubbed.contains("group g0"), "{scrubbed}");
    // The declaration follows within seconds; what is kept names the drives that are there.
    wait_for(&array, &["group", "list"], &["d0 g0-0 s0 d3"]);
    thread::sleep(Duration::from_secs(3));
    array.stop();
    check_clean(&array.data());
    array.restart();
    qemu_io(&array.url(0), &["read -P 0x5a 0 48M", "read -P 0x11 56M 1M"])
        .expect("all is there after a restart");
    // The declaration given again names the drives that left; the labels know better.
    wait_for(&array, &["group", "show", "g0"], &["optimal", "g0-0"]);
}

#[test]
fn a_drive_that_was_pulled_takes_its_place_back() {
    let array = Running::start(&raid5().replace("spares = [\"s0\"]\n", ""));
    qemu_io(&array.url(0), &["write -P 0x5a 0 48M", "flush"]).expect("write");
    let (there, away) = (array.data().join("d2.img"), array.data().join("away.img"));
    fs::rename(&there, &away).expect("pulled");
    wait_for(&array, &["group", "show", "g0"], &["degraded"]);
    qemu_io(&array.url(0), &["write -P 0x11 8M 1M", "flush"]).expect("write");
    fs::rename(&away, &there).expect("plugged in");
    wait_for(&array, &["status"], &["is back; a rebuild of", "No problems"]);
    fs::copy(&there, &away).expect("a copy");
    fs::remove_file(&there).expect("pulled");
    wait_for(&array, &["group", "show", "g0"], &["degraded"]);
    // A copy has the same label, and may lack what was written since: it is filled anew.
    fs::rename(&away, &there).expect("plugged in");
    wait_for(&array, &["status"], &["is back; a full rebuild", "No problems"]);
    qemu_io(&array.url(0), &["read -P 0x5a 0 8M", "read -P 0x11 8M 1M", "read -P 0x5a 9M 39M"])
        .expect("read");
    let scrubbed = array.ok(&["group", "scrub", "g0"]);
    assert!(scrubbed.contains("0 blocks mismatched"), "{scrubbed}");
}

#[test]
fn a_drive_replaced_by_hand_leaves_the_spare_alone() {
    let array = Running::start(&raid5());
    qemu_io(&array.url(0), &["write -P 0x5a 0 8M", "flush"]).expect("write");
    array.ok(&["group", "replace", "g0", "d1", "new.img"]);
    wait_for(&array, &["group", "show", "g0"], &["optimal", "g0-0"]);
    let drives = array.ok(&["drive", "list"]);
    assert!(drives.lines().any(|line| line.contains("s0") && line.contains("spare")), "{drives}");
    let refused = array.command(&["group", "replace", "g0", "d1", "another.img"]);
    assert_eq!(refused.status.code(), Some(2), "d1 has left");
    // What changes only in the declaration is said, and told, too.
    let said = array.ok(&["drive", "spare", "s1", "s1.img", "--size", "128MiB"]);
    assert!(said.contains("s1") && !said.contains("nothing to do"), "{said}");
    let by_user = |line: &str| line.contains("s1") && line.contains("(by user");
    array.wait_until(&["events"], "who declared s1", |events| events.lines().any(by_user));
    let again = array.ok(&["group", "foreground-share", "g0", "70"]);
    let said = array.ok(&["group", "foreground-share", "g0", "70"]);
    assert!(said.contains("nothing to do"), "after {again}: {said}");
    // A change that is refused leaves no file that it made.
    for (drive, change) in [
        ("another.img", &["group", "replace", "g0", "d2", "another.img", "--drive-size", "2MiB"][..]),
        (
            "tiny.img",
            &["group", "create", "g1", "--level", "0", "--drive", "tiny.img", "--drive-size", "1MiB"],
        ),
    ] {
        let refused = array.command(change);
        assert_eq!(refused.status.code(), Some(2), "{change:?}: the drive is too small");
        assert!(!array.data().join(drive).exists(), "{drive} is left over");
    }
    qemu_io(&array.url(0), &["read -P 0x5a 0 8M"]).expect("all is there");
}

#[test]
fn a_rebuild_goes_on_after_a_restart_and_a_kill() {
    let mut array = Running::start(&raid5());
    qemu_io(&array.url(0), &["write -P 0x77 0 64M", "flush"]).expect("write");
    // Hosts first: the rebuild takes its time.
    array.ok(&["group", "foreground-share", "g0", "99"]);
    fs::remove_file(array.data().join("d0.img")).expect("a drive's file");
    let passes = verifying_while(&array, &["read -P 0x77 0 64M"], || {
        wait_for(&array, &["status"], &["takes position 0"]);
    });
    assert!(passes > 0);
    array.stop();
    array.restart();
    array.kill_and_restart();
    array.ok(&["group", "foreground-share", "g0", "1"]);
    wait_for(&array, &["group", "show", "g0"], &["optimal"]);
    qemu_io(&array.url(0), &["read -P 0x77 0 64M"]).expect("all is there");
}

#[test]
fn groups_join_and_leave_a_pool_that_hosts_use() {
    let array = Running::start(&raid5());
    qemu_io(&array.url(0), &["write -P 0x21 0 32M", "flush"]).expect("write");
    let create = ["group", "create", "g1", "--level", "1", "--drive", "e0.img", "--drive", "e1.img"];
    array.ok(&[&create[..], &["--drive-size", "128MiB"]].concat());
    array.ok(&["pool", "add-group", "p0", "g1"]);
    array.ok(&["pool", "rebalance", "p0"]);
    let passes = verifying_while(&array, &["read -P 0x21 0 32M"], || {
        let left = array.ok(&["pool", "remove-group", "p0", "g0"]);
        assert!(left.contains("g0"), "{left}");
        wait_for(&array, &["pool", "show", "p0"], &["g1"]);
    });
    assert!(passes > 0);
    let shown = array.ok(&["pool", "show", "p0", "--output", "json"]);
    assert!(!shown.contains("\"g0\""), "{shown}");
    qemu_io(&array.url(0), &["read -P 0x21 0 32M", "write -P 0x22 32M 8M"]).expect("the pool goes on");
}

#[test]
fn a_pool_moves_to_another_array() {
    let mut from = Running::start(&raid5());
    qemu_io(&from.url(0), &["write -P 0x3c 0 16M", "flush"]).expect("write");
    let refused = from.command(&["pool", "export", "p0"]);
    assert_eq!(refused.status.code(), Some(2), "a host sees its volume");
    from.ok(&["host", "unmap", "any", "v0", "--yes"]);
    from.ok(&["pool", "export", "p0"]);
    from.stop();
    let to = Running::start("[[host]]\nname = \"any\"\ninitiator = \"*\"\n");
    let paths: Vec<String> =
        ["d3", "d1", "d0", "d2"].map(|d| from.data().join(format!("{d}.img")).display().to_string()).into();
    let mut import = vec!["pool", "import"];
    import.extend(paths.iter().map(String::as_str));
    to.ok(&import);
    to.ok(&["host", "map", "any", "v0"]);
    qemu_io(&to.url(0), &["read -P 0x3c 0 16M", "write -P 0x3d 0 1M"])
        .expect("the volume came with its pool");
}

#[test]
fn an_examination_names_damage_and_writes_nothing() {
    let mut array = Running::start(&raid5());
    qemu_io(&array.url(0), &["write -P 0x42 0 64M", "flush"]).expect("write");
    let data = array.data();
    let (status, text) = examine(&data, &[]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("an array runs on it"), "{text}");
    array.kill_and_restart();
    array.stop();
    let content =
        || ["d0", "d1", "d2", "d3", "s0"].map(|d| fs::read(data.join(format!("{d}.img"))).expect("a file"));
    let before = content();
    check_clean(&data);
    assert!(content() == before, "an examination writes nothing");
    // The end of a drive is in no page that is used: only reading all data finds it.
    let drive = fs::OpenOptions::new().write(true).open(data.join("d1.img")).expect("a drive");
    let at = (100 << 20) as u64;
    drive.write_all_at(&[0xff; 4096], at).expect("poked");
    let (status, text) = examine(&data, &["--data"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains(&format!("4096 bytes at byte {at}")) || text.contains("do not match"), "{text}");
    drive.write_all_at(&vec![0; 1 << 20], 0).expect("poked");
    let (status, text) = examine(&data, &[]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("drive d1: carries no label"), "{text}");
    let (status, text) = examine(&data, &["--json"]);
    assert!(status == Some(1) && text.contains("\"clean\": false"), "{text}");
}

#[test]
fn the_examination_of_nothing_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(examine(dir.path(), &[]).0, Some(2));
    assert_eq!(examine(&dir.path().join("nowhere"), &[]).0, Some(2));
}

#[test]
fn a_pool_moves_between_controllers_while_a_host_reads_and_writes_and_stays_there_after_a_crash() {
    let declared = String::from("controllers = 2\n")
        + "[[drive]]\nname = \"j0\"\nfile = \"j0.img\"\nsize = \"64MiB\"\n\
           [[group]]\nname = \"journal\"\nlevel = \"raid0\"\ndrives = [\"j0\"]\n"
        + &raid5().replace("groups = [\"g0\"]\n", "groups = [\"g0\"]\njournal = \"journal\"\n")
        + "[cache]\nmemory = \"32MiB\"\n";
    let (spares, rest) = (declared.find("spares").expect("it has some"), "spares = [\"s0\"]\n");
    let declared = format!("{rest}{}{}", &declared[..spares], &declared[spares + rest.len()..]);
    let mut array = Running::start(&declared);
    qemu_io(&array.url(0), &["write -P 0x5a 0 48M", "flush"]).expect("write");
    let commands = ["read -P 0x5a 0 48M", "write -P 0x11 56M 1M", "read -P 0x11 56M 1M"];
    let passes = verifying_while(&array, &commands, || {
        for to in ["1", "0", "1"] {
            let done = array.ok(&["pool", "move", "p0", "--controller", to]);
            assert!(done.contains(&format!("to controller {to}")), "{done}");
            thread::sleep(Duration::from_millis(300));
        }
    });
    assert!(passes > 2, "the host went on");
    wait_for(&array, &["pool", "list", "--columns", "name,controller"], &["p0", "1"]);
    array.kill_and_restart();
    wait_for(&array, &["pool", "list", "--columns", "name,controller"], &["p0", "1"]);
    qemu_io(&array.url(0), &commands[..1]).expect("nothing is lost");
    let refused = array.command(&["pool", "move", "p0", "--controller", "2"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr)
            .contains("controller 2 does not exist: there are 2, counted from 0")
    );
    array.stop();
    check_clean(&array.data());
}
