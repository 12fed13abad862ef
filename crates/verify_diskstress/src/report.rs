//! The verification as the laboratory runs it, and what it shows.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use diskstress::Direction;
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::interrupt::Stop;
use lab_core::presentation::{HowItWasDone, Presentation};
use lab_core::record::{Metric, World};
use lab_core::report::{
    Column, Cost, CostOf, DataFile, Doubt, Figure, Finding, Section, Span, Table, Value, Version, write_csv,
};
use lab_core::scenario::ScenarioFile;
use lab_core::stats::Estimate;
use lab_core::verification::{Course, Request, Setup, Verification};
use lab_core::words::plain;

use super::claims::{farthest, measures};
use super::real::{self, Place};
use super::results::{On, Run, patterns, processor, speed};
use super::scenario::Scenario;
use super::{Diskstress, Options, figures, guest, model};
use lab_tools::samplers::Series;

/// What was measured, and on what.
pub struct Recording {
    run: Run,
    /// Whether the page cache was passed by.
    direct: bool,
    /// Of a pattern's files together.
    pattern_bytes: u64,
    /// What the host counted in a real run, and the stretches of its repeats.
    host: Option<(Series, Vec<Span>)>,
}

/// Where `make diskstress` puts the guest.
const GUEST_DIR: &str = "target/judges/diskstress";
/// Of a pattern, at full size.
const PATTERN_BYTES: u64 = 8 << 30;

impl Verification for Diskstress {
    const NAME: &'static str = "diskstress";
    const QUESTION: &'static str = "How much does virtualization cost a disk?";
    type Options = Options;
    type Scenario = Scenario;
    type Recording = Recording;

    fn load(request: &Request, own: &Options) -> Result<(Scenario, String)> {
        let (mut scenario, text) = Scenario::load(request.scenario.as_deref())?;
        if own.quick {
            scenario = scenario.quick();
        }
        if let Some(scale) = request.checked_scale()? {
            ensure!(own.world == World::Real, "--scale requires --world real: the model runs at full size");
            scenario.real.scale = scale;
        }
        Ok((scenario, text))
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Recording> {
        let (request, own) = (setup.request, setup.own);
        match own.world {
            World::Model => {
                let run = model::run(setup.scenario, request.seed, stop)?;
                Ok(Recording { run, direct: true, pattern_bytes: PATTERN_BYTES, host: None })
            }
            World::Real => {
                let guest = own.guest.clone().unwrap_or_else(|| PathBuf::from(GUEST_DIR));
                let dir = own.dir.as_deref().unwrap_or(&request.out);
                let real::Real { run, direct, pattern_bytes, host, repeats } =
                    real::run(setup.scenario, &Place { dir, guest: &guest }, request.seed, stop)?;
                Ok(Recording { run, direct, pattern_bytes, host: Some((host, repeats)) })
            }
        }
    }

    fn course(setup: &Setup<'_, Self>, recording: &Recording) -> Course {
        let (run, own) = (&recording.run, setup.own);
        Course {
            world: own.world,
            quick: own.quick,
            scale: (own.world == World::Real).then_some(setup.scenario.real.scale),
            repeats: run.repeats as usize,
            stopped: run.stopped,
            doubts: own_doubts(run, recording.direct),
        }
    }

    fn stated(scenario: &Scenario) -> &Claims {
        &scenario.claims
    }

    fn claims(setup: &Setup<'_, Self>, recording: &Recording) -> Vec<Measure> {
        measures(&recording.run, setup.own.world)
    }

    fn metrics(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Metric> {
        recording.run.metrics()
    }

    fn present(setup: &Setup<'_, Self>, recording: &Recording, _: &[JudgedClaim]) -> Result<Presentation> {
        let f = Finished { setup, recording };
        Ok(Presentation {
            title: setup.scenario.question.clone(),
            answer: answer(&recording.run, f.is_model()),
            figures: figures::figures(&recording.run, f.is_model())
                .into_iter()
                .chain(over_time(&f))
                .collect(),
            findings: findings(&f),
            tables: vec![table(&recording.run)],
            sections: sections(&f),
            method: method(&f),
            files: samples(&f)?,
        })
    }
}

/// A run that has ended.
struct Finished<'a> {
    setup: &'a Setup<'a, Diskstress>,
    recording: &'a Recording,
}

impl Finished<'_> {
    fn is_model(&self) -> bool {
        self.setup.own.world == World::Model
    }
}

