//! Replays beside what shares: ranges whose content another volume has, too, and stores without space.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::Journal;

const LEN: u64 = 8 << 20;
/// More than a small cache has room for.
const MANY: u64 = 700;

/// A store that gives each write a new place, while it has one.
#[derive(Clone)]
struct Sparse {
    disk: OnDrive,
    is_full: Rc<Cell<bool>>,
}

impl Device for Sparse {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.disk.read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        if self.is_full.get() {
            return Err(BlockError::NoSpace { pool: "p".into() });
        }
        self.disk.write(at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.disk.zero(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.disk.flush().await
    }
}

impl BackingStore for Sparse {
    fn takes_in_place(&self, _at: u64, _len: u64) -> bool {
        false
    }

    fn row_bytes(&self) -> u64 {
        self.disk.row_bytes()
    }

    fn row_drives(&self) -> u32 {
        self.disk.row_drives()
    }
}

type Cached = (Cache<Sparse, OnDrive>, Vec<Unit<Sparse, OnDrive>>, Rc<Cell<bool>>);

fn attach(world: &World, config: CacheConfig, journal: &Journal<OnDrive>) -> Cached {
    let (cache, is_full) = (Cache::new(world.clone(), config), Rc::new(Cell::new(false)));
    let unit = |id: u64| {
        let store = Sparse { disk: OnDrive::open(world, "data"), is_full: is_full.clone() };
        cache.attach(store, spec(id, WritePolicy::Back), Some(journal.clone()))
    };
    let units = [1, 2].map(unit).to_vec();
    (cache, units, is_full)
}

/// Everything stays dirty.
async fn create(world: &World) -> Cached {
    let config = CacheConfig { memory_bytes: 64 << 20, destage_delay: Duration::from_secs(3600), ..small() };
    let journal = Journal::create(world.clone(), OnDrive::open(world, "journal"), [1; 16]).await;
    attach(world, config, &journal.expect("create"))
}

fn content(number: u64) -> Pieces {
    Pieces::copy_of(&[(number % 251) as u8 + 1; 4096])
}

/// So many blocks of the first unit, durable.
async fn write(unit: &Unit<Sparse, OnDrive>, blocks: u64) {
    for number in 0..blocks {
        unit.write(number * 4096, &content(number)).await.expect("write");
    }
    unit.flush().await.expect("flush");
}

/// Before, each page that a snapshot, a copy or a token shared was copied by the replay after a crash, for
/// which a pool may have no space.
#[test]
fn what_was_settled_or_copied_is_not_replayed() {
    for is_copied in [false, true] {
        let (model, ..) = rack(1, LEN);
        model.run(async move |world| {
            let (_cache, units, _) = create(&world).await;
            write(&units[0], 20).await;
            if is_copied {
                let to = LEN / 2..LEN / 2 + 10 * 4096;
                let copy = async { Ok(()) };
                units[1].change_from(to, &units[0], 0..10 * 4096, copy).await.expect("copied");
            } else {
                drop(units[0].settle(0..10 * 4096).await.expect("settled"));
            }
        });
        model.run(async move |world| {
            let device = OnDrive::open(&world, "journal");
            let (_, mut replay) = Journal::open(world, device).await.expect("open");
            let mut found = Vec::new();
            while let Some(record) = replay.next().await.expect("a record") {
                found.push(record.at / 4096);
            }
            assert_eq!(found, (10..20).collect::<Vec<u64>>());
        });
    }
}

/// Before, the pool was not opened, and so nobody could make room in it.
#[test]
fn a_replay_into_a_full_store_leaves_its_data_dirty_until_there_is_room() {
    let (model, ..) = rack(2, LEN);
    model.run(async |world| write(&create(&world).await.1[0], 20).await);
    model.run(async |world| {
        let (journal, replay) =
            Journal::open(world.clone(), OnDrive::open(&world, "journal")).await.expect("open");
        let (cache, units, is_full) = attach(&world, small(), &journal);
        is_full.set(true);
        let done = cache.replay(replay, &units).await.expect("it is opened");
        assert_eq!(done.records, 20);
        assert!(matches!(units[0].failure(), Some(BlockError::NoSpace { .. })));
        let refused = units[0].write(0, &content(99)).await;
        assert!(matches!(refused, Err(BlockError::NoSpace { .. })), "{refused:?}");
        for number in 0..20 {
            let mut found = Pieces::new();
            units[0].read(number * 4096, 4096, &mut found).await.expect("read");
            assert_eq!(found.first_difference(&content(number)), None, "block {number}");
        }
        is_full.set(false);
        world.sleep(Duration::from_secs(5)).await;
        assert_eq!(units[0].failure(), None);
        units[0].write(0, &content(99)).await.expect("there is room");
    });
}

/// Deleting a volume is how room is made in a full pool: it was refused, because its dirty data had none.
#[test]
fn a_unit_that_is_deleted_needs_no_room_for_its_dirty_data() {
    let (model, ..) = rack(2, LEN);
    model.run(async |world| write(&create(&world).await.1[0], 20).await);
    model.run(async |world| {
        let (journal, replay) =
            Journal::open(world.clone(), OnDrive::open(&world, "journal")).await.expect("open");
        let (cache, units, is_full) = attach(&world, small(), &journal);
        is_full.set(true);
        cache.replay(replay, &units).await.expect("it is opened");
        let refused = cache.detach(&units[0]).await;
        assert!(matches!(refused, Err(BlockError::NoSpace { .. })), "{refused:?}");
        cache.discard(&units[0]).await.expect("nothing is destaged");
    });
}

#[test]
fn a_replay_of_more_than_the_memory_into_a_full_store_ends_with_its_error() {
    let (model, ..) = rack(3, LEN);
    model.run(async |world| write(&create(&world).await.1[0], MANY).await);
    model.run(async |world| {
        let (journal, replay) =
            Journal::open(world.clone(), OnDrive::open(&world, "journal")).await.expect("open");
        let (cache, units, is_full) = attach(&world, small(), &journal);
        is_full.set(true);
        let ended = cache.replay(replay, &units).await;
        assert!(matches!(ended, Err(BlockError::NoSpace { .. })), "{ended:?}");
    });
}
