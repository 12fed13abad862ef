//! The examples, each small enough for a few seconds, and what is refused.

use std::path::{Path, PathBuf};

use lab_core::interrupt::Stop;
use lab_core::record::{RunRecord, World};
use lab_core::sweep;
use lab_core::verdict::Verdict;
use lab_core::verification::{self, Request, Setup, Sweep, Verification};

use super::read::read;
use super::recording::FoundLu;
use super::scenario::EXAMPLE;
use super::{Run, report, runs, words};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/examples").join(format!("{name}.toml"))
}

fn request(name: &str) -> Request {
    Request { scenario: Some(example(name)), repeats: 1, seed: 1, ..Request::default() }
}

/// Runs an example in virtual time; every claim of it is measured.
fn played(name: &str) -> RunRecord {
    let dir = tempfile::tempdir().expect("a folder");
    let request = Request { out: dir.path().join(name), ..request(name) };
    let record = match verification::run::<Run>(&request, &World::Model) {
        Ok(record) => record,
        // A build without the viewer writes everything but the page.
        Err(error) if error.to_string().contains("no report viewer") => {
            RunRecord::read(&request.out.join("results.json")).expect("a record")
        }
        Err(error) => panic!("{error:#}"),
    };
    assert!(dir.path().join(name).join("windows.csv").is_file());
    for claim in &record.claims {
        assert!(claim.verdict != Verdict::NotJudged && claim.figure.is_some(), "{claim:?}");
    }
    record
}

fn estimate(record: &RunRecord, id: &str) -> f64 {
    let claim = record.claims.iter().find(|claim| claim.id == id);
    claim.and_then(|claim| claim.estimate).unwrap_or_else(|| panic!("{id} is measured"))
}

#[test]
fn two_layouts_are_compared() {
    let record = played("which_of_two_layouts");
    assert!(estimate(&record, "gain") > 1.0, "mirrors write twice, parity four times");
    assert!(record.claims.iter().any(|claim| claim.id == "response.raid_5"));
}

#[test]
fn a_drive_fails_and_no_io_does() {
    let record = played("rebuild_under_load");
    assert_eq!(estimate(&record, "failed"), 0.0);
}

#[test]
fn a_minimum_protects_from_a_neighbour() {
    let record = played("noisy_neighbour");
    assert!(estimate(&record, "beside") < 1.0, "a neighbour costs something");
    let metric = |phase: &str| {
        let of = |name: &str, value: &str, metric: &lab_core::record::Metric| {
            metric.dimensions.get(name).is_some_and(|own| own == value)
        };
        let mut all = record.metrics.iter().filter(|metric| metric.id == "rate");
        let found = all.find(|metric| of("phase", phase, metric) && of("load", "database", metric));
        found.and_then(lab_core::record::Metric::estimate).expect("measured").mean
    };
    assert!(metric("with a minimum") > metric("beside the copy"));
}

#[test]
fn more_cache_has_more_hits() {
    let record = played("how_much_cache");
    assert!(estimate(&record, "response.32_mib") > estimate(&record, "response.256_mib"));
}

#[test]
fn the_largest_count_is_found() {
    let record = played("how_many_more_vms");
    let largest = estimate(&record, "vms");
    assert!((1.0..32.0).contains(&largest), "{largest}");
}

#[test]
fn the_same_seed_gives_the_same_record() {
    let recording = |seed: u64| {
        let request = Request { seed, ..request("noisy_neighbour") };
        let (plan, text) = report::load(&request).expect("reads");
        let ran = runs::run(&plan, World::Model, &request, &Stop::default()).expect("runs");
        let setup = Setup::<Run> { request: &request, own: &World::Model, scenario: &plan, text: &text };
        Run::metrics(&setup, &ran)
    };
    let first = recording(1);
    assert_eq!(first, recording(1));
    assert_ne!(first, recording(2));
}

