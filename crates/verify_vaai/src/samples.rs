//! The samples of a run as CSV.

use std::path::Path;

use anyhow::Result;
use lab_core::report::{DataFile, write_csv};

use super::record::Record;

/// Writes all of them.
pub(super) fn write_samples((dir, record): (&Path, &Record)) -> Result<Vec<DataFile>> {
    let mut files = vec![];
    let mut put = |name: &str, about: &str, header: &[&str], rows: Vec<Vec<String>>| -> Result<()> {
        let rows = write_csv(&dir.join(name), header, rows)?;
        files.push(DataFile { name: name.into(), about: about.into(), rows });
        Ok(())
    };
    let samples = record.samples.iter().map(|s| {
        vec![s.test.into(), s.mode.into(), s.repeat.to_string(), s.metric.into(), s.value.to_string()]
    });
    put(
        "samples.csv",
        "one value per test, mode, repeat and metric",
        &["test", "mode", "repeat", "metric", "value"],
        samples.collect(),
    )?;
    let courses = record.courses.iter().flat_map(|c| {
        let row = |t: &super::record::Tick| {
            vec![
                c.test.into(),
                c.mode.into(),
                c.repeat.to_string(),
                format!("{:.6}", t.at_s),
                t.bytes.to_string(),
                t.packets.to_string(),
            ]
        };
        c.ticks.iter().map(row).collect::<Vec<_>>()
    });
    let header = ["test", "mode", "repeat", "time_s", "bytes", "packets"];
    put(
        "courses.csv",
        "bytes and packets of the host since an operation began, every 100 ms",
        &header,
        courses.collect(),
    )?;
    let power_ons = record.power_ons.iter().map(|p| {
        vec![p.mode.into(), p.repeat.to_string(), p.host.to_string(), p.vm.to_string(), p.time_s.to_string()]
    });
    put(
        "power_ons.csv",
        "time to power on of every VM",
        &["mode", "repeat", "host", "vm", "time_s"],
        power_ons.collect(),
    )?;
    let filling = record.filling.iter().map(|f| {
        vec![
            f.repeat.to_string(),
            f.written_bytes.to_string(),
            f.used_percent.to_string(),
            f.event.unwrap_or("").into(),
        ]
    });
    put(
        "thin.csv",
        "the thin pool while a host writes",
        &["repeat", "written_bytes", "used_percent", "event"],
        filling.collect(),
    )?;
    Ok(files)
}
