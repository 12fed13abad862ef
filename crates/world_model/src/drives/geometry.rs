//! Where a block lies: cylinder, head, and the angle at which it passes under the head.

use super::parameters::HardDiskParameters;

/// The zones of a drive, prepared for looking up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    zones: Vec<Band>,
    heads: u32,
    serpentine: bool,
    revolution_ns: u32,
    len_blocks: u64,
}

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Band {
    first_block: u64,
    /// One past its last block.
    end_block: u64,
    first_cylinder: u32,
    sectors: u32,
    cylinder_sectors: u32,
    /// By how many sectors a track begins later than the one before, and a cylinder, modulo a track.
    track_step: u32,
    cylinder_step: u32,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Place {
    pub cylinder: u32,
    pub head: u32,
    /// The block's number on its track, from 0.
    pub sector: u32,
    /// Sectors of the track.
    pub sectors: u32,
    /// Blocks from here to the end of the track, this one included: less than the sectors where the zone ends
    /// in spare ones.
    pub left: u32,
    /// The block's number around the track, counted from the angle 0.
    pub slot: u32,
    /// The angle at which the block begins, as the time that the platters take to get there from the angle 0.
    pub angle_ns: u32,
}

impl Geometry {
    /// The geometry of a drive whose parameters have been checked.
    pub fn new(parameters: &HardDiskParameters) -> Geometry {
        let heads = parameters.heads;
        let mut first_block = 0;
        let band = |zone: &super::Zone| {
            let sectors = zone.sectors_per_track;
            let tracks = u64::from(zone.last_cylinder - zone.first_cylinder + 1) * u64::from(heads);
            let track_step = zone.track_skew_sectors % sectors;
            let cylinder_step = (u64::from(zone.cylinder_skew_sectors)
                + u64::from(heads - 1) * u64::from(track_step))
                % u64::from(sectors);
            let band = Band {
                first_block,
                end_block: first_block + tracks * u64::from(sectors) - u64::from(zone.spare_sectors),
                first_cylinder: zone.first_cylinder,
                sectors,
                cylinder_sectors: sectors * heads,
                track_step,
                cylinder_step: cylinder_step as u32,
            };
            first_block = band.end_block;
            band
        };
        let zones: Vec<Band> = parameters.zones.iter().map(band).collect();
        Geometry {
            zones,
            heads,
            serpentine: parameters.serpentine,
            revolution_ns: parameters.revolution_ns,
            len_blocks: parameters.len_blocks.unwrap_or(first_block),
        }
    }

    /// The blocks that the drive shows.
    pub fn len_blocks(&self) -> u64 {
        self.len_blocks
    }

    /// Where a block lies. Panics beyond the zones.
    pub fn place(&self, block: u64) -> Place {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.end_block <= block)];
        let in_zone = (block - zone.first_block) as u32;
        let (cylinder, in_cylinder) = (in_zone / zone.cylinder_sectors, in_zone % zone.cylinder_sectors);
        let (track, sector) = (in_cylinder / zone.sectors, in_cylinder % zone.sectors);
        let begins = u64::from(cylinder) * u64::from(zone.cylinder_step)
            + u64::from(track) * u64::from(zone.track_step)
            + u64::from(sector);
        let slot = (begins % u64::from(zone.sectors)) as u32;
        let cylinder = zone.first_cylinder + cylinder;
        Place {
            cylinder,
            head: if self.serpentine && cylinder % 2 == 1 { self.heads - 1 - track } else { track },
            sector,
            sectors: zone.sectors,
            left: u64::from(zone.sectors - sector).min(zone.end_block - block) as u32,
            slot,
            angle_ns: self.angle_ns(slot, zone.sectors),
        }
    }

    /// The angle of a slot of a track with so many sectors; beyond one turn for slots beyond the track.
    fn angle_ns(&self, slot: u32, sectors: u32) -> u32 {
        (u64::from(slot) * u64::from(self.revolution_ns) / u64::from(sectors)) as u32
    }

    /// How long `count` sectors from this place take to pass. Exact: the angle afterwards is that of the next
    /// one.
    pub fn span_ns(&self, place: &Place, count: u32) -> u32 {
        self.angle_ns(place.slot + count, place.sectors) - place.angle_ns
    }

    /// How many sectors from this place have passed entirely after so long; less than a turn.
    pub fn passed(&self, place: &Place, ns: u64) -> u32 {
        let about =
            ns.min(self.revolution_ns.into()) * u64::from(place.sectors) / u64::from(self.revolution_ns);
        // Angles are rounded down, so the estimate may be one short.
        let about = about as u32;
        if u64::from(self.span_ns(place, about + 1)) <= ns { about + 1 } else { about }
    }
}
