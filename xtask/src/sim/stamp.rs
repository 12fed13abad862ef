//! What the workload writes: every sector tells which write it is from and where it belongs.

/// The unit in which a crash may tear, and in which the shadow counts.
pub(crate) const SECTOR_BYTES: usize = 512;

/// The number of one write. 0 is the content of zeros: never written, zeroed, given back.
pub(crate) type Version = u64;

/// Fills one sector: the version, the place, and bytes that follow from both.
pub(crate) fn fill(sector: &mut [u8], version: Version, place: u64) {
    if version == 0 {
        sector.fill(0);
        return;
    }
    let mut word = version;
    for (i, chunk) in sector.chunks_exact_mut(8).enumerate() {
        match i {
            0 => word = version,
            1 => word = place,
            // Steele, Lea and Flood, "Fast splittable pseudorandom number generators": the increment and one round.
            _ => {
                word = (word ^ version.rotate_left(32))
                    .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                    .wrapping_add(0x9e37_79b9)
            }
        }
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

/// Which write the sector is from; `None` when it is from none: a mixture, or of another place.
pub(crate) fn version_of(sector: &[u8], place: u64) -> Option<Version> {
    let version = u64::from_le_bytes(sector[..8].try_into().ok()?);
    let mut expected = [0; SECTOR_BYTES];
    fill(&mut expected, version, place);
    (sector == expected).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_its_write_and_a_mixture_is_none() {
        let mut sector = [0; SECTOR_BYTES];
        assert_eq!(version_of(&sector, 5), Some(0));
        fill(&mut sector, 7, 5);
        assert_eq!(version_of(&sector, 5), Some(7));
        assert_eq!(version_of(&sector, 6), None);
        sector[400] ^= 1;
        assert_eq!(version_of(&sector, 5), None);
    }
}
