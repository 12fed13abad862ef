//! `masu completions` and `masu man`: texts that shells and `man` read, made of the command line itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// Print completions for a shell
///
/// bash: source <(masu completions bash). zsh: masu completions zsh > DIR/_masu, with DIR in fpath. fish:
/// masu completions fish | source.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Write the manual pages: masu.1, and one for each command
#[derive(Args)]
pub(crate) struct Man {
    /// The directory; it is created if it is missing
    to: PathBuf,
}

pub(crate) fn completions(what: &Completions, mut command: Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(what.shell, &mut command, "masu", &mut text);
    print!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(what: &Man, command: Command) -> Result<ExitCode> {
    std::fs::create_dir_all(&what.to).with_context(|| what.to.display().to_string())?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = pages(&what.to, &command, "masu")?;
    println!("{pages} manual pages in {}", what.to.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands. Returns how many there are.
fn pages(to: &Path, command: &Command, name: &str) -> Result<usize> {
    let page = clap_mangen::Man::new(command.clone()).title(name).date("").source(version(command));
    let path = to.join(format!("{name}.1"));
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    let mut count = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        count += pages(to, inner, &format!("{name}-{}", inner.get_name()))?;
    }
    Ok(count)
}

fn version(command: &Command) -> String {
    format!("masu {}", command.get_version().unwrap_or(env!("CARGO_PKG_VERSION")))
}
