//! The run as a whole: run, judged, written, printed.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use diskstress::Direction;

use super::claims::{farthest, judge};
use super::figures;
use super::guest;
use super::model;
use super::real::{self, Place};
use super::results::{On, Run, names, patterns, processor, speed};
use super::scenario::{Diskstress, ReadAhead};
use crate::results::{Check, Results};
use crate::samplers::Series;
use crate::sanboot::claims::{Judged, claims};
use crate::vaai::Verdict;
use crate::verify::{DiskstressOptions, Options, World};
use lab_core::interrupt::Stop;
use lab_core::machine::{Watch, now_rfc3339};
use lab_core::report::{
    self, Column, DataFile, Doubt, Figure, Finding, Machine, Method, Report, Section, Span, Table, Value,
    Version,
};
use lab_core::stats::Estimate;
use lab_core::words::{command, plain, value};

/// A run that has ended.
struct Finished<'a> {
    scenario: &'a Diskstress,
    text: &'a str,
    options: &'a Options,
    own: &'a DiskstressOptions,
    run: Run,
    machine: Machine,
    doubts: Vec<Doubt>,
    /// Of a pattern's files together.
    pattern_bytes: u64,
    /// What the host counted in a real run, and the stretches of its repeats.
    host: Option<(Series, Vec<Span>)>,
}

impl Finished<'_> {
    fn is_model(&self) -> bool {
        self.own.world == World::Model
    }
}

/// Where `make diskstress` puts the guest.
const GUEST_DIR: &str = "target/judges/diskstress";

/// Runs the verification and writes what it found. Gives whether every claim held.
pub(crate) fn verify(options: &Options, own: &DiskstressOptions) -> Result<bool> {
    let (mut scenario, text) = Diskstress::load(options.scenario.as_deref())?;
    if own.quick {
        scenario = scenario.quick();
    }
    if let Some(scale) = options.scale {
        ensure!(own.world == World::Real, "--scale: the model world runs at full size");
        ensure!(
            scale > 0.0 && scale <= 1.0,
            "--scale {scale}: is over 0 and at most 1 (1 is 8 GB for each pattern)"
        );
        scenario.real.scale = scale;
    }
    let stop = Stop::on_signals()?;
    let watch = Watch::start();
    let (run, direct, pattern_bytes, host) = match own.world {
        World::Model => (model::run(&scenario, options.seed, &stop)?, true, 8 << 30, None),
        World::Real => {
            let guest = own.guest.clone().unwrap_or_else(|| PathBuf::from(GUEST_DIR));
            let dir = own.dir.as_deref().unwrap_or(&options.out);
            let ran = real::run(&scenario, &Place { dir, guest: &guest }, options.seed, &stop)?;
            (ran.run, ran.direct, ran.pattern_bytes, Some((ran.host, ran.repeats)))
        }
    };
    let (machine, seen) = watch.end();
    // Time in the model is virtual: what others did with this machine changes nothing.
    let mut doubts = if own.world == World::Model { vec![] } else { seen };
    doubts.extend(own_doubts(&run, direct));
    let finished = Finished {
        scenario: &scenario,
        text: &text,
        options,
        own,
        run,
        machine,
        doubts,
        pattern_bytes,
        host,
    };
    write(&finished)
}

fn own_doubts(run: &Run, direct: bool) -> Vec<Doubt> {
    let mut out = Vec::new();
    let mut doubt =
        |text: &str, effect: &str| out.push(Doubt { text: text.into(), effect: Some(effect.into()) });
    if run.stopped {
        doubt("The run was stopped before its end.", "Only the repeats before are shown.");
    }
    if run.repeats < 3 {
        doubt("Fewer than three repeats.", "Intervals mean little, or there are none.");
    }
    if !direct {
        doubt("The file system has no direct I/O.", "Speeds are those of the page cache, too.");
    }
    out
}

/// One claim that does not hold fails; a run that was cut short, or shows too little, is in doubt.
fn verdict(judged: &[Judged], run: &Run) -> &'static str {
    let has = |verdict: Verdict| judged.iter().any(|j| j.verdict == verdict);
    if has(Verdict::NotHeld) {
        "fail"
    } else if run.stopped || has(Verdict::Undecided) || !has(Verdict::Held) {
        "doubt"
    } else {
        "pass"
    }
}

