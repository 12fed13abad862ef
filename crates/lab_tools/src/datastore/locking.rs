//! Acquires and releases on-disk locks: by COMPARE AND WRITE, or by reserving the whole LU.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use block::Pieces;
use world::Rng;
use world::sync::{Permits, Signal};

use super::layout::Layout;
use super::lock::{Decision, HostId, LockRecord, backoff};
use super::store::StoreError;
use crate::hosts::{Disk, DiskError};

/// How a host ensures that it alone changes a lock record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// COMPARE AND WRITE of the record.
    CompareAndWrite,
    /// RESERVE(6) of the LU, read, write, RELEASE(6).
    Reserve,
}

/// How long a host waits before it tries again.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The longest wait after the first conflict.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
    /// The wait after a RESERVATION CONFLICT, plus or minus a fifth, however many came before; `None`: as
    /// where another host has the lock.
    pub conflict: Option<Duration>,
}

impl Patience {
    /// The wait after a lock was found with another host so many times in a row; `random` is in [0, 1).
    fn after_wait(&self, tries: u32, random: f64) -> Duration {
        backoff(self.first, self.max, tries).mul_f64(random)
    }

    /// The wait after so many RESERVATION CONFLICTs in a row.
    fn after_conflict(&self, conflicts: u32, random: f64) -> Duration {
        match self.conflict {
            Some(wait) => wait.mul_f64(0.8 + 0.4 * random),
            None => self.after_wait(conflicts, random),
        }
    }
}

/// The cost of locking for a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Locks taken.
    pub acquired: u64,
    /// Locks released.
    pub released: u64,
    /// COMPARE AND WRITE that found another record than was read.
    pub misses: u64,
    /// How often another host had the lock.
    pub waits: u64,
    /// RESERVATION CONFLICTs of any command.
    pub conflicts: u64,
}

/// A lock that never becomes free is a failure of the run: conflicts in a row before a host gives up. With
/// the longest waits of tens of milliseconds this is minutes.
const CONFLICTS_MAX: u32 = 10_000;

/// One host's way to the locks of one datastore.
pub struct Locks {
    disk: Disk,
    layout: Layout,
    me: HostId,
    method: Locking,
    patience: Patience,
    /// A reservation belongs to the host: its own VMs take turns.
    reserving: Permits,
    /// Locks that this host holds or takes: on the disk a lock belongs to a host, so its own VMs take turns
    /// here.
    ours: RefCell<BTreeSet<u32>>,
    given_back: Signal,
    rng: RefCell<Rng>,
    counts: Cell<LockCounts>,
}

impl Locks {
    /// For a host; `rng` spreads its waits.
    pub fn new(
        disk: Disk,
        layout: Layout,
        me: HostId,
        method: Locking,
        patience: Patience,
        rng: Rng,
    ) -> Locks {
        Locks {
            disk,
            layout,
            me,
            method,
            patience,
            reserving: Permits::new(1),
            ours: RefCell::default(),
            given_back: Signal::default(),
            rng: RefCell::new(rng),
            counts: Cell::default(),
        }
    }

    /// The cost so far.
    pub fn counts(&self) -> LockCounts {
        self.counts.get()
    }

