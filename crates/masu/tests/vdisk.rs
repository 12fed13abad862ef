//! The program on files and streams: what is interrupted, damaged, without an end, or cannot be made.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run the program on files, and wait for it in the system's time"
)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Within it, a conversion begins or ends.
const WAIT_TIME: Duration = Duration::from_secs(20);

fn vdisk(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.current_dir(folder).arg("vdisk").args(args);
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    vdisk(folder, args).output().expect("masu runs")
}

fn ok(folder: &Path, args: &[&str]) {
    let output = run(folder, args);
    assert!(output.status.success(), "vdisk {args:?}: {}", text(&output.stderr));
}

fn check_refused(folder: &Path, args: &[&str], says: &str) {
    let output = run(folder, args);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2), "vdisk {args:?}: {}: {said}", output.status);
    assert!(said.contains(says), "vdisk {args:?}: {said:?} does not say {says:?}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| text(entry.expect("an entry").file_name().as_encoded_bytes())).collect();
    names.sort();
    names
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WAIT_TIME, "not within {WAIT_TIME:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// A conversion that was interrupted left a file of the whole size with a part of the data, which `check`
/// called clean.
#[test]
fn an_interrupted_conversion_leaves_no_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    // Reading it takes longer than the test waits.
    File::create(folder.join("a.raw")).and_then(|file| file.set_len(256 << 30)).expect("a sparse file");
    for to in ["a.vhdx", "b.raw"] {
        for name in ["-INT", "-TERM"] {
            let mut command = vdisk(folder, &["convert", "--raw", "a.raw", to]);
            let mut process = command.stderr(Stdio::null()).spawn().expect("masu runs");
            wait_until("the conversion begins", || names(folder).len() > 1);
            signal(&process, name);
            let mut status = None;
            wait_until("the conversion ends", || {
                status = process.try_wait().expect("it can be waited for");
                status.is_some()
            });
            assert_eq!(names(folder), ["a.raw"], "{to} after kill {name}");
            assert_eq!(status.and_then(|status| status.code()), Some(2), "{to} after kill {name}");
        }
    }
}

#[test]
fn a_file_that_is_there_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for taken in ["a.vhdx", "a.vhdx.part"] {
        fs::write(folder.join(taken), "mine").expect("a file");
        check_refused(folder, &["create", "a.vhdx", "--size", "4MiB"], "remove it first");
        assert_eq!(
            (names(folder), fs::read(folder.join(taken)).expect("it")),
            (vec![taken.into()], b"mine".into())
        );
        fs::remove_file(folder.join(taken)).expect("removed");
    }
    ok(folder, &["create", "a.vhdx", "--size", "4MiB"]);
    assert_eq!(names(folder), ["a.vhdx"]);
}

/// The second conversion to a name is refused as long as there is a part of the first. Somebody removed that
/// one and began anew: the first gave the unfinished file of the second its name.
#[test]
fn a_part_that_another_process_has_put_there_gets_no_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    File::create(folder.join("a.raw")).and_then(|file| file.set_len(4 << 30)).expect("a sparse file");
    let part = folder.join("b.raw.part");
    let mut process = vdisk(folder, &["convert", "--raw", "a.raw", "b.raw"]);
    let process = process.stderr(Stdio::piped()).spawn().expect("masu runs");
    wait_until("the conversion begins", || part.exists());
    fs::remove_file(&part).and_then(|()| fs::write(&part, "another")).expect("exchanged");
    let ended = process.wait_with_output().expect("it ends");
    assert!(text(&ended.stderr).contains("not the file that was written"), "{}", text(&ended.stderr));
    assert_eq!((ended.status.code(), names(folder)), (Some(2), vec!["a.raw".into(), "b.raw.part".into()]));
    assert_eq!(fs::read(&part).expect("it"), b"another");
}

/// Whatever was at the path of the socket was removed.
#[test]
fn a_file_at_the_path_of_a_socket_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for image in ["a.vhdx", "b.vhdx"] {
        ok(folder, &["create", image, "--size", "4MiB"]);
    }
    for taken in ["b.vhdx", "a.vhdx"] {
        let before = fs::read(folder.join(taken)).expect("it");
        check_refused(folder, &["serve", "a.vhdx", "--unix", taken], "is not a socket");
        assert!(fs::read(folder.join(taken)).expect("it is there") == before);
    }
}

