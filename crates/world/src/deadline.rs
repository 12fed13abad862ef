//! Deadlines of drive operations: how long a drive may be silent.
//!
//! ```text
//!   submitted ────── slow ────────────── given up ─────── ended by the world
//!             2 s: whoever can do        10 s: the caller hears [`DriveError::Silent`]; what the
//!             without it need not wait   operation works with stays with the world
//! ```
//!
//! Time is counted in turns of a task that runs while something is in flight, so that an operation needs no
//! timer and no clock, and a suspended process blames no drive for it.
//!
//! A drive with a long queue is busy, not silent: while its operations end, the others may take so much
//! longer as the queue that they were in is long. Once none has ended for the whole time, all of them are
//! silent.
//!
//! Until abandoned operations have ended, the drive accepts no others: it is unknown when the old ones will
//! be carried out, and a write must not be overtaken by one that its caller believes to have ended. So there
//! are never more of them than were in flight at once.
//!
//! A flush that fails after its caller went away fails the next one: a system reports a failed write-back
//! only once, so the next flush would succeed and call durable what was lost.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::io::{Completions, Followed, Unheard};
use crate::latency::{Latencies, Stopwatch};
use crate::{DriveError, Filled, Io, Kind, LatencyCounts, TaskBackend};

/// A turn of the count.
const TURN: Duration = Duration::from_millis(250);
/// The task ends after this many turns without an operation.
const IDLE_TURNS_MAX: u32 = 40;
/// What a slow drive does in a turn, beside other work: operations, and bytes of them.
const OPERATIONS_PER_TURN: u64 = 10;
const BYTES_PER_TURN: u64 = 4 << 20;
/// Zeroing takes time for its length: each of these lengths gets another turn if zeros are cheap; written
/// ones take as long as other bytes.
const CHEAP_ZEROS_PER_TURN: u64 = 256 << 20;

/// How long a drive may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After this time an operation is slow: other drives are asked for what they can answer.
    pub slow: Duration,
    /// After this time it is abandoned.
    pub drop: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { slow: Duration::from_secs(2), drop: Duration::from_secs(10) }
    }
}

/// So many turns, of which the current one began at some time.
fn turns(time: Duration) -> u64 {
    time.as_millis().div_ceil(TURN.as_millis()) as u64 + 1
}

/// An operation in flight.
struct Entry<T> {
    op: Followed<T>,
    /// When it was submitted, later by the turns that its own length takes.
    from: u64,
    /// The longest queue that it was in, in turns of a slow drive.
    queue: u64,
    slow: bool,
    given_up: bool,
    /// What the drive moves for it, and the memory that it holds.
    moved_bytes: u64,
    bytes: u64,
}

type Entries<T> = RefCell<VecDeque<Entry<T>>>;

/// What is looked at in a turn.
#[derive(Clone, Copy)]
struct Turn {
    now: u64,
    /// Since any operation of the drive has ended.
    quiet: u64,
    /// What is in flight now, in turns of a slow drive.
    queue: u64,
    patience: Patience,
    may_give_up: bool,
}

impl Turn {
    /// Whether an operation takes longer than this time, and not because of the drive's other work.
    fn is_over<T>(&self, time: Duration, entry: &Entry<T>) -> bool {
        let (age, time) = (self.now.saturating_sub(entry.from), turns(time));
        age >= time && (self.quiet >= time || age >= time + entry.queue)
    }
}

/// The first failure of a flush whose caller did not hear of it.
#[derive(Default)]
struct UnheardFlush(RefCell<Option<DriveError>>);

impl Unheard<Result<(), DriveError>> for UnheardFlush {
    fn unheard(&self, outcome: Result<(), DriveError>) {
        match outcome {
            // Of a flush that was given up: how it ends is heard later.
            Ok(()) | Err(DriveError::Silent { .. }) => {}
            Err(error) => drop(self.0.borrow_mut().get_or_insert(error)),
        }
    }
}

/// The silent operations of a drive, as of the last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Whether an operation is slow.
    pub slow: bool,
    /// Abandoned operations that have not ended.
    pub given_up: u32,
    /// The memory that they hold.
    pub given_up_bytes: u64,
}

