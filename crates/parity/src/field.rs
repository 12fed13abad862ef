//! GF(2⁸) with polynomial x⁸ + x⁴ + x³ + x² + 1 (11Dh) and generator 2, as RAID 6 has used it since H. P.
//! Anvin, "The mathematics of RAID-6".

/// The polynomial without x⁸.
const POLYNOMIAL: u8 = 0x1d;

/// Powers of the generator, twice over, so that a sum of two logarithms needs no modulus.
const POWERS: [u8; 510] = {
    let mut powers = [0; 510];
    let mut value = 1u8;
    let mut exponent = 0;
    while exponent < 510 {
        powers[exponent] = value;
        value = double(value);
        exponent += 1;
    }
    powers
};

const LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        // Below 255.
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
};

/// Of each coefficient c: c·i for i in 0..16, then c·16·i: the product of a byte is that of its low and its
/// high half.
pub(crate) const HALVES: [[u8; 32]; 256] = {
    let mut halves = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut i = 0;
        while i < 16 {
            halves[c][i] = multiply(c as u8, i as u8);
            halves[c][16 + i] = multiply(c as u8, (i as u8) << 4);
            i += 1;
        }
        c += 1;
    }
    halves
};

const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 }
}

/// a·b.
pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// 1/a. Panics for 0.
pub(crate) const fn inverse(a: u8) -> u8 {
    assert!(a != 0);
    POWERS[255 - LOGARITHMS[a as usize] as usize]
}

/// The exponent of a power of the generator: `power(logarithm(a)) == a`. Panics for 0.
pub(crate) fn logarithm(a: u8) -> usize {
    assert!(a != 0);
    LOGARITHMS[usize::from(a)].into()
}

/// The coefficient of data unit `k` in Q: the generator to the power of k. Panics from 255 on, where they
/// repeat.
pub const fn q_coefficient(k: usize) -> u8 {
    assert!(k < 255);
    POWERS[k]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as it is defined: shift and reduce.
    fn slow(mut a: u8, b: u8) -> u8 {
        let mut product = 0;
        for bit in 0..8 {
            if b & 1 << bit != 0 {
                product ^= a;
            }
            a = double(a);
        }
        product
    }

    #[test]
    fn tables_are_the_field() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                assert_eq!(multiply(a, b), slow(a, b), "{a:#x} · {b:#x}");
                let halves = &HALVES[usize::from(a)];
                assert_eq!(halves[usize::from(b & 15)] ^ halves[16 + usize::from(b >> 4)], slow(a, b));
            }
            if a != 0 {
                assert_eq!(slow(a, inverse(a)), 1);
                assert_eq!(q_coefficient(logarithm(a)), a);
            }
        }
    }

    #[test]
    fn powers_are_those_of_the_literature() {
        // H. P. Anvin, "The mathematics of RAID-6": 2^8 = 1Dh, 2^254 = 8Eh = 1/2.
        assert_eq!((q_coefficient(0), q_coefficient(1), q_coefficient(8)), (1, 2, 0x1d));
        assert_eq!((q_coefficient(254), inverse(2)), (0x8e, 0x8e));
    }
}