/// Blocks of a VHD are entries of 4 bytes from here on, if it has the parameters of a new one.
const VHD_TABLE_AT: u64 = 1536;

/// Two table entries for one block were copied as if both blocks had its data, with exit status 0.
#[test]
fn a_damaged_image_is_converted_only_by_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let blocks: Vec<u8> = (1..=3_u8).flat_map(|byte| vec![byte; 2 << 20]).collect();
    fs::write(folder.join("a.raw"), &blocks).expect("a file");
    ok(folder, &["convert", "--raw", "a.raw", "a.vhd"]);
    let image = File::options().read(true).write(true).open(folder.join("a.vhd")).expect("an image");
    let mut entry = [0; 4];
    image.read_exact_at(&mut entry, VHD_TABLE_AT).expect("an entry");
    image.write_all_at(&entry, VHD_TABLE_AT + 4).expect("written");
    drop(image);
    let check = run(folder, &["check", "a.vhd"]);
    assert_eq!(check.status.code(), Some(1));
    assert!(text(&check.stdout).contains("convert --force"), "{}", text(&check.stdout));
    check_refused(folder, &["convert", "a.vhd", "b.raw"], "finding  block 1 at byte");
    check_refused(folder, &["convert", "a.vhd", "b.raw"], "a.vhd: 1 findings: some of its data are wrong");
    assert!(!folder.join("b.raw").exists());
    let forced = run(folder, &["convert", "--force", "a.vhd", "b.raw"]);
    assert!(forced.status.success() && text(&forced.stderr).contains("finding  block 1"));
    let copied = fs::read(folder.join("b.raw")).expect("a copy");
    assert!(copied[..2 << 20] == blocks[..2 << 20] && copied[4 << 20..] == blocks[4 << 20..]);
}

#[test]
fn sizes_that_no_image_has_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let largest = "18446744073709551615";
    check_refused(
        folder,
        &["create", "a.raw", "--size", largest],
        "invalid --size 18446744073709551615: a raw",
    );
    for name in ["a.vhd", "a.vhdx"] {
        check_refused(folder, &["create", name, "--size", largest], "invalid size of 18446744073709551615");
        let block = ["create", name, "--size", "4MiB", "--block", "5GiB"];
        check_refused(folder, &block, "invalid --block 5368709120: a VHD has at most 64 MiB");
        assert!(!text(&run(folder, &block).stderr).contains("integral"));
    }
    check_refused(
        folder,
        &["create", "a.vhd", "--fixed", "--size", largest],
        "invalid disk size of 18446744073709551615",
    );
    assert_eq!(names(folder), Vec::<String>::new());
}

/// A full device, or a pipe without a reader, as standard output ended commands with a panic.
#[test]
fn standard_output_that_cannot_be_written_is_an_error_or_a_silent_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, &["create", "a.vhd", "--size", "4MiB"]);
    let commands: [&[&str]; 8] = [
        &["vdisk", "info", "a.vhd"],
        &["vdisk", "check", "a.vhd"],
        &["vdisk", "convert", "a.vhd", "b.vhdx"],
        &["config", "schema"],
        &["config", "reference"],
        &["completions", "bash"],
        &["--help"],
        &["vdisk", "--help"],
    ];
    for args in commands {
        let run = |out: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
            let output = command.current_dir(folder).args(args).stdout(out).output().expect("masu runs");
            let _ = fs::remove_file(folder.join("b.vhdx"));
            (output.status.code(), text(&output.stderr))
        };
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let (code, said) = run(full.into());
        let expected = "masu: cannot write to standard output: No space left on device (os error 28)\n";
        assert_eq!((code, said.as_str()), (Some(2), expected), "masu {args:?} to a full device");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(run(writer.into()), (Some(141), String::new()), "masu {args:?} to nobody");
    }
}

