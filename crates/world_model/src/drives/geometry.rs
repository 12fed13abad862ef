//! Where a block lies: cylinder, head, and the angle at which it passes under the head.

use std::ops::Range;

use super::parameters::{HardDiskParameters, HeadOrder, Spares};
use super::zone_map::ZoneMap;

/// The zones of a drive, prepared for looking up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    zones: Vec<Band>,
    heads: u32,
    head_order: HeadOrder,
    /// Slipped sectors push the beginning of the tracks behind them.
    slips_push: bool,
    revolution_ns: u32,
    len_blocks: u64,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Band {
    first_block: u64,
    /// One past its last block.
    end_block: u64,
    first_cylinder: u32,
    sectors: u32,
    /// The angle of its first sector, in sectors.
    offset: u32,
    /// By how many sectors a track begins later than the one before, and a cylinder, modulo a track.
    track_step: u32,
    cylinder_step: u32,
    map: ZoneMap,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Place {
    pub cylinder: u32,
    pub head: u32,
    /// The sector's number on its track, from 0.
    pub sector: u32,
    /// Sectors of the track.
    pub sectors: u32,
    /// Blocks that follow each other from here without a gap on the track, this one included.
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
        let band = |(number, zone): (usize, &super::Zone)| {
            let sectors = zone.sectors_per_track;
            let track_step = zone.track_skew_sectors % sectors;
            let cylinder_step = (u64::from(zone.cylinder_skew_sectors)
                + u64::from(heads - 1) * u64::from(track_step))
                % u64::from(sectors);
            let map = ZoneMap::new(parameters, number);
            let band = Band {
                first_block,
                end_block: first_block + u64::from(map.blocks()),
                first_cylinder: zone.first_cylinder,
                sectors,
                offset: zone.offset_sectors % sectors,
                track_step,
                cylinder_step: cylinder_step as u32,
                map,
            };
            first_block = band.end_block;
            band
        };
        let zones: Vec<Band> = parameters.zones.iter().enumerate().map(band).collect();
        Geometry {
            zones,
            heads,
            head_order: parameters.head_order,
            slips_push: matches!(parameters.spares, Spares::Track | Spares::Cylinder | Spares::CylinderFront),
            revolution_ns: parameters.revolution_ns,
            len_blocks: parameters.len_blocks.unwrap_or(first_block),
        }
    }

    /// The blocks that the drive shows.
    pub fn len_blocks(&self) -> u64 {
        self.len_blocks
    }

    /// The blocks that the zones hold.
    pub(super) fn held_blocks(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.end_block)
    }

    /// The zone of a block. Panics beyond the zones.
    fn zone(&self, block: u64) -> &Band {
        &self.zones[self.zones.partition_point(|zone| zone.end_block <= block)]
    }

    /// Where a block lies. Panics beyond the zones.
    pub fn place(&self, block: u64) -> Place {
        let zone = self.zone(block);
        let held = zone.map.sector((block - zone.first_block) as u32);
        let (track, sector) = (held.sector / zone.sectors, held.sector % zone.sectors);
        let (cylinder, order) = (track / self.heads, track % self.heads);
        let begins = u64::from(zone.offset)
            + u64::from(cylinder) * u64::from(zone.cylinder_step)
            + u64::from(order) * u64::from(zone.track_step)
            + u64::from(sector)
            + u64::from(self.pushed(zone, track));
        let slot = (begins % u64::from(zone.sectors)) as u32;
        let descends = match self.head_order {
            HeadOrder::Ascending => false,
            HeadOrder::Serpentine => (zone.first_cylinder + cylinder) % 2 == 1,
            HeadOrder::SerpentineByZone => cylinder % 2 == 1,
        };
        let left = (zone.sectors - sector).min(held.run);
        Place {
            cylinder: zone.first_cylinder + cylinder,
            head: if descends { self.heads - 1 - order } else { order },
            sector,
            sectors: zone.sectors,
            left: u64::from(left).min(zone.end_block - block) as u32,
            slot,
            angle_ns: self.angle_ns(slot, zone.sectors),
        }
    }

    /// By how many sectors slipped ones before this track push its beginning.
    fn pushed(&self, zone: &Band, track: u32) -> u32 {
        if !self.slips_push {
            return 0;
        }
        let by_track = zone.map.unit_is(zone.sectors);
        let from = if by_track { track } else { track / self.heads * self.heads };
        zone.map.slipped_before(from * zone.sectors)
    }

    /// The blocks on the track of this one, wherever remapped ones are. Panics beyond the zones.
    pub fn track(&self, block: u64) -> Range<u64> {
        self.around(block, 1)
    }

    /// The blocks on the cylinder of this one, likewise.
    pub fn cylinder(&self, block: u64) -> Range<u64> {
        self.around(block, self.heads)
    }

    fn around(&self, block: u64, tracks: u32) -> Range<u64> {
        let zone = self.zone(block);
        let sector = zone.map.unmapped_sector((block - zone.first_block) as u32);
        let len = zone.sectors * tracks;
        let first = sector / len * len;
        let at = |sector| zone.first_block + u64::from(zone.map.block_from(sector));
        at(first)..at(first.saturating_add(len))
    }

    /// The first block in this sector of the block's track or behind it. Panics beyond the zones.
    pub(super) fn at_sector(&self, block: u64, sector: u32) -> u64 {
        let zone = self.zone(block);
        let own = zone.map.unmapped_sector((block - zone.first_block) as u32);
        zone.first_block + u64::from(zone.map.block_from(own / zone.sectors * zone.sectors + sector))
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