    fn count(&self, add: impl FnOnce(&mut LockCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    /// Waits before the next try, as `after` has it for so many tries and a random number.
    async fn back_off(
        &self,
        tries: u32,
        after: fn(&Patience, u32, f64) -> Duration,
    ) -> Result<(), StoreError> {
        if tries >= CONFLICTS_MAX {
            return Err(StoreError::LockedOut { tries });
        }
        let wait = after(&self.patience, tries, self.rng.borrow_mut().f64());
        self.disk.world().sleep(wait).await;
        Ok(())
    }

    /// Takes a lock, and waits while another host has it. Returns the current record.
    pub async fn acquire(&self, lock: u32) -> Result<LockRecord, StoreError> {
        self.given_back.wait_for(|| self.ours.borrow_mut().insert(lock).then_some(())).await;
        let mut waits = 0;
        loop {
            if let Some(record) = self.attempt(lock).await? {
                self.count(|c| c.acquired += 1);
                return Ok(record);
            }
            waits += 1;
            self.count(|c| c.waits += 1);
            self.back_off(waits, Patience::after_wait).await?;
        }
    }

    /// Takes a lock if nobody has it now.
    pub async fn try_acquire(&self, lock: u32) -> Result<Option<LockRecord>, StoreError> {
        if !self.ours.borrow_mut().insert(lock) {
            return Ok(None);
        }
        let taken = self.attempt(lock).await?;
        match taken {
            Some(_) => self.count(|c| c.acquired += 1),
            None => self.leave(lock),
        }
        Ok(taken)
    }

    async fn attempt(&self, lock: u32) -> Result<Option<LockRecord>, StoreError> {
        match self.method {
            Locking::CompareAndWrite => self.try_compare(lock).await,
            Locking::Reserve => self.try_reserved(lock).await,
        }
    }

    /// Another VM of this host may have its turn.
    fn leave(&self, lock: u32) {
        self.ours.borrow_mut().remove(&lock);
        self.given_back.wake_all();
    }

    /// Releases a lock that is held with this record.
    pub async fn release(&self, lock: u32, held: LockRecord) -> Result<(), StoreError> {
        let (old, new) = (self.encode(held), self.encode(held.released()));
        match self.method {
            Locking::CompareAndWrite => {
                if !self.disk.compare_and_write(self.layout.lock_at(lock), &old, &new).await? {
                    return Err(StoreError::LockStolen { lock });
                }
            }
            // Only the owner changes a record that is owned: a plain write does.
            Locking::Reserve => self.write(self.layout.lock_at(lock), Pieces::copy_of(&new)).await?,
        }
        self.count(|c| c.released += 1);
        self.leave(lock);
        Ok(())
    }

    /// Renews the host's heartbeat, `beat` after the one before.
    pub async fn renew_heartbeat(&self, beat: LockRecord) -> Result<LockRecord, StoreError> {
        let at = self.layout.heartbeat_at(self.me.0 - 1);
        let Decision::Write(next) = beat.acquire(self.me) else { return Err(StoreError::HeartbeatTaken) };
        match self.method {
            Locking::CompareAndWrite => {
                if !self.disk.compare_and_write(at, &self.encode(beat), &self.encode(next)).await? {
                    return Err(StoreError::HeartbeatTaken);
                }
            }
            Locking::Reserve => self.write(at, Pieces::copy_of(&self.encode(next))).await?,
        }
        Ok(next)
    }

    /// Reads a record or heartbeat.
    pub async fn look(&self, at: u64) -> Result<LockRecord, StoreError> {
        let block = self.read(at, self.layout.block_bytes.into()).await?;
        Ok(LockRecord::decode(&block.joined())?)
    }

    /// A read that waits out the reservations of others.
    pub async fn read(&self, at: u64, len: u64) -> Result<Pieces, StoreError> {
        let mut tries = 0;
        loop {
            match self.disk.read(at, len).await {
                Err(DiskError::Conflict { .. }) => self.after_conflict(&mut tries).await?,
                other => return Ok(other?),
            }
        }
    }

    /// A write that waits out the reservations of others.
    pub async fn write(&self, at: u64, data: Pieces) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            match self.disk.write(at, data.clone()).await {
                Err(DiskError::Conflict { .. }) => self.after_conflict(&mut tries).await?,
                other => return Ok(other?),
            }
        }
    }

    async fn after_conflict(&self, tries: &mut u32) -> Result<(), StoreError> {
        *tries += 1;
        self.count(|c| c.conflicts += 1);
        self.back_off(*tries, Patience::after_conflict).await
    }

    fn encode(&self, record: LockRecord) -> Vec<u8> {
        record.encode(self.layout.block_bytes)
    }

    /// `None`: another host has it.
    async fn try_compare(&self, lock: u32) -> Result<Option<LockRecord>, StoreError> {
        let at = self.layout.lock_at(lock);
        for _ in 0..CONFLICTS_MAX {
            let seen = self.look(at).await?;
            let Decision::Write(mine) = seen.acquire(self.me) else { return Ok(None) };
            if self.disk.compare_and_write(at, &self.encode(seen), &self.encode(mine)).await? {
                return Ok(Some(mine));
            }
            // Another host was faster: read again at once.
            self.count(|c| c.misses += 1);
        }
        Err(StoreError::LockedOut { tries: CONFLICTS_MAX })
    }

    /// `None`: another host has it.
    async fn try_reserved(&self, lock: u32) -> Result<Option<LockRecord>, StoreError> {
        let _turn = self.reserving.take(1).await;
        let mut tries = 0;
        loop {
            match self.disk.reserve().await {
                Ok(()) => break,
                Err(DiskError::Conflict { .. }) => self.after_conflict(&mut tries).await?,
                Err(error) => return Err(error.into()),
            }
        }
        let taken = self.change_reserved(lock).await;
        // Also after a failure: a LU that stays reserved stops every other host.
        self.disk.release().await?;
        taken
    }

    async fn change_reserved(&self, lock: u32) -> Result<Option<LockRecord>, StoreError> {
        let at = self.layout.lock_at(lock);
        let Decision::Write(mine) = self.look(at).await?.acquire(self.me) else { return Ok(None) };
        self.write(at, Pieces::copy_of(&self.encode(mine))).await?;
        Ok(Some(mine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_conflict_has_a_wait_of_its_own_where_one_is_given() {
        let ms = Duration::from_millis;
        let own = Patience { first: ms(2), max: ms(64), conflict: Some(ms(60)) };
        for conflicts in [1, 5, 80] {
            assert_eq!(
                [0.0, 0.5, 1.0].map(|random| own.after_conflict(conflicts, random)),
                [48, 60, 72].map(ms)
            );
        }
        assert_eq!([1, 5, 80].map(|tries| own.after_wait(tries, 0.5)), [1, 16, 32].map(ms));
        let none = Patience { conflict: None, ..own };
        assert_eq!([1, 5, 80].map(|conflicts| none.after_conflict(conflicts, 0.5)), [1, 16, 32].map(ms));
    }
}
