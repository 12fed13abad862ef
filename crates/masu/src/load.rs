//! `masu load`: a single load, against a LU, or with files in a folder.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

/// Run a single load: against an iscsi:// URL, a file or a device, or with files in a folder
// Its group of arguments would have the name of the one that is flattened into it.
#[derive(Args)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Load {
    #[command(subcommand)]
    kind: Option<Kind>,
    #[command(flatten)]
    blocks: Option<lab_tools::cli::Load>,
}

#[derive(Subcommand)]
enum Kind {
    Files(lab_tools::files::cli::Files),
    Fileserver(verify_fileserver::load::cli::FileServer),
    /// Concurrent sequential I/O on files, one thread per file, bypassing the page cache
    #[command(disable_help_flag = true)]
    Diskstress {
        /// Options of the stand-alone program; see --help
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

pub(crate) fn run(load: &Load) -> Result<ExitCode> {
    match &load.kind {
        Some(Kind::Files(files)) => lab_tools::files::cli::run(files)?,
        Some(Kind::Fileserver(load)) => verify_fileserver::load::cli::run(load)?,
        Some(Kind::Diskstress { words }) => {
            return Ok(diskstress::main_with("masu load diskstress", words));
        }
        None => lab_tools::cli::run_load(load.blocks.as_ref().context("missing target; see --help")?)?,
    }
    Ok(ExitCode::SUCCESS)
}
