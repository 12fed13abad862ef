//! Drives of the real world: round trips, refusals, abandoned operations.

#![expect(clippy::disallowed_types, reason = "the test prepares the files that it then opens as drives")]

mod round_trips;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use world::{Buf, Data, Drive, DriveError, DriveSpec, ImageAccess, OpenError, World};
use world_real::{Options, run, start};

const LEN_BYTES: u64 = 8 << 20;

fn folder() -> TempDir {
    // Below the build's own folder: it lies on a disk, where a temporary folder may lie in memory.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn file(path: &Path) -> DriveSpec {
    DriveSpec::File { path: path.to_owned(), create_len_bytes: Some(LEN_BYTES) }
}

/// Opens, or says why this machine cannot and gives `None`.
async fn open(world: &World, spec: &DriveSpec) -> Option<Drive> {
    match world.open_drive(spec).await {
        Ok(drive) => Some(drive),
        Err(e) if e.cause.contains("O_DIRECT") => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn check_refused(spec: &DriveSpec, cause: &str) {
    let error =
        run(Options::default(), |world| async move { world.open_drive(spec).await.err() }).expect("runs");
    let OpenError { name, cause: found, .. } = error.expect("refused");
    assert!(found.contains(cause), "{name}: {found}");
}

#[test]
fn memory_and_file_drives_keep_what_is_written() {
    let folder = folder();
    run(Options::default(), |world| async move {
        let memory = DriveSpec::Memory { name: "memory".into(), len_bytes: LEN_BYTES };
        for spec in [memory, file(&folder.path().join("drive"))] {
            let Some(drive) = open(&world, &spec).await else { continue };
            assert_eq!(drive.info().len_bytes, LEN_BYTES);
            round_trips::check(&drive, LEN_BYTES).await;
        }
    })
    .expect("runs");
}

#[test]
fn a_file_drive_is_there_after_the_world_has_ended() {
    let folder = folder();
    let spec = file(&folder.path().join("drive"));
    let written = run(Options::default(), |world| async move {
        let drive = open(&world, &spec).await?;
        // Nobody waits for this write: the world's end does.
        drop(drive.write(4096, Data::copy_of(&[6; 4096])));
        assert_eq!(drive.write(0, Data::copy_of(&[5; 4096])).await, Ok(()));
        Some(spec)
    });
    let Ok(Some(spec)) = written else { return };
    run(Options::default(), |world| async move {
        let DriveSpec::File { path, .. } = spec else { unreachable!() };
        let drive =
            world.open_drive(&DriveSpec::File { path, create_len_bytes: None }).await.expect("opens again");
        assert_eq!(drive.read(0, Buf::new(4096)).await.buf[..], [5; 4096]);
        assert!(drive.info().volatile_cache && drive.info().block_bytes >= 512);
    })
    .expect("runs");
}

#[test]
fn abandoned_operations_keep_their_memory_until_they_end() {
    let folder = folder();
    run(Options::default(), |world| async move {
        let Some(drive) = open(&world, &file(&folder.path().join("drive"))).await else { return };
        assert_eq!(drive.write(0, Data::copy_of(&vec![9; 1 << 20])).await, Ok(()));
        for round in 0..200u64 {
            drop(drive.read(0, Buf::new(1 << 20)));
            // Had the abandoned read lost its buffer, this one would get it, and the kernel would write 9s
            // into it.
            let mut mine = Buf::new(1 << 20);
            mine.fill(round as u8);
            world::yield_now().await;
            assert!(mine.iter().all(|b| *b == round as u8));
        }
        // 64 at once, awaited in the wrong order.
        let mut reads: Vec<_> = (0..64).map(|i| drive.read(i * 4096, Buf::new(4096))).collect();
        while let Some(read) = reads.pop() {
            assert!(read.await.buf.iter().all(|b| *b == 9));
        }
    })
    .expect("runs");
}

#[test]
fn what_cannot_be_a_drive_is_refused_with_its_cause() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let existing = |name: &str, len: u64| {
        fs::File::create(path(name)).and_then(|f| f.set_len(len)).expect("a file");
        DriveSpec::File { path: path(name), create_len_bytes: None }
    };
    check_refused(&existing("small", 100), "too small");
    check_refused(&existing("odd", 8192 + 17), "not a multiple");
    check_refused(&DriveSpec::File { path: path("absent"), create_len_bytes: None }, "no such file");
    check_refused(&file(&path("none/drive")), "does not exist");
    check_refused(&DriveSpec::File { path: folder.path().to_owned(), create_len_bytes: None }, "directory");
    let pipe = path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
    check_refused(&DriveSpec::File { path: pipe, create_len_bytes: None }, "not a file");
    check_refused(&DriveSpec::File { path: "/dev/zero".into(), create_len_bytes: None }, "not a file");
    check_refused(&DriveSpec::Device { path: path("small") }, "not a block device");
    check_refused(&DriveSpec::Device { path: path("absent") }, "no such device");
    check_refused(&DriveSpec::Memory { name: "m".into(), len_bytes: 1000 }, "multiple");
    check_refused(&DriveSpec::Modelled { name: "m".into() }, "model world");
    // Before, a name that no system call takes was told as a file system without O_DIRECT.
    let nul = path("a\0b");
    for access in [ImageAccess::Read, ImageAccess::Write, ImageAccess::Create] {
        check_refused(&DriveSpec::Image { path: nul.clone(), access }, "NUL");
    }
    check_refused(&DriveSpec::File { path: nul.clone(), create_len_bytes: None }, "NUL");
    let within = DriveSpec::ImageWithin { folder: folder.path().into(), path: "a\0b".into() };
    check_refused(&within, "NUL");
    check_refused(&DriveSpec::Device { path: nul }, "NUL");
    // What was made only to be refused does not stay.
    check_refused(&DriveSpec::File { path: path("new"), create_len_bytes: Some(100) }, "too small");
    assert!(!path("new").exists());
    let closed = existing("closed", LEN_BYTES);
    fs::set_permissions(path("closed"), fs::Permissions::from_mode(0o000)).expect("permissions");
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may read and write every file");
    } else {
        check_refused(&closed, "no permission");
    }
}

