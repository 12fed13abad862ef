//! Disks of the harness: content, cache, power and faults.
//!
//! # The fault model
//!
//! A disk holds two images: the *durable* one, on the medium, and the *current* one, which every read sees.
//! Between the two lies the volatile write cache: the writes that completed but are not on the medium. A
//! flush moves what had completed when it was submitted; a cache that is over its size moves its oldest by
//! itself. A disk with a cache of no bytes (a drive with power-loss protection) has every completed write on
//! the medium.
//!
//! **A power cut** loses the cache. Every write that is in flight or in the cache is, per 512-byte sector,
//! old or new; where several are, a sector holds the newest that reached the medium. The seed draws one of
//! five ways for each disk, since each finds other bugs: everything in doubt is lost; everything is kept;
//! each write as a whole is kept or lost, in any subset (so a later one may be there and an earlier one not);
//! each sector of 512 bytes of each write is kept or lost; the same for pieces of 4096 bytes, as drives with
//! such physical sectors do it. What was flushed stays, always. Recovery must succeed, because that is all
//! that a drive that keeps to its contract may do. The cut may come at any instant, or after the k-th
//! *persistence point*: a write, zero or flush has completed in the disk, and its host has not heard of it.
//!
//! **A latent sector error** fails every read that touches the sector, until the sector is written again.
//! Redundancy must recover it; where there is none, the error must be reported, never data.
//!
//! **A slow disk** takes a multiple of its time. **A hung disk** answers nothing; after [`Disk::resume`] it
//! goes on, after [`Disk::kill`] it is **dead**: every operation fails with [`world::DriveError::Gone`]. What
//! was in flight may or may not have been done by then (here: it was not).
//!
//! **A full file system** below a sparse disk: writes where nothing was written before fail with
//! [`world::DriveError::NoRoom`], until there is room.
//!
//! **A failed flush** moves nothing and reports it once, as Linux reports a failed write-back: the next one
//! succeeds.
//!
//! **Lies**, from which only checksums above can protect: a *lost write* completes and changes nothing, a
//! *misdirected write* lands elsewhere, a *lying flush* completes and moves nothing. [`Disk::poke`] changes
//! content behind everybody's back.
//!
//! When a process ends without a power cut, the disks carry out what was submitted, and caches stay.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::{Rc, Weak};

use world::Rng;

use crate::clockwork::Clockwork;
use crate::disk_spec::{DiskSpec, Timing};
use crate::drives::Usage;
use crate::in_flight::{Client, InFlight};
use crate::power::Power;
use crate::process::Process;
use crate::store::{Doubtful, SECTOR_BYTES, Store};
use crate::timeline::Timeline;

/// Whether a disk responds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    Hung,
    Dead,
}

#[derive(Clone)]
pub(crate) struct Faults {
    pub(crate) health: Health,
    pub(crate) slow: u32,
    /// Unreadable sectors.
    pub(crate) latent: BTreeSet<u64>,
    pub(crate) lose_writes: u32,
    pub(crate) misdirect_to: Option<u64>,
    pub(crate) flush_lies: bool,
    pub(crate) fail_flushes: u32,
    pub(crate) full_from: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) refuse_opens: u32,
    pub(crate) fences_fail: bool,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            health: Health::Well,
            slow: 1,
            latent: BTreeSet::new(),
            lose_writes: 0,
            misdirect_to: None,
            flush_lies: false,
            fail_flushes: 0,
            full_from: None,
            read_only: false,
            fences_fail: false,
            refuse_opens: 0,
        }
    }
}

/// Which machine has a disk; see [`crate::machine`].
#[derive(Default)]
pub(crate) struct Lock {
    /// The last one that was given out.
    clients: Cell<Client>,
    /// These and all before them are fenced.
    fenced: Cell<Client>,
    holder: RefCell<Option<(Client, Rc<Process>)>>,
    /// Whoever opens the disk has it, and nobody is fenced.
    is_shared: Cell<bool>,
}

