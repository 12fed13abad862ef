//! `masu config`: the declaration of a running array, current and as in its file.

use std::path::PathBuf;
use std::process::ExitCode;

use admin::Change;
use anyhow::{Context, Result};
use clap::Subcommand;

use super::confirm::confirm;
use super::request::{Where, change, client, wait};

pub(super) const HELP: &str = "\
What a command changes is kept in the data directory and wins over the file that was declared before it; \
what is changed in the file wins at the next start or SIGHUP.

Example: see what commands have changed, and put a declaration in force
  masu config diff
  masu config import array.toml --plan
  masu config import array.toml --yes";

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the differences from the last applied declaration
    Diff,
    /// Print the current declaration as TOML; it contains the CHAP secrets
    Export,
    /// Apply a declaration: declared objects change, all others stay
    ///
    /// An array without drives and images becomes the exported one (identified by `id`): it opens the objects
    /// of the exported array with their data, and creates nothing. Without the line `id`, missing objects are
    /// created.
    Import {
        /// The file (array.toml)
        file: PathBuf,
        /// Show what would change, without changing it: another word for --dry-run
        #[arg(long)]
        plan: bool,
    },
}

pub(super) fn run(what: &ConfigCommand, at: &Where) -> Result<ExitCode> {
    match what {
        ConfigCommand::Diff => {
            let config = wait(client(at).config())??;
            match (at.form.is_json()?, &config.drift) {
                (true, drift) => println!("{}", serde_json::to_string_pretty(drift)?),
                (false, None) => println!("no declaration: the array was started without --config"),
                (false, Some(lines)) if lines.is_empty() => {
                    println!("no differences from the declaration");
                }
                (false, Some(lines)) => lines.iter().for_each(|line| println!("{line}")),
            }
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Export => {
            print!("{}", wait(client(at).config())??.text);
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Import { file, plan } => {
            let shown = file.display();
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
            let request = |plan| Change::ConfigImport { text: text.clone(), plan };
            let lines = wait(client(at).change(&request(true)))??;
            if *plan || at.dry_run || lines.is_empty() {
                match lines.is_empty() {
                    true => println!("no changes"),
                    false => lines.iter().for_each(|line| println!("{line}")),
                }
                return Ok(ExitCode::SUCCESS);
            }
            lines.iter().for_each(|line| eprintln!("{line}"));
            confirm(&format!("{} differences will be applied", lines.len()), at)?;
            change(at, &request(false))
        }
    }
}
