//! How a load goes while it runs: counters that its threads share with whoever watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::job::Plan;

/// One worker's counters, on a cache line of their own.
#[derive(Default)]
#[repr(align(128))]
struct Meter {
    ios: AtomicU64,
    bytes: AtomicU64,
}

/// What all workers did so far, warm-up included, and whether they are to stop.
pub(super) struct Live {
    meters: Vec<Meter>,
    stopped: AtomicBool,
}

impl Live {
    pub(super) fn new(workers: usize) -> Live {
        Live { meters: (0..workers).map(|_| Meter::default()).collect(), stopped: AtomicBool::new(false) }
    }

    /// Of one worker, whose thread alone writes its counters.
    pub(super) fn count(&self, worker: usize, bytes: u64) {
        let Some(meter) = self.meters.get(worker) else { return };
        meter.ios.store(meter.ios.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        meter.bytes.store(meter.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn total(&self) -> (u64, u64) {
        let sum =
            |of: fn(&Meter) -> &AtomicU64| self.meters.iter().map(|m| of(m).load(Ordering::Relaxed)).sum();
        (sum(|m| &m.ios), sum(|m| &m.bytes))
    }
}

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// Shows on standard error how it goes, until it is stopped.
pub(super) fn show(plan: &Plan, live: Arc<Live>) -> JoinHandle<()> {
    let all = Duration::from_secs_f64(plan.warm_up_seconds + plan.seconds);
    let warm_up = Duration::from_secs_f64(plan.warm_up_seconds);
    let style = ProgressStyle::with_template("{bar:24.cyan/dim} {elapsed:>4}  {msg}");
    let bar = ProgressBar::new(all.as_millis() as u64);
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    std::thread::spawn(move || {
        let from = Instant::now();
        let (mut at, mut before) = (from, live.total());
        while !live.is_stopped() {
            std::thread::sleep(LOOK.min(all));
            let (now, total) = (Instant::now(), live.total());
            let seconds = (now - at).as_secs_f64();
            let per_s = |new: u64, old: u64| (new - old) as f64 / seconds;
            let phase = if now - from < warm_up { "warm-up: " } else { "" };
            bar.set_position((now - from).min(all).as_millis() as u64);
            bar.set_message(format!(
                "{phase}{:.0} IOPS, {:.1} MB/s",
                per_s(total.0, before.0),
                per_s(total.1, before.1) / 1e6
            ));
            (at, before) = (now, total);
        }
        bar.finish_and_clear();
    })
}
