//! Neighbours, capacities and policies that change, aggregated policies, offloads, cancelled requests.

use super::*;
use crate::{FlowId, Health, Lack, Next};

const KIB: u64 = 1 << 10;

fn percentile(took: &mut [u64], permille: usize) -> u64 {
    took.sort_unstable();
    took[(took.len() - 1) * permille / 1000]
}

/// A reserved LU that asks for one at a time beside one that keeps 64 out: its 99th percentile is no more
/// than one service time over that on an array which has just its minimum.
#[test]
fn a_noisy_neighbour_costs_a_reserved_client_one_service_time() {
    // An array of 1,000 units in a second: a service time is 1 ms.
    for minimum_iops in [100, 300, 450] {
        let noisy = Load { bytes: 4 * KIB, outstanding: 64, ..Load::of(Policy::none()) };
        let quiet = Load { outstanding: 1, ..noisy };
        let reserved = Load { policy: Policy { weight: 1, ..minimum(minimum_iops) }, ..quiet };
        let took = |array: &Array, load: usize| -> Vec<u64> {
            let settled = array.done.iter().filter(|d| d.load == load && d.at > 5 * SECOND_NS);
            settled.map(|d| d.took_ns).collect()
        };
        let mut alone = Array::new(minimum_iops * UNIT, 1, 1, &[quiet]);
        alone.run(60 * SECOND_NS);
        let mut both = Array::new(1000 * UNIT, 1, 1, &[reserved, noisy]);
        both.run(60 * SECOND_NS);
        let (alone, beside) = (percentile(&mut took(&alone, 0), 990), percentile(&mut took(&both, 0), 990));
        let rate = both.rate(0, 5 * SECOND_NS, 60 * SECOND_NS);
        println!("minimum {minimum_iops}: {alone} ns alone, {beside} ns beside, {rate} IOPS");
        assert!(beside <= alone + 1_000_000, "{beside} ns, {alone} ns alone");
        assert!(rate * 100 >= minimum_iops * 98, "{rate}");
        let noise = both.rate(1, 5 * SECOND_NS, 60 * SECOND_NS);
        assert!(noise + rate >= 970, "{noise} and {rate} of 1000");
    }
}

/// A rebuild takes half of the array: the minimum holds, the others give way; afterwards they have it back.
#[test]
fn a_minimum_holds_when_the_capacity_is_halved() {
    let mut loads = [Load::of(Policy::none()); 10];
    (0..3).for_each(|i| loads[i].policy = minimum(2500));
    let mut array = Array::new(140_000_000, 1, 1, &loads);
    for capacity in [140_000_000, 70_000_000, 140_000_000] {
        array.set_capacity(capacity);
        let begin = array.now;
        array.run(30 * SECOND_NS);
        let rate = |load: usize| array.rate(load, begin + 5 * SECOND_NS, array.now);
        println!("C = {capacity}: {:?}", (0..10).map(rate).collect::<Vec<_>>());
        (0..3).for_each(|load| assert!(rate(load) >= 2450, "load {load}: {}", rate(load)));
        let sum: u64 = (0..10).map(rate).sum();
        assert!(sum * UNIT * 100 >= capacity * 97, "{sum} of {}", capacity / UNIT);
    }
}

/// One minimum and one maximum for a set: its clients share them evenly, whatever the others do.
#[test]
fn an_aggregated_policy_is_shared_by_its_clients() {
    let mut array = Array::new(140_000_000, 1, 1, &[Load::of(Policy::none()); 8]);
    let shared = Policy { maximum_iops: Some(4000), ..minimum(3600) };
    let scheduler = &mut array.schedulers[0];
    let flow = scheduler.add_flow(0, shared);
    (0..4).for_each(|load| scheduler.move_client(0, array.clients[load].1, flow));
    array.run(65 * SECOND_NS);
    let rate = |load: usize| array.rate(load, 5 * SECOND_NS, 65 * SECOND_NS);
    let own: u64 = (0..4).map(rate).sum();
    assert!((3600 * 98 / 100..=4000).contains(&own), "{own}");
    (0..4).for_each(|load| check_near("a member", rate(load), own / 4, 30));
    (4..8).for_each(|load| check_near("another", rate(load), (17_090 - own) / 4, 20));
}

