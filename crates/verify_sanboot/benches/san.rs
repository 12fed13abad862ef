//! How fast the array of `verify sanboot` runs in the model world: eight servers on 28 drives, half an hour
//! of virtual time on each of the two layouts; then shorter, what other patterns cost.

use std::time::Duration;

use anyhow::Result;
use verify_sanboot::experiment;
use verify_sanboot::results::{Layout, Pattern};

const SERVERS: u32 = 8;
/// Pattern, layout, its drives, minutes of virtual time.
const EXPERIMENTS: [(Pattern, Layout, u32, u64); 5] = [
    (Pattern::RandomMix, Layout::Raid5x4, 12, 30),
    (Pattern::RandomMix, Layout::Raid1x8, 16, 30),
    (Pattern::RandomRead, Layout::Raid1x8, 16, 2),
    (Pattern::SequentialMix, Layout::Raid1x8, 16, 2),
    (Pattern::SequentialRead, Layout::Raid5x4, 12, 2),
];

fn main() -> Result<()> {
    println!("{SERVERS} servers, 4 KiB, one core");
    for (pattern, layout, drives, minutes) in EXPERIMENTS {
        let (point, wall) = experiment(pattern, layout, SERVERS, Duration::from_secs(60 * minutes))?;
        let seconds = wall.as_secs_f64();
        println!(
            "{:<16} {:<8} {drives} drives, {minutes:>2} min: {:>9} I/Os in {seconds:>6.2} s: {:>7.0} per second; virtual : real {:.0}",
            point.pattern.name(),
            point.layout.name(),
            point.array_ios,
            point.array_ios as f64 / seconds,
            point.virtual_s / seconds,
        );
    }
    Ok(())
}
