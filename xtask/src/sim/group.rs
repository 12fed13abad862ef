//! A RAID group, life after life.

use std::collections::BTreeMap;
use std::time::Duration;

use block::{BlockError, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level, MemberState};
use world::{Rng, World};
use world_model::{Disk, Model};

use super::lives::{Ended, Life, Lives, open_drives};
use super::shadow::Shadow;
use super::stamp::SECTOR_BYTES;
use super::workload::{self, Shared};
use super::{Fault, How, Tally};

/// Room for labels and two MiB of data.
const DISK_BYTES: u64 = 4 << 20;
/// The most sectors that the workload uses: more would thin out what happens in each.
const SECTORS_MAX: usize = 4096;
/// The group, and what the workload calls it.
const NAME: &str = "g";
/// Disks are slow by this factor when they are slow.
const SLOW_FACTOR: u32 = 10;
/// One life in so many loses a disk of its mirror.
const DEATH_ONE_IN: u8 = 8;
/// The disk dies within this time: 20 ms, a hundred operations.
const DEATH_AFTER_NS_MAX: u64 = 20_000_000;

/// A group on its disks, and its shadow.
struct GroupLives {
    level: Level,
    disks: usize,
    fault: Fault,
    shared: Shared,
}

/// A group has no offloads: the host zeroes and copies.
impl workload::Subject for Group {
    async fn unmap(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.zero(at, len).await
    }

    async fn copy_from(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        let mut data = Pieces::new();
        source.read(from, len as usize, &mut data).await?;
        self.write(at, &data).await
    }
}

fn spec(level: Level) -> GroupSpec {
    GroupSpec::new(NAME, level, ArrayId([7; 16]))
}

impl GroupLives {
    /// Makes the group, in a life of its own.
    fn create(lives: &Lives, level: Level, disks: usize, fault: Fault) -> GroupLives {
        let len_bytes = lives.model.run(async |world| {
            let drives = open_drives(&world, disks);
            Group::create(world, spec(level), drives).await.expect("create").geometry().len_bytes
        });
        let sectors = (len_bytes as usize / SECTOR_BYTES).min(SECTORS_MAX);
        let shared = Shared::default();
        shared.shadows.borrow_mut().insert(NAME.to_owned(), Shadow::new(sectors));
        GroupLives { level, disks, fault, shared }
    }

    async fn life(&self, model: &Model, world: World, life: &Life) {
        // A disk that died in an earlier life is there again, with what it had.
        (0..self.disks).filter_map(|i| model.disks().get(&format!("d{i}"))).for_each(|d| d.resume());
        let drives = open_drives(&world, self.disks);
        let group = Group::open(world.clone(), spec(self.level), drives).await.expect("open");
        self.make_faults(model, &world, &group, &mut world.random("faults"));
        workload::compare_all(&group, &self.shared, NAME).await;
        let volumes = BTreeMap::from([(NAME.to_owned(), group.clone())]);
        workload::run(&world, &volumes, &self.shared, &life.steps).await;
        if life.closes {
            group.close().await.expect("close");
        }
    }

    /// A group keeps nothing in memory that a write needs: what was acknowledged is in the disks.
    fn ended(&self, how: Ended) {
        self.shared.ended(|shadow| match how {
            Ended::PowerCut => shadow.crash(),
            Ended::Died | Ended::Closed => shadow.process_ended(),
        });
    }

    /// What a group must bear: one slow disk; on a mirror, latent errors on one of the disks, or the death of the second.
    ///
    /// No latent errors while the mirrors may differ after a power cut: a second fault there may show the other content of
    /// a sector. For the same reason it is the second disk that dies: reads are kept to the first one then.
    fn make_faults(&self, model: &Model, world: &World, group: &Group, rng: &mut Rng) {
        let which = rng.usize(..self.disks);
        let disks: Vec<Disk> = (0..self.disks).filter_map(|i| model.disks().get(&format!("d{i}"))).collect();
        for (i, disk) in disks.iter().enumerate() {
            disk.set_flush_lies(self.fault == Fault::FlushLies);
            disk.set_slow(if i == which && rng.bool() { SLOW_FACTOR } else { 1 });
            if self.fault == Fault::LostWrite {
                disk.lose_writes(1);
            }
        }
        if self.level != Level::Raid1 {
            return;
        }
        let status = group.status();
        let whole = status.members.iter().all(|m| m.state == MemberState::Active);
        if whole && !status.reads_pinned && disks.iter().all(|d| d.latent_errors() == 0) {
            let at = rng.u64(DISK_BYTES / 2..DISK_BYTES - (64 << 10));
            disks[which].add_latent_errors(at..at + rng.u64(1..65_536));
        }
        if rng.u8(..DEATH_ONE_IN) == 0 {
            let (world2, victim, after) = (world.clone(), disks[1].clone(), rng.u64(..DEATH_AFTER_NS_MAX));
            disks.iter().for_each(Disk::clear_latent_errors);
            world.spawn(async move {
                world2.sleep(Duration::from_nanos(after)).await;
                victim.kill();
            });
        }
    }
}

pub(super) fn simulate(level: Level, disks: usize, seed: u64, steps: u64, how: How) -> Tally {
    let lives = Lives::new(seed, disks, DISK_BYTES);
    let subject = GroupLives::create(&lives, level, disks, how.fault);
    if how.verbose {
        subject.shared.tell_all();
    }
    lives.live(
        steps,
        async |model, world, life| subject.life(model, world, life).await,
        |how| subject.ended(how),
    )
}

/// One short workload, with the power cut after each of its persistence points in turn.
pub(super) fn every_point(level: Level, disks: usize, seed: u64, steps: u64) -> u64 {
    for point in 1.. {
        let mut lives = Lives::new(seed, disks, DISK_BYTES);
        let subject = GroupLives::create(&lives, level, disks, Fault::None);
        let life = async |model: &Model, world, life: &Life| subject.life(model, world, life).await;
        if !lives.crash_at(point, steps, life, |how| subject.ended(how)) {
            return point - 1;
        }
    }
    unreachable!("a workload of {steps} steps has an end")
}