/// One thread serves an array of memory drives, another has the sessions of the scenario's hosts.
#[test]
fn a_fio_file_runs_on_the_lu_of_another_array() {
    use lab_core::quantity::Size;
    use lab_tools::testbed::embedded::{ArrayShape, DriveKind, Embedded, PoolShape, TARGET};
    let request = request("my_fio_file");
    let (plan, text) = report::load(&request).expect("reads");
    assert!(
        words::check(&plan, World::Real, 1).contains("1 run of 6 s"),
        "{}",
        words::check(&plan, World::Real, 1)
    );
    let refused = runs::check(&plan, World::Model, &[]).expect_err("no array").to_string();
    assert!(refused.contains("--target"), "{refused}");

    let shape = ArrayShape { drives: DriveKind::Memory, page: Size(1 << 20), segment_bytes_max: 1448 };
    let pool = PoolShape { name: "a", drive_bytes: 512 << 20, volume_bytes: 64 << 20, threshold_percent: 80 };
    let dir = tempfile::tempdir().expect("a folder");
    let array = Embedded::start(&shape, &[pool], 1, dir.path()).expect("an array");
    let mut short = plan;
    short.phases[0].time = std::time::Duration::from_millis(1500);
    short.run.window.0 = std::time::Duration::from_millis(250);
    let targets = vec![format!("iscsi://{}/{TARGET}/0", array.listen())];
    let request = Request { targets, ..request };
    let refused = runs::run(&short, World::Real, &request, &Stop::default()).expect_err("it writes");
    assert!(refused.to_string().contains("--destroy-data"), "{refused}");
    // A LU that is smaller than its volume was measured as if it were the volume.
    let request = Request { destroy_data: true, ..request };
    let size = std::mem::replace(&mut short.volumes[0].len_bytes, 65 << 20);
    let refused = runs::run(&short, World::Real, &request, &Stop::default()).expect_err("too small");
    assert!(refused.to_string().contains("has 64 MiB, and volume"), "{refused}");
    let refused = runs::prepare(&short, World::Real, &request).err().expect("too small").to_string();
    assert!(refused.contains("of the scenario 65 MiB"), "{refused}");
    short.volumes[0].len_bytes = size.min(64 << 20);
    let ran = runs::run(&short, World::Real, &request, &Stop::default()).expect("runs");
    let played = &ran.ran[0].courses[0].phases[0];
    assert!(played.loads[0].iter().map(|window| window.ios).sum::<u64>() > 10, "{played:?}");
    assert!(played.loads[0].iter().all(|window| window.failed == 0), "{played:?}");
    let setup = Setup::<Run> { request: &request, own: &World::Real, scenario: &short, text: &text };
    let inputs = Run::inputs(&setup, &ran);
    let sizes: Vec<&str> =
        inputs.iter().filter(|i| i.name.contains("size")).map(|i| i.value.as_str()).collect();
    assert_eq!(sizes, ["64 MiB"], "{inputs:?}");
}

