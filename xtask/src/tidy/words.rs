//! Texts for people: comments at the width of the code, docs that add something to the name, messages that
//! name the fault with the field's noun. The rules find the patterns that crept in before; docs/glossary.md
//! has the terms.

use std::path::Path;

use anyhow::Context;
use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use super::finding::Severity;
use super::source::is_for_tests;
use super::{Finding, Source};

/// Articles and the like: they add nothing to a name.
const FILLERS: [&str; 14] =
    ["a", "an", "are", "by", "for", "in", "is", "it", "its", "of", "one", "that", "the", "this"];
/// Docs that consist of a question or a pronoun.
const EMPTY_DOCS: [&str; 11] =
    ["all", "how", "none", "nothing", "what", "when", "where", "which", "which one", "who", "why"];
/// A phrase of a message in two parts, so that this file does not find itself, and what to write instead.
const PHRASES: [(&str, &str, &str); 7] = [
    ("is ", "no ", "is not a"),
    ("is ", "not there", "missing, not found"),
    ("are ", "not there", "missing, not found"),
    ("let ", "go", "release"),
    ("some", "body", "the agent: a host, an operator, another array"),
    ("given ", "back", "released, reclaimed"),
    ("is ", "told", "the agent as the subject: masu reports"),
];
/// Derives that make a doc comment the text of `--help`.
const HELP_DERIVES: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// Where texts are still to be mended: findings are warnings, and a place leaves the list when it has none.
const PENDING: [&str; 6] = [
    "crates/admin/",
    "crates/array/src/pools/work.rs",
    "crates/array/src/status",
    "crates/config/",
    "crates/masu/",
    "crates/status/",
];

/// The width of the code, from rustfmt.toml.
pub(super) fn width(root: &Path) -> anyhow::Result<usize> {
    let text = std::fs::read_to_string(root.join("rustfmt.toml")).context("rustfmt.toml")?;
    let value = text.lines().find_map(|l| l.strip_prefix("max_width = "));
    value.and_then(|v| v.trim().parse().ok()).context("rustfmt.toml: missing max_width")
}

/// Checks one file.
pub(super) fn check(source: &Source, width: usize, findings: &mut Vec<Finding>) {
    let mut found = Vec::new();
    comments(source, width, &mut found);
    let mut docs = Docs { source, findings: &mut found };
    docs.visit_file(&source.tree);
    if !source.is_test_file() {
        messages(source, &mut found);
    }
    let is_pending = PENDING.iter().any(|place| source.path.starts_with(place));
    let severity = if is_pending { Severity::Warning } else { Severity::Error };
    for mut finding in found {
        finding.severity = severity;
        findings.push(finding);
    }
}

/// Comments wider than the code. Pictures in fences and rows of tables keep their lines.
fn comments(source: &Source, width: usize, findings: &mut Vec<Finding>) {
    let mut in_picture = false;
    for (i, line) in source.text.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            in_picture = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        if text.starts_with("```") {
            in_picture = !in_picture;
        }
        let columns = line.chars().count();
        if columns > width && !in_picture && !text.starts_with('|') {
            let fault = format!("comment of {columns} columns: wrap it at {width}");
            findings.push(Finding::error(&source.path, i + 1, fault));
        }
    }
}

/// Docs of fields and variants that only repeat the name.
struct Docs<'a> {
    source: &'a Source,
    findings: &'a mut Vec<Finding>,
}

impl Docs<'_> {
    fn look(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        let lines: Vec<(usize, String)> = attributes.iter().filter_map(doc_line).collect();
        let [(line, doc)] = lines.as_slice() else { return };
        if repeats(&name.to_string(), doc) {
            let fault = format!("doc repeats the name `{name}`: say more, or remove it");
            self.findings.push(Finding::error(&self.source.path, *line, fault));
        }
    }
}

impl<'ast> Visit<'ast> for Docs<'_> {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.look(name, &field.attrs);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.look(&variant.ident, &variant.attrs);
        syn::visit::visit_variant(self, variant);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if !is_help(&item.attrs) {
            syn::visit::visit_item_struct(self, item);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if !is_help(&item.attrs) {
            syn::visit::visit_item_enum(self, item);
        }
    }
}

fn is_help(attributes: &[syn::Attribute]) -> bool {
    let derives = attributes.iter().filter(|a| a.path().is_ident("derive"));
    derives.filter_map(|a| a.meta.require_list().ok()).any(|list| {
        list.tokens.clone().into_iter().any(|t| HELP_DERIVES.iter().any(|derive| t.to_string() == *derive))
    })
}

