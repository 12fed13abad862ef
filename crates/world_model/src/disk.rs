//! Disks as the harness owns them: content, cache, power and faults.
//!
//! # The fault model
//!
//! A disk holds two images: the *durable* one, on the medium, and the *current* one, which every read sees. Between the
//! two lies the volatile write cache: the writes that completed but are not on the medium. A flush moves what had
//! completed when it was submitted; a cache that is over its size moves its oldest by itself. A disk with a cache of no
//! bytes (a drive with power-loss protection) has every completed write on the medium.
//!
//! **A power cut** loses the cache. Every write that is in flight or in the cache is, per 512-byte sector, old or new; where
//! several are, a sector holds the newest that reached the medium. The seed draws one of four ways for each disk, since
//! each finds other bugs: everything in doubt is lost; everything is kept; each write as a whole is kept or lost, in any
//! subset (so a later one may be there and an earlier one not); each sector of each write is kept or lost. What was
//! flushed stays, always. Recovery must succeed, because that is all that a drive that keeps to its contract may do.
//! The cut may come at any instant, or after the k-th *persistence point*: a write, zero or flush has completed in the
//! disk, and its host has not heard of it.
//!
//! **A latent sector error** fails every read that touches the sector, until the sector is written again. Redundancy must
//! recover it; where there is none, the error must be reported, never data.
//!
//! **A slow disk** takes a multiple of its time. **A hung disk** answers nothing; after [`Disk::resume`] it goes on, after
//! [`Disk::kill`] it is **dead**: every operation fails with [`world::DriveError::Gone`]. What was in flight may or may not
//! have been done by then (here: it was not).
//!
//! **Lies**, from which only checksums above can protect: a *lost write* completes and changes nothing, a *misdirected
//! write* lands elsewhere, a *lying flush* completes and moves nothing. [`Disk::poke`] changes content behind everybody's
//! back.
//!
//! When a process ends without a power cut, the disks carry out what was submitted, and caches stay.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use world::{Data, Rng};

use crate::core::{Core, stream};
use crate::image::Image;
use crate::modelled_drive::Ops;

/// The unit in which a write is torn, and in which the medium fails: the smallest that any disk writes at once.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// What a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Size in bytes.
    pub len_bytes: u64,
    /// The unit of addresses and lengths: 512 or 4096.
    pub block_bytes: u32,
    /// How long every operation takes.
    pub latency: Duration,
    /// Up to this much is added to the latency, drawn from the stream `latency`: operations overtake each other.
    pub jitter: Duration,
    /// The size of the volatile write cache; 0: none.
    pub cache_bytes: u64,
}

impl DiskSpec {
    /// A disk with blocks of 512 bytes, a constant latency of 100 µs (a flash drive's, in round figures) and a volatile
    /// cache of 16 MiB.
    pub fn new(len_bytes: u64) -> DiskSpec {
        DiskSpec {
            len_bytes,
            block_bytes: 512,
            latency: Duration::from_micros(100),
            jitter: Duration::ZERO,
            cache_bytes: 16 << 20,
        }
    }

    /// With this constant latency.
    pub fn with_latency(self, latency: Duration) -> DiskSpec {
        DiskSpec { latency, ..self }
    }

    /// With up to this much more latency, drawn.
    pub fn with_jitter(self, jitter: Duration) -> DiskSpec {
        DiskSpec { jitter, ..self }
    }

    /// With a volatile cache of this size.
    pub fn with_cache_bytes(self, cache_bytes: u64) -> DiskSpec {
        DiskSpec { cache_bytes, ..self }
    }

    /// With blocks of this size.
    pub fn with_block_bytes(self, block_bytes: u32) -> DiskSpec {
        DiskSpec { block_bytes, ..self }
    }
}

/// What a write puts on a disk.
#[derive(Clone)]
pub(crate) enum Content {
    Bytes(Data),
    Zeros(u64),
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Bytes(data) => data.len() as u64,
            Content::Zeros(len) => *len,
        }
    }

    fn put(&self, image: &mut Image, at: u64) {
        match self {
            Content::Bytes(data) => image.write(at, data),
            Content::Zeros(len) => image.zero(at, *len),
        }
    }

    fn put_sector(&self, image: &mut Image, at: u64, sector: u64) {
        let from = sector * SECTOR_BYTES;
        match self {
            Content::Bytes(data) => {
                image.write(at + from, &data[from as usize..(from + SECTOR_BYTES) as usize]);
            }
            Content::Zeros(_) => image.zero(at + from, SECTOR_BYTES),
        }
    }
}

/// A write whose survival is open.
pub(crate) struct Doubtful {
    pub(crate) at: u64,
    pub(crate) content: Content,
}

/// Whether a disk answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    Hung,
    Dead,
}

