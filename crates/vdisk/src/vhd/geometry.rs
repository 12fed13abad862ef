//! Cylinders, heads and sectors of a disk, as the appendix of the specification computes them.

/// The geometry for old operating systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Geometry {
    pub cylinders: u16,
    pub heads: u8,
    /// Sectors per track.
    pub sectors: u8,
}

/// The largest geometry: cylinders, heads, sectors per track of an ATA disk.
const SECTORS_MAX: u64 = 65_535 * 16 * 255;
/// From this size on the largest tracks are used.
const SECTORS_LARGE: u64 = 65_535 * 16 * 63;

impl Geometry {
    /// The geometry of a disk of this many bytes.
    pub fn of(len_bytes: u64) -> Geometry {
        let total = (len_bytes / 512).min(SECTORS_MAX);
        let (sectors, heads, tracks) =
            if total >= SECTORS_LARGE { (255, 16, total / 255) } else { small(total) };
        Geometry {
            cylinders: u16::try_from(tracks / heads).unwrap_or(u16::MAX),
            heads: heads as u8,
            sectors: sectors as u8,
        }
    }

    /// The capacity of the geometry.
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.cylinders) * u64::from(self.heads) * u64::from(self.sectors) * 512
    }
}

/// Sectors per track, heads, and cylinders times heads, of a disk below the largest tracks: as few sectors
/// per track as fit 1,024 cylinders.
fn small(total: u64) -> (u64, u64, u64) {
    let tracks = total / 17;
    let heads = tracks.div_ceil(1024).max(4);
    if tracks < heads * 1024 && heads <= 16 {
        return (17, heads, tracks);
    }
    let tracks = total / 31;
    if tracks < 16 * 1024 {
        return (31, 16, tracks);
    }
    (63, 16, total / 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometries_are_those_of_the_appendix() {
        let of = |len: u64| {
            let g = Geometry::of(len);
            (g.cylinders, g.heads, g.sectors)
        };
        // Computed by hand from the appendix.
        assert_eq!(of(64 << 20), (963, 8, 17));
        assert_eq!(of(1 << 30), (2080, 16, 63));
        assert_eq!(of(127 << 30), (65_278, 16, 255));
        assert_eq!(of(2040 << 30), (65_535, 16, 255));
        assert_eq!(of(3 << 20), (90, 4, 17));
    }
}
