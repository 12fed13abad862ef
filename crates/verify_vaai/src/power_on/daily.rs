//! What VMs ask of locks besides powering on, in the order of a life: created, grown, a snapshot made, handed
//! to another host, the snapshot deleted, shut down. All VMs of all hosts do each at once.
//!
//! After each, what lies on the disk is compared with what the hosts did: owners and generations of locks,
//! descriptors, clusters, and a mark in every extent (`audit`).

mod audit;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::{Either, select, try_join_all};
use world::{Instant, Rng};

use super::{Cluster, Crowd, FIRST_SLOT, Side};
use crate::scenario::Daily;
use audit::Before;
use lab_tools::datastore::{
    CLUSTERS, Content, EXTENT_BYTES, FILES_MAX, File, HostId, LockCounts, LockRecord, Locking, Locks,
    StoreError,
};
use lab_tools::hosts::{Connection, Disk, Spent};
use scsi::Lun;

/// What all VMs do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Locks on the VM's files, space for its disk and swap, a descriptor.
    Create,
    /// Its thin disk takes extent after extent.
    Grow,
    /// A file for what it writes from now on.
    Snapshot,
    /// Another host takes its locks.
    HandOver,
    /// What it has written since goes into its disk, the file goes away.
    Consolidate,
    /// Its swap goes away, its locks are released.
    ShutDown,
}

impl Operation {
    /// In the order of a life.
    pub(crate) const ALL: [Operation; 6] = [
        Operation::Create,
        Operation::Grow,
        Operation::Snapshot,
        Operation::HandOver,
        Operation::Consolidate,
        Operation::ShutDown,
    ];

    /// As it is called in samples.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Grow => "grow",
            Operation::Snapshot => "snapshot",
            Operation::HandOver => "hand_over",
            Operation::Consolidate => "consolidate",
            Operation::ShutDown => "shut_down",
        }
    }
}

/// Files of a VM that have a lock: configuration, disk, log; and the one that a snapshot makes.
const FILES: usize = 4;
const DELTA: usize = 3;
/// What a mark is, at the beginning of an extent.
const MARK_BYTES: u64 = 4096;
/// How long the running VM is watched before anything begins.
const WATCH: Duration = Duration::from_secs(2);

/// A VM as its hosts know it.
#[derive(Clone, Debug, Default)]
struct Vm {
    /// The side that runs it.
    side: usize,
    disk: File,
    swap: Vec<u64>,
    delta: Option<File>,
    held: [Option<LockRecord>; FILES],
    /// Changes of each lock.
    changes: [u64; FILES],
    /// The key of the mark of each extent of the disk.
    marks: Vec<u64>,
}

/// What one operation gave.
pub(crate) struct Lived {
    pub(crate) operation: Operation,
    /// Of each VM.
    pub(crate) times_s: Vec<f64>,
    pub(crate) spent: Spent,
    pub(crate) counts: LockCounts,
    pub(crate) violations: Vec<String>,
}

/// The VM that runs beside all of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bystander {
    /// Mean response of its reads before anything began, and while the operations went on.
    pub(crate) idle_s: f64,
    pub(crate) busy_s: f64,
    /// Its slowest read of these.
    pub(crate) slowest_s: f64,
    pub(crate) conflicts: u64,
}

/// What is watched of a running VM.
#[derive(Default)]
struct Watched {
    is_busy: Cell<bool>,
    is_idle: Cell<bool>,
    idle: RefCell<Vec<f64>>,
    busy: RefCell<Vec<f64>>,
}

/// The hosts and their VMs.
struct Life<'a> {
    daily: &'a Daily,
    sides: Vec<Side>,
    vms: Vec<RefCell<Vm>>,
    before: Before,
    seed: u64,
}

impl Life<'_> {
    fn lock_of(vm: usize, file: usize) -> u32 {
        CLUSTERS + (vm * FILES + file) as u32
    }

    fn slot_of_disk(vm: usize) -> u32 {
        FIRST_SLOT + vm as u32
    }

    fn slot_of_delta(&self, vm: usize) -> u32 {
        FIRST_SLOT + (self.vms.len() + vm) as u32
    }

    /// What stands at the beginning of an extent: its key.
    fn mark(&self, vm: usize, nth: usize) -> u64 {
        self.seed ^ ((vm as u64) << 16 | nth as u64)
    }

    fn counts(&self) -> LockCounts {
        self.sides.iter().map(|side| side.store.locks().counts()).fold(LockCounts::default(), super::add)
    }
}

