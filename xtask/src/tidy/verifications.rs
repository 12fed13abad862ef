//! The verifications of the laboratory do not import each other, and no tool imports one: what two of them
//! need is a tool.

use std::collections::BTreeSet;

use super::Finding;
use super::imports::Import;

/// The package of the laboratory.
pub(super) const LABORATORY: &str = "lab";
/// Where its files are.
const FILES: &str = "crates/lab/src/";
/// The table of verifications: a folder that it imports is a verification, all else are tools.
const TABLE: &str = "verify.rs";

/// Checks the imports of the laboratory.
pub(super) fn check(imports: &[Import], findings: &mut Vec<Finding>) {
    let verifications: BTreeSet<&str> =
        parts(imports).filter(|(from, _, _)| *from == TABLE).map(|(_, to, _)| to).collect();
    for (from, to, import) in parts(imports) {
        if verifications.contains(to) && from != to && from != TABLE {
            let text = format!(
                "{from} imports {} of the verification {to}: move what both need to a tool",
                import.to
            );
            findings.push(Finding::error(&import.from, import.line, text));
        }
    }
}

/// Imports with the folders or files of the laboratory on both sides.
fn parts(imports: &[Import]) -> impl Iterator<Item = (&str, &str, &Import)> {
    imports.iter().filter_map(|import| Some((part(&import.from)?, part(&import.to)?, import)))
}

/// The folder or the file of the laboratory that a path lies in.
fn part(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(FILES)?;
    Some(inside.split_once('/').map_or(inside, |(folder, _)| folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_imports(imports: &[(&str, &str)], expected: &[&str]) {
        let table = [("verify.rs", "vaai/run.rs"), ("verify.rs", "sanboot/mod.rs")];
        let import = |(from, to): &(&str, &str)| Import {
            from: format!("{FILES}{from}"),
            to: format!("{FILES}{to}"),
            line: 7,
        };
        let imports: Vec<Import> = table.iter().chain(imports).map(import).collect();
        let mut findings = Vec::new();
        check(&imports, &mut findings);
        let found: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_verification_is_imported_by_the_table_and_by_itself() {
        check_imports(&[("vaai/run.rs", "vaai/bed.rs"), ("vaai/run.rs", "load/job.rs")], &[]);
        let error = |from: &str, part: &str| {
            format!(
                "error: crates/lab/src/{from}:7: {part} imports crates/lab/src/sanboot/run.rs of the verification sanboot: move what both need to a tool"
            )
        };
        check_imports(&[("vaai/run.rs", "sanboot/run.rs")], &[&error("vaai/run.rs", "vaai")]);
        check_imports(&[("hosts/lu.rs", "sanboot/run.rs")], &[&error("hosts/lu.rs", "hosts")]);
        check_imports(&[("lu.rs", "sanboot/run.rs")], &[&error("lu.rs", "lu.rs")]);
    }
}
