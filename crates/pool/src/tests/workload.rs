//! A random workload: several tasks write, zero, unmap, copy and flush at once, each in its own sectors
//! (which share pages with those of the others); between rounds volumes are cloned, created, grown and
//! deleted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockError, Device};
use world::sync::Signal;
use world::{Rng, World};

use super::rig::{PAGE, SECTOR, audit};
use super::shadow::{Shadow, check_now, check_survivors, encode, values};
use crate::{Pool, PoolError, Provisioning, Volume};

const SECTORS_PER_PAGE: usize = (PAGE / SECTOR) as usize;
/// Sectors of a new volume: 12 pages and a bit.
const SECTORS: usize = 12 * SECTORS_PER_PAGE + 8;
const WORKERS: usize = 4;
const VOLUMES_MAX: usize = 5;

pub(super) type Shared = Rc<RefCell<Shadow>>;

/// How much is done.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) rounds: usize,
    pub(super) operations: usize,
}

/// Runs rounds on a pool that the shadow describes, with an audit after each.
pub(super) async fn run(world: &World, pool: &Pool, shadow: &Shared, rng: &mut Rng, load: Load) {
    for _ in 0..load.rounds {
        run_round(world, pool, shadow, rng, load).await;
        audit(pool).await;
        shadow.borrow_mut().settle_all();
    }
}

/// The same while something else is going on, so that nothing can be audited.
pub(super) async fn run_beside(world: &World, pool: &Pool, shadow: &Shared, rng: &mut Rng, load: Load) {
    for _ in 0..load.rounds {
        run_round(world, pool, shadow, rng, load).await;
        pool.flush().await.expect("flush");
        shadow.borrow_mut().settle_all();
    }
}

async fn run_round(world: &World, pool: &Pool, shadow: &Shared, rng: &mut Rng, load: Load) {
    if pool.volumes().is_empty() {
        create(pool, shadow, rng).await;
    }
    let left = Rc::new(Cell::new(WORKERS));
    let done = Rc::new(Signal::default());
    for w in 0..WORKERS {
        let worker = Worker { pool: pool.clone(), shadow: shadow.clone(), number: w };
        let (left, done, mut rng) = (left.clone(), done.clone(), rng.fork());
        world.spawn(async move {
            for _ in 0..load.operations {
                worker.step(&mut rng).await;
            }
            left.set(left.get() - 1);
            done.wake_all();
        });
    }
    done.wait_for(|| (left.get() == 0).then_some(())).await;
    change_volumes(pool, shadow, rng).await;
}

async fn create(pool: &Pool, shadow: &Shared, rng: &mut Rng) {
    let name = format!("v{}", rng.u32(..));
    let provisioning = if rng.u8(..4) == 0 { Provisioning::Thick } else { Provisioning::Thin };
    shadow.borrow_mut().coming = Some((name.clone(), vec![Default::default(); SECTORS]));
    match pool.create_volume(&name, SECTORS as u64 * SECTOR, provisioning).await {
        Ok(_) => arrived(shadow),
        Err(PoolError::Block(BlockError::NoSpace { .. })) => shadow.borrow_mut().coming = None,
        Err(error) => panic!("create: {error}"),
    }
}

fn arrived(shadow: &Shared) {
    let mut shadow = shadow.borrow_mut();
    shadow.settle_all();
    let (name, mut sectors) = shadow.coming.take().expect("it was coming");
    sectors.iter_mut().for_each(super::shadow::Sector::settle);
    shadow.volumes.insert(name, sectors);
}

