//! Prints how random sets of policies are served on modelled pools: the client farthest from the closed
//! formula, the sum, the worst 1 % of the windows of 5 s of all minimums, and which cannot be kept and why.
//!
//! `cargo bench -p qos --bench sets [-- COUNT | -- set NUMBER]`

#[path = "../tests/sets/bars.rs"]
mod bars;
#[path = "../tests/sets/draw.rs"]
mod draw;
#[path = "../tests/sets/judge.rs"]
mod judge;
#[path = "../tests/sets/pool.rs"]
mod pool;

use draw::Set;
use judge::{Outcome, play};

const SETS: u64 = 200;
const JUDGED_NS: u64 = 120 * bars::SECOND_NS;

fn print(outcome: &Outcome) {
    let Set { seed, pool, loads, promised } = &outcome.set;
    let far = outcome.farthest();
    let kept = outcome.kept().map_or("-".into(), |kept| format!("{:.1}", kept * 100.0));
    println!(
        "{seed:>4} {:>3} {:>4} {:>5} {:>6} {:>6.0} {:>6.2} {:>6.1} {kept:>6} {:>4.1} {:<11} {:>2} | {:>6.0} {:>6.0} min {:>5} max {:?} w {} q {} reach {:.0}",
        loads.len(),
        pool.slots,
        pool.reach_ns / 1000,
        loads[0].bytes / 1024,
        promised * 100.0,
        far.off() * 100.0,
        outcome.sum * 100.0,
        outcome.depth,
        format!("{:?}", outcome.limit),
        outcome.beyond_reach(),
        far.rate,
        far.expected,
        far.load.policy.minimum_iops,
        far.load.policy.maximum_iops,
        far.load.policy.weight,
        far.load.outstanding,
        far.reach,
    );
}

/// All clients of a set.
fn print_all(outcome: &Outcome) {
    for client in &outcome.clients {
        println!(
            "     {:>9.1} of {:>9.1}: min {:>6} max {:>8} weight {:>4} out {:>2} reach {:>9.1} worst {:>9.1}",
            client.rate,
            client.expected,
            client.load.policy.minimum_iops,
            client.load.policy.maximum_iops.map_or("-".into(), |most| most.to_string()),
            client.load.policy.weight,
            client.load.outstanding,
            client.reach,
            client.worst,
        );
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = args.iter().find_map(|arg| arg.parse().ok());
    if let Some(seed) = number.filter(|_| args.iter().any(|arg| arg == "set")) {
        let outcome = play(&Set::draw(seed), JUDGED_NS);
        print(&outcome);
        return print_all(&outcome);
    }
    let count = number.unwrap_or(SETS);
    println!(" set VMs  slots reach   KiB  prom%  off%   sum%   kept% depth");
    let outcomes: Vec<Outcome> =
        (1..=count).map(|seed| play(&Set::draw(seed), JUDGED_NS)).inspect(print).collect();
    let within = |f: &dyn Fn(&&Outcome) -> bool| outcomes.iter().filter(f).count();
    println!(
        "{count} sets: {} within 3 % of the formula, {} with 97 % of the capacity, {} keep their minimums",
        within(&|o| o.farthest().off() <= 0.03),
        within(&|o| o.sum >= 0.97),
        within(&|o| o.kept().is_none_or(|kept| kept >= 0.98)),
    );
}
