//! Functions over the limit of lines; a list of those that were there before, which may only shrink.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use syn::spanned::Spanned;
use syn::visit::Visit;

use super::{Finding, Source};

/// The most lines of a function.
const LINES_MAX: usize = 70;
/// The functions that may be longer: `path function lines`.
const RATCHET: &str = "xtask/ratchet.txt";

/// The allowed length by path and name.
type Ratchet = BTreeMap<(String, String), usize>;

struct Long {
    name: String,
    line: usize,
    lines: usize,
}

#[derive(Default)]
struct Lengths {
    found: Vec<Long>,
}

impl Lengths {
    fn look(&mut self, name: &syn::Ident, from: proc_macro2::Span, to: proc_macro2::Span) {
        let (line, end) = (from.start().line, to.end().line);
        let lines = end - line + 1;
        if lines > LINES_MAX {
            self.found.push(Long { name: name.to_string(), line, lines });
        }
    }
}

impl<'ast> Visit<'ast> for Lengths {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.look(&f.sig.ident, f.sig.span(), f.block.span());
        syn::visit::visit_item_fn(self, f);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.look(&f.sig.ident, f.sig.span(), f.block.span());
        syn::visit::visit_impl_item_fn(self, f);
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(block) = &f.default {
            self.look(&f.sig.ident, f.sig.span(), block.span());
        }
        syn::visit::visit_trait_item_fn(self, f);
    }
}

/// Checks all functions of all files against the limit and the ratchet.
pub(super) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let text = match std::fs::read_to_string(root.join(RATCHET)) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).context(RATCHET),
    };
    check_against(read_ratchet(&text)?, sources, findings);
    Ok(())
}

fn read_ratchet(text: &str) -> anyhow::Result<Ratchet> {
    let mut ratchet = Ratchet::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let [path, name, lines] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            bail!("{RATCHET}: `{line}` is not `path function lines`");
        };
        let lines = lines.parse().with_context(|| format!("{RATCHET}: `{line}`"))?;
        ratchet.insert((path.to_owned(), name.to_owned()), lines);
    }
    Ok(ratchet)
}

fn check_against(mut ratchet: Ratchet, sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        let mut lengths = Lengths::default();
        lengths.visit_file(&source.tree);
        for long in lengths.found {
            let allowed = ratchet.remove(&(source.path.clone(), long.name.clone()));
            let text = format!("function {} has {} lines", long.name, long.lines);
            match allowed {
                None => {
                    let text = format!("{text}, the limit is {LINES_MAX}");
                    findings.push(Finding::error(&source.path, long.line, text));
                }
                Some(allowed) if long.lines > allowed => {
                    let text = format!("{text}, {RATCHET} allows {allowed}");
                    findings.push(Finding::error(&source.path, long.line, text));
                }
                Some(allowed) if long.lines < allowed => {
                    let text = format!("{text}: lower its line in {RATCHET} from {allowed}");
                    findings.push(Finding::warning(&source.path, long.line, text));
                }
                Some(_) => {}
            }
        }
    }
    for (path, name) in ratchet.into_keys() {
        let text = format!("function {name} is no longer too long: remove it from {RATCHET}");
        findings.push(Finding::error(&path, 0, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::parsed;

    fn check_ratchet(ratchet: &str, lines: usize, expected: &[&str]) {
        let body = "    work();\n".repeat(lines - 2);
        let source =
            parsed("a.rs", &format!("//! Doc.\n\nimpl S {{\n/// Doc.\nfn long() {{\n{body}}}\n}}\n"));
        let mut findings = Vec::new();
        check_against(read_ratchet(ratchet).expect("the ratchet parses"), &[source], &mut findings);
        let found: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_long_function_is_an_error_unless_listed_and_the_list_only_shrinks() {
        check_ratchet("", 70, &[]);
        check_ratchet("", 71, &["error: a.rs:5: function long has 71 lines, the limit is 70"]);
        check_ratchet("# why\na.rs long 71\n", 71, &[]);
        check_ratchet(
            "a.rs long 80\n",
            81,
            &["error: a.rs:5: function long has 81 lines, xtask/ratchet.txt allows 80"],
        );
        check_ratchet(
            "a.rs long 80\n",
            75,
            &["warning: a.rs:5: function long has 75 lines: lower its line in xtask/ratchet.txt from 80"],
        );
        check_ratchet(
            "a.rs long 80\n",
            9,
            &["error: a.rs: function long is no longer too long: remove it from xtask/ratchet.txt"],
        );
        assert!(read_ratchet("a.rs long\n").is_err());
    }
}