/// All of its writes failed, and what had failed so fast was the answer.
#[test]
fn a_lu_that_takes_no_writes_is_refused_for_a_load_that_writes() {
    let (plan, _) = report::load(&request("my_fio_file")).expect("reads");
    let lu = |read_only| FoundLu { url: "iscsi://h/t/0".into(), len_bytes: 1 << 40, read_only };
    assert!(runs::check_lus(&plan, &[lu(false)]).is_ok());
    let refused = runs::check_lus(&plan, &[lu(true)]).expect_err("write-protected").to_string();
    assert!(refused.starts_with("--target iscsi://h/t/0: is write-protected"), "{refused}");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    assert!(read(EXAMPLE, "my.toml", Path::new("")).is_ok());
    for (from, to, expected) in [
        ("rate = 100.0", "rat = 100.0", "unknown key `rat`"),
        ("volumes = [\"files\"]", "volumes = [\"file\"]", "unknown volume \"file\""),
        ("model = \"savvio-10k1\" ", "model = \"savvio\" ", "the catalogue has"),
        ("drives = [\"d\"] ", "drives = [\"e\"] ", "unknown drive \"e\""),
        ("size = \"8GiB\"", "size = \"8GX\"", "8GX"),
        ("random=100\"]", "random=101\"]", "101 %: must be at most 100 %"),
        ("time = \"16s\"", "time = \"1s\"", "settle and two windows"),
        ("loads = [\"database\"]", "loads = [\"databas\"]", "unknown load"),
        ("maximum = 2000 }]", "maximum = 0 }]", "0"),
        ("phase = \"alone\" }", "phase = \"aline\" }", "unknown phase"),
        ("at_most = 20", "# at_most = 20", "must have one of"),
        ("id = \"slower\"", "id = \"response\"", "twice"),
        ("at_most = 20", "at_most = inf", "finite"),
        ("at_most = 20", "at_least = 0", "response_mean is never less, so the claim cannot fail"),
        ("at_most = 20", "at_most = -1", "response_mean is never less, so the claim cannot hold"),
        ("at_most = 20", "below = 0", "response_mean is never less, so the claim cannot hold"),
        ("size = \"8GiB\"", "size = \"8GiB\"\ncount = 9223372036854775807", "more than 1000 volumes"),
        ("metric = \"response_mean\"", "metric = \"largest_count\"", "leave out load"),
        // Memory is taken for these: the process was ended by the system.
        (
            "cache = \"256MiB\"",
            "cache = \"16TiB\"",
            "invalid cache 16 TiB: must be 0 (none), or 8 MiB to 64 GiB",
        ),
        ("cache = \"256MiB\"", "cache = \"8000PiB\"", "must be 0 (none)"),
        ("cache = \"256MiB\"", "cache = \"1\"", "must be 0 (none)"),
        ("stripe_unit = \"64KiB\"", "stripe_unit = \"0\"", "invalid stripe_unit 0 B: must be a power of two"),
        ("stripe_unit = \"64KiB\"", "stripe_unit = \"3KiB\"", "in 4 KiB to 4 MiB"),
        ("groups = [\"g\"]", "groups = [\"g\"]\npage = \"1GiB\"", "invalid page 1 GiB"),
        ("count = 6", "count = 1000", "RAID10 requires 4 to 32, not 1000"),
        ("count = 6", "count = 5", "requires an even number, not 5"),
        ("size = \"8GiB\"", "size = \"7000PiB\"", "must be whole MiB, at most 64 TiB"),
        ("size = \"8GiB\"", "size = \"8GiB\"\ncount = 0", "invalid count 0"),
        ("window = \"1s\"", "window = \"500000000000000s\"", "must be in 10ms to 3600s"),
        ("settle = \"1s\"", "settle = \"18446744073709549568s\"", "settle and two windows"),
        ("outstanding = 32", "outstanding = 1001", "outstanding"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let text = EXAMPLE.replacen(from, to, 1);
        let said = read(&text, "my.toml", Path::new("")).expect_err(to).to_string();
        let line: usize = said.split(':').nth(1).and_then(|n| n.parse().ok()).expect("a line");
        assert!(said.contains(expected) && !said.contains('\n') && line > 1, "{to}: {said}");
    }
}

/// All of these were taken without a word: the second was left out, or the last one won.
#[test]
fn what_is_there_twice_or_says_nothing_is_refused_with_its_line_and_what_to_do() {
    for (from, to, expected) in [
        ("# pull = [\"d3\"]", "pull = [\"d3\", \"d3\"]", "\"d3\" stands here twice; remove one of them"),
        (
            "drives = [\"d\"] ",
            "drives = [\"d\", \"d3\"] ",
            "drive \"d3\" is named twice; remove one of the names",
        ),
        ("volumes = [\"files\"], max", "volumes = [], max", "must name at least one volume"),
        (
            "policies = [{",
            "policies = [{ volumes = [\"files\"], minimum = 1 }, {",
            "has two policies in this phase; remove one of them",
        ),
        ("rate = 100.0", "# rate = 100.0", "poisson requires rate: add how many"),
        ("size=8KiB,read=67", "size=8KiB,read=5,read=67", "has read twice; remove one of them"),
        ("size=8KiB,read=67", "size=8KiB,burst=3,read=67", "burst requires delay"),
        (
            "loads = [\"database\", \"backup\"]",
            "loads = [\"backup\", \"backup\"]",
            "invalid loads: \"backup\" stands here twice",
        ),
        ("id = \"response\"", "id = \"\"", "empty id: must have at least one character"),
        ("name = \"backup\"", "name = \" \"", "empty name: must have at least one character"),
        (
            "figures = [\"rate\", \"response_mean\"]",
            "figures = [\"rate\", \"rate\"]",
            "invalid figures: \"rate\" stands here twice",
        ),
        ("name = \"files\"", "name = \"database\"", "volume \"database\" is there twice; give each"),
        ("name = \"backup\"", "name = \"database\"", "load \"database\" is there twice; give each"),
        ("name = \"with the backup\"", "name = \"alone\"", "phase \"alone\" is there twice; give each"),
        (
            "[[array.group]]",
            "[[array.drive]]\nname = \"d2\"\nmodel = \"savvio-10k1\"\n[[array.group]]",
            "drive \"d2\" is there twice; give each",
        ),
        (
            "[[array.pool]]",
            "[[array.pool]]\nname = \"p\"\ngroups = [\"g\"]\n[[array.pool]]",
            "pool \"p\" is there twice; give each",
        ),
        ("groups = [\"g\"]", "groups = []", "must name at least one group"),
        ("volumes = [\"database\", \"files\"]", "volumes = []", "must name at least one volume"),
        (
            "[[load]]",
            "[[host]]\nname = \"kvm1\"\nvolumes = [\"files\"]\n[[load]]",
            "host \"kvm1\" is there twice",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let text = EXAMPLE.replacen(from, to, 1);
        let said = read(&text, "my.toml", Path::new("")).expect_err(to).to_string();
        let line: usize = said.split(':').nth(1).and_then(|n| n.parse().ok()).expect("a line");
        assert!(said.contains(expected) && !said.contains('\n') && line > 1, "{to}: {said}");
    }
}

/// `--check` said that all was well of what the run refused.
#[test]
fn a_check_refuses_what_a_run_refuses() {
    let refused = |from: &str, to: &str, world: World| {
        assert!(EXAMPLE.contains(from), "{from}");
        let plan = read(&EXAMPLE.replacen(from, to, 1), "my.toml", Path::new("")).expect("reads");
        let request = Request { seed: 1, ..Request::default() };
        let checked = runs::prepare(&plan, world, &request).err().map(|error| format!("{error:#}"));
        let ran = runs::run(&plan, world, &request, &Stop::default()).err().map(|error| format!("{error:#}"));
        assert_eq!(checked, ran, "{to}");
        checked.unwrap_or_else(|| panic!("{to} is played"))
    };
    for world in [World::Model, World::Real] {
        let said = refused("size = \"8GiB\"", "size = \"60TiB\"", world);
        assert!(said.contains("raid10"), "the array: {said}");
        let said = refused("outstanding = 32", "span = \"4KiB\"\noutstanding = 32", world);
        assert!(said.contains("load \"database\"") && said.contains("does not fit on 4096 bytes"), "{said}");
    }
    let plan = read(EXAMPLE, "my.toml", Path::new("")).expect("reads");
    for world in [World::Model, World::Real] {
        assert!(runs::prepare(&plan, world, &Request::default()).is_ok());
    }
}

/// All limits have two ends: what is just within them is made.
#[test]
fn what_the_limits_allow_is_made() {
    for (from, to) in [
        ("stripe_unit = \"64KiB\"", "stripe_unit = \"4KiB\""),
        ("stripe_unit = \"64KiB\"", "stripe_unit = \"4MiB\""),
        ("groups = [\"g\"]", "groups = [\"g\"]\npage = \"64KiB\""),
        ("groups = [\"g\"]", "groups = [\"g\"]\npage = \"16MiB\""),
        ("count = 6", "count = 32"),
        ("cache = \"256MiB\"", "cache = \"8MiB\""),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let plan = read(&EXAMPLE.replacen(from, to, 1), "my.toml", Path::new("")).expect(to);
        assert!(runs::prepare(&plan, World::Model, &Request::default()).is_ok(), "{to}");
    }
}

const ALL_FAILS: &str = r#"
name = "all_fails"
question = "What do servers notice?"
[run]
settle = "1s"
window = "1s"
[[array]]
name = "a"
drive = [{ name = "d", count = 2, model = "savvio-10k1" }]
group = [{ name = "g", level = "raid0", drives = ["d"] }]
pool = [{ name = "p", groups = ["g"] }]
[[volume]]
name = "v"
size = "1GiB"
[[load]]
name = "l"
volumes = ["v"]
access = ["size=4KiB,read=100,random=100"]
outstanding = 4
[[phase]]
name = "before"
time = "4s"
loads = ["l"]
[[phase]]
name = "after"
time = "4s"
loads = ["l"]
pull = ["d1", "d2"]
[[claim]]
id = "response"
name = "response"
metric = "response_mean"
load = "l"
phase = "after"
source = "chosen"
at_most = 20
[[claim]]
id = "rate"
name = "rate"
metric = "rate"
load = "l"
phase = "after"
source = "chosen"
at_least = 1
"#;

/// Both drives of a RAID 0 are pulled: everything fails at once, in no time. The run ends, and nothing that
/// failed counts as served, or as fast.
#[test]
fn what_fails_is_neither_fast_nor_served() {
    let plan = read(ALL_FAILS, "my.toml", Path::new("")).expect("reads");
    let ran = runs::run(&plan, World::Model, &Request { seed: 1, ..Request::default() }, &Stop::default());
    let measures = super::claims::measures(&plan, World::Model, &ran.expect("it ends"));
    let judged = plan.claims.judge(World::Model, &measures, false);
    assert!(judged.len() == 2 && judged.iter().all(|c| c.verdict == Verdict::NotHeld), "{judged:?}");
}

/// A claim for which nothing was measured was left out, and the run ended with exit status 0: only the others
/// were judged.
#[test]
fn a_claim_for_which_nothing_was_measured_is_undecided_and_so_is_the_run() {
    let text = ALL_FAILS
        .replace("pull = [\"d1\", \"d2\"]\n", "")
        .replace("read=100", "read=0")
        .replace("name = \"a\"\n", "name = \"a\"\ncache = \"8MiB\"\n");
    let text = text.split("[[claim]]").next().expect("a scenario").to_owned()
        + "[[claim]]\nid = \"hits\"\nname = \"hits\"\nmetric = \"read_hits\"\nphase = \"before\"\nsource = \"chosen\"\n\
           at_least = 50\n\
           [[claim]]\nid = \"served\"\nname = \"served\"\nmetric = \"rate\"\nphase = \"before\"\nsource = \"chosen\"\n\
           at_least = 1\n";
    let plan = read(&text, "my.toml", Path::new("")).expect("reads");
    let ran = runs::run(&plan, World::Model, &Request { seed: 1, ..Request::default() }, &Stop::default());
    let measures = super::claims::measures(&plan, World::Model, &ran.expect("it ends"));
    let judged = plan.claims.judge(World::Model, &measures, false);
    let verdicts: Vec<Verdict> = judged.iter().map(|claim| claim.verdict).collect();
    assert_eq!(verdicts, [Verdict::Undecided, Verdict::Held], "{judged:?}");
    assert!(judged[0].reason.as_deref().is_some_and(|why| why.contains("no I/O ended")), "{judged:?}");
    let is = lab_core::record::RunVerdict::of(&judged, false, String::new());
    assert_eq!((is.standing, is.exit_status), (lab_core::verdict::Standing::Undecided, 3));
    assert_eq!(is.tally.words(), "promises: 1 of 2 held, 1 undecided");
}

/// A drive that said nothing for a third of the time left no trace in the response times: windows in which
/// nothing ended had none, and "p99 below 200 ms" was held.
#[test]
fn a_load_that_gets_no_answer_for_a_third_of_the_time_has_not_kept_to_its_response() {
    use std::time::Duration;
    let text = ALL_FAILS.replace("window = \"1s\"", "window = \"100ms\"")
        + "[[claim]]\nid = \"p99\"\nname = \"p99\"\nmetric = \"response_p99\"\nload = \"l\"\nphase = \"after\"\n\
           source = \"chosen\"\nat_most = 200\n";
    let plan = read(&text, "my.toml", Path::new("")).expect("reads");
    let runs::Prepared::Modelled(made) =
        runs::prepare(&plan, World::Model, &Request::default()).expect("made")
    else {
        panic!("the model world");
    };
    let pause = |world: &world::World, drive: &world_model::Disk| {
        drive.hang();
        let (world, drive) = (world.clone(), drive.clone());
        let again = world.clone();
        world.spawn(async move {
            again.sleep(Duration::from_secs(2)).await;
            drive.resume();
        });
    };
    let stop = Stop::default();
    let course = runs::model(&plan, (&plan.arrays[0], &made[0]), None, (1, &stop), &pause).expect("it ends");
    let phase = &course.phases[1];
    let (count, first) = phase.unanswered(Some(0)).expect("windows without an answer");
    assert!((8..=11).contains(&count) && first >= phase.first, "{count} windows, first {first}");
    let ran = super::recording::Ran { array: "a".into(), courses: vec![course], found: None };
    let recording = super::recording::Recording { ran: vec![ran], lus: vec![], stopped: false };
    let judged =
        plan.claims.judge(World::Model, &super::claims::measures(&plan, World::Model, &recording), false);
    let claim = judged.iter().find(|claim| claim.id == "p99").expect("judged");
    // The mean is far above the bound, and windows that are so alike tell little: it is not held.
    assert!(claim.verdict == Verdict::Undecided && claim.estimate > Some(400.0), "{claim:?}");
    let note = claim.reason.as_deref().unwrap_or_default();
    assert!(note.contains("windows I/Os were in flight and none ended, first at"), "{claim:?}");
}

/// A write that waits for room in a cache whose drives are gone never ends, and the run waited for it.
#[test]
fn a_run_ends_though_what_is_in_flight_does_not() {
    let text =
        ALL_FAILS.replace("read=100", "read=0").replace("name = \"a\"\n", "name = \"a\"\ncache = \"8MiB\"\n");
    let plan = read(&text, "my.toml", Path::new("")).expect("reads");
    let ran = runs::run(&plan, World::Model, &Request { seed: 1, ..Request::default() }, &Stop::default());
    let recording = ran.expect("it ends");
    let measures = super::claims::measures(&plan, World::Model, &recording);
    let judged = plan.claims.judge(World::Model, &measures, false);
    assert!(judged.len() == 2 && judged.iter().all(|c| c.verdict != Verdict::Held), "{judged:?}");
}

/// A target that became silent in the last phase, and stayed so, was not told: "I/Os that failed: 0" was
/// held, and nothing said why there was no rate.
#[test]
fn what_is_never_answered_is_told_and_has_not_ended_without_a_failure() {
    let text = ALL_FAILS
        .replace("read=100", "read=0")
        .replace("name = \"a\"\n", "name = \"a\"\ncache = \"8MiB\"\n")
        + "[[claim]]\nid = \"none\"\nname = \"none\"\nmetric = \"failed\"\nload = \"l\"\nphase = \"after\"\n\
           source = \"chosen\"\nat_most = 1e9\n";
    let plan = read(&text, "my.toml", Path::new("")).expect("reads");
    let request = Request { seed: 1, ..Request::default() };
    let recording = runs::run(&plan, World::Model, &request, &Stop::default()).expect("it ends");
    let course = &recording.ran[0].courses[0];
    assert!(course.is_unended(Some(0), 1) && !course.is_unended(Some(0), 0), "{:?}", course.unended);
    let setup = Setup::<Run> { request: &request, own: &World::Model, scenario: &plan, text: &text };
    let own = Run::course(&setup, &recording);
    let said = "I/Os in flight at the end were never answered: ";
    assert!(!own.stopped && own.doubts[0].text.starts_with(said), "{:?}", own.doubts);
    let measures = super::claims::measures(&plan, World::Model, &recording);
    let judged = plan.claims.judge(World::Model, &measures, false);
    let claim = judged.iter().find(|claim| claim.id == "none").expect("judged");
    assert_eq!(claim.verdict, Verdict::Undecided, "{claim:?}");
}

/// A run that was stopped while a group was rebuilt had its time not held, and exit status 1; so had whatever
/// is waited for, or counted, to the end of a phase.
#[test]
fn what_had_not_happened_when_a_run_was_stopped_is_not_missed() {
    use super::claims::measures;
    use lab_core::claim::Outcome;
    let claim = |id: &str, rest: &str| {
        format!("[[claim]]\nid = {id:?}\nname = {id:?}\nsource = \"chosen\"\n{rest}\n")
    };
    let text = ALL_FAILS.to_owned()
        + &claim("rebuilt", "metric = \"rebuild_time\"\nat_most = 60")
        + &claim("fails", "metric = \"failed\"\nphase = \"before\"\nat_least = 1")
        + &claim("slow", "metric = \"response_max\"\nphase = \"before\"\nabove = 1e6");
    let plan = read(&text, "my.toml", Path::new("")).expect("reads");
    let ran = runs::run(&plan, World::Model, &Request { seed: 1, ..Request::default() }, &Stop::default());
    let mut recording = ran.expect("it ends");
    let outcome = |recording: &super::recording::Recording, id: &str| {
        let all = measures(&plan, World::Model, recording);
        all.iter().find(|measure| measure.id() == id).map(|measure| measure.outcome().clone())
    };
    let is = |recording: &_, id: &str, expected: fn(&Outcome) -> bool| {
        assert!(
            outcome(recording, id).is_some_and(|outcome| expected(&outcome)),
            "{id}: {:?}",
            outcome(recording, id)
        );
    };
    is(&recording, "rebuilt", |outcome| matches!(outcome, Outcome::Refuted(_)));
    is(&recording, "response", |outcome| matches!(outcome, Outcome::Refuted(_)));
    is(&recording, "fails", |outcome| matches!(outcome, Outcome::Estimate(_)));
    is(&recording, "slow", |outcome| matches!(outcome, Outcome::Estimate(_)));
    let course = &mut recording.ran[0].courses[0];
    (course.is_cut, course.phases[1].is_cut) = (true, true);
    is(&recording, "rebuilt", |outcome| matches!(outcome, Outcome::Never(_)));
    is(&recording, "response", |outcome| matches!(outcome, Outcome::Refuted(_)));
    is(&recording, "fails", |outcome| matches!(outcome, Outcome::Estimate(_)));
    recording.ran[0].courses[0].phases[0].is_cut = true;
    is(&recording, "fails", |outcome| matches!(outcome, Outcome::Never(why) if why == "0 I/Os so far"));
    is(&recording, "slow", |outcome| matches!(outcome, Outcome::Never(_)));
}

/// A model file was looked for where masu ran, and a job file of fio beside the scenario.
#[test]
fn a_model_file_lies_beside_the_scenario() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = lab_tools::drives::CATALOGUE[0].1;
    std::fs::write(dir.path().join("own.toml"), model).expect("written");
    let text = ALL_FAILS.replace("savvio-10k1", "own.toml");
    let plan = read(&text, "my.toml", dir.path()).expect("it is beside");
    assert!(runs::prepare(&plan, World::Model, &Request::default()).is_ok());
    let refused = read(&text, "my.toml", Path::new("nowhere")).expect_err("not there").to_string();
    assert!(refused.contains("own.toml"), "{refused}");
}

/// What a claim asked for and no load has by default was judged, and a comparison of records did not see it.
#[test]
fn what_a_claim_asks_for_is_in_the_record() {
    let of_claim = |id: &str, rest: &str| {
        format!("[[claim]]\nid = {id:?}\nname = {id:?}\nsource = \"chosen\"\nphase = \"before\"\n{rest}\n")
    };
    let text = ALL_FAILS.to_owned()
        + &of_claim("median", "metric = \"response_p50\"\nload = \"l\"\nat_most = 20")
        + &of_claim("median_of_all", "metric = \"response_p50\"\nat_most = 20")
        + &of_claim("rate_of_all", "metric = \"rate\"\nat_least = 1");
    let plan = read(&text, "my.toml", Path::new("")).expect("reads");
    let request = Request { seed: 1, ..Request::default() };
    let recording = runs::run(&plan, World::Model, &request, &Stop::default()).expect("runs");
    let setup = Setup::<Run> { request: &request, own: &World::Model, scenario: &plan, text: &text };
    let metrics = Run::metrics(&setup, &recording);
    let names: Vec<String> = metrics.iter().map(lab_core::record::Metric::name).collect();
    for name in ["a, l, before: response_p50", "a, before: response_p50", "a, before: rate"] {
        assert_eq!(names.iter().filter(|own| *own == name).count(), 1, "{name}: {names:?}");
    }
}

/// "READ CAPACITY(16): sense 5h/25h/00h", for a LUN that nobody has mapped.
#[test]
fn a_lun_that_is_not_there_is_said_in_words() {
    use lab_core::quantity::Size;
    use lab_tools::testbed::embedded::{ArrayShape, DriveKind, Embedded, PoolShape, TARGET};
    let shape = ArrayShape { drives: DriveKind::Memory, page: Size(1 << 20), segment_bytes_max: 1448 };
    let pool = PoolShape { name: "a", drive_bytes: 512 << 20, volume_bytes: 64 << 20, threshold_percent: 80 };
    let dir = tempfile::tempdir().expect("a folder");
    let array = Embedded::start(&shape, &[pool], 1, dir.path()).expect("an array");
    let targets = vec![format!("iscsi://{}/{TARGET}/7", array.listen())];
    let request = Request { targets, destroy_data: true, ..request("my_fio_file") };
    let (plan, _) = report::load(&request).expect("reads");
    let refused = runs::prepare(&plan, World::Real, &request).err().map(|error| format!("{error:#}"));
    let refused = refused.expect("there is no such LU");
    assert!(
        refused.contains("the target has no LU 7 for this initiator: name a LUN that it maps"),
        "{refused}"
    );
}

/// The target was killed while a run used it: exit status 2, and what was measured before was lost.
#[test]
#[expect(clippy::disallowed_methods, reason = "a target that goes away in real time")]
fn what_was_measured_before_a_lu_went_away_is_kept() {
    use lab_core::quantity::Size;
    use lab_tools::testbed::embedded::{ArrayShape, DriveKind, Embedded, PoolShape, TARGET};
    let shape = ArrayShape { drives: DriveKind::Memory, page: Size(1 << 20), segment_bytes_max: 1448 };
    let pool = PoolShape { name: "a", drive_bytes: 512 << 20, volume_bytes: 64 << 20, threshold_percent: 80 };
    let dir = tempfile::tempdir().expect("a folder");
    let array = Embedded::start(&shape, &[pool], 1, dir.path()).expect("an array");
    let targets = vec![format!("iscsi://{}/{TARGET}/0", array.listen())];
    let request = Request { targets, destroy_data: true, ..request("my_fio_file") };
    let (mut plan, text) = report::load(&request).expect("reads");
    plan.volumes[0].len_bytes = 64 << 20;
    plan.phases[0].time = std::time::Duration::from_secs(60);
    plan.run.window.0 = std::time::Duration::from_millis(100);
    plan.run.warm_up.0 = std::time::Duration::ZERO;
    plan.run.settle.0 = std::time::Duration::ZERO;
    let recording = std::thread::scope(|scope| {
        let running = scope.spawn(|| runs::run(&plan, World::Real, &request, &Stop::default()));
        std::thread::sleep(std::time::Duration::from_secs(2));
        drop(array);
        running.join().expect("no panic").expect("what was measured")
    });
    let course = &recording.ran[0].courses[0];
    assert!(recording.stopped && course.is_cut && course.failure.is_some(), "{course:?}");
    let ios: u64 = course.phases[0].all.iter().map(|window| window.ios).sum();
    assert!(ios > 10 && course.phases[0].all.len() < 600, "{course:?}");
    let setup = Setup::<Run> { request: &request, own: &World::Real, scenario: &plan, text: &text };
    let own = Run::course(&setup, &recording);
    assert!(own.stopped && own.doubts[0].text.contains("by a failure: phase"), "{:?}", own.doubts);
}

/// A scenario of a load in a fio file beside it, with one range.
fn swept(folder: &Path, more: &str) -> Request {
    let own = EXAMPLE.replace("16s", "4s").replace(
        "access = [\"size=256KiB,read=100,random=0\"]\noutstanding = 4             # without a rate: always so many in flight",
        "fio = \"backup.fio\"",
    );
    assert!(own.contains("backup.fio"));
    let range = "[[range]]\ninput = \"load.0.rate\"\nlow = 50.0\nhigh = 150.0\nwhy = \"days of the week\"\n";
    std::fs::write(folder.join("my.toml"), format!("{own}\n{range}{more}")).expect("written");
    std::fs::write(folder.join("backup.fio"), "[backup]\nrw=read\nbs=256k\niodepth=4\n").expect("written");
    Request {
        scenario: Some(folder.join("my.toml")),
        out: folder.join("out"),
        repeats: 1,
        seed: 1,
        ..Request::default()
    }
}

/// The points of a sweep are files in the output folder, and what the scenario names lies beside it.
#[test]
fn a_scenario_is_swept_with_the_files_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = swept(folder.path(), "");
    std::fs::create_dir(&request.out).expect("a folder");
    let record = sweep::sweep::<Run>(&request, &World::Model, 8, &Stop::default()).expect("a sweep");
    assert_eq!((record.together, record.refused, record.stopped), (8, 0, false));
    assert_eq!(record.claims.len(), 3);
    let point = std::fs::read_to_string(request.out.join("sweep/001.toml")).expect("a point");
    assert!(point.contains("fio = \"backup.fio\"") && !point.contains("rate = 100.0"), "{point}");
}

/// A scenario without ranges was played to its end, and then all of it was lost to the error.
#[test]
fn a_sweep_that_cannot_be_is_refused_before_the_run_and_loses_nothing_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let points = Some(Sweep { points: 8, form: &World::Model });
    let out = folder.path().join("none");
    let none = Request { out: out.clone(), repeats: 1, seed: 1, ..Request::default() };
    let refused = verification::run_and_sweep::<Run>(&none, &World::Model, points).expect_err("no range");
    assert!(refused.to_string().contains("declares no [[range]]"), "{refused:#}");
    assert!(!out.exists());
    // Volumes that the array has no room for, which only a run finds.
    let request = swept(folder.path(), "[sweep]\nset = { \"volume.0.size\" = \"60TiB\" }\n");
    let failed = verification::run_and_sweep::<Run>(&request, &World::Model, points).expect_err("no room");
    let failed = format!("{failed:#}");
    let is_shown = !failed.contains("no report viewer");
    assert!(!is_shown || failed.contains("the sweep: the scenario with the values of [sweep]"), "{failed}");
    let record = RunRecord::read(&request.out.join("results.json")).expect("a record");
    assert!(record.sweep.is_none() && record.claims.iter().all(|claim| claim.verdict != Verdict::NotJudged));
}