fn own_doubts(run: &Run, direct: bool) -> Vec<Doubt> {
    let mut out = Vec::new();
    if run.stopped {
        out.push(Doubt::stopped("Only the repeats before are shown."));
    }
    let mut doubt = |text: &str, effect: &str| out.push(Doubt::new(text, Some(effect.into())));
    if run.repeats < 3 {
        doubt("Fewer than three repeats.", "Intervals are wide or missing.");
    }
    if !direct {
        doubt("The file system does not support direct I/O.", "Speeds are those of the page cache, too.");
    }
    out
}

/// Every sample, for a spreadsheet.
fn samples(f: &Finished<'_>) -> Result<Vec<DataFile>> {
    let out = &f.setup.request.out;
    let rows = f.recording.run.measured.iter().map(|m| {
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
    let rows = write_csv(&out.join("patterns.csv"), &header, rows)?;
    let about = "every pattern of every repeat".into();
    let mut files = vec![DataFile { name: "patterns.csv".into(), about, rows }];
    if let Some((host, _)) = &f.recording.host {
        let rows = host.write_csv(&out.join("host.csv"))?;
        let about = "counters of this machine, second by second".into();
        files.push(DataFile { name: "host.csv".into(), about, rows });
    }
    Ok(files)
}

/// A difference in words: "2.1 % ± 0.3 % less". Tenths of a percent are all that a reader needs, and
/// hundredths where the interval is below one.
fn difference(over: &Estimate) -> String {
    let percent = 100.0 * (over.mean - 1.0);
    let half = 50.0 * (over.high - over.low);
    let size = match half.is_finite() {
        true if (0.005..0.05).contains(&half) => format!("{:.2} % ± {half:.2} %", percent.abs()),
        true if half >= 0.05 => format!("{:.1} % ± {half:.1} %", percent.abs()),
        _ => format!("{:.1} %", percent.abs()),
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
            "{differ}; from 64 files to 8 reads rise {:.1} % natively and {:.1} % virtually.",
            100.0 * (physical.mean - 1.0),
            100.0 * (virtualized.mean - 1.0)
        ),
        _ => differ + ".",
    }
}

/// How busy this machine was over a real run.
fn over_time(f: &Finished<'_>) -> Option<Figure> {
    let (host, repeats) = f.recording.host.as_ref()?;
    let title = "Processors of this machine over the run";
    let figure = host.figure(("host", title), "busy", |resource| resource == "cpu", None)?;
    Some(Figure { phases: repeats.clone(), ..figure })
}

fn findings(f: &Finished<'_>) -> Vec<Finding> {
    let (Some(physical), true) =
        (f.recording.run.rise(&f.recording.run.drive, ("R4", "R1"), On::Physical), f.is_model())
    else {
        return vec![];
    };
    let machine = &f.setup.scenario.machine;
    let window = |files| machine.read_ahead.window_bytes(files, u32::MAX, machine.transfer.0);
    let mib = |bytes: u64| plain(bytes as f64 / f64::from(1 << 20));
    let ahead = Finding {
        resource: "Memory for reading ahead".into(),
        evidence: format!(
            "{} MiB for all files that are read: {} MiB each with 64 of them and {} MiB with 8, which read {:.0} % faster, natively; a guest's reads pass the same controller",
            mib(machine.read_ahead.memory.0),
            mib(window(64)),
            mib(window(8)),
            100.0 * (physical.mean - 1.0)
        ),
        threshold: None,
        source: None,
        consequence: "What rises natively with fewer files rises in a guest as well, as long as what reads ahead is below both. A guest that stays flat needs a layer of its own that reads ahead, always so much.".into(),
        r#try: Some("Vary machine.read_ahead with --sweep: it decides how far reads rise.".into()),
        cost: Cost::share(1.0 - 1.0 / physical.mean, CostOf::Throughput),
    };
    std::iter::once(ahead).chain(past_the_cache(f)).collect()
}

/// What writes through a LU cost that are not gathered.
fn past_the_cache(f: &Finished<'_>) -> Option<Finding> {
    let lu = &f.setup.scenario.lu;
    let least = ["W1", "W4"].iter().filter_map(|name| Some(f.recording.run.lu_over(name)?.mean));
    let least = least.reduce(f64::min).filter(|least| *least < 1.0)?;
    let passes = lu.direct.0 <= f.setup.scenario.machine.transfer.0;
    passes.then(|| Finding {
        resource: "Writes that pass the cache by".into(),
        evidence: format!(
            "through a LU writes of {} KiB have {:.0} % of what they have natively",
            f.setup.scenario.machine.transfer.0 >> 10,
            100.0 * least
        ),
        threshold: None,
        source: None,
        consequence: "Nothing gathers them, so that each moves the arms of both drives.".into(),
        r#try: Some("Raise lu.direct above the size of a write: the cache gathers what is smaller.".into()),
        cost: Cost::share(1.0 - least, CostOf::Throughput),
    })
}

fn sections(f: &Finished<'_>) -> Vec<Section> {
    let place = match f.is_model() {
        true => format!(
            "The files lie one behind the other from the outermost cylinders on, up to {} GiB further in from repeat to repeat, and in a repeat at the same \
             place on both machines: outer and inner tracks differ by more than what is measured.",
            f.setup.scenario.run.place_spread.0 >> 30
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
            &["rise", "speed", "lu", "processor"]
        } else {
            &["speed", "processor", "host"]
        }),
        tables: ids(&["patterns"]),
    }]
}

