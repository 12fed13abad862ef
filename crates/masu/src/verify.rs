//! `masu verify`: the built-in verifications.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use lab::fileserver::real::Format;
use lab::sanboot::results::Layout;
use lab::verify::{self, Asked, VERIFICATIONS};
use lab_core::index;
use lab_core::record::{RunRecord, World};
use lab_core::verdict::Tally;
use lab_core::verification::Request;

use crate::table;

/// Verify storage: measure, compare with what was published, write a report.
///
/// Runs on an array of its own, made for the purpose and removed after it; --target points it at other storage. Promises of masu
/// decide the exit status: 0 all that were judged are held, 1 one is not held, 3 none is refuted but some are undecided or in
/// doubt, 2 the run could not be done. A published statement that is not reproduced is a result and no failure.
#[derive(Args)]
pub(crate) struct Verify {
    /// Which verification
    #[arg(value_parser = names(), default_value = ALL)]
    which: String,
    /// Someone else's storage, as iscsi://host:port/target/lun; vaai takes a second LU, sanboot one for each server
    #[arg(long = "target")]
    targets: Vec<String>,
    /// Agree that the LUs behind --target are overwritten
    #[arg(long)]
    destroy_data: bool,
    /// How much data, as a share of the published experiment (0.02 is 2 GiB of 100; of a real diskstress 0.01 is 80 MB of 8 GB, of a real fileserver 0.01 is 1.3 GB of a server's 128)
    #[arg(long)]
    scale: Option<f64>,
    /// How often each measurement of vaai is repeated (10 settle every verdict in most runs, the contended power-on the last); the rounds of a real fileserver (8)
    #[arg(long)]
    repeats: Option<usize>,
    /// The quick form: of vaai as many repeats as two and a half minutes have; of sanboot fewer numbers of servers, each once; of qos shorter phases; of fileserver two minutes; of diskstress fewer repeats
    #[arg(long)]
    quick: bool,
    /// The orderings of sanboot for every sensible choice of the inputs that are not published, too
    #[arg(long)]
    sweep: bool,
    /// Where qos, sanboot, fileserver and diskstress run
    #[arg(long, value_enum, default_value_t = WorldName::Model)]
    world: WorldName,
    /// Where a real diskstress has its image: the folder or drive that is measured (the output folder)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The guest of a real diskstress, as `make diskstress` makes it (target/judges/diskstress); with `all` it is run besides
    #[arg(long)]
    guest: Option<PathBuf>,
    /// Of a real fileserver: these formats of disks, each growing and fixed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [FormatName::Vhd])]
    formats: Vec<FormatName>,
    /// Of a real fileserver: only the load, against this directory (a mounted share is one), without a stack of its own
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Only these layouts of sanboot
    #[arg(long, value_enum, value_delimiter = ',')]
    layouts: Vec<LayoutName>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the report, results.json and the samples go
    #[arg(long, default_value = "./verify")]
    out: PathBuf,
    /// A scenario file instead of the built-in one
    #[arg(long)]
    scenario: Option<PathBuf>,
}

/// Each of them, one after the other.
const ALL: &str = "all";

/// The verifications of the table, each with its question, and all of them.
fn names() -> PossibleValuesParser {
    let rows = VERIFICATIONS.iter().map(|row| PossibleValue::new(row.name).help(row.question));
    let all = PossibleValue::new(ALL).help("Every verification there is, and a page over their reports");
    PossibleValuesParser::new(rows.chain([all]))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorldName {
    /// Modelled drives in virtual time
    Model,
    /// iSCSI sessions and modelled drives in real time
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
    /// What the published experiment had
    Vhd,
    /// What replaced it
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

/// Of vaai, when nobody says how many.
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
        command: std::env::args().collect::<Vec<_>>().join(" "),
        commit: option_env!("MASU_COMMIT").map(str::to_owned),
    };
    let asked = Asked {
        quick: verify.quick,
        world: verify.world.into(),
        sweep: verify.sweep,
        layouts: verify.layouts.iter().map(|name| Layout::from(*name)).collect(),
        formats: verify.formats.iter().map(|name| Format::from(*name)).collect(),
        repeats: verify.repeats,
        directory: verify.directory.clone(),
        dir: verify.dir.clone(),
        guest: verify.guest.clone(),
    };
    match verify::named(&verify.which) {
        Some(row) => Ok(ExitCode::from((row.run)(&request, &asked)?.verdict.exit_status)),
        None => all(&request, &asked),
    }
}

/// One after the other, for all of them measure; then the page over their records. One that cannot be run does not keep the others
/// from being run.
fn all(request: &Request, asked: &Asked) -> Result<ExitCode> {
    ensure!(request.scenario.is_none(), "--scenario requires the name of one verification");
    let mut failed = Vec::new();
    for row in &VERIFICATIONS {
        println!("\n{}\n", row.name);
        let (own, asked) = row.in_all(request, asked);
        failed.extend(failure(row.name, (row.run)(&own, &asked)));
    }
    if let (true, Some(row)) = (asked.guest.is_some(), verify::named(WITH_GUEST)) {
        let name = format!("{}{}", row.name, index::REAL);
        println!("\n{name}\n");
        let own = Request { out: request.out.join(&name), ..request.clone() };
        let asked = Asked { world: World::Real, ..asked.clone() };
        failed.extend(failure(&name, (row.run)(&own, &asked)));
    }
    page(request, &failed)
}

/// Where there is a guest this one is run natively and in it, besides.
const WITH_GUEST: &str = "diskstress";

/// Why one could not be run, said at once and kept for the page.
fn failure(name: &str, ran: Result<RunRecord>) -> Option<(String, String)> {
    let error = ran.err()?;
    let why: Vec<String> = error.chain().map(ToString::to_string).collect();
    eprintln!("masu: {name}: {}", why.join(": "));
    Some((name.to_owned(), why.join(": ")))
}

/// The page over the records that lie there. The exit status is that of the worst.
fn page(request: &Request, failed: &[(String, String)]) -> Result<ExitCode> {
    let entries = index::read_all(&request.out, &verify::questions(), failed);
    index::write(&request.out, &entries, &request.command)?;
    let rows = entries.iter().map(|entry| {
        let claims = entry.tally().map_or("–".into(), Tally::words);
        vec![entry.name.clone(), entry.words().into(), claims, entry.answer()]
    });
    println!("\n{}\n{}\n", index::answer(&entries), index::tally(&entries).words());
    table::print(&["verification", "verdict", "claims", "answer"], &[], rows.collect(), "");
    println!("\nall reports: {}", request.out.join("index.html").display());
    Ok(ExitCode::from(index::exit_status(&entries)))
}
