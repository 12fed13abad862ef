//! Sequential reads and writes with several requests under way.

use std::collections::VecDeque;
use std::time::Duration;

use world_model::drives::BLOCK_BYTES;

use super::probe::{MeasureError, Probe};

/// One request of a stream.
const REQUEST_BLOCKS: u64 = (256 << 10) / BLOCK_BYTES;
/// So many are under way, so that the drive always knows the next one.
const DEPTH: usize = 8;
/// Requests of a stream that are counted; a small drive has fewer.
const COUNTED: u64 = 128;
/// Those before them, in which the arm finds its place.
const UNCOUNTED: u64 = 8;

/// The rates of sequential reads at the beginning of as many equal parts of the drive, in bytes per second;
/// none if somebody stops before all are there.
pub(super) async fn rates(
    probe: &mut Probe<'_>,
    parts: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<f64>, MeasureError> {
    let mut rates = Vec::with_capacity(parts);
    for part in 0..parts as u64 {
        if probe.stop.is_asked() {
            return Ok(vec![]);
        }
        progress(&format!("sequential reads, part {} of {parts}", part + 1));
        let from = probe.len_blocks() / parts as u64 * part / REQUEST_BLOCKS * REQUEST_BLOCKS;
        rates.push(reads(probe, from, probe.len_blocks() / parts as u64).await?);
    }
    Ok(rates)
}

/// The rate of sequential reads from this block on, within so many, in bytes per second.
pub(super) async fn reads(probe: &mut Probe<'_>, from: u64, within: u64) -> Result<f64, MeasureError> {
    let count = (within / REQUEST_BLOCKS).clamp(2, UNCOUNTED + COUNTED);
    let uncounted = UNCOUNTED.min(count / 2);
    let places = (0..count).map(|i| (from + i * REQUEST_BLOCKS, REQUEST_BLOCKS));
    let time = probe.read_many(places, DEPTH, uncounted as usize).await?;
    Ok(((count - uncounted) * REQUEST_BLOCKS * BLOCK_BYTES) as f64 / time.as_secs_f64())
}

/// The rates of sequential writes from the drive's beginning on, chunk by chunk, in bytes per second; as many
/// as there are when somebody stops.
pub(super) async fn writes(
    probe: &mut Probe<'_>,
    chunks: usize,
    chunk_bytes: u64,
) -> Result<Vec<f64>, MeasureError> {
    let requests = chunk_bytes / BLOCK_BYTES / REQUEST_BLOCKS;
    let mut rates = Vec::with_capacity(chunks);
    let mut under_way = VecDeque::with_capacity(DEPTH);
    for chunk in 0..chunks as u64 {
        if chunk > 0 && probe.stop.is_asked() {
            break;
        }
        let begun = probe.world.now();
        for i in 0..requests {
            let block = (chunk * requests + i) * REQUEST_BLOCKS;
            under_way.push_back(probe.write(block, REQUEST_BLOCKS));
            if under_way.len() == DEPTH {
                under_way.pop_front().expect("one is under way").await?;
            }
        }
        // To the end: a chunk of few requests would else have been issued, and counted as written.
        while let Some(write) = under_way.pop_front() {
            write.await?;
        }
        let seconds = probe.world.now().since(begun).max(Duration::from_nanos(1)).as_secs_f64();
        rates.push((requests * REQUEST_BLOCKS * BLOCK_BYTES) as f64 / seconds);
    }
    Ok(rates)
}
