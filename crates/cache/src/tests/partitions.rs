//! Partitions as units meet them: what a minimum keeps, and what is counted where.

use super::*;
use crate::Traffic;

const GOLD: PartitionId = PartitionId(1);
const BLOCK: u64 = 4096;
/// The hot set: two thirds of the memory for frames of `small`.
const HOT_BLOCKS: u64 = 256;
/// More than twice the memory.
const OTHERS_BLOCKS: u64 = 1024;

struct Pair {
    cache: Cache<OnDrive, OnDrive>,
    hot: Unit<OnDrive, OnDrive>,
    others: Unit<OnDrive, OnDrive>,
}

/// Two units; the first one in partition `GOLD` with this minimum, if there is one.
fn with_pair(minimum_bytes: Option<u64>, test: impl AsyncFnOnce(World, Pair)) {
    let (model, ..) = rack(1, 16 << 20);
    model.disk("hot", DiskSpec::new(8 << 20));
    model.run(async |world: World| {
        // Without read-ahead, so that every hit is one in frames.
        let config = CacheConfig { read_ahead_bytes_max: 0, ..small() };
        let cache = Cache::new(world.clone(), config);
        let hot = cache.attach(OnDrive::open(&world, "hot"), spec(1, WritePolicy::Back), None);
        let others = cache.attach(OnDrive::open(&world, "data"), spec(2, WritePolicy::Back), None);
        if let Some(bytes) = minimum_bytes {
            cache.set_partition(GOLD, bytes);
            hot.set_partition(GOLD);
        }
        test(world, Pair { cache, hot, others }).await;
    });
}

async fn read(unit: &Unit<OnDrive, OnDrive>, at: u64, len: usize) {
    let mut out = Pieces::new();
    unit.read(at, len, &mut out).await.expect("read");
}

/// Reads blocks of a unit once each.
async fn read_blocks(unit: &Unit<OnDrive, OnDrive>, blocks: u64) {
    for block in 0..blocks {
        read(unit, block * BLOCK, BLOCK as usize).await;
    }
}

async fn read_once_through(unit: &Unit<OnDrive, OnDrive>) {
    for at in (0..16 << 20).step_by(64 << 10) {
        read(unit, at, 64 << 10).await;
    }
}

/// What of the hot set's reads comes from memory while the other unit is busy, in percent.
fn hot_hits(minimum_bytes: Option<u64>, others: impl AsyncFn(&World, &Unit<OnDrive, OnDrive>)) -> u64 {
    let mut percent = 0;
    with_pair(minimum_bytes, async |world, pair| {
        for _ in 0..3 {
            read_blocks(&pair.hot, HOT_BLOCKS).await;
        }
        let before = pair.hot.counts();
        for _ in 0..4 {
            others(&world, &pair.others).await;
            read_blocks(&pair.hot, HOT_BLOCKS).await;
        }
        let after = pair.hot.counts();
        let hits = after.read_hit_bytes - before.read_hit_bytes;
        percent = hits * 100 / (after.read_bytes - before.read_bytes);
    });
    percent
}

#[test]
fn a_minimum_keeps_a_hot_set_whatever_the_others_do() {
    let busy = async |_: &World, unit: &Unit<OnDrive, OnDrive>| {
        // Each block again at once: they look as hot as the hot ones.
        for block in 0..OTHERS_BLOCKS {
            for _ in 0..4 {
                read(unit, block * BLOCK, BLOCK as usize).await;
            }
        }
    };
    let scan = async |_: &World, unit: &Unit<OnDrive, OnDrive>| read_once_through(unit).await;
    let minimum = HOT_BLOCKS * BLOCK;
    let without = hot_hits(None, busy);
    assert!(without < 50, "{without} %: the others are not busy enough to prove anything");
    assert_eq!(hot_hits(Some(minimum), busy), 100);
    assert_eq!(hot_hits(Some(minimum), scan), 100);
}

#[test]
fn a_minimum_holds_against_writes_too() {
    let busy = async |world: &World, unit: &Unit<OnDrive, OnDrive>| {
        let mut rng = world.random("writes");
        for _ in 0..2000 {
            let at = (1 << 20) + rng.u64(..OTHERS_BLOCKS) * BLOCK;
            unit.write(at, &Pieces::copy_of(&[7; BLOCK as usize])).await.expect("write");
        }
    };
    assert_eq!(hot_hits(Some(HOT_BLOCKS * BLOCK), busy), 100);
}

fn traffic(cache: &Cache<OnDrive, OnDrive>, id: PartitionId) -> Traffic {
    cache.partition(id).expect("it is there").traffic
}

#[test]
fn what_a_unit_did_stays_with_the_partition_it_was_in() {
    with_pair(Some(1 << 20), async |_, Pair { cache, hot, others }| {
        let default = PartitionId(0);
        read_blocks(&hot, 16).await;
        read_blocks(&hot, 16).await;
        read_blocks(&others, 8).await;
        let read = |id| (traffic(&cache, id).read_bytes / BLOCK, traffic(&cache, id).read_hit_bytes / BLOCK);
        assert_eq!((read(GOLD), read(default)), ((32, 16), (8, 0)));
        assert_eq!(cache.partition(GOLD).map(|p| (p.frames.frames_min, p.frames.frames)), Some((256, 16)));
        hot.set_partition(default);
        read_blocks(&hot, 8).await;
        assert_eq!((read(GOLD), read(default)), ((32, 16), (16, 8)));
        let frames = |id| cache.partition(id).map(|p| p.frames.frames);
        assert_eq!((frames(GOLD), frames(default)), (Some(8), Some(16)), "what is used goes with the unit");
        hot.set_partition(GOLD);
        read_blocks(&hot, 8).await;
        assert_eq!((read(GOLD), read(default)), ((40, 24), (16, 8)));
        cache.detach(&others).await.expect("detach");
        assert_eq!(read(default), (16, 8), "it did that");
        cache.remove_partition(GOLD);
        assert_eq!((cache.partition(GOLD), hot.partition()), (None, default));
        read_blocks(&hot, 8).await;
        assert_eq!(read(default), (24, 16));
    });
}
