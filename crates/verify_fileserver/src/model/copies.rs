//! How long each file took its worker: two runs of the same work are compared file by file. Pure.
//!
//! What clients copy in a second is decided by the few files of hundreds of MB among thousands. Two runs with
//! the same seed copy the same files in the same order, so the time that these take does not depend on that.

use std::collections::BTreeMap;

use serde::Serialize;

/// A file that a worker copied: from the first look at its folder to its last byte.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in super::super) struct Copied {
    /// Which piece of work: the same one in both runs, whichever worker has it.
    pub(in super::super) unit: u32,
    pub(in super::super) file: u32,
    /// From the server; else to it.
    pub(in super::super) is_read: bool,
    pub(in super::super) from_ns: u64,
    pub(in super::super) to_ns: u64,
}

/// Time of all workers together, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(in super::super) struct Spent {
    /// In a window of a run.
    pub(in super::super) here_s: f64,
    /// What the same parts of the same files took in the other run.
    pub(in super::super) there_s: f64,
}

/// Of a window: files that are read, and files that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(in super::super) struct SpentBy {
    pub(in super::super) reading: Spent,
    pub(in super::super) writing: Spent,
}

/// What each file took, by unit and number, in nanoseconds.
pub(in super::super) type Times = BTreeMap<(u32, u32), u64>;

pub(in super::super) fn times(copied: &[Copied]) -> Times {
    copied.iter().map(|one| ((one.unit, one.file), one.to_ns - one.from_ns)).collect()
}

/// The time that workers spent in each window, and what the same work took in another run. `ends_ns` are the
/// ends of windows that follow one another; the first one begins `window_ns` before its end. A file that the
/// other run does not have ends the list: what follows cannot be compared.
pub(in super::super) fn compare(
    copied: &[Copied],
    other: &Times,
    (ends_ns, window_ns): (&[u64], u64),
) -> Vec<SpentBy> {
    let mut out = vec![SpentBy::default(); ends_ns.len()];
    for one in copied {
        let there = other.get(&(one.unit, one.file));
        let took = (one.to_ns - one.from_ns).max(1) as f64;
        let first = ends_ns.partition_point(|end| *end <= one.from_ns);
        for place in first..out.len() {
            let from = ends_ns[place].saturating_sub(window_ns).max(one.from_ns);
            let to = ends_ns[place].min(one.to_ns);
            if from >= one.to_ns {
                break;
            }
            let Some(there) = there else {
                out.truncate(place);
                break;
            };
            let here_s = to.saturating_sub(from) as f64 / 1e9;
            let there_s = here_s * *there as f64 / took;
            let spent = if one.is_read { &mut out[place].reading } else { &mut out[place].writing };
            spent.here_s += here_s;
            spent.there_s += there_s;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn copied(file: u32, is_read: bool, from_s: u64, to_s: u64) -> Copied {
        Copied { unit: 0, file, is_read, from_ns: from_s * S, to_ns: to_s * S }
    }

    #[test]
    fn the_same_files_are_compared_however_large_they_are() {
        // A read of 2 s that takes 1 s elsewhere, a write of 10 s that takes 20, and a read of 1 s.
        let own = [copied(1, true, 0, 2), copied(2, false, 0, 10), copied(3, true, 2, 3)];
        let there = times(&[copied(3, true, 0, 1), copied(2, false, 0, 20), copied(1, true, 5, 6)]);
        let ends: Vec<u64> = (1..=4).map(|s| s * S).collect();
        let all = compare(&own, &there, (&ends, S));
        let reading: Vec<(f64, f64)> = all.iter().map(|w| (w.reading.here_s, w.reading.there_s)).collect();
        assert_eq!(reading, [(1.0, 0.5), (1.0, 0.5), (1.0, 1.0), (0.0, 0.0)]);
        assert!(all.iter().all(|w| w.writing == Spent { here_s: 1.0, there_s: 2.0 }), "{all:?}");
    }

    #[test]
    fn windows_end_where_the_other_run_has_no_such_file() {
        let own = [copied(1, true, 0, 2), copied(2, true, 2, 4), copied(3, true, 4, 5)];
        let ends: Vec<u64> = (1..=6).map(|s| s * S).collect();
        let count = |there: &[Copied]| compare(&own, &times(there), (&ends, S)).len();
        assert_eq!(count(&[copied(1, true, 0, 1)]), 2);
        assert_eq!(count(&[copied(1, true, 0, 1), copied(2, true, 1, 2)]), 4);
        assert_eq!(count(&[]), 0);
    }
}
