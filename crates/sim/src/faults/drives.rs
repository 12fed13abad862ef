//! Faults of drives: slow, hanging, latent errors, death. A group must survive one slow drive, and one that
//! hangs for a while. With redundancy it must also survive latent errors on one drive, the death of one, and
//! one that hangs until it is dropped and then returns.
//!
//! No latent errors while mirrors may differ after a power failure: a second fault there may reveal the other
//! content of a sector. For the same reason a drive dies only once they are equal.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use raid::{Group, Level, MemberState, Throttle};
use world::{Rng, World};
use world_model::Disk;

use super::{Fault, lies};
use crate::actors::workload::Shared;
use crate::places::Places;

/// The factor of a slow drive.
pub(crate) const SLOW_FACTOR: u32 = 10;
/// In one life of this many a drive dies; in as many one hangs, and in as many one hangs until it is dropped.
const EACH_ONE_IN: u8 = 6;
/// It does so within this time: 20 ms, a hundred operations.
const AFTER_NS_MAX: u64 = 20_000_000;
/// How long a drive hangs until it is dropped, unless it was dropped before.
const HANGS_MS: std::ops::Range<u64> = 8_000..30_000;
/// Most unreadable bytes.
const LATENT_BYTES_MAX: u64 = 64 << 10;
/// The foreground share during the rebuild of a returned drive.
const REBUILD_SHARE_PERCENT: u8 = 50;

/// The drives of one group in one life.
pub(crate) struct GroupFaults<'a> {
    pub(crate) world: &'a World,
    pub(crate) group: &'a Group,
    pub(crate) level: Level,
    pub(crate) disks: Vec<Disk>,
    pub(crate) disk_bytes: u64,
    pub(crate) places: &'a Rc<RefCell<Places>>,
    pub(crate) shared: &'a Shared,
}

impl GroupFaults<'_> {
    /// Draws the faults of this life and starts them, in addition to `fault`.
    pub(crate) fn begin(&self, fault: Fault, rng: &mut Rng) {
        let which = rng.usize(..self.disks.len());
        for (i, disk) in self.disks.iter().enumerate() {
            disk.set_slow(if i == which && rng.bool() { SLOW_FACTOR } else { 1 });
            lies::begin_later(fault, self.world, disk, rng);
        }
        self.shared.tell(|| format!("faults: disk {which} of {}", self.disks.len()));
        let (what, after) = (rng.u8(..EACH_ONE_IN), Duration::from_nanos(rng.u64(..AFTER_NS_MAX)));
        let status = self.group.status();
        let whole = self.places.borrow().is_whole()
            && status.members.iter().all(|m| m.state == MemberState::Active)
            && self.level != Level::Raid0;
        let equal = whole && !status.reads_pinned;
        if equal && self.disks.iter().all(|d| d.latent_errors() == 0) {
            self.cannot_read(which, rng);
        }
        match what {
            0 if whole => self.dies(after),
            1 => self.hangs(which, after),
            2 if equal => self.hangs_until_dropped(which, after, rng),
            _ => {}
        }
    }

    /// A drive has latent errors in the half where the data are.
    fn cannot_read(&self, which: usize, rng: &mut Rng) {
        let at = rng.u64(self.disk_bytes / 2..self.disk_bytes - LATENT_BYTES_MAX);
        let end = at + rng.u64(1..LATENT_BYTES_MAX);
        self.shared.tell(|| format!("latent errors on {} at {at}..{end}", self.disks[which].name()));
        self.disks[which].add_latent_errors(at..end);
    }

    /// The last drive dies; one of mirrors that may differ, once a resync has made them equal.
    fn dies(&self, after: Duration) {
        let (world, victim) = (self.world.clone(), self.disks[self.disks.len() - 1].clone());
        let (places, shared) = (self.places.clone(), self.shared.clone());
        let group = self.group.clone();
        self.disks.iter().for_each(Disk::clear_latent_errors);
        self.world.spawn(async move {
            world.sleep(after).await;
            while group.status().reads_pinned {
                let resynced = group.resync(&Throttle::none(world.clone())).await;
                resynced.unwrap_or_else(|e| panic!("resync before a drive dies: {e}"));
            }
            victim.kill();
            shared.tell(|| format!("{} dies", victim.name()));
            places.borrow_mut().falls_behind(victim.name());
        });
    }

    /// A drive hangs, for less time than it takes to drop it.
    fn hangs(&self, which: usize, after: Duration) {
        let (world, victim, shared) = (self.world.clone(), self.disks[which].clone(), self.shared.clone());
        self.world.spawn(async move {
            world.sleep(after).await;
            victim.hang();
            shared.tell(|| format!("{} hangs", victim.name()));
            world.sleep(after).await;
            victim.resume();
        });
    }

    /// A drive hangs; if it is dropped, it returns and what changed is rebuilt.
    fn hangs_until_dropped(&self, position: usize, after: Duration, rng: &mut Rng) {
        let hangs = Duration::from_millis(rng.u64(HANGS_MS));
        self.disks.iter().for_each(Disk::clear_latent_errors);
        let (world, group, victim) = (self.world.clone(), self.group.clone(), self.disks[position].clone());
        let (places, shared) = (self.places.clone(), self.shared.clone());
        self.world.spawn(async move {
            world.sleep(after).await;
            victim.hang();
            places.borrow_mut().falls_behind(victim.name());
            shared.tell(|| format!("{} hangs", victim.name()));
            let end = world.now() + hangs;
            let dropped = || group.status().members[position].dropped_silent;
            // A life takes some milliseconds of work: the drive returns within it.
            while world.now() < end && !dropped() {
                world.sleep(Duration::from_millis(1)).await;
            }
            world.sleep(after / 16).await;
            victim.resume();
            // The abandoned operations end now.
            world.sleep(Duration::from_micros(1)).await;
            if dropped() {
                let missed = group.take_back(position as u32).await;
                let missed = missed.unwrap_or_else(|e| panic!("take back {position}: {e}"));
                shared.tell(|| format!("{} is filled with {missed:?} bytes", victim.name()));
                let rebuilt = group.rebuild(&Throttle::new(world.clone(), REBUILD_SHARE_PERCENT)).await;
                rebuilt.unwrap_or_else(|e| panic!("rebuild after the return: {e}"));
            }
            if group.status().members.iter().all(|m| m.state == MemberState::Active) {
                places.borrow_mut().filled();
            }
        });
    }
}
