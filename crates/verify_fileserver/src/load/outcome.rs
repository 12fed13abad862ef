//! What clients did: bytes and files, how long a file took, second by second; and all clients together.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Copies of a file are timed from 1 µs to an hour, to three digits.
const COPY_US_MAX: u64 = 3_600_000_000;
/// Distinct times that are taken from the wire: three digits over nine decades.
const TIMES_MAX: usize = 32_768;
/// A day, second by second.
const SECONDS_MAX: usize = 86_400;

/// Files that were copied one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Copies {
    pub files: u64,
    pub bytes: u64,
    /// How long, µs, and how often: each growing.
    pub times_us: Vec<(u64, u64)>,
}

/// What one client did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientOutcome {
    /// From the server.
    pub reads: Copies,
    /// To it.
    pub writes: Copies,
    /// Folders that were listed on the way.
    pub folders: u64,
    /// Files that did not have the content that they were created with.
    pub mismatches: u64,
    /// Bytes copied in each second from the start.
    pub seconds: Vec<u64>,
    /// When the first worker began, by the client's clock.
    pub began_ns: u64,
    /// When the last one ended.
    pub ended_ns: u64,
}

/// Copies while they are counted.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    files: u64,
    bytes: u64,
    times_us: Histogram<u64>,
}

impl Counted {
    pub(super) fn new() -> Counted {
        let times_us = Histogram::new_with_bounds(1, COPY_US_MAX, 3).expect("bounds that it takes");
        Counted { files: 0, bytes: 0, times_us }
    }

    pub(super) fn add(&mut self, bytes: u64, took_us: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.times_us.saturating_record(took_us.max(1));
    }

    pub(super) fn merge(&mut self, other: &Counted) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.times_us.add(&other.times_us).expect("the same bounds");
    }

    pub(super) fn copies(&self) -> Copies {
        let recorded = self.times_us.iter_recorded();
        let times_us = recorded.map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        Copies { files: self.files, bytes: self.bytes, times_us }
    }
}

/// What is wrong with what a client says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OutcomeError {
    /// Too much of something.
    #[error("a client says more than {0} {1}")]
    TooMany(usize, &'static str),
    /// Sums that no run has.
    #[error("a client reported impossible totals")]
    Sums,
}

impl ClientOutcome {
    /// Whether it can be what a client did: it comes over the wire.
    pub(super) fn check(&self) -> Result<(), OutcomeError> {
        for copies in [&self.reads, &self.writes] {
            if copies.times_us.len() > TIMES_MAX {
                return Err(OutcomeError::TooMany(TIMES_MAX, "times"));
            }
            let times = copies.times_us.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
            if times != Some(copies.files) {
                return Err(OutcomeError::Sums);
            }
        }
        if self.seconds.len() > SECONDS_MAX {
            return Err(OutcomeError::TooMany(SECONDS_MAX, "seconds"));
        }
        let seconds = self.seconds.iter().try_fold(0u64, |sum, bytes| sum.checked_add(*bytes));
        let bytes = self.reads.bytes.checked_add(self.writes.bytes);
        if seconds.is_none() || seconds != bytes || self.ended_ns < self.began_ns {
            return Err(OutcomeError::Sums);
        }
        Ok(())
    }
}

/// Latency of a whole copy, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CopyTimes {
    pub files: u64,
    pub bytes: u64,
    /// Half were quicker.
    pub median_ms: f64,
    /// 95 of 100 were.
    pub p95_ms: f64,
    /// 99 of 100 were.
    pub p99_ms: f64,
}

/// All clients together.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Outcome {
    pub clients: usize,
    /// Workers of each.
    pub workers: u32,
    /// From the first start to the last end, seconds.
    pub seconds: f64,
    /// 10^6 bytes per second, both ways.
    pub mb_per_s: f64,
    /// From the server.
    pub reads: CopyTimes,
    /// To it.
    pub writes: CopyTimes,
    /// Folders listed.
    pub folders: u64,
    /// Files without the content of their creation.
    pub mismatches: u64,
    /// Between the first and the last client's start, by one clock, milliseconds.
    pub start_spread_ms: f64,
    /// The offsets of the clients' clocks are at most so wrong, milliseconds.
    pub clock_error_ms: f64,
    /// MB/s of each client.
    pub client_mb_per_s: Vec<f64>,
    /// Bytes in each second, all clients.
    pub bytes_per_second: Vec<u64>,
}

fn times(of: &[&Copies]) -> CopyTimes {
    let mut all = Counted::new();
    for copies in of {
        for (us, count) in &copies.times_us {
            all.times_us.saturating_record_n((*us).max(1), *count);
        }
    }
    let ms = |share| all.times_us.value_at_quantile(share) as f64 / 1e3;
    CopyTimes {
        files: of.iter().map(|c| c.files).sum(),
        bytes: of.iter().map(|c| c.bytes).sum(),
        median_ms: ms(0.5),
        p95_ms: ms(0.95),
        p99_ms: ms(0.99),
    }
}

