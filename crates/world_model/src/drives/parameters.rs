//! The parameters of a drive, from its file.

use std::borrow::Cow;

/// The unit of addresses within a drive.
pub const BLOCK_BYTES: u64 = 512;

/// A drive of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "few of them, one for each model of a drive, and rarely moved")]
pub enum DriveParameters {
    /// With platters and an arm.
    HardDisk(HardDiskParameters),
    /// With flash.
    Flash(FlashParameters),
}

impl DriveParameters {
    /// The name of its model.
    pub fn name(&self) -> &str {
        match self {
            DriveParameters::HardDisk(disk) => &disk.name,
            DriveParameters::Flash(flash) => &flash.name,
        }
    }
}

/// A drive with platters and an arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardDiskParameters {
    /// The name of its model.
    pub name: Cow<'static, str>,
    /// One turn of the platters.
    pub revolution_ns: u32,
    /// Surfaces with a head each.
    pub heads: u32,
    /// From the outermost inwards, without a cylinder in two zones.
    pub zones: Cow<'static, [Zone]>,
    /// Where the zones have their spare sectors.
    pub spares: Spares,
    /// A slipped sector shifts blocks into the spare sectors of its unit; otherwise it shifts all blocks of
    /// the zone behind it.
    pub slips_use_spares: bool,
    /// Sectors that hold no block, or whose block is elsewhere.
    pub defects: Cow<'static, [Defect]>,
    /// The order of the heads on a cylinder.
    pub head_order: HeadOrder,
    /// Blocks that the drive shows; `None`: all that its zones hold.
    pub len_blocks: Option<u64>,
    /// From one head to another of the same cylinder.
    pub head_switch_ns: u32,
    /// What a seek or head switch before a write takes more, where [`HardDiskParameters::seek_write`] does
    /// not have it yet.
    pub write_settle_ns: u32,
    /// From its command on, a write that does not go on with another takes at least so long to its track.
    pub write_seek_min_ns: u32,
    /// Seeks before a read.
    pub seek_read: Seek,
    /// Seeks before a write; `None`: like those before a read.
    pub seek_write: Option<Seek>,
    /// What the electronics need for a command.
    pub overheads: Overheads,
    /// One block over the bus to the host.
    pub bus_ns_per_block: u32,
    /// The cache on the drive.
    pub segments: SegmentParameters,
    /// In which order the queue is served.
    pub scheduling: Scheduling,
    /// Among how many requests the drive chooses; more wait in the order of their arrival.
    pub queue_depth: usize,
}

/// Cylinders with the same number of sectors on each track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Zone {
    pub first_cylinder: u32,
    pub last_cylinder: u32,
    pub sectors_per_track: u32,
    /// How many sectors later the next track of a cylinder begins.
    pub track_skew_sectors: u32,
    /// How many sectors later the first track of the next cylinder begins.
    pub cylinder_skew_sectors: u32,
    /// Sectors that hold no blocks: of each unit of [`Spares`]; tracks, if whole tracks are spare.
    pub spare_sectors: u32,
    /// By how many sectors later than the angle 0 its first sector begins.
    pub offset_sectors: u32,
    /// Sectors at its beginning that the drive has for itself.
    pub reserved_sectors: u32,
}

/// Where spare sectors are: at the end of each unit of a zone, if nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spares {
    /// One unit with so many at its end.
    #[default]
    Zone,
    /// Each track. Slipped sectors push the beginning of the tracks behind them.
    Track,
    /// Each cylinder. Slipped sectors push the beginning of the cylinders behind them.
    Cylinder,
    /// Each cylinder, at its beginning; likewise.
    CylinderFront,
    /// So many cylinders.
    Cylinders(u32),
    /// Whole tracks at the end of the zone: a defective track is slipped.
    Tracks,
}

