//! A run as one archive, for the appendix of a paper: data, scenario, environment, page, and a README that
//! says what each file is and how to make it again.
//!
//! The same run gives the same bytes: files in the order of their names, without owner, with a fixed time.

#![expect(clippy::disallowed_types, reason = "files of a run and an archive, outside the worlds")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::digest::hex;
use crate::presentation::{PRESENTATION, page_again};
use crate::record::RunRecord;
use crate::text_file::open_regular;
use crate::words::command;
use crate::world::World;

/// Most files of a run, and their bytes: a run records some hundred MiB.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: u64 = 4 << 30;
/// Deepest folder: a sweep's points lie one below the run.
const DEPTH_MAX: usize = 8;
/// Longest name of the folder inside.
const NAME_MAX: usize = 64;
/// The time of every file, in seconds since 1970: 1980-01-01, the first that every archive format can hold.
const FIXED_TIME_S: u64 = 315_532_800;

const README: &str = "README.txt";
const SUMS: &str = "SHA256SUMS";
const PAGE: &str = "report.html";
const ENVIRONMENT: &str = "environment.json";
const SCENARIO: &str = "scenario.toml";
/// The folder inside begins so.
const FOLDER: &str = "masu-";

/// Why a run cannot be bundled.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum BundleError {
    /// A file of the run, or the archive.
    #[error("{path}: {cause}")]
    File {
        path: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The name cannot be listed in SHA256SUMS.
    #[error(
        "{path}: invalid file name for a bundle; rename the file without control characters and backslashes"
    )]
    Name { path: String },
    /// Neither a file nor a folder.
    #[error("{path}: neither a file nor a folder; remove it from the run's folder")]
    Kind { path: String },
    /// What the archive would replace.
    #[error("{path}: exists and is not a bundle; name another file for the bundle")]
    Taken { path: String },
    /// The folder holds more than a run leaves.
    #[error("{path}: over {FILES_MAX} files, {DEPTH_MAX} levels or 4 GiB; name the folder of one run")]
    TooLarge { path: String },
    /// Another program writes to the folder.
    #[error("{path}: changed while it was read; bundle the run when it has ended")]
    Changed { path: String },
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BundleError {
    let path = path.display().to_string();
    |cause| BundleError::File { path, cause }
}

/// What a file of the bundle is made of.
enum Content {
    /// Made here.
    Text(Vec<u8>),
    /// Copied from the run's folder.
    Copied(PathBuf),
}

struct Entry {
    /// Below the folder of the bundle, with `/`.
    name: String,
    content: Content,
    bytes: u64,
    sum: String,
}

impl Entry {
    fn text(name: &str, text: Vec<u8>) -> Entry {
        let sum = hex(&Sha256::digest(&text));
        Entry { name: name.into(), bytes: text.len() as u64, sum, content: Content::Text(text) }
    }

    fn copied(name: String, path: PathBuf) -> Result<Entry, BundleError> {
        let mut hashed = Hashed { of: File::open(&path).map_err(file_error(&path))?, sum: Sha256::new() };
        let bytes = io::copy(&mut hashed, &mut io::sink()).map_err(file_error(&path))?;
        Ok(Entry { name, content: Content::Copied(path), bytes, sum: hex(&hashed.sum.finalize()) })
    }
}

/// A reader that sums what is read.
struct Hashed<R> {
    of: R,
    sum: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.of.read(buffer)?;
        self.sum.update(buffer.get(..n).unwrap_or_default());
        Ok(n)
    }
}