fn write(f: &Finished<'_>) -> Result<bool> {
    let judged = judge(&f.run, f.is_model());
    let out = &f.options.out;
    let series = f.run.series();
    let samples: usize = series.values().map(Vec::len).sum();
    let rows = f.run.measured.iter().map(|m| {
        let cells = [
            m.drive.clone(),
            m.pattern.clone(),
            m.on.name().into(),
            format!("{:.4}", m.mb_per_s),
            format!("{:.4}", m.processor_percent),
        ];
        cells.to_vec()
    });
    let header = ["drive", "pattern", "machine", "mb_per_s", "processor_percent"];
    let rows = report::write_csv(&out.join("patterns.csv"), &header, rows)?;
    report::write_results(
        out,
        &Results {
            scenario: f.scenario.name.clone(),
            world: if f.is_model() { "model" } else { "real" },
            seed: f.options.seed,
            checks: judged.iter().map(check).collect(),
            series,
        },
    )?;
    let mut files = vec![
        DataFile {
            name: "results.json".into(),
            about: "every claim and sample, for a machine".into(),
            rows: samples,
        },
        DataFile { name: "patterns.csv".into(), about: "every pattern of every repeat".into(), rows },
    ];
    if let Some((host, _)) = &f.host {
        let rows = host.write_csv(&out.join("host.csv"))?;
        let about = "counters of this machine, second by second".into();
        files.push(DataFile { name: "host.csv".into(), about, rows });
    }
    report::write_report(out, &whole(f, &judged, files))?;
    print(f, &judged, out);
    Ok(verdict(&judged, &f.run) == "pass")
}

fn check(judged: &Judged) -> Check {
    let finite = |v: f64| v.is_finite().then_some(v);
    Check {
        name: judged.name.clone(),
        unit: judged.unit.into(),
        published: None,
        expected: None,
        measured: judged.estimate.map(|e| e.mean),
        low: judged.estimate.and_then(|e| finite(e.low)),
        high: judged.estimate.and_then(|e| finite(e.high)),
        pass: judged.verdict == Verdict::Held,
    }
}

/// A difference in words: "2.1 % ± 0.3 % less". Tenths of a percent are all that a reader needs.
fn difference(over: &Estimate) -> String {
    let percent = 100.0 * (over.mean - 1.0);
    let half = 50.0 * (over.high - over.low);
    let size = match half.is_finite() {
        true => format!("{:.1} % ± {half:.1} %", percent.abs()),
        false => format!("{:.1} %", percent.abs()),
    };
    match percent {
        // What rounds to nothing, with an interval that does, too.
        p if p.abs() < 0.05 && half < 0.05 => "as much".into(),
        p if p < 0.0 => format!("{size} less"),
        _ => format!("{size} more"),
    }
}

/// The answer, in one sentence.
fn answer(run: &Run, is_model: bool) -> String {
    let far = |direction| farthest(run, direction);
    let (Some((read, r)), Some((written, w))) = (far(Direction::Read), far(Direction::Write)) else {
        return "Nothing was measured on both machines.".into();
    };
    let rise = |on| run.rise(&run.drive, ("R4", "R1"), on);
    let place = if is_model { "On modelled drives" } else { "In an emulated guest on this machine" };
    let (reads, writes) = (difference(&r), difference(&w));
    let differ = format!(
        "{place} a virtual machine reads {reads} than natively where it differs most ({read}), and writes {writes} ({written})"
    );
    let differ = differ.replace("as much than", "as much as");
    match (is_model, rise(On::Physical), rise(On::Virtual)) {
        (true, Some(physical), Some(virtualized)) => format!(
            "{differ}; from 64 files to 8 reads rise {:.0} % natively and {:+.1} % virtually.",
            100.0 * (physical.mean - 1.0),
            100.0 * (virtualized.mean - 1.0)
        ),
        _ => differ + ".",
    }
}

