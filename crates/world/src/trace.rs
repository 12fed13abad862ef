//! Where the time of one command went: spans within spans, recorded on its way down.
//!
//! A [`Trace`] is handed down with the operations of a command that was chosen; all others have none, and pay
//! a branch. What is recorded is a plain value ([`Recorded`]), which goes to another thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::Instant;

/// Spans of one command at most: a command of many stripe units has an operation for each. Further ones are
/// counted.
pub const SPANS_MAX: usize = 128;

/// One stage that a command passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRecord {
    /// The span that it is within, by index; `None`: the command itself.
    pub parent: Option<u16>,
    /// Which stage: the names of the metrics.
    pub stage: &'static str,
    /// The object of the stage: a pool, a group, a drive; may be empty.
    pub object: String,
    /// When it began.
    pub began: Instant,
    /// When it ended; `None` while it runs.
    pub ended: Option<Instant>,
}

/// What was recorded of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// In the order in which they began.
    pub spans: Vec<SpanRecord>,
    /// Spans beyond [`SPANS_MAX`].
    pub left_out: u32,
}

struct Recorder {
    clock: Box<dyn Fn() -> Instant>,
    recorded: RefCell<Recorded>,
    /// What was recorded is gone: operations that still run have no place in it.
    taken: Cell<bool>,
}

/// A place in the trace of a command that runs: what is recorded through it lies within this place.
#[derive(Clone)]
pub struct Trace {
    recorder: Rc<Recorder>,
    within: Option<u16>,
}

/// A stage that a command passes; it ends when this is dropped. Without a trace it is empty.
#[must_use = "the stage ends when this is dropped"]
pub struct OpenSpan(Option<Trace>);

impl Trace {
    /// The trace of a command, with what was recorded of it so far, in a world with this clock.
    pub fn resume(clock: impl Fn() -> Instant + 'static, recorded: Recorded) -> Trace {
        let (clock, recorded) = (Box::new(clock), RefCell::new(recorded));
        let recorder = Recorder { clock, recorded, taken: Cell::new(false) };
        Trace { recorder: Rc::new(recorder), within: None }
    }

    /// Ends the recording.
    pub fn take(self) -> Recorded {
        self.recorder.taken.set(true);
        self.recorder.recorded.take()
    }

    /// Begins a stage within this place.
    pub fn begin(&self, stage: &'static str, object: &str) -> OpenSpan {
        let began = (self.recorder.clock)();
        if self.recorder.taken.get() {
            return OpenSpan(None);
        }
        let mut recorded = self.recorder.recorded.borrow_mut();
        let index = recorded.spans.len();
        if index >= SPANS_MAX {
            recorded.left_out += 1;
            return OpenSpan(None);
        }
        let (parent, object) = (self.within, object.to_owned());
        recorded.spans.push(SpanRecord { parent, stage, object, began, ended: None });
        OpenSpan(Some(Trace { recorder: self.recorder.clone(), within: Some(index as u16) }))
    }
}

impl OpenSpan {
    /// Begins a stage of a command, if the command is traced.
    pub fn begin(trace: Option<&Trace>, stage: &'static str, object: &str) -> OpenSpan {
        trace.map_or(OpenSpan(None), |trace| trace.begin(stage, object))
    }

    /// The place for what lies within this stage.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.as_ref()
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let Some(Trace { recorder, within: Some(index) }) = &self.0 else { return };
        let now = (recorder.clock)();
        if let Some(span) = recorder.recorded.borrow_mut().spans.get_mut(usize::from(*index)) {
            span.ended = Some(now);
        }
    }
}
