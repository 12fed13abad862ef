//! What is shown of a real run: the answer, what shows it, and every sample.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use lab_core::claim::Measure;
use lab_core::presentation::{HowItWasDone, Presentation};
use lab_core::record::{Metric, World};
use lab_core::report::{Column, DataFile, Doubt, Figure, Section, Table, Value, write_csv};
use lab_core::stats::Estimate;
use lab_core::verification::{Course, Setup};
use lab_core::words::plain;

use super::super::Fileserver;
use super::super::scenario::Fileserver as Scenario;
use super::claims::{Rounds, measures};
use super::figures::{Shown, figures};
use super::kind::Sizes;
use super::measure::Run;

/// What was run.
pub(super) struct Ran {
    pub(super) runs: Vec<Run>,
    pub(super) shown: Vec<Shown>,
    /// The servers' disks, as the host names them, in the order of what is shown.
    pub(super) disks: Option<Vec<String>>,
    pub(super) stopped: bool,
    /// Somebody's directory, and nothing below it.
    pub(super) directory: Option<PathBuf>,
    /// Whether this machine may have read from its memory.
    pub(super) cached: bool,
}

/// What was measured, and at which size.
pub struct Recording {
    pub(super) ran: Ran,
    pub(super) scale: f64,
    pub(super) sizes: Sizes,
}

impl Recording {
    /// How it went.
    pub(in super::super) fn course(&self, quick: bool) -> Course {
        Course {
            world: World::Real,
            quick,
            scale: Some(self.scale),
            repeats: self.ran.runs.iter().map(|run| run.round as usize + 1).max().unwrap_or(0),
            stopped: self.ran.stopped,
            doubts: doubts(&self.ran, quick),
        }
    }

    /// What was measured for the claims; nothing is held against one directory.
    pub(in super::super) fn measures(&self) -> Vec<Measure> {
        match self.ran.directory {
            None => measures(&self.ran.runs),
            Some(_) => vec![],
        }
    }

    /// What was measured, for a machine: round by round.
    pub(in super::super) fn metrics(&self) -> Vec<Metric> {
        type Of = fn(&Run) -> Option<f64>;
        let all: [(&str, &str, Of); 18] = [
            ("tool", "MB/s", |r| Some(r.tool_mb_per_s)),
            ("seconds", "s", |r| Some(r.seconds)),
            ("files", "files", |r| Some(r.files as f64)),
            ("mismatches", "files", |r| Some(r.mismatches as f64)),
            ("processors", "%", |r| Some(r.processors_percent)),
            ("memory_available", "GiB", |r| Some(r.available_gib)),
            ("read_response", "ms", |r| Some(r.disk.as_ref()?.read_ms)),
            ("write_response", "ms", |r| Some(r.disk.as_ref()?.write_ms)),
            ("disk_queue", "I/Os", |r| Some(r.disk.as_ref()?.queue)),
            ("disk_reads", "1/s", |r| Some(r.disk.as_ref()?.reads_per_s)),
            ("disk_writes", "1/s", |r| Some(r.disk.as_ref()?.writes_per_s)),
            ("array_read", "MB/s", |r| Some(r.array.as_ref()?.read_mb_per_s)),
            ("array_written", "MB/s", |r| Some(r.array.as_ref()?.write_mb_per_s)),
            ("array_reads", "1/s", |r| Some(r.array.as_ref()?.read_iops)),
            ("array_writes", "1/s", |r| Some(r.array.as_ref()?.write_iops)),
            ("controller", "%", |r| Some(r.array.as_ref()?.controller_percent)),
            ("write_pending", "%", |r| Some(r.array.as_ref()?.pending_percent)),
            ("drives", "%", |r| Some(r.array.as_ref()?.drives_percent)),
        ];
        let mut out = Vec::new();
        for shown in &self.ran.shown {
            let rounds = Rounds::of(&self.ran.runs, &shown.name);
            for (id, unit, of) in all {
                let samples = rounds.values(|run| of(run).unwrap_or(f64::NAN));
                out.push(Metric::new(id, unit, &[("configuration", &shown.name)], samples));
            }
        }
        out.retain(|metric| !metric.samples.is_empty());
        out
    }
}

/// A run that has ended.
struct Finished<'a> {
    setup: &'a Setup<'a, Fileserver>,
    scenario: &'a Scenario,
    scale: f64,
    sizes: &'a Sizes,
    ran: &'a Ran,
}

/// Everything that is shown.
pub(in super::super) fn present(
    setup: &Setup<'_, Fileserver>,
    recording: &Recording,
) -> Result<Presentation> {
    let Recording { ran, scale, sizes } = recording;
    let run = Finished { setup, scenario: setup.scenario, scale: *scale, sizes, ran };
    let figures = figures(&ran.shown, &ran.runs, ran.disks.as_deref());
    Ok(Presentation {
        title: match ran.directory {
            Some(_) => "What throughput do the clients of a file server get from a directory?".into(),
            None => setup.scenario.question.clone(),
        },
        answer: answer(&run),
        findings: vec![],
        tables: vec![configurations(&run)],
        sections: sections(&run, &figures),
        method: method(&run),
        files: write_samples(&run)?,
        figures,
    })
}

