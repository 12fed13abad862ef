//! Tracked files: no large files, no path of the machine on which they were written.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::Finding;

/// A file over this size is a product, not a source.
const FILE_BYTES_MAX: u64 = 300_000;
/// Lists of pinned versions, and the description of the API: long, and written by programs.
const MAY_BE_BIG: [&str; 3] = ["Cargo.lock", "package-lock.json", "openapi.json"];

/// All files that git tracks or would track, relative to the root.
pub(super) fn list(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    // What git still knows and somebody has just deleted is not there to be checked.
    files.retain(|f| root.join(f).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Where pictures may be.
const PICTURES: &str = "docs/pictures/";
/// Where a crate keeps media of released formats: written once by that release, and read for ever.
const MEDIA: &str = "/tests/fixtures/";

/// Whether only the size of a file counts.
fn may_be_binary(file: &str) -> bool {
    (file.starts_with(PICTURES) && file.ends_with(".png"))
        || (file.starts_with("crates/") && file.contains(MEDIA))
}

/// Checks sizes and content of all files.
pub(super) fn check(root: &Path, files: &[String], findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let checkout = root.to_str().context("the path of the checkout is not UTF-8")?;
    for file in files {
        let name = file.rsplit('/').next().unwrap_or(file);
        let bytes = std::fs::read(root.join(file)).with_context(|| file.clone())?;
        if bytes.len() as u64 > FILE_BYTES_MAX && !MAY_BE_BIG.contains(&name) {
            let text = format!("{} bytes, the limit is {FILE_BYTES_MAX}", bytes.len());
            findings.push(Finding::error(file, 0, text));
        }
        if may_be_binary(file) {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            findings.push(Finding::error(file, 0, "not a text file: build products must not be committed"));
            continue;
        };
        for line in lines_with_path(text, checkout) {
            findings.push(Finding::error(file, line, "contains the path of this checkout"));
        }
    }
    Ok(())
}

/// The lines that name `path`. The root folder of a machine is in every path, and no finding.
fn lines_with_path(text: &str, path: &str) -> Vec<usize> {
    if path.matches('/').count() < 2 {
        return Vec::new();
    }
    text.lines().enumerate().filter(|(_, l)| l.contains(path)).map(|(i, _)| i + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_and_kept_media_are_binary() {
        assert!(
            may_be_binary("docs/pictures/a.png") && may_be_binary("crates/raid/tests/fixtures/2/a.drives")
        );
        for file in ["docs/a.png", "crates/raid/tests/a.bin", "fuzz/tests/fixtures/a"] {
            assert!(!may_be_binary(file), "{file}");
        }
    }

    #[test]
    fn the_checkout_is_found_by_line() {
        let text = "one\ncd /home/x/tree && make\n";
        assert_eq!(lines_with_path(text, "/home/x/tree"), [2]);
        assert_eq!(lines_with_path(text, "/home/y/tree"), [0; 0]);
        assert_eq!(lines_with_path(text, "/"), [0; 0]);
    }
}
