//! The events of a controller: the status shows the latest, the data directory keeps all.

use std::cell::RefCell;
use std::collections::VecDeque;

use world::World;

use super::often::Often;
use crate::event::{Event, EventSender, Severity};

/// Events kept for the status.
const SHOWN_MAX: usize = 200;

/// The events of a controller.
pub(crate) struct Events {
    world: World,
    /// The channel to the event log.
    keeper: Option<EventSender>,
    /// The events that the status shows.
    shown: RefCell<VecDeque<Event>>,
    /// Rate limit for events that declared hosts cause.
    of_hosts: RefCell<Often>,
    /// Rate limit for events that anybody can cause.
    of_strangers: RefCell<Often>,
}

impl Events {
    /// The events of one of `controllers` controllers.
    pub(crate) fn new(world: World, controllers: usize, keeper: Option<EventSender>) -> Events {
        let often = || RefCell::new(Often::new(controllers));
        Events { world, keeper, shown: RefCell::default(), of_hosts: often(), of_strangers: often() }
    }

    /// Raises an event and shows it in the status. When the status is full, the oldest event leaves it.
    pub(crate) fn event(&self, event: Event) {
        if let Some(keeper) = &self.keeper {
            keeper.tell(event.clone());
        }
        let mut shown = self.shown.borrow_mut();
        if shown.len() == SHOWN_MAX {
            shown.pop_front();
        }
        shown.push_back(event);
    }

    /// Logs an event that a declared host or an undeclared initiator caused. The status does not show it,
    /// because there may be many.
    pub(crate) fn tell(&self, event: Event, is_host: bool) {
        let Some(keeper) = &self.keeper else { return };
        let often = if is_host { &self.of_hosts } else { &self.of_strangers };
        let event = often.borrow_mut().admit(event, self.world.now());
        event.into_iter().for_each(|event| keeper.tell(event));
    }

    /// Raises an info event from a line that begins with its object: `group g0: …`.
    pub(crate) fn note(&self, line: String) {
        self.event(Event::of_line(&line));
    }

    /// Raises a warning.
    pub(crate) fn warn(&self, line: String) {
        self.event(Event { severity: Severity::Warning, ..Event::of_line(&line) });
    }

    /// Raises an error: something is not served, or data are at risk.
    pub(crate) fn alarm(&self, line: String) {
        self.event(Event { severity: Severity::Error, ..Event::of_line(&line) });
    }

    /// Raises an event that would otherwise repeat, once.
    pub(crate) fn once(&self, severity: Severity, line: String) {
        let event = Event { severity, ..Event::of_line(&line) };
        if !self.shown.borrow().contains(&event) {
            self.event(event);
        }
    }

    /// The last events, oldest first.
    pub(crate) fn shown(&self) -> Vec<Event> {
        self.shown.borrow().iter().cloned().collect()
    }
}