/// The content of a mark.
fn marked(key: u64) -> Content {
    Content::Pattern { key, used_bytes: MARK_BYTES }
}

impl Cluster {
    /// All operations, one after the other; `beside` is the way of a host with one VM, which reads meanwhile
    /// where `template` lies.
    pub(crate) async fn live(
        &self,
        crowd: Crowd,
        daily: &Daily,
        (beside, lun, template): (Connection, Lun, &File),
    ) -> Result<(Vec<Lived>, Bystander)> {
        let life = Box::pin(self.begin_life(crowd, daily)).await?;
        let watched = Watched::default();
        let disk = Disk::open(self.world.clone(), beside, lun).await?;
        let rng = self.world.random("locks of the host beside");
        let me = HostId(self.disks.len() as u32 + 1);
        let locks = Locks::new(disk, self.layout, me, Locking::CompareAndWrite, self.patience, rng);
        let running = self.run_beside(&locks, template, daily, &watched);
        let lived = match select(Box::pin(self.live_all(&life, &watched)), Box::pin(running)).await {
            Either::Left((lived, _)) => lived?,
            Either::Right((failed, _)) => return failed.map(|()| (Vec::new(), Bystander::default())),
        };
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
        let (idle, busy) = (watched.idle.borrow(), watched.busy.borrow());
        let bystander = Bystander {
            idle_s: mean(&idle),
            busy_s: mean(&busy),
            slowest_s: busy.iter().copied().fold(0.0, f64::max),
            conflicts: locks.counts().conflicts,
        };
        Ok((lived, bystander))
    }

