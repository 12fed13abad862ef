//! The verification as the laboratory runs it, and what it shows.

use std::path::Path;

use anyhow::{Context, Result};
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::interrupt::Stop;
use lab_core::presentation::{HowItWasDone, Presentation};
use lab_core::record::{Metric, World};
use lab_core::report::{Column, Cost, CostOf, DataFile, Doubt, Figure, Finding, Section, Table, Value};
use lab_core::scenario::ScenarioFile;
use lab_core::verification::{self, Request, Setup, Verification};
use lab_core::words::{plain, value};

use super::array_nodes;
use super::capacity::Capacity;
use super::claims::{form_words, measures};
use super::judge::{self, PhaseView, View, sampled};
use super::phases::Form;
use super::reach::KEPT;
use super::run::{self, Run};
use super::scenario::Qos as Scenario;
use super::{Options, Qos, figures, real, results};

/// What was measured, with every phase seen once.
pub struct Recording {
    run: Run,
    phases: Vec<Vec<PhaseView>>,
    nodes: Vec<array_nodes::View>,
}

impl Recording {
    /// The published experiments, then what is beside them.
    fn views(&self) -> Vec<View<'_>> {
        let views = courses(&self.run).zip(&self.phases);
        views.map(|(course, phases)| View { course, phases: phases.clone() }).collect()
    }

    /// The runs with several nodes.
    fn nodes(&self) -> Vec<(&array_nodes::Course, &array_nodes::View)> {
        self.run.nodes.iter().zip(&self.nodes).collect()
    }
}

fn courses(run: &Run) -> impl Iterator<Item = &super::play::Course> {
    run.courses.iter().chain(run.extras.iter().flat_map(|extras| &extras.courses))
}

impl Verification for Qos {
    const NAME: &'static str = "qos";
    const QUESTION: &'static str = "Are minimums and maximums of virtual disks kept?";
    type Options = Options;
    type Scenario = Scenario;
    type Recording = Recording;

    fn load(request: &Request, own: &Options) -> Result<(Scenario, String)> {
        let (scenario, text) = Scenario::load(request.scenario.as_deref())?;
        let drive = world_model::drives::Prepared::new(&lab_tools::drives::load(&scenario.published.drive)?)?;
        scenario.fits(drive.len_bytes())?;
        let scenario = match (own.world, own.quick) {
            (World::Real, is_quick) => scenario.real(is_quick),
            (World::Model, true) => scenario.quick(),
            (World::Model, false) => scenario,
        };
        Ok((scenario, text))
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Recording> {
        let run = match setup.own.world {
            World::Model => run::model(setup.scenario, setup.request.seed, stop)?,
            World::Real => real::run(setup.scenario, setup.request.seed, stop)?,
        };
        let phases = courses(&run).map(|course| judge::view(setup.scenario, &run.capacity, course).phases);
        let phases = phases.collect();
        let shape = setup.scenario.array_nodes.as_ref();
        let courses = || shape.into_iter().flat_map(|shape| run.nodes.iter().map(move |c| (shape, c)));
        let nodes = courses().map(|(shape, course)| array_nodes::view(setup.scenario, shape, course));
        let nodes = nodes.collect();
        Ok(Recording { run, phases, nodes })
    }

    fn course(setup: &Setup<'_, Self>, recording: &Recording) -> verification::Course {
        let (own, stopped) = (setup.own, recording.run.stopped);
        let doubts = doubts(own, stopped);
        let (world, quick) = (own.world, own.quick);
        verification::Course { world, quick, scale: None, repeats: 1, stopped, doubts }
    }

    fn stated(scenario: &Scenario) -> &Claims {
        &scenario.claims
    }

    fn claims(setup: &Setup<'_, Self>, recording: &Recording) -> Vec<Measure> {
        let run = &recording.run;
        let mut all = measures(setup.scenario, &recording.views()[..run.courses.len()], run.extras.as_ref());
        all.extend(array_nodes::measures(&recording.nodes()));
        all
    }

    fn metrics(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Metric> {
        let mut all = results::metrics(&recording.run.capacity, &recording.views());
        all.extend(array_nodes::metrics(&recording.nodes()));
        all
    }

    fn present(setup: &Setup<'_, Self>, recording: &Recording, _: &[JudgedClaim]) -> Result<Presentation> {
        let (views, capacity) = (recording.views(), &recording.run.capacity);
        let mut figures = figures::figures(setup.scenario, setup.own.world, &views, capacity);
        figures.extend(array_nodes::figures(&recording.nodes()));
        let nodes = array_nodes::headlines(&recording.nodes());
        let run = Finished { setup, qos: setup.scenario, capacity, views: &views, nodes, figures };
        Ok(Presentation {
            title: setup.scenario.question.clone(),
            answer: answer(&run),
            findings: findings(&run),
            tables: vec![rates(&run)],
            sections: sections(&run),
            method: method(&run),
            files: files(&setup.request.out, &views, &recording.nodes())?,
            figures: run.figures,
        })
    }
}

fn doubts(own: &Options, stopped: bool) -> Vec<Doubt> {
    let mut out = vec![];
    if stopped {
        out.push(Doubt::stopped("Only what was done is shown."));
    }
    if own.quick && own.world == World::Real {
        out.push(Doubt::new("The quick form: the array at several nodes alone, in fewer phases.", None));
    }
    if own.quick && own.world == World::Model {
        out.push(Doubt::new(
            "The quick form: phases of half a minute.",
            Some("The worst of a hundred windows is that of fewer windows.".into()),
        ));
    }
    out
}

/// The throughput of every VM, second by second.
fn files(
    out: &Path,
    views: &[View<'_>],
    nodes: &[(&array_nodes::Course, &array_nodes::View)],
) -> Result<Vec<DataFile>> {
    let path = out.join("throughput.csv");
    std::fs::write(&path, results::series_csv(views)).with_context(|| path.display().to_string())?;
    let mut files = vec![DataFile {
        name: "throughput.csv".into(),
        about: "throughput of every VM, second by second".into(),
        rows: views.iter().map(|view| results::seconds(view) * view.course.done.len()).sum(),
    }];
    if !nodes.is_empty() {
        array_nodes::write_series(&out.join("nodes.csv"), nodes)?;
        files.push(DataFile {
            name: "nodes.csv".into(),
            about: "throughput of every VM of the array at several nodes, second by second".into(),
            rows: array_nodes::rows(nodes),
        });
    }
    Ok(files)
}

/// A run that has ended.
struct Finished<'a> {
    setup: &'a Setup<'a, Qos>,
    qos: &'a Scenario,
    capacity: &'a Capacity,
    views: &'a [View<'a>],
    /// What was found with several nodes, a line for each run.
    nodes: Vec<String>,
    figures: Vec<Figure>,
}

impl Finished<'_> {
    fn is_real(&self) -> bool {
        self.setup.own.world == World::Real
    }

