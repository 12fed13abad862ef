//! What a scheduler has found out about its pool goes to the next one, which begins with it if the pool bears
//! it out.

use super::*;
use crate::{Found, FoundShallower};

const MB: u64 = 1_000_000;
/// Bytes per second of a place, of which a pool has some.
const PLACE: u64 = 35 * MB;

/// A pool of so many places under 64 requests, whose scheduler has just begun.
fn pool(places: u64) -> Array {
    let load = Load { outstanding: 16, bytes: 64 << 10, ..Load::of(Policy::none()) };
    Array::new(PLACE * places, places, 1, &[load; 4])
}

/// What a scheduler of such a pool has found after a minute.
fn found(places: u64) -> Found {
    let mut array = pool(places);
    array.run(60 * SECOND_NS);
    let found = array.schedulers[0].found().expect("a minute is enough");
    assert_eq!(found.depth, array.schedulers[0].depth());
    found
}

/// What is done in the last but the first of so many seconds, of what the pool can do; thousandths.
fn sum(array: &mut Array, places: u64, seconds: u64) -> u64 {
    array.run((seconds - 1) * SECOND_NS);
    let from = array.now - (seconds - 1) * SECOND_NS;
    let units: u64 = (0..4).map(|load| array.rate(load, from, array.now)).sum();
    units * UNIT * 1000 / (PLACE * places)
}

/// The next scheduler of a pool searched its depth for 10 s and more, with trials that left the pool idle.
#[test]
fn the_next_scheduler_of_a_pool_begins_with_the_depth_that_was_found() {
    let found = found(8);
    for with in [true, false] {
        let mut array = pool(8);
        array.run(SECOND_NS / 2);
        if with {
            array.schedulers[0].begin_with(array.now, &found);
            assert_eq!(array.schedulers[0].depth(), found.depth);
            assert_eq!(array.schedulers[0].found(), Some(found), "it is handed on");
        }
        array.run(SECOND_NS / 2);
        let sum = sum(&mut array, 8, 6);
        assert_eq!(sum >= 990, with, "{with}: {sum} of 1000");
    }
}

#[test]
fn a_hint_of_another_pool_is_given_up() {
    // Of one with a quarter of the drives, and of one with four times as many.
    for (was, is) in [(4, 16), (16, 4)] {
        let found = found(was);
        let mut array = pool(is);
        array.run(SECOND_NS / 2);
        array.schedulers[0].begin_with(array.now, &found);
        assert_eq!(u64::from(array.schedulers[0].depth()), u64::from(found.depth));
        array.run(60 * SECOND_NS);
        let (sum, depth) = (sum(&mut array, is, 20), u64::from(array.schedulers[0].depth()));
        assert!(sum >= 970 && depth >= is && depth <= is + is / 4 + 1, "{was} {is}: {sum}, depth {depth}");
    }
}

#[test]
fn a_scheduler_that_has_found_something_goes_by_that() {
    let mut array = pool(8);
    array.run(60 * SECOND_NS);
    let own = array.schedulers[0].found();
    array.schedulers[0].begin_with(array.now, &Found { depth: 40, ..found(8) });
    assert_eq!((array.schedulers[0].found(), array.schedulers[0].depth() < 20), (own, true));
}

/// It comes from another node.
#[test]
fn a_hint_that_makes_no_sense_is_none() {
    let good = found(8);
    let shallower = good.shallower.expect("it was compared");
    let bad = [
        Found { depth_max: 32, ..good },
        Found { depth: 0, ..good },
        Found { depth: 65, ..good },
        Found { too_shallow: good.depth, ..good },
        Found { cost_permille: 1001, ..good },
        Found { shallower: Some(FoundShallower { depth: 0, ..shallower }), ..good },
        Found { shallower: Some(FoundShallower { of: shallower.depth, ..shallower }), ..good },
        Found { shallower: Some(FoundShallower { of: 65, ..shallower }), ..good },
        Found { shallower: Some(FoundShallower { kept_permille: 0, ..shallower }), ..good },
    ];
    for found in bad {
        let mut array = pool(8);
        array.schedulers[0].begin_with(0, &found);
        assert_eq!((array.schedulers[0].found(), array.schedulers[0].depth()), (None, 64), "{found:?}");
    }
}
