//! The counters as metrics and as CSV: no wall time is in them, so that the same seed gives the same bytes.

use std::fmt::Write as _;

use lab_core::record::Metric;

use super::claims::{controller, of_groups};
use super::model::Ran;
use super::model::copies::SpentBy;
use super::model::course::{
    ArrayWindow, Course, Growth, GrowthWindow, HostWindow, LuWindow, RampStep, ServerWindow, Staged,
    StagedWindow,
};

/// What was measured, for a machine: of every configuration each server, LU and controller, window by window.
pub(super) fn metrics(ran: &Ran) -> Vec<Metric> {
    let mut out = Vec::new();
    for course in &ran.courses {
        of_course(course, course.which.name(), &mut out);
    }
    for step in &ran.ramp {
        of_course(
            &step.course,
            &format!("ramp, {} controllers, {:02} servers", step.owners, step.servers),
            &mut out,
        );
    }
    for growth in &ran.growths {
        let place = [("configuration", growth.name)];
        let of = |value: fn(&GrowthWindow) -> f64| growth.windows.iter().map(value).collect();
        out.extend([
            Metric::new("growth.reads", "MB/s", &place, of(|w| w.read_mb_per_s)),
            Metric::new("growth.writes", "MB/s", &place, of(|w| w.write_mb_per_s)),
            Metric::new("growth.read_response", "ms", &place, of(|w| w.read_ms)),
            Metric::new("growth.used", "%", &place, of(|w| w.used_percent)),
            Metric::new("growth.refused", "writes", &place, of(|w| w.refused as f64)),
            Metric::new("growth.lost", "MB/s", &place, of(|w| w.lost_mb)),
            Metric::new("growth.held_back", "requests", &place, of(|w| w.held_back.into())),
        ]);
    }
    of_stages(&ran.staged, &mut out);
    out
}

/// The same of the stages in which everything grows.
fn of_stages(all: &[Staged], out: &mut Vec<Metric>) {
    for staged in all {
        for span in &staged.stages {
            let place = [("virtual_disk", staged.format_name()), ("stage", span.stage.name())];
            let seconds = staged.seconds(&[span.stage]);
            let of = |value: fn(&StagedWindow) -> f64| seconds.iter().map(|w| value(w)).collect();
            out.extend([
                Metric::new("staged.reads", "MB/s", &place, of(|w| w.load.read_mb_per_s)),
                Metric::new("staged.writes", "MB/s", &place, of(|w| w.load.write_mb_per_s)),
                Metric::new("staged.read_response", "ms", &place, of(|w| w.load.read_ms)),
                Metric::new("staged.copied", "MB/s", &place, of(|w| w.copied_mb_per_s)),
                Metric::new("staged.refused", "writes", &place, of(|w| w.load.refused as f64)),
                Metric::new("staged.used", "bytes", &place, vec![span.used_bytes as f64]),
                Metric::new("staged.took", "s", &place, span.took_s.into_iter().collect()),
            ]);
        }
    }
}

type OfServer = (&'static str, &'static str, fn(&ServerWindow) -> f64);
const OF_SERVER: [OfServer; 9] = [
    ("tool", "MB/s", |w| w.tool_mb_per_s),
    ("processors", "%", |w| w.cpu_percent),
    ("memory_available", "MB", |w| w.available_mb),
    ("disk_queue", "I/Os", |w| w.queue),
    ("disk_queue_most", "I/Os", |w| w.queue_max as f64),
    ("read_response", "ms", |w| w.read_ms),
    ("write_response", "ms", |w| w.write_ms),
    ("received", "MB/s", |w| w.received_mb_per_s),
    ("sent", "MB/s", |w| w.sent_mb_per_s),
];
type OfLu = (&'static str, &'static str, fn(&LuWindow) -> f64);
const OF_LU: [OfLu; 5] = [
    ("array_reads", "1/s", |w| w.read_iops),
    ("array_writes", "1/s", |w| w.write_iops),
    ("array_read", "MB/s", |w| w.read_mb_per_s),
    ("array_written", "MB/s", |w| w.write_mb_per_s),
    ("write_hits", "%", |w| w.write_hit_percent.unwrap_or(f64::NAN)),
];