async fn change_volumes(pool: &Pool, shadow: &Shared, rng: &mut Rng) {
    let volumes = pool.volumes();
    let chosen = volumes[rng.usize(..volumes.len())].name().to_owned();
    match rng.u8(..8) {
        0 | 1 if volumes.len() < VOLUMES_MAX => create(pool, shadow, rng).await,
        2..=4 if volumes.len() < VOLUMES_MAX => {
            let name = format!("c{}", rng.u32(..));
            let sectors = shadow.borrow_mut().sectors(&chosen).clone();
            shadow.borrow_mut().coming = Some((name.clone(), sectors));
            pool.clone_volume(&chosen, &name).await.expect("clone");
            arrived(shadow);
        }
        5 if volumes.len() > 1 => {
            shadow.borrow_mut().going = Some(chosen.clone());
            pool.delete_volume(&chosen).await.expect("delete");
            let mut shadow = shadow.borrow_mut();
            shadow.going = None;
            shadow.volumes.remove(&chosen);
        }
        6 => {
            let len = shadow.borrow_mut().sectors(&chosen).len() + rng.usize(1..SECTORS_PER_PAGE * 2);
            shadow.borrow_mut().growing = Some((chosen.clone(), len));
            match pool.grow_volume(&chosen, len as u64 * SECTOR).await {
                Ok(()) => shadow.borrow_mut().sectors(&chosen).resize(len, Default::default()),
                Err(PoolError::Block(BlockError::NoSpace { .. })) => {}
                Err(error) => panic!("grow: {error}"),
            }
            shadow.borrow_mut().growing = None;
        }
        _ => save(pool, shadow, WORKERS, rng).await,
    }
}

/// Saves a record of up to 40 KB: a few of them fill the journal and make it go on to a checkpoint.
async fn save(pool: &Pool, shadow: &Shared, who: usize, rng: &mut Rng) {
    let value = rng.u32(1..);
    shadow.borrow_mut().records[who][1] = value;
    let bytes = value.to_le_bytes().repeat(rng.usize(1..10_000));
    pool.save_record(&format!("r{who}"), &bytes).await.expect("save");
    shadow.borrow_mut().records[who][0] = value;
}

fn saved(pool: &Pool, who: usize) -> u32 {
    let Some(bytes) = pool.load_record(&format!("r{who}")) else { return 0 };
    let word = |c: &[u8]| u32::from_le_bytes(c.try_into().expect("four bytes"));
    assert!(bytes.chunks(4).all(|c| word(c) == word(&bytes[..4])), "record {who} is a mixture");
    word(&bytes[..4])
}

struct Worker {
    pool: Pool,
    shadow: Shared,
    number: usize,
}

impl Worker {
    /// A volume, and a range of it that is this worker's.
    fn choose(&self, rng: &mut Rng) -> (Volume, usize, usize) {
        let volumes = self.pool.volumes();
        let volume = volumes[rng.usize(..volumes.len())].clone();
        // Slices end within pages. Only the first sectors of a volume that has grown are used: copies need
        // both.
        let slice = SECTORS / WORKERS;
        let (first, end) = (self.number * slice, (self.number + 1) * slice);
        let from = rng.usize(first..end);
        let n = match rng.u8(..4) {
            0 => end - from,
            1 => rng.usize(1..=8),
            _ => rng.usize(1..=SECTORS_PER_PAGE),
        };
        (volume, from, n.min(end - from))
    }

    async fn step(&self, rng: &mut Rng) {
        let (volume, from, n) = self.choose(rng);
        let name = volume.name().to_owned();
        let (at, len) = (from as u64 * SECTOR, n as u64 * SECTOR);
        match rng.u8(..16) {
            0..=4 => {
                let tag = rng.u32(1 << 16..) & !0xffff;
                let new: Vec<u32> = (0..n as u32).map(|i| tag | (i & 0xffff) | 1).collect();
                let data = encode(new.iter().copied());
                self.expect(&name, from, &new);
                let outcome = volume.write(at, &data).await;
                self.settle_partly(&volume, from, n, outcome).await;
            }
            5 => {
                self.expect(&name, from, &vec![0; n]);
                let outcome = volume.zero(at, len).await;
                self.settle_partly(&volume, from, n, outcome).await;
            }
            6 => {
                self.expect(&name, from, &vec![0; n]);
                let outcome = volume.unmap(at, len).await.map(drop);
                self.settle_partly(&volume, from, n, outcome).await;
            }
            7..=9 => self.copy(&volume, from, n, rng).await,
            10 | 11 => self.flush(&volume).await,
            12 | 13 => save(&self.pool, &self.shadow, self.number, rng).await,
            _ => {
                let found = values(&volume, from, n).await;
                check_now(&name, self.shadow.borrow_mut().sectors(&name), from, &found);
            }
        }
    }

