//! A host and its way to an array in the model world: commands are values, and what they cost is modelled.
//!
//! ```text
//!   host's processor ──> wire, to the array ──> controller's processor ──> LU (the array's own code) ─┐
//!   host's processor <── wire, to the host  <── controller's processor <──────────────────────────────┘
//! ```
//!
//! # iSCSI (RFC 7143)
//! A command is one header; so much of its data as is unsolicited goes with it, the rest in bursts, each of
//! which the array asks for with an R2T. A response goes with the data that it follows.
//!
//! # Packets
//! What is sent at once fills segments one after the other. An end acknowledges every so many segments that
//! arrive. A host that has data to send meanwhile puts its acknowledgements into the segments of its data
//! (RFC 9293 3.8.6.3); the array answers at once and by itself, as the published counts show: of a WRITE SAME
//! a host receives 3.2 packets, though the array has no more than an R2T and a response to send. What is
//! acknowledged by itself takes its frame of the wire.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use array::LocalSession;
use block::Pieces;
use iscsi::initiator::Done;
use scsi::{Lun, Request, TaskAttribute};
use world::{Instant, TcpCounts, World};
use world_model::Link;
use world_model::station::Station;

use super::cdb::Cdb;

/// The basic header segment of a PDU.
const HEADER_BYTES: u64 = 48;

/// What a processor works for a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Whatever it is.
    pub command: Duration,
    /// Besides, for each MiB that it sends.
    pub sent_per_mib: Duration,
    /// Besides, for each MiB that it receives.
    pub received_per_mib: Duration,
}

impl Work {
    /// So many times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Work {
        Work {
            command: self.command.mul_f64(factor),
            sent_per_mib: self.sent_per_mib.mul_f64(factor),
            received_per_mib: self.received_per_mib.mul_f64(factor),
        }
    }

    fn sent_ns(&self, bytes: u64) -> u64 {
        of_mib(self.sent_per_mib, bytes)
    }

    fn received_ns(&self, bytes: u64) -> u64 {
        of_mib(self.received_per_mib, bytes)
    }
}

fn of_mib(per_mib: Duration, bytes: u64) -> u64 {
    ((per_mib.as_nanos() * u128::from(bytes)) >> 20) as u64
}

/// How iSCSI and TCP carry commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carriage {
    /// Of the wire between the array and all hosts.
    pub link: Link,
    /// Data that go with the command, and that follow one R2T.
    pub unsolicited_bytes: u64,
    /// See above.
    pub burst_bytes: u64,
    /// Segments of data that one acknowledgement follows.
    pub segments_per_ack: f64,
}

/// The array's port with its wire, and the processor behind it.
pub struct ModelledPort {
    world: World,
    carriage: Carriage,
    /// What all hosts send, and what they receive.
    to_array: RefCell<Station>,
    to_hosts: RefCell<Station>,
    controller: RefCell<Station>,
    work: Work,
}

/// A host at a [`ModelledPort`].
pub struct ModelledHost {
    port: Rc<ModelledPort>,
    session: LocalSession,
    /// A processor for each session.
    processors: Vec<RefCell<Station>>,
    work: Work,
    tag: Cell<u64>,
    counts: Cell<TcpCounts>,
    /// Commands whose data it has not sent yet.
    sending: Cell<u32>,
    /// Acknowledgements that are due and are no whole packet yet: those of the host, and those of the array.
    due: Cell<[f64; 2]>,
}

impl ModelledPort {
    /// A port behind which `work` is what a command costs the controller.
    pub fn new(world: &World, carriage: Carriage, work: Work) -> Rc<ModelledPort> {
        let station = || RefCell::new(Station::new(1));
        Rc::new(ModelledPort {
            world: world.clone(),
            carriage,
            to_array: station(),
            to_hosts: station(),
            controller: station(),
            work,
        })
    }

    /// A host at this port, which a command costs so much `work`. Its LUs are dealt out to so many
    /// `sessions`, and the commands of a session take turns on one of the host's processors.
    pub fn host(
        self: &Rc<ModelledPort>,
        session: LocalSession,
        work: Work,
        sessions: usize,
    ) -> Rc<ModelledHost> {
        Rc::new(ModelledHost {
            port: self.clone(),
            session,
            processors: (0..sessions.max(1)).map(|_| RefCell::new(Station::new(1))).collect(),
            work,
            tag: Cell::default(),
            counts: Cell::default(),
            sending: Cell::default(),
            due: Cell::default(),
        })
    }

    /// How long the controller's processor has worked.
    pub fn controller_cpu(&self) -> Duration {
        Duration::from_nanos(self.controller.borrow().busy_ns(self.world.now().0))
    }