/// Writes the run in the folder `run` as a gzip-compressed tar archive; a bundle that is there is
/// replaced when the new one is whole. Returns the number of files.
///
/// The page is made again from the record, so that the bundle's page is what `masu report` makes of it.
///
/// # Errors
///
/// When the folder has no record, holds more than a run leaves, or the archive cannot be written.
pub fn write(run: &Path, archive: &Path) -> anyhow::Result<usize> {
    let record = RunRecord::read(&run.join("results.json"))?;
    let part = archive.with_added_extension("part");
    [archive, &part].into_iter().try_for_each(refuse_taken)?;
    let mut entries = files(run, &[archive, &part])?;
    let made = [README, SUMS, PAGE, ENVIRONMENT, SCENARIO];
    entries.retain(|entry| !made.contains(&entry.name.as_str()));
    entries.push(Entry::text(PAGE, page_again(run)?.into_bytes()));
    entries.push(Entry::text(ENVIRONMENT, environment(&record)?));
    if let Some(text) = scenario(run)? {
        entries.push(Entry::text(SCENARIO, text.into_bytes()));
    }
    entries.push(Entry::text(README, readme(&record, &entries).into_bytes()));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let sums: String = entries.iter().map(|entry| format!("{}  {}\n", entry.sum, entry.name)).collect();
    entries.push(Entry::text(SUMS, sums.into_bytes()));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let written = pack(&folder(&record), &entries, &part);
    let renamed = written.and_then(|()| fs::rename(&part, archive).map_err(file_error(archive)));
    if renamed.is_err() {
        // Half an archive is of no use; that it cannot be removed is less than why it was not written.
        let _ = fs::remove_file(&part);
    }
    renamed?;
    Ok(entries.len())
}

/// Refuses what is there, but for a bundle of before, or what was left of one.
fn refuse_taken(path: &Path) -> Result<(), BundleError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() || (found.len() > 0 && !is_bundle(path)) => {
            Err(BundleError::Taken { path: path.display().to_string() })
        }
        _ => Ok(()),
    }
}

/// Whether a file begins as a bundle does; the end of one that was interrupted is missing.
fn is_bundle(path: &Path) -> bool {
    let Ok(file) = open_regular(path) else { return false };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let first = archive.entries().ok().and_then(|mut entries| entries.next()?.ok());
    first.is_some_and(|entry| entry.path().is_ok_and(|name| name.to_string_lossy().starts_with(FOLDER)))
}

/// The name of the folder inside: no text of a record leaves it.
fn folder(record: &RunRecord) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = record.verification.chars().take(NAME_MAX).map(plain).collect();
    format!("{FOLDER}{name}-seed{}", record.seed)
}

/// The files of the run but the archive itself.
fn files(run: &Path, except: &[&Path]) -> Result<Vec<Entry>, BundleError> {
    let except: Vec<PathBuf> = except.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let too_large = || BundleError::TooLarge { path: run.display().to_string() };
    let mut entries = Vec::new();
    let mut bytes = 0;
    let mut folders = vec![(run.to_owned(), String::new(), 0)];
    while let Some((dir, prefix, depth)) = folders.pop() {
        for found in fs::read_dir(&dir).map_err(file_error(&dir))? {
            let found = found.map_err(file_error(&dir))?;
            let path = found.path();
            let shown = path.display().to_string();
            let name = found.file_name();
            let name = name.to_str().filter(|name| !name.contains(|c: char| c.is_control() || c == '\\'));
            let name = format!("{prefix}{}", name.ok_or_else(|| BundleError::Name { path: shown.clone() })?);
            let meta = fs::symlink_metadata(&path).map_err(file_error(&path))?;
            if meta.is_dir() {
                // As many folders as files, so that empty ones do not count for nothing.
                if depth == DEPTH_MAX || folders.len() == FILES_MAX {
                    return Err(too_large());
                }
                folders.push((path, format!("{name}/"), depth + 1));
            } else if !meta.is_file() {
                return Err(BundleError::Kind { path: shown });
            } else if !fs::canonicalize(&path).is_ok_and(|path| except.contains(&path)) {
                bytes += meta.len();
                if entries.len() == FILES_MAX || bytes > BYTES_MAX {
                    return Err(too_large());
                }
                entries.push(Entry::copied(name, path)?);
            }
        }
    }
    Ok(entries)
}

/// The text of the scenario, where the run kept it.
fn scenario(run: &Path) -> anyhow::Result<Option<String>> {
    let path = run.join(PRESENTATION);
    let text = match crate::text_file::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(file_error(&path)(cause).into()),
    };
    let presentation: serde_json::Value = serde_json::from_str(&text)?;
    let text = presentation["method"]["scenario_text"].as_str();
    Ok(text.filter(|text| !text.is_empty()).map(str::to_owned))
}

