//! The tables and keys of a drive file, as TOML has them.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) hard_disk: Option<HardDiskTable>,
    pub(super) flash: Option<FlashTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HardDiskTable {
    pub(super) name: String,
    pub(super) rpm: f64,
    pub(super) heads: u32,
    #[serde(default)]
    pub(super) serpentine: SerpentineKey,
    pub(super) len_blocks: Option<u64>,
    pub(super) head_switch_us: f64,
    #[serde(default)]
    pub(super) write_settle_us: f64,
    #[serde(default)]
    pub(super) write_seek_min_us: f64,
    /// One of the two.
    pub(super) bus_mb_per_s: Option<f64>,
    pub(super) bus_us_per_block: Option<f64>,
    pub(super) queue_depth: usize,
    pub(super) zones: Vec<ZoneKey>,
    #[serde(default)]
    pub(super) spares: SparesName,
    /// With `spares = "cylinders"`.
    pub(super) spare_cylinders: Option<u32>,
    #[serde(default = "yes")]
    pub(super) slips_use_spares: bool,
    pub(super) seek_read: SeekTable,
    pub(super) seek_write: Option<SeekTable>,
    pub(super) overhead_us: OverheadTable,
    pub(super) cache: CacheTable,
    pub(super) scheduling: SchedulingTable,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "true, false or \"by_zone\"")]
pub(super) enum SerpentineKey {
    Everywhere(bool),
    Named(SerpentineName),
}

impl Default for SerpentineKey {
    fn default() -> Self {
        SerpentineKey::Everywhere(false)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SerpentineName {
    ByZone,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SparesName {
    #[default]
    Zone,
    Track,
    Cylinder,
    CylinderFront,
    Cylinders,
    Tracks,
}

/// A zone in short, or with everything.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "either six numbers (first and last cylinder, sectors, track skew, cylinder skew, spares), or a table with cylinders, sectors, track_skew, cylinder_skew, spares, offset, reserved, slips and remapped"
)]
pub(super) enum ZoneKey {
    Short([u32; 6]),
    Whole(Box<ZoneTable>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ZoneTable {
    pub(super) cylinders: [u32; 2],
    pub(super) sectors: u32,
    #[serde(default)]
    pub(super) track_skew: u32,
    #[serde(default)]
    pub(super) cylinder_skew: u32,
    #[serde(default)]
    pub(super) spares: u32,
    #[serde(default)]
    pub(super) offset: u32,
    #[serde(default)]
    pub(super) reserved: u32,
    #[serde(default)]
    pub(super) slips: Vec<u32>,
    #[serde(default)]
    pub(super) remapped: Vec<[u32; 2]>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "either single_us, average_us and full_us, or measured_us")]
pub(super) enum SeekTable {
    Datasheet(DatasheetTable),
    Measured(MeasuredTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatasheetTable {
    pub(super) single_us: f64,
    pub(super) average_us: f64,
    pub(super) full_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredTable {
    pub(super) measured_us: Vec<(u32, f64)>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "either command, or read_hit, read_miss, write_hit and write_miss in pairs")]
pub(super) enum OverheadTable {
    Same(SameTable),
    Each(EachTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SameTable {
    pub(super) command: f64,
}

/// Each after a read and after a write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EachTable {
    pub(super) read_hit: [f64; 2],
    pub(super) read_miss: [f64; 2],
    pub(super) write_hit: [f64; 2],
    pub(super) write_miss: [f64; 2],
    #[serde(default)]
    pub(super) data_preparation: f64,
    #[serde(default)]
    pub(super) read_completion: f64,
    #[serde(default)]
    pub(super) write_completion: f64,
    #[serde(default)]
    pub(super) read_disconnect: [f64; 2],
    #[serde(default)]
    pub(super) write_disconnect: f64,
    #[serde(default)]
    pub(super) reselect: f64,
    pub(super) extra_write_disconnect: Option<ExtraDisconnectTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtraDisconnectTable {
    pub(super) command: f64,
    pub(super) disconnect: f64,
    pub(super) between: f64,
    pub(super) seek_delay: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheTable {
    pub(super) segments: usize,
    pub(super) segment_blocks: u64,
    pub(super) read_ahead: ReadAheadName,
    #[serde(default)]
    pub(super) read_ahead_min_blocks: u64,
    pub(super) read_ahead_max_blocks: Option<u64>,
    #[serde(default)]
    pub(super) reads_ahead_after_hit: bool,
    #[serde(default = "yes")]
    pub(super) hits_what_is_read: bool,
    #[serde(default)]
    pub(super) keeps_whole_track: bool,
    /// A share of the request.
    #[serde(default)]
    pub(super) read_watermark: f64,
    #[serde(default = "yes")]
    pub(super) keeps_written: bool,
    #[serde(default)]
    pub(super) write_segments: usize,
    pub(super) fast_write_max_blocks: Option<u64>,
    #[serde(default)]
    pub(super) fast_write: FastWriteName,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReadAheadName {
    None,
    Track,
    ThisTrack,
    Cylinder,
    Segment,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FastWriteName {
    #[default]
    Always,
    WhenIdle,
}

#[derive(Deserialize)]
#[serde(tag = "policy", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum SchedulingTable {
    Fcfs,
    Look,
    Sptf { ageing_permille: u32 },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlashTable {
    pub(super) name: String,
    pub(super) len_blocks: u64,
    pub(super) units: usize,
    pub(super) read_us: f64,
    pub(super) write_us: f64,
    pub(super) link_read_mb_per_s: f64,
    pub(super) link_write_mb_per_s: f64,
    pub(super) buffer_mib: u32,
    pub(super) program_mb_per_s: f64,
    pub(super) amplification_percent: u32,
    pub(super) protected_buffer: bool,
}
