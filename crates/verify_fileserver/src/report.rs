//! What is shown of a modelled run: the answer, what shows it, and how it was done.

use std::path::Path;

use anyhow::{Context, Result};
use lab_core::presentation::{HowItWasDone, Presentation};
use lab_core::report::{Column, DataFile, Doubt, Figure, Section, Table, Value};
use lab_core::verification::Setup;
use lab_core::words::plain;

use super::claims::{self, Runs, below, tool};
use super::figures::figures;
use super::findings::findings;
use super::model::Ran;
use super::scenario::Fileserver as Scenario;
use super::{Fileserver, beyond, results, write_cache};

/// A run that has ended.
struct Finished<'a> {
    scenario: &'a Scenario,
    text: &'a str,
    ran: &'a Ran,
    figures: Vec<Figure>,
}

/// Everything that is shown.
pub(super) fn present(
    setup: &Setup<'_, Fileserver>,
    ran: &Ran,
    caches: &[write_cache::Outcome],
) -> Result<Presentation> {
    let (scenario, text) = (setup.scenario, setup.text);
    let run = Finished {
        scenario,
        text,
        ran,
        figures: [figures(scenario, ran), beyond::figures(scenario, ran), write_cache::figures(caches)]
            .concat(),
    };
    Ok(Presentation {
        title: scenario.question.clone(),
        answer: answer(&run),
        findings: [findings(scenario, ran), beyond::findings(scenario, ran)].concat(),
        tables: vec![configurations(&run), beyond::table(ran), write_cache::table(caches)],
        sections: sections(&run).into_iter().chain([write_cache::section(caches)]).collect(),
        method: method(&run),
        files: write_series(&setup.request.out, ran)?,
        figures: run.figures,
    })
}

/// The answer of the seed's question, in figures.
fn answer(run: &Finished<'_>) -> String {
    let runs = Runs::of(run.ran);
    let (Some(dynamic), Some(fixed)) = (runs.dynamic, runs.fixed) else {
        return "The run was stopped before both kinds of disk were measured.".into();
    };
    let Some(cost) = below(&tool(dynamic), &tool(fixed)) else { return "Nothing was copied.".into() };
    let (percent, half) = (cost.mean, (cost.high - cost.low) / 2.0);
    let yes = if percent < run.scenario.bottleneck.cost_percent { "Yes" } else { "With precautions" };
    let full = run.ran.growths.iter().find(|g| g.name == "full").and_then(|g| g.refused_s).map_or("", |_| {
        " An over-committed pool must be expanded in time: when it is full, writes that need a new page \
         fail, and only those."
    });
    format!(
        "{yes}: file servers on virtual disks that grow copy {percent:.1} % ± {half:.1} % less than on fixed ones ({} and {} MB/s per server; published: about 6 %, 54.8 and 58.3).{full}",
        plain(mean(&tool(dynamic))),
        plain(mean(&tool(fixed)))
    )
}

fn mean(series: &[f64]) -> f64 {
    series.iter().sum::<f64>() / series.len().max(1) as f64
}

/// A section with those of its figures that the run has.
fn section(run: &Finished<'_>, (id, title, text): (&str, &str, &str), figures: &[&str]) -> Section {
    let has = |id: &&&str| run.figures.iter().any(|figure| figure.id == **id);
    Section {
        id: id.into(),
        title: title.into(),
        text: Some(text.into()),
        figures: figures.iter().filter(|id| has(id)).map(|id| (*id).to_owned()).collect(),
        tables: match id {
            "disks" => vec!["configurations".into()],
            "staged" => vec!["stages".into()],
            _ => vec![],
        },
    }
}

fn sections(run: &Finished<'_>) -> Vec<Section> {
    let section = |id, title, text, figures: &[&str]| section(run, (id, title, text), figures);
    vec![
        section(
            "disks",
            "What does a disk that grows cost?",
            "The same clients, servers and array; only the format of the data disks differs. A dynamic VHD is blocks of 2 MiB, each behind a bitmap of 512 bytes: what the guest \
             aligns to 4 KiB lies off it on the LU, and each new block costs writes of bitmap, table and footer, one after the other, and one of the host's log.",
            &["throughput", "array", "response"],
        ),
        section(
            "bottleneck",
            "Is anything a bottleneck, and how much is left?",
            "Response over 50 ms, more than 2 commands for a spindle, or a resource that works more than 70 % of the time would be one.",
            &["busy", "servers", "host"],
        ),
        section(
            "cache",
            "Does the write cache of the servers matter?",
            "Fixed disks, with the write cache of the disk on and off in the servers. Off, every write carries FUA; on, none does, and the log of the file system is flushed before its tables are written. \
             The array has acknowledged writes in memory with a battery, so that both are durable at once.",
            &["cache_throughput", "cache_array", "cache_response"],
        ),
        section(
            "vhdx",
            "And VHDX beside VHD?",
            "Not in the published experiment: VHDX came in 2012. Its blocks have 32 MiB and lie on whole MiB, so that what the guest aligns to 4 KiB stays so; where they lie changes through a \
             log. What is written, in which order and with which flushes, is what our own maps of the two formats say.",
            &["vhdx", "vhdx_besides"],
        ),
        section(
            "ramp",
            "How many more servers?",
            "Not in the published experiment, which had four and reported headroom. The same servers, each with its LU on its own group, four on a host; all data LUs at controller 0 as published, \
             then at both controllers in turn.",
            &["ramp"],
        ),
        section(
            "growth",
            "And when disks grow fast on a pool that promises more than it has?",
            "Not in the published experiment, whose disks hardly grew and whose pool had room for all of \
             them. One server; half of the files are written, all to unallocated space.",
            &["growth_in_time", "growth_full"],
        ),
        section(
            "staged",
            "And when everything grows while clients work?",
            "Described in the published experiment, and not measured. Copies fill an over-committed pool, and a group joins it. The LU grows and its host hears of it, then the virtual disk, the partition and the file \
             system. Large files are copied, deleted (UNMAP), and the virtual disk is compacted. One server with the published load; growing and compacting are the code that `masu vdisk` runs, on a disk \
             that nobody uses meanwhile.",
            &["staged_vhd", "staged_vhdx"],
        ),
    ]
}

