//! The verifications of the laboratory do not import each other, and no tool imports one: what two of them need is a tool.

use std::collections::BTreeMap;

use super::Finding;
use super::imports::Import;

/// The package of the laboratory.
pub(super) const LABORATORY: &str = "lab";
/// Where its files are.
const FILES: &str = "crates/lab/src/";
/// The folders of the verifications in it. All else are tools.
const VERIFICATIONS: [&str; 5] = ["vaai", "sanboot", "fileserver", "qos", "diskstress"];
/// The table of verifications, which knows them all.
const TABLE: &str = "verify.rs";

/// Imports that were there before: from (a folder, or a file beside them), to, how many. It may only shrink.
const KNOWN: &[(&str, &str, usize)] = &[
    ("findings.rs", "sanboot", 1),
    ("load", "vaai", 1),
    ("lu.rs", "vaai", 1),
    ("sanboot", "vaai", 1),
    ("scenario.rs", "vaai", 1),
];

/// Checks the imports of the laboratory.
pub(super) fn check(imports: &[Import], findings: &mut Vec<Finding>) {
    check_against(KNOWN, imports, findings);
}

fn check_against(known: &[(&str, &str, usize)], imports: &[Import], findings: &mut Vec<Finding>) {
    let mut wrong: BTreeMap<(&str, &str), Vec<&Import>> = BTreeMap::new();
    for import in imports {
        let (Some(from), Some(to)) = (part(&import.from), part(&import.to)) else { continue };
        if VERIFICATIONS.contains(&to) && from != to && from != TABLE {
            wrong.entry((from, to)).or_default().push(import);
        }
    }
    for (from, to, _) in known {
        wrong.entry((from, to)).or_default();
    }
    for ((from, to), imports) in wrong {
        let allowed = known.iter().find(|k| (k.0, k.1) == (from, to)).map(|k| k.2);
        let allows = "tidy/verifications.rs allows";
        match (imports.len(), allowed) {
            (0, _) => {
                let text = format!("no longer imports {to}: take the line out of tidy/verifications.rs");
                findings.push(Finding::error(&format!("{FILES}{from}"), 0, text));
            }
            (now, Some(allowed)) if now <= allowed => {
                if now < allowed {
                    let text = format!("imports {to} only {now} times: {allows} {allowed}, lower it");
                    findings.push(Finding::warning(&format!("{FILES}{from}"), 0, text));
                }
            }
            (now, _) => {
                for import in &imports {
                    let text = format!(
                        "imports {} of the verification {to} ({from} does so {now} times, {allows} {})",
                        import.to,
                        allowed.unwrap_or(0)
                    );
                    findings.push(Finding::error(&import.from, import.line, text));
                }
            }
        }
    }
}

/// The folder or the file of the laboratory that a path lies in.
fn part(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(FILES)?;
    Some(inside.split_once('/').map_or(inside, |(folder, _)| folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_known(known: &[(&str, &str, usize)], imports: &[(&str, &str)], expected: &[&str]) {
        let import = |(from, to): &(&str, &str)| Import {
            from: format!("{FILES}{from}"),
            to: format!("{FILES}{to}"),
            line: 7,
        };
        let imports: Vec<Import> = imports.iter().map(import).collect();
        let mut findings = Vec::new();
        check_against(known, &imports, &mut findings);
        let found: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_verification_is_imported_by_the_table_and_by_itself() {
        check_known(
            &[],
            &[("verify.rs", "vaai/run.rs"), ("vaai/run.rs", "vaai/bed.rs"), ("vaai/run.rs", "load/job.rs")],
            &[],
        );
        let error = |from: &str, part: &str| {
            format!(
                "error: crates/lab/src/{from}:7: imports crates/lab/src/sanboot/run.rs of the verification sanboot ({part} does so 1 times, tidy/verifications.rs allows 0)"
            )
        };
        check_known(&[], &[("vaai/run.rs", "sanboot/run.rs")], &[&error("vaai/run.rs", "vaai")]);
        check_known(&[], &[("findings.rs", "sanboot/run.rs")], &[&error("findings.rs", "findings.rs")]);
    }

    #[test]
    fn those_that_are_known_may_only_shrink() {
        let one = [("compare/a.rs", "vaai/run.rs")];
        check_known(&[("compare", "vaai", 1)], &one, &[]);
        check_known(
            &[("compare", "vaai", 2)],
            &one,
            &[
                "warning: crates/lab/src/compare: imports vaai only 1 times: tidy/verifications.rs allows 2, lower it",
            ],
        );
        check_known(
            &[("compare", "vaai", 2)],
            &[],
            &[
                "error: crates/lab/src/compare: no longer imports vaai: take the line out of tidy/verifications.rs",
            ],
        );
        let two = [("compare/a.rs", "vaai/run.rs"), ("compare/b.rs", "vaai/run.rs")];
        check_known(
            &[("compare", "vaai", 1)],
            &two,
            &[
                "error: crates/lab/src/compare/a.rs:7: imports crates/lab/src/vaai/run.rs of the verification vaai (compare does so 2 times, tidy/verifications.rs allows 1)",
                "error: crates/lab/src/compare/b.rs:7: imports crates/lab/src/vaai/run.rs of the verification vaai (compare does so 2 times, tidy/verifications.rs allows 1)",
            ],
        );
    }
}