impl Lock {
    /// The machine gets the disk, unless another one has it, whose name is the error.
    pub(crate) fn take(&self, machine: &Rc<Process>) -> Result<Client, String> {
        if self.is_shared.get() {
            return Ok(0);
        }
        let mut holder = self.holder.borrow_mut();
        if let Some((_, other)) = holder.as_ref().filter(|(_, other)| !Rc::ptr_eq(other, machine)) {
            return Err(other.name().to_owned());
        }
        let client = self.clients.get() + 1;
        self.clients.set(client);
        *holder = Some((client, machine.clone()));
        Ok(client)
    }

    /// The client has closed the disk. A dead machine closes nothing.
    pub(crate) fn release(&self, client: Client) {
        self.holder.borrow_mut().take_if(|(held, machine)| *held == client && !machine.is_dead());
    }

    /// Returns who had it.
    pub(crate) fn fence(&self) -> Option<String> {
        self.fenced.set(self.clients.get());
        self.holder.take().map(|(_, machine)| machine.name().to_owned())
    }

    pub(crate) fn is_fenced(&self, client: Client) -> bool {
        client != 0 && client <= self.fenced.get()
    }
}

/// A disk; the harness, its open drive and its events share it.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) spec: DiskSpec,
    pub(crate) power: Rc<Power>,
    pub(crate) store: RefCell<Store>,
    pub(crate) faults: RefCell<Faults>,
    pub(crate) ops: RefCell<InFlight>,
    /// How long operations take, in the run that has the disk open.
    pub(crate) clockwork: RefCell<Clockwork>,
    /// The run that has the disk open.
    pub(crate) timeline: RefCell<Weak<Timeline>>,
    pub(crate) lock: Lock,
}

impl Shared {
    pub(crate) fn new(name: &str, number: u64, spec: DiskSpec, power: Rc<Power>) -> Shared {
        assert!(
            spec.len_bytes.is_multiple_of(spec.block_bytes.into()),
            "disk {name}: its size is not whole blocks"
        );
        if let Timing::Drive(prepared) = &spec.timing {
            assert!(spec.len_bytes <= prepared.len_bytes(), "disk {name}: its drive is smaller");
        }
        Shared {
            name: name.to_owned(),
            number,
            power,
            store: RefCell::new(Store::new(spec.cache_bytes, spec.keeps_content)),
            faults: RefCell::default(),
            ops: RefCell::default(),
            clockwork: RefCell::new(Clockwork::new(&spec.timing)),
            spec,
            timeline: RefCell::default(),
            lock: Lock::default(),
        }
    }

    /// Power failure: `rng` decides what of the cache and of `in_flight` survives.
    pub(crate) fn lose_power(&self, mut in_flight: Vec<Doubtful>, rng: &mut Rng) {
        if self.faults.borrow().health == Health::Dead {
            in_flight.clear();
        }
        self.store.borrow_mut().cut(in_flight, rng);
    }

    /// The process ends and the power stays: submitted operations are carried out, unless the disk hangs or
    /// is dead.
    pub(crate) fn lose_process(&self, in_flight: Vec<Doubtful>) {
        if self.faults.borrow().health == Health::Well {
            let mut store = self.store.borrow_mut();
            in_flight.into_iter().for_each(|write| store.put(write.at, write.content));
        }
    }
}

/// One disk: inspection and faults, from outside or within a run. Its content lives as long as its model.
#[derive(Clone)]
pub struct Disk(pub(crate) Rc<Shared>);

impl Disk {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its specification.
    pub fn spec(&self) -> DiskSpec {
        self.0.spec.clone()
    }

    /// The counters of its drive in the current or last run; `None` for a disk of fixed latency.
    pub fn usage(&self) -> Option<Usage> {
        let now_ns = self.0.timeline.borrow().upgrade().map_or(0, |timeline| timeline.now_ns());
        self.0.clockwork.borrow().usage(now_ns)
    }

