//! How long servers run before they are measured: until what they get is steady.

use std::time::Duration;

use anyhow::Result;
use world::World;

use super::host::Ramp;
use super::scenario::Run;

/// How often, at least, a round looks whether it may end.
const LOOKS_PER_ROUND: u32 = 8;
/// SNIA PTS: five rounds, an excursion of at most 20 % of the mean, a trend of at most 10 %.
const STEADY_ROUNDS: usize = 5;
const EXCURSION_MAX: f64 = 0.20;
const TREND_MAX: f64 = 0.10;

/// Whether it settled; if not, after as many rounds as there may be.
pub(super) async fn warm_up(world: &World, ramp: &Ramp, run: &Run) -> Result<bool> {
    let mut rates = Vec::new();
    for _ in 0..run.rounds_max {
        let (before, from) = (ramp.counts.get().ios, world.now().0);
        pass(world, ramp, (run.round_ios, run.round_time.0)).await?;
        let (ios, ns) = (ramp.counts.get().ios - before, world.now().0 - from);
        rates.push(ios as f64 / ns as f64);
        if is_steady(&rates) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets so many I/Os pass, and so much time.
pub(super) async fn pass(world: &World, ramp: &Ramp, (ios, time): (u64, Duration)) -> Result<()> {
    let until = ramp.counts.get().ios + ios;
    let end = world.now() + time;
    while ramp.counts.get().ios < until || world.now() < end {
        world.sleep(time / LOOKS_PER_ROUND).await;
        ramp.check()?;
    }
    Ok(())
}

/// SNIA PTS: whether the last rounds are a steady state.
fn is_steady(rates: &[f64]) -> bool {
    let Some(last) = rates.last_chunk::<STEADY_ROUNDS>() else { return false };
    let mean = last.iter().sum::<f64>() / STEADY_ROUNDS as f64;
    let (low, high) = last.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    // The least squares line over rounds -2 to 2: its slope is the sum of position times rate over 10; across
    // the five rounds it climbs four slopes.
    let slope = last.iter().zip(-2..).map(|(rate, at)| rate * f64::from(at)).sum::<f64>() / 10.0;
    high - low <= EXCURSION_MAX * mean && (4.0 * slope).abs() <= TREND_MAX * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_state_neither_jumps_nor_climbs() {
        assert!(!is_steady(&[1.0; 4]));
        assert!(is_steady(&[9.0, 1.0, 1.05, 0.95, 1.0, 1.0]));
        assert!(!is_steady(&[1.0, 1.25, 0.95, 1.0, 1.0]));
        assert!(!is_steady(&[1.0, 1.03, 1.06, 1.09, 1.12]));
    }
}
