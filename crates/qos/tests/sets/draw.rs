//! Random sets: a pool, and clients with any mix of minimum, maximum, weight and outstanding requests.

use qos::Policy;

use super::bars::{SECOND_NS, WEIGHTS, promises};
use super::pool::{Load, Pool, UNIT_BYTES};

/// A set.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) seed: u64,
    pub(crate) pool: Pool,
    pub(crate) loads: Vec<Load>,
    /// Sum of the minimums, as a share of the capacity.
    pub(crate) promised: f64,
}

const KIB: u64 = 1 << 10;
/// Deepest queue that a scheduler may have (`DEPTH_MAX_DEFAULT`): more slots would not be used.
const SLOTS: [u64; 6] = [1, 2, 4, 8, 16, 32];

impl Set {
    /// The set of this number.
    pub(crate) fn draw(seed: u64) -> Set {
        let mut rng = fastrand::Rng::with_seed(seed);
        let count = rng.usize(3..=40);
        let slots = SLOTS[rng.usize(..SLOTS.len())];
        // From flash to a drive of 7,200 rpm.
        let reach_ns = [100_000, 1_000_000, 5_000_000, 8_000_000][rng.usize(..4)];
        let pool = Pool { slots, reach_ns, bytes_per_s: 100_000_000 * (1 + rng.u64(..4)) };
        let bytes = [4 * KIB, 8 * KIB, 64 * KIB, 512 * KIB][rng.usize(..4)];
        let capacity = capacity_units(&pool, bytes);
        let fair = capacity / count as f64;
        let (promised, minimums) = promises(&mut rng, count);
        let loads = minimums.iter().map(|minimum| {
            let minimum = (minimum * capacity) as u64;
            let most = minimum.max(1) + (fair * 3.0 * rng.f64()) as u64;
            let policy = Policy {
                minimum_iops: minimum,
                maximum_iops: (rng.u8(..10) < 3).then_some(most),
                weight: WEIGHTS[rng.usize(..WEIGHTS.len())],
                ..Policy::none()
            };
            Load { policy, bytes, outstanding: 1 << rng.u32(..=5) }
        });
        Set { seed, pool, loads: loads.collect(), promised }
    }
}

/// Units per second that a pool does with requests of this size, if all of its slots are busy.
pub(crate) fn capacity_units(pool: &Pool, bytes: u64) -> f64 {
    let per_request = bytes.max(UNIT_BYTES) as f64 / UNIT_BYTES as f64;
    pool.slots as f64 * per_request * SECOND_NS as f64 / pool.service_ns(bytes) as f64
}
