//! `masu verify`: the built-in verifications.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use lab::verify::{self, Asked, Said, VERIFICATIONS};
use lab_core::interrupt::Stop;
use lab_core::outputs;
use lab_core::record::World;
use lab_core::sweep::{POINTS, POINTS_DEFAULT};
use lab_core::verdict::Tally;
use lab_core::verification::Request;
use lab_core::{console, index};
use verify_fileserver::real::Format;
use verify_sanboot::results::Layout;

use crate::table;

/// Verify storage: measure, compare with published values, write a report
///
/// Runs on a temporary array of its own, or with --target on other storage. Promises of masu decide the exit
/// status: 0 all judged promises are held, 1 one is not held, 3 none is refuted but some are undecided or in
/// doubt, or nothing was judged, 2 the run could not be done. A published statement that is not reproduced is
/// a result, not a failure.
#[derive(Args)]
pub(crate) struct Verify {
    /// The verification
    #[arg(value_parser = names(), default_value = ALL)]
    which: String,
    /// Another target, as iscsi://host:port/target/lun; vaai accepts a second LU, sanboot requires one per
    /// server
    #[arg(long = "target")]
    targets: Vec<String>,
    /// Confirm that the LUs of --target are overwritten
    #[arg(long, requires = "targets")]
    destroy_data: bool,
    /// Amount of data, as a share of the published experiment (0.02 is 2 GiB of 100; for a real diskstress
    /// 0.01 is 80 MB of 8 GB, for a real fileserver 0.01 is 1.3 GB of a server's 128)
    #[arg(long)]
    scale: Option<f64>,
    /// Repeats of each real vaai measurement (10 decide every claim in most runs, the contended power-on
    /// last); rounds of a real fileserver (8)
    #[arg(long)]
    repeats: Option<usize>,
    /// Quick form: vaai in the model with a share of the sizes, for real for a minute; sanboot with fewer
    /// numbers of servers, once each; qos with shorter phases, for real with the array at several nodes
    /// alone; fileserver for two minutes; diskstress with fewer repeats
    #[arg(long)]
    quick: bool,
    /// Sensitivity analysis: repeat the model run, in its quick form, over the ranges that the scenario
    /// declares
    #[arg(long)]
    sweep: bool,
    /// Points of --sweep over all ranges together, at least 64 to publish them
    #[arg(long, requires = "sweep", default_value_t = POINTS_DEFAULT, value_parser = clap::value_parser!(u32).range(points()))]
    points: u32,
    /// World of vaai, qos, sanboot, fileserver and diskstress
    #[arg(long, value_enum, default_value_t = WorldName::Model)]
    world: WorldName,
    /// Folder or drive that a real diskstress measures (by default the output folder)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Guest of a real diskstress, built by `make diskstress` (target/judges/diskstress); adds this run to
    /// `all`
    #[arg(long)]
    guest: Option<PathBuf>,
    /// Disk formats of a real fileserver, each dynamic and fixed [default: vhd]
    #[arg(long, value_enum, value_delimiter = ',')]
    formats: Vec<FormatName>,
    /// Run only the load of a real fileserver, against this directory (for example a mounted share)
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Only these layouts of sanboot
    #[arg(long, value_enum, value_delimiter = ',')]
    layouts: Vec<LayoutName>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output folder of the report, results.json and samples
    #[arg(long, default_value = "./verify")]
    out: PathBuf,
    /// Scenario file that replaces the built-in one
    #[arg(long)]
    scenario: Option<PathBuf>,
}

