//! The modules of a package and what the names in them mean: a path is followed through re-exports to the
//! file that defines what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::modules::{parent, places};
use super::source::is_for_tests;
use super::{Package, Source};

/// Re-exports of re-exports: no path goes through more; what does is a circle of globs.
const HOPS_MAX: usize = 16;

/// A module: a file, or a `mod name { … }` in one.
pub(super) struct Scope<'a> {
    pub(super) file: &'a str,
    pub(super) items: &'a [syn::Item],
    above: Option<usize>,
    below: BTreeMap<String, usize>,
    /// Items defined here.
    names: BTreeSet<String>,
    /// Names introduced by `use`, with their paths.
    aliases: Vec<(String, Vec<String>)>,
    /// `use path::*`.
    globs: Vec<Vec<String>>,
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// To a module.
    Module(usize),
    /// To something in a module.
    Item(usize),
}

/// All modules of a package, tests left out.
#[derive(Default)]
pub(super) struct Scopes<'a> {
    pub(super) all: Vec<Scope<'a>>,
}

impl<'a> Scopes<'a> {
    /// Reads the modules of the library and of the binaries.
    pub(super) fn of_package(root: &Path, package: &Package, sources: &BTreeMap<&str, &'a Source>) -> Self {
        let mut scopes = Scopes::default();
        let src = format!("{}/src/", package.folder(root));
        for target in &package.targets {
            let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path).display().to_string();
            if path.starts_with(&src) {
                scopes.read_file(&path, parent(&path), None, sources);
            }
        }
        scopes
    }

    pub(super) fn read_file(
        &mut self,
        path: &str,
        folder: &str,
        above: Option<usize>,
        sources: &BTreeMap<&str, &'a Source>,
    ) -> Option<usize> {
        let source = sources.get(path)?;
        Some(self.read_items(&source.path, &source.tree.items, folder, above, sources))
    }

    fn read_items(
        &mut self,
        file: &'a str,
        items: &'a [syn::Item],
        folder: &str,
        above: Option<usize>,
        sources: &BTreeMap<&str, &'a Source>,
    ) -> usize {
        let here = self.all.len();
        let (below, names) = (BTreeMap::new(), BTreeSet::new());
        self.all.push(Scope { file, items, above, below, names, aliases: Vec::new(), globs: Vec::new() });
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                syn::Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let below = if let Some((_, items)) = &module.content {
                        Some(self.read_items(file, items, &format!("{folder}/{name}"), Some(here), sources))
                    } else {
                        places(module, parent(file), folder)
                            .iter()
                            .find_map(|(path, folder)| self.read_file(path, folder, Some(here), sources))
                    };
                    self.all[here].below.extend(below.map(|below| (name, below)));
                }
                syn::Item::Use(item) => {
                    for used in used(&item.tree) {
                        match used {
                            Used::Name(name, path) => self.all[here].aliases.push((name, path)),
                            Used::Glob(path) => self.all[here].globs.push(path),
                        }
                    }
                }
                other => self.all[here].names.extend(name_of(other)),
            }
        }
        here
    }

    /// Where `path` leads from the module `here`. `None`: out of the package, or to something without a file
    /// (a variable).
    pub(super) fn meaning(&self, here: usize, path: &[String]) -> Option<Meaning> {
        self.follow(here, path, 0)
    }

    /// The file of a meaning.
    pub(super) fn file(&self, meaning: Meaning) -> &'a str {
        let (Meaning::Module(scope) | Meaning::Item(scope)) = meaning;
        self.all[scope].file
    }

    fn follow(&self, here: usize, path: &[String], hops: usize) -> Option<Meaning> {
        let mut at = here;
        for (i, name) in path.iter().enumerate() {
            let scope = &self.all[at];
            at = match name.as_str() {
                "self" if i == 0 => at,
                "super" => scope.above?,
                "crate" if i == 0 => self.root(at),
                name => match scope.below.get(name) {
                    Some(&below) => below,
                    None => return self.item(at, name, &path[i + 1..], at != here, hops),
                },
            };
        }
        Some(Meaning::Module(at))
    }

    /// Resolves `name` in a module, and `rest` in the result. `certain`: the name exists, because the path
    /// names its module.
    fn item(&self, at: usize, name: &str, rest: &[String], certain: bool, hops: usize) -> Option<Meaning> {
        let scope = &self.all[at];
        if scope.names.contains(name) {
            return Some(Meaning::Item(at));
        }
        if hops == HOPS_MAX {
            return None;
        }
        let aliases = scope.aliases.iter().filter(|(alias, _)| alias == name);
        let named = aliases.map(|(_, path)| path.clone());
        let globs = scope.globs.iter().map(|path| [path.as_slice(), &[name.to_owned()]].concat());
        named
            .chain(globs)
            // `use name::…` of another package does not lead here again.
            .filter(|path| path.first().is_some_and(|first| first != name || scope.below.contains_key(name)))
            .find_map(|path| self.follow(at, &[path.as_slice(), rest].concat(), hops + 1))
            // What a macro makes is where the module is.
            .or_else(|| certain.then_some(Meaning::Item(at)))
    }

    fn root(&self, mut at: usize) -> usize {
        while let Some(above) = self.all[at].above {
            at = above;
        }
        at
    }
}

/// The paths of a `use`.
pub(super) enum Used {
    Name(String, Vec<String>),
    Glob(Vec<String>),
}

/// All that a `use` names.
pub(super) fn used(tree: &syn::UseTree) -> Vec<Used> {
    let mut all = Vec::new();
    gather(tree, &mut Vec::new(), &mut all);
    all
}

fn gather(tree: &syn::UseTree, path: &mut Vec<String>, all: &mut Vec<Used>) {
    let named = |name: &syn::Ident, alias: &syn::Ident, path: &[String]| {
        // `use a::{self}` is `use a`.
        let mut path = path.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        let alias =
            if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias.to_string() };
        Used::Name(alias, path)
    };
    match tree {
        syn::UseTree::Path(step) => {
            path.push(step.ident.to_string());
            gather(&step.tree, path, all);
            path.pop();
        }
        syn::UseTree::Name(name) => all.push(named(&name.ident, &name.ident, path)),
        syn::UseTree::Rename(name) => all.push(named(&name.ident, &name.rename, path)),
        syn::UseTree::Glob(_) => all.push(Used::Glob(path.clone())),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| gather(tree, path, all)),
    }
}

/// What an item is called in its module.
fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The attributes of an item.
pub(super) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