fn doubts(ran: &Ran, quick: bool) -> Vec<Doubt> {
    let mut out = Vec::new();
    if ran.stopped {
        out.push(Doubt::stopped("Only whole runs are shown."));
    }
    let mut doubt = |text: &str, effect: &str| out.push(Doubt::new(text, Some(effect.into())));
    if quick {
        doubt(
            "The quick form: fewer files, fewer rounds.",
            "Intervals are wider, and some differences are not shown.",
        );
    }
    if ran.cached {
        doubt(
            "This user has no permission to drop the page cache.",
            "Reads of rounds after the first may have come from its memory.",
        );
    }
    let mismatches: u64 = ran.runs.iter().map(|run| run.mismatches).sum();
    if mismatches > 0 {
        doubt(
            &format!("{mismatches} files were shorter or longer than they were created."),
            "Something below lost data.",
        );
    }
    out
}

fn answer(run: &Finished<'_>) -> String {
    let level = |name: &str| Rounds::of(&run.ran.runs, name).level(|run| run.tool_mb_per_s);
    if run.ran.directory.is_some() {
        let Some(level) = level(&run.ran.shown[0].name) else { return "Nothing was copied.".into() };
        return format!(
            "{} workers copy {} MB/s.",
            run.scenario.published.clients * run.scenario.published.workers,
            pm(&level)
        );
    }
    let of = |name: &str| Rounds::of(&run.ran.runs, name);
    let pairs: Vec<String> = run
        .ran
        .shown
        .chunks(2)
        .filter_map(|pair| {
            let (dynamic, fixed) = (&pair[0].name, &pair.get(1)?.name);
            let less = of(dynamic).percent_below(&of(fixed), |run| run.tool_mb_per_s)?;
            Some(format!(
                "a server on a {dynamic} copies {} % less than on a {fixed} ({} and {} MB/s)",
                pm(&less),
                plain(level(dynamic)?.mean),
                plain(level(fixed)?.mean)
            ))
        })
        .collect();
    match pairs.is_empty() {
        true => "The run was stopped before both kinds of disk were measured.".into(),
        false => format!("On this machine {}; published: about 6 %.", pairs.join("; ")),
    }
}

/// An estimate with half of its interval.
fn pm(e: &Estimate) -> String {
    let half = (e.high - e.low) / 2.0;
    if half.is_finite() { format!("{:.1} ± {half:.1}", e.mean) } else { format!("{:.1}", e.mean) }
}

fn sections(run: &Finished<'_>, figures: &[Figure]) -> Vec<Section> {
    let here = |ids: &[&str]| -> Vec<String> {
        ids.iter().filter(|id| figures.iter().any(|f| f.id == **id)).map(|id| (*id).to_owned()).collect()
    };
    let stack = "Each kind has a stack of its own: an ext4 on a loop device over the attached image, the image in an ext4 on a loop device over an attached LU, the LU behind iSCSI in an \
                 array whose nine modelled drives take their time by the clock. Before a run neither this machine's memory nor the array's cache holds anything of the files.";
    let directory =
        "The load and what this machine counts meanwhile; what is below the directory is not known.";
    let (title, text) = match run.ran.directory {
        Some(_) => ("What does it give?", directory),
        None => ("What does a disk that grows cost?", stack),
    };
    let section = |id: &str, title: &str, text: &str, ids: &[&str], tables: &[&str]| Section {
        id: id.into(),
        title: title.into(),
        text: Some(text.into()),
        figures: here(ids),
        tables: tables.iter().map(|id| (*id).to_owned()).collect(),
    };
    vec![
        section(
            "disks",
            title,
            text,
            &["throughput", "rounds", "writes", "write_size", "array", "response"],
            &["configurations"],
        ),
        section(
            "busy",
            "What works, and how much?",
            "In real time it is often this machine's processors that end it: they are servers, host and controller at once.",
            &["busy"],
            &[],
        ),
    ]
}

fn rounded(value: f64) -> Value {
    if value.is_finite() { Value::Number((value * 100.0).round() / 100.0) } else { Value::Text("–".into()) }
}

