//! The outcome: a table for people, a line of JSON for programs.

use std::fmt::Write as _;

use crate::pattern::Pattern;
use crate::processor::Load;

/// Outcome of one run of a pattern.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Outcome {
    pub pattern: Pattern,
    /// Seconds until the last file was complete.
    pub seconds: f64,
    /// Throughput of all files together, 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Throughput of the slowest file.
    pub slowest_mb_per_s: f64,
    /// Throughput of the fastest file.
    pub fastest_mb_per_s: f64,
    /// Processor load during the run.
    pub load: Load,
    /// Whether all I/O bypassed the page cache.
    pub direct: bool,
    /// Blocks of 4 KiB with wrong content.
    pub wrong: u64,
}

const HEADER: [&str; 9] =
    ["pattern", "files", "does", "seconds", "MB/s", "slowest", "fastest", "machine CPU", "own CPU"];

/// A table, a row for each outcome. Columns are as wide as their widest cell.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(outcomes.iter().map(|o| {
        [
            o.pattern.name.clone(),
            o.pattern.to_string(),
            o.pattern.direction.name().into(),
            format!("{:.2}", o.seconds),
            format!("{:.1}", o.mb_per_s),
            format!("{:.1}", o.slowest_mb_per_s),
            format!("{:.1}", o.fastest_mb_per_s),
            format!("{:.1} %", o.load.machine_percent),
            format!("{:.1} %", o.load.process_percent),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0..3 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// One line of JSON. Names of patterns are letters and digits, so nothing needs escaping.
pub fn json(o: &Outcome) -> String {
    format!(
        "{{\"pattern\":\"{}\",\"direction\":\"{}\",\"files\":{},\"file_bytes\":{},\"seconds\":{:.6},\"mb_per_s\":{:.4},\
         \"slowest_mb_per_s\":{:.4},\"fastest_mb_per_s\":{:.4},\"machine_percent\":{:.3},\"steal_percent\":{:.3},\
         \"process_percent\":{:.3},\"direct\":{},\"wrong\":{}}}",
        o.pattern.name,
        o.pattern.direction.name(),
        o.pattern.files,
        o.pattern.file_bytes,
        o.seconds,
        o.mb_per_s,
        o.slowest_mb_per_s,
        o.fastest_mb_per_s,
        o.load.machine_percent,
        o.load.steal_percent,
        o.load.process_percent,
        o.direct,
        o.wrong
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_a_row_and_a_line() {
        let pattern: Pattern = "R1".parse().expect("known");
        let load = Load { machine_percent: 12.34, steal_percent: 0.0, process_percent: 5.0 };
        let one = Outcome {
            pattern,
            seconds: 2.0,
            mb_per_s: 4294.97,
            slowest_mb_per_s: 60.0,
            fastest_mb_per_s: 70.25,
            load,
            direct: true,
            wrong: 0,
        };
        assert_eq!(
            table(std::slice::from_ref(&one)),
            "pattern  files        does  seconds    MB/s  slowest  fastest  machine CPU  own CPU\n\
             R1       64 × 128 MB  read     2.00  4295.0     60.0     70.2       12.3 %    5.0 %\n"
        );
        assert!(json(&one).starts_with(
            "{\"pattern\":\"R1\",\"direction\":\"read\",\"files\":64,\"file_bytes\":134217728,\"seconds\":2.000000,"
        ));
    }
}
