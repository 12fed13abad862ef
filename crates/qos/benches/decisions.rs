//! Prints what a scheduling decision costs with 1,000 LUs: submit, choose and complete, all of them with
//! requests waiting.
//!
//! `cargo bench -p qos --bench decisions`

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use qos::{ClientId, Next, Policy, RequestId, Scheduler, Settings};

const DECISIONS: u32 = 1_000_000;
const SAMPLES: usize = 7;
/// What one request takes in the array that is not there: 100,000 in a second.
const REQUEST_NS: u64 = 10_000;

/// The policy of the LU with this number.
type PolicyOf<'a> = &'a dyn Fn(u32) -> Policy;

/// A scheduler with so many LUs, each with its own policy and four requests waiting.
fn scheduler(clients: u32, policy: impl Fn(u32) -> Policy) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings::default());
    for number in 0..clients {
        let flow = scheduler.add_flow(0, policy(number));
        let client = scheduler.add_client(0, flow);
        (0..4).for_each(|_| {
            scheduler.submit(0, client, 4096, u64::from(number));
        });
    }
    scheduler
}

/// Nanoseconds of one decision: whoever was served asks again.
fn sample(scheduler: &mut Scheduler, now: &mut u64, below: &mut Vec<(RequestId, ClientId)>) -> u64 {
    let begin = Instant::now();
    for turn in 0..DECISIONS {
        *now += REQUEST_NS;
        if !below.is_empty() {
            let (request, client) = below.swap_remove(turn as usize % below.len());
            scheduler.complete(*now, request);
            scheduler.submit(*now, client, 4096, u64::from(client.0));
        }
        while let Next::Dispatch(dispatch) = scheduler.next(*now) {
            below.push((dispatch.request, dispatch.client));
        }
    }
    (begin.elapsed().as_nanos() / u128::from(DECISIONS)) as u64
}

fn main() {
    let none = Policy::none();
    let mixed = |number: u32| match number % 4 {
        0 => Policy { minimum_iops: 80, ..none },
        1 => Policy { maximum_iops: Some(100), ..none },
        2 => Policy { weight: 1 + number, burst_units: 16, ..none },
        _ => Policy { minimum_iops: 50, maximum_iops: Some(200), ..none },
    };
    let promised = |_| Policy { minimum_iops: 90, ..none };
    let cases: [(&str, u32, PolicyOf<'_>); 3] = [
        ("10 LUs, mixed policies", 10, &mixed),
        ("1,000 LUs, mixed policies", 1000, &mixed),
        ("1,000 LUs, each with a minimum", 1000, &promised),
    ];
    for (name, clients, policy) in cases {
        let (mut scheduler, mut now, mut below) = (scheduler(clients, policy), 0, Vec::new());
        sample(&mut scheduler, &mut now, &mut below);
        let mut samples: Vec<u64> =
            (0..SAMPLES).map(|_| sample(&mut scheduler, &mut now, &mut below)).collect();
        samples.sort_unstable();
        println!("{name:<36} {:>5} ns a decision", samples[SAMPLES / 2]);
    }
}
