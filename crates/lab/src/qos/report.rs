//! The report: the answer, what shows it, and how it was done.

use super::claims::{self, Judged, form_words};
use super::judge::{Capacity, PhaseView, View};
use super::run::verdict;
use super::scenario::{Form, Qos};
use crate::vaai::Verdict;
use crate::verify::{Options, QosOptions, World};
use lab_core::machine::now_rfc3339;
use lab_core::report::{
    self, Column, DataFile, Doubt, Figure, Finding, Machine, Method, Report, Section, Table, Value, Version,
};
use lab_core::words::{command, plain};

/// A run that has ended.
pub(super) struct Finished<'a> {
    pub(super) options: &'a Options,
    pub(super) own: &'a QosOptions,
    pub(super) qos: &'a Qos,
    pub(super) text: &'a str,
    pub(super) machine: Machine,
    pub(super) doubts: &'a [Doubt],
    pub(super) capacity: &'a Capacity,
    pub(super) views: &'a [View<'a>],
    pub(super) judged: &'a [Judged],
    pub(super) figures: Vec<Figure>,
    /// Of the CSV file.
    pub(super) rows: usize,
}

impl Finished<'_> {
    fn is_real(&self) -> bool {
        self.own.world == World::Real
    }

    fn stopped(&self) -> bool {
        self.doubts.iter().any(|doubt| doubt.text.contains("stopped"))
    }

    /// Phases with minimums that fit, of a form, of the published experiments.
    fn promised(&self, form: Form) -> impl Iterator<Item = (&View<'_>, &PhaseView)> {
        let published = |view: &&View<'_>| self.qos.experiments.iter().any(|e| e.id == view.course.id);
        let own = self.views.iter().filter(published).filter(move |view| view.course.form == form);
        own.flat_map(|view| view.phases.iter().map(move |phase| (view, phase)))
            .filter(|(_, phase)| phase.has_minimum() && phase.feasible)
    }
}

/// The answer of the seed's question in figures.
fn answer(run: &Finished<'_>) -> String {
    let worst = run.promised(Form::Array).filter_map(|(_, phase)| phase.worst_of_minimum());
    let Some(worst) = worst.min_by(f64::total_cmp) else { return "No minimum was set that fits.".into() };
    let first = if worst >= 0.98 {
        format!(
            "Yes, when the array schedules: in the worst 5 s a disk has {} % of its minimum",
            plain(100.0 * worst)
        )
    } else {
        format!(
            "Not always: when the array schedules, the worst 5 s of a disk have {} % of its minimum",
            plain(100.0 * worst)
        )
    };
    let least = |form: Form| {
        let shares = run.promised(form).flat_map(|(_, phase)| {
            let with = phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0);
            with.map(|vm| vm.mean / vm.rates.minimum)
        });
        shares.min_by(f64::total_cmp)
    };
    let alone = least(Form::Uncoordinated).map_or(String::new(), |share| {
        format!(
            "; when each host schedules by itself, one gets {} % of it, as was published",
            plain(100.0 * share)
        )
    });
    let nodes = least(Form::Coordinated).map_or(String::new(), |share| {
        format!("; nodes with shares of the array give {} % on average at least", plain(100.0 * share))
    });
    let capacity = plain(run.capacity.all() / 1e6);
    format!("{first}{alone}{nodes}. The array does {capacity} MB/s with all ten.")
}

/// Composes the whole report.
pub(super) fn compose(run: &Finished<'_>) -> Report {
    let world = if run.is_real() { "real" } else { "model" };
    Report {
        version: report::VERSION,
        title: run.qos.question.clone(),
        scenario: run.qos.name.clone(),
        world,
        generated: now_rfc3339(),
        answer: answer(run),
        verdict: verdict(run.judged, run.stopped()),
        claims: claims::claims(run.judged),
        figures: run.figures.clone(),
        findings: findings(run),
        tables: vec![rates(run)],
        sections: sections(run),
        doubts: run.doubts.to_vec(),
        method: method(run),
        files: vec![
            DataFile {
                name: "results.json".into(),
                about: "every phase with every VM, and the checks, for a machine".into(),
                rows: run.views.iter().map(|view| view.phases.len()).sum(),
            },
            DataFile {
                name: "throughput.csv".into(),
                about: "throughput of every VM, second by second".into(),
                rows: run.rows,
            },
        ],
    }
}

