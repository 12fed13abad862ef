//! `masu report`: builds the page of a run from its record.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lab_core::words::shown;
use lab_core::{bundle, presentation};

/// Build the page of a run again from its results.json
///
/// Figures and tables come from presentation.json beside it; without that file the page has the verdict, the
/// claims and the method. With --bundle the run's folder is not changed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu report verify-vaai
  masu report verify-vaai --bundle vaai.tar.gz    for the appendix of a paper

Exit status: 0 written, 2 bad input or failure.")]
pub(crate) struct Report {
    /// The folder of the run
    run: PathBuf,
    /// Write the run as one archive instead: data, scenario, environment, page, README and checksums. The
    /// same run gives the same bytes
    #[arg(long, value_name = "FILE.tar.gz")]
    bundle: Option<PathBuf>,
}

pub(crate) fn run(report: &Report) -> Result<ExitCode> {
    if let Some(archive) = &report.bundle {
        let files = bundle::write(&report.run, archive)?;
        println!("bundle: {} ({files} files)", shown(archive));
        return Ok(ExitCode::SUCCESS);
    }
    println!("report: {}", shown(&presentation::write_again(&report.run)?));
    Ok(ExitCode::SUCCESS)
}