/// A defective sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The zone, from 0.
    pub zone: u32,
    /// The sector, counted along the tracks of the zone in the order of their blocks.
    pub sector: u32,
    /// The sector of the zone that has its block; `None`: it was slipped, and the blocks behind it lie one
    /// sector further on.
    pub replaced_by: Option<u32>,
}

/// The order in which the heads of a cylinder follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadOrder {
    /// The same on each cylinder.
    #[default]
    Ascending,
    /// Reversed on cylinders with an odd number, so that the step to the next cylinder stays on its surface.
    Serpentine,
    /// Reversed on every other cylinder of a zone; the first one of each zone ascends.
    SerpentineByZone,
}

/// How long seeks take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Three numbers of a data sheet.
    Datasheet {
        /// To the next cylinder.
        single_ns: u32,
        /// The average over all pairs of cylinders.
        average_ns: u32,
        /// From the first cylinder to the last.
        full_ns: u32,
    },
    /// Measured: distances in cylinders, ascending from 1, and their times; between them a straight line.
    Measured(Cow<'static, [(u32, u32)]>),
}

/// A time that depends on what the drive did before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AfterReadOrWrite {
    /// The previous command was a read.
    pub after_read_ns: u32,
    /// The previous command was a write.
    pub after_write_ns: u32,
}

impl AfterReadOrWrite {
    /// The same after both.
    pub const fn same(ns: u32) -> AfterReadOrWrite {
        AfterReadOrWrite { after_read_ns: ns, after_write_ns: ns }
    }
}

/// What the electronics need for a command before anything else happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// A read that the cache serves.
    pub read_hit: AfterReadOrWrite,
    /// A read that the medium serves.
    pub read_miss: AfterReadOrWrite,
    /// A write that the cache takes.
    pub write_hit: AfterReadOrWrite,
    /// A write that waits for the medium.
    pub write_miss: AfterReadOrWrite,
    /// Before data cross the bus.
    pub data_preparation_ns: u32,
    /// After the last block of a read has crossed the bus.
    pub read_completion_ns: u32,
    /// After a write is taken by the cache, or is on the medium.
    pub write_completion_ns: u32,
    /// The drive leaves the bus while it waits for the medium.
    pub read_disconnect: AfterReadOrWrite,
    /// The same, with the data of a write.
    pub write_disconnect_ns: u32,
    /// The drive takes the bus again.
    pub reselect_ns: u32,
    /// A write behind another one, with which it does not go on, leaves the bus before its data cross it.
    pub extra_write_disconnect: Option<ExtraDisconnect>,
}

/// What a drive does that leaves the bus before it takes the data of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// Instead of the command's overhead.
    pub command_ns: u32,
    /// Until the bus is free.
    pub disconnect_ns: u32,
    /// Until the drive takes the bus again.
    pub between_ns: u32,
    /// By how much later than the command's overhead the arm may begin to move.
    pub seek_delay_ns: u32,
}

impl Overheads {
    /// The same for all commands, and no time for what is around them.
    pub const fn same(ns: u32) -> Overheads {
        let all = AfterReadOrWrite::same(ns);
        Overheads::of_commands(all, all, all, all)
    }

    /// Of commands alone.
    pub const fn of_commands(
        read_hit: AfterReadOrWrite,
        read_miss: AfterReadOrWrite,
        write_hit: AfterReadOrWrite,
        write_miss: AfterReadOrWrite,
    ) -> Overheads {
        Overheads {
            read_hit,
            read_miss,
            write_hit,
            write_miss,
            data_preparation_ns: 0,
            read_completion_ns: 0,
            write_completion_ns: 0,
            read_disconnect: AfterReadOrWrite::same(0),
            write_disconnect_ns: 0,
            reselect_ns: 0,
            extra_write_disconnect: None,
        }
    }
}

