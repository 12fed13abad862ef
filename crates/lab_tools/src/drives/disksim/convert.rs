//! From the blocks of DiskSim to the parameters of the model.

use std::io;

use world_model::drives::{
    AfterReadOrWrite, Defect, DriveParameters, ExtraDisconnect, FastWrite, HardDiskParameters, HeadOrder,
    Overheads, ReadAhead, Scheduling, SegmentParameters, Spares, Zone,
};

use super::error::DisksimError;
use super::seek::seek;
use super::text::{Block, Value};

/// Defects of all zones together.
const DEFECTS_MAX: usize = 1 << 20;

/// A drive, and what of its parameters the model does not have.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The drive.
    pub parameters: DriveParameters,
    /// What is not taken over, each in a few words.
    pub notes: Vec<String>,
}

/// The drive of these blocks.
pub(super) fn drive(
    blocks: &[Block],
    path: &str,
    other: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Converted, DisksimError> {
    let missing = |what: &str| DisksimError::Missing { path: path.into(), what: what.into() };
    let disk = blocks.iter().find(|block| block.kind == "disksim_disk");
    let disk = disk.ok_or_else(|| missing("a block disksim_disk: the file with cache and overheads"))?;
    let model = match disk.find("Model").map(|entry| &entry.value) {
        Some(Value::Block(block)) => block.as_ref(),
        Some(Value::Word(name)) => blocks
            .iter()
            .find(|block| block.kind == "dm_disk" && block.name == *name)
            .ok_or_else(|| missing(&format!("a block dm_disk {name}")))?,
        _ => return Err(missing("Model of the disksim_disk: a block dm_disk")),
    };
    let (layout, mechanics) = (model.block("Layout Model")?, model.block("Mechanical Model")?);
    let heads = model.whole("Number of data surfaces")?;
    let spares = spares(layout)?;
    let (zones, defects) = zones(layout, heads)?;
    let cylinders = zones.last().map_or(1, |zone| zone.last_cylinder + 1);
    let parameters = HardDiskParameters {
        name: disk.name.clone().into(),
        revolution_ns: (60e9 / mechanics.number("Rotation speed (in rpms)")?.max(1.0)).round() as u32,
        heads,
        len_blocks: None,
        zones: zones.into(),
        spares: spares.0,
        slips_use_spares: spares.1,
        defects: defects.into(),
        head_order: match layout.whole("LBN-to-PBN mapping scheme")? {
            0 => HeadOrder::Ascending,
            1 => HeadOrder::SerpentineByZone,
            2 => HeadOrder::Serpentine,
            _ => return layout.wrong("LBN-to-PBN mapping scheme", "must be 0, 1 or 2"),
        },
        head_switch_ns: mechanics.ns("Head switch time")?,
        write_settle_ns: mechanics.ns("Add. write settling delay")?,
        write_seek_min_ns: disk.ns_or_zero("Minimum seek delay")?,
        seek_read: seek(mechanics, cylinders, other)?,
        seek_write: None,
        overheads: overheads(disk)?,
        bus_ns_per_block: disk.ns("Bulk sector transfer time")?,
        segments: segments(disk)?,
        scheduling: scheduling(disk)?,
        queue_depth: disk.whole("Max queue length")?.max(1) as usize,
    };
    let parameters = DriveParameters::HardDisk(parameters);
    parameters
        .check()
        .map_err(|source| DisksimError::Parameters { path: path.into(), source })
        .map(|()| Converted { parameters, notes: notes(disk, mechanics) })
}

/// Where spares are, and whether slipped sectors use them.
fn spares(layout: &Block) -> Result<(Spares, bool), DisksimError> {
    Ok(match layout.whole("Sparing scheme used")? {
        0 | 9 => (Spares::Zone, true),
        1 => (Spares::Tracks, true),
        2 => (Spares::Cylinder, true),
        3 => (Spares::Track, true),
        4 => (Spares::Cylinder, false),
        5 => (Spares::CylinderFront, true),
        6 => (Spares::CylinderFront, false),
        // At the end of the drive: a zone has none of its own.
        7 | 10 => (Spares::Zone, false),
        8 => (Spares::Cylinders(layout.whole("Rangesize for sparing")?.max(1)), true),
        _ => return layout.wrong("Sparing scheme used", "must be 0 to 10"),
    })
}

fn zones(layout: &Block, heads: u32) -> Result<(Vec<Zone>, Vec<Defect>), DisksimError> {
    let scheme = layout.whole("Sparing scheme used")?;
    let Some(Value::List(all)) = layout.find("Zones").map(|entry| &entry.value) else {
        return layout.wrong("Zones", "must be a list of blocks");
    };
    let by_turns = layout.is_word("Skew units", "revolutions");
    let (mut zones, mut defects) = (Vec::new(), Vec::new());
    for value in all {
        let Value::Block(block) = value else { return layout.wrong("Zones", "must be a list of blocks") };
        let zone = zone(block, by_turns, matches!(scheme, 0 | 7))?;
        let number = zones.len() as u32;
        // By tracks, the numbers are those of tracks.
        let track = if scheme == 1 { zone.sectors_per_track } else { 1 };
        if scheme == 0 {
            // Without spare sectors DiskSim takes no notice of defects.
            zones.push(zone);
            continue;
        }
        for slip in block.wholes("slips")? {
            defects.push(Defect { zone: number, sector: slip.saturating_mul(track), replaced_by: None });
        }
        for pair in block.wholes("defects")?.chunks(2) {
            let [from, to] = pair else { return block.wrong("defects", "must be pairs") };
            // A range of sectors where tracks are remapped.
            let of =
                |track_number: u32, sector: u32| track_number.saturating_mul(track).saturating_add(sector);
            defects.extend((0..track).map(|sector| Defect {
                zone: number,
                sector: of(*from, sector),
                replaced_by: Some(of(*to, sector)),
            }));
        }
        if defects.len() > DEFECTS_MAX {
            return block.wrong("defects", "more than a drive has");
        }
        zones.push(zone);
    }
    if heads == 0 {
        return layout.wrong("Zones", "must be on a surface at least");
    }
    Ok((zones, defects))
}

fn zone(block: &Block, by_turns: bool, no_spares: bool) -> Result<Zone, DisksimError> {
    let sectors = block.whole("Blocks per track")?;
    if !(1..=65_536).contains(&sectors) {
        return block.wrong("Blocks per track", "must be 1 to 65536");
    }
    let by_turns = match block.find("Skew units") {
        Some(_) => block.is_word("Skew units", "revolutions"),
        None => by_turns,
    };
    // Whole sectors, as DiskSim takes them.
    let skew = |key: &str| {
        let number = if block.find(key).is_some() { block.number(key)? } else { 0.0 };
        let skew = if by_turns { (number * f64::from(sectors)).round() } else { number.trunc() };
        match (0.0..=65_536.0).contains(&skew) {
            true => Ok(skew as u32),
            false => block.wrong(key, "must be 0 to 65536 sectors"),
        }
    };
    Ok(Zone {
        first_cylinder: block.whole("First cylinder number")?,
        last_cylinder: block.whole("Last cylinder number")?,
        sectors_per_track: sectors,
        track_skew_sectors: skew("Skew for track switch")?,
        cylinder_skew_sectors: skew("Skew for cylinder switch")?,
        spare_sectors: if no_spares { 0 } else { block.whole("Number of spares")? },
        offset_sectors: skew("Offset of first block")?,
        reserved_sectors: block.whole("Empty space at zone front")?,
    })
}

fn overheads(disk: &Block) -> Result<Overheads, DisksimError> {
    let scale = if disk.find("Time scale for overheads").is_some() {
        disk.number("Time scale for overheads")?
    } else {
        1.0
    };
    let each = disk.number_or_zero("Per-request overhead time")?;
    let time = |key: &str, more: f64| {
        let ms = (disk.number_or_zero(key)? + more) * scale;
        match (0.0..=1000.0).contains(&ms) {
            true => Ok((ms * 1e6).round() as u32),
            false => disk.wrong(key, "must be 0 to 1000 ms"),
        }
    };
    let pair = |name: &str, more: f64| {
        Ok::<_, DisksimError>(AfterReadOrWrite {
            after_read_ns: time(&format!("{name} after read"), more)?,
            after_write_ns: time(&format!("{name} after write"), more)?,
        })
    };
    let stays = disk.is_set("Never disconnect")?;
    let away = |ns: u32| if stays { 0 } else { ns };
    let leaves = AfterReadOrWrite {
        after_read_ns: away(time("Read disconnect afterread", 0.0)?),
        after_write_ns: away(time("Read disconnect afterwrite", 0.0)?),
    };
    let extra = ExtraDisconnect {
        command_ns: time("Extradisc command overhead", each)?,
        disconnect_ns: time("Extradisc disconnect overhead", 0.0)?,
        between_ns: time("Extradisc inter-disconnect delay", 0.0)?,
        seek_delay_ns: time("Extradisc seek delta", 0.0)?,
    };
    Ok(Overheads {
        data_preparation_ns: time("Data preparation overhead", 0.0)?,
        read_completion_ns: time("Read completion overhead", 0.0)?,
        write_completion_ns: time("Write completion overhead", 0.0)?,
        read_disconnect: leaves,
        write_disconnect_ns: away(time("Write disconnect overhead", 0.0)?),
        reselect_ns: away(time("First reselect overhead", 0.0)?),
        extra_write_disconnect: (disk.is_set("Extra write disconnect")? && !stays).then_some(extra),
        ..Overheads::of_commands(
            pair("Read hit over.", each)?,
            pair("Read miss over.", each)?,
            pair("Write hit over.", each)?,
            pair("Write miss over.", each)?,
        )
    })
}

fn segments(disk: &Block) -> Result<SegmentParameters, DisksimError> {
    let count = disk.whole("Number of buffer segments")? as usize;
    let blocks = u64::from(disk.whole("Segment size (in blks)")?);
    let most = u64::from(disk.whole("Maximum read-ahead (blks)")?);
    let over_requested = disk.number_or_zero("Read-ahead over requested")?;
    let own_write_segment = disk.is_set("Use separate write segment")?;
    let caches = disk.number("Enable caching in buffer")? != 0.0;
    // As far as a segment goes, if nothing else limits it; behind the request where it may replace it.
    let (read_ahead, most) = match disk.whole("Buffer continuous read")? {
        _ if !caches => (ReadAhead::None, None),
        0 => (ReadAhead::None, None),
        1 => (ReadAhead::ThisTrack, Some(if most > 0 { most } else { blocks })),
        2 => (ReadAhead::Cylinder, Some(if most > 0 { most } else { blocks })),
        3 if most > 0 => (ReadAhead::Segment, Some(most)),
        3 => (ReadAhead::Segment, (over_requested != 0.0).then_some(blocks)),
        4 => (ReadAhead::Track, None),
        _ => return disk.wrong("Buffer continuous read", "must be 0 to 4"),
    };
    let fast = disk.whole("Fast write level")? > 0 && caches;
    let writes = disk.whole("Maximum number of write segments")? as usize;
    let watermark = disk.number_or_zero("High (read) water mark")?;
    if !(0.0..=1.0).contains(&watermark) {
        return disk.wrong("High (read) water mark", "must be 0 to 1");
    }
    Ok(SegmentParameters {
        read_ahead,
        read_ahead_min_blocks: u64::from(disk.whole("Minimum read-ahead (blks)")?).min(blocks),
        read_ahead_max_blocks: most,
        reads_ahead_after_hit: disk.is_set("Read-ahead on idle hit")?,
        hits_what_is_read: disk.is_set("Allow almost read hits")?,
        keeps_whole_track: disk.is_set("Read any free blocks")? && caches,
        read_watermark_permille: (watermark * 1000.0).round() as u32,
        keeps_written: disk.is_set("Allow read hits on write data")? && !own_write_segment && caches,
        write_segments: match (fast, own_write_segment) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => writes.min(count),
        },
        fast_write: match disk.is_set("Allow write prebuffering")? {
            true => FastWrite::Always,
            false => FastWrite::WhenIdle,
        },
        ..SegmentParameters::plain(
            if own_write_segment { count.saturating_sub(1).max(1) } else { count },
            blocks,
        )
    })
}

