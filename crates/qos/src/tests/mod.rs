//! The scheduler before a simulated array of a known capacity.

mod array;
mod bounds;
mod depth;
mod found;
mod knee;
mod parts;
mod random;
mod seed;
mod table;

use array::{Array, Load};

use crate::{Claim, Policy, Scheduler, Settings};

const SECOND_NS: u64 = 1_000_000_000;
const UNIT: u64 = 8192;

/// A policy with a minimum.
fn minimum(minimum_iops: u64) -> Policy {
    Policy { minimum_iops, ..Policy::none() }
}

/// A policy with a maximum.
fn maximum(maximum_iops: u64) -> Policy {
    Policy { maximum_iops: Some(maximum_iops), ..Policy::none() }
}

/// Whether a rate is as expected, within so many thousandths and one unit per second.
#[track_caller]
fn check_near(what: &str, got: u64, wanted: u64, permille: u64) {
    let off = got.abs_diff(wanted);
    assert!(off * 1000 <= wanted * permille + 1000, "{what}: {got}, {wanted} is expected");
}
