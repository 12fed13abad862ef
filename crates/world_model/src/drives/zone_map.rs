//! Which sector of a zone holds a block: space before the first block, spare sectors, slipped and remapped
//! defects.
//!
//! The sectors of a zone are numbered along its tracks in the order of their blocks, from 0. They form units
//! (a track, a cylinder, a range of cylinders, the zone), each with spare sectors of its own. A slipped
//! sector holds no block and shifts those behind it, either within its unit into the spare sectors or to the
//! end of the zone; a remapped one has its block elsewhere in the zone.

use std::ops::Range;

use super::parameters::{Defect, HardDiskParameters, Spares, Zone};

/// The sectors of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneMap {
    /// Sectors of a unit, those before its first block, and its blocks where no sector is slipped.
    unit: u32,
    front: u32,
    held: u32,
    /// Whole units; the rest of the zone, if any, has no spare sectors.
    units: u32,
    /// Sectors before the zone's first block.
    reserved: u32,
    shifts_all: bool,
    /// Slipped sectors, ascending.
    slips: Vec<u32>,
    /// From which index on each slipped sector shifts blocks; an index counts the reserved sectors, too.
    shifts_from: Vec<u32>,
    /// Remapped sectors, ascending, with the ones that replace them.
    remapped: Vec<(u32, u32)>,
    sectors: u32,
    blocks: u32,
}

/// Where a block is, and how many follow it without a gap in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) sector: u32,
    pub(super) run: u32,
}

impl ZoneMap {
    /// The map of a zone with so many sectors, that is the zone's number in the parameters.
    pub(super) fn new(parameters: &HardDiskParameters, number: usize) -> ZoneMap {
        let zone = &parameters.zones[number];
        let sectors = zone_sectors(zone, parameters.heads);
        let (unit, front, spare) = unit_of(parameters, zone, sectors);
        let units = if unit == sectors { 1 } else { sectors / unit };
        let own = parameters.defects.iter().filter(|defect| defect.zone as usize == number);
        let (mut slips, mut remapped) = (Vec::new(), Vec::new());
        for Defect { sector, replaced_by, .. } in own {
            match replaced_by {
                None => slips.push(*sector),
                Some(other) => remapped.push((*sector, *other)),
            }
        }
        if parameters.spares == Spares::Tracks {
            // Whole tracks are slipped.
            let track = zone.sectors_per_track;
            slips = slips.iter().flat_map(|slip| slip / track * track..(slip / track + 1) * track).collect();
        }
        slips.sort_unstable();
        slips.dedup();
        remapped.sort_unstable();
        let mut map = ZoneMap {
            unit,
            front: front.min(unit),
            held: unit.saturating_sub(spare),
            units,
            reserved: zone.reserved_sectors,
            shifts_all: !parameters.slips_use_spares,
            slips,
            shifts_from: Vec::new(),
            remapped,
            sectors,
            blocks: 0,
        };
        map.shifts_from = map.shifts();
        let lost = if map.shifts_all { map.slips.len() as u32 } else { 0 };
        let kept = sectors.saturating_sub(units.saturating_mul(spare));
        map.blocks = kept.saturating_sub(map.reserved).saturating_sub(lost);
        map
    }

    /// The blocks of the zone.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether a unit has so many sectors.
    pub(super) fn unit_is(&self, sectors: u32) -> bool {
        self.unit == sectors
    }

    /// The sector that holds the block of this number.
    pub(super) fn sector(&self, block: u32) -> Held {
        let (sector, in_unit) = self.shifted(block);
        let run = in_unit.min(self.to_next_defect(sector));
        match self.remapped.binary_search_by_key(&sector, |remap| remap.0) {
            Ok(found) => Held { sector: self.remapped[found].1, run: 1 },
            Err(_) => Held { sector, run },
        }
    }

    /// The sector that the block has, or had before it was remapped.
    pub(super) fn unmapped_sector(&self, block: u32) -> u32 {
        self.shifted(block).0
    }

    /// The sector behind the slipped ones, and how many blocks are left in its unit.
    fn shifted(&self, block: u32) -> (u32, u32) {
        let index = block + self.reserved;
        match self.shifts_all {
            true => {
                let shifted = index + self.shifts_from.partition_point(|from| *from <= index) as u32;
                self.in_unit(shifted, 0)
            }
            false => {
                let first = self.unit_number(index) * self.held;
                let before = self.shifts_from.partition_point(|from| *from < first);
                let shift = self.shifts_from[before..].partition_point(|from| *from <= index);
                self.in_unit(index, shift as u32)
            }
        }
    }

