//! What the memory has is read without an allocation, also in the books of the streams.

use super::*;

#[test]
fn reads_of_what_is_in_memory_allocate_nothing() {
    let (model, ..) = rack(1, 8 << 20);
    model.run(async |world| {
        let config = CacheConfig { memory_bytes: 16 << 20, ..CacheConfig::default() };
        let (_cache, unit) = volatile(&world, config, WritePolicy::Back);
        // Written, so that they are in frames, and not in what was read ahead.
        for at in (0..4 << 20).step_by(4096) {
            unit.write(at, &Pieces::copy_of(&[7; 4096])).await.expect("write");
        }
        unit.flush().await.expect("flush");
        let mut rng = world.random("places");
        let places: Vec<u64> = (0..2000).map(|_| rng.u64(..(4 << 20) / 4096) * 4096).collect();
        let round = async || {
            for at in &places {
                let mut out = Pieces::new();
                unit.read(*at, 4096, &mut out).await.expect("read");
                assert_eq!(out.len(), 4096);
            }
        };
        // The books of the streams grow to their size, and the executor makes itself.
        for _ in 0..4 {
            futures::executor::block_on(round());
        }
        let before = unit.counts();
        let counted = allocation_counter::measure(|| futures::executor::block_on(round()));
        let after = unit.counts();
        assert_eq!(after.read_hit_bytes - before.read_hit_bytes, 2000 * 4096, "all are hits");
        assert_eq!(counted.count_total, 0);
    });
}