/// Nobody waited, and each request of a small weight moved the turn as far as a thousand of a large one. When
/// requests began to wait, all were behind by that, and kept it for minutes: who had been idle for a moment
/// was not served until the others had caught up.
#[test]
fn what_a_small_weight_took_while_nobody_waited_is_no_debt_to_the_others() {
    const WEIGHTS: [u32; 13] = [100, 100, 100, 100, 100, 100, 100, 1, 1, 1, 1, 1, 1000];
    let load = Load { bytes: 64 << 10, outstanding: 16, ..Load::of(Policy::none()) };
    for (seconds, depth) in [(1, 256), (2, 256), (5, 256), (5, 200)] {
        let settings = Settings { depth_adapts: false, depth_max: depth, ..Settings::default() };
        let mut array = Array::with(settings, 115_000_000, 1, 1, &[load; 13]);
        (0..13).for_each(|i| array.set_policy(i, Policy { weight: WEIGHTS[i], ..Policy::none() }));
        array.run(seconds * SECOND_NS);
        array.schedulers[0].set_settings(array.now, Settings { depth_max: 1, ..settings });
        array.run(SECOND_NS);
        array.set_outstanding(12, 0);
        array.run(SECOND_NS);
        array.set_outstanding(12, 16);
        array.run(2 * SECOND_NS);
        let begin = array.now;
        array.run(2 * SECOND_NS);
        let due = |load: usize| 14_038 * u64::from(WEIGHTS[load]) / 1705;
        let rate = |load: usize| array.rate(load, begin, begin + 2 * SECOND_NS);
        (0..7).for_each(|load| check_near("weight 100", rate(load), due(load), 50));
        check_near("weight 1000", rate(12), due(12), 50);
    }
}

/// A client that was served a lot more than it asked for pays for it.
#[test]
fn work_that_turns_out_to_be_more_is_charged() {
    let mut array =
        Array::new(1000 * UNIT, 1, 1, &[Load { bytes: UNIT, outstanding: 8, ..Load::of(maximum(100)) }]);
    array.run(SECOND_NS);
    let client = array.clients[0].1;
    array.schedulers[0].charge(array.now, client, 500 * UNIT);
    let begin = array.now;
    array.run(10 * SECOND_NS);
    let units = array.rate(0, begin, array.now) * 10;
    assert!(units.abs_diff(500) < 15, "{units} of 1000 units are left when 500 were charged");
}

#[test]
fn a_minimum_that_is_not_reached_is_told_once_and_its_recovery_once() {
    let mut array = Array::new(140_000_000, 1, 1, &[Load::of(Policy::none()); 10]);
    let mut news: Vec<(u64, FlowId, Health)> = Vec::new();
    let watch = |array: &mut Array, seconds: u64, news: &mut Vec<(u64, FlowId, Health)>| {
        for _ in 0..seconds {
            array.run(SECOND_NS);
            let mut changed = Vec::new();
            array.schedulers[0].close_window(array.now, &mut changed);
            news.extend(changed.iter().map(|(flow, health)| (array.now, *flow, *health)));
        }
    };
    watch(&mut array, 20, &mut news);
    assert_eq!(news, []);
    (0..10).for_each(|load| array.set_policy(load, minimum(3000)));
    let begin = array.now;
    watch(&mut array, 60, &mut news);
    assert_eq!(news.len(), 10, "{news:?}");
    for (at, _, health) in news.drain(..) {
        assert!(at - begin <= 20 * SECOND_NS);
        let Health::BelowMinimum { minimum_iops: 3000, served_iops, lacks } = health else {
            panic!("{health:?}")
        };
        check_near("served", served_iops, 1709, 30);
        assert_eq!(lacks, Lack::Capacity);
    }
    (0..10).for_each(|load| array.set_policy(load, minimum(1000)));
    watch(&mut array, 60, &mut news);
    assert!(news.len() == 10 && news.iter().all(|(.., health)| *health == Health::Ok), "{news:?}");
}

