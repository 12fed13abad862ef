//! The packages of the workspace, as `cargo metadata` tells them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// A package of the workspace.
#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) manifest_path: PathBuf,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) targets: Vec<Target>,
}

/// Its dependencies.
#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `None`: for the code itself; `dev`: for tests; `build`.
    pub(super) kind: Option<String>,
    pub(super) rename: Option<String>,
}

/// What cargo builds of it.
#[derive(Deserialize)]
pub(super) struct Target {
    pub(super) src_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

impl Package {
    /// Its manifest and its folder, relative to the root.
    pub(super) fn manifest(&self, root: &Path) -> String {
        self.manifest_path.strip_prefix(root).unwrap_or(&self.manifest_path).display().to_string()
    }

    /// Its folder, relative to the root.
    pub(super) fn folder(&self, root: &Path) -> String {
        self.manifest(root).trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned()
    }
}

/// Asks cargo.
pub(super) fn of_workspace(root: &Path) -> anyhow::Result<Vec<Package>> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    Ok(metadata.packages)
}