#[test]
fn a_file_system_without_direct_io_is_named() {
    // File systems that refuse O_DIRECT on many kernels; none of them may be here.
    let candidates = ["/sys/kernel/notes", "/proc/version", "/dev/shm"];
    let mut refused = 0;
    for candidate in candidates {
        let path = PathBuf::from(candidate);
        let path = if path.is_dir() { path.join(format!("masu-test-{}", std::process::id())) } else { path };
        let shown = path.clone();
        let result =
            run(Options::default(), |world| async move { world.open_drive(&file(&path)).await.err() })
                .expect("runs");
        let _ = candidate.starts_with("/dev/shm").then(|| fs::remove_file(&shown));
        match result {
            Some(e) if e.cause.contains("O_DIRECT") => {
                assert_eq!(e.name, shown.display().to_string());
                refused += 1;
            }
            other => println!("{}: {other:?}", shown.display()),
        }
    }
    if refused == 0 {
        println!("skipped: no file system here refuses O_DIRECT");
    }
}

#[test]
fn a_file_has_one_user() {
    let folder = folder();
    let spec = file(&folder.path().join("drive"));
    run(Options::default(), |world| async move {
        let Some(first) = open(&world, &spec).await else { return };
        let error = world.open_drive(&spec).await.err().expect("locked");
        assert!(error.cause.contains("in use"), "{error}");
        drop(first);
        assert!(world.open_drive(&spec).await.is_ok());
    })
    .expect("runs");
}

/// A loop device, until it is dropped.
struct Loop(PathBuf);

