//! P, Q and their updates over slices of equal length, with the best instructions of this processor.

use crate::field::q_coefficient;
use crate::{portable, simd};

/// `to` ^= `from`: the update of P by a delta. Panics when the lengths differ, like all kernels.
pub fn xor_into(to: &mut [u8], from: &[u8]) {
    sum(to, &[from], true);
}

/// `to` ^= `coefficient` · `from`: the update of Q by the delta of data unit k, with [`q_coefficient`]`(k)`.
pub fn mul_xor_into(to: &mut [u8], from: &[u8], coefficient: u8) {
    combine(to, &[from], &[coefficient], true);
}

/// P: the exclusive-or of all `data`.
pub fn p(data: &[&[u8]], p: &mut [u8]) {
    sum(p, data, false);
}

/// P and Q of `data`, in order of their numbers.
pub fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    assert_eq!(p.len(), q.len(), "P and Q are not equally long");
    check(p.len(), data);
    let done = simd::pq(data, p, q);
    portable::pq(data, p, q, done);
}

/// Q alone.
pub fn q(data: &[&[u8]], q: &mut [u8]) {
    assert!(data.len() < POWERS.len(), "{} data units", data.len());
    combine(q, data, &POWERS[..data.len()], false);
}

/// The coefficients of Q in a row.
pub(crate) const POWERS: [u8; 255] = {
    let mut powers = [0; 255];
    let mut k = 0;
    while k < 255 {
        powers[k] = q_coefficient(k);
        k += 1;
    }
    powers
};

/// `to` = (`keep`: itself +) the sum of `sources`.
pub(crate) fn sum(to: &mut [u8], sources: &[&[u8]], keep: bool) {
    check(to.len(), sources);
    let done = simd::sum(to, sources, keep);
    portable::sum(to, sources, keep, done);
}

/// `to` = (`keep`: itself +) the sum of `coefficients[i]` · `sources[i]`.
pub(crate) fn combine(to: &mut [u8], sources: &[&[u8]], coefficients: &[u8], keep: bool) {
    assert_eq!(sources.len(), coefficients.len());
    check(to.len(), sources);
    if coefficients.iter().all(|c| *c == 1) {
        return sum(to, sources, keep);
    }
    let done = simd::combine(to, sources, coefficients, keep);
    portable::combine(to, sources, coefficients, keep, done);
}

fn check(len: usize, sources: &[&[u8]]) {
    assert!(sources.iter().all(|s| s.len() == len), "slices of a row are not equally long");
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