impl Verify {
    /// The options that were given of those that not all verifications have.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("target", !self.targets.is_empty()),
            ("destroy-data", self.destroy_data),
            ("scale", self.scale.is_some()),
            ("repeats", self.repeats.is_some()),
            ("quick", self.quick),
            ("sweep", self.sweep),
            ("dir", self.dir.is_some()),
            ("guest", self.guest.is_some()),
            ("formats", !self.formats.is_empty()),
            ("directory", self.directory.is_some()),
            ("layouts", !self.layouts.is_empty()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// The name for all verifications, one after the other.
const ALL: &str = "all";

/// The verifications of the table with their questions, and `all`.
fn names() -> PossibleValuesParser {
    let rows = VERIFICATIONS.iter().map(|row| PossibleValue::new(row.name).help(row.question));
    let all = PossibleValue::new(ALL).help("All verifications, and a page over their reports");
    PossibleValuesParser::new(rows.chain([all]))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorldName {
    /// Modelled drives in virtual time
    Model,
    /// iSCSI sessions and modelled drives in real time (qos: also three processes of masu serve)
    Real,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// Four groups RAID5 (2D+1P), two LUs on each
    Raid5x4,
    /// Eight groups RAID1, one LU on each
    Raid1x8,
    /// A disk in each server
    Internal,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// The format of the published experiment
    Vhd,
    /// Its successor
    Vhdx,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Vhd => Format::Vhd,
            FormatName::Vhdx => Format::Vhdx,
        }
    }
}

impl From<LayoutName> for Layout {
    fn from(name: LayoutName) -> Layout {
        match name {
            LayoutName::Raid5x4 => Layout::Raid5x4,
            LayoutName::Raid1x8 => Layout::Raid1x8,
            LayoutName::Internal => Layout::Internal,
        }
    }
}

/// Default repeats of vaai.
const VAAI_REPEATS: usize = 10;

impl From<WorldName> for World {
    fn from(name: WorldName) -> World {
        match name {
            WorldName::Model => World::Model,
            WorldName::Real => World::Real,
        }
    }
}

pub(crate) fn run(verify: &Verify) -> Result<ExitCode> {
    let request = Request {
        targets: verify.targets.clone(),
        destroy_data: verify.destroy_data,
        scale: verify.scale,
        repeats: verify.repeats.unwrap_or(VAAI_REPEATS),
        seed: verify.seed,
        out: verify.out.clone(),
        scenario: verify.scenario.clone(),
        beside: None,
        command: lab_core::command_line::of_process(),
        commit: option_env!("MASU_COMMIT").map(str::to_owned),
    };
    let asked = Asked {
        quick: verify.quick,
        world: verify.world.into(),
        sweep: verify.sweep.then_some(verify.points),
        layouts: verify.layouts.iter().map(|name| Layout::from(*name)).collect(),
        formats: verify.formats.iter().map(|name| Format::from(*name)).collect(),
        repeats: verify.repeats,
        directory: verify.directory.clone(),
        dir: verify.dir.clone(),
        guest: verify.guest.clone(),
    };
    ensure!(!(verify.sweep && verify.which == ALL), "--sweep requires the name of one verification");
    verify::check_options(verify::named(&verify.which), asked.world, &verify.given())?;
    match verify::named(&verify.which) {
        Some(row) => Ok(ExitCode::from((row.run)(&request, &asked)?.verdict.exit_status)),
        None => all(&request, &asked),
    }
}

fn points() -> std::ops::RangeInclusive<i64> {
    i64::from(*POINTS.start())..=i64::from(*POINTS.end())
}

/// Runs all of them; prints the answers once more at the end. The exit status is that of the worst.
fn all(request: &Request, asked: &Asked) -> Result<ExitCode> {
    ensure!(request.scenario.is_none(), "--scenario requires the name of one verification");
    let _folder = outputs::folder(&request.out)?;
    let planned = verify::planned(request, asked);
    let stop = Stop::on_signals()?;
    let entries = verify::run_all(&planned, (request, &verify::questions()), &stop, |said| match said {
        Said::Begins { name } => console::print(&format!("\n{name}\n")),
        Said::Failed { name, why } => console::note(&format!("masu: {name}: {why}")),
    })?;
    let rows = entries.iter().map(|entry| {
        let claims = entry.tally().map_or("–".into(), Tally::words);
        vec![entry.name.clone(), entry.words().into(), claims, entry.answer()]
    });
    console::print(&format!("\n{}\n{}\n", index::answer(&entries), index::tally(&entries).words()));
    table::print_plain(&["verification", "verdict", "claims", "answer"], &[], rows.collect(), "");
    console::print(&format!("\nall reports: {}", request.out.join("index.html").display()));
    Ok(ExitCode::from(index::exit_status(&entries)))
}