    /// Phases with minimums that fit, of a form, of the published experiments.
    fn promised(&self, form: Form) -> impl Iterator<Item = (&View<'_>, &PhaseView)> {
        let published = |view: &&View<'_>| self.qos.experiments.iter().any(|e| e.id == view.course.id);
        let own = self.views.iter().filter(published).filter(move |view| view.course.form == form);
        own.flat_map(|view| view.phases.iter().map(move |phase| (view, phase)))
            .filter(|(_, phase)| phase.has_minimum() && phase.fits())
    }
}

/// The answer of the seed's question in figures.
fn answer(run: &Finished<'_>) -> String {
    let worst = |form: Form| {
        let phases = run.promised(form).filter_map(|(_, phase)| phase.worst_of_minimum());
        phases.min_by(f64::total_cmp)
    };
    let nodes = worst(Form::Coordinated).map_or(String::new(), |share| {
        format!("; when hosts share a policy store, {} %", plain(100.0 * share))
    });
    let Some(worst) = worst(Form::Array) else {
        return match run.nodes.is_empty() {
            true => "No minimum was set that fits.".into(),
            false => format!("{}.", run.nodes.join("; ")),
        };
    };
    let first = if run.qos.is_kept(worst, run.setup.own.world) {
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
    let shares = run.promised(Form::Uncoordinated).flat_map(|(_, phase)| {
        let vms = phase.vms.iter().zip(&phase.windows).filter(|(vm, _)| vm.rates.minimum > 0.0);
        vms.map(|(vm, windows)| sampled(vm.mean, windows).scaled(1.0 / vm.rates.minimum))
    });
    let alone = shares.min_by(|a, b| a.mean.total_cmp(&b.mean)).map_or(String::new(), |share| {
        let percent = value(&share.scaled(100.0));
        match share.mean < KEPT {
            true => format!(
                "; when each host schedules by itself, one has {percent} % of it on average, as was published"
            ),
            false => format!("; when each host schedules by itself, one has {percent} % of it on average"),
        }
    });
    let seconds = run.qos.run.phase.0.as_secs_f64();
    let capacity = value(&run.capacity.between(run.capacity.most() as f64, seconds).scaled(1e-6));
    format!("{first}{nodes}{alone}. The array does {capacity} MB/s with all {}.", run.qos.published.vms)
}

fn method(run: &Finished<'_>) -> HowItWasDone {
    let (p, a) = (&run.qos.published, &run.qos.array);
    let mut modelled =
        vec![format!("{} drives {}: docs/model.md says how, and how far off", p.drives, p.drive)];
    let mut real =
        vec!["scheduler, pool and RAID group: the array's own code, as it serves real hosts".to_owned()];
    match run.is_real() {
        true => {
            real.push("time, iSCSI sessions over TCP on loopback, the array's controller on a thread".into());
            if !run.nodes.is_empty() {
                real.push(
                    "the array at several nodes: processes of masu serve, which share its drives".into(),
                );
            }
        }
        false => modelled.push("time; VMs reach the array as commands, without a network".into()),
    }
    HowItWasDone {
        scenario_text: run.setup.text.into(),
        versions: vec![],
        modelled,
        real,
        calibrated: vec![format!(
            "array.others = {} GiB, what else lies on the drives between the disks: with it the capacity is within what was published",
            a.others.0 >> 30
        )],
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
                hosts => format!(
                    "The VMs are on {hosts} hosts, in order and evenly. A host that schedules by itself cannot slow the VMs of \
                     another one; the array, where all meet, can. Hosts with shares read policies from a store and report \
                     to it what their VMs ask for; one of them divides the array by water-filling, every 500 ms."
                ),
            }),
            figures: of(&experiment.id),
            tables: vec![],
        })
        .collect();
    out.extend(array_nodes_section(run, of("array_nodes")));
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
            "Drives do more with more in flight, and a VM with one I/O in flight gets C(k)/k of k at once. So a minimum bounds how many \
             may be below the scheduler, and with that what the array does in all. What it can do in a phase is taken from this curve: as many I/Os at \
             once as the load offers (VMs at their maximum offer less) and the largest minimum allows.\n\nExpected rates are by water-filling with what \
             all VMs together got: each the larger of its minimum and an even part of the rest, but no more than its maximum."
                .into(),
        ),
        figures: vec![id("capacity")],
        tables: vec![id("rates")],
    });
    out
}

