//! `masu load files`: a file set in a folder.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

use super::plan::{Plan, SetSpec};
use super::sizes::{Sizes, Step};
use lab_core::console;
use lab_core::interrupt::Stop;

/// File sets: trees of folders with files of random text, exact in their totals
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  masu load files plan                                    the published set: 128,000 target files of exactly 128,053,899,719 bytes
  masu load files create ./share --trees 4                4 of its 128 trees, 4/128 of the bytes; goes on where it was left
  masu load files create ./share --trees 4 --dummy-trees 1 --seed 7
  masu load files check ./share                           reads every file once and compares its checksum
  masu load files create ./x --trees 2 --files 100 --targets 50 --target-bytes 40000000 --sizes pareto:4096,1.2")]
pub struct Files {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
enum Action {
    /// Say what a set has in it, and write nothing
    Plan {
        #[command(flatten)]
        set: Set,
    },
    /// Create a set in a folder, or go on where that was left
    Create {
        /// The folder
        dir: PathBuf,
        #[command(flatten)]
        set: Set,
        /// Trees at once
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Compare every file of a folder with its checksum
    Check {
        /// The folder
        dir: PathBuf,
        /// Trees at once
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// What is different from the published set.
#[derive(Args, Clone, Debug)]
struct Set {
    /// Trees that a load uses; the bytes are in proportion, if none are said
    #[arg(long, default_value_t = 128)]
    trees: u32,
    /// Trees that no load touches
    #[arg(long, default_value_t = 0)]
    dummy_trees: u32,
    /// Files of a tree
    #[arg(long)]
    files: Option<u32>,
    /// Files of a tree that a load uses
    #[arg(long)]
    targets: Option<u32>,
    /// Bytes of all targets of the used trees
    #[arg(long)]
    target_bytes: Option<u64>,
    /// The least size of a target
    #[arg(long)]
    target_bytes_min: Option<u64>,
    /// Levels of folders
    #[arg(long)]
    levels: Option<u32>,
    /// Folders of a tree
    #[arg(long)]
    folders: Option<u32>,
    /// How long files are: lognormal:MU,SIGMA or pareto:LEAST,ALPHA
    #[arg(long, conflicts_with = "size_table")]
    sizes: Option<Sizes>,
    /// How long files are: a CSV file of sizes in bytes and the share of files up to each
    #[arg(long, value_name = "FILE")]
    size_table: Option<PathBuf>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Set {
    fn plan(&self) -> Result<Plan> {
        let published = SetSpec::published(self.seed);
        let mut spec = published.clone().with_trees(self.trees, self.dummy_trees);
        spec.files = self.files.unwrap_or(spec.files);
        spec.targets = self.targets.unwrap_or(spec.targets);
        // Fewer targets: the bytes of so many of the published ones.
        let mean = u128::from(published.target_bytes) * u128::from(self.trees) * u128::from(spec.targets);
        let scaled = mean / (u128::from(published.trees) * u128::from(published.targets));
        spec.target_bytes = self.target_bytes.unwrap_or(u64::try_from(scaled).unwrap_or(u64::MAX));
        spec.target_bytes_min = self.target_bytes_min.unwrap_or(spec.target_bytes_min);
        spec.levels = self.levels.unwrap_or(spec.levels);
        spec.folders = self.folders.unwrap_or(spec.folders.max(spec.levels));
        if let Some(sizes) = &self.sizes {
            spec.sizes = sizes.clone();
        }
        if let Some(path) = &self.size_table {
            spec.sizes = table(path)?;
        }
        Ok(Plan::new(spec)?)
    }
}

/// A table: `bytes,share` lines, with or without a header.
fn table(path: &Path) -> Result<Sizes> {
    #[derive(Deserialize)]
    struct Line(f64, f64);
    let text = lab_core::text_file::read(path).with_context(|| path.display().to_string())?;
    let steps = text.lines().enumerate().filter(|(number, line)| {
        let is_header = *number == 0 && line.starts_with(|c: char| c.is_alphabetic());
        !line.trim().is_empty() && !is_header
    });
    let steps = steps.map(|(number, line)| {
        let Line(bytes, share) = serde_json::from_str(&format!("[{line}]")).with_context(|| {
            format!("{}:{}: invalid line: must be `bytes,share`", path.display(), number + 1)
        })?;
        Ok(Step { bytes, share })
    });
    let sizes = Sizes::Table { steps: steps.collect::<Result<_>>()? };
    sizes.check().with_context(|| path.display().to_string())?;
    Ok(sizes)
}

/// Bytes on a terminal: a bar; elsewhere a line every few seconds.
struct Bytes {
    bar: Option<ProgressBar>,
    all: u64,
    done: AtomicU64,
    said: std::sync::Mutex<Instant>,
}

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Bytes {
    fn new(all: u64) -> Bytes {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(
                "{bar:24.cyan/dim} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
            );
            ProgressBar::new(all).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Bytes { bar, all, done: AtomicU64::new(0), said: std::sync::Mutex::new(Instant::now()) }
    }

    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            return;
        }
        let mut said = self.said.lock().expect("nothing panics with it");
        if said.elapsed() >= LINE_EVERY {
            *said = Instant::now();
            console::note(&format!("{:.1} of {:.1} GB", done as f64 / 1e9, self.all as f64 / 1e9));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// All bytes of a set.
fn bytes_of(plan: &Plan) -> u64 {
    (0..plan.spec().all_trees()).map(|n| plan.tree(n).files.iter().map(|f| f.bytes).sum::<u64>()).sum()
}

/// Does what is asked.
pub fn run(files: &Files) -> Result<()> {
    match &files.action {
        Action::Plan { set } => say_plan(set),
        Action::Create { dir, set, threads } => {
            let plan = set.plan()?;
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
            let (stop, from, bytes) = (Stop::on_signals()?, Instant::now(), Bytes::new(bytes_of(&plan)));
            let made = super::create(dir, &plan, *threads, &stop, |n| bytes.add(n))?;
            bytes.end();
            let rate = made.bytes as f64 / from.elapsed().as_secs_f64() / 1e6;
            console::print(&format!(
                "{}: {} trees made ({} were there), {} files, {} bytes, {rate:.0} MB/s",
                dir.display(),
                made.trees,
                made.found,
                made.files,
                made.bytes
            ));
            ensure!(!made.stopped, "stopped: the same command goes on");
            Ok(())
        }
        Action::Check { dir, threads, json } => {
            let plan = Plan::new(super::read_set(dir)?)?;
            let (stop, bytes) = (Stop::on_signals()?, Bytes::new(bytes_of(&plan)));
            let found = super::check(dir, &plan, *threads, &stop, |n| bytes.add(n))?;
            bytes.end();
            if *json {
                console::print(&serde_json::to_string(&found)?);
            } else {
                console::print(&format!(
                    "{}: {} files as created, {} as a client wrote them, {} damaged, {} missing; {} trees not complete",
                    dir.display(),
                    found.intact,
                    found.written,
                    found.damaged,
                    found.missing,
                    found.unfinished
                ));
            }
            found.examples.iter().for_each(|path| console::note(&path.to_string()));
            ensure!(found.is_whole(), "{}: incomplete", dir.display());
            Ok(())
        }
    }
}

fn say_plan(set: &Set) -> Result<()> {
    let from = Instant::now();
    let plan = set.plan()?;
    let spec = plan.spec();
    let (mut files, mut bytes) = (0, 0);
    for tree in 0..spec.trees {
        let tree = plan.tree(tree);
        files += tree.targets().len();
        bytes += tree.targets().iter().map(|f| f.bytes).sum::<u64>();
    }
    let took = from.elapsed().as_secs_f64();
    console::print(&format!(
        "{files} target files of {bytes} bytes in {} trees, planned in {took:.2} s",
        spec.trees
    ));
    console::print(&format!(
        "{} files of {} bytes in all; sizes above {} bytes were scaled by {:.4}",
        u64::from(spec.all_trees()) * u64::from(spec.files),
        bytes_of(&plan),
        spec.target_bytes_min,
        plan.scale()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        files: Files,
    }

    #[test]
    fn fewer_trees_have_bytes_in_proportion() {
        let line = Line::try_parse_from(["x", "plan", "--trees", "1", "--targets", "100"]).expect("reads");
        let Action::Plan { set } = line.files.action else { panic!("a plan") };
        let plan = set.plan().expect("a plan");
        assert_eq!(plan.spec().target_bytes, 128_053_899_719 / 1280);
    }

    #[test]
    fn a_table_is_read_and_a_wrong_one_is_named_with_its_line() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("sizes.csv");
        std::fs::write(&path, "bytes,share\n1000,0.5\n100000,1\n").expect("written");
        assert!(matches!(table(&path).expect("a table"), Sizes::Table { steps } if steps.len() == 2));
        std::fs::write(&path, "1000,0.5\nmany,1\n").expect("written");
        assert!(table(&path).expect_err("no table").to_string().contains("sizes.csv:2"));
    }
}