pub(crate) struct Faults {
    pub(crate) health: Health,
    pub(crate) slow: u32,
    /// Sectors that cannot be read.
    pub(crate) latent: BTreeSet<u64>,
    pub(crate) lose_writes: u32,
    pub(crate) misdirect_to: Option<u64>,
    pub(crate) flush_lies: bool,
}

/// Content and cache.
pub(crate) struct Store {
    current: Image,
    /// Kept only with a cache; without one, `current` is durable.
    durable: Image,
    cache: VecDeque<Doubtful>,
    /// The number of the oldest write in the cache.
    cache_first: u64,
    cache_used_bytes: u64,
    cache_max_bytes: u64,
}

impl Store {
    /// The number that the next completed write will have.
    pub(crate) fn next_write(&self) -> u64 {
        self.cache_first + self.cache.len() as u64
    }

    pub(crate) fn read(&self, at: u64, to: &mut [u8]) {
        self.current.read(at, to);
    }

    /// A write completes.
    pub(crate) fn put(&mut self, at: u64, content: Content) {
        content.put(&mut self.current, at);
        if self.cache_max_bytes == 0 {
            return;
        }
        self.cache_used_bytes += content.len();
        self.cache.push_back(Doubtful { at, content });
        while self.cache_used_bytes > self.cache_max_bytes {
            self.destage();
        }
    }

    /// Makes all writes before `number` durable.
    pub(crate) fn flush_before(&mut self, number: u64) {
        while self.cache_first < number && !self.cache.is_empty() {
            self.destage();
        }
    }

    fn destage(&mut self) {
        let Some(oldest) = self.cache.pop_front() else { return };
        self.cache_first += 1;
        self.cache_used_bytes -= oldest.content.len();
        oldest.content.put(&mut self.durable, oldest.at);
    }

    /// The power goes; `in_flight` had been submitted.
    fn cut(&mut self, in_flight: Vec<Doubtful>, rng: &mut Rng) {
        let with_cache = self.cache_max_bytes > 0;
        let medium = if with_cache { &mut self.durable } else { &mut self.current };
        let way = rng.u8(..4);
        let cached = self.cache.drain(..);
        for write in cached.chain(in_flight) {
            let sectors = write.content.len() / SECTOR_BYTES;
            match way {
                0 => {}
                1 => write.content.put(medium, write.at),
                2 if rng.bool() => write.content.put(medium, write.at),
                2 => {}
                _ => (0..sectors).filter(|_| rng.bool()).for_each(|s| write.content.put_sector(medium, write.at, s)),
            }
        }
        self.cache_first = 0;
        self.cache_used_bytes = 0;
        if with_cache {
            self.current = self.durable.clone();
        }
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
    pub(crate) ops: RefCell<Ops>,
    /// The run that has the disk open.
    pub(crate) line: RefCell<Weak<Core>>,
}

impl Shared {
    pub(crate) fn new(name: &str, number: u64, spec: DiskSpec, power: Rc<Power>) -> Shared {
        assert!(spec.len_bytes.is_multiple_of(spec.block_bytes.into()), "disk {name}: its size is not whole blocks");
        Shared {
            name: name.to_owned(),
            number,
            spec,
            power,
            store: RefCell::new(Store {
                current: Image::default(),
                durable: Image::default(),
                cache: VecDeque::new(),
                cache_first: 0,
                cache_used_bytes: 0,
                cache_max_bytes: spec.cache_bytes,
            }),
            faults: RefCell::new(Faults {
                health: Health::Well,
                slow: 1,
                latent: BTreeSet::new(),
                lose_writes: 0,
                misdirect_to: None,
                flush_lies: false,
            }),
            ops: RefCell::default(),
            line: RefCell::default(),
        }
    }
}

/// One disk: content checks and faults, from outside or from within a run.
#[derive(Clone)]
pub struct Disk(pub(crate) Rc<Shared>);

impl Disk {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is.
    pub fn spec(&self) -> DiskSpec {
        self.0.spec
    }

    /// The content that a read would see now; latent errors do not hinder it.
    pub fn peek(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.store.borrow().current.read(at, &mut bytes);
        bytes
    }

    /// Changes content on the medium and in the cache's view, behind everybody's back.
    pub fn poke(&self, at: u64, bytes: &[u8]) {
        let store = &mut *self.0.store.borrow_mut();
        store.current.write(at, bytes);
        store.durable.write(at, bytes);
    }

    /// Makes the 512-byte sectors that the byte range touches unreadable until they are written.
    pub fn add_latent_errors(&self, bytes: Range<u64>) {
        let sectors = bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES);
        self.0.faults.borrow_mut().latent.extend(sectors);
    }

    /// How many sectors are unreadable.
    pub fn latent_errors(&self) -> usize {
        self.0.faults.borrow().latent.len()
    }

    /// Every operation submitted from now on takes `factor` times as long; 1: healthy.
    pub fn set_slow(&self, factor: u32) {
        self.0.faults.borrow_mut().slow = factor;
    }

