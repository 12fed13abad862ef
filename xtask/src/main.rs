//! The project's own tools: `cargo xtask tidy` checks the rules of the repository, `cargo xtask circles`
//! prints the imports that form circles of files, `cargo xtask sbom` writes the bill of materials of the
//! binary.

#![forbid(unsafe_code)]

mod dependencies;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

/// The project's own tools.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Check the repository's rules: layers, lengths of files and functions, import circles, orphan files,
    /// unused dependencies
    Tidy,
    /// Print the imports that form circles of more than three files
    Circles,
    /// Write the bill of materials of the binary (CycloneDX 1.5, JSON)
    Sbom {
        /// Output file
        #[arg(default_value = "target/masu.cdx.json")]
        to: PathBuf,
    },
}

/// The root of the repository: the folder above this crate.
fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("the crate is not in the repository")
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().tool {
        Tool::Tidy => tidy::run(&root()?),
        Tool::Circles => {
            tidy::print_circles(&root()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Tool::Sbom { to } => {
            dependencies::write(&root()?, &to)?;
            println!("sbom: {}", to.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}