fn configurations(run: &Finished<'_>) -> Table {
    let number = Column::number;
    type Of = fn(&Run) -> f64;
    let array: [(Column, Of); 8] = [
        (number("array reads", "MB/s"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.read_mb_per_s)),
        (number("array reads", "IOPS"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.read_iops)),
        (number("array writes", "MB/s"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.write_mb_per_s)),
        (number("array writes", "IOPS"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.write_iops)),
        (number("an array write", "KiB"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.write_kib)),
        (number("controller", "%"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.controller_percent)),
        (number("write pending", "%"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.pending_percent)),
        (number("drives", "%"), |r| r.array.as_ref().map_or(f64::NAN, |a| a.drives_percent)),
    ];
    let server: [(Column, Of); 2] = [
        (number("tool", "MB/s"), |r| r.tool_mb_per_s),
        (number("processors", "%"), |r| r.processors_percent),
    ];
    let disk: [(Column, Of); 3] = [
        (number("a read", "ms"), |r| r.disk.as_ref().map_or(f64::NAN, |d| d.read_ms)),
        (number("a write", "ms"), |r| r.disk.as_ref().map_or(f64::NAN, |d| d.write_ms)),
        (number("disk queue", "I/Os"), |r| r.disk.as_ref().map_or(f64::NAN, |d| d.queue)),
    ];
    let is_stack = run.ran.directory.is_none();
    let below = disk.into_iter().chain(array).filter(|_| is_stack);
    let columns: Vec<(Column, Of)> = server.into_iter().chain(below).collect();
    let row = |one: &Shown| {
        let rounds = Rounds::of(&run.ran.runs, &one.name);
        let mut row = vec![Value::Text(one.name.clone())];
        row.extend(columns.iter().map(|(_, of)| rounded(rounds.level(of).map_or(f64::NAN, |e| e.mean))));
        row
    };
    Table {
        id: "configurations".into(),
        title: "Every configuration, on average over its rounds".into(),
        rows: run.ran.shown.iter().map(row).collect(),
        columns: std::iter::once(Column::text("configuration"))
            .chain(columns.into_iter().map(|(column, _)| column))
            .collect(),
    }
}

fn method(run: &Finished<'_>) -> HowItWasDone {
    let s = run.scenario;
    let spec = run.sizes.plan.spec();
    let is_stack = run.ran.directory.is_none();
    let modelled = format!(
        "the drives: {} of {}, whose requests take their time by the clock (docs/model.md); what they hold is in memory",
        s.array.drives_per_group, s.array.drive
    );
    let mut real = vec![
        "the load: the steps and the file set of `masu load fileserver`, by this machine's own calls".into(),
    ];
    if is_stack {
        real.extend([
            "the array with its cache, pools, RAID groups and iSCSI port; the virtual disks; ext4, loop devices and FUSE of this machine's kernel".into(),
            "servers, host, controller and clients are this one machine, and share its processors".into(),
        ]);
    }
    HowItWasDone {
        scenario_text: run.setup.text.into(),
        versions: vec![],
        modelled: if is_stack { vec![modelled] } else { vec![] },
        real,
        calibrated: vec![],
        scale: Some(format!(
            "{} of a server's set: {} trees, {} target files of {} bytes, {} bytes in all; a disk of {} MiB, a cache of {} MiB",
            run.scale,
            spec.trees,
            u64::from(spec.trees) * u64::from(spec.targets),
            spec.target_bytes,
            run.sizes.set_bytes,
            run.sizes.disk_bytes >> 20,
            s.real.cache.0 >> 20
        )),
    }
}

/// Every run, and every sample of every run.
fn write_samples(run: &Finished<'_>) -> Result<Vec<DataFile>> {
    let out = &run.setup.request.out;
    let mut files = Vec::new();
    for name in ["host", "array"] {
        // The loop device of a server is another one for each kind: one column for all.
        let mut rows: Vec<(String, BTreeMap<String, f64>)> = Vec::new();
        for one in &run.ran.runs {
            let of_run =
                one.series.iter().filter(|series| series.name == name).flat_map(|series| &series.samples);
            for sample in of_run {
                let head = format!("{},{},{:.3}", one.configuration, one.round, sample.to_s);
                rows.push((
                    head,
                    sample.values.iter().map(|(column, value)| (column.key(), *value)).collect(),
                ));
            }
        }
        let keys: std::collections::BTreeSet<&String> =
            rows.iter().flat_map(|(_, values)| values.keys()).collect();
        if keys.is_empty() {
            continue;
        }
        let header: Vec<&str> = ["configuration", "round", "time_s"]
            .into_iter()
            .chain(keys.iter().map(|key| key.as_str()))
            .collect();
        let lines = rows.iter().map(|(head, values)| {
            let mut line: Vec<String> = head.split(',').map(str::to_owned).collect();
            line.extend(keys.iter().map(|key| values.get(*key).map_or(String::new(), |v| format!("{v:.6}"))));
            line
        });
        let file = format!("{name}.csv");
        write_csv(&out.join(&file), &header, lines)?;
        let about = format!("every counter of the {name} in every sample of every run");
        files.push(DataFile { name: file, about, rows: rows.len() });
    }
    Ok(files)
}
