//! The world of a command, and unpredictable identities.

use anyhow::{Context, Result};
use vdisk::vhdx::Guid;
use world::World;

/// Runs `work` in a world of its own with unpredictable random streams.
pub(super) fn in_world<T, F: Future<Output = Result<T>>>(work: impl FnOnce(World) -> F) -> Result<T> {
    let options =
        world_real::Options { seed: u64::from_le_bytes(random()?), ..world_real::Options::default() };
    world_real::run(options, work).context("no world")?
}

/// Bytes from the system's random generator.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("cannot read random bytes")?;
    Ok(bytes)
}

/// A new identity: a random one, marked as such (RFC 9562, version 4).
pub(super) fn identity() -> Result<Guid> {
    let mut bytes: [u8; 16] = random()?;
    bytes[7] = bytes[7] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Guid(bytes))
}
