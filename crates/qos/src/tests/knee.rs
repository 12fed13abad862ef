//! The search for the depth, on a pool whose throughput is known but for the noise of its requests.

use crate::depth::LOOK_NS;
use crate::knee::Knee;
use crate::series::Window;

/// Requests that always want to be below.
const OFFERED: u32 = 40;
/// Requests in a window at the deepest depth.
const REQUESTS: u64 = 90;

/// Throughput at a depth, of 1000: as of four drives with platters and mirrors.
fn throughput(depth: u32) -> u64 {
    let known = [(0, 0), (16, 830), (24, 945), (28, 964), (32, 985), (40, 1000)];
    let above = known.iter().position(|(at, _)| *at >= depth.min(OFFERED)).unwrap_or(0);
    let Some([(low, from), (high, to)]) =
        known.get(above.wrapping_sub(1)..=above).and_then(|two| two.first_chunk())
    else {
        return 0;
    };
    from + (to - from) * u64::from(depth.min(OFFERED) - low) / u64::from(high - low)
}

/// What the depth that is found has of the throughput in each second of half an hour after the first minute.
fn found(seed: u64) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut knee = Knee::new(64);
    let mut out = Vec::new();
    for look in 1..=10 * 60 * 31 {
        let depth = knee.depth().min(OFFERED);
        let requests = REQUESTS * throughput(depth) / 1000;
        let work_bytes = requests * 64 * rng.u64(890..=1110);
        let window = Window {
            passed_ns: LOOK_NS,
            work_bytes,
            requests,
            below_ns: u64::from(depth) * LOOK_NS,
            waits_permille: if depth < OFFERED { 1000 } else { 0 },
            in_flight: depth,
            minimum_permille: 300,
            is_held: false,
        };
        knee.look(look * LOOK_NS, &window, 64, true);
        if look > 600 && look % 10 == 0 {
            out.push(throughput(knee.found()));
        }
    }
    out
}

/// After the search an eighth less was accepted by chance, now and then, and the depth went down with it:
/// with these seeds it had 96.1 % of the throughput, where 2 % are what it may cost.
#[test]
fn the_depth_that_was_found_does_not_sink_by_what_is_accepted_by_chance() {
    let means: Vec<u64> = (1..=20)
        .map(|seed| {
            let found = found(seed);
            found.iter().sum::<u64>() / found.len() as u64
        })
        .collect();
    let mean = means.iter().sum::<u64>() / means.len() as u64;
    println!("{means:?}: {mean} of 1000");
    assert!(mean >= 970, "{mean} of 1000");
}