    async fn begin_life<'a>(&self, crowd: Crowd, daily: &'a Daily) -> Result<Life<'a>> {
        let (hosts, method) = match crowd {
            Crowd::Reserve => (self.disks.len(), Locking::Reserve),
            Crowd::Compare => (self.disks.len(), Locking::CompareAndWrite),
            Crowd::Alone => (1, Locking::CompareAndWrite),
        };
        let vms = hosts * self.vms_per_host;
        ensure!(
            2 * vms + FIRST_SLOT as usize <= FILES_MAX as usize,
            "{vms} VMs with a snapshot each are too many"
        );
        let mut sides = Vec::new();
        // One that takes VMs over is there in any case.
        for host in 0..hosts.max(2).min(self.disks.len()) {
            let store = self.mount(host, method).await?;
            let rng = self.world.random(&format!("VMs of host {host}"));
            let (me, taken) = (HostId(host as u32 + 1), RefCell::default());
            sides.push(Side { store, me, taken, rng: RefCell::new(rng) });
        }
        let before = self.look_before(sides[0].store.locks()).await?;
        let of = |vm: usize| RefCell::new(Vm { side: vm / self.vms_per_host, ..Vm::default() });
        Ok(Life { daily, sides, vms: (0..vms).map(of).collect(), before, seed: self.world.seed() })
    }

    async fn live_all(&self, life: &Life<'_>, watched: &Watched) -> Result<Vec<Lived>> {
        watched.is_idle.set(true);
        self.world.sleep(WATCH).await;
        watched.is_idle.set(false);
        let mut lived = Vec::new();
        for operation in Operation::ALL {
            let (counts, meters) = (life.counts(), self.read_meters());
            watched.is_busy.set(true);
            let times_s =
                Box::pin(self.live_once(life, operation)).await.with_context(|| operation.name())?;
            watched.is_busy.set(false);
            let spent = Spent::between(&meters, &self.read_meters());
            let counts = since(life.counts(), counts);
            let violations = Box::pin(self.audit_life(life, operation)).await?;
            lived.push(Lived { operation, times_s, spent, counts, violations });
        }
        Ok(lived)
    }

    /// One operation by all VMs, and the heartbeats of their hosts.
    async fn live_once(&self, life: &Life<'_>, operation: Operation) -> Result<Vec<f64>, StoreError> {
        let all = try_join_all((0..life.vms.len()).map(|vm| Box::pin(self.operate(life, operation, vm))));
        let beating = try_join_all(life.sides.iter().map(|side| self.beat(side)));
        match select(Box::pin(all), Box::pin(beating)).await {
            Either::Left((times, _)) => times,
            Either::Right((failed, _)) => failed.map(|_| Vec::new()),
        }
    }

    /// A heartbeat goes on from what is there.
    async fn beat(&self, side: &Side) -> Result<(), StoreError> {
        let at = self.layout.heartbeat_at(side.me.0 - 1);
        let mut beat = side.store.locks().look(at).await?;
        loop {
            self.world.sleep(self.power_on.heartbeat.0).await;
            beat = side.store.locks().renew_heartbeat(beat).await?;
        }
    }

    async fn operate(&self, life: &Life<'_>, operation: Operation, vm: usize) -> Result<f64, StoreError> {
        let began = self.world.now();
        match operation {
            Operation::Create => self.create(life, vm).await?,
            Operation::Grow => self.grow(life, vm).await?,
            Operation::Snapshot => self.snapshot(life, vm).await?,
            Operation::HandOver => self.hand_over(life, vm).await?,
            Operation::Consolidate => self.consolidate(life, vm).await?,
            Operation::ShutDown => self.shut_down(life, vm).await?,
        }
        Ok(self.world.now().since(began).as_secs_f64())
    }

    async fn create(&self, life: &Life<'_>, vm: usize) -> Result<(), StoreError> {
        for file in (0..FILES).filter(|file| *file != DELTA) {
            self.lock(life, vm, file).await?;
        }
        let place = self.take(life, vm).await?;
        let swap = self.take(life, vm).await?;
        let mut disk = File { name: format!("vm-{vm}.vmdk"), len_bytes: EXTENT_BYTES, ranges: Vec::new() };
        disk.grow((place, EXTENT_BYTES));
        life.vms[vm].borrow_mut().swap = vec![swap];
        self.extend(life, vm, (disk, place)).await
    }

    async fn grow(&self, life: &Life<'_>, vm: usize) -> Result<(), StoreError> {
        for _ in 0..life.daily.growths {
            let place = self.take(life, vm).await?;
            let mut disk = life.vms[vm].borrow().disk.clone();
            disk.grow((place, EXTENT_BYTES));
            disk.len_bytes = disk.taken_bytes();
            self.extend(life, vm, (disk, place)).await?;
        }
        Ok(())
    }

    /// The disk as it is with a new extent, and what the guest writes there.
    async fn extend(&self, life: &Life<'_>, vm: usize, (disk, place): (File, u64)) -> Result<(), StoreError> {
        let store = &life.sides[life.vms[vm].borrow().side].store;
        store.describe(Life::slot_of_disk(vm), &disk).await?;
        let key = life.mark(vm, life.vms[vm].borrow().marks.len());
        store.locks().write(place, marked(key).bytes(0, MARK_BYTES)).await?;
        let mut vm = life.vms[vm].borrow_mut();
        vm.marks.push(key);
        vm.disk = disk;
        Ok(())
    }

    async fn snapshot(&self, life: &Life<'_>, vm: usize) -> Result<(), StoreError> {
        self.lock(life, vm, DELTA).await?;
        let place = self.take(life, vm).await?;
        let store = &life.sides[life.vms[vm].borrow().side].store;
        let ranges = vec![(place, EXTENT_BYTES)];
        let delta = File { name: format!("vm-{vm}-delta.vmdk"), len_bytes: EXTENT_BYTES, ranges };
        store.describe(life.slot_of_delta(vm), &delta).await?;
        let key = life.mark(vm, usize::from(u16::MAX));
        store.locks().write(place, marked(key).bytes(0, MARK_BYTES)).await?;
        life.vms[vm].borrow_mut().delta = Some(delta);
        Ok(())
    }

    /// Each lock is released by the one host and taken by the next.
    async fn hand_over(&self, life: &Life<'_>, vm: usize) -> Result<(), StoreError> {
        let (from, sides) = (life.vms[vm].borrow().side, life.sides.len());
        let to = (from + 1) % sides;
        for file in 0..FILES {
            self.unlock(life, vm, file).await?;
            life.vms[vm].borrow_mut().side = to;
            self.lock(life, vm, file).await?;
            life.vms[vm].borrow_mut().side = from;
        }
        life.vms[vm].borrow_mut().side = to;
        Ok(())
    }

    async fn consolidate(&self, life: &Life<'_>, vm: usize) -> Result<(), StoreError> {
        let (side, delta, disk) = {
            let vm = life.vms[vm].borrow();
            (vm.side, vm.delta.clone().unwrap_or_default(), vm.disk.clone())
        };
        let store = &life.sides[side].store;
        if let Some(((from, _), (to, _))) = delta.place(0).zip(disk.place(0)) {
            let written = store.locks().read(from, MARK_BYTES).await?;
            store.locks().write(to, written).await?;
        }
        store.forget(life.slot_of_delta(vm)).await?;
        self.pause(life, side).await;
        store.give_back(&delta.ranges.iter().map(|(at, _)| *at).collect::<Vec<_>>()).await?;
        self.unlock(life, vm, DELTA).await?;
        let key = life.mark(vm, usize::from(u16::MAX));
        let mut vm = life.vms[vm].borrow_mut();
        vm.delta = None;
        vm.marks[0] = key;
        Ok(())
    }

    async fn shut_down(&self, life: &Life<'_>, vm: usize) -> Result<(), StoreError> {
        let side = life.vms[vm].borrow().side;
        let swap = std::mem::take(&mut life.vms[vm].borrow_mut().swap);
        self.pause(life, side).await;
        life.sides[side].store.give_back(&swap).await?;
        for file in (0..FILES).filter(|file| *file != DELTA) {
            self.unlock(life, vm, file).await?;
        }
        Ok(())
    }

    async fn pause(&self, life: &Life<'_>, side: usize) {
        let jitter = 0.8 + 0.4 * life.sides[side].rng.borrow_mut().f64();
        self.world.sleep(life.daily.pause.0.mul_f64(jitter)).await;
    }

    async fn lock(&self, life: &Life<'_>, vm: usize, file: usize) -> Result<(), StoreError> {
        let side = life.vms[vm].borrow().side;
        self.pause(life, side).await;
        let record = life.sides[side].store.locks().acquire(Life::lock_of(vm, file)).await?;
        let mut vm = life.vms[vm].borrow_mut();
        vm.held[file] = Some(record);
        vm.changes[file] += 1;
        Ok(())
    }

    async fn unlock(&self, life: &Life<'_>, vm: usize, file: usize) -> Result<(), StoreError> {
        let (side, held) = {
            let vm = life.vms[vm].borrow();
            (vm.side, vm.held[file].unwrap_or(LockRecord::FRESH))
        };
        self.pause(life, side).await;
        life.sides[side].store.locks().release(Life::lock_of(vm, file), held).await?;
        let mut vm = life.vms[vm].borrow_mut();
        vm.held[file] = None;
        vm.changes[file] += 1;
        Ok(())
    }

    /// An extent of what all VMs share.
    async fn take(&self, life: &Life<'_>, vm: usize) -> Result<u64, StoreError> {
        let side = life.vms[vm].borrow().side;
        self.pause(life, side).await;
        let first = life.sides[side].rng.borrow_mut().u32(0..CLUSTERS);
        let places = life.sides[side].store.allocate(first, 1).await?;
        places.first().copied().ok_or(StoreError::Full { wanted: EXTENT_BYTES })
    }

    /// A VM that reads at random, for as long as the others work.
    async fn run_beside(&self, locks: &Locks, at: &File, daily: &Daily, watched: &Watched) -> Result<()> {
        let rng = RefCell::new(self.world.random("the VM beside"));
        let guest = || self.read_beside((locks, at), &rng, watched);
        try_join_all((0..daily.guest_outstanding).map(|_| Box::pin(guest()))).await?;
        Ok(())
    }

    async fn read_beside(
        &self,
        (locks, at): (&Locks, &File),
        rng: &RefCell<Rng>,
        watched: &Watched,
    ) -> Result<(), StoreError> {
        loop {
            let offset = rng.borrow_mut().u64(0..at.taken_bytes() / MARK_BYTES) * MARK_BYTES;
            let (place, _) = at.place(offset).unwrap_or_default();
            let (began, is_idle): (Instant, bool) = (self.world.now(), watched.is_idle.get());
            let is_busy = watched.is_busy.get();
            locks.read(place, MARK_BYTES).await?;
            let took = self.world.now().since(began).as_secs_f64();
            if is_idle {
                watched.idle.borrow_mut().push(took);
            }
            if is_busy {
                watched.busy.borrow_mut().push(took);
            }
        }
    }
}

fn since(now: LockCounts, before: LockCounts) -> LockCounts {
    LockCounts {
        acquired: now.acquired - before.acquired,
        released: now.released - before.released,
        misses: now.misses - before.misses,
        waits: now.waits - before.waits,
        conflicts: now.conflicts - before.conflicts,
    }
}
