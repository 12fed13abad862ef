//! `masu drive replay`, `fit` and `measure`: modelled drives against measured ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use lab_core::interrupt::Stop;
use lab_core::words::shown;
use lab_core::{console, outputs};
use lab_tools::drives::fit::{self, Known};
use lab_tools::drives::measure::{self, Medium, Plan, Writing};
use lab_tools::drives::{self, DriveFileError, Replayed, curve, disksim, trace};
use lab_tools::load::target::existing_drive;
use serde_json::{Value, json};
use world::DriveSpec;

use crate::stdout::print_data;
use crate::table::{self, Output};

/// Lines of the curve on a terminal.
const CURVE_LINES: usize = 10;

/// Exit status of a measurement that was stopped, and whose file has what was measured until then.
const STOPPED: u8 = 3;

#[derive(Subcommand)]
pub(crate) enum DriveModel {
    /// Replay a measured trace on a modelled drive, and print the demerit figure with its curve
    ///
    /// The demerit is the root mean square distance of the distributions of measured and modelled response
    /// times. Traces: DiskSim's validation traces, blkparse's text, fio's latency log with offsets, or fio's
    /// iolog with --latencies.
    Replay {
        /// A drive of the catalogue, a drive file, or a parameter file of DiskSim (.diskspecs)
        model: String,
        /// The trace
        trace: PathBuf,
        /// The latency log of the same run, if the trace is an iolog of fio
        #[arg(long)]
        latencies: Option<PathBuf>,
        /// Also write a report into this folder
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Write a drive file from a trace, or from a parameter file of DiskSim
    ///
    /// From a trace: rotation, seek curve, overheads and cache as far as the response times tell; it prints
    /// what they do not.
    Fit {
        /// The trace
        #[arg(required_unless_present = "disksim")]
        trace: Option<PathBuf>,
        /// The latency log of the same run, if the trace is an iolog of fio
        #[arg(long, requires = "trace")]
        latencies: Option<PathBuf>,
        /// Convert this parameter file of DiskSim (.diskspecs) instead
        #[arg(long, conflicts_with = "trace")]
        disksim: Option<PathBuf>,
        /// Where to write the drive file
        #[arg(long, default_value = "drive.toml")]
        out: PathBuf,
    },
    /// Measure a real drive and write a drive file; only reads, unless --write is given
    ///
    /// A disk: single reads for seeks, rotation and cache, sequential ones for its zones; a minute or two. A
    /// drive without an arm: random reads at rising depths, and sequential ones; seconds. It goes past the
    /// page cache. Others may use the drive meanwhile, but then their load is measured with it.
    #[command(after_help = "\
Examples:
  masu drive measure /dev/sdb                     reads only; writes drive.toml
  masu drive measure /dev/sdb --write             also writes; the drive must be blank, and is read to see it
  masu drive replay drive.toml measured.trace     how far the model is from a trace (--trace measured.trace)")]
    Measure {
        /// A block device, or a file on the drive
        device: PathBuf,
        /// Also measure writes. The whole drive is read first: it is refused unless all of it reads as zeros
        #[arg(long)]
        write: bool,
        /// Measure writes without looking: what is on the drive is lost
        #[arg(long, requires = "write")]
        destroy_data: bool,
        /// Single requests of a disk's trace
        #[arg(long, default_value_t = 2400, value_parser = clap::value_parser!(u32).range(900..=1_000_000))]
        requests: u32,
        /// Where to write the drive file
        #[arg(long, default_value = "drive.toml")]
        out: PathBuf,
        /// Also write the single requests of a disk, for `masu drive fit` and `replay`
        #[arg(long)]
        trace: Option<PathBuf>,
    },
}

impl DriveModel {
    /// As it is typed.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            DriveModel::Replay { .. } => "drive replay",
            DriveModel::Fit { .. } => "drive fit",
            DriveModel::Measure { .. } => "drive measure",
        }
    }

    /// None of them lists objects with names, and only a replay is a table.
    fn check_output(&self, output: Output) -> Result<()> {
        let command = self.command();
        match (self, output) {
            (_, Output::Table | Output::Json) | (DriveModel::Replay { .. }, Output::Csv) => Ok(()),
            (DriveModel::Replay { .. }, Output::Name) => {
                bail!("masu {command} has no names to print: pass --output table, json or csv")
            }
            _ => bail!("masu {command} prints no list: pass --output table or json"),
        }
    }
}

