//! The kernels with vector instructions: AVX-512 with GFNI, or AVX2. The only unsafe code of the crate.
//!
//! Each function does as many whole steps as fit and says how many bytes that were; the caller does the rest with
//! [`portable`](crate::portable). So no access passes a slice's end and no length is special.

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{combine, pq, sum};

/// Other processors: the portable kernels do it all.
#[cfg(not(target_arch = "x86_64"))]
mod none {
    pub(crate) fn sum(_to: &mut [u8], _sources: &[&[u8]], _keep: bool) -> usize {
        0
    }

    pub(crate) fn combine(_to: &mut [u8], _sources: &[&[u8]], _coefficients: &[u8], _keep: bool) -> usize {
        0
    }

    pub(crate) fn pq(_data: &[&[u8]], _p: &mut [u8], _q: &mut [u8]) -> usize {
        0
    }
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{combine, pq, sum};

#[cfg(target_arch = "x86_64")]
mod x86;
