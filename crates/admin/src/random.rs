//! Randomness of the system, for seeds, identities and tokens.

/// Bytes from the system's random generator.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| std::io::Error::other(format!("cannot read random bytes: {e}")))?;
    Ok(bytes)
}
