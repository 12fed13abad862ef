//! Writing what a run found: the folder, and the answer on the terminal.

use anyhow::Result;

use super::judge::{Faults, Judged, Verdict, judge};
use super::record::Record;
use super::{claims, figures, summary, tables, words};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::verify::Options;
use lab_core::machine::now_rfc3339;
use lab_core::report::{self, DataFile, Doubt, Machine, Method, Report, Version};

/// A run that has ended.
pub(crate) struct Finished<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) options: &'a Options,
    pub(crate) record: Record,
    pub(crate) faults: Faults,
    pub(crate) machine: Machine,
    pub(crate) doubts: Vec<Doubt>,
    /// What was verified.
    pub(crate) place: String,
    /// What it calls itself.
    pub(crate) product: String,
    pub(crate) is_embedded: bool,
    /// Whether somebody stopped it.
    pub(crate) stopped: bool,
}

/// A run whose checks were judged.
pub(crate) struct Judgement<'a> {
    pub(crate) run: &'a Finished<'a>,
    pub(crate) checks: Vec<Judged>,
}

impl Judgement<'_> {
    /// A check's outcome.
    pub(crate) fn check(&self, id: &str) -> Option<&Judged> {
        self.checks.iter().find(|c| c.bound.id == id)
    }

    /// An estimate, whether or not a check asks for it.
    pub(crate) fn estimate(&self, id: &str) -> Option<lab_core::stats::Estimate> {
        super::judge::measure(id, &self.run.record, &self.run.faults)
    }

    /// Whether data or locks were wrong.
    pub(crate) fn is_wrong(&self) -> bool {
        self.run.faults.blocks > 0 || !self.run.faults.owners.is_empty()
    }

    /// The verdict of the first screen. Wrong data is wrong on any machine; a time that misses its bound on a machine that others
    /// used is in doubt.
    fn verdict(&self) -> &'static str {
        if self.is_wrong() {
            "fail"
        } else if self.all_held() {
            "pass"
        } else if self.run.record.repeats == 0 || !self.run.doubts.is_empty() {
            "doubt"
        } else {
            "fail"
        }
    }

    /// Whether every check held that could be judged, and some were.
    pub(crate) fn all_held(&self) -> bool {
        let judged = || self.checks.iter().filter(|c| c.verdict != Verdict::NotJudged);
        judged().next().is_some()
            && judged().all(|c| c.verdict == Verdict::Held)
            && !self.is_wrong()
            && !self.run.stopped
    }
}

/// Judges and writes. Gives whether every check held.
pub(crate) fn write(mut run: Finished<'_>) -> Result<bool> {
    run.doubts.extend(own_doubts(&run));
    let checks = judge(&run.scenario.vaai.checks, &run.record, &run.faults);
    let judgement = Judgement { run: &run, checks };
    let files = write_samples(&run)?;
    let dir = &run.options.out;
    report::write_results(dir, &results(&judgement))?;
    report::write_report(dir, &whole(&judgement, files))?;
    summary::print(&judgement);
    Ok(judgement.all_held())
}

fn own_doubts(run: &Finished<'_>) -> Vec<Doubt> {
    let mut out = Vec::new();
    if run.stopped {
        let effect = format!(
            "Only the {} whole repeats before are shown, of {}.",
            run.record.repeats, run.options.repeats
        );
        out.push(Doubt { text: "The run was stopped before its end.".into(), effect: Some(effect) });
    }
    if (1..3).contains(&run.record.repeats) {
        let text = match run.record.repeats {
            1 => "One repeat has no interval: its value alone decided.".to_owned(),
            n => format!("{n} repeats are too few for an interval that means much (3 or more)."),
        };
        out.push(Doubt { text, effect: Some("Verdicts may change from run to run.".into()) });
    }
    out
}