fn rounded(value: f64) -> Value {
    if value.is_finite() { Value::Number((value * 100.0).round() / 100.0) } else { Value::Text("–".into()) }
}

/// Everything that was counted, on average.
fn configurations(run: &Finished<'_>) -> Table {
    let (text, number) = (Column::text, Column::number);
    let row = |course: &super::model::course::Course| {
        let all = [
            course.of_servers(|w| w.tool_mb_per_s),
            course.of_lus(|w| w.read_mb_per_s),
            course.of_lus(|w| w.read_iops),
            course.of_lus(|w| w.write_mb_per_s),
            course.of_lus(|w| w.write_iops),
            course.of_servers(|w| w.received_mb_per_s),
            course.of_servers(|w| w.sent_mb_per_s),
            course.of_servers(|w| w.read_ms),
            course.of_servers(|w| w.write_ms),
            course.of_servers(|w| w.queue),
            course.of_servers(|w| w.cpu_percent),
            course.of_array(claims::controller(0)),
            course.of_array(|w| claims::of_groups(&w.drive_percent)),
        ];
        let name = vec![Value::Text(course.which.name().into())];
        name.into_iter().chain(all.iter().map(|series| rounded(mean(series)))).collect()
    };
    Table {
        id: "configurations".into(),
        title: "Every configuration: a server, its LU, the array, on average".into(),
        columns: vec![
            text("configuration"),
            number("tool", "MB/s"),
            number("array reads", "MB/s"),
            number("array reads", "IOPS"),
            number("array writes", "MB/s"),
            number("array writes", "IOPS"),
            number("received", "MB/s"),
            number("sent", "MB/s"),
            number("a read", "ms"),
            number("a write", "ms"),
            number("disk queue", "I/Os"),
            number("server's processors", "%"),
            number("controller 0", "%"),
            number("drives", "%"),
        ],
        rows: run.ran.courses.iter().map(row).collect(),
    }
}

fn method(run: &Finished<'_>) -> HowItWasDone {
    let s = run.scenario;
    let us = |time: lab_core::quantity::Time| format!("{} µs", time.0.as_nanos() as f64 / 1e3);
    let p = &s.published;
    HowItWasDone {
        scenario_text: run.text.into(),
        versions: vec![],
        modelled: vec![
            "time; clients with their disks, network, servers with cache, file system and lazy writer, the host".into(),
            format!(
                "{} drives {} and links: docs/model.md says how, and how far off",
                p.servers * s.array.drives_per_group,
                s.array.drive
            ),
            "content: everything is zeros; system LUs are there and not used".into(),
        ],
        real: vec![
            "the array: cache, pools, RAID groups, its counters: the code that serves real hosts".into(),
            "the virtual disks: the maps of the code that reads and writes real VHDs".into(),
            "the file set and the steps of the load: those of `masu load fileserver`".into(),
        ],
        calibrated: vec![format!(
            "client.file = {}: to the published 58.3 MB/s on fixed disks",
            us(s.client.file)
        )],
        scale: Some(format!(
            "full size: {} servers, {} clients, {} workers, disks of {} GiB; {} s counted of the published 1800",
            p.servers,
            p.servers * p.clients,
            p.servers * p.clients * p.workers,
            p.disk.0 >> 30,
            s.run.seconds
        )),
    }
}

/// What makes a modelled run doubtful.
pub(super) fn doubts(ran: &Ran, quick: bool) -> Vec<Doubt> {
    let mut out = Vec::new();
    if ran.stopped {
        out.push(Doubt::stopped(
            "What was counted until then is shown; runs have different lengths, or are missing.",
        ));
    }
    if quick {
        out.push(Doubt::new(
            "The quick form: one minute is counted instead of thirty.",
            Some("Intervals are wider, and some differences are not shown.".into()),
        ));
    }
    out
}

fn write_series(out: &Path, ran: &Ran) -> Result<Vec<DataFile>> {
    let put = |name: &str, about: &str, text: String| {
        let path = out.join(name);
        let rows = text.lines().count().saturating_sub(1);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        anyhow::Ok(DataFile { name: name.into(), about: about.into(), rows })
    };
    Ok(vec![
        put("servers.csv", "every server in every interval", results::servers_csv(&ran.courses))?,
        put("host.csv", "the host in every interval", results::host_csv(&ran.courses))?,
        put(
            "array.csv",
            "every LU, group and controller in every interval",
            results::array_csv(&ran.courses),
        )?,
        put("ramp.csv", "more and more servers, window by window", results::ramp_csv(&ran.ramp))?,
        put("growth.csv", "a pool that grows, second by second", results::growth_csv(&ran.growths))?,
        put("staged.csv", "everything grows, second by second", results::staged_csv(&ran.staged))?,
    ])
}
