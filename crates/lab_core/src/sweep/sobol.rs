//! Sobol' sequence: points that fill a cube evenly, however many of its dimensions matter.
//!
//! Of 2^k successive points, each dimension alone has one in each of 2^k equal parts. Direction numbers: S.
//! Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM Journal on
//! Scientific Computing 30 (2008), file new-joe-kuo-6. Points in the order of the Gray code, as published
//! values have them.

/// Bits of a coordinate.
const BITS: usize = 32;

/// Dimensions at most: the first has no row.
pub const DIMENSIONS_MAX: usize = ROWS.len() + 1;

/// For each dimension from the second on: the inner coefficients of its primitive polynomial, and its first
/// direction numbers, as many as the polynomial's degree. Of the first 32 dimensions those six are left out
/// that move together with an earlier one over 64 points (a correlation of up to 0.77).
const ROWS: [(u32, &[u32]); 25] = [
    (0, &[1]),
    (1, &[1, 3]),
    (1, &[1, 3, 1]),
    (2, &[1, 1, 1]),
    (1, &[1, 1, 3, 3]),
    (4, &[1, 3, 5, 13]),
    (2, &[1, 1, 5, 5, 17]),
    (4, &[1, 1, 5, 5, 5]),
    (7, &[1, 1, 7, 11, 19]),
    (11, &[1, 1, 5, 1, 1]),
    (13, &[1, 1, 1, 3, 11]),
    (14, &[1, 3, 5, 5, 31]),
    (1, &[1, 3, 3, 9, 7, 49]),
    (13, &[1, 1, 1, 15, 21, 21]),
    (16, &[1, 3, 1, 13, 27, 49]),
    (19, &[1, 1, 1, 15, 7, 5]),
    (22, &[1, 3, 1, 15, 13, 25]),
    (25, &[1, 1, 5, 5, 19, 61]),
    (1, &[1, 3, 7, 11, 23, 15, 103]),
    (4, &[1, 3, 7, 13, 13, 15, 69]),
    (7, &[1, 1, 3, 13, 7, 35, 63]),
    (19, &[1, 3, 1, 5, 27, 61, 31]),
    (28, &[1, 3, 5, 3, 3, 13, 69]),
    (31, &[1, 1, 7, 13, 1, 19, 1]),
    (42, &[1, 3, 7, 3, 13, 59, 17]),
];

/// The direction numbers of a dimension, from 0, left-aligned.
fn directions(dimension: usize) -> [u32; BITS] {
    let (coefficients, first) = match dimension.checked_sub(1) {
        None => return std::array::from_fn(|k| 1 << (BITS - 1 - k)),
        Some(row) => ROWS[row],
    };
    let degree = first.len();
    let mut all = [0; BITS];
    for k in 0..BITS {
        all[k] = if k < degree {
            first[k] << (BITS - 1 - k)
        } else {
            let inner = (1..degree).filter(|i| coefficients >> (degree - 1 - i) & 1 == 1);
            inner.fold(all[k - degree] ^ all[k - degree] >> degree, |v, i| v ^ all[k - i])
        };
    }
    all
}

/// A coordinate of a point of the sequence, in [0, 1). Panics beyond [`DIMENSIONS_MAX`]: the caller's bug.
pub fn coordinate(dimension: usize, index: u32) -> f64 {
    let gray = index ^ index >> 1;
    let bits = directions(dimension).into_iter().enumerate().filter(|(bit, _)| gray >> bit & 1 == 1);
    f64::from(bits.fold(0, |x, (_, direction)| x ^ direction)) / (BITS as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first points of five dimensions, as they are published.
    #[test]
    fn the_first_points_are_the_published_ones() {
        for (index, expected) in [
            (0, [0.0, 0.0, 0.0, 0.0, 0.0]),
            (1, [0.5, 0.5, 0.5, 0.5, 0.5]),
            (2, [0.75, 0.25, 0.25, 0.25, 0.75]),
            (3, [0.25, 0.75, 0.75, 0.75, 0.25]),
            (4, [0.375, 0.375, 0.625, 0.875, 0.375]),
            (5, [0.875, 0.875, 0.125, 0.375, 0.875]),
            (6, [0.625, 0.125, 0.875, 0.625, 0.625]),
            (7, [0.125, 0.625, 0.375, 0.125, 0.125]),
        ] {
            assert_eq!(std::array::from_fn(|dimension| coordinate(dimension, index)), expected, "{index}");
        }
    }

    #[test]
    fn each_dimension_of_a_power_of_two_has_one_point_in_each_part() {
        for dimension in 0..DIMENSIONS_MAX {
            for n in [8, 64, 256] {
                let mut parts: Vec<u32> =
                    (0..n).map(|i| (coordinate(dimension, i) * f64::from(n)) as u32).collect();
                parts.sort_unstable();
                assert!(parts.into_iter().eq(0..n), "dimension {dimension} of {n}");
            }
        }
    }

    /// Two dimensions that move together could not be told apart.
    #[test]
    fn no_two_dimensions_of_64_points_move_together() {
        let centred = |dimension| (0..64).map(move |i| coordinate(dimension, i) - 63.0 / 128.0);
        let product = |a, b| centred(a).zip(centred(b)).map(|(x, y)| x * y).sum::<f64>();
        for a in 0..DIMENSIONS_MAX {
            for b in 0..a {
                let correlation = product(a, b) / product(a, a);
                assert!(correlation.abs() < 0.3, "{a} and {b}: {correlation}");
            }
        }
    }
}