    /// The disk answers nothing any more.
    pub fn hang(&self) {
        self.0.faults.borrow_mut().health = Health::Hung;
    }

    /// A hung disk goes on; a dead one is plugged in again, with its content.
    pub fn resume(&self) {
        self.0.faults.borrow_mut().health = Health::Well;
        self.fire_parked();
    }

    /// The disk is dead: what is in flight and what comes fails.
    pub fn kill(&self) {
        self.0.faults.borrow_mut().health = Health::Dead;
        self.fire_parked();
    }

    /// The next `count` writes complete and change nothing.
    pub fn lose_writes(&self, count: u32) {
        self.0.faults.borrow_mut().lose_writes = count;
    }

    /// The next write lands at `at` instead (it must fit there).
    pub fn misdirect_next_write(&self, at: u64) {
        self.0.faults.borrow_mut().misdirect_to = Some(at);
    }

    /// Whether flushes complete without making anything durable.
    pub fn set_flush_lies(&self, lies: bool) {
        self.0.faults.borrow_mut().flush_lies = lies;
    }

    fn fire_parked(&self) {
        let parked = self.0.ops.borrow_mut().take_parked();
        if let Some(core) = self.0.line.borrow().upgrade() {
            for token in parked {
                core.arm(core.now_ns(), self.0.clone(), token);
            }
        }
    }
}

/// The power of all disks, and the points at which it may be cut.
pub(crate) struct Power {
    on: Cell<bool>,
    torn: Cell<bool>,
    points: Cell<u64>,
    cut_after: Cell<Option<u64>>,
}

impl Default for Power {
    fn default() -> Power {
        Power { on: Cell::new(true), torn: Cell::default(), points: Cell::default(), cut_after: Cell::default() }
    }
}

impl Power {
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Something persisted. Returns whether the power is still on.
    pub(crate) fn pass_point(&self) -> bool {
        let points = self.points.get() + 1;
        self.points.set(points);
        if self.cut_after.get() == Some(points) {
            self.on.set(false);
        }
        self.on.get()
    }
}

/// All disks of a model.
#[derive(Clone)]
pub struct Disks(Rc<Rack>);

struct Rack {
    list: RefCell<Vec<Disk>>,
    power: Rc<Power>,
    rng: RefCell<Rng>,
}

impl Disks {
    pub(crate) fn new(seed: u64) -> Disks {
        let rng = RefCell::new(stream(seed, "power"));
        Disks(Rc::new(Rack { list: RefCell::default(), power: Rc::default(), rng }))
    }

    pub(crate) fn add(&self, name: &str, spec: DiskSpec) -> Disk {
        assert!(self.get(name).is_none(), "there is a disk {name} already");
        let mut list = self.0.list.borrow_mut();
        let disk = Disk(Rc::new(Shared::new(name, list.len() as u64, spec, self.0.power.clone())));
        list.push(disk.clone());
        disk
    }

    /// The disk of this name.
    pub fn get(&self, name: &str) -> Option<Disk> {
        self.0.list.borrow().iter().find(|d| d.name() == name).cloned()
    }

    /// How many writes, zeros and flushes have completed in all disks since the model began.
    pub fn persistence_points(&self) -> u64 {
        self.0.power.points.get()
    }

    /// Cuts the power right after the persistence point of this number ([`Disks::persistence_points`] counts from 1).
    pub fn cut_power_after(&self, point: u64) {
        self.0.power.cut_after.set(Some(point));
    }

    /// No cut is to come any more.
    pub fn keep_power(&self) {
        self.0.power.cut_after.set(None);
    }

    /// Cuts the power now: of the code under test, nothing runs after the present step.
    pub fn cut_power(&self) {
        self.0.power.on.set(false);
        self.tear();
    }

    /// Whether the disks have power.
    pub fn is_powered(&self) -> bool {
        self.0.power.is_on()
    }

    pub(crate) fn power_on(&self) {
        self.0.power.on.set(true);
        self.0.power.torn.set(false);
        self.0.power.cut_after.set(None);
    }

    /// Once for each power cut, decides what survives.
    pub(crate) fn tear(&self) {
        if self.0.power.torn.replace(true) {
            return;
        }
        let mut rng = self.0.rng.borrow_mut();
        for disk in self.0.list.borrow().iter() {
            let mut in_flight = disk.0.ops.borrow_mut().abandon();
            if disk.0.faults.borrow().health == Health::Dead {
                in_flight.clear();
            }
            disk.0.store.borrow_mut().cut(in_flight, &mut rng);
        }
    }

    /// The process is gone and the power is on: what was submitted is carried out.
    pub(crate) fn process_ended(&self) {
        for disk in self.0.list.borrow().iter() {
            let in_flight = disk.0.ops.borrow_mut().abandon();
            if disk.0.faults.borrow().health == Health::Well {
                let mut store = disk.0.store.borrow_mut();
                in_flight.into_iter().for_each(|write| store.put(write.at, write.content));
            }
        }
    }
}