/// Who asks for less than its minimum is not below it.
#[test]
fn who_does_not_ask_is_not_below_its_minimum() {
    let lazy = Load { pause_ns: 100_000_000, ..Load::of(minimum(3000)) };
    let mut array = Array::new(140_000_000, 1, 1, &[lazy, Load::of(Policy::none())]);
    let mut changed = Vec::new();
    for _ in 0..60 {
        array.run(SECOND_NS);
        array.schedulers[0].close_window(array.now, &mut changed);
    }
    assert_eq!(changed, []);
}

/// A minimum that one request at a time can never reach does not cost the others the depth.
#[test]
fn a_minimum_beyond_reach_does_not_slow_the_others_down() {
    // 16 places of 16 ms each: one request at a time makes 62 in a second.
    let impossible = Load { bytes: 8 * KIB, ..Load::of(minimum(500)) };
    let busy = Load { bytes: 8 * KIB, outstanding: 32, ..Load::of(Policy::none()) };
    let mut array = Array::new(1000 * UNIT, 16, 1, &[impossible, busy]);
    array.run(120 * SECOND_NS);
    let rates = [0, 1].map(|i| array.rate(i, 20 * SECOND_NS, 120 * SECOND_NS));
    println!("{rates:?}");
    assert!(rates.iter().sum::<u64>() >= 900, "{rates:?} of 1000");
}

#[test]
fn cancelled_requests_are_never_dispatched() {
    let mut scheduler = Scheduler::new(Settings { depth_max: 1, ..Settings::default() });
    let flow = scheduler.add_flow(0, Policy::none());
    let client = scheduler.add_client(0, flow);
    let ids: Vec<_> = (0..5).map(|cookie| scheduler.submit(0, client, UNIT, cookie)).collect();
    let Next::Dispatch(first) = scheduler.next(0) else { panic!("one goes below") };
    assert_eq!(first.cookie, 0);
    assert!(!scheduler.cancel(1, ids[0]) && scheduler.cancel(1, ids[1]) && scheduler.cancel(1, ids[3]));
    assert!(!scheduler.remove_client(1, client));
    let mut order = vec![];
    scheduler.complete(1, first.request);
    while let Next::Dispatch(dispatch) = scheduler.next(2) {
        order.push(dispatch.cookie);
        scheduler.complete(2, dispatch.request);
    }
    assert_eq!(order, [2, 4]);
    assert!(scheduler.remove_client(3, client));
    scheduler.remove_flow(flow);
    assert_eq!((scheduler.waiting(), scheduler.in_flight()), (0, 0));
}

#[test]
fn decisions_allocate_nothing() {
    let mut scheduler = Scheduler::new(Settings::default());
    let clients: Vec<_> = (0..100)
        .map(|i| {
            let flow = scheduler.add_flow(0, minimum(i % 3));
            scheduler.add_client(0, flow)
        })
        .collect();
    let mut below = Vec::with_capacity(1000);
    let mut round = |now: u64| {
        clients.iter().for_each(|c| {
            scheduler.submit(now, *c, 4096, 0);
        });
        while scheduler.waiting() > 0 {
            while let Next::Dispatch(dispatch) = scheduler.next(now) {
                below.push(dispatch.request);
            }
            below.drain(..).for_each(|request| scheduler.complete(now, request));
        }
    };
    (0..3).for_each(&mut round);
    assert_eq!(allocation_counter::measure(|| (3..100).for_each(&mut round)).count_total, 0);
}