fn method(run: &Finished<'_>) -> Method {
    let (p, a) = (&run.qos.published, &run.qos.array);
    let mut modelled =
        vec![format!("{} drives {}: docs/model.md says how, and how far off", p.drives, p.drive)];
    let mut real =
        vec!["scheduler, pool and RAID group: the array's own code, as it serves real hosts".to_owned()];
    match run.is_real() {
        true => {
            real.push("time, iSCSI sessions over TCP on loopback, the array's controller on a thread".into())
        }
        false => modelled.push("time; VMs reach the array as commands, without a network".into()),
    }
    Method {
        command: command(&run.options.command),
        seed: run.options.seed.to_string(),
        scenario_text: run.text.into(),
        versions: vec![Version::of_masu()],
        machine: run.machine.clone(),
        modelled,
        real,
        calibrated: vec![format!(
            "array.others = {} GiB, what else lies on the drives between the disks, and array.cache = {} MiB, in which writes wait: with both the capacity is within what was published",
            a.others.0 >> 30,
            a.cache.0 >> 20
        )],
        repeats: 1,
        scale: Some(format!(
            "full size: {} VMs, {} drives, disks of {} GiB, phases of {} s",
            p.vms,
            p.drives,
            p.disk.0 >> 30,
            run.qos.run.phase.0.as_secs()
        )),
    }
}

fn sections(run: &Finished<'_>) -> Vec<Section> {
    let id = |text: &str| text.to_owned();
    let figures = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        run.figures.iter().map(|figure| figure.id.clone()).filter(|id| wanted(id)).collect()
    };
    let of = |experiment: &str| {
        let start = format!("{experiment}_");
        figures(&|id: &str| id.starts_with(&start))
    };
    let mut out: Vec<Section> = run
        .qos
        .experiments
        .iter()
        .map(|experiment| Section {
            id: experiment.id.clone(),
            title: experiment.title.clone(),
            text: Some(match experiment.hosts {
                1 => "All VMs on one host.".into(),
                _ => "VM01 to VM05 on the first host, VM06 to VM10 on the second. A host that schedules by itself cannot slow the VMs of \
                      the other; the array, where all meet, can. Nodes with shares stand for several arrays or gateways in front of the same drives: each second a \
                      policy store gives every node its share, computed from the claims of all."
                    .into(),
            }),
            figures: of(&experiment.id),
            tables: vec![],
        })
        .collect();
    let beside = ["mixed_", "rebuild_", "changes_"];
    if !run.is_real() {
        out.push(Section {
            id: id("beside"),
            title: id("Other loads, a drive that dies, policies that change"),
            text: Some("With the array as the scheduler; these are not in the published experiment.".into()),
            figures: figures(&|id: &str| beside.iter().any(|start| id.starts_with(start))),
            tables: vec![],
        });
    }
    out.push(Section {
        id: id("capacity"),
        title: id("What the array can do, and what each VM got"),
        text: Some(
            "Drives do more with more in flight, and each VM has one write in flight: with k at once each gets C(k)/k. So a minimum bounds how many \
             may be below the scheduler, and with that what the array does in all. What it can do in a phase is taken from this curve: as many writes at \
             once as the load offers (VMs at their maximum offer less) and the largest minimum allows.\n\nExpected rates are by water-filling with what \
             all VMs together got: each the larger of its minimum and an even part of the rest, but no more than its maximum."
                .into(),
        ),
        figures: vec![id("capacity")],
        tables: vec![id("rates")],
    });
    out
}

fn rounded(value: f64) -> Value {
    if value.is_finite() { Value::Number((value * 100.0).round() / 100.0) } else { Value::Text("–".into()) }
}

