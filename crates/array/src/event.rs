//! What happened: events, and their way from the controllers to whoever keeps them.
//!
//! A controller tells an event and goes on: nothing on its thread waits for a file. Who receives them puts time and number
//! to them; a receiver that does not keep up loses events, and is told how many.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events on their way to who keeps them. A burst is what a large array says when it starts.
const QUEUE_LEN: usize = 16_384;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something happened, as it should.
    Info,
    /// Something is to be looked at; everything is served.
    Warning,
    /// Something is not served, or data are in danger.
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
    /// What it happened to, as in `group g0`; `array` where it is about the whole.
    pub object: String,
    /// What happened, without the object.
    pub text: String,
    /// Who did it: an administrator, a host; nobody where the array did it by itself.
    pub who: Option<String>,
}

impl Event {
    /// An event that nobody caused.
    pub fn new(severity: Severity, object: impl Into<String>, text: impl Into<String>) -> Event {
        Event { severity, object: object.into(), text: text.into(), who: None }
    }

    /// Something happened, as it should.
    pub fn info(object: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(Severity::Info, object, text)
    }

    /// Something is to be looked at.
    pub fn warning(object: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(Severity::Warning, object, text)
    }

    /// Something is not served, or data are in danger.
    pub fn error(object: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(Severity::Error, object, text)
    }

    /// The same, done by somebody.
    pub fn by(self, who: impl Into<String>) -> Event {
        Event { who: Some(who.into()), ..self }
    }

    /// Something happened as it should: a line that begins with its object, as in `group g0: its scrub ends`.
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

/// The sending end; cheap to clone, usable from every thread, never waits.
#[derive(Clone)]
pub struct EventSender {
    sender: async_channel::Sender<Event>,
    lost: Arc<AtomicU64>,
}

/// The receiving end; cheap to clone: each event reaches one of the copies.
#[derive(Clone)]
pub struct EventReceiver {
    receiver: async_channel::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

/// The two ends of the way of events.
pub fn event_channel() -> (EventSender, EventReceiver) {
    let (sender, receiver) = async_channel::bounded(QUEUE_LEN);
    let lost = Arc::new(AtomicU64::new(0));
    (EventSender { sender, lost: lost.clone() }, EventReceiver { receiver, lost })
}

impl EventSender {
    /// Tells an event. Where nobody keeps up, it is counted instead.
    pub fn tell(&self, event: Event) {
        if self.sender.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl EventReceiver {
    /// Waits for the next event; nothing when all senders are gone.
    pub async fn next(&self) -> Option<Event> {
        self.receiver.recv().await.ok()
    }

    /// The next event, when there is one already.
    pub fn try_next(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// Takes no more events; those that are there are still given.
    pub fn close(&self) {
        self.receiver.close();
    }

    /// How many events were lost since this was asked last.
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
