//! The workload's content: every sector carries the number of its write and its own address.

/// The unit that a crash may tear, and of the shadow.
pub(crate) const SECTOR_BYTES: usize = 512;

/// The content of one sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The number of the write, over all volumes; 0 is zeros: never written, zeroed or unmapped.
    pub(crate) version: u64,
    /// The address for which it was written; a copy keeps that of its source.
    pub(crate) place: u64,
}

impl Stamp {
    /// Fills one sector: the version, the place, and bytes that follow from both.
    pub(crate) fn fill(self, sector: &mut [u8]) {
        if self.version == 0 {
            sector.fill(0);
            return;
        }
        let mut word = self.version.rotate_left(32) ^ self.place;
        for (i, chunk) in sector.chunks_exact_mut(8).enumerate() {
            let here = match i {
                0 => self.version,
                1 => self.place,
                _ => {
                    // The increment of a Weyl sequence and one round of mixing (Steele, Lea and Flood, OOPSLA
                    // 2014).
                    word =
                        (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9);
                    word
                }
            };
            chunk.copy_from_slice(&here.to_le_bytes());
        }
    }

    /// The stamp of a sector; `None` for a mixture of two, or foreign content.
    pub(crate) fn of(sector: &[u8]) -> Option<Stamp> {
        let word = |i: usize| sector[i * 8..].first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let stamp = match word(0)? {
            0 => Stamp::default(),
            version => Stamp { version, place: word(1)? },
        };
        let mut expected = [0; SECTOR_BYTES];
        stamp.fill(&mut expected);
        (sector == expected).then_some(stamp)
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version {
            0 => write!(f, "zeros"),
            version => write!(f, "write {version} for sector {}", self.place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_its_write_and_a_mixture_tells_nothing() {
        let mut sector = [0; SECTOR_BYTES];
        assert_eq!(Stamp::of(&sector), Some(Stamp::default()));
        let stamp = Stamp { version: 7, place: 5 };
        stamp.fill(&mut sector);
        assert_eq!(Stamp::of(&sector), Some(stamp));
        for byte in [0, 8, 400] {
            sector[byte] ^= 1;
            assert_eq!(Stamp::of(&sector), None);
            sector[byte] ^= 1;
        }
    }
}
