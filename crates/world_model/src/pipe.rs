//! One direction of a connection: bytes in flight, arrived bytes, and the waiters at both ends.
//!
//! ```text
//!   send ──window──> flying (in order, at the link's speed, or when a shared wire comes to it) ──> arrived ──cut──> receive
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use world::io::Completer;
use world::{Batch, Buf, Data, NetError, Piece, Received, Sent};

use crate::net_spec::NetSpec;
use crate::timeline::{Fire, Timeline};
use crate::trace::digest_of;
use crate::wire::Wire;

/// The most that one flight carries: what network cards take at once (Linux' GSO_MAX_SIZE).
const FLIGHT_BYTES_MAX: usize = 65_536;

pub(crate) struct Pipe {
    timeline: Weak<Timeline>,
    me: Weak<Pipe>,
    opposite: RefCell<Weak<Pipe>>,
    spec: NetSpec,
    /// The wire that it shares with others; `None`: it has one of its own.
    shared: Option<Rc<Wire>>,
    /// The client's port, as the trace names connections.
    number: u64,
    carried: Cell<u64>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    /// All bytes that are in the pipe; the first `arrived` of them can be received.
    bytes: VecDeque<Data>,
    held: usize,
    arrived: usize,
    flights: VecDeque<Flight>,
    /// How many of them, the last ones, wait for the shared wire.
    grounded: usize,
    /// When the link has carried what it was given.
    free_at_ns: u64,
    /// The writer has closed, and the reader knows.
    ended: bool,
    /// Sending fails, with this reason.
    writer_gone: Option<&'static str>,
    /// Received data are discarded.
    reader_gone: bool,
    broken: Option<&'static str>,
    silent: bool,
}

struct Sending {
    batch: Batch,
    piece: usize,
    offset: usize,
    done: Completer<Sent>,
}

struct Receiving {
    buf: Buf,
    from: usize,
    done: Completer<Received>,
}

#[derive(Clone, Copy)]
enum Flight {
    Bytes(usize),
    End,
}

impl Flight {
    fn bytes(self) -> u64 {
        match self {
            Flight::Bytes(n) => n as u64,
            Flight::End => 0,
        }
    }
}

/// A flight that a shared wire carries.
pub(crate) struct Turn {
    pub(crate) bytes: u64,
    /// Others wait behind it.
    pub(crate) more: bool,
}

fn closed(cause: &str) -> NetError {
    NetError::Closed(cause.to_owned())
}

impl Sending {
    fn fail(mut self, cause: &str) {
        self.batch.clear();
        self.done.complete(Sent { batch: self.batch, result: Err(closed(cause)) });
    }

    /// Takes up to `max` of the bytes that are left.
    fn take(&mut self, max: usize) -> Option<Data> {
        let piece = self.batch.pieces.get(self.piece)?;
        let len = match piece {
            Piece::Head { len, .. } => *len,
            Piece::Data(data) => data.len(),
        };
        let n = max.min(len - self.offset);
        let range = self.offset..self.offset + n;
        let taken = match piece {
            Piece::Head { from, .. } => {
                Data::copy_of(&self.batch.heads[from + range.start..from + range.end])
            }
            Piece::Data(data) => data.slice(range),
        };
        self.offset += n;
        if self.offset == len {
            self.piece += 1;
            self.offset = 0;
        }
        Some(taken)
    }
}

impl Receiving {
    fn complete(self, result: Result<usize, NetError>) {
        self.done.complete(Received { buf: self.buf, result });
    }
}

impl Pipe {
    pub(crate) fn new(
        timeline: &Rc<Timeline>,
        spec: NetSpec,
        shared: Option<Rc<Wire>>,
        port: u16,
    ) -> Rc<Pipe> {
        Rc::new_cyclic(|me| Pipe {
            timeline: Rc::downgrade(timeline),
            me: me.clone(),
            opposite: RefCell::default(),
            spec,
            shared,
            number: u64::from(port),
            carried: Cell::new(0),
            state: RefCell::default(),
        })
    }

