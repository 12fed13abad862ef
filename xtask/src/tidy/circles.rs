//! Import circles: files that import each other cannot be read, moved or tested separately.

use std::collections::BTreeMap;

use super::Finding;
use super::imports::Import;

/// A type and its operations may import each other; a larger circle is one subject in too many files, or
/// several entangled ones.
const FILES_MAX: usize = 3;

/// Checks the imports of one package.
pub(super) fn check(package: &str, imports: &[Import], findings: &mut Vec<Finding>) {
    for circle in circles(imports) {
        let text = format!("{} files form an import circle: {}", circle.len(), circle.join(", "));
        findings.push(Finding::error(&format!("package {package}"), 0, text));
    }
}

/// The imports that form the circles of a package, one per line: candidates to cut.
pub(super) fn held_by(imports: &[Import]) -> Vec<String> {
    let circles = circles(imports);
    let inside =
        |import: &&Import| circles.iter().any(|c| c.contains(&import.from) && c.contains(&import.to));
    imports.iter().filter(inside).map(|i| format!("{}:{}: imports {}", i.from, i.line, i.to)).collect()
}

/// The strongly connected components of more than `FILES_MAX` files, each ordered.
fn circles(imports: &[Import]) -> Vec<Vec<String>> {
    let mut search = Search::default();
    for import in imports {
        search.next.entry(&import.from).or_default().push(&import.to);
    }
    for import in imports {
        if !search.seen.contains_key(import.from.as_str()) {
            search.visit(&import.from);
        }
    }
    let mut found = search.found;
    found.retain(|circle| circle.len() > FILES_MAX);
    found.sort();
    found
}

/// Tarjan's search.
#[derive(Default)]
struct Search<'a> {
    next: BTreeMap<&'a str, Vec<&'a str>>,
    /// The number of each file that was visited, and the lowest one that it leads back to; `None`: its
    /// component is complete.
    seen: BTreeMap<&'a str, (usize, Option<usize>)>,
    open: Vec<&'a str>,
    found: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    /// Visits a file and all that it leads to; the lowest number that it leads back to.
    fn visit(&mut self, file: &'a str) -> usize {
        let number = self.seen.len();
        let mut lowest = number;
        self.seen.insert(file, (number, Some(number)));
        self.open.push(file);
        for to in self.next.get(file).cloned().unwrap_or_default() {
            match self.seen.get(to) {
                None => lowest = lowest.min(self.visit(to)),
                Some((_, Some(other))) => lowest = lowest.min(*other),
                Some((_, None)) => {}
            }
        }
        self.seen.insert(file, (number, Some(lowest)));
        if lowest == number
            && let Some(at) = self.open.iter().position(|open| *open == file)
        {
            let component = self.open.split_off(at);
            for file in &component {
                self.seen.entry(file).and_modify(|(_, lowest)| *lowest = None);
            }
            let mut component: Vec<String> = component.into_iter().map(str::to_owned).collect();
            component.sort();
            self.found.push(component);
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a b` is an import of `b` by `a`.
    fn imports(pairs: &str) -> Vec<Import> {
        let import = |pair: &str| {
            let (from, to) = pair.split_once(' ').expect("two files");
            Import { from: from.to_owned(), to: to.to_owned(), line: 1 }
        };
        pairs.split(", ").map(import).collect()
    }

    fn check_circles(pairs: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        check("p", &imports(pairs), &mut findings);
        let found: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(found, expected);
    }

    const FOUR: &str = "a b, b c, c d, d a, a x, x y, z a";
    const TWO_CIRCLES: &str = "a b, b c, c d, d a, d e, e f, f g, g h, h e, f e";

    #[test]
    fn circles_of_more_than_three_files_are_errors() {
        check_circles("a b, b c, c a, c d, d e", &[]);
        check_circles(FOUR, &["error: package p: 4 files form an import circle: a, b, c, d"]);
        check_circles(
            TWO_CIRCLES,
            &[
                "error: package p: 4 files form an import circle: a, b, c, d",
                "error: package p: 4 files form an import circle: e, f, g, h",
            ],
        );
        assert_eq!(circles(&imports("a b, b c, c d, d a, c e, e d")), [["a", "b", "c", "d", "e"]]);
    }

    #[test]
    fn what_holds_a_circle_together_is_told() {
        let held = held_by(&imports(FOUR));
        assert_eq!(held, ["a:1: imports b", "b:1: imports c", "c:1: imports d", "d:1: imports a"]);
    }
}
