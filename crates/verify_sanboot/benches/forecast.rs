//! How far forecasts are off: fitted on 1, 2, 4, 5 and 6 servers, held against runs of 3 and of 7 to 16, for
//! every pattern and layout and five seeds; and of two loads that the method was not made with.
//!
//! ```text
//!   cargo bench -p verify_sanboot --bench forecast [-- DIR [SEEDS]]   points are kept in DIR, and read from there
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab_core::parallel;
use verify_sanboot::bar::{self, Row};
use verify_sanboot::results::{Layout, Pattern, Results};

/// Seeds that are judged unless others are named.
const SEEDS: u64 = 5;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let dir = words.next().map(PathBuf::from);
    let seeds = words.next().map_or(Ok(SEEDS), |text| text.parse()).context("the number of seeds")?;
    let mut all = Vec::new();
    for seed in 1..=seeds {
        let points = points(seed, dir.as_deref())?;
        let (mut rows, held_out) = (bar::rows(&points), bar::rows_held_out(&points));
        println!("seed {seed}: {}", words_of(&rows));
        println!("seed {seed}, loads that nobody fitted: {}", words_of(&held_out));
        rows.extend(held_out);
        all.push(rows);
    }
    println!();
    for pattern in Pattern::ALL.into_iter().chain(Pattern::HELD_OUT) {
        for layout in [Layout::Raid5x4, Layout::Raid1x8] {
            let of = |row: &&Row| row.pattern == pattern && row.layout == layout;
            for (seed, rows) in (1..).zip(&all) {
                let cell = |row: &Row| {
                    row.forecast.map_or(format!("{}:-", row.servers), |held| {
                        let mark = if held.is_within { "" } else { "!" };
                        format!("{}:{:+.1}{mark}", row.servers, 100.0 * held.error)
                    })
                };
                let cells: Vec<String> = rows.iter().filter(of).map(cell).collect();
                println!("{:<16} {:<8} {seed}  {}", pattern.name(), layout.name(), cells.join("  "));
            }
        }
    }
    let all: Vec<Row> = all.into_iter().flatten().collect();
    println!("\nall seeds: {}", words_of(&all));
    Ok(())
}

/// Those of a seed: from the folder, or run and kept there.
fn points(seed: u64, dir: Option<&Path>) -> Result<Results> {
    let path = dir.map(|dir| dir.join(format!("points_{seed}.json")));
    if let Some(text) = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) {
        return serde_json::from_str(&text).context("points of another version");
    }
    let results = bar::points(seed, parallel::cores())?;
    if let Some(path) = path {
        std::fs::write(&path, serde_json::to_string(&results)?)
            .with_context(|| path.display().to_string())?;
    }
    Ok(results)
}

fn words_of(rows: &[Row]) -> String {
    let worst = |between: bool| {
        let worst = bar::worst(rows.iter().filter(|row| bar::is_between(row) == between));
        worst.map_or("none".into(), |(row, error)| {
            let place = format!("{}, {}, {}", row.pattern.name(), row.layout.name(), row.servers);
            format!("{:.1} % ({place})", 100.0 * error)
        })
    };
    let held: Vec<_> = rows.iter().filter_map(|row| row.forecast).collect();
    let within = held.iter().filter(|held| held.is_within).count();
    format!(
        "worst between {}, beyond {}; refused {:.1} % of {}; the interval holds {} of {}",
        worst(true),
        worst(false),
        100.0 * bar::refused(rows),
        rows.len(),
        within,
        held.len()
    )
}
