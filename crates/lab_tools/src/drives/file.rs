//! Reads drive files and converts them to the parameters of the model.

use world_model::drives::{
    AfterReadOrWrite, BLOCK_BYTES, Defect, DriveParameters, ExtraDisconnect, FastWrite, FlashParameters,
    HardDiskParameters, HeadOrder, Overheads, ParameterError, ReadAhead, Scheduling, Seek, SegmentParameters,
    Spares, Zone,
};

use lab_core::toml_text::{self, Misread, Places, TomlFileError};

use super::tables::{
    CacheTable, ExtraDisconnectTable, FastWriteName, File, FlashTable, HardDiskTable, OverheadTable,
    ReadAheadName, SchedulingTable, SeekTable, SerpentineKey, SerpentineName, SparesName, ZoneKey, ZoneTable,
};

/// Errors in a drive file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum DriveFileError {
    /// It cannot be read, or is not the TOML that is wanted.
    #[error(transparent)]
    File(TomlFileError),
    /// The file has no drive, or more than one.
    #[error("{path}: a drive file has one table, [hard_disk] or [flash]")]
    Kind {
        /// The file.
        path: String,
    },
    /// Errors in a parameter file of DiskSim.
    #[error("{0}")]
    Disksim(super::disksim::DisksimError),
    /// Exactly one of two equivalent keys is required.
    #[error("{path}: either bus_mb_per_s or bus_us_per_block is needed, and not both")]
    Bus {
        /// The file.
        path: String,
    },
    /// `spare_cylinders` belongs to `spares = "cylinders"`.
    #[error("{path}: spares = \"cylinders\" requires spare_cylinders, and nothing else allows it")]
    SpareCylinders {
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

/// Reads the text of a drive file; `path` is for messages.
pub fn parse(text: &str, path: &str) -> Result<DriveParameters, DriveFileError> {
    let misread = |misread: Misread| DriveFileError::File(misread.of(path));
    Places::of(text).and_then(|places| places.check_said(&[])).map_err(misread)?;
    let file: File = toml_text::read(text).map_err(misread)?;
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
        let is_it = |number: f64| number.total_cmp(&value).is_eq();
        let exact = lines.clone().position(|found| found.flatten().is_some_and(is_it));
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
        let (zones, defects) = zones(disk.zones);
        Ok(HardDiskParameters {
            name: disk.name.into(),
            revolution_ns: (60e9 / rpm).round() as u32,
            heads: disk.heads,
            zones: zones.into(),
            spares: self.spares(disk.spares, disk.spare_cylinders)?,
            slips_use_spares: disk.slips_use_spares,
            defects: defects.into(),
            head_order: match disk.serpentine {
                SerpentineKey::Everywhere(false) => HeadOrder::Ascending,
                SerpentineKey::Everywhere(true) => HeadOrder::Serpentine,
                SerpentineKey::Named(SerpentineName::ByZone) => HeadOrder::SerpentineByZone,
            },
            len_blocks: disk.len_blocks,
            head_switch_ns: self.ns("head_switch_us", disk.head_switch_us)?,
            write_settle_ns: self.ns("write_settle_us", disk.write_settle_us)?,
            write_seek_min_ns: self.ns("write_seek_min_us", disk.write_seek_min_us)?,
            seek_read: self.seek(disk.seek_read)?,
            seek_write: disk.seek_write.map(|seek| self.seek(seek)).transpose()?,
            overheads: self.overheads(disk.overhead_us)?,
            bus_ns_per_block: self.bus_ns_per_block(disk.bus_mb_per_s, disk.bus_us_per_block)?,
            segments: self.segments(&disk.cache)?,
            scheduling: match disk.scheduling {
                SchedulingTable::Fcfs => Scheduling::Fcfs,
                SchedulingTable::Look => Scheduling::Look,
                SchedulingTable::Sptf { ageing_permille } => Scheduling::Sptf { ageing_permille },
            },
            queue_depth: disk.queue_depth,
        })
    }

    fn bus_ns_per_block(&self, mb_per_s: Option<f64>, us: Option<f64>) -> Result<u32, DriveFileError> {
        match (mb_per_s, us) {
            (None, Some(us)) => self.ns("bus_us_per_block", us),
            (Some(mb_per_s), None) => {
                let rate = self.bytes_per_s("bus_mb_per_s", mb_per_s)?;
                let ns = BLOCK_BYTES * 1_000_000_000;
                Ok((ns / rate + u64::from(ns % rate * 2 >= rate)) as u32)
            }
            _ => Err(DriveFileError::Bus { path: self.path.into() }),
        }
    }

    fn spares(&self, name: SparesName, cylinders: Option<u32>) -> Result<Spares, DriveFileError> {
        match (name, cylinders) {
            (SparesName::Cylinders, Some(count)) => Ok(Spares::Cylinders(count)),
            (SparesName::Cylinders, None) | (_, Some(_)) => {
                Err(DriveFileError::SpareCylinders { path: self.path.into() })
            }
            (SparesName::Zone, None) => Ok(Spares::Zone),
            (SparesName::Track, None) => Ok(Spares::Track),
            (SparesName::Cylinder, None) => Ok(Spares::Cylinder),
            (SparesName::CylinderFront, None) => Ok(Spares::CylinderFront),
            (SparesName::Tracks, None) => Ok(Spares::Tracks),
        }
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
                data_preparation_ns: self.ns("data_preparation", each.data_preparation)?,
                read_completion_ns: self.ns("read_completion", each.read_completion)?,
                write_completion_ns: self.ns("write_completion", each.write_completion)?,
                read_disconnect: pair("read_disconnect", each.read_disconnect)?,
                write_disconnect_ns: self.ns("write_disconnect", each.write_disconnect)?,
                reselect_ns: self.ns("reselect", each.reselect)?,
                extra_write_disconnect: each
                    .extra_write_disconnect
                    .map(|extra| self.extra_disconnect(&extra))
                    .transpose()?,
                ..Overheads::of_commands(
                    pair("read_hit", each.read_hit)?,
                    pair("read_miss", each.read_miss)?,
                    pair("write_hit", each.write_hit)?,
                    pair("write_miss", each.write_miss)?,
                )
            },
        })
    }

    fn extra_disconnect(&self, extra: &ExtraDisconnectTable) -> Result<ExtraDisconnect, DriveFileError> {
        Ok(ExtraDisconnect {
            command_ns: self.ns("command", extra.command)?,
            disconnect_ns: self.ns("disconnect", extra.disconnect)?,
            between_ns: self.ns("between", extra.between)?,
            seek_delay_ns: self.ns("seek_delay", extra.seek_delay)?,
        })
    }

    fn segments(&self, cache: &CacheTable) -> Result<SegmentParameters, DriveFileError> {
        let watermark = self.number("read_watermark", cache.read_watermark, [0.0, 1.0])?;
        Ok(SegmentParameters {
            read_ahead: match cache.read_ahead {
                ReadAheadName::None => ReadAhead::None,
                ReadAheadName::Track => ReadAhead::Track,
                ReadAheadName::ThisTrack => ReadAhead::ThisTrack,
                ReadAheadName::Cylinder => ReadAhead::Cylinder,
                ReadAheadName::Segment => ReadAhead::Segment,
            },
            read_ahead_min_blocks: cache.read_ahead_min_blocks,
            read_ahead_max_blocks: cache.read_ahead_max_blocks,
            reads_ahead_after_hit: cache.reads_ahead_after_hit,
            hits_what_is_read: cache.hits_what_is_read,
            keeps_whole_track: cache.keeps_whole_track,
            read_watermark_permille: (watermark * 1000.0).round() as u32,
            keeps_written: cache.keeps_written,
            write_segments: cache.write_segments,
            fast_write_max_blocks: cache.fast_write_max_blocks.unwrap_or(cache.segment_blocks),
            fast_write: match cache.fast_write {
                FastWriteName::Always => FastWrite::Always,
                FastWriteName::WhenIdle => FastWrite::WhenIdle,
            },
            ..SegmentParameters::plain(cache.segments, cache.segment_blocks)
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

/// The zones, and the defects of all of them.
fn zones(keys: Vec<ZoneKey>) -> (Vec<Zone>, Vec<Defect>) {
    let (mut zones, mut defects) = (Vec::new(), Vec::new());
    for key in keys {
        let number = zones.len() as u32;
        let table = match key {
            ZoneKey::Whole(table) => *table,
            ZoneKey::Short([first, last, sectors, track_skew, cylinder_skew, spares]) => ZoneTable {
                cylinders: [first, last],
                sectors,
                track_skew,
                cylinder_skew,
                spares,
                offset: 0,
                reserved: 0,
                slips: vec![],
                remapped: vec![],
            },
        };
        let slips = table.slips.into_iter().map(|sector| (sector, None));
        let remapped = table.remapped.into_iter().map(|[sector, other]| (sector, Some(other)));
        defects.extend(slips.chain(remapped).map(|(sector, replaced_by)| Defect {
            zone: number,
            sector,
            replaced_by,
        }));
        zones.push(Zone {
            first_cylinder: table.cylinders[0],
            last_cylinder: table.cylinders[1],
            sectors_per_track: table.sectors,
            track_skew_sectors: table.track_skew,
            cylinder_skew_sectors: table.cylinder_skew,
            spare_sectors: table.spares,
            offset_sectors: table.offset,
            reserved_sectors: table.reserved,
        });
    }
    (zones, defects)
}
