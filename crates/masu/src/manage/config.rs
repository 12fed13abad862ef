//! `masu config`: the declaration of a running array, as it is now and as its file says.

use std::path::PathBuf;
use std::process::ExitCode;

use admin::Change;
use anyhow::{Context, Result};
use clap::Subcommand;

use super::confirm::confirm;
use super::request::{Output, Where, change, client, wait};

pub(super) const HELP: &str = "\
What a command changes is kept in the data directory and wins over the file that was declared before it; \
what is changed in the file wins at the next start or SIGHUP.

Example: see what commands have changed, and put a declaration in force
  masu config diff
  masu config import array.toml --plan
  masu config import array.toml --yes";

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show in what the array differs from the declaration that was applied last
    Diff,
    /// Print the declaration of the array as it is now, as TOML; it contains the CHAP secrets
    Export,
    /// Apply a declaration: what it names becomes as it says, what it does not name stays
    ///
    /// An array that has no drives and images yet becomes the one that was exported (the `id` says which): it opens what
    /// that one had made, with its data, and makes nothing. Without the line `id` everything is made that is not there.
    Import {
        /// The file (array.toml)
        file: PathBuf,
        /// Show what would change, and change nothing
        #[arg(long)]
        plan: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn run(what: &ConfigCommand, at: &Where) -> Result<ExitCode> {
    match what {
        ConfigCommand::Diff => {
            let config = wait(client(at).config())??;
            match (at.output, &config.drift) {
                (Output::Json, drift) => println!("{}", serde_json::to_string_pretty(drift)?),
                (Output::Table, None) => println!("the array was started without a declaration (--config)"),
                (Output::Table, Some(lines)) if lines.is_empty() => {
                    println!("the array is as its declaration says");
                }
                (Output::Table, Some(lines)) => lines.iter().for_each(|line| println!("{line}")),
            }
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Export => {
            print!("{}", wait(client(at).config())??.text);
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Import { file, plan, yes } => {
            let shown = file.display();
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
            let request = |plan| Change::ConfigImport { text: text.clone(), plan };
            let lines = wait(client(at).change(&request(true)))??;
            if *plan || lines.is_empty() {
                match lines.is_empty() {
                    true => println!("nothing would change"),
                    false => lines.iter().for_each(|line| println!("{line}")),
                }
                return Ok(ExitCode::SUCCESS);
            }
            lines.iter().for_each(|line| eprintln!("{line}"));
            confirm(&format!("{} differences are applied", lines.len()), *yes)?;
            change(at, &request(false))
        }
    }
}
