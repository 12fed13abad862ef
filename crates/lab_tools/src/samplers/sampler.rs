//! Readings at an interval: a thread for each source, all on one clock.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::counter::{Counter, between};
use super::series::{Sample, Series};

/// A thing that counts: the host, the array.
pub type Source = Box<dyn FnMut() -> Result<Vec<Counter>, String> + Send>;

/// A source and how often it is read.
pub struct Plan {
    /// "host", "array": of the series and its file.
    pub name: String,
    /// From reading to reading.
    pub interval: Duration,
    /// What is read.
    pub source: Source,
}

/// What samplers refuse.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum SamplerError {
    /// Faster than counters of the kernel change.
    #[error("samples of the {name} every {interval_ms} ms: 10 ms or more")]
    Interval {
        name: String,
        /// What was asked for.
        interval_ms: u128,
    },
    /// The system has no thread for it.
    #[error("a thread for samples: {0}")]
    Thread(#[from] std::io::Error),
}

/// Counters of the kernel are in ticks of 10 ms.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Of one source; a day at one second. After them nothing more is kept.
const SAMPLES_MAX: usize = 86_400;

/// Samplers that run until [`Samplers::end`]. Dropped, they end, too.
pub struct Samplers {
    clock: Instant,
    running: Vec<(Sender<()>, JoinHandle<Series>)>,
}

impl Samplers {
    /// Starts them; the clock of all samples begins at `clock`.
    pub fn start(clock: Instant, plans: Vec<Plan>) -> Result<Samplers, SamplerError> {
        if let Some(plan) = plans.iter().find(|plan| plan.interval < INTERVAL_MIN) {
            let interval_ms = plan.interval.as_millis();
            return Err(SamplerError::Interval { name: plan.name.clone(), interval_ms });
        }
        let mut running = Vec::new();
        for plan in plans {
            let (stop, stopped) = mpsc::channel();
            let name = format!("sample-{}", plan.name);
            let thread = thread::Builder::new().name(name).spawn(move || {
                take(
                    move || clock.elapsed(),
                    plan,
                    |wait| match stopped.recv_timeout(wait) {
                        Err(RecvTimeoutError::Timeout) => true,
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => false,
                    },
                )
            })?;
            running.push((stop, thread));
        }
        Ok(Samplers { clock, running })
    }

    /// Seconds on the clock now.
    pub fn now_s(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Ends them: the samples, one series for each source. What was counted since the last whole interval is
    /// a sample, too.
    pub fn end(self) -> Vec<Series> {
        let ended = self.running.into_iter().map(|(stop, thread)| {
            drop(stop);
            thread.join().unwrap_or_default()
        });
        ended.collect()
    }
}

/// Reads a source at every whole interval of the clock `now` until `wait`, which waits so long, says no.
///
/// Readings are due at whole intervals from the first one on, not an interval after the last: a late one
/// shortens the next sample.
pub fn take(now: impl Fn() -> Duration, mut plan: Plan, mut wait: impl FnMut(Duration) -> bool) -> Series {
    let mut series = Series { name: plan.name.clone(), ..Series::default() };
    let mut last: Option<(f64, Vec<Counter>)> = None;
    let begun = now();
    for number in 0..=SAMPLES_MAX as u32 {
        let due = begun + plan.interval * number;
        let goes_on = number == 0 || wait(due.saturating_sub(now()));
        let now_s = now().as_secs_f64();
        match (plan.source)() {
            Ok(reading) => {
                // What is shorter than a tick says nothing.
                let before = last.take().filter(|(from_s, _)| now_s - from_s >= INTERVAL_MIN.as_secs_f64());
                if let Some((from_s, before)) = before {
                    let values = between(&before, &reading, now_s - from_s);
                    series.samples.push(Sample { from_s, to_s: now_s, values });
                }
                last = Some((now_s, reading));
            }
            Err(why) => {
                last = None;
                series.failed = Some((series.failed.take().map_or(1, |(n, _)| n + 1), why));
            }
        }
        if !goes_on {
            break;
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn counting() -> Source {
        let mut count = 0;
        Box::new(move || {
            count += 100;
            match count {
                300 => Err("away".into()),
                _ => Ok(vec![Counter::rate("x", "events", "1/s", (count, 1.0))]),
            }
        })
    }

    #[test]
    fn sources_are_read_on_one_clock_and_a_failed_reading_is_a_gap() {
        let plan = Plan { name: "x".into(), interval: Duration::from_millis(20), source: counting() };
        let (now, waits) = (Cell::new(Duration::ZERO), Cell::new(0));
        let series = take(
            || now.get(),
            plan,
            |wait| {
                // The fourth wait is 5 ms late: the reading after it is due as if it had not been.
                waits.set(waits.get() + 1);
                now.set(now.get() + wait + Duration::from_millis(if waits.get() == 4 { 5 } else { 0 }));
                waits.get() < 6
            },
        );
        assert_eq!(series.failed, Some((1, "away".into())));
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        let spans: Vec<_> = series.samples.iter().map(|s| (ms(s.from_s), ms(s.to_s))).collect();
        assert_eq!(spans, [(0, 20), (60, 85), (85, 100), (100, 120)]);
    }

    #[test]
    fn samplers_end_at_once_with_what_they_have() {
        let plan = |interval| Plan { name: "x".into(), interval, source: counting() };
        let clock = Instant::now();
        let samplers = Samplers::start(clock, vec![plan(Duration::from_secs(3600))]).expect("starts");
        thread::sleep(Duration::from_millis(30));
        let series = samplers.end();
        assert!(clock.elapsed() < Duration::from_secs(60));
        assert_eq!(series[0].samples.len(), 1);
        let refused = Samplers::start(clock, vec![plan(Duration::from_millis(1))]).err().expect("refused");
        assert_eq!(refused.to_string(), "samples of the x every 1 ms: 10 ms or more");
    }
}