    /// The first block in this sector or behind it, wherever remapped ones are.
    pub(super) fn block_from(&self, sector: u32) -> u32 {
        let number = (sector / self.unit).min(self.units);
        let (first, front) = match number < self.units {
            true => (number * self.unit, self.front_of(number)),
            false => (self.units * self.unit, 0),
        };
        let most = if number < self.units { self.held } else { u32::MAX };
        let within = (sector - first).saturating_sub(front);
        let slipped = |range: Range<u32>| {
            let [from, to] =
                [range.start, range.end].map(|end| self.slips.partition_point(|slip| *slip < end));
            (to - from.min(to)) as u32
        };
        let index = match self.shifts_all {
            true => (number * self.held + within.min(most)).saturating_sub(slipped(0..sector)),
            false => {
                let gone = slipped(first + front..sector.max(first + front));
                number * self.held + within.saturating_sub(gone).min(most)
            }
        };
        index.saturating_sub(self.reserved).min(self.blocks)
    }

    /// How many slipped sectors are before this one.
    pub(super) fn slipped_before(&self, sector: u32) -> u32 {
        self.slips.partition_point(|slip| *slip < sector) as u32
    }

    /// Sectors before the first block of a unit: slipped ones take spare ones from there.
    fn front_of(&self, number: u32) -> u32 {
        if self.front == 0 || self.shifts_all {
            return self.front;
        }
        let [from, to] = [number * self.unit, (number + 1) * self.unit]
            .map(|end| self.slips.partition_point(|slip| *slip < end) as u32);
        self.front.saturating_sub(to - from)
    }

    fn unit_number(&self, index: u32) -> u32 {
        index.checked_div(self.held).unwrap_or(0).min(self.units)
    }

    /// The sector of an index, and how many indices are left in its unit.
    fn in_unit(&self, index: u32, shift: u32) -> (u32, u32) {
        let number = self.unit_number(index);
        let within = index - number * self.held;
        let (sector, left) = match number < self.units {
            true => (number * self.unit + self.front_of(number) + within + shift, self.held - within),
            false => (self.units * self.unit + within + shift, u32::MAX),
        };
        // More slipped sectors than spare ones behind them: no drive is like this, but a file may say so.
        (sector.min(self.sectors - 1), left)
    }

    fn to_next_defect(&self, sector: u32) -> u32 {
        let slip = self.slips.get(self.slips.partition_point(|slip| *slip <= sector)).copied();
        let at = self.remapped.partition_point(|remap| remap.0 <= sector);
        let remap = self.remapped.get(at).map(|remap| remap.0);
        slip.into_iter().chain(remap).min().map_or(u32::MAX, |next| next - sector)
    }

    fn shifts(&self) -> Vec<u32> {
        let mut out = Vec::new();
        let (mut in_unit, mut number) = (0, u32::MAX);
        for slip in &self.slips {
            let own = (slip / self.unit).min(self.units);
            let (first, front) = if own < self.units {
                (own * self.unit, self.front_of(own))
            } else {
                (self.units * self.unit, 0)
            };
            let Some(within) = (slip - first).checked_sub(front) else { continue };
            if own != number {
                (in_unit, number) = (0, own);
            }
            let behind = if self.shifts_all { out.len() as u32 } else { in_unit };
            let Some(from) = within.checked_sub(behind) else { continue };
            if own < self.units && from >= self.held {
                // Among the spare sectors, where nothing is shifted.
                continue;
            }
            out.push(own * self.held + from);
            in_unit += 1;
        }
        out
    }
}

/// The sectors of a zone; the parameters have been checked.
pub(super) fn zone_sectors(zone: &Zone, heads: u32) -> u32 {
    (zone.last_cylinder - zone.first_cylinder + 1) * heads * zone.sectors_per_track
}

/// Sectors of a unit, those before its first block, and all of its spare ones.
pub(super) fn unit_of(parameters: &HardDiskParameters, zone: &Zone, sectors: u32) -> (u32, u32, u32) {
    let track = zone.sectors_per_track;
    let cylinder = track * parameters.heads;
    let spare = zone.spare_sectors;
    match parameters.spares {
        Spares::Zone => (sectors, 0, spare),
        Spares::Tracks => (sectors, 0, spare.saturating_mul(track)),
        Spares::Track => (track, 0, spare),
        Spares::Cylinder => (cylinder, 0, spare),
        Spares::CylinderFront => (cylinder, spare, spare),
        Spares::Cylinders(count) => (count.saturating_mul(cylinder).min(sectors), 0, spare),
    }
}
