//! Events, and their channel from the controllers to the event log.
//!
//! A controller sends an event and continues: nothing on its thread waits for a file. The receiver adds time
//! and number. If it does not keep up, events are lost, and it learns how many.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::why::named_once;

/// Capacity of the channel. A large array sends such a burst when it starts.
const QUEUE_LEN: usize = 16_384;

/// The importance of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Normal operation.
    Info,
    /// An operator should look at it; everything is served.
    Warning,
    /// Something is not served, or data are at risk.
    Error,
}

impl Severity {
    /// `info`, `warning` or `error`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Something that happened to an object of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// How much it matters.
    pub severity: Severity,
    /// The object, as in `group g0`; `array` if the event concerns all of it.
    pub object: String,
    /// What happened, without the object.
    pub text: String,
    /// Who caused it: an administrator or a host; `None` if the array did it by itself.
    pub who: Option<String>,
}

impl Event {
    /// An event of the array itself.
    pub fn new(severity: Severity, object: impl Into<String>, text: impl Into<String>) -> Event {
        let object = object.into();
        Event { severity, text: named_once(&object, &text.into()), object, who: None }
    }

    /// An event of normal operation.
    pub fn info(object: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(Severity::Info, object, text)
    }

    /// An event that an operator should look at.
    pub fn warning(object: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(Severity::Warning, object, text)
    }

    /// An event about something that is not served, or data at risk.
    pub fn error(object: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(Severity::Error, object, text)
    }

    /// The same event, caused by `who`.
    pub fn by(self, who: impl Into<String>) -> Event {
        Event { who: Some(who.into()), ..self }
    }

    /// An event of normal operation, from a line that begins with its object, as in `group g0: scrub
    /// stopped`.
    pub fn of_line(line: &str) -> Event {
        const KINDS: [&str; 9] =
            ["group", "pool", "volume", "image", "drive", "spare", "host", "policy", "port"];
        let parts = line
            .split_once(": ")
            .filter(|(object, _)| object.split_once(' ').is_some_and(|(kind, _)| KINDS.contains(&kind)));
        let (object, text) = parts.unwrap_or(("array", line));
        Event::info(object, text)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.text)
    }
}

/// The sending end. Cheap to clone, usable from every thread; sending never waits.
#[derive(Clone)]
pub struct EventSender {
    sender: async_channel::Sender<Event>,
    lost: Arc<AtomicU64>,
}

/// The receiving end. Cheap to clone: each event reaches one of the clones.
#[derive(Clone)]
pub struct EventReceiver {
    receiver: async_channel::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

/// Creates the channel.
pub fn event_channel() -> (EventSender, EventReceiver) {
    let (sender, receiver) = async_channel::bounded(QUEUE_LEN);
    let lost = Arc::new(AtomicU64::new(0));
    (EventSender { sender, lost: lost.clone() }, EventReceiver { receiver, lost })
}

impl EventSender {
    /// Sends an event. If the channel is full, the event is counted as lost.
    pub fn tell(&self, event: Event) {
        if self.sender.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts events that were lost on their way here.
    pub(crate) fn lose(&self, events: u64) {
        self.lost.fetch_add(events, Ordering::Relaxed);
    }
}

impl EventReceiver {
    /// Waits for the next event; `None` when all senders are dropped.
    pub async fn next(&self) -> Option<Event> {
        self.receiver.recv().await.ok()
    }

    /// The next event, if one is queued.
    pub fn try_next(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// Closes the channel; queued events can still be received.
    pub fn close(&self) {
        self.receiver.close();
    }

    /// The number of events lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_event_of_the_object_it_begins_with() {
        let of = |line: &str| {
            let event = Event::of_line(line);
            (event.object.clone(), event.text.clone(), event.to_string())
        };
        let (object, text, shown) = of("group g0: drive d1 failed: EIO");
        assert_eq!((object.as_str(), text.as_str()), ("group g0", "drive d1 failed: EIO"));
        assert_eq!(shown, "group g0: drive d1 failed: EIO");
        assert_eq!(of("nothing known: here").0, "array");
        assert_eq!(of("no colon").0, "array");
    }

    #[test]
    fn events_that_nobody_takes_are_counted_and_nobody_waits() {
        let (sender, receiver) = event_channel();
        (0..QUEUE_LEN + 3).for_each(|n| sender.tell(Event::info("array", n.to_string())));
        assert_eq!((receiver.take_lost(), receiver.take_lost()), (3, 0));
        assert_eq!(receiver.try_next().map(|e| e.text), Some("0".to_owned()));
    }
}