impl Loop {
    /// `None`, and why, where this machine has none for this process.
    fn over(file: &Path) -> Option<Loop> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Loop(String::from_utf8(made.stdout).expect("a path").trim().into()))
            }
            made => {
                println!("skipped: no loop device: {made:?}");
                None
            }
        }
    }

    fn spec(&self) -> DriveSpec {
        DriveSpec::Device { path: self.0.clone() }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Two loop devices over one file were taken for two drives, and so were the file and a loop device over it:
/// a mirror of both had one copy, and a stripe over both overwrote itself.
#[test]
fn a_medium_that_is_in_use_through_another_node_is_in_use() {
    let folder = folder();
    let path = folder.path().join("medium");
    fs::File::create(&path).and_then(|f| f.set_len(LEN_BYTES)).expect("a file");
    let file = DriveSpec::File { path: path.clone(), create_len_bytes: None };
    let (Some(first), Some(second)) = (Loop::over(&path), Loop::over(&path)) else { return };
    run(Options::default(), |world| async move {
        let refused = async |spec: &DriveSpec, words: &[&str]| {
            let error = world.open_drive(spec).await.err().expect("one medium").cause;
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        // Another node is closed on another thread, a moment later.
        let released = async |spec: &DriveSpec| {
            for _ in 0..1000 {
                if let Ok(drive) = world.open_drive(spec).await {
                    return drive;
                }
                world.sleep(std::time::Duration::from_millis(10)).await;
            }
            panic!("{} stays in use", spec.name());
        };
        // What is attached, and used by nobody, is no obstacle.
        let Some(drive) = open(&world, &file).await else { return };
        refused(&first.spec(), &["in use", "loop device over", "medium"]).await;
        drop(drive);
        let drive = released(&first.spec()).await;
        let name = first.0.file_name().and_then(|name| name.to_str()).expect("a name");
        refused(&second.spec(), &["in use by loop device", name]).await;
        // The second one was opened to look at it, and is closed on another thread: for a moment it is in
        // use, too, and may be the one that is named.
        let image = DriveSpec::Image { path: path.clone(), access: ImageAccess::Write };
        refused(&file, &["in use by loop device", "over", "medium"]).await;
        refused(&image, &["in use by loop device", "over", "medium"]).await;
        drop(drive);
        released(&second.spec()).await;
    })
    .expect("runs");
}

/// Programs that lock with fcntl, as QEMU does, were not noticed, and did not notice masu.
#[test]
fn a_file_that_is_locked_with_fcntl_is_in_use() {
    use rustix::fs::{FlockOperation, fcntl_lock};

    let folder = folder();
    let path = folder.path().join("drive");
    fs::File::create(&path).and_then(|f| f.set_len(LEN_BYTES)).expect("a file");
    let lock = || {
        let file = fs::File::options().read(true).write(true).open(&path).expect("opens");
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).map(|()| file)
    };
    run(Options::default(), async |world| {
        let Some(drive) = open(&world, &file(&path)).await else { return };
        lock().expect_err("masu has it");
        drop(drive);
        for access in [None, Some(ImageAccess::Read), Some(ImageAccess::Write)] {
            let spec = match access {
                None => file(&path),
                Some(access) => DriveSpec::Image { path: path.clone(), access },
            };
            // The one before is closed on another thread, a moment later.
            let mut tries = 0;
            while let Err(error) = world.open_drive(&spec).await.map(drop) {
                tries += 1;
                assert!(tries < 1000, "nobody has it: {error}");
                world.sleep(std::time::Duration::from_millis(10)).await;
            }
            // The lock of a process ends as soon as it closes any descriptor of the file, and the drive is
            // closed on another thread: the lock is taken again then.
            let mut refused = None;
            for _ in 0..1000 {
                let locked = lock();
                refused = world
                    .open_drive(&spec)
                    .await
                    .err()
                    .filter(|e| locked.is_ok() && e.cause.contains("locked"));
                if refused.is_some() {
                    break;
                }
                world.sleep(std::time::Duration::from_millis(10)).await;
            }
            refused.expect("another process has it");
        }
    })
    .expect("runs");
}

/// What is not in these ranges is not read before a drive is taken as blank.
#[test]
fn a_file_tells_where_its_data_are() {
    let folder = folder();
    let path = folder.path().join("drive");
    let file_of =
        |len: u64| fs::File::create(&path).and_then(|f| f.set_len(len).map(|()| f)).expect("a file");
    let told = || {
        let spec = DriveSpec::File { path: path.clone(), create_len_bytes: None };
        run(Options::default(), async |world| open(&world, &spec).await?.data_ranges().await.expect("told"))
            .expect("runs")
    };
    file_of(1 << 30);
    let Some(none) = told() else { return };
    assert_eq!(none, []);
    let sparse = file_of((1 << 30) + 512);
    for (at, len) in [(101 << 20, 12 << 20), (1 << 30, 512)] {
        sparse.write_all_at(&vec![7; len], at).expect("written");
    }
    sparse.sync_all().expect("synced");
    let ranges = told().expect("told");
    let has = |at: u64| ranges.iter().any(|range| range.contains(&at));
    assert!(
        (101..113).all(|mib| has(mib << 20) && has((mib << 20) + 1023)) && has((1 << 30) + 511),
        "{ranges:?}"
    );
    let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert!(total < 16 << 20, "{ranges:?}");
    assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start), "{ranges:?}");
    // More ranges than are told apart: from the last one on, data may be everywhere.
    let crumbled = file_of(64 << 20);
    (0..5000).for_each(|i| crumbled.write_all_at(&[7; 4096], i * 12288).expect("written"));
    let ranges = told().expect("told");
    assert!(
        ranges.len() <= 4096 && ranges.last().is_some_and(|last| last.end == 64 << 20),
        "{}",
        ranges.len()
    );
    assert!((0..5000).all(|i| ranges.iter().any(|range| range.contains(&(i * 12288)))));
}

