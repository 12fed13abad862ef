//! Writes the parameters of a hard disk as a drive file, which reads as the same parameters.

use std::fmt::Write;

use super::file::{DriveFileError, parse};
use world_model::drives::{
    AfterReadOrWrite, DriveParameters, FastWrite, FlashParameters, HardDiskParameters, HeadOrder, ReadAhead,
    Scheduling, Seek, Spares,
};

/// Numbers of a long list on each line.
const LINE_NUMBERS: usize = 12;

/// The text of a drive file that [`parse`] reads again; each line of `about` is a comment at its top.
///
/// # Errors
///
/// What no drive file can say: a rate beyond any link.
pub fn checked_text(parameters: &DriveParameters, about: &[String]) -> Result<String, DriveFileError> {
    let text = write(parameters, about);
    parse(&text, "the drive file").map(|_| text)
}

/// The text of a drive file; each line of `about` is a comment at its top.
pub(super) fn write(parameters: &DriveParameters, about: &[String]) -> String {
    let mut text = String::new();
    for line in about {
        // A name in it may have any character, and none ends the comment.
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "# {line}");
    }
    text.push('\n');
    match parameters {
        DriveParameters::HardDisk(disk) => hard_disk(&mut text, disk),
        DriveParameters::Flash(flash) => self::flash(&mut text, flash),
    }
    text
}

