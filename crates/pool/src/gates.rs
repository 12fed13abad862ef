//! Gates: who changes the map of a volume holds the indices in question, and writes to them wait.
//!
//! Tickets are served in order: one that overlaps an earlier one waits for it, also when the earlier one itself still
//! waits, so that a gate over a whole volume is not passed by an endless row of small ones. Who needs several ranges of one
//! volume takes one ticket for all; of several volumes, the one with the lowest id first. So nobody waits in a ring.

use std::cell::{Cell, RefCell};

use world::sync::Signal;

/// Indices from `from` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn one(index: u32) -> Span {
        Span { from: index, end: index + 1 }
    }

    pub(crate) fn all() -> Span {
        Span { from: 0, end: u32::MAX }
    }

    pub(crate) fn overlaps(&self, other: &Span) -> bool {
        self.from < other.end && other.from < self.end
    }
}

struct Ticket {
    number: u64,
    spans: [Option<Span>; 2],
    /// More of them, in order and apart: whoever moves pages has many.
    more: Vec<Span>,
}

impl Ticket {
    fn overlaps(&self, span: &Span) -> bool {
        let next = self.more.partition_point(|s| s.end <= span.from);
        self.spans.iter().flatten().any(|s| s.overlaps(span))
            || self.more.get(next).is_some_and(|s| s.overlaps(span))
    }

    fn overlaps_any(&self, other: &Ticket) -> bool {
        let spans = other.spans.iter().flatten().chain(&other.more);
        spans.into_iter().any(|s| self.overlaps(s))
    }
}

/// The gates of one volume.
#[derive(Default)]
pub(crate) struct Gates {
    tickets: RefCell<Vec<Ticket>>,
    next: Cell<u64>,
    opened: Signal,
}

/// A gate that is held; it opens when dropped.
pub(crate) struct Gate<'a> {
    gates: &'a Gates,
    number: u64,
}

impl Gates {
    /// Whether somebody holds or waits for an index of `span`.
    pub(crate) fn cover(&self, span: Span) -> bool {
        self.tickets.borrow().iter().any(|t| t.overlaps(&span))
    }

    /// Waits until nobody does.
    pub(crate) async fn clear(&self, span: Span) {
        self.opened.wait_for(|| (!self.cover(span)).then_some(())).await;
    }

    pub(crate) async fn hold(&self, span: Span) -> Gate<'_> {
        self.hold_two(span, None).await
    }

    /// Takes one ticket for both and waits until no earlier one overlaps.
    pub(crate) async fn hold_two(&self, first: Span, second: Option<Span>) -> Gate<'_> {
        self.enter([Some(first), second], Vec::new()).await
    }

    /// The same for many single indices, in order.
    pub(crate) async fn hold_many(&self, indices: &[u32]) -> Gate<'_> {
        debug_assert!(indices.is_sorted(), "gates look for the next index");
        self.enter([None; 2], indices.iter().map(|i| Span::one(*i)).collect()).await
    }

    async fn enter(&self, spans: [Option<Span>; 2], more: Vec<Span>) -> Gate<'_> {
        let number = self.next.replace(self.next.get() + 1);
        self.tickets.borrow_mut().push(Ticket { number, spans, more });
        // The gate exists while it waits: if the wait is abandoned, the ticket goes.
        let gate = Gate { gates: self, number };
        self.opened
            .wait_for(|| {
                let tickets = self.tickets.borrow();
                let mine = tickets.iter().find(|t| t.number == number).expect("it goes with the gate");
                let mut earlier = tickets.iter().filter(|t| t.number < number);
                (!earlier.any(|t| t.overlaps_any(mine))).then_some(())
            })
            .await;
        gate
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.gates.tickets.borrow_mut().retain(|t| t.number != self.number);
        self.gates.opened.wake_all();
    }
}