fn environment(record: &RunRecord) -> serde_json::Result<Vec<u8>> {
    let all = json!({
        "masu": record.version,
        "commit": record.commit,
        "world": record.world,
        "seed": record.seed,
        "scale": record.scale,
        "environment": record.environment,
    });
    Ok((serde_json::to_string_pretty(&all)? + "\n").into_bytes())
}

fn about(name: &str) -> &'static str {
    match name {
        PAGE => "the page: open it in a browser, it needs no network",
        "results.json" => "the record: inputs, every sample, claims and verdicts (docs/report_data.md)",
        PRESENTATION => "figures, tables and text of the page",
        SCENARIO => "the scenario: what was set, with sources, and what is claimed",
        ENVIRONMENT => "versions, machine, seed and command",
        _ if name.ends_with(".csv") => "samples as a table",
        _ => "written by the run",
    }
}

fn readme(record: &RunRecord, entries: &[Entry]) -> String {
    let mut named: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).chain([SUMS]).collect();
    named.sort_unstable();
    let width = named.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |name: &str| match name {
        SUMS => format!("  {name:width$}  sha256sum --check {SUMS}\n"),
        _ => format!("  {name:width$}  {}\n", about(name)),
    };
    let list: String = named.into_iter().map(line).collect();
    let commit = record.commit.as_ref().map_or(String::new(), |commit| format!(", commit {commit}"));
    let again = match record.world {
        World::Model => {
            "The run used modelled hardware and virtual time: the same version and seed give the same samples."
        }
        World::Real => {
            "The run measured a machine: another machine gives other samples. environment.json describes it."
        }
    };
    format!(
        "{name}: {answer}\nVerdict: {verdict}. Run at {time}.\n\nFiles\n{list}\n\
         Make the page again\n  masu report .\nThe same version of masu gives the same bytes.\n\n\
         Run it again\n  {typed}\nwith masu {version}{commit}, seed {seed}. {again}\n",
        name = record.verification,
        answer = record.verdict.answer,
        verdict = record.verdict.standing.words(),
        time = record.environment.generated,
        typed = command(&record.environment.command),
        version = record.version,
        seed = record.seed,
    )
}