/// The kernel keeps a file open for the last operations on it a moment longer than they take to be answered,
/// and a process that is just being started holds copies of all descriptors: neither may keep the lock.
#[test]
fn a_file_that_was_let_go_can_be_opened_again_at_once() {
    let folder = folder();
    let path = folder.path().join("image");
    let user = start("user", Options::default(), |world| async move {
        let mut access = ImageAccess::Create;
        for _ in 0..1000 {
            let drive = world.open_drive(&DriveSpec::Image { path: path.clone(), access }).await?;
            drive.set_len(4096).await.expect("has the room");
            drive.write(0, Buf::zeroed(4096).freeze()).await.expect("written");
            drive.flush().await.expect("flushed");
            access = ImageAccess::Write;
        }
        Ok(())
    });
    let user = user.expect("a thread");
    while !user.is_finished() {
        std::process::Command::new("true").status().expect("runs");
    }
    let opened: Result<(), OpenError> = user.join().expect("ends").expect("runs");
    opened.expect("nobody else has it open");
}

/// Whoever still holds a handle: a node that has handed over goes on living.
#[test]
fn a_file_whose_world_has_ended_can_be_opened_again_although_a_handle_is_left() {
    let folder = folder();
    let spec = file(&folder.path().join("drive"));
    run(Options::default(), async |world| std::mem::forget(open(&world, &spec).await)).expect("runs");
    // Not only unlocked: a device is held by its descriptor.
    let open_files = fs::read_dir("/proc/self/fd").expect("its descriptors").flatten();
    let path = folder.path().join("drive");
    assert!(!open_files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == path)));
    run(Options::default(), async |world| {
        if let Err(error) = world.open_drive(&spec).await {
            assert!(!error.cause.contains("in use"), "{error}");
        }
    })
    .expect("runs");
}

fn check_gone(result: Result<(), DriveError>, expected: &str) {
    match result {
        Err(DriveError::Gone { cause, .. }) => assert!(cause.contains(expected), "{cause}"),
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn a_probe_tells_whether_the_file_is_still_the_one_that_was_opened() {
    let folder = folder();
    let path = folder.path().join("drive");
    let aside = folder.path().join("aside");
    run(Options::default(), |world| async move {
        let memory = DriveSpec::Memory { name: "m".into(), len_bytes: LEN_BYTES };
        assert_eq!(world.open_drive(&memory).await.expect("opens").probe().await, Ok(()));
        let Some(drive) = open(&world, &file(&path)).await else { return };
        assert_eq!(drive.probe().await, Ok(()));
        fs::rename(&path, &aside).expect("moved");
        check_gone(drive.probe().await, "removed");
        // The descriptor does not know.
        assert_eq!(drive.write(0, Buf::zeroed(4096).freeze()).await, Ok(()));
        fs::copy(&aside, &path).expect("another file of the same content");
        check_gone(drive.probe().await, "another file");
        fs::rename(&aside, &path).expect("moved back");
        assert_eq!(drive.probe().await, Ok(()));
        fs::OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(4096)).expect("cuts");
        check_gone(drive.probe().await, "truncated");
        fs::remove_file(&path).expect("removed");
        check_gone(drive.probe().await, "removed");
    })
    .expect("runs");
}

#[test]
fn a_file_that_is_cut_while_in_use_is_a_drive_that_is_gone() {
    let folder = folder();
    let path = folder.path().join("drive");
    run(Options::default(), |world| async move {
        let Some(drive) = open(&world, &file(&path)).await else { return };
        fs::OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(4096)).expect("cuts");
        let got = drive.read(1 << 20, Buf::new(4096)).await;
        assert!(matches!(got.result, Err(DriveError::Gone { .. })), "{:?}", got.result);
        assert_eq!(got.buf.len(), 4096, "the buffer comes back");
        let got = drive.read(0, Buf::new(8192)).await;
        assert!(matches!(got.result, Err(DriveError::Gone { .. })), "half of it is there: {:?}", got.result);
    })
    .expect("runs");
}
