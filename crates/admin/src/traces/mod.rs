//! Sends the traces of commands to an OpenTelemetry collector, in batches, on the tokio side.
//!
//! A collector that is away costs the array nothing: a batch is tried a few times, then it is dropped and
//! counted, and until the collector answers again only one batch in ten seconds is tried.

mod collector;
mod messages;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use array::{Event, EventSender, TraceReceiver, Traced};
use config::TraceSettings;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use spans::TimeOfDay;

use self::collector::{Undelivered, send};
use crate::random::random;

/// Traces of one request at most.
const BATCH_MAX: usize = 256;
/// How long the first trace of a batch waits for others.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Pauses before a batch is tried again.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// How often a collector that is away is tried.
const AWAY_INTERVAL: Duration = Duration::from_secs(10);
/// What an ordered stop waits for the last batches.
const STOP_TIME: Duration = Duration::from_secs(3);

/// What became of traces since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceCounts {
    pub(crate) sent: u64,
    /// The collector was away, or refused them.
    pub(crate) undelivered: u64,
    /// The queue between controllers and exporter was full.
    pub(crate) queue: u64,
    /// Chosen above the limit per second.
    pub(crate) limit: u64,
}

#[derive(Default)]
struct Delivered {
    sent: AtomicU64,
    undelivered: AtomicU64,
}

/// The counters of an exporter; cheap to clone.
#[derive(Clone)]
pub struct TraceMeter {
    delivered: Arc<Delivered>,
    receiver: TraceReceiver,
}

impl TraceMeter {
    pub(crate) fn counts(&self) -> TraceCounts {
        TraceCounts {
            sent: self.delivered.sent.load(Ordering::Relaxed),
            undelivered: self.delivered.undelivered.load(Ordering::Relaxed),
            queue: self.receiver.lost_in_queue(),
            limit: self.receiver.over_limit(),
        }
    }
}

/// A running exporter.
pub struct TraceExporter {
    meter: TraceMeter,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl TraceExporter {
    /// Sends on what arrives there, on the current tokio runtime.
    pub fn start(receiver: TraceReceiver, events: EventSender, time_of_day: TimeOfDay) -> TraceExporter {
        let delivered = Arc::new(Delivered::default());
        let meter = TraceMeter { delivered: delivered.clone(), receiver: receiver.clone() };
        let (stop, stopped) = oneshot::channel();
        let exporter = Exporter { receiver, events, time_of_day, delivered, batch: vec![], away: None };
        TraceExporter { meter, stop, task: tokio::spawn(run(exporter, stopped)) }
    }

    /// Its counters.
    pub fn meter(&self) -> TraceMeter {
        self.meter.clone()
    }

    /// Sends what is still queued, for a limited time, and ends.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        // It has panicked, or ended: there is nothing more to send.
        let _ = self.task.await;
    }
}

/// A collector that did not take the last batch.
struct Away {
    since_dropped: u64,
    try_at: Instant,
}

struct Exporter {
    receiver: TraceReceiver,
    events: EventSender,
    time_of_day: TimeOfDay,
    delivered: Arc<Delivered>,
    /// What goes out next: all to one collector.
    batch: Vec<Traced>,
    away: Option<Away>,
}

async fn run(mut exporter: Exporter, mut stopped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            more = exporter.send_next() => if !more { return },
            _ = &mut stopped => break,
        }
    }
    let _ = tokio::time::timeout(STOP_TIME, exporter.send_rest()).await;
}

impl Exporter {
    /// Sends a batch: `false` after the last one. May be dropped at any time: the batch stays.
    async fn send_next(&mut self) -> bool {
        if self.batch.is_empty() {
            match self.receiver.next().await {
                Some(first) => self.batch.push(first),
                None => return false,
            }
        }
        tokio::time::sleep(BATCH_TIME).await;
        self.fill();
        self.deliver(&PAUSES).await;
        true
    }

    /// What is left at the end, each batch tried once.
    async fn send_rest(&mut self) {
        loop {
            self.fill();
            if self.batch.is_empty() {
                return;
            }
            self.deliver(&[]).await;
        }
    }

    /// Takes what is queued into the batch.
    fn fill(&mut self) {
        while self.batch.len() < BATCH_MAX
            && let Some(traced) = self.receiver.try_next()
        {
            self.batch.push(traced);
        }
    }

    /// Sends the batch, or drops it.
    async fn deliver(&mut self, pauses: &[Duration]) {
        let Some(last) = self.batch.last() else { return };
        // Traces of a declaration that is no longer in force go where the new one says; none: nowhere.
        let config = last.config.clone();
        let count = self.batch.len() as u64;
        let outcome = match (&config.traces, &self.away) {
            (None, _) => Err(None),
            (Some(_), Some(away)) if Instant::now() < away.try_at => Err(None),
            (Some(settings), away) => {
                let pauses = if away.is_some() { &[] } else { pauses };
                self.attempt(&config, settings, pauses).await.map_err(|error| Some((settings, error)))
            }
        };
        self.batch.clear();
        match outcome {
            Ok(refused) => {
                self.delivered.sent.fetch_add(count, Ordering::Relaxed);
                self.answers(refused);
            }
            Err(failure) => {
                self.delivered.undelivered.fetch_add(count, Ordering::Relaxed);
                if let Some((settings, error)) = failure {
                    self.is_away(settings, &error);
                }
                self.away.iter_mut().for_each(|away| away.since_dropped += count);
            }
        }
    }

    async fn attempt(
        &self,
        config: &array::Config,
        settings: &TraceSettings,
        pauses: &[Duration],
    ) -> Result<Option<String>, Undelivered> {
        let mut all = Vec::new();
        for traced in &self.batch {
            let ids: [u8; 24] =
                random().map_err(|e| Undelivered { cause: e.to_string(), may_recover: false })?;
            let (trace, number) = ids.split_first_chunk().expect("24 bytes begin with 16");
            let number = number.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
            all.extend(spans::spans_of(traced, (*trace, number), self.time_of_day));
        }
        let request = spans::request(config, all);
        let mut pauses = pauses.iter();
        loop {
            match (send(settings, &request).await, pauses.next()) {
                (Err(error), Some(pause)) if error.may_recover => {
                    tracing::debug!("traces: {}: {}", settings.endpoint, error.cause);
                    tokio::time::sleep(*pause).await;
                }
                (outcome, _) => return outcome,
            }
        }
    }

    /// Says once that a collector is away.
    fn is_away(&mut self, settings: &TraceSettings, error: &Undelivered) {
        let (endpoint, cause) = (&settings.endpoint, &error.cause);
        let try_at = Instant::now() + AWAY_INTERVAL;
        match &mut self.away {
            Some(away) => away.try_at = try_at,
            None => {
                let text = format!("the collector at {endpoint} takes no traces: {cause}; they are dropped");
                self.events.tell(Event::warning("traces", text));
                self.away = Some(Away { since_dropped: 0, try_at });
            }
        }
    }

    fn answers(&mut self, refused: Option<String>) {
        if let Some(away) = self.away.take() {
            let text = format!("the collector takes traces again; {} were dropped", away.since_dropped);
            self.events.tell(Event::info("traces", text));
        }
        if let Some(refused) = refused {
            tracing::debug!("traces: the collector has refused {refused}");
        }
    }
}
