//! `masu verify`: the built-in verifications.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

/// Verify storage: measure, compare with what was published, write a report.
///
/// Runs on an array of its own, made for the purpose and removed after it; --target points it at other storage. The exit
/// status is 0 only when every check holds.
#[derive(Args)]
pub(crate) struct Verify {
    /// Which verification
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
    /// Someone else's storage, as iscsi://host:port/target/lun; twice for a second LU
    #[arg(long = "target")]
    targets: Vec<String>,
    /// Agree that the LUs behind --target are overwritten
    #[arg(long)]
    destroy_data: bool,
    /// How much data, as a share of the published experiment (0.02 is 2 GiB of 100)
    #[arg(long)]
    scale: Option<f64>,
    /// How often each measurement is repeated: 10 settle every verdict in most runs, the contended power-on the last
    #[arg(long, default_value_t = 10)]
    repeats: usize,
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
    /// Every verification there is
    All,
}

pub(crate) fn run(verify: &Verify) -> Result<ExitCode> {
    // `all` is `vaai` while that is the only one.
    let (Which::Vaai | Which::All) = verify.which;
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
    let held = lab::verify::vaai(&options)?;
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