fn whole(f: &Finished<'_>, judged: &[Judged], files: Vec<DataFile>) -> Report {
    let mut shown = claims(judged);
    shown.iter_mut().for_each(|claim| claim.figure = claim.figure.take().filter(|id| !id.is_empty()));
    Report {
        version: report::VERSION,
        title: f.scenario.question.clone(),
        scenario: f.scenario.name.clone(),
        world: if f.is_model() { "model" } else { "real" },
        generated: now_rfc3339(),
        answer: answer(&f.run, f.is_model()),
        verdict: verdict(judged, &f.run),
        claims: shown,
        figures: figures::figures(&f.run, f.is_model()).into_iter().chain(over_time(f)).collect(),
        findings: findings(f),
        tables: vec![table(&f.run)],
        sections: sections(f),
        doubts: f.doubts.clone(),
        method: method(f),
        files,
    }
}

/// How busy this machine was over a real run.
fn over_time(f: &Finished<'_>) -> Option<Figure> {
    let (host, repeats) = f.host.as_ref()?;
    let title = "Processors of this machine over the run";
    let figure = host.figure(("host", title), "busy", |resource| resource == "cpu", None)?;
    Some(Figure { phases: repeats.clone(), ..figure })
}

fn findings(f: &Finished<'_>) -> Vec<Finding> {
    let (Some(physical), true) = (f.run.rise(&f.run.drive, ("R4", "R1"), On::Physical), f.is_model()) else {
        return vec![];
    };
    let (ReadAhead::Memory(shared), ReadAhead::Each(each)) =
        (f.scenario.physical.read_ahead, f.scenario.virtualized.read_ahead)
    else {
        return vec![];
    };
    let mib = |bytes: u64| plain(bytes as f64 / f64::from(1 << 20));
    vec![Finding {
        resource: "Memory for reading ahead".into(),
        evidence: format!(
            "natively {} MiB for all files: {} MiB each with 64 of them and {} MiB with 8, which read {:.0} % faster; in the guest {} MiB each, always",
            mib(shared.0),
            mib(shared.0 / 64),
            mib(shared.0 / 8),
            100.0 * (physical.mean - 1.0),
            mib(each.0)
        ),
        threshold: None,
        source: None,
        consequence: "What is published as a cost of virtualization for few large files is a question of how far is read ahead.".into(),
        r#try: Some("Give the layer below the guest more to read ahead where few large files are read.".into()),
    }]
}

fn sections(f: &Finished<'_>) -> Vec<Section> {
    let place = match f.is_model() {
        true => format!(
            "The files lie one behind the other from the outermost cylinders on, up to {} GiB further in from repeat to repeat, and in a repeat at the same \
             place on both machines: outer and inner tracks differ by more than what is measured.",
            f.scenario.run.place_spread.0 >> 30
        ),
        false => "Both machines use the same stretches of the same image file, in turn; the machine that begins changes from repeat to repeat. The image was \
                  written once from beginning to end before."
            .into(),
    };
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<String>>();
    vec![Section {
        id: "patterns".into(),
        title: "Every pattern".into(),
        text: Some(format!(
            "DiskStress writes and reads files in order, one thread each, all at once, past the page cache, 256 KiB at a time; the time ends when the last file is \
             done and what was written is on the drives. {place}"
        )),
        figures: ids(if f.is_model() {
            &["rise", "speed", "processor"]
        } else {
            &["speed", "processor", "host"]
        }),
        tables: ids(&["patterns"]),
    }]
}

