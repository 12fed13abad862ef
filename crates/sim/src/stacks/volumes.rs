//! The volumes of a simulated pool: created, grown, cloned and deleted; after each crash the pool's list is
//! compared with the shadows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use block::Device;
use pool::{Pool, Provisioning};
use world::Rng;

use crate::actors::workload::Shared;
use crate::shadow::Shadow;
use crate::stamp::SECTOR_BYTES;

/// The smallest page: the most map changes.
pub(super) const PAGE_BYTES: u64 = 64 << 10;
/// Volumes begin with between one and this many pages.
const PAGES_MAX: u64 = 16;
/// No volume grows over this many pages.
const PAGES_GROWN_MAX: u64 = 32;
/// Most volumes.
const VOLUMES_MAX: usize = 8;
/// Most space of the volumes, and a quarter more, because released pages are held for a while.
pub(super) const ROOM_BYTES: u64 = VOLUMES_MAX as u64 * PAGES_GROWN_MAX * PAGE_BYTES / 4 * 5;

/// What is known of a volume's existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Surely,
    /// Its creation or deletion is in progress.
    Perhaps,
}

/// What is known of a volume.
#[derive(Clone)]
struct Volume {
    there: There,
    /// Its size: the last acknowledged, and the last requested.
    len_bytes: u64,
    len_asked_bytes: u64,
}

/// The shadows of all volumes of a pool.
#[derive(Clone, Default)]
pub(super) struct Known {
    volumes: BTreeMap<String, Volume>,
    named: u64,
}

/// The volumes of a pool.
pub(super) struct Volumes {
    shared: Shared,
    volumes: RefCell<BTreeMap<String, Volume>>,
    /// The number of names so far.
    named: Cell<u64>,
}

/// A volume that must exist.
pub(super) fn of(pool: &Pool, name: &str) -> pool::Volume {
    pool.volume(name).unwrap_or_else(|| panic!("volume {name} is gone"))
}

impl Volumes {
    pub(super) fn new(shared: Shared, known: Known) -> Volumes {
        Volumes { shared, volumes: RefCell::new(known.volumes), named: Cell::new(known.named) }
    }

    pub(super) fn known(&self) -> Known {
        Known { volumes: self.volumes.borrow().clone(), named: self.named.get() }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.volumes.borrow().keys().cloned().collect()
    }

    /// Compares the pool's list of volumes with the shadows, and decides what was open.
    pub(super) fn reconcile(&self, pool: &Pool) {
        let known = &mut *self.volumes.borrow_mut();
        let found: BTreeMap<String, pool::Volume> =
            pool.volumes().into_iter().map(|v| (v.name().to_string(), v)).collect();
        for name in found.keys() {
            assert!(known.contains_key(name), "volume {name} is there, and was deleted or never made");
        }
        known.retain(|name, known| match found.get(name) {
            None => {
                assert!(known.there == There::Perhaps, "volume {name} is lost");
                self.shared.shadows.borrow_mut().remove(name);
                false
            }
            Some(volume) => {
                let len = volume.geometry().len_bytes;
                let (acknowledged, asked) = (known.len_bytes, known.len_asked_bytes);
                assert!(
                    len == acknowledged || len == asked,
                    "volume {name} has {len} bytes, not {acknowledged} or {asked}"
                );
                *known = Volume { there: There::Surely, len_bytes: len, len_asked_bytes: len };
                if let Some(shadow) = self.shared.shadows.borrow_mut().get_mut(name) {
                    shadow.grow(len as usize / SECTOR_BYTES);
                }
                true
            }
        });
    }

    /// One change to the volumes, while nothing else is in flight.
    pub(super) async fn change(&self, pool: &Pool, rng: &mut Rng) {
        let names = self.names();
        if names.is_empty() {
            return self.create_volume(pool, rng).await;
        }
        let name = &names[rng.usize(..names.len())];
        match rng.u8(..8) {
            0..2 if names.len() < VOLUMES_MAX => self.create_volume(pool, rng).await,
            2..4 if names.len() < VOLUMES_MAX => self.clone_volume(pool, name).await,
            4..6 if names.len() > VOLUMES_MAX / 2 => self.delete_volume(pool, name).await,
            6 => self.grow_volume(pool, name, rng).await,
            _ => {}
        }
    }

    fn new_name(&self) -> String {
        self.named.set(self.named.get() + 1);
        format!("v{}", self.named.get())
    }

    fn expect(&self, name: &str, shadow: Shadow) {
        let len_bytes = (shadow.sectors() * SECTOR_BYTES) as u64;
        let known = Volume { there: There::Perhaps, len_bytes, len_asked_bytes: len_bytes };
        self.volumes.borrow_mut().insert(name.to_owned(), known);
        self.shared.shadows.borrow_mut().insert(name.to_owned(), shadow);
    }

    fn set_there(&self, name: &str, there: There) {
        self.volumes.borrow_mut().get_mut(name).expect("a known volume").there = there;
    }

    async fn create_volume(&self, pool: &Pool, rng: &mut Rng) {
        let name = self.new_name();
        let len_bytes = rng.u64(1..=PAGES_MAX) * PAGE_BYTES;
        let provisioning = if rng.u8(..4) == 0 { Provisioning::Thick } else { Provisioning::Thin };
        self.shared.tell(|| format!("create {name} with {len_bytes} bytes, {provisioning:?}"));
        self.expect(&name, Shadow::new(len_bytes as usize / SECTOR_BYTES));
        let made = pool.create_volume(&name, len_bytes, provisioning).await;
        made.unwrap_or_else(|e| panic!("create {name}: {e}"));
        self.set_there(&name, There::Surely);
    }

    async fn clone_volume(&self, pool: &Pool, from: &str) {
        let name = self.new_name();
        self.shared.tell(|| format!("clone {from} as {name}"));
        let shadow = self.shared.shadows.borrow()[from].clone();
        self.expect(&name, shadow);
        pool.clone_volume(from, &name).await.unwrap_or_else(|e| panic!("clone {from} as {name}: {e}"));
        self.set_there(&name, There::Surely);
    }

    async fn delete_volume(&self, pool: &Pool, name: &str) {
        self.shared.tell(|| format!("delete {name}"));
        self.set_there(name, There::Perhaps);
        pool.delete_volume(name).await.unwrap_or_else(|e| panic!("delete {name}: {e}"));
        self.volumes.borrow_mut().remove(name);
        self.shared.shadows.borrow_mut().remove(name);
    }

    async fn grow_volume(&self, pool: &Pool, name: &str, rng: &mut Rng) {
        let len_bytes = self.volumes.borrow()[name].len_bytes + rng.u64(1..=4) * PAGE_BYTES;
        if len_bytes > PAGES_GROWN_MAX * PAGE_BYTES {
            return;
        }
        let note = |set: fn(&mut Volume, u64)| {
            set(self.volumes.borrow_mut().get_mut(name).expect("known"), len_bytes)
        };
        self.shared.tell(|| format!("grow {name} to {len_bytes} bytes"));
        note(|known, len| known.len_asked_bytes = len);
        pool.grow_volume(name, len_bytes).await.unwrap_or_else(|e| panic!("grow {name}: {e}"));
        note(|known, len| known.len_bytes = len);
        let sectors = len_bytes as usize / SECTOR_BYTES;
        self.shared.shadows.borrow_mut().get_mut(name).expect("known").grow(sectors);
    }
}
