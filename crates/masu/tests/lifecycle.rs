//! How the daemon starts, heeds signals, and ends.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run a daemon, and wait for it in the system's time"
)]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod running;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use running::{Running, masu};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fcntl_lock, flock};

const WAIT: Duration = Duration::from_secs(20);
/// What a pipe takes without a reader (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;
const DRIVES: &str = "[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"64MiB\"\n\
    [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n\
    [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\npage = \"1MiB\"\n";

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !ready() {
        assert!(Instant::now() < end, "{what} does not come");
        sleep(Duration::from_millis(10));
    }
}

fn tell(process: u32, signal: &str) {
    let told = Command::new("kill").args([signal, &process.to_string()]).status().expect("kill runs");
    assert!(told.success());
}

/// A daemon that is not expected to serve.
struct Start(Child);

impl Start {
    fn new(data: &Path, port: u16, args: &[&str]) -> Start {
        let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
        let listen = format!("127.0.0.1:{port}");
        command.arg("serve").arg("--data").arg(data).args(["--listen", &listen]).args(args);
        Start(command.stderr(Stdio::piped()).spawn().expect("masu runs"))
    }

    /// Waits for its end: how it ended, and what it said.
    fn ended(mut self) -> (ExitStatus, String) {
        until("its end", || self.0.try_wait().expect("wait").is_some());
        let mut said = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        (self.0.wait().expect("it ended"), said)
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A start that must fail: it says `what`, exits with 2, and no host was served meanwhile.
fn check_refused(args: &[&str], what: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let (status, said) = Start::new(&data, test_ports::claim(), args).ended();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains(what), "{said:?} does not say {what:?}");
    assert!(!said.contains("serving"), "hosts were served: {said}");
    let left: Vec<_> = std::fs::read_dir(&data).expect("the directory").flatten().collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
}

#[test]
fn a_start_whose_api_cannot_be_served_says_so_and_serves_nobody() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("its address").to_string();
    check_refused(&["--api", &addr, "--api-token", "0123456789abcdef"], "cannot serve the API");
    check_refused(&["--api", "127.0.0.1:0", "--api-token", "short"], "invalid --api-token");
    check_refused(&["--api", "192.0.2.1:80", "--api-token", "0123456789abcdef"], "192.0.2.1:80");
}

#[test]
fn a_start_whose_port_is_taken_says_so_and_ends_in_order() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let dir = tempfile::tempdir().expect("a directory");
    let port = taken.local_addr().expect("its address").port();
    let (status, said) = Start::new(&dir.path().join("data"), port, &[]).ended();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("127.0.0.1:{port}")), "{said}");
    assert!(!dir.path().join("data/api.sock").exists());
    // What had begun was closed: the same directory serves at once.
    drop(taken);
    let again = Start::new(&dir.path().join("data"), port, &[]);
    until("the array", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    tell(again.0.id(), "-TERM");
    assert!(again.ended().0.success());
}

/// A start with a drive that another process holds: it waits for it for 5 s, and fails.
fn start_with_a_held_drive(dir: &Path) -> (PathBuf, File, Start) {
    let data = dir.join("data");
    std::fs::create_dir(&data).expect("the data directory");
    let held = File::create(data.join("drive0.img")).expect("a file");
    held.set_len(256 << 20).expect("its size");
    flock(&held, FlockOperation::LockExclusive).expect("locked");
    let declaration = dir.join("array.toml");
    let text = "target = \"iqn.2026-11.net.example:array\"\n\
        [[drive]]\nname = \"d0\"\nfile = \"drive0.img\"\nsize = \"256MiB\"\n";
    std::fs::write(&declaration, text).expect("a declaration");
    let start = Start::new(&data, 0, &["--config", declaration.to_str().expect("text")]);
    (data, held, start)
}

#[test]
fn a_signal_to_stop_is_heeded_during_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, held, start) = start_with_a_held_drive(dir.path());
    until("the start", || data.join("api.sock").exists());
    tell(start.0.id(), "-TERM");
    // Held until the end: released earlier, the start could win over the signal.
    let (status, said) = start.ended();
    drop(held);
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("stopped") && !said.contains("API at"), "{said}");
    assert!(!data.join("api.sock").exists());
}

