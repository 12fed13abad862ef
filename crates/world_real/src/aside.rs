//! Blocking calls, made on helper threads: no thread of a world makes a call that may wait for a drive.
//!
//! ```text
//!   world ──ask(lane, call)──> lane of the path: calls in order ──> at most one thread works on a lane
//!     ^                                                                  │
//!     └───────── wake ──── Answer (dropped: nobody waits any more) <─────┘
//! ```
//!
//! A lane is a path: calls about one path run in order, so that a released file is closed before it is opened
//! again. A drive that never answers blocks one thread and its lane; others are unaffected. Threads are
//! started on demand and end when idle.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

type Call = Box<dyn FnOnce() + Send>;

/// Drives that may hang at once before calls about others are refused.
const THREADS_MAX: usize = 256;
/// Calls that wait in one lane. More are refused, except those that close something.
const WAITING_MAX: usize = 8;
/// A thread without work ends after this time.
const IDLE_TIME_MAX: Duration = Duration::from_secs(10);

static LANES: Lanes = Lanes { state: Mutex::new(State::new()), work: Condvar::new() };

struct Lanes {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    /// The calls that wait behind the current one; a lane without an entry is idle.
    waiting: BTreeMap<PathBuf, VecDeque<Call>>,
    /// Lanes without a thread.
    ready: VecDeque<PathBuf>,
    threads: usize,
    idle: usize,
}

impl State {
    const fn new() -> State {
        State { waiting: BTreeMap::new(), ready: VecDeque::new(), threads: 0, idle: 0 }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues a call. Returns false if too many wait and it may be refused.
fn queue(lane: &Path, call: Call, may_be_refused: bool) -> bool {
    let mut state = lock(&LANES.state);
    if let Some(waiting) = state.waiting.get_mut(lane) {
        if may_be_refused && waiting.len() >= WAITING_MAX {
            return false;
        }
        waiting.push_back(call);
        return true;
    }
    if may_be_refused && state.idle <= state.ready.len() && state.threads >= THREADS_MAX {
        return false;
    }
    state.waiting.insert(lane.to_owned(), VecDeque::from([call]));
    state.ready.push_back(lane.to_owned());
    if state.idle < state.ready.len() && state.threads < THREADS_MAX {
        let started = thread::Builder::new().name("aside".to_owned()).spawn(work);
        // Without a new thread, the lane waits for a running one.
        state.threads += usize::from(started.is_ok());
    }
    drop(state);
    LANES.work.notify_one();
    true
}

/// One helper thread: takes a lane, makes its waiting calls, takes the next.
fn work() {
    let mut state = lock(&LANES.state);
    loop {
        if let Some(lane) = state.ready.pop_front() {
            while let Some(call) = state.waiting.get_mut(&lane).and_then(VecDeque::pop_front) {
                drop(state);
                call();
                state = lock(&LANES.state);
            }
            state.waiting.remove(&lane);
            continue;
        }
        state.idle += 1;
        let (woken, waited) =
            LANES.work.wait_timeout(state, IDLE_TIME_MAX).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if waited.timed_out() && state.ready.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

enum Slot<T> {
    Waiting(Option<Waker>),
    Done(T),
    /// Taken, or nobody waits for it.
    Over,
}

/// The result of a call.
pub(crate) struct Answer<T>(Arc<Mutex<Slot<T>>>);

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = lock(&self.0);
        match std::mem::replace(&mut *slot, Slot::Over) {
            Slot::Done(value) => Poll::Ready(value),
            Slot::Waiting(_) => {
                *slot = Slot::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
            Slot::Over => unreachable!("an answer is taken once"),
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        // The result is dropped after the lock is released.
        let _late = std::mem::replace(&mut *lock(&self.0), Slot::Over);
    }
}

/// Makes a call about `lane` on another thread; `None` if too many wait. A call without a waiter is skipped
/// when its turn comes; a late result is dropped on the helper thread.
pub(crate) fn ask<T: Send + 'static>(
    lane: &Path,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<Answer<T>> {
    let slot = Arc::new(Mutex::new(Slot::Waiting(None)));
    let there = slot.clone();
    let made = move || {
        if matches!(*lock(&there), Slot::Over) {
            return;
        }
        let value = call();
        let mut slot = lock(&there);
        match &mut *slot {
            Slot::Waiting(waker) => {
                let waker = waker.take();
                *slot = Slot::Done(value);
                drop(slot);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Slot::Done(_) | Slot::Over => {
                drop(slot);
                drop(value);
            }
        }
    };
    queue(lane, Box::new(made), true).then_some(Answer(slot))
}

/// The closes that one world has handed over.
#[derive(Clone, Default)]
pub(crate) struct Closings(Arc<(Mutex<usize>, Condvar)>);

impl Closings {
    /// Drops a value on another thread, after all earlier calls about `lane`.
    pub(crate) fn close(&self, lane: &Path, end: impl FnOnce() + Send + 'static) {
        *lock(&self.0.0) += 1;
        let own = self.clone();
        let made = move || {
            end();
            *lock(&own.0.0) -= 1;
            own.0.1.notify_all();
        };
        queue(lane, Box::new(made), false);
    }

    /// Waits until everything is closed, except what hangs: at most `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut open = lock(&self.0.0);
        while *open > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            open = self.0.1.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_call_that_hangs_holds_its_own_lane_and_no_other() {
        let (go, wait) = mpsc::channel::<()>();
        let (said, heard) = mpsc::channel();
        let say = |text: &'static str| {
            let said = said.clone();
            move || said.send(text).is_ok()
        };
        let begun = say("begun");
        let hung = ask(Path::new("/hung"), move || begun() && wait.recv().is_ok()).expect("taken");
        assert_eq!(heard.recv(), Ok("begun"));
        let behind = ask(Path::new("/hung"), say("behind")).expect("taken");
        let given_up = ask(Path::new("/hung"), say("nobody waits")).expect("taken");
        drop(given_up);
        let beside = ask(Path::new("/beside"), say("beside")).expect("taken");
        assert_eq!(heard.recv(), Ok("beside"), "while the first one hangs");
        let more = (0..WAITING_MAX).map(|_| ask(Path::new("/hung"), || ())).filter(Option::is_none);
        assert_eq!(more.count(), 2, "what waits in a lane is bounded");
        let closings = Closings::default();
        closings.close(Path::new("/hung"), || ());
        closings.wait(Duration::from_millis(1));
        assert_eq!(*lock(&closings.0.0), 1, "it comes after what hangs");
        go.send(()).expect("it waits");
        closings.wait(Duration::from_secs(60));
        assert_eq!((heard.recv(), heard.try_recv().is_err()), (Ok("behind"), true));
        drop((hung, behind, beside));
    }
}