/// Of a client that was checked: what it did, with its beginning and end by the clock of who merges.
pub(super) struct Placed {
    pub(super) outcome: ClientOutcome,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) clock_error_ns: u64,
}

/// All clients together. At least one.
pub(super) fn merge(placed: &[Placed], workers: u32) -> Outcome {
    let first = placed.iter().map(|p| p.began_ns).min().unwrap_or_default();
    let last_start = placed.iter().map(|p| p.began_ns).max().unwrap_or_default();
    let end = placed.iter().map(|p| p.ended_ns).max().unwrap_or_default();
    let seconds = (end.saturating_sub(first)).max(1) as f64 / 1e9;
    let reads: Vec<&Copies> = placed.iter().map(|p| &p.outcome.reads).collect();
    let writes: Vec<&Copies> = placed.iter().map(|p| &p.outcome.writes).collect();
    let (reads, writes) = (times(&reads), times(&writes));
    let rate = |p: &Placed| {
        let took = p.ended_ns.saturating_sub(p.began_ns).max(1) as f64 / 1e9;
        (p.outcome.reads.bytes + p.outcome.writes.bytes) as f64 / took / 1e6
    };
    let mut bytes_per_second = Vec::new();
    for p in placed {
        // Clients begin within milliseconds: their seconds are taken as the same.
        let later = (p.began_ns.saturating_sub(first) / 1_000_000_000) as usize;
        for (second, bytes) in p.outcome.seconds.iter().enumerate() {
            let at = (second + later).min(SECONDS_MAX);
            if bytes_per_second.len() <= at {
                bytes_per_second.resize(at + 1, 0);
            }
            bytes_per_second[at] += bytes;
        }
    }
    Outcome {
        clients: placed.len(),
        workers,
        seconds,
        mb_per_s: (reads.bytes + writes.bytes) as f64 / seconds / 1e6,
        reads,
        writes,
        folders: placed.iter().map(|p| p.outcome.folders).sum(),
        mismatches: placed.iter().map(|p| p.outcome.mismatches).sum(),
        start_spread_ms: last_start.saturating_sub(first) as f64 / 1e6,
        clock_error_ms: placed.iter().map(|p| p.clock_error_ns).max().unwrap_or_default() as f64 / 1e6,
        client_mb_per_s: placed.iter().map(rate).collect(),
        bytes_per_second,
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{:.2} MB/s: {} files of {} bytes in {:.2} s, {} clients with {} workers each",
            self.mb_per_s,
            self.reads.files + self.writes.files,
            self.reads.bytes + self.writes.bytes,
            self.seconds,
            self.clients,
            self.workers
        )?;
        for (name, of) in [("read", self.reads), ("written", self.writes)] {
            writeln!(
                f,
                "{name:<8} {} files, {} bytes; a copy took {:.1} ms in the median, 95 % within {:.1}, 99 % within {:.1}",
                of.files, of.bytes, of.median_ms, of.p95_ms, of.p99_ms
            )?;
        }
        write!(
            f,
            "{} folders listed; starts within {:.3} ms (clocks known to {:.3} ms); clients {:.2?} MB/s",
            self.folders, self.start_spread_ms, self.clock_error_ms, self.client_mb_per_s
        )?;
        if self.mismatches > 0 {
            write!(f, "\n{} files do not have the content that they were created with", self.mismatches)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientOutcome {
        let mut reads = Counted::new();
        reads.add(3_000_000, 1000);
        reads.add(1_000_000, 2000);
        let seconds = vec![3_000_000, 1_000_000];
        ClientOutcome {
            reads: reads.copies(),
            seconds,
            began_ns: 5,
            ended_ns: 2_000_000_005,
            ..Default::default()
        }
    }

    #[test]
    fn clients_are_merged_by_one_clock() {
        let placed = |began_ns| Placed {
            outcome: client(),
            began_ns,
            ended_ns: began_ns + 2_000_000_000,
            clock_error_ns: 1000,
        };
        client().check().expect("what a client did");
        let all = merge(&[placed(0), placed(2_000_000)], 8);
        assert_eq!((all.reads.files, all.reads.bytes, all.clients), (4, 8_000_000, 2));
        assert!((all.mb_per_s - 8.0 / 2.002).abs() < 1e-9 && (all.start_spread_ms - 2.0).abs() < 1e-9);
        assert_eq!(all.bytes_per_second, [6_000_000, 2_000_000]);
        assert!((all.reads.p99_ms - 2.0).abs() < 0.01);
    }

    #[test]
    fn sums_that_cannot_be_are_refused() {
        let changes: [fn(&mut ClientOutcome); 5] = [
            |c| c.reads.files = 3,
            |c| c.seconds.push(u64::MAX),
            |c| c.seconds = vec![1; SECONDS_MAX + 1],
            |c| c.ended_ns = 0,
            |c| c.writes.times_us = vec![(1, u64::MAX), (2, 2)],
        ];
        for change in changes {
            let mut outcome = client();
            change(&mut outcome);
            assert!(outcome.check().is_err(), "{outcome:?}");
        }
    }
}