fn table(run: &Run) -> Table {
    let text = |name: &str| Column { name: name.into(), unit: None, numeric: false };
    let number =
        |name: &str, unit: &str| Column { name: name.into(), unit: Some(unit.into()), numeric: true };
    let rounded = |v: Option<f64>, by: f64| match v.filter(|v| v.is_finite()) {
        Some(v) => Value::Number((v * by).round() / by),
        None => Value::Text("–".into()),
    };
    let mut rows = Vec::new();
    for drive in run.drives() {
        for pattern in [Direction::Read, Direction::Write].into_iter().flat_map(patterns) {
            let mean = |on, of| {
                let samples = run.samples(drive, &pattern.name, on, of);
                (!samples.is_empty()).then(|| lab_core::stats::mean(&samples).mean)
            };
            let over = run.over(drive, &pattern.name, speed).map(|e| e.scaled(100.0));
            rows.push(vec![
                Value::Text(if drive.is_empty() { "this machine's".into() } else { drive.into() }),
                Value::Text(pattern.name.clone()),
                Value::Text(pattern.to_string()),
                rounded(mean(On::Physical, speed), 10.0),
                rounded(mean(On::Virtual, speed), 10.0),
                rounded(over.map(|e| e.mean), 10.0),
                rounded(over.map(|e| e.low), 10.0),
                rounded(over.map(|e| e.high), 10.0),
                rounded(mean(On::Physical, processor), 10.0),
                rounded(mean(On::Virtual, processor), 10.0),
            ]);
        }
    }
    Table {
        id: "patterns".into(),
        title: "Physical and virtual".into(),
        columns: vec![
            text("drive"),
            text("pattern"),
            text("files"),
            number("physical", "MB/s"),
            number("virtual", "MB/s"),
            number("virtual against physical", "%"),
            number("from", "%"),
            number("to", "%"),
            number("processors, physical", "%"),
            number("processors, virtual", "%"),
        ],
        rows,
    }
}

fn method(f: &Finished<'_>) -> Method {
    let masu = Version::of_masu();
    let (versions, modelled, real, calibrated, scale);
    if f.is_model() {
        versions = vec![masu];
        modelled = vec![
            format!("two mirrored drives ({}), the controller's read-ahead and write memory, the server's processors, in virtual time", f.scenario.run.drives.join("; then ")),
            "the virtual machine: the same server, with a chunk of its own for each file, and more processor time for each transfer".into(),
        ];
        real = vec![];
        calibrated = vec![
            "physical.read_ahead, virtual.read_ahead: so that the published rise comes out and the published flatness does".into(),
        ];
        scale = "full size: 8 GB for each pattern".to_owned();
    } else {
        versions = vec![masu, Version { name: "emulator".into(), version: guest::version() }];
        modelled = vec![];
        real = vec![
            "the load natively: threads of this process on an image file, past the page cache".into(),
            "the load in a guest: the same load as a static binary, on the image as a virtio drive; the guest's processor is emulated".into(),
        ];
        calibrated = vec![];
        scale = format!(
            "{} of the published size: {} MB for each pattern",
            f.scenario.real.scale,
            f.pattern_bytes >> 20
        );
    }
    Method {
        command: command(&f.options.command),
        seed: f.options.seed.to_string(),
        scenario_text: f.text.into(),
        versions,
        machine: f.machine.clone(),
        modelled,
        real,
        calibrated,
        repeats: f.run.repeats as usize,
        scale: Some(scale),
    }
}

/// The answer on the terminal.
fn print(f: &Finished<'_>, judged: &[Judged], out: &Path) {
    println!("{}\n", answer(&f.run, f.is_model()));
    println!(
        "{:<10} {:>18} {:>18} {:>26}",
        "", "physical, MB/s", "virtual, MB/s", "virtual against physical"
    );
    for name in [Direction::Read, Direction::Write].into_iter().flat_map(names) {
        let mean = |on| f.run.mean(&name, on, speed).map_or("–".into(), |e| value(&e));
        let over = f.run.over(&f.run.drive, &name, speed).map(|e| e.scaled(100.0));
        let over = over.map_or("–".into(), |e| format!("{} %", value(&e)));
        println!("{name:<10} {:>18} {:>18} {over:>26}", mean(On::Physical), mean(On::Virtual));
    }
    let held = judged.iter().filter(|j| j.verdict == Verdict::Held).count();
    println!("\nclaims: {held} held of {}", judged.len());
    for judged in judged.iter().filter(|j| j.verdict != Verdict::Held) {
        let measured = judged.estimate.map_or("–".into(), |e| format!("{} {}", value(&e), judged.unit));
        let bound = judged.bound.words(judged.unit);
        println!("  {}: {}: {measured} ({bound})", judged.verdict.words(), judged.name);
    }
    f.doubts.iter().for_each(|doubt| println!("doubt: {}", doubt.text));
    println!("\nreport: {}", out.join("report.html").display());
}
