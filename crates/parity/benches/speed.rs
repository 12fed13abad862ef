//! Prints how fast the kernels are on one core: medians, in GB of data units per second.
//!
//! `cargo bench -p parity --bench speed` with rows of 8 data units of 64 KiB, which a second-level cache of 1
//! MiB holds.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use parity::{Unit, fits, locate, mul_xor_into, p, pq, q, q_coefficient, recover, xor_into};

const UNITS: usize = 8;
const UNIT_BYTES: usize = 64 << 10;
/// Samples of a median.
const SAMPLES: usize = 51;
/// Calls of a sample: some ten milliseconds in all.
const CALLS: usize = 50;

/// Prints the median of `call`, which goes through `bytes` bytes of data units.
fn measure(name: &str, bytes: usize, mut call: impl FnMut()) {
    let mut sample = || {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| call());
        (bytes * CALLS) as f64 / begin.elapsed().as_secs_f64() / 1e9
    };
    sample();
    let mut samples: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
    samples.sort_by(f64::total_cmp);
    println!("{name:<44} {:>7.1} GB/s", samples[SAMPLES / 2]);
}

fn main() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut noise = || -> Vec<u8> { std::iter::repeat_with(|| rng.u8(..)).take(UNIT_BYTES).collect() };
    let data: Vec<_> = (0..UNITS).map(|_| noise()).collect();
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let (mut p_unit, mut q_unit, mut a, mut b) = (noise(), noise(), noise(), noise());
    let row = UNITS * UNIT_BYTES;
    measure("copy of a row, to compare", row, || {
        sources.iter().for_each(|source| a.copy_from_slice(black_box(source)));
    });
    measure("P", row, || p(black_box(&sources), &mut p_unit));
    measure("P and Q", row, || pq(black_box(&sources), &mut p_unit, &mut q_unit));
    measure("Q alone", row, || q(black_box(&sources), &mut q_unit));
    measure("delta into P", UNIT_BYTES, || xor_into(&mut a, black_box(sources[0])));
    measure("delta into Q", UNIT_BYTES, || mul_xor_into(&mut a, black_box(sources[0]), q_coefficient(5)));
    for (name, missing, with_p) in [
        ("recovery of one unit by P", &[3][..], true),
        ("recovery of one unit by Q", &[3], false),
        ("recovery of two units (bytes of the row)", &[3, 6], true),
    ] {
        measure(name, row, || {
            let mut buffers = [&mut a, &mut b].into_iter();
            let mut units: [Unit<'_>; UNITS] = std::array::from_fn(|k| match missing.contains(&k) {
                true => Unit::Wanted(buffers.next().expect("at most two are missing")),
                false => Unit::Known(sources[k]),
            });
            let mut p = if with_p { Unit::Known(&p_unit) } else { Unit::Unknown };
            recover(black_box(&mut units), &mut p, &mut Unit::Known(&q_unit)).expect("enough is known");
        });
    }
    measure("comparison with P", row, || assert!(fits(black_box(&sources), &p_unit)));
    measure("comparison with P and Q", row, || {
        black_box(locate(black_box(&sources), &p_unit, &q_unit));
    });
}