    async fn wait_at(&self, station: &RefCell<Station>, work_ns: u64) {
        if work_ns == 0 {
            return;
        }
        let end = station.borrow_mut().serve(self.world.now().0, work_ns);
        self.world.sleep_until(Instant(end)).await;
    }

    async fn cross(&self, wire: &RefCell<Station>, bytes: u64) {
        let end = wire.borrow_mut().serve(self.world.now().0, self.carriage.link.wire_ns(bytes));
        self.world.sleep_until(Instant(end) + self.carriage.link.latency).await;
    }

    /// Acknowledgements by themselves occupy the wire, too; nobody waits for them.
    fn acknowledge(&self, wire: &RefCell<Station>, acks: u64) {
        let alone_ns = self.carriage.link.wire_ns(1);
        wire.borrow_mut().serve(self.world.now().0, acks.saturating_mul(alone_ns));
    }

    fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.carriage.link.frame_payload_bytes))
    }
}

impl ModelledHost {
    pub(super) fn tcp_counts(&self) -> TcpCounts {
        self.counts.get()
    }

    /// The work of all processors.
    pub(super) fn cpu(&self) -> Duration {
        let now_ns = self.port.world.now().0;
        Duration::from_nanos(self.processors.iter().map(|own| own.borrow().busy_ns(now_ns)).sum())
    }

    /// One command, from the host's processor and back.
    pub(super) async fn command(&self, lun: Lun, cdb: Cdb, data_out: Pieces, in_len: u32) -> Done {
        let port = &self.port;
        let processor = &self.processors[usize::from(lun.0) % self.processors.len()];
        let out = data_out.len() as u64;
        let sending = (out > 0).then(|| Sending::begin(&self.sending));
        port.wait_at(processor, self.work.command.as_nanos() as u64 + self.work.sent_ns(out)).await;
        self.send(out).await;
        drop(sending);
        let arrives_ns = port.work.command.as_nanos() as u64 + port.work.received_ns(out);
        port.wait_at(&port.controller, arrives_ns).await;
        let tag = self.tag.replace(self.tag.get() + 1);
        let attribute = TaskAttribute::Simple;
        let request = Request { attribute, tag, ..Request::new(cdb, data_out, in_len) };
        let response = self.session.execute(lun, request).await;
        let data_in = match response.data_in.len() {
            len if len > in_len as usize => response.data_in.slice(0, in_len as usize),
            _ => response.data_in,
        };
        let back = data_in.len() as u64;
        port.wait_at(&port.controller, port.work.sent_ns(back)).await;
        self.receive(HEADER_BYTES + back + response.sense.len() as u64).await;
        port.wait_at(processor, self.work.received_ns(back)).await;
        Done { status: response.status as u8, sense: response.sense, data_in, ..Done::default() }
    }

    /// The command with its data.
    async fn send(&self, data: u64) {
        let carriage = &self.port.carriage;
        let mut sent = data.min(carriage.unsolicited_bytes);
        self.to_array(HEADER_BYTES + sent).await;
        while sent < data {
            let burst = carriage.burst_bytes.min(data - sent);
            self.receive(HEADER_BYTES).await;
            self.to_array(HEADER_BYTES + burst).await;
            sent += burst;
        }
    }

    async fn to_array(&self, bytes: u64) {
        let segments = self.port.segments(bytes);
        let [own, arrays] = self.due.get();
        let (acks, left) = whole(arrays + segments as f64 / self.port.carriage.segments_per_ack);
        self.due.set([own, left]);
        self.count(|counts| {
            counts.segments_out += segments;
            counts.segments_in += acks;
            counts.bytes_out += bytes;
        });
        self.port.acknowledge(&self.port.to_hosts, acks);
        self.port.cross(&self.port.to_array, bytes).await;
    }

    async fn receive(&self, bytes: u64) {
        let segments = self.port.segments(bytes);
        let [own, arrays] = self.due.get();
        let (acks, left) = match self.sending.get() > 0 {
            true => (0, 0.0),
            false => whole(own + segments as f64 / self.port.carriage.segments_per_ack),
        };
        self.due.set([left, arrays]);
        self.count(|counts| {
            counts.segments_in += segments;
            counts.segments_out += acks;
            counts.bytes_in += bytes;
        });
        self.port.acknowledge(&self.port.to_array, acks);
        self.port.cross(&self.port.to_hosts, bytes).await;
    }

    fn count(&self, add: impl FnOnce(&mut TcpCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }
}

/// A command whose data are to be sent; over when dropped.
struct Sending<'a>(&'a Cell<u32>);

impl<'a> Sending<'a> {
    fn begin(commands: &'a Cell<u32>) -> Sending<'a> {
        commands.set(commands.get() + 1);
        Sending(commands)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The whole packets of what is due, and the rest.
fn whole(due: f64) -> (u64, f64) {
    let packets = due.floor();
    (packets as u64, due - packets)
}