    pub(crate) fn set_opposite(&self, opposite: &Rc<Pipe>) {
        *self.opposite.borrow_mut() = Rc::downgrade(opposite);
    }

    pub(crate) fn carried(&self) -> u64 {
        self.carried.get()
    }

    pub(crate) fn is_up(&self) -> bool {
        let state = self.state.borrow();
        state.broken.is_none() && state.writer_gone.is_none()
    }

    pub(crate) fn send(&self, batch: Batch, done: Completer<Sent>) {
        let state = &mut *self.state.borrow_mut();
        assert!(state.sending.is_none(), "a second send while one is in flight");
        let sending = Sending { batch, piece: 0, offset: 0, done };
        match state.broken.or(state.writer_gone) {
            Some(cause) => sending.fail(cause),
            None => {
                state.sending = Some(sending);
                self.pump(state);
            }
        }
    }

    pub(crate) fn receive(&self, buf: Buf, from: usize, done: Completer<Received>) {
        let state = &mut *self.state.borrow_mut();
        assert!(state.receiving.is_none(), "a second receive while one is in flight");
        let receiving = Receiving { buf, from, done };
        match state.broken {
            Some(cause) => receiving.complete(Err(closed(cause))),
            None if state.reader_gone => receiving.complete(Err(closed("closed at this end"))),
            None => {
                state.receiving = Some(receiving);
                self.serve(state);
            }
        }
    }

    /// Moves bytes from the send into the window.
    fn pump(&self, state: &mut State) {
        let (Some(timeline), Some(me)) = (self.timeline.upgrade(), self.me.upgrade()) else { return };
        let Some(mut sending) = state.sending.take() else { return };
        let mut flight = 0;
        let mut content = 0;
        let ended = loop {
            let room = self.spec.window_bytes.saturating_sub(state.held).min(FLIGHT_BYTES_MAX - flight);
            let taken = if room > 0 { sending.take(room) } else { None };
            match taken {
                Some(data) if data.is_empty() => {}
                Some(data) => {
                    flight += data.len();
                    content ^= digest_of(&data).rotate_left(flight as u32);
                    state.held += data.len();
                    state.bytes.push_back(data);
                }
                None if flight > 0 => {
                    timeline.record("send", self.number, flight as u64);
                    timeline.record("bytes", self.number, content);
                    self.fly(&timeline, me.clone(), state, Flight::Bytes(flight));
                    (flight, content) = (0, 0);
                }
                None => break sending.piece == sending.batch.pieces.len(),
            }
        };
        if ended {
            sending.batch.clear();
            sending.done.complete(Sent { batch: sending.batch, result: Ok(()) });
        } else {
            state.sending = Some(sending);
        }
    }

    fn fly(&self, timeline: &Timeline, me: Rc<Pipe>, state: &mut State, flight: Flight) {
        let bytes = flight.bytes();
        self.carried.set(self.carried.get() + bytes);
        state.flights.push_back(flight);
        match &self.shared {
            None => {}
            Some(wire) if wire.is_free() => return wire.carry(timeline, me, bytes),
            Some(wire) => {
                state.grounded += 1;
                if state.grounded == 1 {
                    wire.queue(me);
                }
                return;
            }
        }
        let link = &self.spec.link;
        let start_ns = state.free_at_ns.max(timeline.now_ns());
        state.free_at_ns = start_ns.saturating_add(link.wire_ns(bytes));
        timeline.arm(state.free_at_ns.saturating_add(link.latency_ns()), me, 0);
    }

    /// The shared wire is free for the first flight that waits for it; `None` if none does any more.
    pub(crate) fn take_turn(&self) -> Option<Turn> {
        let state = &mut *self.state.borrow_mut();
        let flight = *state.flights.get(state.flights.len() - state.grounded)?;
        state.grounded -= 1;
        Some(Turn { bytes: flight.bytes(), more: state.grounded > 0 })
    }

