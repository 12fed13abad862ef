//! Prints how random sets of policies are served by an array of ten drives with platters: the VM farthest
//! from the closed formula, the sum, the worst 1 % of the windows of 5 s of all minimums, and which cannot be
//! kept and why.
//!
//! `cargo bench -p array --bench sets [-- COUNT | FIRST LAST | these NUMBER … | set NUMBER | kinds]`

#[path = "../../qos/tests/sets/bars.rs"]
mod bars;
#[path = "../tests/sets/bed.rs"]
mod bed;
#[path = "../tests/sets/draw.rs"]
mod draw;
#[path = "../tests/sets/judge.rs"]
mod judge;

use bars::SECOND_NS;
use draw::{KIB, Set};
use judge::{Outcome, Times, check, measure_kind, play};

const SETS: u64 = 200;
const TIMES: Times = Times { free_ns: 20 * SECOND_NS, learns_ns: 40 * SECOND_NS, judged_ns: 60 * SECOND_NS };

fn print(outcome: &Outcome) {
    let Outcome { set, scheduler, .. } = outcome;
    let far = outcome.farthest();
    let kept = outcome.kept().map_or("-".into(), |kept| format!("{:.1}", kept * 100.0));
    let sizes = set.vms.iter().map(|vm| vm.load.bytes);
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    println!(
        "{:>4} {:>3} {:>5} {:>3}-{:<3} {:>5.0} {:>6.2} {:>6.1} {:>5.0} {kept:>6} {:>4.1} {:<11} {:>4} {:>2} | {:>6.0} of {:>6.0} min {:>5} max {:?} w {} q {} reach {:.0}",
        set.seed,
        set.vms.len(),
        set.vms.iter().map(|vm| vm.load.outstanding).sum::<u64>(),
        least / KIB,
        most / KIB,
        set.promised() * 100.0,
        far.off() * 100.0,
        outcome.sum * 100.0,
        outcome.free * 100.0 / outcome.whole,
        outcome.depth,
        scheduler.depth_limit,
        scheduler.depth_cost_permille,
        outcome.beyond_reach(),
        far.rate,
        far.expected,
        far.policy.minimum_iops,
        far.policy.maximum_iops,
        far.policy.weight,
        far.vm.load.outstanding,
        far.reach,
    );
    if let Err(text) = check(outcome) {
        println!("     not held: {text}");
    }
}

/// All VMs of a set.
fn print_all(outcome: &Outcome) {
    println!(
        "     {:.0} units in a second without policies, {:.0} unlimited; a request ends each {:.2} ms",
        outcome.free,
        outcome.whole,
        outcome.slot_ns / 1e6
    );
    for served in &outcome.served {
        println!(
            "     {:>9.1} of {:>9.1}: {:>3} KiB {} min {:>6} max {:>8} weight {:>4} out {:>2} reach {:>9.1} ({:>9.1}) worst {:>9.1} free {:>9.1} below {:>6.1} ms waits {:>6.1} ms{}",
            served.rate,
            served.expected,
            served.vm.load.bytes / KIB,
            if served.vm.load.reads { "read " } else { "write" },
            served.policy.minimum_iops,
            served.policy.maximum_iops.map_or("-".into(), |most| most.to_string()),
            served.policy.weight,
            served.vm.load.outstanding,
            served.reach,
            served.steady_reach,
            served.worst,
            served.free,
            served.below_ns / 1e6,
            served.waited_ns / 1e6,
            if served.is_reported { " reported" } else { "" },
        );
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    if has("kinds") {
        for (kib, reads) in [4, 8, 64, 512].into_iter().flat_map(|kib| [(kib, true), (kib, false)]) {
            println!("({kib}, {reads}, {:.1}),", measure_kind(kib * KIB, reads));
        }
        return;
    }
    let numbers: Vec<u64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    if let Some(&seed) = numbers.first().filter(|_| has("set")) {
        let outcome = play(&Set::draw(seed), TIMES);
        print(&outcome);
        return print_all(&outcome);
    }
    let seeds: Vec<u64> = match numbers[..] {
        _ if has("these") => numbers,
        [first, last, ..] => (first..=last).collect(),
        [count] => (1..=count).collect(),
        [] => (1..=SETS).collect(),
    };
    println!(" set VMs   out   KiB   prom%   off%   sum%  of64  kept% depth");
    let played = seeds.into_iter().map(|seed| play(&Set::draw(seed), TIMES));
    let outcomes: Vec<Outcome> = played.inspect(print).collect();
    let within = |f: &dyn Fn(&&Outcome) -> bool| outcomes.iter().filter(f).count();
    println!(
        "{} sets: {} held; {} within 3 % of the formula, {} with 97 % of the capacity, {} keep their minimums",
        outcomes.len(),
        within(&|o| check(o).is_ok()),
        within(&|o| o.farthest().off() <= 0.03),
        within(&|o| o.sum >= 0.97),
        within(&|o| o.kept().is_none_or(|kept| kept >= 0.98)),
    );
}