/// It waited for as long as it was told to, for an array that had ended.
#[test]
fn who_waits_for_an_array_that_ends_at_its_start_is_told_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, _held, start) = start_with_a_held_drive(dir.path());
    let begun = Instant::now();
    let waited = masu(&data, &["wait", "--timeout", "5min"]);
    let (took, said) = (begun.elapsed(), String::from_utf8_lossy(&waited.stderr).into_owned());
    assert!(!waited.status.success() && said.contains("has ended; its log says why"), "{said}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(!start.ended().0.success());
}

/// A laboratory was killed while it started its nodes: the last one had not asked yet for a signal at the end
/// of its parent, and went on for good.
#[test]
fn a_node_whose_parent_has_ended_before_does_not_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    let listen = format!("127.0.0.1:{}", test_ports::claim());
    command.args(["serve", "--parent", "1", "--listen", &listen, "--data"]).arg(dir.path().join("data"));
    let mut start = Start(command.stderr(Stdio::piped()).spawn().expect("masu runs"));
    until("its end", || start.0.try_wait().expect("wait").is_some());
    let mut said = String::new();
    start.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(start.0.wait().expect("it ended").code(), Some(2), "{said}");
    assert!(said.contains("process 1, which started this one, has ended"), "{said}");
}

/// A terminal that was stopped, or a program that has stopped reading: the array hung at the first lines of
/// the log, and SIGTERM with it.
#[test]
fn a_log_that_nobody_reads_holds_up_no_change_and_no_stop() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let (reader, mut full) = std::io::pipe().expect("a pipe");
    full.write_all(&[b'\n'; PIPE_BYTES]).expect("filled");
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    let listen = format!("127.0.0.1:{}", test_ports::claim());
    command.arg("serve").arg("--data").arg(&data).args(["--listen", &listen]).env("RUST_LOG", "debug");
    let mut start = Start(command.stderr(full).spawn().expect("masu runs"));
    assert!(masu(&data, &["wait", "--timeout", "15s"]).status.success(), "it does not serve");
    assert!(masu(&data, &["volume", "create", "v0", "--size", "1MiB"]).status.success());
    tell(start.0.id(), "-TERM");
    until("its end", || start.0.try_wait().expect("wait").is_some());
    assert!(start.0.wait().expect("it ended").success());
    drop(reader);
}

/// A new thick volume is zeroed for minutes on drives without a command for it: a stop waited for that.
#[test]
fn a_stop_interrupts_a_new_thick_volume_and_leaves_nothing_of_it() {
    let drives = DRIVES.replace("64MiB", "8GiB");
    let mut running = Running::start_with(&drives, &["--drive-model", "cheetah-15k5"]);
    let data = running.data();
    let make =
        std::thread::spawn(move || masu(&data, &["volume", "create", "big", "--size", "7GiB", "--thick"]));
    running.wait_until(&["status"], "that it is made", |said| said.contains("A change is being made"));
    let mut waits = Command::new(env!("CARGO_BIN_EXE_masu"));
    waits.env("MASU_DATA", running.data()).args(["volume", "create", "small", "--size", "1MiB"]);
    let waits = waits.stderr(Stdio::piped()).spawn().expect("masu runs");
    sleep(Duration::from_secs(1));
    tell(waits.id(), "-INT");
    let waited = waits.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&waited.stderr);
    assert!(waited.status.code() == Some(130) && said.contains("may go on in the array"), "{said}");
    let begun = Instant::now();
    running.stop();
    assert!(begun.elapsed() < WAIT, "it took {:?}", begun.elapsed());
    let made = make.join().expect("it ends");
    assert_eq!(made.status.code(), Some(2));
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(said.contains("volume \"big\"") && said.contains("interrupted"), "{said}");
    running.restart();
    assert!(!running.ok(&["volume", "list"]).contains("big"));
    running.ok(&["volume", "create", "big", "--size", "1MiB"]);
}

#[test]
fn sighup_reads_the_declaration_again() {
    let running = Running::start(DRIVES);
    let declaration = running.data().with_file_name("array.toml");
    let before = std::fs::read_to_string(&declaration).expect("the declaration");
    let lists = |name: &str| running.ok(&["volume", "list"]).contains(name);
    let volume = |name: &str| format!("\n[[volume]]\nname = \"{name}\"\npool = \"p0\"\nsize = \"8MiB\"\n");
    // Without a change it is no harm.
    tell(running.id(), "-HUP");
    std::fs::write(&declaration, before.clone() + &volume("fresh")).expect("write");
    tell(running.id(), "-HUP");
    until("the new volume", || lists("fresh"));
    // One that is wrong changes nothing, and the array goes on; the next one counts.
    std::fs::write(&declaration, before.clone() + &volume("wrong") + "[[volum]]\n").expect("write");
    tell(running.id(), "-HUP");
    std::fs::write(&declaration, before + &volume("later")).expect("write");
    until("the later volume", || {
        tell(running.id(), "-HUP");
        sleep(Duration::from_millis(100));
        lists("later")
    });
    assert!(!lists("wrong") && lists("fresh"));
}

