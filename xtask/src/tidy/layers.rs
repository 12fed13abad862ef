//! The allowed dependencies between crates: the layer table of ARCHITECTURE.md.

use super::unused::names;
use super::{Finding, Package, Source};

/// A crate and the crates of this workspace that it may use. A new edge is a row here and one in
/// ARCHITECTURE.md.
const LAYERS: [(&str, &[&str]); 32] = [
    ("world", &[]),
    ("registry", &["world"]),
    ("registry_etcd", &["world", "registry"]),
    ("world_real", &["world"]),
    ("world_model", &["world"]),
    ("block", &["world"]),
    ("parity", &[]),
    ("raid", &["world", "block", "parity"]),
    ("pool", &["world", "block", "raid"]),
    ("cache", &["world", "block"]),
    ("qos", &[]),
    ("share", &["world", "registry", "qos"]),
    ("cluster", &["world", "registry"]),
    ("vdisk", &["world", "block"]),
    ("attach", &["world", "block"]),
    ("lu", &["world", "block"]),
    ("stack", &["world", "block", "raid", "pool", "cache", "qos", "vdisk", "lu"]),
    ("scsi", &["world", "block", "lu"]),
    ("iscsi", &["world", "block", "scsi"]),
    ("units", &[]),
    ("test_ports", &[]),
    ("config", &["world", "qos", "units"]),
    ("status", &[]),
    (
        "array",
        &[
            "world", "block", "raid", "pool", "cache", "qos", "vdisk", "lu", "stack", "scsi", "iscsi",
            "config", "status",
        ],
    ),
    ("diskstress", &[]),
    ("lab_core", &["units"]),
    (
        "lab_tools",
        &[
            "world",
            "world_real",
            "world_model",
            "block",
            "raid",
            "pool",
            "cache",
            "qos",
            "vdisk",
            "attach",
            "scsi",
            "iscsi",
            "array",
            "lab_core",
            "units",
        ],
    ),
    // And every verification, as the binary may.
    ("lab", &["lab_core"]),
    ("admin", &["world", "config", "status", "array", "units"]),
    ("masu", ALL),
    (
        "sim",
        &[
            "world",
            "world_model",
            "registry",
            "cluster",
            "block",
            "raid",
            "pool",
            "stack",
            "scsi",
            "iscsi",
            "array",
        ],
    ),
    ("xtask", &[]),
];

/// The crates under `crates/verify_*`: a new one needs no row of its own.
const VERIFICATIONS: &str = "verify_";

/// What a verification may know: the tools, and what it drives and measures; never another verification.
const VERIFICATION: &[&str] = &[
    "world",
    "world_real",
    "world_model",
    "block",
    "qos",
    "vdisk",
    "scsi",
    "iscsi",
    "array",
    "registry",
    "share",
    "diskstress",
    "lab_core",
    "lab_tools",
];

const ALL: &[&str] = &[
    "world",
    "registry",
    "registry_etcd",
    "share",
    "cluster",
    "world_real",
    "world_model",
    "block",
    "parity",
    "raid",
    "pool",
    "cache",
    "qos",
    "vdisk",
    "attach",
    "lu",
    "stack",
    "scsi",
    "iscsi",
    "config",
    "status",
    "array",
    "diskstress",
    "lab_core",
    "lab_tools",
    "lab",
    "admin",
    "units",
];

/// Additional dependencies of tests: both worlds, the conformance suite, ports for servers.
const FOR_TESTS: [&str; 4] = ["world_real", "world_model", "block", "test_ports"];

/// Crates of the registry that only the edge knows: text formats, HTTP, command lines, runtimes with threads.
const EDGE: [&str; 13] = [
    "serde",
    "serde_json",
    "toml",
    "clap",
    "axum",
    "hyper",
    "hyper-util",
    "utoipa",
    "tokio",
    "tonic",
    "tonic-prost",
    "prost",
    "tracing-subscriber",
];

/// The edge.
const AT_THE_EDGE: [&str; 6] = ["admin", "lab_core", "lab_tools", "masu", "sim", "xtask"];

/// The way to a cluster's registry: a runtime with a thread of its own, and etcd's protocol.
const TO_ETCD: [&str; 4] = ["tokio", "prost", "tonic", "tonic-prost"];

/// Crates of plain types that are read and written as text, and what they derive that with.
const TEXT: [(&str, &str); 12] = [
    ("config", "serde"),
    ("config", "toml"),
    // The JSON Schema of array.toml.
    ("config", "serde_json"),
    ("status", "serde"),
    // The schemas of what the API serves are those of its types.
    ("status", "utoipa"),
    ("registry", "serde"),
    ("registry", "toml"),
    ("share", "serde"),
    ("cluster", "serde"),
    // What crosses between nodes, in `array::remote` only.
    ("array", "serde"),
    ("array", "serde_json"),
    ("scsi", "serde"),
];

/// Crates of which only one folder may name a dependency.
const WITHIN: [(&str, &str, &str); 2] =
    [("crates/array/", "serde", "src/remote/"), ("crates/array/", "serde_json", "src/remote/")];

