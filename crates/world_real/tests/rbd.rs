//! Drives on RBD images of a real Ceph cluster: `make ceph` starts one of one node and runs this. Without
//! MASU_CEPH_CONF, the cluster's configuration, every test says that it was skipped.

#![expect(clippy::disallowed_methods, reason = "the tests start Ceph's programs")]

mod round_trips;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use world::{Buf, Data, Drive, DriveError, DriveSpec, OpenError, Patience, RbdImage, World};
use world_real::{Options, run};

const LEN_BYTES: u64 = 64 << 20;
/// Names an image to the process that holds it (see `holder`).
const HOLD: &str = "MASU_TEST_HOLD";
/// With it, the process owns an array, and only probes the image.
const OWNS: &str = "MASU_TEST_OWNS";

/// The cluster's configuration, or a word about what is missing.
fn conf() -> Option<PathBuf> {
    let conf = std::env::var_os("MASU_CEPH_CONF").map(PathBuf::from);
    if conf.is_none() {
        println!("skipped: MASU_CEPH_CONF names no Ceph cluster; run make ceph");
    }
    conf
}

fn program(name: &str, arguments: &[&str]) -> (bool, String) {
    let conf = conf().expect("asked before");
    let output = Command::new(name).arg("-c").arg(conf).args(arguments).output().expect("Ceph is installed");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn must(name: &str, arguments: &[&str]) -> String {
    let (ok, text) = program(name, arguments);
    assert!(ok, "{name} {arguments:?}: {text}");
    text
}

fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A new image of LEN_BYTES; `None`: skipped.
fn new_image() -> Option<DriveSpec> {
    new_image_with(&[])
}

fn new_image_with(options: &[&str]) -> Option<DriveSpec> {
    let conf = conf()?;
    let name = format!("t{}-{}", std::process::id(), number());
    let size = format!("{}B", LEN_BYTES);
    must("rbd", &[&["create", "--size", &size, &format!("vms/{name}")], options].concat());
    Some(image(&conf, &name))
}

fn image(conf: &Path, name: &str) -> DriveSpec {
    DriveSpec::Rbd(RbdImage {
        conf: Some(conf.to_owned()),
        ..RbdImage::named(&format!("vms/{name}")).expect("a name")
    })
}

fn path(spec: &DriveSpec) -> String {
    match spec {
        DriveSpec::Rbd(image) => image.path(),
        _ => unreachable!("an image"),
    }
}

fn in_world<T>(f: impl AsyncFnOnce(World) -> T) -> T {
    run(Options::default(), |world| async move { f(world).await }).expect("runs")
}

async fn open(world: &World, spec: &DriveSpec) -> Drive {
    world.open_drive(spec).await.unwrap_or_else(|e| panic!("{e}"))
}

fn filled(byte: u8, len: usize) -> Data {
    let mut buf = Buf::new(len);
    buf.fill(byte);
    buf.freeze()
}

fn check_gone(result: Result<(), DriveError>, expected: &str) {
    match result {
        Err(DriveError::Gone { cause, .. }) => assert!(cause.contains(expected), "{cause}"),
        other => panic!("{expected}: {other:?}"),
    }
}

fn check_refused(spec: &DriveSpec, expected: &str) {
    let error = in_world(async |world| world.open_drive(spec).await.err());
    let OpenError { name, cause, .. } = error.expect("refused");
    assert!(cause.contains(expected), "{name}: {cause}");
}

#[test]
fn an_image_keeps_what_is_written() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        let info = drive.info();
        assert_eq!((info.len_bytes, info.block_bytes, info.volatile_cache), (LEN_BYTES, 512, false));
        round_trips::check(&drive, LEN_BYTES).await;
        assert_eq!(drive.probe().await, Ok(()));
        assert_eq!(drive.write(0, filled(7, 4096)).await, Ok(()));
    });
    // At once: the end of a world closes its images.
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        assert!(drive.read(0, Buf::new(4096)).await.buf.iter().all(|b| *b == 7));
        assert_eq!(drive.zero(0, LEN_BYTES).await, Ok(()));
        let all = drive.read(0, Buf::new(8 << 20)).await;
        assert!(all.result.is_ok() && all.buf.iter().all(|b| *b == 0));
    });
}