/// The line and text of a doc attribute.
fn doc_line(attribute: &syn::Attribute) -> Option<(usize, String)> {
    let syn::Meta::NameValue(meta) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &meta.value else { return None };
    meta.path.is_ident("doc").then(|| (attribute.span().start().line, text.value()))
}

/// Whether a doc has no word that the name lacks.
fn repeats(name: &str, doc: &str) -> bool {
    let doc = doc.trim().trim_end_matches('.').to_lowercase();
    if EMPTY_DOCS.contains(&doc.as_str()) {
        return true;
    }
    let own = words(name);
    let mut added = words(&doc).into_iter().filter(|w| !FILLERS.contains(&w.as_str()));
    added.all(|word| own.contains(&word))
}

/// The words of a name or a text: lower case, without the plural's s.
fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        spaced.push(if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
    }
    let singular = |w: &str| w.strip_suffix('s').filter(|w| w.len() > 2).unwrap_or(w).to_owned();
    spaced.split_whitespace().map(singular).collect()
}

/// Messages with a phrase that keeps strangers out.
fn messages(source: &Source, findings: &mut Vec<Finding>) {
    let Ok(tokens) = source.text.parse::<TokenStream>() else { return };
    let mut literals = Vec::new();
    collect(tokens, &mut literals);
    let tests = source.tree.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if is_for_tests(&module.attrs) => Some(item.span()),
        _ => None,
    });
    let tests: Vec<_> = tests.map(|s| s.start().line..=s.end().line).collect();
    for literal in literals {
        let line = literal.span().start().line;
        if tests.iter().any(|t| t.contains(&line)) {
            continue;
        }
        let text = literal.to_string().replace("is no longer", "");
        for (first, rest, better) in PHRASES {
            let phrase = format!("{first}{rest}");
            if text.contains(&phrase) {
                let fault = format!("message with {phrase:?}: write {better}");
                findings.push(Finding::error(&source.path, line, fault));
            }
        }
    }
}

/// The string literals of a file, without doc comments.
fn collect(tokens: TokenStream, literals: &mut Vec<Literal>) {
    for tree in tokens {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && is_doc(&group.stream()) => {
            }
            TokenTree::Group(group) => collect(group.stream(), literals),
            TokenTree::Literal(literal) if literal.to_string().contains('"') => literals.push(literal),
            _ => {}
        }
    }
}

fn is_doc(tokens: &TokenStream) -> bool {
    matches!(tokens.clone().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::parsed;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&parsed(path, text), 40, &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn comments_have_the_width_of_the_code() {
        let picture = "//! ```text\n//!   a line of a picture that is wider than the code\n//! ```\n";
        assert_eq!(found("a.rs", picture), [""; 0]);
        assert_eq!(found("a.rs", "//! | a row of a table that is wider than the code |\n"), [""; 0]);
        let wide = "//! Doc.\n// A comment that is wider than the code.\n";
        assert_eq!(found("a.rs", wide), ["error: a.rs:2: comment of 41 columns: wrap it at 40"]);
    }

    #[test]
    fn docs_that_repeat_the_name_are_found() {
        for (name, doc) in
            [("name", "Its name."), ("group", "The group."), ("kind", "Which."), ("len_bytes", "Bytes.")]
        {
            let text = format!("struct S {{\n    /// {doc}\n    {name}: u8,\n}}\n");
            assert_eq!(
                found("a.rs", &text),
                [format!("error: a.rs:2: doc repeats the name `{name}`: say more, or remove it")]
            );
        }
        let enough = "struct S {\n    /// 1 to 64 bytes.\n    name: u8,\n}\n";
        assert_eq!(found("a.rs", enough), [""; 0]);
        let help = "#[derive(clap::Args)]\nstruct S {\n    /// Name\n    name: u8,\n}\n";
        assert_eq!(found("a.rs", help), [""; 0]);
    }

    #[test]
    fn messages_with_old_phrases_are_found_outside_of_tests() {
        let text = "//! It is no doc.\nfn f() {\n    g(\"{x} is no size\");\n}\n";
        let expected = ["error: a.rs:3: message with \"is no \": write is not a"];
        assert_eq!(found("a.rs", text), expected);
        let in_test = "#[cfg(test)]\nmod tests {\n    const A: &str = \"is no size\";\n}\n";
        assert_eq!(found("a.rs", in_test), [""; 0]);
        assert_eq!(found("a/tests/b.rs", text), [""; 0]);
        let pending = found("crates/admin/src/a.rs", text);
        assert_eq!(pending, ["warning: crates/admin/src/a.rs:3: message with \"is no \": write is not a"]);
    }
}