    /// From here on the new values may survive.
    fn expect(&self, name: &str, from: usize, new: &[u32]) {
        let mut shadow = self.shadow.borrow_mut();
        for (sector, value) in shadow.sectors(name)[from..].iter_mut().zip(new) {
            sector.set(*value);
        }
    }

    /// A full pool may stop an operation in the middle: then a part is old and a part is new.
    async fn settle_partly(&self, volume: &Volume, from: usize, n: usize, outcome: Result<(), BlockError>) {
        match outcome {
            Ok(()) => {}
            Err(BlockError::NoSpace { .. }) => {
                let found = values(volume, from, n).await;
                self.expect(volume.name(), from, &found);
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn copy(&self, to: &Volume, at: usize, n: usize, rng: &mut Rng) {
        let (source, mut from, m) = self.choose(rng);
        let mut n = n;
        if rng.u8(..3) > 0 {
            from = at;
        } else {
            n = n.min(m);
        }
        let new: Vec<u32> = {
            let mut shadow = self.shadow.borrow_mut();
            shadow.sectors(source.name())[from..from + n].iter().map(|s| s.now()).collect()
        };
        self.expect(to.name(), at, &new);
        let (from, place, len) = (from as u64 * SECTOR, at as u64 * SECTOR, n as u64 * SECTOR);
        let outcome = if rng.bool() {
            to.share_or_copy(&source, from, place, len).await
        } else {
            let rod = source.hold(from, len).await.expect("hold");
            to.copy_from_rod(&rod, 0, place, len).await
        };
        self.settle_partly(to, at, n, outcome.map(drop)).await;
    }

    /// What this worker did before is durable then.
    async fn flush(&self, volume: &Volume) {
        volume.flush().await.expect("flush");
        let slice = SECTORS / WORKERS;
        let mut shadow = self.shadow.borrow_mut();
        for sectors in shadow.volumes.values_mut() {
            sectors[self.number * slice..(self.number + 1) * slice].iter_mut().for_each(|s| s.settle());
        }
    }
}

/// After a crash: the volumes are those that must be there, and hold what they may.
pub(super) async fn check_recovered(pool: &Pool, shadow: &mut Shadow) {
    if let Some((name, sectors)) = shadow.coming.take()
        && pool.volume(&name).is_some()
    {
        shadow.volumes.insert(name, sectors);
    }
    if let Some(name) = shadow.going.take()
        && pool.volume(&name).is_none()
    {
        shadow.volumes.remove(&name);
    }
    if let Some((name, len)) = shadow.growing.take() {
        let grown = pool.volume(&name).expect("it was there").geometry().len_bytes == len as u64 * SECTOR;
        let len = if grown { len } else { shadow.sectors(&name).len() };
        shadow.sectors(&name).resize(len, Default::default());
    }
    let names: Vec<String> = pool.volumes().iter().map(|v| v.name().to_owned()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, shadow.volumes.keys().cloned().collect::<Vec<_>>());
    for volume in pool.volumes() {
        let len = (volume.geometry().len_bytes / SECTOR) as usize;
        let found = values(&volume, 0, len).await;
        check_survivors(volume.name(), shadow.sectors(volume.name()), &found);
        let again = values(&volume, 0, len).await;
        check_now(volume.name(), shadow.sectors(volume.name()), 0, &again);
    }
    for (who, record) in shadow.records.iter_mut().enumerate() {
        let found = saved(pool, who);
        assert!(record.contains(&found), "record {who} is {found:#x}, not one of {record:x?}");
        *record = [found; 2];
    }
    audit(pool).await;
}