fn of_course(course: &Course, configuration: &str, out: &mut Vec<Metric>) {
    let servers = course.hosts.first().map_or(0, |window| window.servers.len());
    for server in 0..servers {
        let place = [("configuration", configuration), ("server", &server.to_string())];
        for (id, unit, of) in OF_SERVER {
            let samples = course.hosts.iter().filter_map(|window| window.servers.get(server)).map(of);
            out.push(Metric::new(id, unit, &place, samples.collect()));
        }
    }
    let lus = course.arrays.first().map_or(0, |window| window.lus.len());
    for lu in 0..lus {
        let place = [("configuration", configuration), ("lu", &lu.to_string())];
        for (id, unit, of) in OF_LU {
            let samples = course.arrays.iter().filter_map(|window| window.lus.get(lu)).map(of);
            out.push(Metric::new(id, unit, &place, samples.collect()));
        }
        let of = |list: fn(&ArrayWindow) -> &[f64]| {
            course.arrays.iter().filter_map(|w| list(w).get(lu).copied()).collect::<Vec<f64>>()
        };
        out.push(Metric::new("drives", "%", &place, of(|w| &w.drive_percent)));
        out.push(Metric::new("group_commands", "commands", &place, of(|w| &w.group_queue)));
    }
    let place = [("configuration", configuration)];
    let hosts = |of: fn(&HostWindow) -> f64| course.hosts.iter().map(of).collect::<Vec<f64>>();
    out.extend([
        Metric::new("controller_0", "%", &place, course.of_array(controller(0))),
        Metric::new("controller_1", "%", &place, course.of_array(controller(1))),
        Metric::new("write_pending", "%", &place, course.of_array(|w| w.pending_percent)),
        Metric::new("host_logical_processors", "%", &place, hosts(|w| w.logical_percent)),
        Metric::new("host_root_processor", "%", &place, hosts(|w| w.root_percent)),
        Metric::new("host_memory_available", "MB", &place, hosts(|w| w.available_mb)),
    ]);
}

/// A line for each server and interval.
pub(super) fn servers_csv(courses: &[Course]) -> String {
    let mut out = String::from(
        "configuration,time_s,server,tool_mb_per_s,cpu_percent,available_mb,disk_queue,disk_queue_max,s_per_read,s_per_write,received_mb_per_s,sent_mb_per_s,total_mb_per_s\n",
    );
    for (course, window) in courses.iter().flat_map(|c| c.hosts.iter().map(move |w| (c, w))) {
        for (server, w) in window.servers.iter().enumerate() {
            let _ = writeln!(
                out,
                "\"{}\",{:.1},{server},{:.4},{:.3},{:.1},{:.3},{},{:.6},{:.6},{:.4},{:.4},{:.4}",
                course.which.name(),
                window.at_s,
                w.tool_mb_per_s,
                w.cpu_percent,
                w.available_mb,
                w.queue,
                w.queue_max,
                w.read_ms / 1e3,
                w.write_ms / 1e3,
                w.received_mb_per_s,
                w.sent_mb_per_s,
                w.received_mb_per_s + w.sent_mb_per_s
            );
        }
    }
    out
}

/// A line for each interval of the host.
pub(super) fn host_csv(courses: &[Course]) -> String {
    let mut out = String::from(
        "configuration,time_s,logical_processor_percent,root_virtual_processor_percent,available_mb\n",
    );
    for (course, w) in courses.iter().flat_map(|c| c.hosts.iter().map(move |w| (c, w))) {
        let _ = writeln!(
            out,
            "\"{}\",{:.1},{:.3},{:.3},{:.1}",
            course.which.name(),
            w.at_s,
            w.logical_percent,
            w.root_percent,
            w.available_mb
        );
    }
    out
}

