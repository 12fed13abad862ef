//! Dependencies that no source of the package names.

use std::path::Path;

use super::{Finding, Package, Source};

/// Packages whose library has another name than they.
const OTHER_NAMES: [(&str, &str); 1] = [("md-5", "md5")];

/// Checks all packages. A dependency is used when its name stands before `::`, or in a `use`.
pub(super) fn check(root: &Path, packages: &[Package], sources: &[Source], findings: &mut Vec<Finding>) {
    for package in packages {
        let folder = format!("{}/", package.folder(root));
        let mine: Vec<&Source> = sources.iter().filter(|s| s.path.starts_with(&folder)).collect();
        for dependency in &package.dependencies {
            let other = OTHER_NAMES
                .iter()
                .find(|(package, _)| *package == dependency.name)
                .map(|(_, library)| *library);
            let name = dependency.rename.as_deref().or(other).unwrap_or(&dependency.name).replace('-', "_");
            if !mine.iter().any(|s| names(&s.text, &name)) {
                let text = format!("unused dependency {}", dependency.name);
                findings.push(Finding::warning(&format!("package {}", package.name), 0, text));
            }
        }
    }
}

pub(super) fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + name.len()..];
        let whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        whole && (after.starts_with("::") || after.starts_with(';') || after.starts_with(" as "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_as_paths() {
        assert!(names("use crc_fast::Digest;", "crc_fast"));
        assert!(names("fn f() -> smallvec::SmallVec<[u8; 4]>", "smallvec"));
        assert!(!names("// futures are lazy", "futures"));
        assert!(!names("use my_futures::x;", "futures"));
    }
}
