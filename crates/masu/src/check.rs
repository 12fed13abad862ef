//! `masu check`: examines a stopped array without writing to its drives.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use admin::{Kept, Progress, Store};
use anyhow::{Context, Result, bail};
use array::check::{Examination, Finding};
use clap::Args;
use serde_json::json;

use crate::held::wait_until_free;
use crate::manage::{Line, socket_in};

/// Check a stopped array and report every inconsistency, one line each
///
/// Reads the drives in the array.state.toml of DIR, and never writes to them: what a start would recover is
/// recovered in memory. Checks labels, groups and the metadata of pools for consistency; with --data it reads
/// every byte and compares mirrors and parity.
///
/// There is no --repair: starting the array repairs what redundancy can decide (masu serve, then masu group
/// scrub).
#[derive(Args)]
#[command(after_help = "\
Lines that begin with `note` are what a power cut leaves and the next start puts right or completes; they are no
findings.

Exit status: 0 clean, 1 findings, 2 the array cannot be examined.")]
pub(crate) struct Check {
    /// The data directory of the array
    #[arg(value_name = "DIR")]
    data_dir: PathBuf,
    /// Also read all data, and compare mirrors and parity
    #[arg(long)]
    data: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(check: &Check) -> Result<ExitCode> {
    let kept = stopped(&check.data_dir)?;
    let data = check.data;
    let examination = world_real::run(world_real::Options::default(), async |world| {
        let mut line = Line::default();
        let tell = |progress: &array::check::Progress| {
            let (done_bytes, total_bytes) = (progress.done_bytes, progress.total_bytes);
            line.show(&progress.what, Progress { done_bytes, total_bytes });
        };
        let examination = array::check::check_recorded(world, (&kept.config, &kept.made), data, tell).await;
        line.end();
        examination
    })
    .context("cannot start the check")?;
    match check.json {
        true => println!("{}", serde_json::to_string_pretty(&as_json(&examination))?),
        false => print(&examination, data),
    }
    Ok(if examination.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What is stored in the directory of a stopped array.
fn stopped(dir: &Path) -> Result<Kept> {
    let shown = dir.display();
    if !dir.is_dir() {
        bail!("{shown}: no such directory");
    }
    // The daemon holds its socket as long as it holds the drives.
    if std::os::unix::net::UnixStream::connect(socket_in(dir)).is_ok() {
        bail!("{shown}: an array runs on it; stop masu serve first, or scrub its groups (masu group scrub)");
    }
    let kept = Store::open(dir)?.load()?;
    let kept =
        kept.with_context(|| format!("{shown}: no array.state.toml: not the data directory of an array"))?;
    wait_until_free(&kept.config, &AtomicBool::new(false))?;
    Ok(kept)
}

fn print(examination: &Examination, data: bool) {
    for finding in &examination.findings {
        println!("{}  {finding}", if finding.harmless { "note   " } else { "finding" });
    }
    let e = examination;
    let read = match data {
        true => format!(", {} read and compared", config::format_bytes(e.compared_bytes)),
        false => ", data not read (--data)".into(),
    };
    let examined = format!(
        "{} drives, {} groups, {} pools, {} volumes checked{read}",
        e.drives, e.groups, e.pools, e.volumes
    );
    match e.findings.iter().filter(|f| !f.harmless).count() {
        0 => println!("clean: {examined}"),
        1 => println!("1 finding: {examined}"),
        n => println!("{n} findings: {examined}"),
    }
}

fn as_json(e: &Examination) -> serde_json::Value {
    let finding = |f: &Finding| json!({ "place": f.place, "text": f.text, "harmless": f.harmless });
    json!({
        "clean": e.is_clean(),
        "findings": e.findings.iter().map(finding).collect::<Vec<_>>(),
        "drives": e.drives,
        "groups": e.groups,
        "pools": e.pools,
        "volumes": e.volumes,
        "compared_bytes": e.compared_bytes,
    })
}