#[test]
fn an_image_whose_own_configuration_has_a_cache_has_a_volatile_one() {
    let Some(spec) = new_image() else { return };
    must("rbd", &["config", "image", "set", &path(&spec), "rbd_cache", "true"]);
    must("rbd", &["config", "image", "set", &path(&spec), "rbd_cache_policy", "writeback"]);
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        assert!(drive.info().volatile_cache);
        round_trips::check(&drive, LEN_BYTES).await;
        assert_eq!(drive.flush().await, Ok(()));
    });
    must("rbd", &["config", "image", "set", &path(&spec), "rbd_persistent_cache_mode", "ssd"]);
    check_refused(&spec, "rbd_persistent_cache_mode");
}

#[test]
fn abandoned_operations_keep_their_memory_until_they_end() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        assert_eq!(drive.write(0, filled(9, 1 << 20)).await, Ok(()));
        for round in 0..200u64 {
            drop(drive.read(0, Buf::new(1 << 20)));
            // Had the abandoned read lost its buffer, this one would get it, and librbd would write 9s into
            // it.
            let mut mine = Buf::new(1 << 20);
            mine.fill(round as u8);
            world.sleep(Duration::from_millis(1)).await;
            assert!(mine.iter().all(|b| *b == round as u8));
        }
        let mut reads: Vec<_> = (0..64).map(|i| drive.read(i * 4096, Buf::new(4096))).collect();
        while let Some(read) = reads.pop() {
            assert!(read.await.buf.iter().all(|b| *b == 9));
        }
        // The future outlives the drive; the last write outlives both.
        let read = drive.read(8192, Buf::new(4096));
        drop(drive.write(4 << 20, filled(5, 1 << 20)));
        drop(drive);
        assert!(read.await.buf.iter().all(|b| *b == 9));
    });
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        assert!(drive.read(4 << 20, Buf::new(1 << 20)).await.buf.iter().all(|b| *b == 5));
    });
}

#[test]
fn what_cannot_be_opened_is_refused_with_its_cause() {
    let Some(conf) = conf() else { return };
    check_refused(&image(&conf, "absent"), "no such image");
    let elsewhere: RbdImage = "rbd:absent/d0".parse().expect("a name");
    let conf = Some(conf);
    check_refused(&DriveSpec::Rbd(RbdImage { conf: conf.clone(), ..elsewhere.clone() }), "no pool absent");
    let nowhere = Some(PathBuf::from("/absent/ceph.conf"));
    check_refused(&DriveSpec::Rbd(RbdImage { conf: nowhere, ..elsewhere }), "/absent/ceph.conf");
    let Some(plain) = new_image_with(&["--image-feature", "layering"]) else { return };
    check_refused(&plain, "rbd feature enable");
    let error =
        in_world(async |world| world.fence(&DriveSpec::Memory { name: "m".into(), len_bytes: 4096 }).await);
    assert!(error.expect_err("refused").cause.contains("only RBD images"));
}

#[test]
fn an_image_has_one_user_and_others_cannot_take_its_lock_away() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        assert_eq!(drive.write(0, filled(1, 4096)).await, Ok(()));
        let other = DriveSpec::Rbd(match &spec {
            // Another name for it, so that it is another helper thread that opens it.
            DriveSpec::Rbd(image) => RbdImage { user: Some("admin".into()), ..image.clone() },
            _ => unreachable!("an image"),
        });
        let error = world.open_drive(&other).await.err().expect("in use");
        assert!(error.cause.contains("in use by the client") && error.cause.contains("process"), "{error}");
        // A client with librbd's usual policy asks for the lock when it writes.
        let conf = conf().expect("asked before");
        let bench = Command::new("timeout")
            .args(["10", "rbd", "-c"])
            .arg(conf)
            .args(["bench", "--io-type", "write", "--io-size", "4096", "--io-total", "4096", &path(&spec)])
            .output()
            .expect("runs");
        assert!(!bench.status.success(), "another client wrote to the image");
        assert_eq!(drive.write(0, filled(2, 4096)).await, Ok(()));
        assert_eq!(drive.probe().await, Ok(()));
        assert!(drive.read(0, Buf::new(4096)).await.buf.iter().all(|b| *b == 2));
        drop(drive);
        assert_eq!(world.fence(&spec).await, Ok(None), "it let go");
        open(&world, &other).await;
    });
}

