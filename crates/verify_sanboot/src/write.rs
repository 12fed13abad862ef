//! From points to files: `points.json`, which `masu predict` reads, and points and windows as CSV.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use lab_core::report::{DataFile, write_json};

use super::results::{Point, Results};

/// Where the points of a run are kept.
pub const POINTS: &str = "points.json";

/// Writes what lies beside the report.
pub(super) fn files(out: &Path, results: &Results) -> Result<Vec<DataFile>> {
    let put = |name: &str, about: &str, text: String| {
        let path = out.join(name);
        let rows = text.lines().count().saturating_sub(1);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        anyhow::Ok(DataFile { name: name.into(), about: about.into(), rows })
    };
    let sealed = results.clone().sealed();
    debug_assert_eq!(
        serde_json::to_string(&sealed).map(|text| Results::read(&text).err()).ok(),
        Some(None),
        "points that no command reads again"
    );
    write_json(&out.join(POINTS), &sealed)?;
    let about = "every point with its windows and resources: masu predict reads it".into();
    Ok(vec![
        DataFile { name: POINTS.into(), about, rows: results.points.len() },
        put("points.csv", "what each server of each point got", points_csv(results))?,
        put("windows.csv", "every window of every point", windows_csv(results))?,
    ])
}

fn key(point: &Point) -> String {
    format!("{},{},{},{}", point.pattern.name(), point.layout.name(), point.servers, point.repeat)
}

/// A line for each server of each point.
pub(super) fn points_csv(results: &Results) -> String {
    let mut out = String::from(
        "pattern,layout,servers,repeat,server,iops,mb_per_s,response_ms_mean,response_ms_p99,hit_share,settled\n",
    );
    for point in &results.points {
        for (server, rate) in point.per_server.iter().enumerate() {
            let (key, hits) = (key(point), point.hit_share);
            let _ = writeln!(
                out,
                "{key},{server},{:.3},{:.4},{:.4},{:.4},{hits:.4},{}",
                rate.iops, rate.mb_per_s, rate.response_ms_mean, rate.response_ms_p99, point.settled
            );
        }
    }
    out
}

/// A line for each window of each point.
fn windows_csv(results: &Results) -> String {
    let mut out = String::from(
        "pattern,layout,servers,repeat,window,seconds,iops,controller_busy,port_busy,port_mb_per_s,drive_busy_mean,drive_queue_mean,hit_share,write_pending\n",
    );
    for point in &results.points {
        for (number, w) in point.windows.iter().enumerate() {
            let first = |list: &[f64]| list.first().copied().unwrap_or_default();
            let drives = w.drive_busy.iter().sum::<f64>() / w.drive_busy.len().max(1) as f64;
            let _ = writeln!(
                out,
                "{},{number},{:.4},{:.3},{:.4},{:.4},{:.3},{drives:.4},{:.4},{:.4},{:.4}",
                key(point),
                w.seconds,
                w.iops,
                first(&w.controller_busy),
                first(&w.port_busy),
                w.port_mb_per_s,
                w.drive_queue_mean,
                w.hit_share,
                w.write_pending
            );
        }
    }
    out
}