/// The operations of one drive.
#[derive(Default)]
pub(crate) struct Deadlines {
    drive: String,
    cheap_zero: bool,
    patience: Cell<Patience>,
    tasks: OnceCell<(Rc<dyn TaskBackend>, Rc<Latencies>)>,
    turn: Cell<u64>,
    /// The last turn in which an operation ended, or the first one after nothing was in flight.
    ended_at: Cell<u64>,
    runs: Cell<bool>,
    reads: Entries<Filled>,
    others: Entries<Result<(), DriveError>>,
    silence: Cell<Silence>,
    /// Whether operations may be abandoned now; always, if unset.
    may_give_up: RefCell<Option<Rc<dyn Fn() -> bool>>>,
    /// All operations that were abandoned.
    silences: Cell<u64>,
    unheard_flush: Rc<UnheardFlush>,
    /// For flushes that fail with the error of an earlier one.
    failed_flushes: Completions<Result<(), DriveError>>,
}

impl Deadlines {
    pub(crate) fn new(drive: String, cheap_zero: bool) -> Deadlines {
        Deadlines { drive, cheap_zero, ..Deadlines::default() }
    }

    /// Enables deadlines. A drive that has them keeps its first clock.
    pub(crate) fn begin(&self, tasks: &Rc<dyn TaskBackend>) {
        self.tasks.get_or_init(|| (tasks.clone(), Rc::new(Latencies::new(tasks.clone()))));
    }

    pub(crate) fn set_patience(&self, patience: Patience) {
        self.patience.set(patience);
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience.get()
    }

    pub(crate) fn silence(&self) -> Silence {
        self.silence.get()
    }

    pub(crate) fn silences(&self) -> u64 {
        self.silences.get()
    }

    pub(crate) fn p99(&self) -> Option<Duration> {
        self.tasks.get().and_then(|(_, latencies)| latencies.p99())
    }

    /// Its reads and writes since it was opened, as far as they were measured.
    pub(crate) fn latencies(&self) -> (LatencyCounts, LatencyCounts) {
        self.tasks.get().map(|(_, latencies)| latencies.stage.counts()).unwrap_or_default()
    }

    /// Why the drive accepts nothing now.
    pub(crate) fn refusal(&self) -> Option<DriveError> {
        self.has_given_up().then(|| self.silent())
    }

    /// Whether an abandoned operation has not ended.
    pub(crate) fn has_given_up(&self) -> bool {
        // As of the last turn; it may have ended since.
        self.silence.get().given_up > 0 && (has_given_up(&self.reads) || has_given_up(&self.others))
    }

    pub(crate) fn ask_before_giving_up(&self, may: Rc<dyn Fn() -> bool>) {
        *self.may_give_up.borrow_mut() = Some(may);
    }

    pub(crate) fn silent(&self) -> DriveError {
        DriveError::Silent { drive: self.drive.clone(), secs: self.patience.get().drop.as_secs() }
    }

    pub(crate) fn read(self: &Rc<Self>, io: &Io<Filled>, bytes: u64) {
        self.follow(io, &self.reads, (bytes, bytes), 0, Some(Kind::Read));
    }

    pub(crate) fn write(self: &Rc<Self>, io: &Io<Result<(), DriveError>>, bytes: u64) {
        self.follow(io, &self.others, (bytes, bytes), 0, Some(Kind::Write));
    }

    pub(crate) fn zero(self: &Rc<Self>, io: &Io<Result<(), DriveError>>, len: u64) {
        let (more, moved) = match self.cheap_zero {
            true => (len / CHEAP_ZEROS_PER_TURN, 0),
            false => (len / BYTES_PER_TURN, len),
        };
        self.follow(io, &self.others, (moved, 0), more, None);
    }

    pub(crate) fn flush(self: &Rc<Self>, io: &Io<Result<(), DriveError>>) {
        io.unless_heard(self.unheard_flush.clone());
        self.follow(io, &self.others, (0, 0), 0, None);
    }

    /// The next flush, if an earlier one failed and nobody heard of it. If nobody hears of this one either,
    /// the one after it fails.
    pub(crate) fn failed_flush(&self) -> Option<Io<Result<(), DriveError>>> {
        let error = self.unheard_flush.0.take()?;
        let (io, completer) = self.failed_flushes.start();
        io.unless_heard(self.unheard_flush.clone());
        completer.complete(Err(error));
        Some(io)
    }

    pub(crate) fn probe(self: &Rc<Self>, io: &Io<Result<(), DriveError>>) {
        self.follow(io, &self.others, (0, 0), 0, None);
    }

