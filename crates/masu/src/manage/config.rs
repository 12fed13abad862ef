//! `masu config`: the declaration, of a file and of the array that runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::{Change, differences};
use anyhow::{Context, Result};
use clap::Subcommand;
use config::{Config, reference};

use super::confirm::confirm;
use super::request::{Where, change, client, wait};

pub(super) const HELP: &str = "\
What a command changes is kept in the data directory and wins over the file that was declared before it; \
what is changed in the file wins at the next start or SIGHUP. masu never writes to the file.

Example: check a file, see what would change, and put it in force
  masu config check array.toml
  masu config diff array.toml
  masu config import array.toml --plan
  masu config import array.toml --yes";

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a declaration without an array: the reader and the checks of a start
    ///
    /// Errors name file, line and column. Exit status: 0 valid, 1 not valid. Drives are not opened.
    Check {
        /// The file (array.toml)
        file: PathBuf,
    },
    /// Show what the array that runs is, as TOML without secrets
    ///
    /// A key that is missing has its default. `masu config export` prints a declaration that can be imported.
    Show {
        /// Write the defaults, too
        #[arg(long)]
        defaults: bool,
    },
    /// Show in what the array differs from a file, or from the last applied declaration, and what is declared
    /// and only the next start puts in force
    ///
    /// Exit status: 0 no differences, 1 differences, 2 failure.
    #[command(alias = "differences")]
    Diff {
        /// The file to compare with (array.toml) [default: the last applied declaration]
        file: Option<PathBuf>,
    },
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
    /// Print the JSON Schema of array.toml, for editors
    Schema,
    /// Print the reference of array.toml: all tables and keys, as Markdown
    Reference,
}

pub(super) fn run(what: &ConfigCommand, at: &Where) -> Result<ExitCode> {
    match what {
        ConfigCommand::Check { file } => Ok(check(file)),
        ConfigCommand::Show { defaults } => {
            let running = Config::parse(&wait(client(at).config())??.text, "the array", Path::new("/"))?;
            print!("{}", reference::shown(&running, *defaults));
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Diff { file } => diff(file.as_deref(), at),
        ConfigCommand::Export => {
            crate::stdout::print_data(&wait(client(at).config())??.text);
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Import { file, plan } => import(file, *plan, at),
        ConfigCommand::Schema => {
            print!("{}", reference::schema_text());
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Reference => {
            print!("{}", reference::page());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Where relative paths of a checked file lead is of no account: nothing is opened.
fn check(file: &Path) -> ExitCode {
    match Config::read(file, Path::new(".")) {
        Ok(config) => {
            println!("{}: valid: {}", file.display(), summary(&config));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("masu: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How many objects of each kind are declared.
fn summary(config: &Config) -> String {
    let kinds = [
        ("portal", config.portals.len()),
        ("drive", config.drives.len()),
        ("group", config.groups.len()),
        ("pool", config.pools.len()),
        ("volume", config.volumes.len()),
        ("image", config.images.len()),
        ("policy", config.policies.len()),
        ("host", config.hosts.len()),
    ];
    let counted = kinds.iter().filter(|(_, n)| *n > 0).map(|(kind, n)| match (*kind, *n) {
        (kind, 1) => format!("1 {kind}"),
        ("policy", n) => format!("{n} policies"),
        (kind, n) => format!("{n} {kind}s"),
    });
    let text = counted.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "it declares no objects".into() } else { text }
}

fn diff(file: Option<&Path>, at: &Where) -> Result<ExitCode> {
    let running = wait(client(at).config())??;
    let lines = match file {
        None => running.drift.clone(),
        Some(file) => {
            let data_dir = std::path::absolute(at.data())?;
            let data_dir = data_dir.canonicalize().unwrap_or(data_dir);
            let declared = Config::read(file, &data_dir)?;
            let now = Config::parse(&running.text, "the array", &data_dir)?;
            Some(differences(&declared, &now))
        }
    };
    let lines = with_later(lines, running.at_next_start);
    let is_json = at.form.is_json()?;
    let differs = lines.as_ref().is_some_and(|lines| !lines.is_empty());
    match (is_json, &lines) {
        (true, lines) => println!("{}", serde_json::to_string_pretty(lines)?),
        (_, None) => println!("no declaration: the array was started without --config"),
        (_, Some(lines)) if lines.is_empty() => println!("no differences from the declaration"),
        (_, Some(lines)) => lines.iter().for_each(|line| println!("{line}")),
    }
    // As `diff` does.
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Differences with what is declared and not in force yet; none at all only without a declaration.
fn with_later(lines: Option<Vec<String>>, later: Vec<String>) -> Option<Vec<String>> {
    if lines.is_none() && later.is_empty() {
        return None;
    }
    Some(lines.unwrap_or_default().into_iter().chain(later).collect())
}

fn import(file: &Path, plan: bool, at: &Where) -> Result<ExitCode> {
    let shown = file.display();
    let text = lab_core::text_file::read(file).with_context(|| format!("cannot read {shown}"))?;
    let request = |plan| Change::ConfigImport { text: text.clone(), plan };
    let lines = wait(client(at).change(&request(true)))??;
    if plan || at.dry_run || lines.is_empty() {
        match lines.is_empty() {
            true => println!("no changes"),
            false => lines.iter().for_each(|line| println!("{line}")),
        }
        return Ok(ExitCode::SUCCESS);
    }
    // Who is asked sees what it is about; otherwise what was done is told when it is.
    if !at.yes {
        eprintln!("would be changed:");
        lines.iter().for_each(|line| eprintln!("  {line}"));
    }
    confirm(&format!("{} differences will be applied", lines.len()), at)?;
    change(at, &request(false))
}
