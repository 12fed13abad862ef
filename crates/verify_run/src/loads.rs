//! The loads of a scenario: access specifications of its own, or those of files written for Iometer or fio.

use std::path::Path;

use lab_core::toml_text::TomlFileError;

use super::limits;
use super::lines::Text;
use super::names::{Names, once};
use super::plan::LoadPlan;
use super::scenario::{LoadTable, Written};
use lab_tools::load::{self, Access, Arrivals, Job, Mix, Pace};

/// In flight where nobody says how many.
const OUTSTANDING_DEFAULT: u16 = 1;
/// Of all jobs of a load on one volume.
const WORKERS_MAX: usize = 64;

/// All of them.
pub(super) fn loads(
    written: &Written,
    names: &Names,
    folder: &Path,
    at: Text<'_>,
) -> Result<Vec<LoadPlan>, TomlFileError> {
    let mut out: Vec<LoadPlan> = Vec::new();
    once("load", written.loads.iter().map(|load| load.name.as_str()))
        .map_err(|(n, cause)| at.wrong(&[("load", n)], "name", cause))?;
    for (n, table) in written.loads.iter().enumerate() {
        let wrong = |key: &str, cause: String| {
            at.wrong(&[("load", n)], key, format!("load {:?}: {cause}", table.name))
        };
        let volumes = names.resolve("volume", &table.volumes).map_err(|cause| wrong("volumes", cause))?;
        let (jobs, left_out) = jobs(table, folder).map_err(|(key, cause)| wrong(key, cause))?;
        for job in &jobs {
            job.check(false).map_err(|cause| wrong("access", cause.to_string()))?;
        }
        let workers: usize = jobs.iter().map(|job| job.workers).sum();
        if volumes.is_empty() || !(1..=WORKERS_MAX).contains(&workers) {
            return Err(wrong(
                "volumes",
                format!(
                    "must have at least one volume, and 1 to {WORKERS_MAX} \
                workers"
                ),
            ));
        }
        out.push(LoadPlan { name: table.name.clone(), volumes, jobs, left_out });
        limits::loads(&out).map_err(|cause| wrong("volumes", cause))?;
    }
    Ok(out)
}

type Wrong = (&'static str, String);

/// The jobs of a load, and what of its file is left out.
fn jobs(table: &LoadTable, folder: &Path) -> Result<(Vec<Job>, Vec<String>), Wrong> {
    let (mut jobs, left_out) = match (&table.access[..], &table.fio, &table.icf) {
        ([], Some(path), None) => of_file("fio", table, &folder.join(path))?,
        ([], None, Some(path)) => of_file("icf", table, &folder.join(path))?,
        ([_, ..], None, None) => (vec![own(table)?], vec![]),
        _ => return Err(("name", "must have one of: access, fio, icf".into())),
    };
    if table.poisson && table.rate.is_none() {
        return Err(("poisson", "poisson requires rate: add how many I/Os per second arrive".into()));
    }
    for job in &mut jobs {
        job.outstanding = table.outstanding.unwrap_or(job.outstanding);
        job.span = table.span.map(|size| size.0).or(job.span);
        if let Some(ios_per_s) = table.rate {
            let arrivals = if table.poisson { Arrivals::Poisson } else { Arrivals::Even };
            job.pace = Pace::Open { ios_per_s, arrivals };
        }
    }
    Ok((jobs, left_out))
}

fn own(table: &LoadTable) -> Result<Job, Wrong> {
    let wrong = |cause: String| ("access", cause);
    let kinds: Result<Vec<Access>, _> = table.access.iter().map(|text| text.parse::<Access>()).collect();
    let mix = kinds.and_then(Mix::new).map_err(|cause| wrong(cause.to_string()))?;
    if table.job.is_some() {
        return Err(("job", "job requires fio or icf".into()));
    }
    Ok(Job {
        name: table.name.clone(),
        mix,
        outstanding: OUTSTANDING_DEFAULT,
        pace: Pace::Closed,
        workers: 1,
        from: 0,
        span: None,
    })
}

fn of_file(key: &'static str, table: &LoadTable, path: &Path) -> Result<(Vec<Job>, Vec<String>), Wrong> {
    let wrong = |cause: String| (key, format!("{}: {cause}", path.display()));
    // Configuration files of Windows need not be UTF-8; what matters in them is ASCII.
    let bytes = lab_core::text_file::read_bytes(path).map_err(|e| wrong(e.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    let written = if key == "fio" { load::fio::parse(&text) } else { load::icf::parse(&text) };
    let mut written = written.map_err(|cause| wrong(cause.to_string()))?;
    let names: Vec<String> = written.jobs.iter().map(|job| job.name.trim().to_owned()).collect();
    if let Some(name) = &table.job {
        written.jobs.retain(|job| job.name.trim() == name.trim());
        if written.jobs.is_empty() {
            return Err((
                "job",
                format!("unknown job {name:?}: {} has {}", path.display(), names.join(", ")),
            ));
        }
    }
    // fio runs sections side by side; Iometer's specifications follow one another, and one is chosen here.
    if key == "icf" && written.jobs.len() > 1 {
        return Err(wrong(format!(
            "has several access specifications: choose one with job: {}",
            names.join(", ")
        )));
    }
    Ok((written.jobs, written.left_out.iter().map(ToString::to_string).collect()))
}
