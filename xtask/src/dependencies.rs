//! The dependencies of the binary: crates, licences, sources. `cargo xtask tidy` checks them against the
//! policy below, which deny.toml repeats for `cargo deny`; `cargo xtask sbom` lists them.
//!
//! Advisories are not checked here: their database is fetched from a Git host, and `make check` works without
//! a network. `make deny` checks them.

mod licence;
mod sbom;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

pub(crate) use sbom::write;

/// The only allowed source.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates with two versions in the graph, and the dependents of the older one. Any other is an error, because
/// the code is shipped twice.
const DUPLICATES: [(&str, &str); 7] = [
    ("base64", "hdrhistogram and tonic"),
    ("crypto-common", "crc-fast, by digest 0.10"),
    ("digest", "crc-fast"),
    ("getrandom", "ring"),
    ("glam", "nalgebra below statrs, of which nothing is used"),
    ("itertools", "ratatui and its widgets"),
    ("syn", "procedural macros: at build time only"),
];

/// A package of the resolved graph, for this machine's platform.
#[derive(Deserialize)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) id: String,
    pub(crate) license: Option<String>,
    /// `None`: a package of this workspace.
    pub(crate) source: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None`: a normal dependency; `dev`: for tests; `build`.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

/// All crates with their dependencies, except those of tests.
pub(crate) struct Graph {
    pub(crate) crates: Vec<Crate>,
    pub(crate) depends_on: BTreeMap<String, Vec<String>>,
}

/// Queries cargo.
pub(crate) fn graph(root: &Path) -> anyhow::Result<Graph> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let platform = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", "--locked", &platform])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    let Metadata { packages, resolve } = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let is_built = |e: &Edge| e.dep_kinds.iter().any(|k| k.kind.as_deref() != Some("dev"));
    let built = |deps: Vec<Edge>| deps.into_iter().filter(is_built).map(|e| e.pkg).collect();
    let depends_on = resolve.nodes.into_iter().map(|n| (n.id, built(n.deps))).collect();
    Ok(Graph { crates: packages, depends_on })
}

/// The violations of the policy: crate and reason.
pub(crate) fn faults(crates: &[Crate]) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in crates {
        let place = format!("crate {} {}", package.name, package.version);
        versions.entry(&package.name).or_default().push(&package.version);
        match package.license.as_deref() {
            Some(text) if licence::is_allowed(text) => {}
            Some(text) => faults.push((place.clone(), format!("disallowed licence {text:?}"))),
            None => faults.push((place.clone(), "missing licence expression".to_owned())),
        }
        if let Some(source) = package.source.as_deref().filter(|s| *s != REGISTRY) {
            faults.push((place, format!("source {source} is not crates.io")));
        }
    }
    for (name, versions) in versions.into_iter().filter(|(_, versions)| versions.len() > 1) {
        if !DUPLICATES.iter().any(|(known, _)| *known == name) {
            let text = format!("duplicate versions {}: use one", versions.join(" and "));
            faults.push((format!("crate {name}"), text));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: Option<&str>, source: Option<&str>) -> Crate {
        let owned = |s: &str| s.to_owned();
        Crate {
            name: owned(name),
            version: owned(version),
            id: format!("{name}@{version}"),
            license: license.map(owned),
            source: source.map(owned),
            description: None,
        }
    }

    #[test]
    fn another_licence_a_second_version_and_another_source_are_faults() {
        let crates = [
            package("a", "1.0.0", Some("MIT OR GPL-3.0-only"), Some(REGISTRY)),
            package("b", "1.0.0", Some("GPL-3.0-only"), Some(REGISTRY)),
            package("c", "1.0.0", None, Some(REGISTRY)),
            package("d", "1.0.0", Some("MIT"), Some("git+https://example.com/d")),
            package("e", "1.0.0", Some("MIT"), Some(REGISTRY)),
            package("e", "2.0.0", Some("MIT"), Some(REGISTRY)),
            package("syn", "1.0.0", Some("MIT"), Some(REGISTRY)),
            package("syn", "2.0.0", Some("MIT"), Some(REGISTRY)),
            package("masu", "0.1.0", Some("Apache-2.0"), None),
        ];
        let places: Vec<String> = faults(&crates).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["crate b 1.0.0", "crate c 1.0.0", "crate d 1.0.0", "crate e"]);
    }
}