/// Microseconds without more digits than there are.
fn us(ns: u32) -> String {
    let text = format!("{}.{:03}", ns / 1000, ns % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn pair(times: AfterReadOrWrite) -> String {
    format!("[{}, {}]", us(times.after_read_ns), us(times.after_write_ns))
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `key = [ items ]`, broken into lines.
fn list(text: &mut String, key: &str, items: &[String]) {
    let _ = match items.len() <= LINE_NUMBERS {
        true => writeln!(text, "{key} = [{}]", items.join(", ")),
        false => {
            let lines = items.chunks(LINE_NUMBERS).map(|chunk| format!("    {},\n", chunk.join(", ")));
            writeln!(text, "{key} = [\n{}]", lines.collect::<String>())
        }
    };
}

fn hard_disk(text: &mut String, disk: &HardDiskParameters) {
    let mut put = |key: &str, value: String| *text += &format!("{key} = {value}\n");
    put("[hard_disk]\nname", quoted(&disk.name));
    put("rpm", format!("{}", 60e9 / f64::from(disk.revolution_ns)));
    put("heads", disk.heads.to_string());
    let serpentine = match disk.head_order {
        HeadOrder::Ascending => "false",
        HeadOrder::Serpentine => "true",
        HeadOrder::SerpentineByZone => "\"by_zone\"",
    };
    put("serpentine", serpentine.into());
    if let Some(len_blocks) = disk.len_blocks {
        put("len_blocks", len_blocks.to_string());
    }
    put("head_switch_us", us(disk.head_switch_ns));
    put("write_settle_us", us(disk.write_settle_ns));
    put("write_seek_min_us", us(disk.write_seek_min_ns));
    put("bus_us_per_block", us(disk.bus_ns_per_block));
    put("queue_depth", disk.queue_depth.to_string());
    let spares = match disk.spares {
        Spares::Zone => "zone",
        Spares::Track => "track",
        Spares::Cylinder => "cylinder",
        Spares::CylinderFront => "cylinder_front",
        Spares::Cylinders(_) => "cylinders",
        Spares::Tracks => "tracks",
    };
    put("spares", quoted(spares));
    if let Spares::Cylinders(count) = disk.spares {
        put("spare_cylinders", count.to_string());
    }
    put("slips_use_spares", disk.slips_use_spares.to_string());
    seek(text, "seek_read", &disk.seek_read);
    if let Some(write) = &disk.seek_write {
        seek(text, "seek_write", write);
    }
    overheads(text, disk);
    cache(text, disk);
    let _ = match disk.scheduling {
        Scheduling::Fcfs => writeln!(text, "\n[hard_disk.scheduling]\npolicy = \"fcfs\""),
        Scheduling::Look => writeln!(text, "\n[hard_disk.scheduling]\npolicy = \"look\""),
        Scheduling::Sptf { ageing_permille } => {
            writeln!(text, "\n[hard_disk.scheduling]\npolicy = \"sptf\"\nageing_permille = {ageing_permille}")
        }
    };
    zones(text, disk);
}

fn seek(text: &mut String, key: &str, seek: &Seek) {
    let _ = writeln!(text, "\n[hard_disk.{key}]");
    match seek {
        Seek::Datasheet { single_ns, average_ns, full_ns } => {
            let _ = writeln!(
                text,
                "single_us = {}\naverage_us = {}\nfull_us = {}",
                us(*single_ns),
                us(*average_ns),
                us(*full_ns)
            );
        }
        Seek::Measured(points) => {
            let _ = writeln!(text, "# Cylinders and µs.");
            let points = points.iter().map(|(distance, ns)| format!("[{distance}, {}]", us(*ns)));
            list(text, "measured_us", &points.collect::<Vec<_>>());
        }
    }
}

fn overheads(text: &mut String, disk: &HardDiskParameters) {
    let times = &disk.overheads;
    let mut put = |key: &str, value: String| *text += &format!("{key} = {value}\n");
    put("\n# After a read and after a write.\n[hard_disk.overhead_us]\nread_hit", pair(times.read_hit));
    put("read_miss", pair(times.read_miss));
    put("write_hit", pair(times.write_hit));
    put("write_miss", pair(times.write_miss));
    put("data_preparation", us(times.data_preparation_ns));
    put("read_completion", us(times.read_completion_ns));
    put("write_completion", us(times.write_completion_ns));
    put("read_disconnect", pair(times.read_disconnect));
    put("write_disconnect", us(times.write_disconnect_ns));
    put("reselect", us(times.reselect_ns));
    if let Some(extra) = &times.extra_write_disconnect {
        let value = format!(
            "{{ command = {}, disconnect = {}, between = {}, seek_delay = {} }}",
            us(extra.command_ns),
            us(extra.disconnect_ns),
            us(extra.between_ns),
            us(extra.seek_delay_ns)
        );
        put("extra_write_disconnect", value);
    }
}

fn cache(text: &mut String, disk: &HardDiskParameters) {
    let cache = &disk.segments;
    let mut put = |key: &str, value: String| *text += &format!("{key} = {value}\n");
    put("\n[hard_disk.cache]\nsegments", cache.count.to_string());
    put("segment_blocks", cache.blocks.to_string());
    let read_ahead = match cache.read_ahead {
        ReadAhead::None => "none",
        ReadAhead::Track => "track",
        ReadAhead::ThisTrack => "this_track",
        ReadAhead::Cylinder => "cylinder",
        ReadAhead::Segment => "segment",
    };
    put("read_ahead", quoted(read_ahead));
    put("read_ahead_min_blocks", cache.read_ahead_min_blocks.to_string());
    if let Some(most) = cache.read_ahead_max_blocks {
        put("read_ahead_max_blocks", most.to_string());
    }
    put("reads_ahead_after_hit", cache.reads_ahead_after_hit.to_string());
    put("hits_what_is_read", cache.hits_what_is_read.to_string());
    put("keeps_whole_track", cache.keeps_whole_track.to_string());
    put("read_watermark", format!("{:?}", f64::from(cache.read_watermark_permille) / 1000.0));
    put("keeps_written", cache.keeps_written.to_string());
    put("write_segments", cache.write_segments.to_string());
    put("fast_write_max_blocks", cache.fast_write_max_blocks.to_string());
    let fast = match cache.fast_write {
        FastWrite::Always => "always",
        FastWrite::WhenIdle => "when_idle",
    };
    put("fast_write", quoted(fast));
}

/// After all other tables: each zone is one of its own.
fn zones(text: &mut String, disk: &HardDiskParameters) {
    for (number, zone) in disk.zones.iter().enumerate() {
        let _ = writeln!(
            text,
            "\n[[hard_disk.zones]]\ncylinders = [{}, {}]\nsectors = {}\ntrack_skew = {}\ncylinder_skew = {}\nspares = {}",
            zone.first_cylinder,
            zone.last_cylinder,
            zone.sectors_per_track,
            zone.track_skew_sectors,
            zone.cylinder_skew_sectors,
            zone.spare_sectors
        );
        for (key, value) in [("offset", zone.offset_sectors), ("reserved", zone.reserved_sectors)] {
            if value > 0 {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        let own = || disk.defects.iter().filter(move |defect| defect.zone as usize == number);
        let slips = own().filter(|defect| defect.replaced_by.is_none());
        let slips: Vec<String> = slips.map(|defect| defect.sector.to_string()).collect();
        let pairs = own().filter_map(|defect| Some(format!("[{}, {}]", defect.sector, defect.replaced_by?)));
        let pairs: Vec<String> = pairs.collect();
        for (key, items) in [("slips", slips), ("remapped", pairs)] {
            if !items.is_empty() {
                list(text, key, &items);
            }
        }
    }
}

fn flash(text: &mut String, flash: &FlashParameters) {
    let mb = |bytes_per_s: u64| format!("{}", bytes_per_s as f64 / 1e6);
    let mut put = |key: &str, value: String| *text += &format!("{key} = {value}\n");
    put("[flash]\nname", quoted(&flash.name));
    put("len_blocks", flash.len_blocks.to_string());
    put("units", flash.units.to_string());
    put("read_us", us(flash.read_ns));
    put("write_us", us(flash.write_ns));
    put("link_read_mb_per_s", mb(flash.link_read_bytes_per_s));
    put("link_write_mb_per_s", mb(flash.link_write_bytes_per_s));
    put("buffer_mib", (flash.buffer_bytes >> 20).to_string());
    put("program_mb_per_s", mb(flash.program_bytes_per_s));
    put("amplification_percent", flash.amplification_percent.to_string());
    put("protected_buffer", flash.protected_buffer.to_string());
}
