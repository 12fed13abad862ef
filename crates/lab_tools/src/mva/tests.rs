//! Against published values, closed forms, and a simulation of the same network in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use world::{Rng, World};
use world_model::Model;

use super::*;

fn network(think_s: f64, demands_ms: &[f64]) -> Network {
    let station = |(i, ms): (usize, &f64)| Station::single(&format!("s{i}"), ms / 1e3);
    Network { think_s, stations: demands_ms.iter().enumerate().map(station).collect() }
}

fn check_close(got: f64, should: f64, relative: f64, what: &str) {
    assert!((got - should).abs() <= relative * should.abs(), "{what}: {got} should be {should}");
}

#[test]
fn three_stations_give_the_published_values() {
    let points = solve(&network(0.05, &[5.0, 4.0, 3.0]), 20).expect("a network");
    for (n, per_s, response_ms, utilisation) in [
        (1, 16.129032, 12.000, 0.0806),
        (2, 31.843862, 12.806, 0.1592),
        (5, 75.969691, 15.816, 0.3798),
        (10, 135.797966, 23.639, 0.6790),
        (20, 190.736011, 54.857, 0.9537),
    ] {
        let point = &points[n - 1];
        assert_eq!(point.customers, n);
        assert!((point.throughput_per_s - per_s).abs() < 1e-6, "{n}: {}", point.throughput_per_s);
        assert!((point.response_s * 1e3 - response_ms).abs() < 5e-4, "{n}: {}", point.response_s);
        assert!((point.stations[0].utilisation - utilisation).abs() < 5e-5, "{n}");
    }
}

/// The recursion of mean value analysis for stations with one server, as the textbooks have it.
fn recursion(network: &Network, customers: usize) -> Vec<(f64, Vec<f64>)> {
    let mut queues = vec![0.0; network.stations.len()];
    let mut points = Vec::new();
    for n in 1..=customers {
        let responses: Vec<f64> = network
            .stations
            .iter()
            .zip(&queues)
            .map(|(station, queue)| station.demand_s * (1.0 + queue))
            .collect();
        let per_s = n as f64 / (network.think_s + responses.iter().sum::<f64>());
        queues = responses.iter().map(|response_s| per_s * response_s).collect();
        points.push((per_s, queues.clone()));
    }
    points
}

#[test]
fn single_servers_agree_with_the_recursion_however_many_customers_there_are() {
    for (think_s, demands) in
        [(0.05, &[5.0, 4.0, 3.0][..]), (0.0, &[1.0, 1.0]), (10.0, &[1.0, 0.2, 0.9, 0.0]), (0.001, &[8.0])]
    {
        let network = network(think_s, demands);
        let (points, should) = (solve(&network, 800).expect("a network"), recursion(&network, 800));
        for (point, (per_s, queues)) in points.iter().zip(should) {
            let what = format!("{} customers, think {think_s} s", point.customers);
            check_close(point.throughput_per_s, per_s, 1e-9, &what);
            for (station, (queue, demand_ms)) in point.stations.iter().zip(queues.iter().zip(demands)) {
                check_close(station.queue, *queue, 1e-8, &what);
                assert!((station.utilisation - per_s * demand_ms / 1e3).abs() < 1e-9, "{what}");
            }
        }
    }
}

#[test]
fn several_servers_agree_with_the_repairmen() {
    // Machines that run for Z and are repaired by c men, D each: the textbook's sum over how many are broken.
    let (think_s, demand_s, servers, machines) = (0.1, 0.02, 3, 30);
    let station = Station { name: "repair".into(), demand_s, rate: Rate::Servers(servers) };
    let points = solve(&Network { think_s, stations: vec![station] }, machines).expect("a network");
    let mut weight = 1.0;
    let (mut total, mut queue, mut working) = (1.0, 0.0, 0.0);
    for broken in 1..=machines {
        let busy = (broken as f64).min(f64::from(servers));
        weight *= (machines - broken + 1) as f64 * demand_s / think_s / busy;
        total += weight;
        queue += broken as f64 * weight;
        working += busy * weight;
    }
    let point = &points[machines - 1];
    check_close(point.throughput_per_s, working / total / demand_s, 1e-12, "throughput");
    check_close(point.stations[0].queue, queue / total, 1e-12, "queue");
}

#[test]
fn a_drive_that_sorts_its_queue_alone_gives_what_it_was_measured_with() {
    // Requests per second with 1, 2, 4, 8, 16, 32 at once; in between and beyond as the rate says.
    let rates: Vec<f64> = (1..=32).map(|n| (n as f64).powf(0.29)).collect();
    let drive = Station { name: "drive".into(), demand_s: 1.0 / 178.0, rate: Rate::Dependent(rates.clone()) };
    let points = solve(&Network { think_s: 0.0, stations: vec![drive] }, 64).expect("a network");
    for point in &points {
        let rate = rates[point.customers.min(32) - 1];
        check_close(point.throughput_per_s, 178.0 * rate, 1e-9, "throughput");
        check_close(point.stations[0].queue, point.customers as f64, 1e-9, "queue");
    }
}