#[test]
fn a_declaration_that_cannot_be_applied_is_a_trouble_until_one_is() {
    let mut running = Running::start(DRIVES);
    let declaration = running.data().with_file_name("array.toml");
    let before = std::fs::read_to_string(&declaration).expect("the declaration");
    let used = running.data().with_file_name("used.img");
    std::fs::write(&used, vec![7; 1 << 20]).expect("a file with data");
    let drive = format!("\n[[drive]]\nname = \"used\"\nfile = \"{}\"\nsize = \"64MiB\"\n", used.display());
    let group = "[[group]]\nname = \"g9\"\nlevel = \"raid0\"\ndrives = [\"used\"]\n";
    let text = format!("{before}{drive}{group}");
    // The line of its name.
    let at_line = text[..text.find(group).expect("a group")].lines().count() + 2;
    std::fs::write(&declaration, text).expect("write");
    // It says what is wrong, and where in the file.
    let told =
        |status: &str| status.contains("is not blank") && status.contains(&format!("array.toml:{at_line}:"));
    tell(running.id(), "-HUP");
    running.wait_until(&["status", "--output", "json"], "the trouble", told);
    running.stop();
    running.restart();
    running.wait_until(&["status", "--output", "json"], "the trouble of the start", told);
    assert!(running.ok(&["pool", "list"]).contains("p0"), "what was there is served");
    std::fs::write(&declaration, before).expect("write");
    tell(running.id(), "-HUP");
    running.wait_until(&["status"], "no trouble", |status| status.contains("No problems"));
}

#[test]
fn sighup_without_a_declaration_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, port) = (dir.path().join("data"), test_ports::claim());
    let start = Start::new(&data, port, &[]);
    until("the array", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    tell(start.0.id(), "-HUP");
    assert!(running::masu(&data, &["status"]).status.success());
    tell(start.0.id(), "-TERM");
    let (status, said) = start.ended();
    assert!(status.success() && said.contains("started without --config"), "{status}: {said}");
}

#[test]
fn the_service_manager_is_told_of_every_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(WAIT)).expect("a limit");
    let hear = |what: &str| {
        let mut buf = [0; 512];
        loop {
            let len = manager.recv(&mut buf).unwrap_or_else(|e| panic!("{what} does not come: {e}"));
            let said = String::from_utf8_lossy(&buf[..len]).into_owned();
            if said.lines().any(|line| line.starts_with(what)) {
                return said;
            }
        }
    };
    let port = test_ports::claim();
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.arg("serve").arg("--data").arg(dir.path().join("data"));
    command.args(["--listen", &format!("127.0.0.1:{port}")]).env("NOTIFY_SOCKET", &path);
    let start = Start(command.stderr(Stdio::piped()).spawn().expect("masu runs"));
    hear("READY=1");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok(), "ready is when hosts are served");
    hear("WATCHDOG=1");
    tell(start.0.id(), "-HUP");
    // Type=notify-reload asks for the time.
    assert!(hear("RELOADING=1").contains("MONOTONIC_USEC="));
    hear("READY=1");
    tell(start.0.id(), "-TERM");
    hear("STOPPING=1");
    assert!(start.ended().0.success());
}

#[test]
fn doctor_reads_when_the_certificate_of_a_stopped_array_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = dir.path().join("api.cert.pem");
    let check = |args: &[&str], status: i32, says: &str| {
        let output = masu(dir.path(), args);
        let said = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            output.status.code() == Some(status) && said.contains(says),
            "{said:?} does not say {says:?}"
        );
        said
    };
    assert!(!check(&["doctor"], 0, "none runs here").contains("certificate"), "it has none");
    std::fs::write(&own, "nonsense").expect("written");
    check(&["doctor"], 0, "its certificate cannot be read");
    // Of 2019: it cannot become valid again.
    std::fs::write(&own, include_str!("running/expired.pem")).expect("written");
    check(&["doctor"], 1, "api: its certificate has expired, on 2020-01-01");
    let elsewhere = dir.path().join("api.pem");
    std::fs::rename(&own, &elsewhere).expect("moved");
    check(&["doctor", "--api-cert", elsewhere.to_str().expect("utf-8")], 1, "has expired");
}