fn results(judgement: &Judgement<'_>) -> Results {
    let run = judgement.run;
    let mut series = std::collections::BTreeMap::<String, Vec<f64>>::new();
    for sample in &run.record.samples {
        series
            .entry(format!("{}.{}.{}", sample.test, sample.mode, sample.metric))
            .or_default()
            .push(sample.value);
    }
    Results {
        scenario: run.scenario.vaai.name.clone(),
        world: "real",
        seed: run.options.seed,
        checks: judgement.checks.iter().map(claims::check).collect(),
        series,
    }
}

fn write_samples(run: &Finished<'_>) -> Result<Vec<DataFile>> {
    let (dir, record) = (&run.options.out, &run.record);
    let mut files = vec![DataFile {
        name: "results.json".into(),
        about: "every check and every sample, for a machine".into(),
        rows: record.samples.len(),
    }];
    let mut put = |name: &str, about: &str, header: &[&str], rows: Vec<Vec<String>>| -> Result<()> {
        let rows = report::write_csv(&dir.join(name), header, rows)?;
        files.push(DataFile { name: name.into(), about: about.into(), rows });
        Ok(())
    };
    let samples = record.samples.iter().map(|s| {
        vec![s.test.into(), s.mode.into(), s.repeat.to_string(), s.metric.into(), s.value.to_string()]
    });
    put(
        "samples.csv",
        "one value per test, mode, repeat and metric",
        &["test", "mode", "repeat", "metric", "value"],
        samples.collect(),
    )?;
    let courses = record.courses.iter().flat_map(|c| {
        let row = |t: &super::record::Tick| {
            vec![
                c.test.into(),
                c.mode.into(),
                c.repeat.to_string(),
                format!("{:.6}", t.at_s),
                t.bytes.to_string(),
                t.packets.to_string(),
            ]
        };
        c.ticks.iter().map(row).collect::<Vec<_>>()
    });
    let header = ["test", "mode", "repeat", "time_s", "bytes", "packets"];
    put(
        "courses.csv",
        "bytes and packets of the host since an operation began, every 100 ms",
        &header,
        courses.collect(),
    )?;
    let power_ons = record.power_ons.iter().map(|p| {
        vec![p.mode.into(), p.repeat.to_string(), p.host.to_string(), p.vm.to_string(), p.time_s.to_string()]
    });
    put(
        "power_ons.csv",
        "time to power on of every VM",
        &["mode", "repeat", "host", "vm", "time_s"],
        power_ons.collect(),
    )?;
    let filling = record.filling.iter().map(|f| {
        vec![
            f.repeat.to_string(),
            f.written_bytes.to_string(),
            f.used_percent.to_string(),
            f.event.unwrap_or("").into(),
        ]
    });
    put(
        "thin.csv",
        "the thin pool while a host writes",
        &["repeat", "written_bytes", "used_percent", "event"],
        filling.collect(),
    )?;
    Ok(files)
}

fn whole(judgement: &Judgement<'_>, files: Vec<DataFile>) -> Report {
    let run = judgement.run;
    let vaai = &run.scenario.vaai;
    Report {
        version: report::VERSION,
        title: vaai.question.clone(),
        scenario: vaai.name.clone(),
        world: "real",
        generated: now_rfc3339(),
        answer: words::answer(judgement),
        verdict: judgement.verdict(),
        claims: claims::claims(judgement),
        figures: figures::figures(judgement),
        findings: words::findings(judgement),
        tables: tables::tables(judgement),
        sections: words::sections(judgement),
        doubts: run.doubts.clone(),
        method: Method {
            command: lab_core::words::command(&run.options.command),
            seed: run.options.seed.to_string(),
            scenario_text: run.scenario.text.clone(),
            versions: vec![
                Version::of_masu(),
                Version { name: "under test".into(), version: run.product.clone() },
            ],
            machine: run.machine.clone(),
            modelled: vec![],
            real: words::real(judgement),
            calibrated: words::calibrated(&run.scenario.vaai),
            repeats: run.record.repeats,
            scale: Some(words::scale(judgement)),
        },
        files,
    }
}
