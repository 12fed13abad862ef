//! `masu report`: builds the page of a run from its record.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lab_core::presentation;

/// Build the page of a run again from its results.json
///
/// Figures and tables come from presentation.json beside it; without that file the page has the verdict, the
/// claims and the method.
#[derive(Args)]
#[command(after_help = "Exit status: 0 written, 2 bad input or failure.")]
pub(crate) struct Report {
    /// The folder of the run
    run: PathBuf,
}

pub(crate) fn run(report: &Report) -> Result<ExitCode> {
    println!("report: {}", presentation::write_again(&report.run)?.display());
    Ok(ExitCode::SUCCESS)
}
