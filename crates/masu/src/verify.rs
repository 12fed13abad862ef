//! `masu verify`: the built-in verifications.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use lab::sanboot::results::Layout;
use lab::verify::{FileserverOptions, QosOptions, SanbootOptions, World};

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
    /// How much data, as a share of the published experiment (0.02 is 2 GiB of 100)
    #[arg(long)]
    scale: Option<f64>,
    /// How often each measurement of vaai is repeated: 10 settle every verdict in most runs, the contended power-on the last
    #[arg(long, default_value_t = 10)]
    repeats: usize,
    /// The quick form: of sanboot fewer numbers of servers, each once; of qos shorter phases; of fileserver two minutes
    #[arg(long)]
    quick: bool,
    /// The orderings of sanboot for every sensible choice of the inputs that are not published, too
    #[arg(long)]
    sweep: bool,
    /// Where qos and sanboot run
    #[arg(long, value_enum, default_value_t = WorldName::Model)]
    world: WorldName,
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
    /// Whether virtual disks that grow may be used in production: four file servers, in the model world
    Fileserver,
    /// Every verification there is
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

impl From<LayoutName> for Layout {
    fn from(name: LayoutName) -> Layout {
        match name {
            LayoutName::Raid5x4 => Layout::Raid5x4,
            LayoutName::Raid1x8 => Layout::Raid1x8,
            LayoutName::Internal => Layout::Internal,
        }
    }
}

pub(crate) fn run(verify: &Verify) -> Result<ExitCode> {
    let options = lab::verify::Options {
        targets: verify.targets.clone(),
        destroy_data: verify.destroy_data,
        scale: verify.scale,
        repeats: verify.repeats,
        seed: verify.seed,
        out: verify.out.clone(),
        scenario: verify.scenario.clone(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    let world = if verify.world == WorldName::Real { World::Real } else { World::Model };
    let sanboot = SanbootOptions {
        world,
        quick: verify.quick,
        sweep: verify.sweep,
        layouts: verify.layouts.iter().map(|name| Layout::from(*name)).collect(),
    };
    let qos = QosOptions { quick: verify.quick, world };
    let fileserver = FileserverOptions { quick: verify.quick };
    let held = match verify.which {
        Which::Vaai => lab::verify::vaai(&options)?,
        Which::Sanboot => lab::verify::sanboot(&options, &sanboot)?,
        Which::Qos => lab::verify::qos(&options, &qos)?,
        Which::Fileserver => lab::verify::fileserver(&options, &fileserver)?,
        Which::All => {
            // One after the other: all of them measure.
            let of = |name: &str| lab::verify::Options { out: options.out.join(name), ..options.clone() };
            let vaai = lab::verify::vaai(&of("vaai"))?;
            let sanboot = lab::verify::sanboot(&of("sanboot"), &sanboot)?;
            let fileserver = lab::verify::fileserver(&of("fileserver"), &fileserver)?;
            lab::verify::qos(&of("qos"), &qos)? && fileserver && sanboot && vaai
        }
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
