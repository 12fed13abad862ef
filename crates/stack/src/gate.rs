//! The gate of one LU, or of background work: operations pass it when it is their turn.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use block::BlockError;
use lu::CommandContext;
use qos::{ClientCounts, ClientId, Health, RequestId};

use crate::service::Service;

/// A client of a pool's scheduler.
pub struct Gate {
    pub(crate) service: Rc<Service>,
    pub(crate) client: ClientId,
}

/// An operation that waits for its turn. Dropping it withdraws it.
pub struct Enter<'a, 'c> {
    gate: &'a Gate,
    command: CommandContext<'c>,
    bytes: u64,
    place: Option<usize>,
}

/// An operation in progress, until this is dropped.
pub struct Permit<'a> {
    service: &'a Service,
    request: RequestId,
}

impl Gate {
    pub(crate) fn new(service: Rc<Service>, client: ClientId) -> Gate {
        Gate { service, client }
    }

    /// Whether no policy is in force in the pool: operations need no permit.
    pub fn is_open(&self) -> bool {
        !self.service.is_on()
    }

    /// Waits for the turn of an operation of this many bytes.
    ///
    /// # Errors
    /// If its command is aborted first.
    pub fn enter<'c>(&self, command: CommandContext<'c>, bytes: u64) -> Enter<'_, 'c> {
        Enter { gate: self, command, bytes, place: None }
    }

    /// Charges more than the operation entered with.
    pub fn charge(&self, bytes: u64) {
        if bytes > 0 && !self.is_open() {
            self.service.scheduler.borrow_mut().charge(self.service.now(), self.client, bytes);
        }
    }

    /// A unit of work.
    pub fn unit_bytes(&self) -> u64 {
        self.service.scheduler.borrow().settings().unit_bytes
    }

    /// Operations served and charged here so far.
    pub fn counts(&self) -> ClientCounts {
        self.service.scheduler().counts(self.client)
    }

    /// Whether the minimum is met.
    pub fn health(&self) -> Health {
        let scheduler = self.service.scheduler();
        scheduler.health(scheduler.flow_of(self.client))
    }

    /// Whether clients had requests outstanding all the time, and too few for any to wait.
    pub fn lacks_outstanding(&self) -> bool {
        let scheduler = self.service.scheduler();
        scheduler.lacks_outstanding(scheduler.flow_of(self.client))
    }

    /// Whether requests of other clients wait, or are in progress, while this one has none.
    pub fn others_ask(&self) -> bool {
        let scheduler = self.service.scheduler();
        scheduler.in_flight() + scheduler.waiting() > 0
    }

    /// Whether it is a client of this scheduler.
    pub(crate) fn is_of(&self, service: &Service) -> bool {
        std::ptr::eq(Rc::as_ptr(&self.service), service)
    }

    /// Whether both use the same scheduler.
    pub fn is_beside(&self, other: &Gate) -> bool {
        Rc::ptr_eq(&self.service, &other.service)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.service.forget(self.client);
    }
}

impl<'a> Future for Enter<'a, '_> {
    type Output = Result<Permit<'a>, BlockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let gate = self.gate;
        if self.command.poll_aborted(cx).is_ready() {
            return Poll::Ready(Err(BlockError::Failed { cause: "the command was aborted".into() }));
        }
        let bytes = self.bytes;
        let place = *self.place.get_or_insert_with(|| gate.service.submit(gate.client, bytes));
        let Poll::Ready(request) = gate.service.poll(place, cx.waker()) else { return Poll::Pending };
        self.place = None;
        Poll::Ready(Ok(Permit { service: &gate.service, request }))
    }
}

impl Drop for Enter<'_, '_> {
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
