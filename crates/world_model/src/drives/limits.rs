//! The limits of a drive's parameters, and what must hold between them.

use super::geometry::Geometry;
use super::parameters::{
    AfterReadOrWrite, DriveParameters, FlashParameters, HardDiskParameters, Overheads, Seek, Spares, Zone,
};
use super::zone_map::unit_of;

/// Cylinders of a surface: ten times what the densest drive of today has, and what fits the arithmetic of
/// [`super::SeekCurve`].
const CYLINDERS_MAX: u32 = 1 << 22;
/// Sectors of a track: drives of today have 4,000.
const SECTORS_PER_TRACK_MAX: u32 = 1 << 16;
/// Heads: helium drives have 22.
const HEADS_MAX: u32 = 64;
/// The longest time that a parameter may name: a second.
const TIME_MAX_NS: u32 = 1_000_000_000;
/// Requests among which a drive chooses: the most that any protocol numbers for one drive.
const QUEUE_DEPTH_MAX: usize = 65_536;
/// Segments of a drive's cache.
const SEGMENTS_MAX: usize = 1024;
/// Defects: drives leave the factory with some thousand.
const DEFECTS_MAX: usize = 1 << 20;
/// Units of a flash drive: dies, seen through the controller.
const UNITS_MAX: usize = 4096;
/// The slowest link and flash: with the largest buffer and amplification, emptying it takes 10^9 s, which
/// fits in nanoseconds.
const RATE_MIN_BYTES_PER_S: u64 = 1_000_000;
/// The largest write buffer: a tebibyte.
const BUFFER_BYTES_MAX: u64 = 1 << 40;

/// Invalid parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum ParameterError {
    /// A number out of its range.
    #[error("invalid value {value} for {what}: must be {min} to {max}")]
    Range {
        what: &'static str,
        /// The parameter.
        value: u64,
        /// The least that it may be.
        min: u64,
        /// The most that it may be.
        max: u64,
    },
    /// Zones that are not contiguous, or have only spare sectors.
    #[error("invalid zone {number}: {why}")]
    Zone {
        /// The index, from 0.
        number: usize,
        why: &'static str,
    },
    /// A seek curve that goes down, or does not begin at 1.
    #[error("invalid seek times: {0}")]
    Seek(&'static str),
    /// More blocks than the zones hold.
    #[error("invalid size of {len_blocks} blocks: the zones hold {held_blocks}")]
    TooLong {
        /// Declared.
        len_blocks: u64,
        held_blocks: u64,
    },
}

fn range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), ParameterError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(ParameterError::Range { what, value, min, max }),
    }
}

impl DriveParameters {
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), ParameterError> {
        match self {
            DriveParameters::HardDisk(disk) => disk.check(),
            DriveParameters::Flash(flash) => flash.check(),
        }
    }
}

impl HardDiskParameters {
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), ParameterError> {
        let (time, count) = (u64::from(TIME_MAX_NS), |n: usize| n as u64);
        range("the time of a revolution in ns", self.revolution_ns.into(), 1000, time)?;
        range("the number of heads", self.heads.into(), 1, HEADS_MAX.into())?;
        range("the head switch in ns", self.head_switch_ns.into(), 0, time)?;
        range("the write settle in ns", self.write_settle_ns.into(), 0, time)?;
        range("the bus time of a block in ns", self.bus_ns_per_block.into(), 0, time)?;
        range("the queue depth", count(self.queue_depth), 1, count(QUEUE_DEPTH_MAX))?;
        range("the number of segments", count(self.segments.count), 0, count(SEGMENTS_MAX))?;
        range("the blocks of a segment", self.segments.blocks, 1, 1 << 32)?;
        let ahead = self.segments.read_ahead_min_blocks;
        range("the blocks that are always read ahead", ahead, 0, self.segments.blocks)?;
        let write_segments = count(self.segments.write_segments);
        range("the number of write segments", write_segments, 0, count(self.segments.count))?;
        range(
            "the blocks that are read ahead at most",
            self.segments.read_ahead_max_blocks.unwrap_or(0),
            0,
            1 << 32,
        )?;
        range("the blocks of a fast write", self.segments.fast_write_max_blocks, 0, self.segments.blocks)?;
        range(
            "the watermark of reads in thousandths",
            self.segments.read_watermark_permille.into(),
            0,
            1000,
        )?;
        range("the minimum of a seek in ns", self.write_seek_min_ns.into(), 0, time)?;
        for (what, ns) in self.overheads.times() {
            range(what, ns.into(), 0, time)?;
        }
        range("the number of defects", count(self.defects.len()), 0, count(DEFECTS_MAX))?;
        if let Some(defect) = self.defects.iter().find(|defect| defect.zone as usize >= self.zones.len()) {
            return Err(ParameterError::Zone {
                number: defect.zone as usize,
                why: "a defect in a zone that is missing",
            });
        }
        self.check_zones()?;
        self.seek_read.check()?;
        self.seek_write.as_ref().map_or(Ok(()), Seek::check)
    }

    fn check_zones(&self) -> Result<(), ParameterError> {
        range("the number of zones", self.zones.len() as u64, 1, 4096)?;
        let mut next = 0;
        for (number, zone) in self.zones.iter().enumerate() {
            let wrong = |why| Err(ParameterError::Zone { number, why });
            if zone.first_cylinder < next || zone.last_cylinder < zone.first_cylinder {
                return wrong("its cylinders do not follow the previous zone");
            }
            range("the last cylinder of a zone", zone.last_cylinder.into(), 0, (CYLINDERS_MAX - 1).into())?;
            range("the sectors of a track", zone.sectors_per_track.into(), 1, SECTORS_PER_TRACK_MAX.into())?;
            if zone.track_skew_sectors.max(zone.cylinder_skew_sectors) > SECTORS_PER_TRACK_MAX {
                return wrong("the skew exceeds a track");
            }
            let sectors = u64::from(zone.last_cylinder - zone.first_cylinder + 1)
                * u64::from(self.heads)
                * u64::from(zone.sectors_per_track);
            if sectors > u32::MAX.into() {
                return wrong("more than 2^32 sectors; divide the zone");
            }
            next = zone.last_cylinder + 1;
            self.check_zone(number, zone, sectors as u32)?;
        }
        let held_blocks = Geometry::new(self).held_blocks();
        match self.len_blocks {
            Some(len_blocks) if len_blocks > held_blocks => {
                Err(ParameterError::TooLong { len_blocks, held_blocks })
            }
            Some(len_blocks) => range("the number of blocks", len_blocks, 1, u64::MAX),
            None => Ok(()),
        }
    }

    /// That a zone with so many sectors has blocks left in each of its units, and its defects are within it.
    fn check_zone(&self, number: usize, zone: &Zone, sectors: u32) -> Result<(), ParameterError> {
        let wrong = |why| Err(ParameterError::Zone { number, why });
        if matches!(self.spares, Spares::Cylinders(0)) {
            return wrong("spare sectors of no cylinders");
        }
        let (unit, _, spare) = unit_of(self, zone, sectors);
        if unit <= spare {
            return wrong("it has only spare sectors");
        }
        let own = self.defects.iter().filter(|defect| defect.zone as usize == number);
        let mut slipped = 0_u64;
        for defect in own {
            if defect.sector.max(defect.replaced_by.unwrap_or(0)) >= sectors {
                return wrong("a defect beyond its end");
            }
            slipped += u64::from(defect.replaced_by.is_none());
        }
        if self.spares == Spares::Tracks && slipped * u64::from(zone.sectors_per_track) > DEFECTS_MAX as u64 {
            return wrong("more slipped tracks than a drive has");
        }
        let gone = u64::from(sectors / unit) * u64::from(spare) + u64::from(zone.reserved_sectors);
        match gone + slipped < sectors.into() {
            true => Ok(()),
            false => wrong("nothing is left beside spare, reserved and slipped sectors"),
        }
    }
}

