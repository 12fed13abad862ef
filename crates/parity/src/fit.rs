//! Compares data and parity of a row, and in RAID 6 finds a single wrong unit.

use crate::field::logarithm;
use crate::geometry::{Role, WIDTH_MAX};
use crate::kernels::{p as p_of, pq, xor_into};

/// Bytes compared at once: those of all units and both sums fit in the first-level cache.
const PIECE: usize = 1024;

/// The result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// They match.
    Whole,
    /// This one wrong unit explains all differences.
    Wrong(Role),
    /// They do not match, and no single unit explains it.
    Several,
}

/// Whether `p` is the parity of `data`.
pub fn fits(data: &[&[u8]], p: &[u8]) -> bool {
    assert!(data.iter().all(|d| d.len() == p.len()), "slices of a row are not equally long");
    (0..p.len()).step_by(PIECE).all(|at| {
        let mut buffer = [0; PIECE];
        let rest = &mut buffer[..PIECE.min(p.len() - at)];
        p_of(&pieces(data, at, rest.len())[..data.len()], rest);
        *rest == p[at..at + rest.len()]
    })
}

/// The wrong unit of a RAID 6 row. Callers pass what fails together, such as a block of each unit: two wrong
/// units in different bytes of one call are [`Fit::Several`].
///
/// A wrong data unit k by d changes P by d and Q by gᵏ·d, so that at each byte the quotient tells k.
pub fn locate(data: &[&[u8]], p: &[u8], q: &[u8]) -> Fit {
    assert_eq!(p.len(), q.len(), "P and Q are not equally long");
    assert!(data.iter().all(|d| d.len() == p.len()), "slices of a row are not equally long");
    let mut found = Fit::Whole;
    for at in (0..p.len()).step_by(PIECE) {
        let (mut p_buffer, mut q_buffer) = ([0; PIECE], [0; PIECE]);
        let len = PIECE.min(p.len() - at);
        let (p_rest, q_rest) = (&mut p_buffer[..len], &mut q_buffer[..len]);
        pq(&pieces(data, at, len)[..data.len()], p_rest, q_rest);
        if *p_rest == p[at..at + len] && *q_rest == q[at..at + len] {
            continue;
        }
        xor_into(p_rest, &p[at..at + len]);
        xor_into(q_rest, &q[at..at + len]);
        for (p, q) in p_rest.iter().zip(q_rest.iter()) {
            found = match (found, at_byte(*p, *q, data.len())) {
                (_, Fit::Several) => Fit::Several,
                (found, Fit::Whole) => found,
                (Fit::Whole, here) => here,
                (found, here) if found == here => found,
                _ => Fit::Several,
            };
        }
        if found == Fit::Several {
            break;
        }
    }
    found
}

/// The unit that the differences of P and Q at one byte point to.
fn at_byte(p: u8, q: u8, data_units: usize) -> Fit {
    match (p, q) {
        (0, 0) => Fit::Whole,
        (_, 0) => Fit::Wrong(Role::P),
        (0, _) => Fit::Wrong(Role::Q),
        _ => match (255 + logarithm(q) - logarithm(p)) % 255 {
            // Below 32.
            k if k < data_units => Fit::Wrong(Role::Data(k as u32)),
            _ => Fit::Several,
        },
    }
}

fn pieces<'a>(data: &[&'a [u8]], at: usize, len: usize) -> [&'a [u8]; WIDTH_MAX as usize] {
    let mut pieces: [&[u8]; WIDTH_MAX as usize] = [&[]; WIDTH_MAX as usize];
    for (piece, data) in pieces.iter_mut().zip(data) {
        *piece = &data[at..at + len];
    }
    pieces
}