#[test]
fn a_new_size_of_an_image_is_seen() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        // The program asks the holder of the lock to do it: this process, whose thread must not wait for it.
        let resize = async |size: u64| {
            let (path, size) = (path(&spec), format!("{size}B"));
            let done = std::thread::spawn(move || {
                must("rbd", &["resize", "--allow-shrink", "--no-progress", "--size", &size, &path]);
            });
            while !done.is_finished() {
                world.sleep(Duration::from_millis(10)).await;
            }
            done.join().expect("resized");
        };
        let until = async |len: u64| {
            let end = Instant::now() + Duration::from_secs(10);
            while drive.len_bytes() != len {
                assert!(Instant::now() < end, "{} bytes instead of {len}", drive.len_bytes());
                world.sleep(Duration::from_millis(10)).await;
            }
        };
        resize(2 * LEN_BYTES).await;
        until(2 * LEN_BYTES).await;
        assert_eq!(drive.write(2 * LEN_BYTES - 4096, filled(3, 4096)).await, Ok(()));
        resize(LEN_BYTES / 2).await;
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let (write, read) = (
                drive.write(LEN_BYTES / 2, filled(3, 4096)),
                drive.read(LEN_BYTES / 2 - 4096, Buf::new(8192)),
            );
            let (write, read) = (write.await, read.await.result);
            if write.is_err() && read.is_err() {
                check_gone(write, "");
                check_gone(read, "");
                break;
            }
            assert!(Instant::now() < end, "the cut is not seen");
        }
        assert_eq!(drive.write(LEN_BYTES / 2 - 4096, filled(3, 4096)).await, Ok(()));
    });
}

#[test]
fn an_image_that_was_removed_is_gone() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        let (ok, text) = program("rbd", &["rm", "--no-progress", &path(&spec)]);
        assert!(!ok, "Ceph protects an image that is open: {text}");
        let id = must("rbd", &["info", &path(&spec)]);
        let id = id.lines().find_map(|line| line.trim().strip_prefix("id: ")).expect("an id").to_owned();
        must("rados", &["-p", "vms", "rm", &format!("rbd_header.{id}")]);
        check_gone(drive.probe().await, "removed");
    });
}

#[test]
fn a_full_pool_is_no_room_and_not_a_silence() {
    let Some(conf) = conf() else { return };
    must("ceph", &["osd", "pool", "create", "small", "8"]);
    must("rbd", &["pool", "init", "small"]);
    must("rbd", &["create", "--size", "256M", "small/d0"]);
    must("ceph", &["osd", "pool", "set-quota", "small", "max_bytes", &(8 << 20).to_string()]);
    let spec = DriveSpec::Rbd(RbdImage { conf: Some(conf), ..RbdImage::named("small/d0").expect("a name") });
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        let end = Instant::now() + Duration::from_secs(60);
        let mut at = 0;
        let error = loop {
            if let Err(e) = drive.write(at % (200 << 20), filled(1, 1 << 20)).await {
                break e;
            }
            at += 1 << 20;
            assert!(Instant::now() < end, "the quota is not kept");
            world.sleep(Duration::from_millis(100)).await;
        };
        assert!(matches!(error, DriveError::NoRoom { .. }), "{error}");
        must("ceph", &["osd", "pool", "set-quota", "small", "max_bytes", "0"]);
        let end = Instant::now() + Duration::from_secs(30);
        while let Err(e) = drive.write(at % (200 << 20), filled(1, 1 << 20)).await {
            assert!(matches!(e, DriveError::NoRoom { .. }) && Instant::now() < end, "{e}");
            world.sleep(Duration::from_millis(100)).await;
        }
    });
}

