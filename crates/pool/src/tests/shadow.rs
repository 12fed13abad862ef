//! What every sector of every volume may hold: the shadow of a pool.

use std::collections::BTreeMap;

use block::{Buf, Device, Pieces};

use super::rig::SECTOR;
use crate::Volume;

/// A sector holds one value, repeated: 0 is zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sector {
    durable: u32,
    /// Later values whose survival is open, oldest first.
    open: Vec<u32>,
}

impl Sector {
    /// What a read gives.
    pub(super) fn now(&self) -> u32 {
        *self.open.last().unwrap_or(&self.durable)
    }

    pub(super) fn set(&mut self, value: u32) {
        if self.now() != value {
            self.open.push(value);
        }
    }

    pub(super) fn settle(&mut self) {
        *self = Sector { durable: self.now(), open: Vec::new() };
    }

    fn may_be(&self, value: u32) -> bool {
        self.durable == value || self.open.contains(&value)
    }
}

/// The volumes by name.
#[derive(Default)]
pub(super) struct Shadow {
    pub(super) volumes: BTreeMap<String, Vec<Sector>>,
    /// A change of the set of volumes that is on its way: with it or without.
    pub(super) coming: Option<(String, Vec<Sector>)>,
    pub(super) going: Option<String>,
    pub(super) growing: Option<(String, usize)>,
    /// What each worker saved: durable, and on its way.
    pub(super) records: [[u32; 2]; 5],
}

impl Shadow {
    pub(super) fn sectors(&mut self, volume: &str) -> &mut Vec<Sector> {
        self.volumes.get_mut(volume).expect("the shadow has every volume")
    }

    pub(super) fn settle_all(&mut self) {
        self.volumes.values_mut().flatten().for_each(Sector::settle);
    }
}

/// Data with these values, sector by sector.
pub(super) fn encode(values: impl ExactSizeIterator<Item = u32>) -> Pieces {
    let mut buf = Buf::new(values.len() * SECTOR as usize);
    for (sector, value) in buf.chunks_exact_mut(SECTOR as usize).zip(values) {
        sector.chunks_exact_mut(4).for_each(|c| c.copy_from_slice(&value.to_le_bytes()));
    }
    buf.freeze().into()
}

/// The values of sectors `from..from + n`.
pub(super) async fn values(volume: &Volume, from: usize, n: usize) -> Vec<u32> {
    let mut out = Pieces::new();
    volume.read(from as u64 * SECTOR, n * SECTOR as usize, &mut out).await.expect("read");
    assert_eq!(out.len(), n * SECTOR as usize);
    let mut values = Vec::with_capacity(n);
    for sector in out.joined().chunks_exact(SECTOR as usize) {
        let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        let value = word(sector);
        let i = from + values.len();
        assert!(
            sector.chunks_exact(4).all(|c| word(c) == value),
            "{}: sector {i} is a mixture",
            volume.name()
        );
        values.push(value);
    }
    values
}

/// Reads must give what was written last.
pub(super) fn check_now(name: &str, sectors: &[Sector], from: usize, found: &[u32]) {
    for (i, value) in found.iter().enumerate() {
        let expected = sectors[from + i].now();
        assert_eq!(*value, expected, "{name}: sector {} is {value:#x}, expected {expected:#x}", from + i);
    }
}

/// After a crash every sector holds one of its allowed values, and from then on that is what it holds.
pub(super) fn check_survivors(name: &str, sectors: &mut [Sector], found: &[u32]) {
    assert_eq!(sectors.len(), found.len(), "{name}");
    for (i, (sector, value)) in sectors.iter_mut().zip(found).enumerate() {
        assert!(
            sector.may_be(*value),
            "{name}: sector {i} is {value:#x} after the crash, not one of {sector:x?}"
        );
        *sector = Sector { durable: *value, open: Vec::new() };
    }
}
