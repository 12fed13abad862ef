//! Sliding windows over the I/Os of a VM. Pure.

use super::vm::Done;

/// Between two sliding windows.
pub(super) const STEP_NS: u64 = 50_000_000;
/// The worst of a hundred windows counts, not the worst of all.
pub(super) const WORST_SHARE: f64 = 0.01;

/// Bytes that ended in each sliding window.
pub(super) fn windows(done: &[Done], from_ns: u64, to_ns: u64, window_ns: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let (mut first, mut end, mut sum) = (done.partition_point(|d| d.at_ns < from_ns), 0, 0);
    end = end.max(first);
    let mut from = from_ns;
    while from + window_ns <= to_ns {
        while let Some(d) = done.get(end).filter(|d| d.at_ns < from + window_ns) {
            sum += d.bytes;
            end += 1;
        }
        while let Some(d) = done.get(first).filter(|d| d.at_ns < from) {
            sum -= d.bytes;
            first += 1;
        }
        out.push(sum);
        from += STEP_NS;
    }
    out
}

/// The worst of a hundred.
pub(super) fn worst(mut windows: Vec<u64>) -> f64 {
    windows.sort_unstable();
    let at = (windows.len() as f64 * WORST_SHARE) as usize;
    windows.get(at).copied().unwrap_or_default() as f64
}