/// Writes the archive and makes it durable.
fn pack(folder: &str, entries: &[Entry], to: &Path) -> Result<(), BundleError> {
    let wrong = |cause| file_error(to)(cause);
    let file = File::create(to).map_err(wrong)?;
    // 255: no operating system. The header has no time and no name.
    let gzip = GzBuilder::new().mtime(0).operating_system(255).write(file, Compression::best());
    let mut tar = Builder::new(gzip);
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(FIXED_TIME_S);
        header.set_size(entry.bytes);
        let name = format!("{folder}/{}", entry.name);
        match &entry.content {
            Content::Text(text) => tar.append_data(&mut header, name, &text[..]).map_err(wrong)?,
            Content::Copied(path) => {
                let file = File::open(path).map_err(file_error(path))?;
                // One byte more would not fit the header's size.
                let mut hashed = Hashed { of: file.take(entry.bytes), sum: Sha256::new() };
                tar.append_data(&mut header, name, &mut hashed).map_err(wrong)?;
                if hex(&hashed.sum.finalize()) != entry.sum {
                    return Err(BundleError::Changed { path: path.display().to_string() });
                }
            }
        }
    }
    let gzip = tar.into_inner().map_err(wrong)?;
    let mut file = gzip.finish().map_err(wrong)?;
    file.flush().and_then(|()| file.sync_all()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::{HowItWasDone, Presentation, write as write_run, write_again};
    use crate::record::record_of;

    fn record() -> RunRecord {
        let mut record = record_of("../sanboot", World::Model, vec![], "Forty servers boot.");
        record.environment.command = "masu verify sanboot".into();
        RunRecord { version: "0.1.0".into(), commit: Some("abc".into()), seed: 7, ..record }.sealed()
    }

    /// A run with a recording in a folder of its own.
    fn run(dir: &Path) -> PathBuf {
        let run = dir.join("run");
        fs::create_dir_all(run.join("sweep")).expect("folders");
        let method = HowItWasDone { scenario_text: "seed = 7\n".into(), ..HowItWasDone::default() };
        let presentation = Presentation { title: "How many?".into(), method, ..Presentation::default() };
        write_run(&run, &record(), &presentation).expect("a run");
        fs::write(run.join("samples.csv"), "a,b\n1,2\n").expect("a file");
        fs::write(run.join("sweep/001.toml"), "seed = 8\n").expect("a file");
        run
    }

    /// Unpacks, and gives the folder inside.
    fn unpack(archive: &Path, to: &Path) -> PathBuf {
        let file = File::open(archive).expect("an archive");
        tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(to).expect("unpacks");
        to.join("masu-___sanboot-seed7")
    }

    fn read(path: impl AsRef<Path>) -> Vec<u8> {
        fs::read(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
    }

    #[test]
    fn a_bundle_has_all_files_with_their_sums_and_makes_its_own_page_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let archive = dir.path().join("run.tar.gz");
        let count = write(&run(dir.path()), &archive).expect("a bundle");
        let inside = unpack(&archive, dir.path());
        let sums = String::from_utf8(read(inside.join(SUMS))).expect("text");
        let named: Vec<&str> = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
        let expected = [
            README,
            ENVIRONMENT,
            PRESENTATION,
            PAGE,
            "results.json",
            "samples.csv",
            SCENARIO,
            "sweep/001.toml",
        ];
        assert_eq!(named, expected);
        assert_eq!(count, expected.len() + 1);
        let readme = String::from_utf8(read(inside.join(README))).expect("text");
        for (line, name) in sums.lines().zip(named) {
            assert_eq!(line, format!("{}  {name}", hex(&Sha256::digest(read(inside.join(name))))));
            assert!(
                name == README || readme.contains(&format!("  {name} ")),
                "{name} is missing in {readme}"
            );
        }
        assert!(readme.contains("masu verify sanboot") && readme.contains("Forty servers boot."), "{readme}");
        assert_eq!(read(inside.join(SCENARIO)), b"seed = 7\n");
        let page = read(inside.join(PAGE));
        fs::remove_file(inside.join(PAGE)).expect("removed");
        write_again(&inside).expect("made again");
        assert!(read(inside.join(PAGE)) == page, "the same page");
    }

    /// Before, `masu report RUN --bundle RUN/results.json` made an archive of the record, in its place.
    #[test]
    fn only_a_bundle_is_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let (run, other) = (run(dir.path()), dir.path().join("notes.txt"));
        fs::write(&other, "of somebody else").expect("written");
        for taken in [run.join("results.json"), other] {
            let before = fs::read(&taken).expect("a file");
            let refused = write(&run, &taken).expect_err("it exists").to_string();
            assert!(refused.contains("is not a bundle"), "{refused}");
            assert!(fs::read(&taken).expect("a file") == before);
        }
        let own = dir.path().join("own.tar.gz");
        fs::write(&own, "").expect("an empty file");
        write(&run, &own).expect("an empty file holds nothing");
        write(&run, &own).expect("a bundle");
        // Interrupted.
        let part = own.with_added_extension("part");
        let whole = fs::read(&own).expect("a bundle");
        fs::write(&part, &whole[..whole.len() - 100]).expect("written");
        write(&run, &own).expect("a bundle");
    }

    #[test]
    fn the_same_run_gives_the_same_bytes_from_any_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let run = run(dir.path());
        let first = dir.path().join("first.tar.gz");
        write(&run, &first).expect("a bundle");
        // Into the run's folder itself, twice: the archive does not take itself in.
        let own = run.join("own.tar.gz");
        write(&run, &own).expect("a bundle");
        write(&run, &own).expect("a bundle");
        assert!(read(&own) == read(&first), "written into the run's folder");
        assert!(!own.with_added_extension("part").exists());
        let again = dir.path().join("again.tar.gz");
        write(&unpack(&first, dir.path()), &again).expect("a bundle of a bundle");
        assert!(read(&again) == read(&first), "bundled again after it was unpacked");
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(File::open(&first).expect("a file")));
        let entries: Vec<(u64, u64, u64, u32)> = tar
            .entries()
            .expect("entries")
            .map(|entry| {
                let header = entry.expect("an entry").header().clone();
                let number = |value: io::Result<u64>| value.expect("a number");
                let mode = header.mode().expect("a mode");
                (number(header.uid()), number(header.gid()), number(header.mtime()), mode)
            })
            .collect();
        assert!(entries.iter().all(|of| *of == (0, 0, FIXED_TIME_S, 0o644)), "{entries:?}");
    }

    /// `--bundle /dev/null` replaced the device node by the archive.
    #[test]
    fn an_archive_replaces_no_socket_link_or_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let run = run(dir.path());
        let [socket, link, folder] = ["socket", "link", "folder"].map(|name| dir.path().join(name));
        let _kept = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        fs::create_dir(&folder).expect("a folder");
        for path in [socket, link, folder] {
            let kind = |path: &Path| fs::symlink_metadata(path).expect("there").file_type();
            let before = kind(&path);
            let refused = write(&run, &path).expect_err("refused").to_string();
            assert!(refused.contains("is not a bundle; name another"), "{refused}");
            assert_eq!(kind(&path), before, "{}", path.display());
            // Under its temporary name, too.
            let archive = dir.path().join("run.tar.gz");
            fs::rename(&path, archive.with_added_extension("part")).expect("renamed");
            assert!(write(&run, &archive).is_err() && !archive.exists());
            fs::rename(archive.with_added_extension("part"), &path).expect("renamed back");
        }
    }

    #[test]
    fn what_is_no_part_of_a_run_is_refused_and_leaves_no_archive() {
        let dir = tempfile::tempdir().expect("a folder");
        let archive = dir.path().join("run.tar.gz");
        let refused = |run: &Path, expected: &str| {
            let error = write(run, &archive).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!archive.exists() && !archive.with_added_extension("part").exists(), "{expected}");
        };
        refused(dir.path(), "results.json: no such file");
        let run = run(dir.path());
        std::os::unix::fs::symlink("/etc/passwd", run.join("link")).expect("a link");
        refused(&run, "link: neither a file nor a folder");
        fs::remove_file(run.join("link")).expect("removed");
        fs::write(run.join("two\nlines"), "").expect("a file");
        refused(&run, "invalid file name");
        fs::remove_file(run.join("two\nlines")).expect("removed");
        let deep: PathBuf = (0..=DEPTH_MAX).fold(run.clone(), |path, n| path.join(n.to_string()));
        fs::create_dir_all(deep).expect("folders");
        refused(&run, "over 10000 files, 8 levels or 4 GiB");
    }

    /// It replaced the verdict of the record on the page, and `masu report` ended with 0.
    #[test]
    fn a_presentation_that_others_changed_makes_no_page() {
        let dir = tempfile::tempdir().expect("a folder");
        let run = run(dir.path());
        for (text, expected) in [
            ("{\"verdict\": \"held\"}", "verdict: unknown key"),
            ("[1, 2]", "it: must be an object"),
            ("{\"title\": {\"a\": \"</script><script>alert(1)\"}}", "title: must be text"),
        ] {
            fs::write(run.join(PRESENTATION), text).expect("written");
            let refused = page_again(&run).expect_err(text).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    /// Figures of one run stood under the claims of another, and `masu report` ended with 0.
    #[test]
    fn a_presentation_of_another_run_makes_no_page() {
        let dir = tempfile::tempdir().expect("a folder");
        let run = run(dir.path());
        let own = fs::read_to_string(run.join(PRESENTATION)).expect("a presentation");
        let digest = record().digest.expect("it is sealed");
        assert!(own.contains(&digest), "{own}");
        fs::write(run.join(PRESENTATION), own.replace(&digest, "another")).expect("written");
        let refused = page_again(&run).expect_err("of another run").to_string();
        assert!(refused.contains("presentation.json: it was written with another results.json"), "{refused}");
        // Versions before did not name the record.
        let unnamed = own.replace(&format!("\"{digest}\""), "null");
        fs::write(run.join(PRESENTATION), unnamed).expect("written");
        page_again(&run).expect("a page");
    }
}
