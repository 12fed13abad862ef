//! The bill of materials of the binary, as CycloneDX 1.5 (JSON).

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::{Crate, Graph};

/// The shipped package and its dependencies.
const ROOT: &str = "masu";

/// Writes the bill to a file.
pub(crate) fn write(root: &Path, to: &Path) -> anyhow::Result<()> {
    let graph = super::graph(root)?;
    let text = serde_json::to_string_pretty(&bill(&graph)?)? + "\n";
    std::fs::write(to, text).with_context(|| to.display().to_string())
}

/// The same graph gives the same bill: no time and no random number is in it.
fn bill(graph: &Graph) -> anyhow::Result<Value> {
    let root = graph.crates.iter().find(|c| c.name == ROOT && c.source.is_none());
    let root = root.context("the workspace has no package masu")?;
    let within = reached(graph, &root.id);
    let mut crates: Vec<&Crate> = graph.crates.iter().filter(|c| within.contains(&c.id)).collect();
    crates.sort_by_key(|c| (&c.name, &c.version));
    let name_of = |id: &str| graph.crates.iter().find(|c| c.id == id).map(reference);
    let dependencies: Vec<Value> = crates
        .iter()
        .map(|c| {
            let on = graph.depends_on.get(&c.id).into_iter().flatten().filter(|id| within.contains(*id));
            let mut on: Vec<String> = on.filter_map(|id| name_of(id)).collect();
            on.sort();
            json!({ "ref": reference(c), "dependsOn": on })
        })
        .collect();
    let components: Vec<Value> = crates.iter().filter(|c| c.id != root.id).map(|c| component(c)).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component_of(root, "application") },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// A crate and everything below it.
fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(id) = open.pop() {
        if seen.insert(id.clone()) {
            open.extend(graph.depends_on.get(&id).into_iter().flatten().cloned());
        }
    }
    seen
}

fn reference(package: &Crate) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Crate) -> Value {
    component_of(package, "library")
}

fn component_of(package: &Crate, kind: &str) -> Value {
    let licences: Vec<Value> =
        package.license.iter().map(|l| json!({ "expression": l.replace('/', " OR ") })).collect();
    json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "description": package.description.as_deref().map(str::trim),
        "licenses": licences,
        "purl": reference(package),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_what_the_binary_is_built_from_and_nothing_else() {
        let graph = super::super::graph(&crate::root().expect("the repository")).expect("cargo metadata");
        let bill = bill(&graph).expect("a bill");
        let names: Vec<&str> = bill["components"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|c| c["name"].as_str())
            .collect();
        for there in ["raid", "pool", "iscsi", "io-uring", "serde"] {
            assert!(names.contains(&there), "{there} is missing");
        }
        assert!(!names.contains(&"xtask") && !names.contains(&"allocation-counter"));
        assert_eq!(bill["dependencies"].as_array().map(Vec::len), Some(names.len() + 1));
    }
}