/// Such images were created with success, and could not be opened by anything.
#[test]
fn a_child_that_cannot_be_opened_is_not_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["base.vhd", "base.vhdx", "p\\q.vhd"] {
        ok(folder, &["create", name, "--size", "4MiB"]);
    }
    let invalid = OsStr::from_bytes(b"n\xff.vhd");
    fs::copy(folder.join("base.vhd"), folder.join(invalid)).expect("copied");
    File::create(folder.join("a.raw")).and_then(|file| file.set_len(4 << 20)).expect("a file");
    let before = names(folder);
    let refused = |child: &str, parent: &str, says: &str| {
        check_refused(folder, &["create", child, "--parent", parent], says);
        assert_eq!(names(folder), before);
    };
    refused("c.vhdx", "base.vhd", "not a VHDX image");
    refused("c.vhd", "base.vhdx", "could not be opened; nothing was created");
    refused("c.vhd", "p\\q.vhd", "invalid parent name p\\q.vhd");
    let over_raw = ["create", "c.vhd", "--parent", "a.raw", "--input-format", "raw"];
    check_refused(folder, &over_raw, "could not be opened; nothing was created");
    let output = vdisk(folder, &["create", "c.vhd", "--parent"]).arg(invalid).output().expect("masu runs");
    assert!(text(&output.stderr).contains("invalid parent name"), "{}", text(&output.stderr));
    assert_eq!((output.status.code(), names(folder)), (Some(2), before.clone()));

    fs::create_dir(folder.join("other")).expect("a folder");
    ok(folder, &["create", "other/c.vhd", "--parent", "base.vhd"]);
    ok(folder, &["info", "other/c.vhd", "--parents-in", "."]);
    let mut parent = "base.vhd".to_owned();
    for number in 1..=32 {
        let child = format!("{number}.vhd");
        ok(folder, &["create", &child, "--parent", &parent]);
        parent = child;
    }
    check_refused(folder, &["create", "33.vhd", "--parent", "32.vhd"], "the chain has more than 32 images");
    assert!(!folder.join("33.vhd").exists());
    ok(folder, &["info", "32.vhd"]);
}

/// Files without an end were read until memory was gone.
#[test]
fn a_text_without_an_end_is_refused() {
    let commands: [&[&str]; 4] = [
        &["config", "check", "/dev/zero"],
        &["run", "/dev/zero", "--check"],
        &["load", "iscsi://127.0.0.1:1/iqn.2026-11.net.example:t/0", "--fio", "/dev/zero"],
        &["load", "iscsi://127.0.0.1:1/iqn.2026-11.net.example:t/0", "--icf", "/dev/zero"],
    ];
    for args in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_masu")).args(args).output().expect("masu runs");
        let said = text(&output.stderr);
        let says = ["/dev/zero: it is a device: name a file", "/dev/zero: it is not a regular file"];
        assert!(says.iter().any(|says| said.contains(says)), "masu {args:?}: {said}");
        assert!(!output.status.success(), "masu {args:?}");
    }
}

/// The data of a child of a VHD that was written afterwards are wrong, and nothing noticed.
#[test]
fn a_vhd_that_is_written_after_its_child_was_created_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, &["create", "base.vhd", "--size", "4MiB"]);
    ok(folder, &["create", "child.vhd", "--parent", "base.vhd"]);
    let told = || {
        let check = run(folder, &["check", "child.vhd"]);
        let convert = run(folder, &["convert", "child.vhd", "to.raw"]);
        assert!(check.status.success() && convert.status.success());
        fs::remove_file(folder.join("to.raw")).expect("a copy");
        let says =
            |bytes: &[u8]| text(bytes).contains("base.vhd: written or copied after its child was created");
        assert_eq!(says(&check.stdout), says(&convert.stderr));
        says(&check.stdout)
    };
    assert!(!told());
    let base = File::options().write(true).open(folder.join("base.vhd")).expect("an image");
    base.set_modified(SystemTime::now() + Duration::from_secs(9)).expect("as if it had been written");
    assert!(told());
}

