//! The gate of one LU, or of background work: operations pass it when it is their turn.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use block::BlockError;
use qos::{ClientId, RequestId};

use super::service::Service;

/// A client of a pool's scheduler.
pub(crate) struct Gate {
    pub(super) service: Rc<Service>,
    pub(super) client: ClientId,
    /// What is polled now is part of a command that was aborted.
    aborted: Cell<bool>,
}

/// An operation that waits for its turn. Dropping it takes it back.
pub(crate) struct Enter<'a> {
    gate: &'a Gate,
    bytes: u64,
    place: Option<usize>,
}

/// An operation that runs, until this is dropped.
pub(crate) struct Permit<'a> {
    service: &'a Service,
    request: RequestId,
}

impl Gate {
    pub(super) fn new(service: Rc<Service>, client: ClientId) -> Gate {
        Gate { service, client, aborted: Cell::new(false) }
    }

    /// Whether nothing is promised to anybody in the pool: operations need no permit.
    pub(crate) fn is_open(&self) -> bool {
        !self.service.on.get()
    }

    /// Waits for the turn of an operation of so many bytes.
    pub(crate) fn enter(&self, bytes: u64) -> Enter<'_> {
        Enter { gate: self, bytes, place: None }
    }

    /// What was done was more than it entered with.
    pub(crate) fn charge(&self, bytes: u64) {
        if bytes > 0 && !self.is_open() {
            self.service.scheduler.borrow_mut().charge(self.service.now(), self.client, bytes);
        }
    }

    /// A unit of work.
    pub(crate) fn unit_bytes(&self) -> u64 {
        self.service.scheduler.borrow().settings().unit_bytes
    }

    /// What was charged here so far.
    #[cfg(test)]
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.service.scheduler.borrow().counts(self.client).charged_bytes
    }

    /// Whether both ask the same scheduler.
    pub(crate) fn is_beside(&self, other: &Gate) -> bool {
        Rc::ptr_eq(&self.service, &other.service)
    }

    /// What waits looks whether it was aborted.
    pub(crate) fn look_again(&self) {
        self.service.look_again(self.client);
    }

    /// For whom it is polled from now on.
    pub(crate) fn polled_for(&self, aborted: bool) {
        self.aborted.set(aborted);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.service.forget(self.client);
    }
}

impl<'a> Future for Enter<'a> {
    type Output = Result<Permit<'a>, BlockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let gate = self.gate;
        if gate.aborted.get() {
            return Poll::Ready(Err(BlockError::Failed { cause: "the command was aborted".into() }));
        }
        let bytes = self.bytes;
        let place = *self.place.get_or_insert_with(|| gate.service.submit(gate.client, bytes));
        let Poll::Ready(request) = gate.service.poll(place, cx.waker()) else { return Poll::Pending };
        self.place = None;
        Poll::Ready(Ok(Permit { service: &gate.service, request }))
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.gate.service.cancel(place);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.service.complete(self.request);
    }
}
