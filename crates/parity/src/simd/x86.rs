//! x86-64. Callers have checked that all slices of a call are equally long.

#![expect(
    unsafe_code,
    reason = "vector intrinsics take pointers; every block says why it stays within its slices"
)]

use std::arch::x86_64::*;

use crate::field::HALVES;

/// Vectors done at once: enough independent chains to hide the latency of a multiplication.
const LANES: usize = 4;
/// Bytes of a step with AVX2.
const STEP_256: usize = 32 * LANES;
/// Bytes of a step with AVX-512.
const STEP_512: usize = 64 * LANES;

/// Whether the wide kernels may run.
fn has_512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("gfni")
}

/// See [`crate::kernels::sum`].
pub(crate) fn sum(to: &mut [u8], sources: &[&[u8]], keep: bool) -> usize {
    if has_512() {
        // SAFETY: the processor has the features.
        unsafe { sum_512(to, sources, keep) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        unsafe { sum_256(to, sources, keep) }
    } else {
        0
    }
}

/// See [`crate::kernels::combine`].
pub(crate) fn combine(to: &mut [u8], sources: &[&[u8]], coefficients: &[u8], keep: bool) -> usize {
    if has_512() {
        // SAFETY: the processor has the features.
        unsafe { combine_512(to, sources, coefficients, keep) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        unsafe { combine_256(to, sources, coefficients, keep) }
    } else {
        0
    }
}

/// See [`crate::kernels::pq`].
pub(crate) fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> usize {
    if has_512() {
        // SAFETY: the processor has the features.
        unsafe { pq_512(data, p, q) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        unsafe { pq_256(data, p, q) }
    } else {
        0
    }
}

#[target_feature(enable = "avx2")]
fn load_256(from: &[u8], at: usize) -> [__m256i; LANES] {
    let from = &from[at..at + STEP_256];
    // SAFETY: vector i ends at byte (i + 1) * 32 <= STEP_256, the length of `from`; unaligned loads.
    std::array::from_fn(|i| unsafe { _mm256_loadu_si256(from.as_ptr().add(i * 32).cast()) })
}

#[target_feature(enable = "avx2")]
fn store_256(to: &mut [u8], at: usize, vectors: [__m256i; LANES]) {
    let to = &mut to[at..at + STEP_256];
    for (i, vector) in vectors.into_iter().enumerate() {
        // SAFETY: as in `load_256`; the slice is ours alone.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(i * 32).cast(), vector) }
    }
}

#[target_feature(enable = "avx2")]
fn begin_256(to: &[u8], at: usize, keep: bool) -> [__m256i; LANES] {
    if keep { load_256(to, at) } else { [_mm256_setzero_si256(); LANES] }
}

#[target_feature(enable = "avx2")]
fn sum_256(to: &mut [u8], sources: &[&[u8]], keep: bool) -> usize {
    let end = to.len() - to.len() % STEP_256;
    for at in (0..end).step_by(STEP_256) {
        let mut total = begin_256(to, at, keep);
        for source in sources {
            let vectors = load_256(source, at);
            for i in 0..LANES {
                total[i] = _mm256_xor_si256(total[i], vectors[i]);
            }
        }
        store_256(to, at, total);
    }
    end
}

/// Each byte's product is looked up by its halves, 32 bytes with two shuffles.
#[target_feature(enable = "avx2")]
fn combine_256(to: &mut [u8], sources: &[&[u8]], coefficients: &[u8], keep: bool) -> usize {
    let end = to.len() - to.len() % STEP_256;
    let low_mask = _mm256_set1_epi8(15);
    for at in (0..end).step_by(STEP_256) {
        let mut total = begin_256(to, at, keep);
        for (source, coefficient) in sources.iter().zip(coefficients) {
            let halves = &HALVES[usize::from(*coefficient)];
            // SAFETY: the table of a coefficient has 32 bytes: two loads of 16.
            let (low, high) = unsafe {
                (_mm_loadu_si128(halves.as_ptr().cast()), _mm_loadu_si128(halves.as_ptr().add(16).cast()))
            };
            let (low, high) = (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
            let vectors = load_256(source, at);
            for i in 0..LANES {
                let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(vectors[i], low_mask));
                let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(vectors[i]), low_mask);
                let of_high = _mm256_shuffle_epi8(high, upper);
                total[i] = _mm256_xor_si256(total[i], _mm256_xor_si256(of_low, of_high));
            }
        }
        store_256(to, at, total);
    }
    end
}

/// Q by Horner's rule, from the last unit to the first: a doubling is a shift and, where the highest bit was
/// set, the polynomial.
#[target_feature(enable = "avx2")]
fn pq_256(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> usize {
    let end = p.len() - p.len() % STEP_256;
    let polynomial = _mm256_set1_epi8(0x1d);
    let zero = _mm256_setzero_si256();
    for at in (0..end).step_by(STEP_256) {
        let (mut p_sum, mut q_sum) = ([zero; LANES], [zero; LANES]);
        for source in data.iter().rev() {
            let vectors = load_256(source, at);
            for i in 0..LANES {
                let carried = _mm256_cmpgt_epi8(zero, q_sum[i]);
                let shifted = _mm256_add_epi8(q_sum[i], q_sum[i]);
                let doubled = _mm256_xor_si256(shifted, _mm256_and_si256(carried, polynomial));
                q_sum[i] = _mm256_xor_si256(doubled, vectors[i]);
                p_sum[i] = _mm256_xor_si256(p_sum[i], vectors[i]);
            }
        }
        store_256(p, at, p_sum);
        store_256(q, at, q_sum);
    }
    end
}

/// Of each coefficient the 8 × 8 matrix of bits that multiplies by it, as GF2P8AFFINEQB takes it: byte 7 − i
/// holds which bits of the operand make bit i of the product. (GF2P8MULB would be of no use: its polynomial
/// is 11Bh.)
static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut matrix = 0;
        let mut j = 0;
        while j < 8 {
            let column = crate::field::multiply(c as u8, 1 << j) as u64;
            let mut i = 0;
            while i < 8 {
                matrix |= (column >> i & 1) << ((7 - i) * 8 + j);
                i += 1;
            }
            j += 1;
        }
        matrices[c] = matrix;
        c += 1;
    }
    matrices
};

#[target_feature(enable = "avx512f")]
fn matrix(coefficient: u8) -> __m512i {
    // The bits as they are.
    _mm512_set1_epi64(MATRICES[usize::from(coefficient)].cast_signed())
}

#[target_feature(enable = "avx512f")]
fn load_512(from: &[u8], at: usize) -> [__m512i; LANES] {
    let from = &from[at..at + STEP_512];
    // SAFETY: vector i ends at byte (i + 1) * 64 <= STEP_512, the length of `from`; unaligned loads.
    std::array::from_fn(|i| unsafe { _mm512_loadu_si512(from.as_ptr().add(i * 64).cast()) })
}

#[target_feature(enable = "avx512f")]
fn store_512(to: &mut [u8], at: usize, vectors: [__m512i; LANES]) {
    let to = &mut to[at..at + STEP_512];
    for (i, vector) in vectors.into_iter().enumerate() {
        // SAFETY: as in `load_512`; the slice is ours alone.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(i * 64).cast(), vector) }
    }
}

#[target_feature(enable = "avx512f")]
fn begin_512(to: &[u8], at: usize, keep: bool) -> [__m512i; LANES] {
    if keep { load_512(to, at) } else { [_mm512_setzero_si512(); LANES] }
}

#[target_feature(enable = "avx512f")]
fn sum_512(to: &mut [u8], sources: &[&[u8]], keep: bool) -> usize {
    let end = to.len() - to.len() % STEP_512;
    for at in (0..end).step_by(STEP_512) {
        let mut total = begin_512(to, at, keep);
        for source in sources {
            let vectors = load_512(source, at);
            for i in 0..LANES {
                total[i] = _mm512_xor_si512(total[i], vectors[i]);
            }
        }
        store_512(to, at, total);
    }
    end
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_512(to: &mut [u8], sources: &[&[u8]], coefficients: &[u8], keep: bool) -> usize {
    let end = to.len() - to.len() % STEP_512;
    for at in (0..end).step_by(STEP_512) {
        let mut total = begin_512(to, at, keep);
        for (source, coefficient) in sources.iter().zip(coefficients) {
            let matrix = matrix(*coefficient);
            let vectors = load_512(source, at);
            for i in 0..LANES {
                let product = _mm512_gf2p8affine_epi64_epi8::<0>(vectors[i], matrix);
                total[i] = _mm512_xor_si512(total[i], product);
            }
        }
        store_512(to, at, total);
    }
    end
}

/// Q by Horner's rule, as in [`pq_256`]; a doubling is one instruction.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn pq_512(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> usize {
    let end = p.len() - p.len() % STEP_512;
    let zero = _mm512_setzero_si512();
    let two = matrix(2);
    for at in (0..end).step_by(STEP_512) {
        let (mut p_sum, mut q_sum) = ([zero; LANES], [zero; LANES]);
        for source in data.iter().rev() {
            let vectors = load_512(source, at);
            for i in 0..LANES {
                let doubled = _mm512_gf2p8affine_epi64_epi8::<0>(q_sum[i], two);
                q_sum[i] = _mm512_xor_si512(doubled, vectors[i]);
                p_sum[i] = _mm512_xor_si512(p_sum[i], vectors[i]);
            }
        }
        store_512(p, at, p_sum);
        store_512(q, at, q_sum);
    }
    end
}

#[cfg(test)]
mod tests {
    //! All kernels this processor has against the portable ones, not only the best.

    use super::*;
    use crate::portable;

    fn noise(rng: &mut fastrand::Rng, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
    }

    type Combine = unsafe fn(&mut [u8], &[&[u8]], &[u8], bool) -> usize;
    type Sum = unsafe fn(&mut [u8], &[&[u8]], bool) -> usize;
    type Pq = unsafe fn(&[&[u8]], &mut [u8], &mut [u8]) -> usize;

    fn check(step: usize, sum: Sum, combine: Combine, pq: Pq) {
        let mut rng = fastrand::Rng::with_seed(3);
        for round in 0..300 {
            let len = rng.usize(0..1200);
            let data: Vec<_> = (0..rng.usize(1..=30)).map(|_| noise(&mut rng, len)).collect();
            let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let coefficients = noise(&mut rng, data.len());
            let keep = rng.bool();
            let (mut a, mut b) = (noise(&mut rng, len), noise(&mut rng, len));
            let (mut c, mut d) = (a.clone(), b.clone());
            // SAFETY: the caller saw that the processor has the features.
            let done = unsafe { sum(&mut a, &sources, keep) };
            assert_eq!(done, len - len % step);
            portable::sum(&mut a, &sources, keep, done);
            portable::sum(&mut c, &sources, keep, 0);
            assert_eq!(a, c, "sum, round {round}");
            // SAFETY: as above.
            let done = unsafe { combine(&mut b, &sources, &coefficients, keep) };
            portable::combine(&mut b, &sources, &coefficients, keep, done);
            portable::combine(&mut d, &sources, &coefficients, keep, 0);
            assert_eq!(b, d, "combine, round {round}");
            // SAFETY: as above.
            let done = unsafe { pq(&sources, &mut a, &mut b) };
            portable::pq(&sources, &mut a, &mut b, done);
            portable::pq(&sources, &mut c, &mut d, 0);
            assert_eq!((&a, &b), (&c, &d), "pq, round {round}");
        }
    }

    #[test]
    fn avx2_is_the_portable() {
        if is_x86_feature_detected!("avx2") {
            check(STEP_256, sum_256, combine_256, pq_256);
        }
    }

    #[test]
    fn avx512_is_the_portable() {
        if has_512() {
            check(STEP_512, sum_512, combine_512, pq_512);
        }
    }
}