impl Seek {
    fn check(&self) -> Result<(), ParameterError> {
        match self {
            Seek::Datasheet { single_ns, average_ns, full_ns } => {
                range("the full seek in ns", (*full_ns).into(), 1, TIME_MAX_NS.into())?;
                match single_ns <= average_ns && average_ns <= full_ns {
                    true => Ok(()),
                    false => Err(ParameterError::Seek("single, average and full must ascend")),
                }
            }
            Seek::Measured(points) => {
                if points.first().is_none_or(|first| first.0 != 1) {
                    return Err(ParameterError::Seek("the first distance must be 1"));
                }
                if !points.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err(ParameterError::Seek("the distances must ascend"));
                }
                match points.iter().all(|point| point.1 <= TIME_MAX_NS) {
                    true => Ok(()),
                    false => Err(ParameterError::Seek("a seek time must not exceed one second")),
                }
            }
        }
    }
}

impl FlashParameters {
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), ParameterError> {
        let rate = |what, value| range(what, value, RATE_MIN_BYTES_PER_S, 1 << 50);
        range("the number of units", self.units as u64, 1, UNITS_MAX as u64)?;
        range("the read time in ns", self.read_ns.into(), 0, TIME_MAX_NS.into())?;
        range("the write time in ns", self.write_ns.into(), 0, TIME_MAX_NS.into())?;
        range("the number of blocks", self.len_blocks, 1, 1 << 54)?;
        range("the write amplification in percent", self.amplification_percent.into(), 1, 100_000)?;
        range("the bytes of the write buffer", self.buffer_bytes, 0, BUFFER_BYTES_MAX)?;
        rate("the read rate of the link in bytes per second", self.link_read_bytes_per_s)?;
        rate("the write rate of the link in bytes per second", self.link_write_bytes_per_s)?;
        rate("the program rate in bytes per second", self.program_bytes_per_s)
    }
}

impl Overheads {
    /// All times of it with what each is, for checks.
    fn times(&self) -> [(&'static str, u32); 14] {
        let most = |overhead: AfterReadOrWrite| overhead.after_read_ns.max(overhead.after_write_ns);
        let extra = self.extra_write_disconnect.unwrap_or_default();
        [
            ("the overhead of a read hit in ns", most(self.read_hit)),
            ("the overhead of a read miss in ns", most(self.read_miss)),
            ("the overhead of a write hit in ns", most(self.write_hit)),
            ("the overhead of a write miss in ns", most(self.write_miss)),
            ("the data preparation in ns", self.data_preparation_ns),
            ("the completion of a read in ns", self.read_completion_ns),
            ("the completion of a write in ns", self.write_completion_ns),
            ("the disconnect of a read in ns", most(self.read_disconnect)),
            ("the disconnect of a write in ns", self.write_disconnect_ns),
            ("the reselection in ns", self.reselect_ns),
            ("the command of an extra disconnect in ns", extra.command_ns),
            ("the extra disconnect in ns", extra.disconnect_ns),
            ("the time between disconnect and reselection in ns", extra.between_ns),
            ("the delay of a seek in ns", extra.seek_delay_ns),
        ]
    }
}
