//! Reconstructs missing units of a row.
//!
//! Every unit is a combination of as many others as there are data units: its *coefficients*. They follow
//! from a few bytes; then one pass over the units computes one missing unit.

use crate::field::{inverse, multiply, q_coefficient};
use crate::geometry::WIDTH_MAX;
use crate::kernels::combine;

const SLOTS: usize = WIDTH_MAX as usize;

/// A unit of a row, as passed by the caller.
#[derive(Debug)]
pub enum Unit<'a> {
    /// It is available.
    Known(&'a [u8]),
    /// It is missing; its content is written here.
    Wanted(&'a mut [u8]),
    /// It is missing (or was not read), and not requested.
    Unknown,
}

/// More units are missing than the known parity can reconstruct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewUnits;

impl std::fmt::Display for TooFewUnits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("more units of a row are missing than its parity can tell")
    }
}

impl std::error::Error for TooFewUnits {}

/// The coefficients of one unit: of each known data unit, then of P and Q.
#[derive(Clone, Copy)]
struct Sum {
    data: [u8; SLOTS],
    p: u8,
    q: u8,
}

impl Sum {
    const ZERO: Sum = Sum { data: [0; SLOTS], p: 0, q: 0 };

    fn add(&mut self, other: &Sum, coefficient: u8) {
        for (to, from) in self.data.iter_mut().zip(other.data) {
            *to ^= multiply(from, coefficient);
        }
        self.p ^= multiply(other.p, coefficient);
        self.q ^= multiply(other.q, coefficient);
    }
}

/// Reconstructs all requested units of a row: `data` in order, `p`, and `q` (RAID 5: [`Unit::Unknown`]).
///
/// At most as many data units may be missing as parities are known. Panics if the lengths differ or there are
/// more than [`WIDTH_MAX`] data units.
///
/// # Errors
///
/// More units are missing than parities are known.
pub fn recover(data: &mut [Unit<'_>], p: &mut Unit<'_>, q: &mut Unit<'_>) -> Result<(), TooFewUnits> {
    assert!(data.len() <= SLOTS, "{} data units", data.len());
    let known = |unit: &Unit<'_>| matches!(unit, Unit::Known(_));
    let mut sums = [Sum::ZERO; SLOTS];
    let solved = solve(&mut sums[..data.len()], |k| known(&data[k]), known(p), known(q));
    let wanted_data = data.iter().any(|unit| matches!(unit, Unit::Wanted(_)));
    let wanted_parity = matches!(p, Unit::Wanted(_)) || matches!(q, Unit::Wanted(_));
    if !(wanted_data || wanted_parity) {
        return Ok(());
    }
    solved?;
    let sums = &sums[..data.len()];
    for (k, sum) in sums.iter().enumerate() {
        fill(sum, k, data, p, q);
    }
    if let Unit::Wanted(to) = p {
        let mut sum = Sum::ZERO;
        sums.iter().for_each(|s| sum.add(s, 1));
        apply(&sum, to, data, None, known_slice(q));
    }
    if let Unit::Wanted(to) = q {
        let mut sum = Sum::ZERO;
        sums.iter().enumerate().for_each(|(k, s)| sum.add(s, q_coefficient(k)));
        apply(&sum, to, data, known_slice(p), None);
    }
    Ok(())
}

/// Reconstructs data unit `k` if it is requested.
fn fill(sum: &Sum, k: usize, data: &mut [Unit<'_>], p: &Unit<'_>, q: &Unit<'_>) {
    let Unit::Wanted(to) = &mut data[k] else { return };
    // Taken out, so that the others can be read.
    let to = std::mem::take(to);
    apply(sum, to, data, known_slice(p), known_slice(q));
    data[k] = Unit::Wanted(to);
}

fn known_slice<'a>(unit: &'a Unit<'_>) -> Option<&'a [u8]> {
    match unit {
        Unit::Known(slice) => Some(slice),
        _ => None,
    }
}

/// `to` = the combination `sum` of the known units.
fn apply(sum: &Sum, to: &mut [u8], data: &[Unit<'_>], p: Option<&[u8]>, q: Option<&[u8]>) {
    let mut sources: [&[u8]; SLOTS + 2] = [&[]; SLOTS + 2];
    let mut coefficients = [0; SLOTS + 2];
    let mut count = 0;
    let data = data.iter().zip(sum.data).filter_map(|(unit, c)| Some((known_slice(unit)?, c)));
    let parities = [(p, sum.p), (q, sum.q)].into_iter().filter_map(|(unit, c)| Some((unit?, c)));
    for (source, coefficient) in data.chain(parities).filter(|(_, c)| *c != 0) {
        (sources[count], coefficients[count]) = (source, coefficient);
        count += 1;
    }
    combine(to, &sources[..count], &coefficients[..count], false);
}

/// Every data unit as a combination of the known units.
fn solve(sums: &mut [Sum], known: impl Fn(usize) -> bool, p: bool, q: bool) -> Result<(), TooFewUnits> {
    let mut missing = [0; 2];
    let mut count = 0;
    // What P and Q lack of the missing data: P' = P + Σ dₖ and Q' = Q + Σ gᵏ·dₖ over the known ones.
    let mut p_rest = Sum { p: 1, ..Sum::ZERO };
    let mut q_rest = Sum { q: 1, ..Sum::ZERO };
    for (k, sum) in sums.iter_mut().enumerate() {
        if known(k) {
            sum.data[k] = 1;
            p_rest.data[k] = 1;
            q_rest.data[k] = q_coefficient(k);
        } else {
            *missing.get_mut(count).ok_or(TooFewUnits)? = k;
            count += 1;
        }
    }
    let [x, y] = missing;
    match (count, p, q) {
        (0, _, _) => {}
        (1, true, _) => sums[x] = p_rest,
        // gˣ·dₓ = Q'
        (1, false, true) => sums[x].add(&q_rest, inverse(q_coefficient(x))),
        // dₓ + d_y = P' and gˣ·dₓ + gʸ·d_y = Q'; so (gˣ + gʸ)·dₓ = gʸ·P' + Q', and d_y likewise.
        (2, true, true) => {
            let (gx, gy) = (q_coefficient(x), q_coefficient(y));
            let divisor = inverse(gx ^ gy);
            for (unit, other) in [(x, gy), (y, gx)] {
                sums[unit].add(&p_rest, multiply(other, divisor));
                sums[unit].add(&q_rest, divisor);
            }
        }
        _ => return Err(TooFewUnits),
    }
    Ok(())
}
