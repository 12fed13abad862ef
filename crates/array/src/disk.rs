//! A volume as SCSI sees it.

use std::rc::Rc;

use block::{BlockError, Device, Geometry, Pieces};
use pool::{Rod, Volume};
use scsi::{Copied, Extent, Medium, Space};

use crate::cached::CachedVolume;
use crate::guarantee::{Gate, Permit};

/// A volume with the block length that its hosts see, under the controller's cache if there is one.
#[derive(Clone)]
pub struct Disk {
    volume: Volume,
    cached: Option<CachedVolume>,
    block_bytes: u32,
    /// Where operations wait for their turn; none: they do not.
    gate: Option<Rc<Gate>>,
}

impl Disk {
    /// A disk of this volume.
    pub fn new(volume: Volume, cached: Option<CachedVolume>, block_bytes: u32) -> Disk {
        Disk { volume, cached, block_bytes, gate: None }
    }

    /// Its operations pass this gate.
    pub(crate) fn behind(self, gate: Rc<Gate>) -> Disk {
        Disk { gate: Some(gate), ..self }
    }

    /// The gate that its operations pass.
    pub(crate) fn gate(&self) -> Option<&Rc<Gate>> {
        self.gate.as_ref()
    }

    /// The gate, where somebody is promised something.
    fn closed_gate(&self) -> Option<&Gate> {
        self.gate.as_deref().filter(|gate| !gate.is_open())
    }

    /// Waits for the turn of an operation that is charged so many bytes.
    async fn enter(&self, bytes: impl FnOnce(&Gate) -> u64) -> Result<Option<Permit<'_>>, BlockError> {
        match self.closed_gate() {
            None => Ok(None),
            Some(gate) => gate.enter(bytes(gate)).await.map(Some),
        }
    }

    /// What it costs to make a range zeros, in bytes: a unit for each whole page that is given back, and what is written of others.
    fn zeroing_bytes(&self, at: u64, len: u64, unit_bytes: u64) -> u64 {
        let Some(page) = self.volume.page_bytes() else { return len };
        let (first, last) = (at.div_ceil(page), (at + len) / page);
        match last.saturating_sub(first) {
            0 => len,
            pages => len - pages * page + pages * unit_bytes,
        }
    }

    /// A copy was charged so many bytes before: now what it cost. A shared page costs a unit, bytes that moved were read and written, and of another
    /// pool only written here.
    fn charge_copy(&self, source: Option<&Disk>, copied: pool::Copied, charged_bytes: u64) {
        let Some(gate) = self.closed_gate() else { return };
        let page = self.volume.page_bytes().unwrap_or(u64::MAX);
        let shared = copied.shared_bytes.div_ceil(page) * gate.unit_bytes();
        let other = source.and_then(Disk::gate).filter(|other| !other.is_beside(gate));
        let moved = match other {
            None => 2 * copied.moved_bytes,
            Some(other) => {
                other.charge(copied.moved_bytes);
                copied.moved_bytes
            }
        };
        gate.charge((shared + moved).saturating_sub(charged_bytes));
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Does what changes a range of the volume itself.
    async fn change<T>(
        &self,
        at: u64,
        len: u64,
        operation: impl Future<Output = Result<T, BlockError>>,
    ) -> Result<T, BlockError> {
        // Boxed: the unit's future holds it several times over.
        let operation = Box::pin(operation);
        match &self.cached {
            Some(unit) => unit.change(at..at + len, operation).await,
            None => operation.await,
        }
    }

    /// Where every command is durable when it ends, a copy is, too.
    async fn copied(&self, copied: pool::Copied) -> Result<Copied, BlockError> {
        if !self.volatile_cache() {
            self.flush().await?;
        }
        Ok(Copied { shared_bytes: copied.shared_bytes, moved_bytes: copied.moved_bytes })
    }
}

impl Medium for Disk {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: self.block_bytes, ..self.volume.geometry() }
    }

    fn page_bytes(&self) -> Option<u64> {
        self.volume.page_bytes()
    }

    fn space(&self) -> Space {
        let pool = self.volume.pool().space();
        Space {
            used_bytes: self.volume.used_bytes(),
            pool_free_bytes: pool.free_bytes,
            pool_bytes: pool.total_bytes,
            soft_threshold_percent: pool.soft_threshold_percent,
        }
    }

    // A write to a page that is not mapped goes to the volume before it is acknowledged, so that this is true under a cache, too.
    fn extent(&self, at: u64) -> Extent {
        let extent = self.volume.extent(at);
        Extent { len_bytes: extent.len_bytes, mapped: extent.mapped }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        let _permit = match self.closed_gate() {
            None => None,
            Some(gate) => Some(gate.enter(len as u64).await?),
        };
        match &self.cached {
            Some(unit) => unit.read(at, len, out).await,
            None => self.volume.read(at, len, out).await,
        }
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        let _permit = match self.closed_gate() {
            None => None,
            Some(gate) => Some(gate.enter(data.len() as u64).await?),
        };
        match &self.cached {
            Some(unit) => unit.write(at, data).await,
            None => self.volume.write(at, data).await,
        }
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let _permit = self.enter(|gate| self.zeroing_bytes(at, len, gate.unit_bytes())).await?;
        self.change(at, len, self.volume.zero(at, len)).await
    }

    async fn unmap(&self, at: u64, len: u64) -> Result<u64, BlockError> {
        let _permit = self.enter(|gate| self.zeroing_bytes(at, len, gate.unit_bytes())).await?;
        self.change(at, len, self.volume.unmap(at, len)).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        match &self.cached {
            Some(unit) => unit.flush().await,
            None => self.volume.flush().await,
        }
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        match &self.cached {
            Some(unit) => unit.sync(at, len).await,
            None => self.volume.flush().await,
        }
    }

    fn volatile_cache(&self) -> bool {
        self.cached.as_ref().is_none_or(|unit| !unit.has_journal())
    }

    async fn copy_from(&self, source: &Disk, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let _permit = self.enter(Gate::unit_bytes).await?;
        let copy = Box::pin(self.volume.share_or_copy(&source.volume, from, at, len));
        let copied = match (&self.cached, &source.cached) {
            (Some(unit), Some(other)) => {
                unit.change_from(at..at + len, other, from..from + len, copy).await?
            }
            // All volumes of a controller are under its cache, or none is.
            _ => copy.await?,
        };
        self.charge_copy(Some(source), copied, self.gate.as_deref().map_or(0, Gate::unit_bytes));
        self.copied(copied).await
    }

    async fn take_rod(&self, at: u64, len: u64) -> Result<Rod, BlockError> {
        let _permit = self.enter(Gate::unit_bytes).await?;
        let _settled = match &self.cached {
            Some(unit) => Some(unit.settle(at..at + len).await?),
            None => None,
        };
        self.volume.hold(at, len).await
    }

    async fn copy_from_rod(&self, rod: &Rod, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let _permit = self.enter(Gate::unit_bytes).await?;
        let copied = self.change(at, len, self.volume.copy_from_rod(rod, from, at, len)).await?;
        self.charge_copy(None, copied, self.gate.as_deref().map_or(0, Gate::unit_bytes));
        self.copied(copied).await
    }

    fn look_again(&self) {
        if let Some(gate) = self.closed_gate() {
            gate.look_again();
        }
    }

    fn polled_for(&self, aborted: bool) {
        if let Some(gate) = &self.gate {
            gate.polled_for(aborted);
        }
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.volume.save_record(name, bytes).await
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.volume.load_record(name)
    }
}
