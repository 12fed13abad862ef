//! `verify vaai` end to end, small: a real array, real sessions, everything that a large run does.

use std::fs;
use std::path::Path;

use lab::verify::{Asked, named};
use lab_core::claim::JudgedClaim;
use lab_core::record::{RunRecord, World};
use lab_core::verdict::Verdict;
use lab_core::verification::Request;
use serde_json::Value;

/// The built-in scenario, made small: sizes, hosts and times, not the steps.
fn small_scenario(dir: &Path) -> std::path::PathBuf {
    let mut text = include_str!("../../../scenarios/vaai.toml").to_owned();
    for (key, value) in [
        ("zeroed_disk", "\"64MiB\""),
        ("template", "\"32MiB\""),
        ("hosts", "3"),
        ("vms_per_host", "4"),
        ("vm_disk", "\"8MiB\""),
        ("scale", "1.0"),
        ("samples", "32"),
        ("file_locks", "6"),
        ("pause", "\"2ms\""),
        ("heartbeat", "\"5ms\""),
        ("pool", "\"128MiB\""),
        ("promised", "\"256MiB\""),
    ] {
        let line = text
            .lines()
            .find(|l| l.starts_with(&format!("{key} = ")))
            .unwrap_or_else(|| panic!("{key} stands in the scenario"));
        text = text.replacen(&line.to_owned(), &format!("{key} = {value}"), 1);
    }
    // The ranges contain what the scenario says.
    text = text.replace("low = 46\n", "low = 6\n");
    let path = dir.join("small.toml");
    fs::write(&path, text).expect("a scenario file");
    path
}

fn vaai(request: &Request) -> anyhow::Result<RunRecord> {
    (named("vaai").expect("a row").run)(request, &Asked { world: World::Real, ..Asked::default() })
}

fn options(dir: &Path) -> Request {
    Request {
        repeats: 2,
        seed: 7,
        out: dir.join("out"),
        scenario: Some(small_scenario(dir)),
        command: "masu verify vaai --repeats 2".into(),
        ..Request::default()
    }
}

fn series<'a>(record: &'a RunRecord, test: &str, mode: &str, id: &str) -> &'a [f64] {
    let metric = record.metrics.iter().find(|m| {
        m.id == id && m.dimensions.get("test").is_some_and(|t| t == test) && m.dimensions["mode"] == mode
    });
    &metric.unwrap_or_else(|| panic!("{test}, {mode}: {id} was measured")).samples
}

#[test]
fn a_small_run_measures_every_claim_and_proves_every_offload() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = vaai(&options(dir.path())).expect("the run ends");
    let out = dir.path().join("out");
    assert_eq!(RunRecord::read(&out.join("results.json")).expect("a record"), record);
    let written = fs::read_to_string(out.join("results.json")).expect("a record");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(lab_core::schema::faults(&written), Vec::<String>::new());
    assert!(record.claims.len() > 20, "{} claims", record.claims.len());
    for claim in &record.claims {
        assert!(claim.estimate.is_some() && claim.verdict != Verdict::NotJudged, "{claim:?}");
    }
    let claim = |id: &str| -> &JudgedClaim {
        record.claims.iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("{id}"))
    };
    // What does not depend on how fast the machine is must hold here, too.
    for id in [
        "content",
        "locking.owners",
        "zeroing.paper.packets",
        "offload.zeroed",
        "thin.resumed",
        "thin.reclaimed",
    ] {
        assert_eq!(claim(id).verdict, Verdict::Held, "{:?}", claim(id));
    }
    let (zeroed, cloned) = (f64::from(64 << 20), f64::from(32 << 20));
    assert_eq!(series(&record, "zeroing", "paper", "zeroed_bytes"), [zeroed; 2]);
    assert_eq!(series(&record, "zeroing", "off", "zeroed_bytes"), [0.0; 2]);
    assert!(series(&record, "zeroing", "off", "written_bytes").iter().all(|b| *b >= zeroed));
    assert!(series(&record, "copy", "advertised", "shared_bytes").iter().all(|b| *b > 0.9 * cloned));
    assert!(series(&record, "copy", "paper", "moved_bytes").iter().all(|b| *b < 0.1 * cloned));
    assert!(series(&record, "between", "paper", "moved_bytes").iter().all(|b| *b > 0.9 * cloned));
    assert!(series(&record, "zeroing", "paper", "drive_bytes").iter().all(|b| *b < 0.05 * zeroed));
    // Packets count as on Ethernet: the zeros of the host alone are so many segments of 1,448 bytes.
    assert!(series(&record, "zeroing", "off", "packets_out").iter().all(|p| *p >= zeroed / 1448.0));
    assert!(
        series(&record, "locking", "compare", "compares_counted")
            .iter()
            .all(|c| *c >= f64::from(3 * 4 * (6 + 2 * 4)))
    );
    check_folder(&out);
    let page = fs::read(out.join("report.html")).expect("a report");
    fs::remove_file(out.join("report.html")).expect("removed");
    lab_core::presentation::write_again(&out).expect("made again");
    assert!(fs::read(out.join("report.html")).expect("a report") == page, "the same page from the record");
}