    /// Gives a waiting receive what has arrived.
    fn serve(&self, state: &mut State) {
        if state.arrived == 0 {
            if state.ended
                && let Some(receiving) = state.receiving.take()
            {
                receiving.complete(Ok(0));
            }
            return;
        }
        let (Some(timeline), Some(mut receiving)) = (self.timeline.upgrade(), state.receiving.take()) else {
            return;
        };
        let mut n = (receiving.buf.len() - receiving.from).min(state.arrived);
        if self.spec.cut_receives {
            let mut rng = timeline.segments.borrow_mut();
            // One in four is cut: enough to meet every boundary in a run, and the run stays fast.
            if rng.u8(..4) == 0 {
                n = 1 + rng.usize(..n);
            }
        }
        timeline.record("recv", self.number, n as u64);
        let mut to = &mut receiving.buf[receiving.from..receiving.from + n];
        state.consume(n, |bytes| {
            let (head, rest) = std::mem::take(&mut to).split_at_mut(bytes.len());
            head.copy_from_slice(bytes);
            to = rest;
        });
        receiving.complete(Ok(n));
        self.pump(state);
    }

    /// Closes the writing end: bytes in flight still arrive, then the end.
    pub(crate) fn close_writer(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.writer_gone.replace("closed at this end").is_some() || state.broken.is_some() {
            return;
        }
        if let Some(sending) = state.sending.take() {
            sending.fail("closed at this end");
        }
        if let (Some(timeline), Some(me)) = (self.timeline.upgrade(), self.me.upgrade()) {
            timeline.record("close", self.number, 0);
            self.fly(&timeline, me, state, Flight::End);
        }
    }

    /// Closes the reading end: later arrivals are discarded.
    pub(crate) fn close_reader(&self) {
        let state = &mut *self.state.borrow_mut();
        if std::mem::replace(&mut state.reader_gone, true) {
            return;
        }
        if let Some(receiving) = state.receiving.take() {
            receiving.complete(Err(closed("closed at this end")));
        }
        state.consume(state.arrived, |_| {});
        self.pump(state);
    }

    /// Breaks the connection; both ends learn.
    pub(crate) fn break_off(&self, cause: &'static str) {
        let state = &mut *self.state.borrow_mut();
        state.broken = Some(cause);
        state.bytes.clear();
        state.flights.clear();
        (state.held, state.arrived, state.grounded) = (0, 0, 0);
        if let Some(sending) = state.sending.take() {
            sending.fail(cause);
        }
        if let Some(receiving) = state.receiving.take() {
            receiving.complete(Err(closed(cause)));
        }
    }

    pub(crate) fn silence(&self) {
        self.state.borrow_mut().silent = true;
    }

    /// The reader's peer has closed: nobody reads this direction any more.
    fn lose_reader(&self) {
        let state = &mut *self.state.borrow_mut();
        state.writer_gone.get_or_insert("closed by the peer");
        if let Some(sending) = state.sending.take() {
            sending.fail("closed by the peer");
        }
    }
}

impl State {
    /// Takes `n` arrived bytes out.
    fn consume(&mut self, n: usize, mut each: impl FnMut(&[u8])) {
        self.arrived -= n;
        self.held -= n;
        let mut left = n;
        while left > 0 {
            let front = self.bytes.front_mut().expect("as many bytes as are counted");
            let here = left.min(front.len());
            each(&front[..here]);
            left -= here;
            if here == front.len() {
                self.bytes.pop_front();
            } else {
                *front = front.slice(here..);
            }
        }
    }
}

impl Fire for Pipe {
    fn fire(self: Rc<Self>, _: &Timeline, _: u64) {
        let state = &mut *self.state.borrow_mut();
        if state.silent {
            return;
        }
        match state.flights.pop_front() {
            // Broken off while it was under way.
            None => {}
            Some(Flight::Bytes(n)) => {
                state.arrived += n;
                if state.reader_gone {
                    state.consume(state.arrived, |_| {});
                    self.pump(state);
                } else {
                    self.serve(state);
                }
            }
            Some(Flight::End) => {
                state.ended = true;
                self.serve(state);
                let opposite = self.opposite.borrow().upgrade();
                if let Some(opposite) = opposite {
                    opposite.lose_reader();
                }
            }
        }
    }
}
