//! Orphan files: source files that no `mod` line refers to, so that they are never compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Finding, Package, Source};

/// Follows the modules of all targets; what lies in a package and is not reached is an orphan.
pub(super) fn check(root: &Path, packages: &[Package], sources: &[Source], findings: &mut Vec<Finding>) {
    let by_path: BTreeMap<&str, &Source> = sources.iter().map(|s| (s.path.as_str(), s)).collect();
    let mut reached = BTreeSet::new();
    for target in packages.iter().flat_map(|p| &p.targets) {
        let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path).display().to_string();
        let folder = parent(&path).to_owned();
        follow(&path, &folder, &by_path, &mut reached);
    }
    let folders: Vec<String> = packages.iter().map(|p| format!("{}/", p.folder(root))).collect();
    for source in sources {
        let in_package = folders.iter().any(|f| source.path.starts_with(f.as_str()));
        if in_package && !reached.contains(source.path.as_str()) {
            findings.push(Finding::error(&source.path, 0, "orphan file: no `mod` line refers to it"));
        }
    }
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Marks a file, and those of its modules, which lie in `folder`.
fn follow(path: &str, folder: &str, sources: &BTreeMap<&str, &Source>, reached: &mut BTreeSet<String>) {
    let Some(source) = sources.get(path) else { return };
    if reached.insert(path.to_owned()) {
        follow_items(&source.tree.items, parent(path), folder, sources, reached);
    }
}

/// `beside` is the folder of the file (for `#[path]`), `folder` that of its modules.
fn follow_items(
    items: &[syn::Item],
    beside: &str,
    folder: &str,
    sources: &BTreeMap<&str, &Source>,
    reached: &mut BTreeSet<String>,
) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let inner = format!("{folder}/{}", module.ident);
        if let Some((_, items)) = &module.content {
            follow_items(items, beside, &inner, sources, reached);
            continue;
        }
        for (path, folder) in places(module, beside, folder) {
            follow(&path, &folder, sources, reached);
        }
    }
}

/// Where the file of `mod name;` may be, with the folder of its own modules. `beside` and `folder`: those of
/// the file that says it.
pub(super) fn places(module: &syn::ItemMod, beside: &str, folder: &str) -> Vec<(String, String)> {
    if let Some(named) = named_path(&module.attrs) {
        let path = format!("{beside}/{named}");
        let folder = parent(&path).to_owned();
        return vec![(path, folder)];
    }
    // Either `name.rs` or `name/mod.rs`; the modules of both lie in `name/`.
    let inner = format!("{folder}/{}", module.ident);
    vec![(format!("{inner}.rs"), inner.clone()), (format!("{inner}/mod.rs"), inner)]
}

/// The file of `#[path = "…"]`.
fn named_path(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|a| a.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(literal) = &pair.value else { return None };
    let syn::Lit::Str(text) = &literal.lit else { return None };
    Some(text.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::parsed;

    #[test]
    fn modules_are_followed_in_both_layouts() {
        let sources = [
            parsed(
                "a/src/lib.rs",
                "mod one;\nmod two;\nmod inline { mod three; }\n#[path = \"odd.rs\"]\nmod four;\n",
            ),
            parsed("a/src/one.rs", "mod below;\n"),
            parsed("a/src/one/below.rs", ""),
            parsed("a/src/two/mod.rs", "mod deep;\n"),
            parsed("a/src/two/deep.rs", ""),
            parsed("a/src/inline/three.rs", ""),
            parsed("a/src/odd.rs", ""),
            parsed("a/src/orphan.rs", ""),
        ];
        let by_path = sources.iter().map(|s| (s.path.as_str(), s)).collect();
        let mut reached = BTreeSet::new();
        follow("a/src/lib.rs", "a/src", &by_path, &mut reached);
        let missing: Vec<&str> =
            sources.iter().map(|s| s.path.as_str()).filter(|p| !reached.contains(*p)).collect();
        assert_eq!(missing, ["a/src/orphan.rs"]);
    }
}