fn scheduling(disk: &Block) -> Result<Scheduling, DisksimError> {
    let Some(Value::Block(queue)) = disk.find("Scheduler").map(|entry| &entry.value) else {
        return Ok(Scheduling::Fcfs);
    };
    Ok(match queue.whole("Scheduling policy")? {
        1 => Scheduling::Fcfs,
        2 | 3 | 5 | 6 => Scheduling::Look,
        _ => Scheduling::Sptf { ageing_permille: 0 },
    })
}

/// What is set in the files and is not in the model.
fn notes(disk: &Block, mechanics: &Block) -> Vec<String> {
    let of_disk = [
        "Hold bus entire read xfer",
        "Hold bus entire write xfer",
        "Allow sneaky full read hits",
        "Allow sneaky partial read hits",
        "Allow sneaky intermediate read hits",
        "Preseeking level",
        "Low (write) water mark",
        "Stop prefetch in sector",
        "Disconnect write if seek",
        "Other reselect overhead",
        "Extradisc 2nd disconnect overhead",
    ];
    let set = |block: &Block, key: &str| {
        let value = block.find(key).map(|entry| &entry.value);
        matches!(value, Some(Value::Number(number)) if *number != 0.0)
    };
    let mut out: Vec<String> = of_disk.iter().filter(|key| set(disk, key)).map(|key| (*key).into()).collect();
    if set(mechanics, "Percent error in rpms") {
        out.push("Percent error in rpms".into());
    }
    if set(disk, "Immediate buffer read") && !set(disk, "Read any free blocks") {
        out.push("Immediate buffer read".into());
    }
    if set(disk, "Immediate buffer write") {
        out.push("Immediate buffer write".into());
    }
    out
}
