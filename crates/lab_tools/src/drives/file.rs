//! Reads drive files and converts them to the parameters of the model.

use serde::Deserialize;
use world_model::drives::{
    AfterReadOrWrite, BLOCK_BYTES, DriveParameters, FlashParameters, HardDiskParameters, Overheads,
    ParameterError, ReadAhead, Scheduling, Seek, SegmentParameters, Zone,
};

use lab_core::toml_text::{self, Misread};

/// Errors in a drive file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum DriveFileError {
    /// It cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        cause: String,
    },
    /// Invalid TOML, or a misspelt or missing key.
    #[error("{path}:{line}: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    /// The file has no drive, or more than one.
    #[error("{path}: a drive file has one table, [hard_disk] or [flash]")]
    Kind {
        /// The file.
        path: String,
    },
    /// Exactly one of two equivalent keys is required.
    #[error("{path}: either bus_mb_per_s or bus_us_per_block is needed, and not both")]
    Bus {
        /// The file.
        path: String,
    },
    /// A number outside of the possible range.
    #[error("{path}:{line}: invalid {key} {value}: must be a number from {min} to {max}")]
    Number {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        key: &'static str,
        /// What it says.
        value: f64,
        /// The least that it may be.
        min: f64,
        /// The most that it may be.
        max: f64,
    },
    /// Invalid parameters of a drive.
    #[error("{path}: {source}")]
    Parameters {
        /// The file.
        path: String,
        source: ParameterError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    hard_disk: Option<HardDiskTable>,
    flash: Option<FlashTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HardDiskTable {
    name: String,
    rpm: f64,
    heads: u32,
    #[serde(default)]
    serpentine: bool,
    len_blocks: Option<u64>,
    head_switch_us: f64,
    #[serde(default)]
    write_settle_us: f64,
    /// One of the two.
    bus_mb_per_s: Option<f64>,
    bus_us_per_block: Option<f64>,
    queue_depth: usize,
    /// First and last cylinder, sectors of a track, track and cylinder skew, spare sectors.
    zones: Vec<[u32; 6]>,
    seek_read: SeekTable,
    seek_write: Option<SeekTable>,
    overhead_us: OverheadTable,
    cache: CacheTable,
    scheduling: SchedulingTable,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "either single_us, average_us and full_us, or measured_us")]
