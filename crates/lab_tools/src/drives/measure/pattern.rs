//! The single requests of a disk's trace: what tells seeks, rotation and the cache apart.

use std::time::Duration;

use world::Rng;
use world_model::drives::Kind;

use super::probe::{MeasureError, Plan, Probe, Writing};
use crate::drives::trace::{Arrival, Trace, TraceRequest};

/// The longest request: a quarter of a track of a large disk.
const BLOCKS_MAX: u64 = 256;
/// The longest pause before a request, in which a disk reads ahead and its platters turn on.
const PAUSE_MAX_US: u64 = 20_000;
/// Of a hundred requests so many are writes, if there are any.
const WRITES_PERCENT: u32 = 30;
/// Progress is told after so many.
const TOLD_EVERY: usize = 400;

/// One request after the other, and how long each took.
pub(super) async fn trace(
    probe: &mut Probe<'_>,
    plan: Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<Trace, MeasureError> {
    let mut rng = probe.world.random("drive measure, requests");
    let mut requests = Vec::with_capacity(plan.requests);
    let mut end = 0;
    let mut completed = probe.world.now();
    let mut left_out = 0;
    while requests.len() < plan.requests && !probe.stop.is_asked() {
        let done = requests.len();
        if done.is_multiple_of(TOLD_EVERY) {
            progress(&format!("single requests, {done} of {}", plan.requests));
        }
        let (block, blocks) = next(&mut rng, end, probe);
        let kind = match plan.writes != Writing::None && rng.u32(..100) < WRITES_PERCENT {
            true => Kind::Write,
            false => Kind::Read,
        };
        // Most follow at once.
        if rng.u32(..10) < 3 {
            probe.world.sleep(Duration::from_micros(rng.u64(..PAUSE_MAX_US))).await;
        }
        let pause_ns = probe.world.now().since(completed).as_nanos() as u64;
        let took = match kind {
            Kind::Write => Some(write(probe, block, blocks).await?),
            _ => probe.read(block, blocks).await?.map(|(_, ns)| ns),
        };
        completed = probe.world.now();
        end = block + blocks;
        let Some(response_ns) = took else {
            left_out += 1;
            continue;
        };
        let (arrival, line) = (Arrival::After(pause_ns), done + 1);
        requests.push(TraceRequest { kind, block, blocks, response_ns, arrival, line });
    }
    if requests.is_empty() {
        return Err(MeasureError::Stopped("before the first single request".into()));
    }
    Ok(Trace { requests, left_out })
}

async fn write(probe: &Probe<'_>, block: u64, blocks: u64) -> Result<u64, MeasureError> {
    let begun = probe.world.now();
    probe.write(block, blocks).await?;
    Ok(probe.world.now().since(begun).as_nanos() as u64)
}

/// The next request after one that ended here: anywhere, at a distance of any order of magnitude, in
/// sequence, or long.
fn next(rng: &mut Rng, end: u64, probe: &Probe<'_>) -> (u64, u64) {
    let unit = probe.unit().max(8);
    let near = |rng: &mut Rng| {
        let most = (probe.len_blocks() / 4).max(unit + 1) as f64;
        let distance = (unit as f64 * (most / unit as f64).powf(rng.f64())) as u64 / unit * unit;
        match rng.bool() {
            true => end.saturating_add(distance),
            false => end.saturating_sub(distance),
        }
    };
    let (block, blocks) = match rng.u32(..100) {
        0..45 => (probe.anywhere(rng, unit), unit),
        45..75 => (near(rng), unit),
        75..90 => (end, unit),
        _ => (probe.anywhere(rng, BLOCKS_MAX), rng.u64(8..=BLOCKS_MAX / unit) * unit),
    };
    (block.min(probe.len_blocks() - blocks) / unit * unit, blocks)
}