    fn follow<T>(
        self: &Rc<Self>,
        io: &Io<T>,
        entries: &Entries<T>,
        (moved_bytes, bytes): (u64, u64),
        more: u64,
        timed: Option<Kind>,
    ) {
        let Some((tasks, latencies)) = self.tasks.get() else { return };
        let Some(op) = io.follow() else { return };
        if let Some(kind) = timed
            && latencies.stage.draws()
        {
            io.time(Stopwatch::start(latencies, kind));
        }
        let from = self.turn.get() + more;
        let entry = Entry { op, from, queue: 0, slow: false, given_up: false, moved_bytes, bytes };
        {
            let mut entries = entries.borrow_mut();
            while entries.front().is_some_and(|e| !e.op.is_in_flight()) {
                entries.pop_front();
                self.ended_at.set(self.turn.get());
            }
            entries.push_back(entry);
        }
        if !self.runs.replace(true) {
            let weak = Rc::downgrade(self);
            tasks.spawn(Box::pin(count(tasks.clone(), weak)));
        }
    }

    /// One turn. Returns whether something is in flight.
    fn count_turn(&self) -> bool {
        let now = self.turn.get() + 1;
        self.turn.set(now);
        let (reads, others) = (retain(&self.reads), retain(&self.others));
        if reads.ended || others.ended || reads.left + others.left == 0 {
            self.ended_at.set(now);
        }
        let mut turn = Turn {
            now,
            quiet: now - self.ended_at.get(),
            queue: (reads.left + others.left) / OPERATIONS_PER_TURN
                + (reads.moved_bytes + others.moved_bytes) / BYTES_PER_TURN,
            patience: self.patience.get(),
            may_give_up: false,
        };
        let due = is_due(&self.reads, turn) || is_due(&self.others, turn);
        turn.may_give_up = due && self.may_give_up.borrow().as_ref().is_none_or(|may| may());
        let error = || {
            self.silences.set(self.silences.get() + 1);
            self.silent()
        };
        let mut silence = Silence::default();
        let unfilled = || Filled { buf: crate::Buf::new(0), result: Err(error()) };
        look(&self.reads, turn, &mut silence, unfilled);
        look(&self.others, turn, &mut silence, || Err(error()));
        self.silence.set(silence);
        !self.reads.borrow().is_empty() || !self.others.borrow().is_empty()
    }
}

/// What is left of the entries when those that have ended are removed.
struct Left {
    ended: bool,
    left: u64,
    moved_bytes: u64,
}

fn retain<T>(entries: &Entries<T>) -> Left {
    let mut entries = entries.borrow_mut();
    let before = entries.len();
    entries.retain(|e| e.op.is_in_flight());
    Left {
        ended: entries.len() < before,
        left: entries.len() as u64,
        moved_bytes: entries.iter().map(|e| e.moved_bytes).sum(),
    }
}

fn is_due<T>(entries: &Entries<T>, turn: Turn) -> bool {
    entries.borrow().iter().any(|e| !e.given_up && turn.is_over(turn.patience.drop, e))
}

fn look<T>(entries: &Entries<T>, turn: Turn, silence: &mut Silence, mut outcome: impl FnMut() -> T) {
    for entry in &mut *entries.borrow_mut() {
        entry.queue = entry.queue.max(turn.queue);
        if !entry.slow && turn.is_over(turn.patience.slow, entry) {
            entry.slow = true;
            entry.op.tell_slow();
        }
        silence.slow |= entry.slow;
        if !entry.given_up && turn.may_give_up && turn.is_over(turn.patience.drop, entry) {
            entry.given_up = true;
            entry.op.give_up(outcome());
        }
        if entry.given_up {
            silence.given_up += 1;
            silence.given_up_bytes += entry.bytes;
        }
    }
}

fn has_given_up<T>(entries: &Entries<T>) -> bool {
    entries.borrow().iter().any(|e| e.given_up && e.op.is_in_flight())
}

async fn count(tasks: Rc<dyn TaskBackend>, deadlines: Weak<Deadlines>) {
    let mut idle = 0;
    loop {
        tasks.sleep_until(tasks.now() + TURN).await;
        let Some(deadlines) = deadlines.upgrade() else { return };
        idle = if deadlines.count_turn() { 0 } else { idle + 1 };
        if idle > IDLE_TURNS_MAX {
            deadlines.runs.set(false);
            return;
        }
    }
}
