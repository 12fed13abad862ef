//! Imports between files, without tests. A `pub use` alone is a re-export and imports nothing: its users
//! import the file that it leads to.
//! Between packages cargo itself allows no circle, so only paths within one are looked at.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::scopes::{Meaning, Scopes, Used, attributes, used};
use super::source::is_for_tests;
use super::{Package, Source};

/// A file that names something of another one, and the first line where it does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) line: usize,
}

/// All imports between the files of a package, ordered.
pub(super) fn of_package(root: &Path, package: &Package, sources: &[Source]) -> Vec<Import> {
    let by_path = sources.iter().map(|s| (s.path.as_str(), s)).collect();
    of_scopes(&Scopes::of_package(root, package, &by_path))
}

fn of_scopes(scopes: &Scopes<'_>) -> Vec<Import> {
    let mut lines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (here, scope) in scopes.all.iter().enumerate() {
        let mut paths = Paths::default();
        for item in scope.items.iter().filter(|item| !matches!(item, syn::Item::Mod(_))) {
            paths.visit_item(item);
        }
        for (path, line) in paths.found {
            let Some(meaning) = scopes.meaning(here, &path) else { continue };
            // A variable may be called as a module is; nothing can be done with a module but to name
            // something in it.
            if path.len() == 1 && matches!(meaning, Meaning::Module(_)) {
                continue;
            }
            let to = scopes.file(meaning);
            if to != scope.file {
                let first = lines.entry((scope.file, to)).or_insert(line);
                *first = line.min(*first);
            }
        }
    }
    let import =
        |((from, to), line): ((&str, &str), usize)| Import { from: from.to_owned(), to: to.to_owned(), line };
    lines.into_iter().map(import).collect()
}

/// The paths that code names, with their lines.
#[derive(Default)]
struct Paths {
    found: Vec<(Vec<String>, usize)>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        if !is_for_tests(&f.attrs) {
            syn::visit::visit_impl_item_fn(self, f);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        let line = item.use_token.span.start().line;
        self.found.extend(used(&item.tree).into_iter().map(|used| match used {
            Used::Name(_, path) | Used::Glob(path) => (path, line),
        }));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let names = path.segments.iter().map(|s| s.ident.to_string()).collect();
            self.found.push((names, first.ident.span().start().line));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

impl Paths {
    /// Macro arguments are not parsed: whatever looks like a path of two or more names counts as one.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Ident(name) => {
                    self.end(&mut path, line);
                    (path, line, colons) = (vec![name.to_string()], name.span().start().line, 0);
                }
                TokenTree::Punct(p) if p.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end(&mut path, line);
    }

    fn end(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.found.push((path, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::parsed;

    /// The imports of a package with these files, `from:line to`, all in `src/`.
    fn check_imports(files: &[(&str, &str)], expected: &[&str]) {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| parsed(&format!("src/{path}"), text)).collect();
        let by_path = sources.iter().map(|s| (s.path.as_str(), s)).collect();
        let mut scopes = Scopes::default();
        scopes.read_file("src/lib.rs", "src", None, &by_path);
        let short = |path: &str| path.trim_start_matches("src/").to_owned();
        let found: Vec<String> = of_scopes(&scopes)
            .iter()
            .map(|i| format!("{}:{} {}", short(&i.from), i.line, short(&i.to)))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_lead_to_the_file_that_defines_what_they_name() {
        let lib = ("lib.rs", "mod a;\nmod b;\npub use a::deep::Thing;\n");
        let a = ("a/mod.rs", "pub mod deep;\npub use deep::*;\n");
        let deep = ("a/deep.rs", "pub struct Thing;\npub fn f() {}\n");
        let check = |b: &str, expected: &[&str]| check_imports(&[lib, a, deep, ("b.rs", b)], expected);
        // By the root's signpost, by a glob, by its own path, under another name, and in a macro.
        check("use crate::Thing;\n", &["b.rs:1 a/deep.rs"]);
        check("use crate::a::{f, Thing as Other};\n", &["b.rs:1 a/deep.rs"]);
        check("fn g() {\n    super::a::deep::f();\n}\n", &["b.rs:2 a/deep.rs"]);
        check("use crate::a;\nfn g() { a::f(); }\n", &["b.rs:2 a/deep.rs", "b.rs:1 a/mod.rs"]);
        check("fn g() {\n    println!(\"{:?}\", crate::a::f());\n}\n", &["b.rs:2 a/deep.rs"]);
        // What a macro defines is not known by name, but the module is.
        check("use crate::a::deep::Made;\n", &["b.rs:1 a/deep.rs"]);
        // Other packages, variables, and a signpost for others.
        check("use std::io;\nfn g(a: u8) -> u8 { a }\npub use crate::Thing;\n", &[]);
    }

    #[test]
    fn a_signpost_that_its_file_follows_itself_imports() {
        let child = ("a.rs", "pub struct Thing;\n");
        check_imports(&[("lib.rs", "mod a;\npub use a::Thing;\n"), child], &[]);
        check_imports(
            &[("lib.rs", "mod a;\npub use a::Thing;\nfn f(_: Thing) {}\n"), child],
            &["lib.rs:3 a.rs"],
        );
    }

    #[test]
    fn tests_import_nothing() {
        let tests =
            "#[cfg(test)]\nmod tests {\n    use crate::b::g;\n}\n#[cfg(test)]\nfn f() { crate::b::g(); }\n";
        check_imports(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", tests), ("b.rs", "pub fn g() {}\n")], &[]);
    }
}