#[test]
fn little_holds_and_bounds_hold_for_any_network() {
    let mut rng = Rng::with_seed(11);
    for _ in 0..24 {
        let count = rng.usize(1..12);
        let stations = (0..count)
            .map(|i| Station {
                name: format!("s{i}"),
                demand_s: rng.f64() * [1e-6, 1e-3, 1.0][rng.usize(..3)],
                rate: match rng.u8(..3) {
                    0 => Rate::Single,
                    1 => Rate::Servers(rng.u32(1..400)),
                    _ => Rate::Dependent((0..rng.usize(1..64)).map(|n| 1.0 + n as f64 * 0.1).collect()),
                },
            })
            .collect();
        let network = Network { think_s: rng.f64() * [0.0, 1e-3, 10.0][rng.usize(..3)], stations };
        let mut last_per_s = 0.0;
        for point in solve(&network, 300).expect("a network") {
            let (n, per_s) = (point.customers as f64, point.throughput_per_s);
            let everywhere =
                point.stations.iter().map(|station| station.queue).sum::<f64>() + per_s * network.think_s;
            check_close(everywhere, n, 1e-6, "customers");
            assert!(per_s <= network.bounds(point.customers).most_per_s * (1.0 + 1e-9), "{network:?}");
            assert!(per_s >= last_per_s * (1.0 - 1e-9), "rates that rise never make it slower: {network:?}");
            assert!(point.stations.iter().all(|station| (-1e-9..=1.0 + 1e-9).contains(&station.utilisation)));
            last_per_s = per_s;
        }
    }
}

#[test]
fn what_is_no_network_is_refused_with_the_cause() {
    let cause = |network: &Network, customers| solve(network, customers).expect_err("refused").to_string();
    let good = network(0.05, &[5.0, 4.0]);
    assert_eq!(solve(&good, 0), Ok(Vec::new()));
    assert!(cause(&good, 5000).contains("5000 customers"));
    assert!(cause(&network(f64::NAN, &[1.0]), 1).contains("NaN s of the think time"));
    assert!(cause(&network(0.0, &[-1.0]), 1).contains("-0.001 s of the demand of s0"));
    assert!(cause(&network(0.0, &[]), 1).contains("a service time above 0"));
    for rate in [
        Rate::Servers(0),
        Rate::Dependent(vec![]),
        Rate::Dependent(vec![2.0]),
        Rate::Dependent(vec![1.0, 0.0]),
    ] {
        let stations = vec![Station { name: "drive".into(), demand_s: 1.0, rate }];
        assert!(cause(&Network { think_s: 0.0, stations }, 1).contains("station drive"));
    }
}

/// Exponential with this mean.
fn drawn(rng: &mut Rng, mean_s: f64) -> Duration {
    Duration::from_secs_f64(-mean_s * (1.0 - rng.f64()).ln())
}

/// One customer, for ever: thinks, and waits at each station for its turn and its service.
async fn customer_task(
    world: World,
    mut rng: Rng,
    network: Network,
    free_ns: Rc<RefCell<Vec<u64>>>,
    rounds: Rc<Cell<u64>>,
) {
    loop {
        world.sleep(drawn(&mut rng, network.think_s)).await;
        for (i, station) in network.stations.iter().enumerate() {
            let service_ns = drawn(&mut rng, station.demand_s).as_nanos() as u64;
            let done_ns = free_ns.borrow()[i].max(world.now().0) + service_ns;
            free_ns.borrow_mut()[i] = done_ns;
            world.sleep(Duration::from_nanos(done_ns - world.now().0)).await;
        }
        rounds.set(rounds.get() + 1);
    }
}

#[test]
fn a_network_in_virtual_time_has_the_throughput_that_is_computed() {
    let network = network(0.05, &[5.0, 4.0, 3.0]);
    let points = solve(&network, 20).expect("a network");
    for customers in [2, 10, 20] {
        let per_s = Model::new(5).run(async |world| {
            let (free_ns, rounds) = (Rc::new(RefCell::new(vec![0; 3])), Rc::new(Cell::new(0)));
            for i in 0..customers {
                let rng = Rng::with_seed(i);
                world.spawn(customer_task(
                    world.clone(),
                    rng,
                    network.clone(),
                    free_ns.clone(),
                    rounds.clone(),
                ));
            }
            world.sleep(Duration::from_secs(10)).await;
            let before = rounds.get();
            world.sleep(Duration::from_secs(500)).await;
            (rounds.get() - before) as f64 / 500.0
        });
        check_close(
            per_s,
            points[customers as usize - 1].throughput_per_s,
            0.01,
            &format!("{customers} customers"),
        );
    }
}
