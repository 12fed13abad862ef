//! How fast the array of `verify sanboot` runs in the model world: eight servers, half an hour of virtual time on each of its two layouts.

use std::time::Duration;

use anyhow::Result;
use lab::sanboot::experiment;
use lab::sanboot::results::{Layout, Pattern};

const SERVERS: u32 = 8;
/// Of virtual time; another number of minutes as the argument.
const MINUTES: u64 = 30;

fn main() -> Result<()> {
    let minutes = std::env::args().nth(1).map_or(Ok(MINUTES), |text| text.parse())?;
    println!("{SERVERS} servers, 4 KiB, {minutes} minutes of virtual time each, one core");
    for (pattern, layout, drives) in [
        (Pattern::RandomMix, Layout::Raid5x4, 12),
        (Pattern::RandomMix, Layout::Raid1x8, 16),
        (Pattern::RandomRead, Layout::Raid1x8, 16),
        (Pattern::SequentialMix, Layout::Raid1x8, 16),
        (Pattern::SequentialRead, Layout::Raid5x4, 12),
    ] {
        let (point, wall) = experiment(pattern, layout, SERVERS, Duration::from_secs(60 * minutes))?;
        let seconds = wall.as_secs_f64();
        println!(
            "{:<16} {:<8} {drives} drives: {:>9} I/Os in {seconds:>6.2} s: {:>7.0} per second; virtual : real {:.0}",
            point.pattern.name(),
            point.layout.name(),
            point.array_ios,
            point.array_ios as f64 / seconds,
            point.virtual_s / seconds,
        );
    }
    Ok(())
}
