//! What is declared and only the next start puts in force: who applies it is told, and so is until then who
//! compares.

use std::sync::Arc;
use std::time::Duration;

use super::caching::{cached, cut_after};
use super::rig::{Host, declaration, group, model, start};
use crate::config::{CACHE_BYTES_MIN, Level, Provisioning};
use crate::{Array, Config, at_next_start};

const ID: u8 = 46;

async fn later(array: &Array) -> Vec<String> {
    at_next_start(array.controllers(), &Arc::new(array.config().clone())).await.expect("answered")
}

/// A journal that was taken out of the declaration stayed without a word, and a kill later the pool was not
/// served; a drive waited as was declared when it was opened, and the rest was silent, too.
#[test]
fn what_is_declared_and_not_in_force_yet_is_said() {
    let model = model(ID.into(), 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(cached(ID, true)).await.expect("apply");
        assert_eq!(later(&array).await, [""; 0]);
        let mut cases: Vec<(Config, &str)> = Vec::new();
        cases.push((
            cached(ID, false),
            "pool p: journal: j until the next start, none after it; if the array is",
        ));
        let change = |change: fn(&mut Config)| {
            let mut config = cached(ID, true);
            change(&mut config);
            config
        };
        let cache = |config: &mut Config| {
            config.cache.as_mut().expect("a cache").memory_bytes = 2 * CACHE_BYTES_MIN;
        };
        cases.push((change(cache), "controller 0: cache: memory: 8MiB until the next start, 16MiB after it"));
        let read_only = |config: &mut Config| config.volumes[0].read_only = true;
        cases.push((change(read_only), "volume v: read_only: false until the next start, true after it"));
        let blocks = |config: &mut Config| config.volumes[0].physical_block_bytes = 4096;
        cases.push((change(blocks), "volume v: physical_block: 512 until the next start, 4096 after it"));
        let thick = |config: &mut Config| config.volumes[0].provisioning = Provisioning::Thick;
        cases.push((change(thick), "volume v: provisioning: stays thin, as it was made; thick in"));
        let page = |config: &mut Config| config.pools[0].page_bytes = 1 << 20;
        cases.push((change(page), "pool p: page: stays 64KiB, as it was made; 1MiB in"));
        for (config, line) in cases {
            let done = array.apply(config.clone()).await.expect(line);
            assert!(done.len() == 1 && done[0].starts_with(line), "{line}: {done:?}");
            assert_eq!(array.apply(config).await.expect("again"), [""; 0], "it is told once");
            assert_eq!(later(&array).await, done, "and compared until then");
            array.apply(cached(ID, true)).await.expect("as before");
            assert_eq!(later(&array).await, [""; 0]);
        }
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_pool_whose_journal_was_taken_out_says_after_a_kill_what_to_declare_and_is_served_then() {
    let model = model(ID.into(), 4);
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(cached(ID, true)).await.expect("apply");
        array.apply(cached(ID, false)).await.expect("taken out");
        Host::log_in(&world, ID).await.fill().await;
    });
    model.run(async |world| {
        let mut array = start(&world);
        array.adopt(crate::config::Made::all_of(&cached(ID, false)));
        array.apply(cached(ID, false)).await.expect("it starts");
        let missing = array.status().await.expect("status").remove(0).missing;
        let says =
            |m: &crate::status::Missing| m.kind == "pool" && m.reason == status::Reason::JournalUndeclared;
        assert!(missing.iter().any(says), "{missing:?}");
        array.apply(cached(ID, true)).await.expect("declared again");
        let mut host = Host::log_in(&world, ID).await;
        host.number = 1;
        host.verify().await;
        array.stop().await.expect("stop");
    });
}

#[test]
fn drives_wait_as_long_as_is_declared_now() {
    let model = model(ID.into(), 4);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(ID, 2, vec![group("g", Level::Raid1, 0..2)]);
        array.apply(config.clone()).await.expect("apply");
        (config.drive_slow_ms, config.drive_drop_ms) = (300, Some(900));
        array.apply(config).await.expect("apply");
        // d1 says nothing any more: its mirror goes on without it after that time.
        model.disks().get("d1").expect("a disk").hang();
        let (mut host, begun) = (Host::log_in(&world, ID).await, world.now());
        host.fill().await;
        host.flush().await;
        assert!(world.now() - begun < Duration::from_secs(3), "{:?}", world.now() - begun);
        array.stop().await.expect("stop");
    });
}
