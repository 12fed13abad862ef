//! Where the blocks of a fitted drive lie: as many zones as there are rates, within what a drive can have.

use world_model::drives::{BLOCK_BYTES, Zone};

/// Surfaces of a fitted drive: no trace of response times tells how many there are. A large drive has more,
/// so that it keeps within [`CYLINDERS_MAX`].
pub(super) const HEADS: u32 = 4;
/// The most that a drive can have.
const HEADS_MAX: u32 = 64;
/// Of a fitted drive, in all zones together; the rounding of each zone has as many again.
const CYLINDERS_MAX: u64 = 1 << 21;
/// Sectors of a track.
const SECTORS_MIN: u64 = 16;
const SECTORS_MAX: u64 = 8192;
/// A zone of more is divided.
const ZONE_BLOCKS_MAX: u64 = 1 << 31;
/// The largest drive that can be fitted, in blocks: half a petabyte.
pub(super) const LEN_BLOCKS_MAX: u64 = CYLINDERS_MAX * HEADS_MAX as u64 * SECTORS_MAX;

/// The layout of a drive.
pub(super) struct Layout {
    pub(super) heads: u32,
    pub(super) zones: Vec<Zone>,
}

/// A drive of so many blocks whose tracks have so many sectors, in equal parts of the drive from its first
/// block on. `switched` is the share of a revolution that a switch to the next track takes.
pub(super) fn layout(len_blocks: u64, sectors: &[f64], switched: f64) -> Layout {
    let parts = sectors.len().max(1) as u64;
    let blocks = len_blocks.div_ceil(parts);
    let cylinders_max = CYLINDERS_MAX / parts;
    let least = blocks.div_ceil(cylinders_max * u64::from(HEADS_MAX)).clamp(SECTORS_MIN, SECTORS_MAX);
    let of_tracks: Vec<u64> =
        sectors.iter().map(|sectors| (sectors.round() as u64).clamp(least, SECTORS_MAX)).collect();
    let shortest = of_tracks.iter().copied().min().unwrap_or(SECTORS_MIN);
    let heads = blocks.div_ceil(cylinders_max * shortest).clamp(HEADS.into(), HEADS_MAX.into()) as u32;
    let mut zones = Vec::new();
    let mut first_cylinder = 0;
    for sectors in of_tracks {
        let pieces = blocks.div_ceil(ZONE_BLOCKS_MAX).max(1);
        for _ in 0..pieces {
            let per_cylinder = sectors * u64::from(heads);
            let cylinders = blocks.div_ceil(pieces).div_ceil(per_cylinder).max(2) as u32;
            let skew = (sectors as f64 * switched).ceil().clamp(0.0, SECTORS_MAX as f64) as u32;
            zones.push(Zone {
                first_cylinder,
                last_cylinder: first_cylinder + cylinders - 1,
                sectors_per_track: sectors as u32,
                track_skew_sectors: skew,
                cylinder_skew_sectors: skew,
                spare_sectors: 0,
                offset_sectors: 0,
                reserved_sectors: 0,
            });
            first_cylinder += cylinders;
        }
    }
    Layout { heads, zones }
}

/// Sectors of a track from which data comes at this rate in bytes per second, if each track takes so long.
pub(super) fn sectors_of_rate(bytes_per_s: f64, track_ns: f64) -> f64 {
    bytes_per_s * track_ns / 1e9 / BLOCK_BYTES as f64
}
