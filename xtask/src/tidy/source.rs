//! Source files: read once, parsed once; their heads and their lengths.

use std::path::Path;

use anyhow::Context;
use syn::spanned::Spanned;

use super::Finding;

/// Over this many lines that are no tests, a file should be split.
const LINES_WARN: usize = 800;
/// Over this many it must be.
const LINES_MAX: usize = 1500;

/// A parsed file.
pub(super) struct Source {
    /// Relative to the root.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) tree: syn::File,
}

/// Reads all Rust files; one that cannot be parsed is a finding.
pub(super) fn read_all(
    root: &Path,
    files: &[String],
    findings: &mut Vec<Finding>,
) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in files.iter().filter(|f| f.ends_with(".rs")) {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
        match syn::parse_file(&text) {
            Ok(tree) => sources.push(Source { path: path.clone(), text, tree }),
            Err(e) => {
                findings.push(Finding::error(path, e.span().start().line, format!("cannot be parsed: {e}")))
            }
        }
    }
    Ok(sources)
}

/// Whether an item is there for tests only.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg")
            && a.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

impl Source {
    /// Whether the whole file is tests.
    pub(super) fn is_test_file(&self) -> bool {
        let mut parts = self.path.split('/');
        self.path.ends_with("/tests.rs") || parts.any(|p| p == "tests")
    }

    fn lines_without_tests(&self) -> usize {
        let total = self.text.lines().count();
        if self.is_test_file() {
            return 0;
        }
        let tests = self.tree.items.iter().filter_map(|item| match item {
            syn::Item::Mod(module) if is_for_tests(&module.attrs) => Some(item.span()),
            _ => None,
        });
        total - tests.map(|s| s.end().line - s.start().line + 1).sum::<usize>()
    }
}

/// Checks head and length of one file.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let path = &source.path;
    // A script line (`#!`) may come first.
    let head = source.text.lines().find(|l| !l.starts_with("#!/"));
    if !head.is_some_and(|l| l.starts_with("//!")) {
        findings.push(Finding::error(path, 1, "missing `//!` at the beginning: describe the file"));
    }
    let lines = source.lines_without_tests();
    let total = source.text.lines().count();
    if lines > LINES_MAX || (source.is_test_file() && total > LINES_MAX) {
        findings.push(Finding::error(
            path,
            0,
            format!("{} lines, the limit is {LINES_MAX}", lines.max(total)),
        ));
    } else if lines > LINES_WARN {
        findings.push(Finding::warning(
            path,
            0,
            format!("{lines} lines without tests: split it before {LINES_MAX}"),
        ));
    }
}

#[cfg(test)]
pub(super) fn parsed(path: &str, text: &str) -> Source {
    let tree = syn::parse_file(text).expect("the test's source parses");
    Source { path: path.to_owned(), text: text.to_owned(), tree }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_source(path: &str, text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        check(&parsed(path, text), &mut findings);
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn heads_and_lengths() {
        check_source("a.rs", "//! Doc.\n", &[]);
        check_source(
            "a.rs",
            "use std::io;\n",
            &["error: a.rs:1: missing `//!` at the beginning: describe the file"],
        );
        let long = format!("//! Doc.\n{}", "// line\n".repeat(850));
        check_source("a.rs", &long, &["warning: a.rs: 851 lines without tests: split it before 1500"]);
        check_source("a/tests/b.rs", &long, &[]);
        let mostly_tests = format!("//! Doc.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// line\n".repeat(850));
        check_source("a.rs", &mostly_tests, &[]);
        let longest = format!("//! Doc.\n{}", "// line\n".repeat(1500));
        check_source("a.rs", &longest, &["error: a.rs: 1501 lines, the limit is 1500"]);
    }
}
