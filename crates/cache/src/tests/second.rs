//! The second level: what the memory gave up comes from it, and nothing stale ever.

use block::conformance::random_against_shadow;

use super::*;

const LEN: u64 = 24 << 20;
/// What comes before the level on its drive.
const FROM: u64 = 1 << 20;

async fn with_second(world: &World) -> (Cache<OnDrive, OnDrive>, Unit<OnDrive, OnDrive>) {
    let (cache, unit) = volatile(world, small(), WritePolicy::Back);
    let ssd = world.open_now(&DriveSpec::Modelled { name: "ssd".to_owned() }).expect("the disk is there");
    assert!(cache.set_second_level(ssd, FROM));
    (cache, unit)
}

fn rack_with(seed: u64, ssd_bytes: u64) -> (Model, Disk) {
    let (model, ..) = rack(seed, LEN);
    let ssd = model.disk("ssd", DiskSpec::new(ssd_bytes));
    (model, ssd)
}

async fn read(unit: &Unit<OnDrive, OnDrive>, block: u64) -> u8 {
    let mut out = Pieces::new();
    unit.read(block * 4096, 4096, &mut out).await.expect("read");
    let bytes = out.joined();
    assert!(bytes.iter().all(|b| *b == bytes[0]));
    bytes[0]
}

#[test]
fn what_is_read_again_and_does_not_fit_the_memory_comes_from_the_ssd() {
    let (model, _) = rack_with(1, 16 << 20);
    model.run(async |world| {
        let (cache, unit) = with_second(&world).await;
        let mut rng = world.random("blocks");
        // 8 MiB, of which the memory holds less than a quarter.
        let mut pass = async |count: usize| {
            for _ in 0..count {
                read(&unit, rng.u64(..2048)).await;
            }
            (unit.store().drive.counts().reads, cache.second_counts().expect("there is one"))
        };
        let (before, _) = pass(20_000).await;
        let (after, counts) = pass(4_000).await;
        assert!(counts.hits > 2_000 && counts.written > 1_000, "{counts:?}");
        assert!(after - before < 1_000, "{} of 4,000 reads came from the store", after - before);
    });
}

#[test]
fn nothing_stale() {
    check_stale(0..2);
}

#[test]
#[ignore = "many seeds"]
fn nothing_stale_ever() {
    check_stale(0..30);
}

fn check_stale(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        // Two chunks only: they are written over all the time.
        let (model, _) = rack_with(seed, FROM + (2 << 20));
        model.run(async |world| {
            let (cache, unit) = with_second(&world).await;
            random_against_shadow(&unit, &mut world.random("conformance"), 4_000).await;
            let mut rng = world.random("blocks");
            let mut shadow = vec![0_u8; 1500];
            Device::zero(&unit, 0, 1500 * 4096).await.expect("zero");
            for _ in 0..30_000 {
                let block = rng.usize(..shadow.len());
                if rng.u8(..10) == 0 {
                    shadow[block] = rng.u8(..);
                    let data = Pieces::copy_of(&[shadow[block]; 4096]);
                    unit.write(block as u64 * 4096, &data).await.expect("write");
                } else {
                    assert_eq!(read(&unit, block as u64).await, shadow[block], "block {block}");
                }
            }
            assert!(cache.second_counts().expect("there is one").hits > 100);
        });
    }
}

#[test]
fn a_drive_that_fails_turns_it_off_and_nobody_notices() {
    let (model, ssd) = rack_with(1, 16 << 20);
    model.run(async |world| {
        let (cache, unit) = with_second(&world).await;
        let mut rng = world.random("blocks");
        for step in 0..20_000 {
            if step == 10_000 {
                ssd.kill();
            }
            assert_eq!(read(&unit, rng.u64(..2048)).await, 0);
        }
        let counts = cache.second_counts().expect("there is one");
        assert!(counts.failed && counts.blocks == 0 && counts.hits > 0, "{counts:?}");
    });
}
