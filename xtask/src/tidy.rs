//! Checks of the repository's rules: one line per finding.

mod circles;
mod finding;
mod functions;
mod imports;
mod layers;
mod marks;
mod modules;
mod packages;
mod scopes;
mod source;
mod tracked;
mod unused;
mod words;

use std::path::Path;
use std::process::ExitCode;

use crate::dependencies;
use finding::{Finding, Severity};
use packages::Package;
use source::Source;

/// Runs all checks, prints the findings, and fails if one is an error.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let files = tracked::list(root)?;
    let packages = packages::of_workspace(root)?;
    let mut findings = Vec::new();
    let sources = source::read_all(root, &files, &mut findings)?;
    tracked::check(root, &files, &mut findings)?;
    layers::check(&packages, &mut findings);
    layers::check_within(&sources, &mut findings);
    modules::check(root, &packages, &sources, &mut findings);
    unused::check(root, &packages, &sources, &mut findings);
    functions::check(root, &sources, &mut findings)?;
    for package in &packages {
        let imports = imports::of_package(root, package, &sources);
        circles::check(&package.name, &imports, &mut findings);
    }
    for (place, fault) in dependencies::faults(&dependencies::graph(root)?.crates) {
        findings.push(Finding::error(&place, 0, fault));
    }
    let width = words::width(root)?;
    for source in &sources {
        source::check(source, &mut findings);
        words::check(source, width, &mut findings);
        marks::check(source, &mut findings);
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
    println!("tidy: {} files, {errors} errors, {} warnings", sources.len(), findings.len() - errors);
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the imports that form circles of files.
pub(crate) fn print_circles(root: &Path) -> anyhow::Result<()> {
    let sources = source::read_all(root, &tracked::list(root)?, &mut Vec::new())?;
    for package in packages::of_workspace(root)? {
        for import in circles::held_by(&imports::of_package(root, &package, &sources)) {
            println!("{import}");
        }
    }
    Ok(())
}
