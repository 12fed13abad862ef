//! The kernels in plain Rust: for processors without SIMD, and for the last bytes of a length that is not a
//! multiple of a vector.

use crate::field::HALVES;

/// Byte by byte; the compiler makes vectors of it.
fn xor(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

fn multiply_xor(to: &mut [u8], from: &[u8], coefficient: u8) {
    let halves = &HALVES[usize::from(coefficient)];
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= halves[usize::from(from & 15)] ^ halves[16 + usize::from(from >> 4)];
    }
}

/// `to[start..]` = (`keep`: itself +) the sum of `sources`.
pub(crate) fn sum(to: &mut [u8], sources: &[&[u8]], keep: bool, start: usize) {
    let to = &mut to[start..];
    if !keep {
        to.fill(0);
    }
    sources.iter().for_each(|source| xor(to, &source[start..]));
}

/// `to[start..]` = (`keep`: itself +) the sum of `coefficients[i]` · `sources[i]`.
pub(crate) fn combine(to: &mut [u8], sources: &[&[u8]], coefficients: &[u8], keep: bool, start: usize) {
    let to = &mut to[start..];
    if !keep {
        to.fill(0);
    }
    for (source, coefficient) in sources.iter().zip(coefficients) {
        match coefficient {
            0 => {}
            1 => xor(to, &source[start..]),
            _ => multiply_xor(to, &source[start..], *coefficient),
        }
    }
}

/// Eight bytes times 2 at once: each is shifted, and those that had their highest bit set get the polynomial.
fn double(word: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let carried = word & HIGH;
    ((word & !HIGH) << 1) ^ ((carried >> 7) * 0x1d)
}

/// P and Q of `data` from byte `start` on; Q by Horner's rule, from the last unit to the first.
pub(crate) fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8], start: usize) {
    let (p, q) = (&mut p[start..], &mut q[start..]);
    let word = |source: &[u8], at: usize| {
        let mut bytes = [0; 8];
        let end = source.len().min(at + 8);
        bytes[..end - at].copy_from_slice(&source[at..end]);
        u64::from_le_bytes(bytes)
    };
    for (i, (p, q)) in p.chunks_mut(8).zip(q.chunks_mut(8)).enumerate() {
        let (mut p_word, mut q_word) = (0, 0);
        for source in data.iter().rev() {
            let d = word(&source[start..], i * 8);
            p_word ^= d;
            q_word = double(q_word) ^ d;
        }
        p.copy_from_slice(&p_word.to_le_bytes()[..p.len()]);
        q.copy_from_slice(&q_word.to_le_bytes()[..q.len()]);
    }
}
