//! A drive of which only the data sheet is known.

use std::borrow::Cow;

use super::limits::ParameterError;
use super::parameters::{
    HardDiskParameters, HeadOrder, Overheads, Scheduling, Seek, SegmentParameters, Spares, Zone,
};

/// Zones of a drive whose zones are not published: drives have 10 to 30, and the difference between
/// neighbours is then a few percent.
const ZONES: u32 = 16;

/// The numbers that data sheets and product manuals give.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Datasheet {
    /// The name of the model.
    pub name: Cow<'static, str>,
    /// One turn of the platters.
    pub revolution_ns: u32,
    /// Surfaces with a head each.
    pub heads: u32,
    pub tracks_per_surface: u32,
    /// The capacity.
    pub len_blocks: u64,
    /// The rate of the outermost track in percent of that of the innermost.
    pub outer_to_inner_percent: u32,
    /// Single, average and full seek before a read.
    pub seek_read_ns: [u32; 3],
    /// Before a write.
    pub seek_write_ns: [u32; 3],
    /// What the electronics need for a command.
    pub overhead_ns: u32,
    /// One block over the bus to the host.
    pub bus_ns_per_block: u32,
    /// The cache on the drive.
    pub segments: SegmentParameters,
    /// In which order the queue is served.
    pub scheduling: Scheduling,
}

impl Datasheet {
    /// The drive: sectors fall evenly from the outermost zone to the innermost, so that together they hold
    /// the capacity; a head switch takes a single seek, and tracks are skewed by what the shortest write seek
    /// takes, as they must be for streaming.
    pub fn parameters(&self) -> Result<HardDiskParameters, ParameterError> {
        let [read, write] = [self.seek_read_ns, self.seek_write_ns]
            .map(|[single_ns, average_ns, full_ns]| Seek::Datasheet { single_ns, average_ns, full_ns });
        let parameters = HardDiskParameters {
            name: self.name.clone(),
            revolution_ns: self.revolution_ns,
            heads: self.heads,
            zones: self.zones().into(),
            spares: Spares::Zone,
            slips_use_spares: true,
            defects: Cow::Borrowed(&[]),
            head_order: HeadOrder::Ascending,
            len_blocks: Some(self.len_blocks),
            head_switch_ns: self.seek_read_ns[0],
            write_settle_ns: 0,
            write_seek_min_ns: 0,
            seek_read: read,
            seek_write: Some(write),
            overheads: Overheads::same(self.overhead_ns),
            bus_ns_per_block: self.bus_ns_per_block,
            segments: self.segments,
            scheduling: self.scheduling,
            queue_depth: 64,
        };
        parameters.check().map(|()| parameters)
    }

    fn zones(&self) -> Vec<Zone> {
        let tracks = u64::from(self.tracks_per_surface) * u64::from(self.heads);
        let percent = u64::from(self.outer_to_inner_percent);
        // In thousandths of a sector: the mean of the outermost track and the innermost is the mean of all.
        let inner = (self.len_blocks * 1000).div_ceil(tracks.max(1)) * 200 / (100 + percent);
        let fall = inner * percent.saturating_sub(100) / 100;
        let zone = |number: u32| {
            let from_inner = u64::from(2 * (ZONES - number) - 1);
            // Rounded up: the capacity must find room.
            let sectors = (inner + fall * from_inner / u64::from(2 * ZONES)).div_ceil(1000) as u32;
            let skew_ns = u64::from(self.seek_write_ns[0]);
            let skew = (skew_ns * u64::from(sectors)).div_ceil(self.revolution_ns.max(1).into()) as u32;
            let cylinder =
                |number: u32| (u64::from(self.tracks_per_surface) * u64::from(number)) / u64::from(ZONES);
            Zone {
                first_cylinder: cylinder(number) as u32,
                last_cylinder: (cylinder(number + 1) as u32).saturating_sub(1),
                sectors_per_track: sectors,
                track_skew_sectors: skew,
                cylinder_skew_sectors: skew,
                spare_sectors: 0,
                offset_sectors: 0,
                reserved_sectors: 0,
            }
        };
        (0..ZONES).map(zone).collect()
    }
}
