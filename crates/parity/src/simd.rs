//! The kernels with vector instructions: AVX-512 with GFNI, or AVX2. The only unsafe code of the crate.
//!
//! Each function processes as many whole steps as fit and returns that length; the caller processes the rest
//! with [`portable`](crate::portable). So no access exceeds a slice, and no length is special.

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{combine, pq, sum};

/// Other processors use only the portable kernels.
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