/// A child without its parent was clean, and a parent that had grown left its children unreadable.
#[test]
fn a_child_without_its_parent_is_not_clean_and_a_parent_does_not_grow() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    for (parent, child) in [("base.vhd", "c.vhd"), ("base.vhdx", "c.vhdx")] {
        ok(folder, &["create", parent, "--size", "64MiB"]);
        ok(folder, &["resize", parent, "--size", "80MiB"]);
        ok(folder, &["create", child, "--parent", parent]);
        ok(folder, &["check", child]);
        let before = fs::read(folder.join(parent)).expect("readable");
        check_refused(folder, &["resize", parent, "--size", "96MiB"], "is the parent of");
        assert!(fs::read(folder.join(parent)).expect("readable") == before, "nothing was written");
        fs::rename(folder.join(parent), folder.join("away")).expect("moved");
        let output = run(folder, &["check", child]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("finding  its parents cannot be opened") && !said.contains("clean: "),
            "{said}"
        );
        fs::rename(folder.join("away"), folder.join(parent)).expect("moved");
        ok(folder, &["check", child]);
        ok(folder, &["resize", parent, "--size", "96MiB", "--force"]);
    }
}

/// `--fixed` allocated nothing: on a full file system the disk was "created", and its guest met errors.
#[test]
fn a_fixed_image_has_all_of_its_space_or_is_not_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["a.vhd", "a.vhdx", "a.raw"] {
        ok(folder, &["create", name, "--size", "24MiB", "--fixed"]);
        let blocks = fs::metadata(folder.join(name)).expect("a file").blocks();
        assert!(blocks * 512 >= 24 << 20, "{name}: {blocks} blocks of 512 bytes");
        ok(folder, &["check", name, "--input-format", if name == "a.raw" { "raw" } else { format(name) }]);
    }
    ok(folder, &["convert", "a.vhdx", "b.raw", "--fixed"]);
    assert!(fs::metadata(folder.join("b.raw")).expect("a file").blocks() * 512 >= 24 << 20);
    ok(folder, &["create", "sparse.raw", "--size", "24MiB"]);
    assert_eq!(fs::metadata(folder.join("sparse.raw")).expect("a file").blocks(), 0);
    // No file system of a test has so much. It takes nothing of what there is.
    check_refused(folder, &["create", "c.vhdx", "--size", "15TiB", "--fixed"], "c.vhdx: no space for 15");
    assert_eq!(names(folder), ["a.raw", "a.vhd", "a.vhdx", "b.raw", "sparse.raw"]);
}

fn format(name: &str) -> &'static str {
    if name.ends_with("vhdx") { "vhdx" } else { "vhd-fixed" }
}

/// "not a VHD image: missing footer" named no file, and "specify raw" no option.
#[test]
fn a_message_names_the_file_and_the_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, &["create", "a.raw", "--size", "4MiB"]);
    check_refused(
        folder,
        &["resize", "a.raw", "--size", "8MiB"],
        "a.raw: neither a VHD nor a VHDX; resize a raw",
    );
    check_refused(folder, &["compact", "a.raw"], "a.raw: neither a VHD nor a VHDX; compact a raw");
    check_refused(folder, &["info", "a.raw"], "for a raw image pass --input-format raw");
    check_refused(folder, &["convert", "a.raw", "b.vhdx"], "--input-format raw");
    ok(folder, &["info", "a.raw", "--input-format", "raw"]);
    ok(folder, &["convert", "--input-format", "raw", "a.raw", "b.vhdx"]);
}

/// A name could colour, move or hide what the terminal shows.
#[test]
fn control_characters_of_names_are_escaped() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let name = "a\u{1b}[31mb.vhdx";
    let made = run(folder, &["create", name, "--size", "4MiB"]);
    assert_eq!(text(&made.stdout), "a\\u{1b}[31mb.vhdx: a disk of 4 MiB\n");
    for output in [run(folder, &["check", name]), run(folder, &["create", name, "--size", "4MiB"])] {
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("\\u{1b}[31mb.vhdx: ") && !said.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn an_error_names_the_file_that_it_is_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut bytes = b"vhdxfile".to_vec();
    bytes.resize(2 << 20, 0);
    fs::write(folder.join("bad.vhdx"), &bytes).expect("a file");
    check_refused(folder, &["serve", "bad.vhdx", "--nbd", "127.0.0.1:0"], "masu: bad.vhdx: ");
    ok(folder, &["create", "p.vhdx", "--size", "4MiB"]);
    ok(folder, &["create", "c.vhdx", "--parent", "p.vhdx"]);
    fs::rename(folder.join("p.vhdx"), folder.join("away")).expect("renamed");
    let grown = run(folder, &["resize", "c.vhdx", "--size", "8MiB"]);
    assert!(grown.status.success(), "{}", text(&grown.stderr));
    assert!(
        text(&grown.stderr).contains("c.vhdx: does not open without its parent"),
        "{}",
        text(&grown.stderr)
    );
}