/// System calls are made in one place, and where the kernel asks; the laboratory and the binary measure with
/// them.
const SYSTEM: [(&str, &[&str]); 5] = [
    ("io-uring", &["world_real"]),
    ("libc", &["world_real"]),
    ("libloading", &["world_real"]),
    ("fuser", &["attach"]),
    (
        "rustix",
        &[
            "world_real",
            "registry",
            "attach",
            "diskstress",
            "lab_tools",
            "verify_fileserver",
            "admin",
            "masu",
            "xtask",
        ],
    ),
];

/// Checks the dependencies of all packages.
pub(super) fn check(packages: &[Package], findings: &mut Vec<Finding>) {
    for package in packages {
        let place = format!("package {}", package.name);
        let Some(allowed) = allowed(&package.name) else {
            let text = "missing in the layer table of ARCHITECTURE.md and xtask";
            findings.push(Finding::error(&place, 0, text));
            continue;
        };
        for dependency in &package.dependencies {
            let for_tests = dependency.kind.as_deref() == Some("dev");
            if let Some(text) = fault(&package.name, allowed, &dependency.name, for_tests) {
                findings.push(Finding::error(&place, 0, text));
            }
        }
    }
}

/// Checks that the dependencies of some crates are named in one folder only.
pub(super) fn check_within(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        for (package, dependency, folder) in WITHIN {
            let Some(file) = source.path.strip_prefix(package) else { continue };
            if !file.starts_with(folder) && names(&source.text, dependency) {
                let text = format!("names {dependency}, which only {package}{folder} may do");
                findings.push(Finding::error(&source.path, 0, text));
            }
        }
    }
}

/// The crates of the workspace that a package may know; none: the package is not in the table.
fn allowed(package: &str) -> Option<&'static [&'static str]> {
    let row = LAYERS.iter().find(|(name, _)| *name == package).map(|(_, allowed)| *allowed);
    row.or_else(|| package.starts_with(VERIFICATIONS).then_some(VERIFICATION))
}

/// Why `package` may not use `dependency`.
fn fault(package: &str, known: &[&str], dependency: &str, for_tests: bool) -> Option<String> {
    if allowed(dependency).is_some() {
        let verification = dependency.starts_with(VERIFICATIONS) && ["lab", "masu"].contains(&package);
        let fine =
            verification || known.contains(&dependency) || (for_tests && FOR_TESTS.contains(&dependency));
        return (!fine).then(|| format!("depends on {dependency}, which the layer table does not allow"));
    }
    let is_text = TEXT.contains(&(package, dependency));
    let at_the_edge = AT_THE_EDGE.contains(&package) || package.starts_with(VERIFICATIONS);
    let is_to_etcd = package == "registry_etcd" && TO_ETCD.contains(&dependency);
    if !for_tests && EDGE.contains(&dependency) && !at_the_edge && !is_text && !is_to_etcd {
        return Some(format!("depends on {dependency}, which only {} may do", AT_THE_EDGE.join(", ")));
    }
    let (_, users) = SYSTEM.iter().find(|(name, _)| *name == dependency)?;
    let fine = for_tests || users.contains(&package);
    (!fine).then(|| format!("depends on {dependency}, which only {} may do", users.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::parsed;

    #[test]
    fn serde_is_named_in_the_folder_of_what_crosses_only() {
        let text = "//! A.\nuse serde::Serialize;\n";
        let sources =
            ["crates/array/src/remote/a.rs", "crates/array/src/status.rs", "crates/config/src/a.rs"];
        let sources: Vec<Source> = sources.iter().map(|path| parsed(path, text)).collect();
        let mut findings = Vec::new();
        check_within(&sources, &mut findings);
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        let expected =
            ["error: crates/array/src/status.rs: names serde, which only crates/array/src/remote/ may do"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn edges_that_the_table_does_not_have_are_found() {
        let check = |package: &str, dependency: &str, for_tests: bool| {
            fault(package, allowed(package).expect("a layer"), dependency, for_tests)
        };
        assert_eq!(check("raid", "block", false), None);
        assert_eq!(check("raid", "world_model", true), None);
        assert_eq!(check("raid", "thiserror", false), None);
        assert!(check("raid", "world_model", false).is_some());
        assert!(check("raid", "scsi", true).is_some());
        assert!(check("scsi", "pool", false).is_some());
        assert!(check("pool", "serde", false).is_some());
        assert!(check("world_model", "libc", false).is_some());
        assert_eq!(check("admin", "axum", false), None);
        assert_eq!(check("config", "toml", false), None);
        assert_eq!(check("registry_etcd", "tonic", false), None);
        assert!(check("registry_etcd", "hyper", false).is_some());
        assert!(check("registry", "tokio", false).is_some());
        assert!(check("share", "registry_etcd", false).is_some());
        assert!(check("config", "axum", false).is_some());
        assert!(check("status", "toml", false).is_some());
        assert!(check("config", "raid", false).is_some());
        assert_eq!(check("array", "serde", false), None);
        assert!(check("lu", "serde", false).is_some());
        assert_eq!(check("lab", "verify_vaai", false), None);
        assert_eq!(check("verify_vaai", "lab_tools", false), None);
        assert_eq!(check("verify_vaai", "serde", false), None);
        assert!(check("verify_vaai", "verify_qos", false).is_some());
        assert!(check("lab_tools", "verify_qos", false).is_some());
        assert!(check("array", "verify_qos", false).is_some());
    }
}
