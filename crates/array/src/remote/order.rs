//! The order of commands and events ([`scsi::Arrival`]) over two processes.
//!
//! Each process numbers its own events, and an arrival of a command is the number of the last event
//! before it. Every frame has the number of the sender's last event. When the receiver hears of a new
//! one, that is an event of its own, and it notes both numbers: what it knew of the other side, and since
//! when.
//!
//! * A command that goes to the other side gets the last event there that this side knew of **when the
//!   command arrived**. An event there of which this side had not heard counts as later than the command: a
//!   command is never taken for younger than it is. A host that sends one before the news is here sends it
//!   again.
//! * An event that comes with a logical unit from the other side counts as before all commands: see
//!   [`Order::received`].
//!
//! What this side hears from the other one it does not tell it again; others that it tells hear of it.

use std::collections::VecDeque;

use scsi::Arrival;

/// Moments that are remembered. A command that is older than all of them has waited for as many frames of
/// news: it is not sent, and its host gets BUSY.
const HEARD_MAX: usize = 4096;

/// Marks the number of an event as one of the receiver's process.
const YOURS: u64 = 1 << 63;

#[derive(Clone, Copy)]
struct Heard {
    /// The event here that the news was.
    own: u64,
    /// The last event there.
    theirs: u64,
}

/// What both sides know of each other's events.
pub(super) struct Order {
    heard: VecDeque<Heard>,
    /// The last event here that was not news from the other side.
    others: u64,
    told: u64,
    /// Both sides are one process: the numbers are the same.
    is_one: bool,
}

impl Order {
    pub(super) fn new() -> Order {
        Order { heard: VecDeque::new(), others: 0, told: 0, is_one: false }
    }

    pub(super) fn in_one_process() -> Order {
        Order { is_one: true, ..Order::new() }
    }

    /// Hears of the events of the other side. `event` numbers an event here.
    pub(super) fn hear(&mut self, theirs: u64, event: impl FnOnce() -> u64) {
        let known = self.heard.back();
        if self.is_one || known.is_some_and(|last| last.theirs >= theirs) {
            return;
        }
        let before = known.map_or(0, |last| last.own);
        let own = event();
        if own - 1 > before {
            self.others = own - 1;
        }
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(Heard { own, theirs });
    }

    /// What to tell the other side now. `latest`: the last event here.
    pub(super) fn tell(&mut self, latest: u64) -> u64 {
        self.told = self.to_tell(latest);
        self.others = self.told;
        self.told
    }

    /// Whether the other side has to hear of events.
    pub(super) fn has_news(&self, latest: u64) -> bool {
        !self.is_one && self.to_tell(latest) > self.told
    }

    fn to_tell(&self, latest: u64) -> u64 {
        let last_heard = self.heard.back().map_or(0, |last| last.own);
        if latest > last_heard { latest } else { self.others }
    }

    /// An arrival here, in the order of the other side. None: it is older than anything that is known.
    pub(super) fn arrival(&self, arrival: Arrival) -> Option<Arrival> {
        if self.is_one {
            return Some(arrival);
        }
        let at = self.heard.partition_point(|heard| heard.own <= arrival.after());
        Some(arrival.renumbered(self.heard[at.checked_sub(1)?].theirs))
    }

    /// The number of an event here, for the other side, which gives it to [`Order::received`].
    pub(super) fn sent(&mut self, event: u64) -> u64 {
        if self.is_one {
            return event;
        }
        match self.heard.binary_search_by_key(&event, |heard| heard.own) {
            Ok(at) => self.heard[at].theirs | YOURS,
            Err(_) => {
                self.others = self.others.max(event);
                event
            }
        }
    }

    /// The number here of an event that the other side sent. One of the other side was before all commands
    /// that are here now: those that it concerns ended with it where it happened, since a logical unit leaves
    /// when none of its commands runs. A later number could not be told from that of a command that came
    /// after it.
    pub(super) fn received(&self, event: u64) -> u64 {
        match (self.is_one, event & YOURS != 0) {
            (true, _) => event,
            (false, true) => event & !YOURS,
            (false, false) => 0,
        }
    }
}