/// A signal ended the command: the part of an image stayed behind, and nothing was said.
#[test]
fn a_limit_of_file_sizes_is_a_full_file_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("big.raw"), vec![7; 8 << 20]).expect("a file");
    let mut limited = Command::new("sh");
    limited.current_dir(folder).args(["-c", "ulimit -f 2048; exec \"$0\" vdisk convert --raw big.raw o.vhd"]);
    let output = limited.arg(env!("CARGO_BIN_EXE_masu")).output().expect("sh runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{}: {said}", output.status);
    assert!(
        said.starts_with("masu: ") && said.contains("o.vhd.part") && said.contains("out of space"),
        "{said}"
    );
    assert_eq!(names(folder), ["big.raw"]);
}

/// `qemu-img check` finds them, and masu copied the wrong data with exit status 0.
#[test]
fn a_qcow2_whose_tables_contradict_each_other_is_not_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let qemu = |args: &[&str]| {
        let made =
            Command::new("qemu-img").current_dir(folder).args(args).output().expect("qemu-img is there");
        assert!(made.status.success(), "qemu-img {args:?}: {}", text(&made.stderr));
    };
    fs::write(folder.join("a.raw"), vec![7; 1 << 20]).expect("a file");
    for (compat, more) in [("0.10", &[][..]), ("1.1", &[]), ("1.1", &["-c"])] {
        let options = format!("compat={compat}");
        qemu(&[&["convert", "-O", "qcow2", "-o", &options], more, &["a.raw", "a.qcow2"]].concat());
        let check_whole = || {
            let whole = run(folder, &["check", "a.qcow2"]);
            assert!(whole.status.success(), "{}{}", text(&whole.stdout), text(&whole.stderr));
        };
        check_whole();
        if !more.is_empty() {
            continue;
        }
        check_contradictions(folder, compat == "0.10");
        // A snapshot shares all of it.
        qemu(&["snapshot", "-c", "s", "a.qcow2"]);
        check_whole();
    }
}

fn check_contradictions(folder: &Path, is_old: bool) {
    let image = File::options().read(true).write(true).open(folder.join("a.qcow2")).expect("an image");
    let word = |at: u64| {
        let mut bytes = [0; 8];
        image.read_exact_at(&mut bytes, at).expect("a word");
        u64::from_be_bytes(bytes)
    };
    let put = |at: u64, word: u64| image.write_all_at(&word.to_be_bytes(), at).expect("written");
    let offset = |entry: u64| entry & 0x00ff_ffff_ffff_fe00;
    let l1_at = word(40);
    let l2_at = offset(word(l1_at));
    let (first, second, single) = (word(l2_at), word(l2_at + 8), 1 << 63);
    let refused = |at: u64, entry: u64, says: &str| {
        let before = word(at);
        put(at, entry);
        check_refused(folder, &["convert", "a.qcow2", "b.raw"], says);
        put(at, before);
    };
    refused(l2_at, second, "cluster 1: another cluster has its bytes");
    for table in [l1_at, l2_at, word(48)] {
        refused(l2_at, table | single, "cluster 0: its bytes at");
    }
    refused(l1_at, word(48) | single, "L1 entry 0: its L2 table at byte");
    refused(l1_at, word(l1_at) | 2, "L1 entry 0: reserved bits are set");
    for reserved in [2, 1 << 56] {
        refused(l2_at, first | reserved, "cluster 0: reserved bits are set");
    }
    if is_old {
        refused(l2_at, first | 1, "cluster 0: reserved bits are set");
    }
}
