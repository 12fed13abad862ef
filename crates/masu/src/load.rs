//! `masu load`: one load alone, against a LU, or with files in a folder.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

/// One load alone: against an iscsi:// URL, a file or a device, or with files in a folder
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Load {
    #[command(subcommand)]
    kind: Option<Kind>,
    #[command(flatten)]
    blocks: Option<lab::cli::Load>,
}

#[derive(Subcommand)]
enum Kind {
    Files(lab::files::cli::Files),
    Fileserver(lab::fileserver::load::cli::FileServer),
}

pub(crate) fn run(load: &Load) -> Result<()> {
    match &load.kind {
        Some(Kind::Files(files)) => lab::files::cli::run(files),
        Some(Kind::Fileserver(load)) => lab::fileserver::load::cli::run(load),
        None => lab::cli::run_load(load.blocks.as_ref().context("no target: say what is loaded")?),
    }
}