/// A file with somebody's data at `at` MiB, where the first and the last MiB and samples are blank.
fn file_with_data(path: &Path, len_mib: u64, at_mib: u64, data_mib: usize) {
    let file = File::create(path).expect("a file");
    file.set_len(len_mib << 20).expect("its size");
    file.write_all_at(&vec![0x5a; data_mib << 20], at_mib << 20).expect("data");
}

/// Somebody's data that lay between the samples were erased without a question.
#[test]
fn a_file_with_data_anywhere_is_not_taken_without_overwrite() {
    let running = Running::start(DRIVES);
    let dir = running.data().with_file_name("files");
    std::fs::create_dir(&dir).expect("a directory");
    let path = |name: &str| dir.join(name).display().to_string();
    file_with_data(&dir.join("used"), 1024, 101, 2);
    // Zeros that were written, and blocks that are only allocated, are blank.
    let zeros = File::create(dir.join("zeros")).expect("a file");
    zeros.set_len(64 << 20).expect("its size");
    zeros.write_all_at(&vec![0; 40 << 20], 8 << 20).expect("zeros");
    fallocate(&zeros, FallocateFlags::empty(), 50 << 20, 14 << 20).expect("allocated");
    let before = std::fs::read(dir.join("used")).expect("its content");
    let create = |drive: &str, more: &[&str]| {
        let args = ["group", "create", "g1", "--level", "0", "--drive", drive];
        running.command(&[&args, more].concat())
    };
    let refused = create(&path("used"), &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("not blank: data at byte 105906176"), "{said}");
    assert!(std::fs::read(dir.join("used")).expect("its content") == before, "masu wrote to it");
    assert!(create(&path("zeros"), &[]).status.success());
    running.ok(&["group", "delete", "g1", "--yes"]);
    assert!(create(&path("used"), &["--overwrite"]).status.success());
}

/// Two loop devices over one file, named as two drives.
#[test]
fn two_devices_that_are_one_medium_make_no_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let medium = dir.path().join("medium");
    File::create(&medium).and_then(|file| file.set_len(128 << 20)).expect("a file");
    let attached = || Command::new("losetup").args(["--find", "--show"]).arg(&medium).output();
    let devices: Vec<String> = (0..2)
        .filter_map(|_| attached().ok().filter(|made| made.status.success()))
        .map(|made| String::from_utf8(made.stdout).expect("a path").trim().to_owned())
        .collect();
    let detach = || drop(Command::new("losetup").arg("--detach").args(&devices).status());
    let [first, second] = devices.as_slice() else {
        println!("skipped: no loop devices");
        return detach();
    };
    let said = ["0", "1"].map(|level| {
        let running = Running::start(DRIVES);
        let args = ["group", "create", "g1", "--level", level, "--drive", first, "--drive", second];
        let refused = running.command(&args);
        assert!(!refused.status.success(), "level {level}");
        String::from_utf8_lossy(&refused.stderr).into_owned()
    });
    detach();
    for said in said {
        assert!(said.contains(second) && said.contains("in use by loop device"), "{said}");
    }
    assert!(std::fs::read(&medium).expect("its content").iter().all(|b| *b == 0), "masu wrote to it");
}

/// A file that a program has locked as QEMU does, named as a drive at the start.
#[test]
fn a_start_waits_for_a_drive_that_is_locked_with_fcntl() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("the data directory");
    let held = File::create(data.join("d0.img")).expect("a file");
    held.set_len(64 << 20).expect("its size");
    fcntl_lock(&held, FlockOperation::NonBlockingLockExclusive).expect("locked");
    let declaration = dir.path().join("array.toml");
    std::fs::write(&declaration, format!("target = \"{}\"\n{DRIVES}", running::TARGET))
        .expect("a declaration");
    let start = Start::new(&data, 0, &["--config", declaration.to_str().expect("text")]);
    let (status, said) = start.ended();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("\"d0\"") && said.contains("in use by another process"), "{said}");
    let free = std::fs::read(data.join("d0.img")).expect("its content");
    assert!(free.iter().all(|b| *b == 0), "masu wrote to it");
}