/// The cache on the drive: segments, each with one run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentParameters {
    /// How many.
    pub count: usize,
    /// The size of each.
    pub blocks: u64,
    /// How far a drive that has nothing else to do reads on after a read.
    pub read_ahead: ReadAhead,
    /// What is read ahead in any case, before the next request is begun.
    pub read_ahead_min_blocks: u64,
    /// What is read ahead of the end of a request at most; `None`: as far as [`ReadAhead`] says.
    pub read_ahead_max_blocks: Option<u64>,
    /// A read that the cache serves while the mechanism is free lets it read ahead again.
    pub reads_ahead_after_hit: bool,
    /// A read that begins with the block that is just read ahead goes on with it.
    pub hits_what_is_read: bool,
    /// What passes under the head on the track of a read is kept, too: reading begins where the head lands.
    pub keeps_whole_track: bool,
    /// The share of a read's blocks that have passed before the first one crosses the bus, in thousandths; at
    /// least one block.
    pub read_watermark_permille: u32,
    /// What was written can be read from the cache.
    pub keeps_written: bool,
    /// Segments for writes that are acknowledged and not yet on the medium; 0: the write cache is off, as in
    /// arrays.
    pub write_segments: usize,
    /// The longest write that is acknowledged before it is on the medium.
    pub fast_write_max_blocks: u64,
    /// When writes are acknowledged before they are on the medium.
    pub fast_write: FastWrite,
}

impl SegmentParameters {
    /// So many segments of this size; no read-ahead, and the write cache off.
    pub const fn plain(count: usize, blocks: u64) -> SegmentParameters {
        SegmentParameters {
            count,
            blocks,
            read_ahead: ReadAhead::None,
            read_ahead_min_blocks: 0,
            read_ahead_max_blocks: None,
            reads_ahead_after_hit: false,
            hits_what_is_read: true,
            keeps_whole_track: false,
            read_watermark_permille: 0,
            keeps_written: true,
            write_segments: 0,
            fast_write_max_blocks: blocks,
            fast_write: FastWrite::Always,
        }
    }
}

/// When a write is acknowledged before it is on the medium, if a segment is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastWrite {
    /// At any time.
    #[default]
    Always,
    /// When the mechanism does nothing but read ahead, or the write goes on with the one that is on its way
    /// to the medium. Any other request waits until what was acknowledged is on the medium.
    WhenIdle,
}

/// The extent of read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Nowhere.
    None,
    /// To the end of the track; of the next track, when the segment began before this one.
    Track,
    /// To the end of the track.
    ThisTrack,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
}

/// The order in which a queue is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// In the order of arrival.
    Fcfs,
    /// The arm continues in its direction as long as there are requests.
    Look,
    /// The request that the head can begin soonest.
    Sptf {
        /// For each nanosecond of waiting, this many thousandths of one are subtracted from a request's
        /// positioning time.
        ageing_permille: u32,
    },
}

/// A drive with flash: units of a fixed service time behind one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashParameters {
    /// The name of its model.
    pub name: Cow<'static, str>,
    /// Its size.
    pub len_blocks: u64,
    /// How many reads are under way at once.
    pub units: usize,
    /// A read in its unit.
    pub read_ns: u32,
    /// A write into the buffer.
    pub write_ns: u32,
    /// The link, reading.
    pub link_read_bytes_per_s: u64,
    /// The link, writing.
    pub link_write_bytes_per_s: u64,
    /// Size of the write buffer.
    pub buffer_bytes: u64,
    /// How fast the buffer is emptied into flash, before amplification.
    pub program_bytes_per_s: u64,
    /// How many bytes are programmed for 100 that the host writes.
    pub amplification_percent: u32,
    /// The buffer survives a power failure: a flush need not empty it.
    pub protected_buffer: bool,
}

impl HardDiskParameters {
    /// With this order of serving.
    pub fn with_scheduling(self, scheduling: Scheduling) -> HardDiskParameters {
        HardDiskParameters { scheduling, ..self }
    }

    /// Cylinders, from 0 to the last of the last zone.
    pub fn cylinders(&self) -> u32 {
        self.zones.last().map_or(0, |zone| zone.last_cylinder + 1)
    }
}