pub(crate) fn run(what: &DriveModel, output: Output) -> Result<ExitCode> {
    what.check_output(output)?;
    match what {
        DriveModel::Replay { model, trace, latencies, out } => {
            replay(model, (trace, latencies.as_deref()), out.as_deref(), output)
        }
        DriveModel::Fit { disksim: Some(path), out, .. } => convert(path, out, output),
        DriveModel::Fit { trace, latencies, out, .. } => {
            let trace = trace.as_deref().context("missing trace; see --help")?;
            fitted((trace, latencies.as_deref()), out, output)
        }
        DriveModel::Measure { device, write, destroy_data, requests, out, trace } => {
            let writes = match (*write, *destroy_data) {
                (false, _) => Writing::None,
                (true, false) => Writing::IfBlank,
                (true, true) => Writing::Any,
            };
            let plan = Plan { requests: *requests as usize, writes };
            measured(device, plan, (out, trace.as_deref()), output)
        }
    }
}

fn replay(
    model: &str,
    (path, latencies): (&Path, Option<&Path>),
    out: Option<&Path>,
    output: Output,
) -> Result<ExitCode> {
    let out = out.map(outputs::folder).transpose()?;
    let drive = drives::load(model)?;
    let trace = trace::load(path, latencies)?;
    let replay = drives::replay(&drive, &trace).with_context(|| shown(path))?;
    let typed = lab_core::command_line::of_process();
    let name = shown(path);
    let replayed = Replayed { replay: &replay, drive: drive.name(), trace: &name, typed: &typed };
    let page = out.as_ref().map(|out| replayed.write(out)).transpose()?;
    match output {
        Output::Json => {
            let mut told = as_json(&replay);
            told["drive"] = drive.name().into();
            told["trace"] = name.as_str().into();
            told["left_out"] = trace.left_out.into();
            told["report"] = page.map(|page| shown(&page)).into();
            print_json(&told)?;
        }
        Output::Csv => print_csv(&replay),
        Output::Table | Output::Name => {
            println!("{}\n", replayed.answer());
            print_curve(&replay);
            if trace.left_out > 0 {
                println!(
                    "left out: {} requests without a response, or neither read nor write",
                    trace.left_out
                );
            }
            if let Some(page) = &page {
                println!("\nreport: {}", shown(page));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The demerit figure and its curve.
fn as_json(replay: &drives::Replay) -> Value {
    let points = curve(replay, CURVE_LINES).into_iter().map(|[percent, measured, modelled]| {
        json!({ "requests_percent": percent, "measured_ms": measured, "modelled_ms": modelled })
    });
    json!({
        "requests": replay.measured_ns.len(),
        "measured_mean_ms": replay.measured_mean_ns / 1e6,
        "modelled_mean_ms": replay.mean_ns / 1e6,
        "demerit_ms": replay.demerit_ns / 1e6,
        "demerit_percent": replay.demerit_percent(),
        "curve": points.collect::<Vec<_>>(),
    })
}

fn print_json(told: &Value) -> Result<()> {
    print_data(&(serde_json::to_string_pretty(told)? + "\n"));
    Ok(())
}

/// A drive file that was written, and what is known of it.
fn print_file(out: &Path, about: &[String], more: Value, output: Output) -> Result<()> {
    if output == Output::Json {
        let mut told = json!({ "drive_file": shown(out), "about": about });
        if let (Some(told), Value::Object(mut more)) = (told.as_object_mut(), more) {
            told.append(&mut more);
        }
        return print_json(&told);
    }
    println!("drive file: {}", shown(out));
    Ok(())
}

fn print_csv(replay: &drives::Replay) {
    let rows = curve(replay, CURVE_LINES).into_iter();
    let rows = rows.map(|[percent, measured, modelled]| format!("{percent},{measured},{modelled}\r\n"));
    print_data(&("requests_percent,measured_ms,modelled_ms\r\n".to_owned() + &rows.collect::<String>()));
}

fn print_curve(replay: &drives::Replay) {
    let rows = curve(replay, CURVE_LINES).into_iter().map(|[percent, measured, modelled]| {
        vec![format!("{percent:.0} %"), format!("{measured:.3}"), format!("{modelled:.3}")]
    });
    let header = ["requests", "measured ms", "modelled ms"];
    table::print_plain(&header, &header, rows.collect(), "");
}

fn convert(path: &Path, out: &Path, output: Output) -> Result<ExitCode> {
    check_drive_file(out)?;
    let converted = disksim::load(path)?;
    let mut about =
        vec![format!("{}: converted from a parameter file of DiskSim.", converted.parameters.name())];
    if !converted.notes.is_empty() {
        about.push(format!("Not taken over: {}.", converted.notes.join(", ")));
    }
    write_drive(out, drives::checked_text(&converted.parameters, &about))?;
    if output == Output::Table {
        println!("{}", about.join("\n"));
    }
    print_file(out, &about, json!({}), output)?;
    Ok(ExitCode::SUCCESS)
}

fn fitted((path, latencies): (&Path, Option<&Path>), out: &Path, output: Output) -> Result<ExitCode> {
    check_drive_file(out)?;
    let trace = trace::load(path, latencies)?;
    let name = path.file_stem().map_or("fitted".into(), |name| name.to_string_lossy().into_owned());
    let known = Known { name, ..Known::default() };
    let fitted = fit::fit(&trace, &known).with_context(|| shown(path))?;
    let mut about = vec![format!(
        "Fitted to {} requests of {}: demerit {:.2} %; {:.2} % on those that the fit did not see.",
        trace.requests.len(),
        path.file_name().unwrap_or_default().to_string_lossy(),
        fitted.replay.demerit_percent(),
        fitted.held_out_percent
    )];
    about.extend(fitted.unknown.iter().map(|what| format!("Unknown: {what}.")));
    write_drive(out, drives::checked_text(&fitted.parameters, &about))?;
    if output == Output::Table {
        println!("{}", about.join("\n"));
        print_curve(&fitted.replay);
    }
    let mut more = as_json(&fitted.replay);
    more["held_out_percent"] = fitted.held_out_percent.into();
    more["unknown"] = json!(fitted.unknown);
    print_file(out, &about, more, output)?;
    Ok(ExitCode::SUCCESS)
}

fn measured(
    device: &Path,
    plan: Plan,
    (out, trace): (&Path, Option<&Path>),
    output: Output,
) -> Result<ExitCode> {
    check_drive_file(out)?;
    trace.map(check_trace).transpose()?;
    let spec = match plan.writes {
        Writing::None => DriveSpec::ReadOnly { path: device.to_owned() },
        Writing::IfBlank | Writing::Any => existing_drive(device)?,
    };
    let stop = Stop::on_signals()?;
    let asked = stop.clone();
    let measurement = world_real::run(world_real::Options::default(), |world| async move {
        let drive = world.open_drive(&spec).await?;
        let mut progress = |step: &str| console::note(step);
        let measured = measure::measure(&world, &drive, plan, &asked, &mut progress).await;
        measured.with_context(|| spec.name())
    })??;
    let mut trace_file = None;
    if let (Some(path), Medium::HardDisk { trace, .. }) = (trace, &measurement.medium) {
        write(path, &trace::write(trace))?;
        if output == Output::Table {
            println!("trace: {}", shown(path));
        }
        trace_file = Some(shown(path));
    }
    if let (Some(path), Medium::Flash(_)) = (trace, &measurement.medium) {
        eprintln!("{}: not written: a drive without an arm has no trace", shown(path));
    }
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let modelled = measurement.model(&name).with_context(|| shown(device))?;
    write_drive(out, drives::checked_text(&modelled.parameters, &modelled.about))?;
    if output == Output::Table {
        println!("{}", modelled.about.join("\n"));
    }
    let more = json!({ "trace_file": trace_file, "stopped": stop.is_asked() });
    print_file(out, &modelled.about, more, output)?;
    Ok(if stop.is_asked() { ExitCode::from(STOPPED) } else { ExitCode::SUCCESS })
}

/// Whether a drive file may be written there: it replaces only another one.
fn check_drive_file(out: &Path) -> Result<()> {
    let is_own = |text: &str| drives::parse(text, "").is_ok();
    Ok(outputs::file(out, "name another file with --out", "drive file", is_own)?)
}

/// Whether a trace may be written there: it replaces only one of the same form.
fn check_trace(out: &Path) -> Result<()> {
    let is_own = |text: &str| trace::parse(text, "", None).is_ok_and(|found| trace::write(&found) == *text);
    Ok(outputs::file(out, "name another file with --trace", "trace of masu drive measure", is_own)?)
}

/// Writes a drive file, if masu can read it again.
fn write_drive(out: &Path, text: Result<String, DriveFileError>) -> Result<()> {
    write(out, &text.with_context(|| format!("{}: not written: no drive is like this", shown(out)))?)
}

fn write(out: &Path, text: &str) -> Result<()> {
    std::fs::write(out, text).with_context(|| shown(out))
}
