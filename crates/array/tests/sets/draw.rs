//! Random sets: VMs with any mix of minimum, maximum, weight, outstanding requests, sizes, reads and writes.

use qos::Policy;

use super::bars::{WEIGHTS, promises};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const UNIT_BYTES: u64 = 8 * KIB;

/// What a VM keeps outstanding, at random places of its volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) bytes: u64,
    pub(crate) reads: bool,
    pub(crate) outstanding: u64,
}

impl Load {
    /// Units that one of its requests counts.
    pub(crate) fn cost_units(&self) -> f64 {
        self.bytes.max(UNIT_BYTES) as f64 / UNIT_BYTES as f64
    }
}

/// A VM; rates are parts of what the array does without policies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vm {
    pub(crate) load: Load,
    pub(crate) minimum: f64,
    pub(crate) maximum: Option<f64>,
    pub(crate) weight: u32,
}

impl Vm {
    /// Its policy on an array that does so many units per second.
    pub(crate) fn policy(&self, capacity: f64) -> Policy {
        let minimum_iops = (self.minimum * capacity) as u64;
        let maximum_iops = self.maximum.map(|part| ((part * capacity) as u64).max(minimum_iops).max(1));
        Policy { minimum_iops, maximum_iops, weight: self.weight, ..Policy::none() }
    }
}

/// A set.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) seed: u64,
    pub(crate) vms: Vec<Vm>,
}

impl Set {
    /// The set of this number: in two of three all VMs send the same requests, in others each has its own.
    pub(crate) fn draw(seed: u64) -> Set {
        let mut rng = fastrand::Rng::with_seed(seed);
        let count = rng.usize(3..=40);
        let is_mixed = rng.u8(..3) == 0;
        let of_all = request(&mut rng);
        let (_, minimums) = promises(&mut rng, count);
        let vm = |minimum: &f64| {
            let (bytes, reads) = if is_mixed { request(&mut rng) } else { of_all };
            let most = minimum + 3.0 * rng.f64() / count as f64;
            Vm {
                load: Load { bytes, reads, outstanding: 1 << rng.u32(..=5) },
                minimum: *minimum,
                maximum: (rng.u8(..10) < 3).then_some(most),
                weight: WEIGHTS[rng.usize(..WEIGHTS.len())],
            }
        };
        let vms = minimums.iter().map(vm).collect();
        Set { seed, vms }
    }

    /// Sum of the minimums, as a share of the capacity.
    pub(crate) fn promised(&self) -> f64 {
        self.vms.iter().map(|vm| vm.minimum).sum()
    }
}

/// Size and direction.
fn request(rng: &mut fastrand::Rng) -> (u64, bool) {
    ([4, 8, 64, 512][rng.usize(..4)] * KIB, rng.bool())
}