/// What each half of the VMs got in each phase.
fn rates(run: &Finished<'_>) -> Table {
    let mut rows = Vec::new();
    for view in run.views {
        for phase in &view.phases {
            let (first, second) = phase.vms.split_at(phase.vms.len() / 2);
            let mean = |vms: &[super::judge::VmView], of: &dyn Fn(&super::judge::VmView) -> f64| {
                rounded(vms.iter().map(of).sum::<f64>() / vms.len().max(1) as f64 / 1e6)
            };
            let worst = phase.worst_of_minimum().map_or(f64::NAN, |worst| 100.0 * worst);
            rows.push(vec![
                Value::Text(view.course.title.clone()),
                Value::Text(form_words(view.course.form).into()),
                Value::Text(phase.name.clone()),
                mean(first, &|vm| vm.mean),
                mean(first, &|vm| vm.expected),
                mean(second, &|vm| vm.mean),
                mean(second, &|vm| vm.expected),
                rounded(phase.sum / 1e6),
                rounded(phase.can_do / 1e6),
                rounded(phase.depth),
                rounded(worst),
            ]);
        }
    }
    let text = |name: &str| Column { name: name.into(), unit: None, numeric: false };
    let number =
        |name: &str, unit: &str| Column { name: name.into(), unit: Some(unit.into()), numeric: true };
    Table {
        id: "rates".into(),
        title: "Every phase: a VM of the first and of the second half, on average".into(),
        columns: vec![
            text("experiment"),
            text("who schedules"),
            text("phase"),
            number("first half", "MB/s"),
            number("by formula", "MB/s"),
            number("second half", "MB/s"),
            number("by formula", "MB/s"),
            number("all", "MB/s"),
            number("the array can", "MB/s"),
            number("depth", "writes"),
            number("worst of a minimum", "%"),
        ],
        rows,
    }
}

fn findings(run: &Finished<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    let array: Vec<(&View<'_>, &PhaseView)> = run.promised(Form::Array).collect();
    if let Some((_, phase)) = array.iter().min_by(|a, b| a.1.sum.total_cmp(&b.1.sum)) {
        let lost = 100.0 * (1.0 - phase.sum / run.capacity.all());
        out.push(Finding {
            resource: "dispatch depth".into(),
            evidence: format!(
                "in the phase \"{}\" {:.1} writes are below the scheduler and all VMs together get {:.1} MB/s, {lost:.0} % less than without minimums",
                phase.name,
                phase.depth,
                phase.sum / 1e6
            ),
            threshold: Some("C(k)/k ≥ minimum".into()),
            source: Some("a VM with one outstanding write gets at most the k-th part of what k at once get".into()),
            consequence: "High minimums of VMs with one outstanding I/O cost the array throughput.".into(),
            r#try: Some("More outstanding I/Os per VM, or lower minimums: then more is in flight.".into()),
        });
    }
    let missed = run.promised(Form::Uncoordinated).map(|(_, phase)| phase).next();
    if let Some(phase) = missed {
        let promised: f64 = phase.vms.iter().map(|vm| vm.rates.minimum).sum();
        let got: f64 = phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0).map(|vm| vm.mean).sum();
        out.push(Finding {
            resource: "hosts that schedule by themselves".into(),
            evidence: format!("{:.1} MB/s were promised together, {:.1} came", promised / 1e6, got / 1e6),
            threshold: Some("98 % of the minimum".into()),
            source: Some("the bar of this verification".into()),
            consequence: "A minimum that is kept on one host is none on a cluster.".into(),
            r#try: Some("Schedule where all hosts meet: at the array; or give nodes shares.".into()),
        });
    }
    out
}

/// The answer on the terminal.
pub(super) fn print(run: &Finished<'_>) {
    println!("{}\n", answer(run));
    let held = run.judged.iter().filter(|j| j.verdict == Verdict::Held).count();
    println!("claims: {held} held of {}", run.judged.len());
    for judged in run.judged {
        let measured = judged.value.map_or("–".into(), |value| format!("{} {}", plain(value), judged.unit));
        println!(
            "  {:<10} {}: {measured} ({})",
            judged.verdict.words(),
            judged.name,
            judged.bound.words(judged.unit)
        );
    }
    for doubt in run.doubts {
        println!("doubt: {}", doubt.text);
    }
    println!("\nreport: {}", run.options.out.join("report.html").display());
}