fn check_folder(out: &Path) {
    let report = fs::read_to_string(out.join("report.html")).expect("a report");
    let data = report
        .split_once(r#"<script type="application/json" id="masu-report">"#)
        .expect("a place for data")
        .1;
    let data: Value = serde_json::from_str(data.split_once("</script>").expect("an end").0).expect("JSON");
    assert_eq!(data["scenario"], "vaai");
    assert!(
        data["answer"].as_str().is_some_and(|a| a.contains("of the time to zero a disk")),
        "{}",
        data["answer"]
    );
    let drawn: Vec<&str> =
        data["figures"].as_array().expect("figures").iter().filter_map(|f| f["id"].as_str()).collect();
    assert_eq!(drawn, ["share", "time", "cpu", "packets", "drive-io", "course", "locking", "thin"]);
    assert!(data["doubts"].to_string().contains("too few"), "two repeats are a doubt");
    for file in data["files"].as_array().expect("files") {
        let rows = file["rows"].as_u64().expect("rows");
        let text =
            fs::read_to_string(out.join(file["name"].as_str().expect("a name"))).expect("the file is there");
        assert!(rows > 0 && !text.is_empty(), "{file}");
        if file["name"].as_str().is_some_and(|n| n.ends_with(".csv")) {
            assert_eq!(text.lines().count() as u64, rows + 1, "{file}");
        }
    }
}

#[test]
fn bad_input_gets_one_clear_line_and_nothing_is_touched() {
    let dir = tempfile::tempdir().expect("a folder");
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut options = options(dir.path());
        change(&mut options);
        let error = vaai(&options).expect_err("refused");
        let text = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let url = "iscsi://127.0.0.1:1/iqn.a:b/0";
    assert!(refused(&|o| o.targets = vec![url.into()]).starts_with(&format!("refusing to overwrite {url}")));
    assert!(refused(&|o| o.targets = vec!["http://a".into()]).contains("must begin with iscsi://"));
    let unreachable = refused(&|o| (o.targets, o.destroy_data) = (vec![url.into()], true));
    assert!(unreachable.contains("127.0.0.1:1") && unreachable.contains("cannot connect"), "{unreachable}");
    assert!(refused(&|o| o.scale = Some(1.5)).starts_with("invalid --scale 1.5"));
    assert!(refused(&|o| o.repeats = 0).starts_with("invalid --repeats 0"));
    let misspelt = dir.path().join("misspelt.toml");
    fs::write(
        &misspelt,
        include_str!("../../../scenarios/vaai.toml").replacen("\nscale = ", "\nscales = 1\nscale = ", 1),
    )
    .expect("a file");
    let said = refused(&|o| o.scenario = Some(misspelt.clone()));
    assert!(said.contains("misspelt.toml:") && said.contains("`scales`"), "{said}");
    let file = dir.path().join("small.toml");
    assert!(refused(&|o| o.out = file.join("below a file")).contains("small.toml"));
}