/// One array at several nodes, if any run had them.
fn array_nodes_section(run: &Finished<'_>, figures: Vec<String>) -> Option<Section> {
    let shape = run.qos.array_nodes.as_ref().filter(|_| !figures.is_empty())?;
    let text = match run.is_real() {
        true => "Each node runs a controller with a pool on drives of its own and five VMs. Two aggregated policies span all nodes: \
                 a minimum (gold) and a maximum (bronze). The first controller divides both every 500 ms by what each pool reports; \
                 nodes are processes of masu serve, with hosts over iSCSI and drives that take the time of the model. A node is \
                 killed, and the first one takes over its controller."
            .to_owned(),
        false => format!(
            "Each node runs a controller with a pool on drives of its own and five VMs. Two aggregated policies span all nodes: \
             a minimum (gold) and a maximum (bronze). The first controller divides both every 500 ms by what each pool reports; \
             messages between nodes take {} µs. A node dies, and the first one takes over its controller.",
            shape.latency.0.as_micros()
        ),
    };
    Some(Section {
        id: "array_nodes".into(),
        title: "One array at several nodes".into(),
        text: Some(text),
        figures,
        tables: vec![],
    })
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
    let (text, number) = (Column::text, Column::number);
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
        let lost = 1.0 - phase.sum / run.capacity.all();
        out.push(Finding {
            resource: "dispatch depth".into(),
            evidence: format!(
                "in the phase \"{}\" the scheduler has {:.1} writes in flight and all VMs together get {:.1} \
                 MB/s, {:.0} % less than without minimums",
                phase.name,
                phase.depth,
                phase.sum / 1e6,
                100.0 * lost
            ),
            threshold: Some("C(k)/k ≥ minimum".into()),
            source: Some(
                "a VM with one outstanding write gets at most 1/k of the throughput of k concurrent \
                writes"
                    .into(),
            ),
            consequence: "High minimums of VMs with one outstanding I/O cost the array throughput.".into(),
            r#try: Some("More outstanding I/Os per VM, or lower minimums: then more is in flight.".into()),
            cost: Cost::share(lost, CostOf::Throughput),
        });
    }
    let both = run.promised(Form::Uncoordinated).map(|(_, phase)| phase.minimums());
    let missed = both.into_iter().find(|(promised, got)| *got < KEPT * promised);
    if let Some((promised, got)) = missed {
        out.push(Finding {
            resource: "hosts that schedule by themselves".into(),
            evidence: format!("{:.1} MB/s were promised together, {:.1} came", promised / 1e6, got / 1e6),
            threshold: Some("98 % of the minimum".into()),
            source: Some("the bar of this verification".into()),
            consequence: "A minimum that is kept on one host is none on a cluster.".into(),
            r#try: Some("Schedule where all hosts meet: at the array; or give nodes shares.".into()),
            cost: Cost::share(1.0 - got / promised, CostOf::Throughput),
        });
    }
    out
}