enum SeekTable {
    Datasheet(DatasheetTable),
    Measured(MeasuredTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasheetTable {
    single_us: f64,
    average_us: f64,
    full_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredTable {
    measured_us: Vec<(u32, f64)>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "either command, or read_hit, read_miss, write_hit and write_miss in pairs")]
enum OverheadTable {
    Same(SameTable),
    Each(EachTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SameTable {
    command: f64,
}

/// Each after a read and after a write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EachTable {
    read_hit: [f64; 2],
    read_miss: [f64; 2],
    write_hit: [f64; 2],
    write_miss: [f64; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheTable {
    segments: usize,
    segment_blocks: u64,
    read_ahead: ReadAheadName,
    #[serde(default)]
    read_ahead_min_blocks: u64,
    #[serde(default)]
    keeps_whole_track: bool,
    #[serde(default)]
    write_segments: usize,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadAheadName {
    None,
    Track,
    Segment,
}

#[derive(Deserialize)]
#[serde(tag = "policy", rename_all = "lowercase", deny_unknown_fields)]
enum SchedulingTable {
    Fcfs,
    Look,
    Sptf { ageing_permille: u32 },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashTable {
    name: String,
    len_blocks: u64,
    units: usize,
    read_us: f64,
    write_us: f64,
    link_read_mb_per_s: f64,
    link_write_mb_per_s: f64,
    buffer_mib: u32,
    program_mb_per_s: f64,
    amplification_percent: u32,
    protected_buffer: bool,
}

/// Reads the text of a drive file; `path` is for messages.
pub fn parse(text: &str, path: &str) -> Result<DriveParameters, DriveFileError> {
    let file: File = toml_text::read(text).map_err(|Misread { line, cause }| DriveFileError::Syntax {
        path: path.into(),
        line,
        cause,
    })?;
    let convert = Convert { text, path };
    let parameters = match (file.hard_disk, file.flash) {
        (Some(disk), None) => DriveParameters::HardDisk(convert.hard_disk(disk)?),
        (None, Some(flash)) => DriveParameters::Flash(convert.flash(flash)?),
        _ => return Err(DriveFileError::Kind { path: path.into() }),
    };
    match parameters.check() {
        Ok(()) => Ok(parameters),
        Err(source) => Err(DriveFileError::Parameters { path: path.into(), source }),
    }
}

/// Turns the file's units into those of the model.
struct Convert<'a> {
    text: &'a str,
    path: &'a str,
}

impl Convert<'_> {
    fn number(&self, key: &'static str, value: f64, [min, max]: [f64; 2]) -> Result<f64, DriveFileError> {
        match (min..=max).contains(&value) {
            true => Ok(value),
            false => {
                let line = self.line_of(key, value);
                Err(DriveFileError::Number { path: self.path.into(), line, key, value, min, max })
            }
        }
    }

    /// The line on which the key has this value; of a key with a list, the first one.
    fn line_of(&self, key: &str, value: f64) -> usize {
        let has_key = |line: &str| {
            let (name, rest) = line.split_once('=')?;
            let number = rest.split('#').next()?.trim().replace('_', "").parse::<f64>().ok();
            (name.trim() == key).then_some(number)
        };
        let mut lines = self.text.lines().map(has_key);
        let exact = lines.clone().position(|found| found == Some(Some(value)));
        exact.or_else(|| lines.position(|found| found.is_some())).map_or(1, |line| line + 1)
    }

    /// At most a second.
    fn ns(&self, key: &'static str, us: f64) -> Result<u32, DriveFileError> {
        Ok((self.number(key, us, [0.0, 1e6])? * 1e3).round() as u32)
    }

    /// At most a terabyte per second.
    fn bytes_per_s(&self, key: &'static str, mb_per_s: f64) -> Result<u64, DriveFileError> {
        Ok((self.number(key, mb_per_s, [0.001, 1e6])? * 1e6).round() as u64)
    }

    fn hard_disk(&self, disk: HardDiskTable) -> Result<HardDiskParameters, DriveFileError> {
        let rpm = self.number("rpm", disk.rpm, [60.0, 1e6])?;
        let bus_ns_per_block = match (disk.bus_mb_per_s, disk.bus_us_per_block) {
            (None, Some(us)) => self.ns("bus_us_per_block", us)?,
            (Some(mb_per_s), None) => {
                let rate = self.bytes_per_s("bus_mb_per_s", mb_per_s)?;
                (BLOCK_BYTES * 1_000_000_000 / rate
                    + u64::from(BLOCK_BYTES * 1_000_000_000 % rate * 2 >= rate)) as u32
            }
            _ => return Err(DriveFileError::Bus { path: self.path.into() }),
        };
        Ok(HardDiskParameters {
            name: disk.name.into(),
            revolution_ns: (60e9 / rpm).round() as u32,
            heads: disk.heads,
            zones: disk.zones.into_iter().map(zone).collect(),
            serpentine: disk.serpentine,
            len_blocks: disk.len_blocks,
            head_switch_ns: self.ns("head_switch_us", disk.head_switch_us)?,
            write_settle_ns: self.ns("write_settle_us", disk.write_settle_us)?,
            seek_read: self.seek(disk.seek_read)?,
            seek_write: disk.seek_write.map(|seek| self.seek(seek)).transpose()?,
            overheads: self.overheads(disk.overhead_us)?,
            bus_ns_per_block,
            segments: segments(&disk.cache),
            scheduling: match disk.scheduling {
                SchedulingTable::Fcfs => Scheduling::Fcfs,
                SchedulingTable::Look => Scheduling::Look,
                SchedulingTable::Sptf { ageing_permille } => Scheduling::Sptf { ageing_permille },
            },
            queue_depth: disk.queue_depth,
        })
    }

    fn seek(&self, seek: SeekTable) -> Result<Seek, DriveFileError> {
        Ok(match seek {
            SeekTable::Datasheet(sheet) => Seek::Datasheet {
                single_ns: self.ns("single_us", sheet.single_us)?,
                average_ns: self.ns("average_us", sheet.average_us)?,
                full_ns: self.ns("full_us", sheet.full_us)?,
            },
            SeekTable::Measured(measured) => {
                let points = measured.measured_us.into_iter();
                let points: Result<Vec<_>, _> =
                    points.map(|(cylinders, us)| Ok((cylinders, self.ns("measured_us", us)?))).collect();
                Seek::Measured(points?.into())
            }
        })
    }

    fn overheads(&self, table: OverheadTable) -> Result<Overheads, DriveFileError> {
        let pair = |key, [read, write]: [f64; 2]| {
            Ok(AfterReadOrWrite { after_read_ns: self.ns(key, read)?, after_write_ns: self.ns(key, write)? })
        };
        Ok(match table {
            OverheadTable::Same(same) => Overheads::same(self.ns("command", same.command)?),
            OverheadTable::Each(each) => Overheads {
                read_hit: pair("read_hit", each.read_hit)?,
                read_miss: pair("read_miss", each.read_miss)?,
                write_hit: pair("write_hit", each.write_hit)?,
                write_miss: pair("write_miss", each.write_miss)?,
            },
        })
    }

    fn flash(&self, flash: FlashTable) -> Result<FlashParameters, DriveFileError> {
        Ok(FlashParameters {
            name: flash.name.into(),
            len_blocks: flash.len_blocks,
            units: flash.units,
            read_ns: self.ns("read_us", flash.read_us)?,
            write_ns: self.ns("write_us", flash.write_us)?,
            link_read_bytes_per_s: self.bytes_per_s("link_read_mb_per_s", flash.link_read_mb_per_s)?,
            link_write_bytes_per_s: self.bytes_per_s("link_write_mb_per_s", flash.link_write_mb_per_s)?,
            buffer_bytes: u64::from(flash.buffer_mib) << 20,
            program_bytes_per_s: self.bytes_per_s("program_mb_per_s", flash.program_mb_per_s)?,
            amplification_percent: flash.amplification_percent,
            protected_buffer: flash.protected_buffer,
        })
    }
}

fn zone([first, last, sectors, track_skew, cylinder_skew, spare]: [u32; 6]) -> Zone {
    Zone {
        first_cylinder: first,
        last_cylinder: last,
        sectors_per_track: sectors,
        track_skew_sectors: track_skew,
        cylinder_skew_sectors: cylinder_skew,
        spare_sectors: spare,
    }
}

fn segments(cache: &CacheTable) -> SegmentParameters {
    SegmentParameters {
        count: cache.segments,
        blocks: cache.segment_blocks,
        read_ahead: match cache.read_ahead {
            ReadAheadName::None => ReadAhead::None,
            ReadAheadName::Track => ReadAhead::Track,
            ReadAheadName::Segment => ReadAhead::Segment,
        },
        read_ahead_min_blocks: cache.read_ahead_min_blocks,
        keeps_whole_track: cache.keeps_whole_track,
        write_segments: cache.write_segments,
    }
}