/// The number of the OSD's process, beside its configuration.
fn osd() -> Pid {
    let path = conf().expect("asked before").with_file_name("osd.pid");
    let text = std::fs::read_to_string(&path).expect("the number of the OSD, written by judges/ceph.sh");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("a number")
}

/// It stops the OSD of the other tests, too, for less than they wait.
#[test]
fn operations_are_silent_while_the_osd_is_and_then_go_on() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        drive.set_patience(Patience { slow: Duration::from_millis(500), drop: Duration::from_secs(2) });
        assert_eq!(drive.write(0, filled(1, 4096)).await, Ok(()));
        kill_process(osd(), Signal::STOP).expect("stopped");
        let begun = Instant::now();
        let (write, read) = (drive.write(0, filled(2, 4096)), drive.read(0, Buf::new(4096)));
        let (write, read) = (write.await, read.await.result);
        let waited = begun.elapsed();
        let refused = drive.write(4096, filled(3, 4096)).await;
        world.sleep(Duration::from_secs(2)).await;
        kill_process(osd(), Signal::CONT).expect("goes on");
        assert_eq!((write, read), (Err(drive.silent()), Err(drive.silent())));
        assert!(waited > Duration::from_secs(1) && waited < Duration::from_secs(5), "{waited:?}");
        assert_eq!(refused, Err(drive.silent()), "it accepts nothing while that is in flight");
        let end = Instant::now() + Duration::from_secs(20);
        while drive.has_given_up() {
            assert!(Instant::now() < end, "it does not go on");
            world.sleep(Duration::from_millis(50)).await;
        }
        let got = drive.read(0, Buf::new(4096)).await;
        assert!(got.result.is_ok() && got.buf.iter().all(|b| *b == 2), "the silent write was carried out");
        // A shorter one is only slow.
        drive.set_patience(Patience::default());
        kill_process(osd(), Signal::STOP).expect("stopped");
        let write = drive.write(4096, filled(4, 4096));
        world.sleep(Duration::from_secs(1)).await;
        kill_process(osd(), Signal::CONT).expect("goes on");
        assert_eq!(write.await, Ok(()));
    });
}

/// Not a test: the first process of the next ones. It writes to the image that HOLD names, eight blocks at a
/// time, and tells how each round ended.
#[test]
#[ignore = "the other process of the tests of fences"]
fn holder() {
    let Ok(name) = std::env::var(HOLD) else { return };
    let spec = DriveSpec::Rbd(name.parse().expect("a name"));
    let owns = std::env::var(OWNS).is_ok();
    if owns {
        world_real::set_term(Some(world_real::boot_now() + Duration::from_secs(600)));
    }
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        for round in (0u64..).take_while(|_| owns) {
            if drive.probe().await.is_err() {
                return;
            }
            println!("round {round}");
            world.sleep(Duration::from_millis(50)).await;
        }
        for round in 0u64.. {
            let writes: Vec<_> =
                (0..8).map(|i| drive.write(i * 4096, filled(round as u8 | 0x80, 4096))).collect();
            for write in writes {
                if let Err(e) = write.await {
                    println!("error: {e}");
                    println!("probe: {:?}", drive.probe().await.err());
                    // The next one, too, and at once.
                    println!("error: {}", drive.write(0, filled(0xff, 4096)).await.expect_err("fenced"));
                    return;
                }
            }
            println!("round {round}");
        }
    });
}

struct Held {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Held {
    /// Starts the other process and waits until it writes.
    fn start(spec: &DriveSpec) -> Held {
        Held::start_as(spec, &[])
    }

    fn start_as(spec: &DriveSpec, more: &[(&str, &str)]) -> Held {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["holder", "--exact", "--nocapture", "--include-ignored"])
            .env(HOLD, spec.name())
            .envs(more.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut held = Held { child, lines };
        held.until("round 20");
        held
    }