fn table(run: &Run) -> Table {
    let (text, number) = (Column::text, Column::number);
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

fn method(f: &Finished<'_>) -> HowItWasDone {
    let (versions, modelled, real, calibrated, scale);
    if f.is_model() {
        versions = vec![];
        modelled = vec![
            format!("two mirrored drives ({}), the controller's read-ahead and write memory, the server's processors, in virtual time", f.setup.scenario.run.drives.join("; then ")),
            "the virtual machine: the same server; each transfer leaves the guest several times and passes the layer below it, and its adapter takes so many commands at a time".into(),
            "the drives below a LU: the LU, its cache, pool and mirror are masu's own code".into(),
        ];
        real = vec![];
        calibrated = vec!["machine.read_ahead.memory: so that the published rise comes out, natively".into()];
        scale = "full size: 8 GB for each pattern".to_owned();
    } else {
        versions = vec![Version { name: "emulator".into(), version: guest::version() }];
        modelled = vec![];
        real = vec![
            "the load natively: threads of this process on an image file, past the page cache".into(),
            "the load in a guest: the same load as a static binary, on the image as a virtio drive; the guest's processor is emulated".into(),
        ];
        calibrated = vec![];
        scale = format!(
            "{} of the published size: {} MB for each pattern",
            f.setup.scenario.real.scale,
            f.recording.pattern_bytes >> 20
        );
    }
    HowItWasDone {
        scenario_text: f.setup.text.into(),
        versions,
        modelled,
        real,
        calibrated,
        scale: Some(scale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "0.5 % ± 0.0 % more" was the answer of a run.
    #[test]
    fn an_interval_is_never_said_to_be_nothing() {
        let said = |mean: f64, half: f64| difference(&Estimate { mean, low: mean - half, high: mean + half });
        assert_eq!(said(1.0045, 0.0003), "0.45 % ± 0.03 % more");
        assert_eq!(said(0.979, 0.003), "2.1 % ± 0.3 % less");
        assert_eq!(said(1.0, 0.0001), "as much");
        assert_eq!((said(1.02, f64::INFINITY), said(1.02, 0.0)), ("2.0 % more".into(), "2.0 % more".into()));
    }
}
