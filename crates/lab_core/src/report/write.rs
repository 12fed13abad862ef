//! Writing a run's folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rust_embed::RustEmbed;
use serde::Serialize;

use super::Report;

/// The viewer, built from web/ by `make build`.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[include = "report.html"]
#[allow_missing = true]
struct Viewer;

/// The line of the viewer's page that the data replaces.
const PLACE: &str = r#"<script type="application/json" id="masu-report">null</script>"#;

/// Why a folder cannot be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum WriteError {
    #[error("{path}: {cause}")]
    File {
        path: String,
        /// What the system said.
        cause: String,
    },
    /// The program was built without the viewer.
    #[error("this build has no report viewer: build it with `make build`")]
    NoViewer,
    /// The data cannot be written as JSON.
    #[error("the data of the report: {0}")]
    Data(#[from] serde_json::Error),
}

/// Writes a file; of one that has no room nothing is left, which somebody would take for all of it.
fn put(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
    fs::write(path, bytes).map_err(|e| {
        if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) {
            // Whether it can be removed or not: the error says what matters.
            let _ = fs::remove_file(path);
        }
        WriteError::File { path: path.display().to_string(), cause: e.to_string() }
    })
}

/// Writes `report.html` of a report.
pub fn write_report(dir: &Path, report: &Report) -> Result<(), WriteError> {
    write_page(dir, &serde_json::to_value(report)?).map(drop)
}

/// Writes `report.html`: viewer and data in one file that needs no network. Gives where it is.
pub fn write_page(dir: &Path, data: &serde_json::Value) -> Result<PathBuf, WriteError> {
    let path = dir.join("report.html");
    put(&path, page_text(data)?)?;
    Ok(path)
}

/// The text of `report.html`.
///
/// # Errors
///
/// [`WriteError::NoViewer`] when the program was built without the viewer.
pub fn page_text(data: &serde_json::Value) -> Result<String, WriteError> {
    let page = Viewer::get("report.html").ok_or(WriteError::NoViewer)?;
    let page = String::from_utf8_lossy(&page.data);
    let (before, after) = page.split_once(PLACE).ok_or(WriteError::NoViewer)?;
    // No text of the run can end the element.
    let data = serde_json::to_string(data)?.replace('<', "\\u003c");
    let open = PLACE.trim_end_matches("null</script>");
    Ok(format!("{before}{open}{data}</script>{after}"))
}

/// Writes `results.json`.
pub fn write_results(dir: &Path, results: &impl Serialize) -> Result<(), WriteError> {
    write_json(&dir.join("results.json"), results)
}

/// Writes a file of JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), WriteError> {
    put(path, serde_json::to_string_pretty(value)? + "\n")
}

/// Writes a CSV file: a header and rows. Texts with a comma or a quote are quoted.
pub fn write_csv(
    path: &Path,
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<usize, WriteError> {
    let mut text = header.join(",") + "\n";
    let mut count = 0;
    for row in rows {
        let cells = row.into_iter().map(|cell| {
            if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
        });
        text += &cells.collect::<Vec<_>>().join(",");
        text.push('\n');
        count += 1;
    }
    put(path, text)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of a page was left where a disk was full.
    #[test]
    fn of_a_file_that_has_no_room_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
        let refused = write_csv(&path, &["a"], [vec!["1".to_owned()]]).expect_err("no room").to_string();
        assert!(refused.contains("rows.csv: No space left"), "{refused}");
        assert!(path.symlink_metadata().is_err());
    }
}
