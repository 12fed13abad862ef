//! A disk whose operations wait for their turn.

use std::rc::Rc;

use block::{BlockError, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};

use world::{Instant, Kind, OpenSpan};

use crate::gate::{Gate, Permit};
use crate::move_bytes::move_bytes;

/// A disk behind a gate. While no policy is in force in the pool the gate is open, and an operation tests one
/// flag.
#[derive(Clone)]
pub struct Gated<D> {
    gate: Rc<Gate>,
    below: D,
}

impl<D: LogicalDisk> Gated<D> {
    /// The disk's operations pass this gate.
    pub fn new(gate: Rc<Gate>, below: D) -> Gated<D> {
        Gated { gate, below }
    }

    /// The gate that operations pass.
    pub fn gate(&self) -> &Rc<Gate> {
        &self.gate
    }

    /// The disk behind the gate.
    pub fn below(&self) -> &D {
        &self.below
    }

    /// Waits for the turn of an operation with this charge in bytes.
    async fn enter(
        &self,
        command: CommandContext<'_>,
        bytes: impl FnOnce() -> u64,
    ) -> Result<Option<Permit<'_>>, BlockError> {
        match self.gate.is_open() {
            true => Ok(None),
            false => self.gate.enter(command, bytes()).await.map(Some),
        }
    }

    /// The same for a read or a write, whose wait is measured.
    async fn enter_measured(
        &self,
        command: CommandContext<'_>,
        bytes: usize,
        kind: Kind,
    ) -> Result<Permit<'_>, BlockError> {
        let service = &self.gate.service;
        let _span = OpenSpan::begin(command.trace(), "qos", "");
        let began = service.waits.begin(|| service.world.now());
        let permit = self.gate.enter(command, bytes as u64).await?;
        service.waits.end(began, || service.world.now(), kind);
        Ok(permit)
    }

    /// The beginning of a read or a write behind the gate, if it is measured.
    fn begin_measured(&self) -> Option<Instant> {
        let service = &self.gate.service;
        service.served.begin(|| service.world.now())
    }

    /// The charge of zeroing a range, in bytes: a unit for each whole page that is released, and the written
    /// bytes of the others.
    fn zeroing_bytes(&self, at: u64, len: u64) -> u64 {
        let Capabilities { page_bytes: Some(page), offloads: true, .. } = self.below.capabilities() else {
            return len;
        };
        let (first, last) = (at.div_ceil(page), (at + len) / page);
        match last.saturating_sub(first) {
            0 => len,
            pages => len - pages * page + pages * self.gate.unit_bytes(),
        }
    }

    /// A copy was charged one unit at first: now charge its cost. A shared page costs a unit; copied bytes
    /// were read and written, or only written here if the source is in another pool.
    fn charge_copy(&self, source: Option<&Gated<D>>, copied: Copied) {
        let (gate, charged_bytes) = (&self.gate, self.gate.unit_bytes());
        let page = self.below.capabilities().page_bytes.unwrap_or(u64::MAX);
        let shared = copied.shared_bytes.div_ceil(page) * gate.unit_bytes();
        let other = source.map(Gated::gate).filter(|other| !other.is_beside(gate));
        let moved = match other {
            None => 2 * copied.moved_bytes,
            Some(other) => {
                other.charge(copied.moved_bytes);
                copied.moved_bytes
            }
        };
        gate.charge((shared + moved).saturating_sub(charged_bytes));
    }
}

impl<D: LogicalDisk> LogicalDisk for Gated<D> {
    type Rod = D::Rod;

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }

    fn space(&self) -> Space {
        self.below.space()
    }

    fn extent(&self, at: u64) -> Extent {
        self.below.extent(at)
    }

    async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let _permit = match self.gate.is_open() {
            true => None,
            false => Some(self.enter_measured(command, len, Kind::Read).await?),
        };
        // Without a wrapper: it would be another future around each read and write.
        let (service, began) = (&self.gate.service, self.begin_measured());
        self.below.read(command, at, len, out).await?;
        service.served.end(began, || service.world.now(), Kind::Read);
        Ok(())
    }

    // A flush makes the data of all clients durable, so it takes no turn; the permit is returned first.
    async fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        if self.gate.is_open() {
            let (service, began) = (&self.gate.service, self.begin_measured());
            self.below.write(command, at, data, durability).await?;
            service.served.end(began, || service.world.now(), Kind::Write);
            return Ok(());
        }
        let permit = self.enter_measured(command, data.len(), Kind::Write).await?;
        let (service, began) = (&self.gate.service, self.begin_measured());
        self.below.write(command, at, data, Durability::Volatile).await?;
        drop(permit);
        if durability == Durability::Durable {
            let _span = OpenSpan::begin(command.trace(), "sync", "");
            self.below.sync(at, data.len() as u64).await?;
        }
        service.served.end(began, || service.world.now(), Kind::Write);
        Ok(())
    }

    async fn zero(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        let _permit = self.enter(command, || self.zeroing_bytes(at, len)).await?;
        self.below.zero(command, at, len).await
    }

    async fn unmap(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        let _permit = self.enter(command, || self.zeroing_bytes(at, len)).await?;
        self.below.unmap(command, at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.below.flush().await
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.below.sync(at, len).await
    }

    async fn copy_from(
        &self,
        command: CommandContext<'_>,
        source: &Gated<D>,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        if !self.below.capabilities().offloads || !source.below.capabilities().offloads {
            // Each read and each write has its own turn.
            return Box::pin(move_bytes(command, (source, from), (self, at), len)).await;
        }
        let permit = self.enter(command, || self.gate.unit_bytes()).await?;
        let copied = self.below.copy_from(command, &source.below, from, at, len).await?;
        if permit.is_some() {
            self.charge_copy(Some(source), copied);
        }
        Ok(copied)
    }

    async fn take_rod(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<D::Rod, BlockError> {
        let _permit = self.enter(command, || self.gate.unit_bytes()).await?;
        self.below.take_rod(command, at, len).await
    }

    fn has_rod(&self, rod: &D::Rod) -> bool {
        self.below.has_rod(rod)
    }

    fn keep_rod(rod: &D::Rod, keep: bool) {
        D::keep_rod(rod, keep);
    }

    async fn read_rod(
        &self,
        command: CommandContext<'_>,
        rod: &D::Rod,
        from: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let _permit = self.enter(command, || len as u64).await?;
        self.below.read_rod(command, rod, from, len, out).await
    }

    async fn copy_from_rod(
        &self,
        command: CommandContext<'_>,
        rod: &D::Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        let permit = self.enter(command, || self.gate.unit_bytes()).await?;
        let copied = self.below.copy_from_rod(command, rod, from, at, len).await?;
        if permit.is_some() {
            self.charge_copy(None, copied);
        }
        Ok(copied)
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.below.save_record(name, bytes).await
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.below.load_record(name)
    }
}
