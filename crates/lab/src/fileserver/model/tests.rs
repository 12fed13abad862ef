//! One server for some seconds: the same seed gives the same counters, and the two formats differ where they must.

use super::bed::{Bed, Shape, set};
use super::course::{Course, Which};
use super::disk::Format;
use super::play::{self, Set};
use crate::fileserver::scenario::Fileserver;

fn small() -> Fileserver {
    let (mut small, _) = Fileserver::load(None).expect("built in");
    small = small.quick();
    (small.published.servers, small.published.trees, small.published.dummy_trees) = (1, 16, 0);
    small.published.disk.0 = 64 << 30;
    small.array.cache.0 = 64 << 20;
    small.run.seconds = 8;
    let seconds = std::time::Duration::from_secs;
    (small.run.from.0, small.run.server_every.0, small.run.array_every.0) =
        (seconds(2), seconds(1), seconds(2));
    small
}

fn course(which: Which) -> Course {
    let scenario = small();
    let (plan, layout) = set(&scenario, 1).expect("a set");
    let shape = Shape { format: which.format, servers: 1, pool_free_bytes: None, spare_groups: 0 };
    let used = if which.format == Format::Dynamic { layout.used_bytes() } else { 0 };
    let bed = Bed::make(&scenario, shape, used, 1).expect("a bed");
    play::run(&scenario, &bed, &Set { plan, layout }, which, 1).expect("a run")
}

#[test]
fn the_same_seed_gives_the_same_counters_to_the_byte() {
    let text = || serde_json::to_string(&course(Which::DYNAMIC)).expect("text");
    let first = text();
    assert_eq!(first, text());
}

#[test]
fn both_formats_serve_the_clients_and_only_one_grows() {
    let [dynamic, fixed] = [Which::DYNAMIC, Which::FIXED].map(course);
    for course in [&dynamic, &fixed] {
        assert_eq!((course.hosts.len(), course.arrays.len()), (8, 4));
        let mb = course.of_servers(|w| w.tool_mb_per_s);
        assert!(mb.iter().all(|mb| (5.0..125.0).contains(mb)), "{mb:?}");
        // The array reads no less than the clients get.
        let read = course.of_lus(|w| w.read_mb_per_s).iter().sum::<f64>();
        assert!(read > 0.5 * mb.iter().sum::<f64>(), "{read}");
        assert!(
            course.arrays.iter().all(|w| w.controller_percent.len() == 2 && w.controller_percent[1] == 0.0)
        );
    }
    assert!(dynamic.grown_blocks[0] > 0 && fixed.grown_blocks[0] == 0);
}