    /// The content that a read would return now, ignoring latent errors.
    pub fn peek(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.store.borrow().read(at, &mut bytes);
        bytes
    }

    /// Changes content on the medium and in the cache, bypassing the drive.
    pub fn poke(&self, at: u64, bytes: &[u8]) {
        self.0.store.borrow_mut().poke(at, bytes);
    }

    /// Makes the 512-byte sectors that the byte range touches unreadable until they are written.
    pub fn add_latent_errors(&self, bytes: Range<u64>) {
        let sectors = bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES);
        self.0.faults.borrow_mut().latent.extend(sectors);
    }

    /// Removes all latent errors.
    pub fn clear_latent_errors(&self) {
        self.0.faults.borrow_mut().latent.clear();
    }

    /// The number of unreadable sectors.
    pub fn latent_errors(&self) -> usize {
        self.0.faults.borrow().latent.len()
    }

    /// Every operation submitted from now on takes `factor` times as long; 1: healthy.
    pub fn set_slow(&self, factor: u32) {
        self.0.faults.borrow_mut().slow = factor;
    }

    /// Hangs the disk.
    pub fn hang(&self) {
        self.0.faults.borrow_mut().health = Health::Hung;
    }

    /// A hung disk never answers what it has not answered so far, as when a controller loses commands.
    pub fn forget(&self) {
        self.0.ops.borrow_mut().take_parked();
    }

    /// Resumes a hung disk; reconnects a dead one, with its content.
    pub fn resume(&self) {
        self.0.faults.borrow_mut().health = Health::Well;
        self.fire_parked();
    }

    /// Kills the disk: operations in flight and later ones fail.
    pub fn kill(&self) {
        self.0.faults.borrow_mut().health = Health::Dead;
        self.fire_parked();
    }

    /// The next `count` writes complete without effect.
    pub fn lose_writes(&self, count: u32) {
        self.0.faults.borrow_mut().lose_writes = count;
    }

    /// The next write is stored at `at` instead (it must fit there).
    pub fn misdirect_next_write(&self, at: u64) {
        self.0.faults.borrow_mut().misdirect_to = Some(at);
    }

    /// Whether flushes complete without making anything durable.
    pub fn set_flush_lies(&self, lies: bool) {
        self.0.faults.borrow_mut().flush_lies = lies;
    }

    /// From this byte on, writes fail where nothing was written before; `None`: there is room.
    pub fn set_full_from(&self, at: Option<u64>) {
        self.0.faults.borrow_mut().full_from = at;
    }

    /// The next `count` flushes fail.
    pub fn fail_flushes(&self, count: u32) {
        self.0.faults.borrow_mut().fail_flushes = count;
    }

    /// Whether machines open the disk beside each other, and fences do nothing: what no array survives.
    pub fn set_shared(&self, shared: bool) {
        self.0.lock.is_shared.set(shared);
    }

    /// Whether writes and opening fail, as on a read-only device; on an open disk, reads and flushes still
    /// succeed.
    pub fn set_read_only(&self, read_only: bool) {
        self.0.faults.borrow_mut().read_only = read_only;
    }

    /// Whether fences fail, as where only its last holder reaches the disk.
    pub fn set_fences_fail(&self, fail: bool) {
        self.0.faults.borrow_mut().fences_fail = fail;
    }

    /// The next `count` openings fail.
    pub fn refuse_opens(&self, count: u32) {
        self.0.faults.borrow_mut().refuse_opens = count;
    }

    fn fire_parked(&self) {
        let parked = self.0.ops.borrow_mut().take_parked();
        if let Some(timeline) = self.0.timeline.borrow().upgrade() {
            for token in parked {
                timeline.arm(timeline.now_ns(), self.0.clone(), token);
            }
        }
    }
}
