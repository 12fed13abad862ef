//! `masu verify`: the built-in verifications.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use lab::fileserver::real::Format;
use lab::index::{self, Standing};
use lab::sanboot::results::Layout;
use lab::verify::{
    DiskstressOptions, FileserverOptions, Options, QosOptions, SanbootOptions, VaaiOptions, World,
};

use crate::table;

/// Verify storage: measure, compare with what was published, write a report.
///
/// Runs on an array of its own, made for the purpose and removed after it; --target points it at other storage. The exit
/// status is 0 only when every check holds.
#[derive(Args)]
pub(crate) struct Verify {
    /// Which verification
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// What the array does instead of the host: zeroing, copying, locking, thin provisioning
    Vaai,
    /// How many servers boot and live from one array, in the model world
    Sanboot,
    /// Whether minimums and maximums of virtual disks are kept
    Qos,
    /// Whether virtual disks that grow may be used in production: four file servers, in the model world; or one of each kind on this machine
    Fileserver,
    /// What virtualization costs a disk: files written and read side by side, natively and in a guest
    Diskstress,
    /// Every verification there is, and a page over their reports
    All,
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

pub(crate) fn run(verify: &Verify) -> Result<ExitCode> {
    let options = Options {
        targets: verify.targets.clone(),
        destroy_data: verify.destroy_data,
        scale: verify.scale,
        repeats: verify.repeats.unwrap_or(VAAI_REPEATS),
        seed: verify.seed,
        out: verify.out.clone(),
        scenario: verify.scenario.clone(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    match verify.which {
        Which::All => all(verify, &options),
        which => Ok(if one(verify, which, &options)? { ExitCode::SUCCESS } else { ExitCode::from(1) }),
    }
}

/// Runs one. Gives whether every claim held.
fn one(verify: &Verify, which: Which, options: &Options) -> Result<bool> {
    let world = if verify.world == WorldName::Real { World::Real } else { World::Model };
    match which {
        Which::Vaai => lab::verify::vaai(options, &VaaiOptions { quick: verify.quick }),
        Which::Sanboot => {
            let layouts = verify.layouts.iter().map(|name| Layout::from(*name)).collect();
            let own = SanbootOptions { world, quick: verify.quick, sweep: verify.sweep, layouts };
            lab::verify::sanboot(options, &own)
        }
        Which::Qos => {
            // Its quick form has too few windows to judge by, and the whole one takes a minute or two.
            let quick = verify.quick && verify.which != Which::All;
            lab::verify::qos(options, &QosOptions { quick, world })
        }
        Which::Fileserver => {
            let formats = verify.formats.iter().map(|name| Format::from(*name)).collect();
            let (repeats, directory) = (verify.repeats, verify.directory.clone());
            // In a row of all it is the model's, as it was published.
            let world = if verify.which == Which::All { World::Model } else { world };
            let own = FileserverOptions { quick: verify.quick, world, formats, repeats, directory };
            lab::verify::fileserver(options, &own)
        }
        Which::Diskstress => {
            let (dir, guest) = (verify.dir.clone(), verify.guest.clone());
            lab::verify::diskstress(options, &DiskstressOptions { quick: verify.quick, world, dir, guest })
        }
        Which::All => unreachable!("it is each of the others, one after the other"),
    }
}

/// One after the other, for all of them measure; then the page over their reports. One that cannot be run does not keep the others
/// from being run.
fn all(verify: &Verify, options: &Options) -> Result<ExitCode> {
    ensure!(options.scenario.is_none(), "--scenario: say which verification it is for");
    let mut failed = Vec::new();
    for (name, which) in [
        ("vaai", Which::Vaai),
        ("qos", Which::Qos),
        ("sanboot", Which::Sanboot),
        ("fileserver", Which::Fileserver),
        ("diskstress", Which::Diskstress),
    ] {
        println!("\n{name}\n");
        // The scale is that of what is really written.
        let scale = options.scale.filter(|_| which == Which::Vaai);
        let own = Options { out: options.out.join(name), scale, ..options.clone() };
        failed.extend(failure(name, one(verify, which, &own)));
    }
    if verify.guest.is_some() {
        let name = format!("diskstress{}", index::REAL);
        println!("\n{name}\n");
        let own = Options { out: options.out.join(&name), ..options.clone() };
        let (dir, guest) = (verify.dir.clone(), verify.guest.clone());
        let own_options = DiskstressOptions { quick: verify.quick, world: World::Real, dir, guest };
        failed.extend(failure(&name, lab::verify::diskstress(&own, &own_options)));
    }
    page(options, &failed)
}

/// Why one could not be run, said at once and kept for the page.
fn failure(name: &str, ran: Result<bool>) -> Option<(String, String)> {
    let error = ran.err()?;
    let why: Vec<String> = error.chain().map(ToString::to_string).collect();
    eprintln!("masu: {name}: {}", why.join(": "));
    Some((name.to_owned(), why.join(": ")))
}

/// The page over the reports that lie there. Gives 0 only when every verification was run and every claim held.
fn page(options: &Options, failed: &[(String, String)]) -> Result<ExitCode> {
    let entries = index::read_all(&options.out, failed);
    index::write(&options.out, &entries, &options.command)?;
    let rows = entries.iter().map(|entry| {
        let claims =
            if entry.judged > 0 { format!("{} of {}", entry.held, entry.judged) } else { "–".into() };
        vec![entry.name.clone(), claims, standing_words(entry.standing).into(), entry.answer.clone()]
    });
    println!("\n{}\n", index::answer(&entries));
    table::print(&["verification", "claims held", "verdict", "answer"], &["claims held"], rows.collect(), "");
    println!("\nall reports: {}", options.out.join("index.html").display());
    let has = |standing| entries.iter().any(|entry| entry.standing == standing);
    Ok(match () {
        () if has(Standing::Failed) => ExitCode::from(2),
        () if entries.iter().all(|entry| entry.standing == Standing::Held) => ExitCode::SUCCESS,
        () => ExitCode::from(1),
    })
}

fn standing_words(standing: Standing) -> &'static str {
    match standing {
        Standing::Held => "held",
        Standing::NotHeld => "not held",
        Standing::InDoubt => "in doubt",
        Standing::Failed => "could not be run",
        Standing::NotRun => "not run",
    }
}
