//! How a controller tells what happens: the status shows the last events, the data directory keeps all.

use std::cell::RefCell;
use std::collections::VecDeque;

use world::World;

use super::often::Often;
use crate::event::{Event, EventSender, Severity};

/// Events kept for the status.
const SHOWN_MAX: usize = 200;

/// What a controller tells.
pub(crate) struct Events {
    world: World,
    /// Who keeps the events.
    keeper: Option<EventSender>,
    /// What the status shows.
    shown: RefCell<VecDeque<Event>>,
    /// What declared hosts can cause as often as they like.
    of_hosts: RefCell<Often>,
    /// What anybody can.
    of_strangers: RefCell<Often>,
}

impl Events {
    /// Those of one of so many controllers.
    pub(crate) fn new(world: World, controllers: usize, keeper: Option<EventSender>) -> Events {
        let often = || RefCell::new(Often::new(controllers));
        Events { world, keeper, shown: RefCell::default(), of_hosts: often(), of_strangers: often() }
    }

    /// Tells an event, and shows it in the status, where too many push out the oldest.
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

    /// Tells what a declared host caused, or a stranger, to who keeps events, and does not show it in the status: there may be many.
    pub(crate) fn tell(&self, event: Event, is_host: bool) {
        let Some(keeper) = &self.keeper else { return };
        let often = if is_host { &self.of_hosts } else { &self.of_strangers };
        let event = often.borrow_mut().admit(event, self.world.now());
        event.into_iter().for_each(|event| keeper.tell(event));
    }

    /// Tells an event that happened as it should, as a line that begins with its object: `group g0: …`.
    pub(crate) fn note(&self, line: String) {
        self.event(Event::of_line(&line));
    }

    /// The same for what is to be looked at.
    pub(crate) fn warn(&self, line: String) {
        self.event(Event { severity: Severity::Warning, ..Event::of_line(&line) });
    }

    /// The same where something is not served, or data are in danger.
    pub(crate) fn alarm(&self, line: String) {
        self.event(Event { severity: Severity::Error, ..Event::of_line(&line) });
    }

    /// Tells an event that would be told again and again, once.
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
