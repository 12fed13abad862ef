//! Randomness of the system, for seeds and identities.

use anyhow::{Context, Result};

/// Bytes from the system's random generator.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("cannot read random bytes")?;
    Ok(bytes)
}