    fn until(&mut self, start: &str) -> String {
        let mut next = || self.lines.next().expect("it tells more").expect("it is read");
        loop {
            let line = next();
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a number");
        kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This year, as `date` has it.
fn must_year() -> Option<u32> {
    let output = Command::new("date").args(["-u", "+%Y"]).output().expect("runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

#[test]
fn a_paused_holder_that_was_fenced_cannot_write_when_it_wakes_up() {
    let Some(spec) = new_image() else { return };
    let mut first = Held::start(&spec);
    first.signal(Signal::STOP);
    in_world(async |world| {
        let error = world.open_drive(&spec).await.err().expect("the first process has it");
        let number = format!("process {}", first.child.id());
        assert!(error.cause.contains(&number), "{error}");
        let begun = Instant::now();
        let fenced = world.fence(&spec).await.expect("fenced").expect("it had a holder");
        assert!(fenced.contains(&number), "{fenced}");
        let address = fenced.split(' ').next().expect("an address");
        let listed = must("ceph", &["osd", "blocklist", "ls"]);
        // Longer than Ceph's hour, which a process may be paused for.
        let next_year = listed.lines().any(|line| {
            line.starts_with(address) && line.contains(" 20") && {
                let year =
                    line.rsplit(' ').next().and_then(|date| date.get(..4)).and_then(|y| y.parse().ok());
                year > must_year()
            }
        });
        assert!(next_year, "{listed}");
        let drive = open(&world, &spec).await;
        println!("fenced and opened after {} ms", begun.elapsed().as_millis());
        assert_eq!(drive.write(0, filled(5, 8 * 4096)).await, Ok(()));
        first.signal(Signal::CONT);
        let (error, probe, next) = (first.until("error"), first.until("probe"), first.until("error"));
        assert!(error.contains("fenced") || error.contains("lock was lost"), "{error}");
        assert!(probe.contains("Gone"), "{probe}");
        assert!(next.contains("fenced") || next.contains("lock was lost"), "{next}");
        assert!(drive.read(0, Buf::new(8 * 4096)).await.buf.iter().all(|b| *b == 5), "the second's data");
        assert_eq!(drive.probe().await, Ok(()));
    });
}

/// Nothing is written, and the probe finds it: the group lost its drive, and the process stayed the owner,
/// with errors for every host.
#[test]
fn an_idle_owner_that_was_fenced_ends_at_its_next_probe() {
    let Some(spec) = new_image() else { return };
    let mut owner = Held::start_as(&spec, &[(OWNS, "1")]);
    in_world(async |world| {
        assert!(world.fence(&spec).await.expect("fenced").is_some());
    });
    assert_eq!(owner.child.wait().expect("it ends").code(), Some(75));
}

/// An array looks for a drive that went missing and opens it again; what it knows of the content is old.
#[test]
fn a_fenced_process_opens_the_image_again_only_after_a_fence_of_its_own() {
    let Some(spec) = new_image() else { return };
    in_world(async |world| {
        let drive = open(&world, &spec).await;
        // Another connection: as if it were another process.
        assert!(world.fence(&spec).await.expect("fenced").is_some());
        let write = drive.write(0, filled(1, 4096)).await;
        check_gone(write, "");
        check_gone(drive.probe().await, "");
        drop(drive);
        let refused = world.open_drive(&spec).await.err().expect("refused");
        assert!(refused.cause.contains("fenced"), "{refused}");
        world.fence(&spec).await.expect("taken over");
        assert_eq!(open(&world, &spec).await.write(0, filled(2, 4096)).await, Ok(()));
    });
}

#[test]
fn after_a_kill_the_image_is_opened_again_at_once() {
    let Some(spec) = new_image() else { return };
    let mut first = Held::start(&spec);
    first.child.kill().expect("killed");
    first.child.wait().expect("ended");
    in_world(async |world| {
        let begun = Instant::now();
        let drive = open(&world, &spec).await;
        println!("opened after {} ms", begun.elapsed().as_millis());
        assert_eq!(drive.write(0, filled(6, 4096)).await, Ok(()));
    });
}