/// A line for each LU, its group and the controllers in each interval of the array.
pub(super) fn array_csv(courses: &[Course]) -> String {
    let mut out = String::from(
        "configuration,time_s,lu,read_iops,write_iops,iops,read_mb_per_s,write_mb_per_s,mb_per_s,write_hit_percent,controller0_percent,controller1_percent,write_pending_percent,drive_percent,group_commands\n",
    );
    for (course, window) in courses.iter().flat_map(|c| c.arrays.iter().map(move |w| (c, w))) {
        for (lu, w) in window.lus.iter().enumerate() {
            let of = |list: &[f64], at: usize| list.get(at).copied().unwrap_or_default();
            let _ = writeln!(
                out,
                "\"{}\",{:.1},{lu},{:.3},{:.3},{:.3},{:.4},{:.4},{:.4},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3}",
                course.which.name(),
                window.at_s,
                w.read_iops,
                w.write_iops,
                w.read_iops + w.write_iops,
                w.read_mb_per_s,
                w.write_mb_per_s,
                w.read_mb_per_s + w.write_mb_per_s,
                w.write_hit_percent.unwrap_or(f64::NAN),
                of(&window.controller_percent, 0),
                of(&window.controller_percent, 1),
                window.pending_percent,
                of(&window.drive_percent, lu),
                of(&window.group_queue, lu)
            );
        }
    }
    out
}

/// A line for each window of each number of servers.
pub(super) fn ramp_csv(ramp: &[RampStep]) -> String {
    let mut out = String::from(
        "controllers,servers,time_s,tool_mb_per_s,s_per_read,s_per_write,controller0_percent,controller1_percent,drive_percent,logical_processor_percent\n",
    );
    for step in ramp {
        let of = |number: usize| step.course.of_array(controller(number));
        let (first, second) = (of(0), of(1));
        let drives = step.course.of_array(|w| of_groups(&w.drive_percent));
        for (n, (host, array)) in step.course.hosts.iter().zip(&step.course.arrays).enumerate() {
            let of = |value: fn(&ServerWindow) -> f64| host.servers.iter().map(value).sum::<f64>();
            let count = host.servers.len().max(1) as f64;
            let _ = writeln!(
                out,
                "{},{},{:.1},{:.4},{:.6},{:.6},{:.3},{:.3},{:.3},{:.3}",
                step.owners,
                step.servers,
                array.at_s,
                of(|w| w.tool_mb_per_s),
                of(|w| w.read_ms) / count / 1e3,
                of(|w| w.write_ms) / count / 1e3,
                first[n],
                second[n],
                drives[n],
                host.logical_percent
            );
        }
    }
    out
}

/// A line for each second of a pool that grows.
pub(super) fn growth_csv(growths: &[Growth]) -> String {
    let mut out = String::from(
        "run,time_s,read_mb_per_s,write_mb_per_s,s_per_read,used_percent,refused,lost_mb,lost_files,held_back\n",
    );
    for (growth, w) in growths.iter().flat_map(|g| g.windows.iter().map(move |w| (g, w))) {
        let _ = writeln!(
            out,
            "{},{:.1},{:.4},{:.4},{:.6},{:.3},{},{:.4},{},{}",
            growth.name,
            w.at_s,
            w.read_mb_per_s,
            w.write_mb_per_s,
            w.read_ms / 1e3,
            w.used_percent,
            w.refused,
            w.lost_mb,
            w.lost_files,
            w.held_back
        );
    }
    out
}

/// A line for each second of a run in which everything grows.
pub(super) fn staged_csv(all: &[Staged]) -> String {
    let mut out = String::from(
        "virtual_disk,time_s,stage,read_mb_per_s,write_mb_per_s,s_per_read,copied_mb_per_s,used_percent,refused,lost_mb,\
         reading_s,reading_where_nothing_grows_s,writing_s,writing_where_nothing_grows_s\n",
    );
    for (staged, w) in all.iter().flat_map(|staged| staged.windows.iter().map(move |w| (staged, w))) {
        let at_s = w.load.at_s;
        let stage = staged.stages.iter().find(|span| span.from_s < at_s && at_s <= span.to_s);
        let spent = w.spent.map_or_else(
            || ",,,".to_owned(),
            |SpentBy { reading: r, writing: w }| {
                format!("{:.4},{:.4},{:.4},{:.4}", r.here_s, r.there_s, w.here_s, w.there_s)
            },
        );
        let _ = writeln!(
            out,
            "{},{at_s:.1},\"{}\",{:.4},{:.4},{:.6},{:.4},{:.3},{},{:.4},{spent}",
            staged.format_name(),
            stage.map_or("", |span| span.stage.name()),
            w.load.read_mb_per_s,
            w.load.write_mb_per_s,
            w.load.read_ms / 1e3,
            w.copied_mb_per_s,
            w.load.used_percent,
            w.load.refused,
            w.load.lost_mb
        );
    }
    out
}
