//! Parameters that nobody would choose: they are refused, or they make a drive that works.

use super::*;
use crate::drives::catalogue::{CHEETAH_15K5, SATA_SSD};
use crate::drives::{AfterReadOrWrite, Defect, ExtraDisconnect, FastWrite, FlashParameters};
use world::Rng;

/// Often at the ends of what a number can be.
fn any(rng: &mut Rng, usual: u64, max: u64) -> u64 {
    match rng.u8(..100) {
        0 => 0,
        1 => 1,
        2 => max,
        3 => max - 1,
        4 => rng.u64(..=max),
        _ => usual.min(max),
    }
}

fn any_u32(rng: &mut Rng, usual: u32) -> u32 {
    let max = if rng.bool() { 1_000_000_000 } else { u64::from(u32::MAX) };
    any(rng, usual.into(), max) as u32
}

fn any_seek(rng: &mut Rng) -> Seek {
    if rng.bool() {
        let [single_ns, average_ns, full_ns] =
            [200_000, 3_500_000, 7_400_000].map(|usual| any_u32(rng, usual));
        return Seek::Datasheet { single_ns, average_ns, full_ns };
    }
    let points = (0..rng.u32(..4)).map(|i| (1 + i * any_u32(rng, 500).min(1 << 20), any_u32(rng, 1_000_000)));
    Seek::Measured(points.collect::<Vec<_>>().into())
}

const READ_AHEADS: [ReadAhead; 5] =
    [ReadAhead::None, ReadAhead::Track, ReadAhead::ThisTrack, ReadAhead::Cylinder, ReadAhead::Segment];

fn any_spares(rng: &mut Rng) -> Spares {
    let cylinders = any(rng, 10, 1 << 20) as u32;
    [
        Spares::Zone,
        Spares::Track,
        Spares::Cylinder,
        Spares::CylinderFront,
        Spares::Cylinders(cylinders),
        Spares::Tracks,
    ][rng.usize(..6)]
}

fn any_defects(rng: &mut Rng) -> Vec<Defect> {
    let defect = |rng: &mut Rng| Defect {
        zone: any(rng, 0, 16) as u32,
        sector: rng.u32(..10_000),
        replaced_by: rng.bool().then(|| rng.u32(..20_000)),
    };
    (0..rng.usize(..8)).map(|_| defect(rng)).collect()
}

fn any_hard_disk(rng: &mut Rng) -> HardDiskParameters {
    let usual = &CHEETAH_15K5;
    let zones = usual.zones.iter().take(rng.usize(..=14)).map(|zone| Zone {
        first_cylinder: zone.first_cylinder,
        last_cylinder: if rng.u8(..16) == 0 { any_u32(rng, zone.last_cylinder) } else { zone.last_cylinder },
        sectors_per_track: any(rng, zone.sectors_per_track.into(), 1 << 16) as u32,
        track_skew_sectors: any(rng, zone.track_skew_sectors.into(), 1 << 16) as u32,
        cylinder_skew_sectors: any(rng, zone.cylinder_skew_sectors.into(), 1 << 16) as u32,
        spare_sectors: any(rng, 0, 1000) as u32,
        offset_sectors: any(rng, 0, 1 << 16) as u32,
        reserved_sectors: any(rng, 0, 5000) as u32,
    });
    let zones: Vec<Zone> = zones.collect();
    let pair = AfterReadOrWrite { after_read_ns: any_u32(rng, 1000), after_write_ns: any_u32(rng, 1000) };
    HardDiskParameters {
        zones: zones.into(),
        revolution_ns: any_u32(rng, usual.revolution_ns),
        heads: any(rng, 4, 64) as u32,
        head_order: [HeadOrder::Ascending, HeadOrder::Serpentine, HeadOrder::SerpentineByZone]
            [rng.usize(..3)],
        spares: any_spares(rng),
        slips_use_spares: rng.bool(),
        defects: any_defects(rng).into(),
        write_seek_min_ns: any_u32(rng, 0),
        len_blocks: rng.bool().then(|| any(rng, 1000, u64::MAX)),
        head_switch_ns: any_u32(rng, usual.head_switch_ns),
        write_settle_ns: any_u32(rng, 0),
        seek_read: any_seek(rng),
        seek_write: rng.bool().then(|| any_seek(rng)),
        overheads: Overheads {
            read_miss: pair,
            write_hit: pair,
            read_disconnect: pair,
            reselect_ns: any_u32(rng, 1000),
            extra_write_disconnect: rng
                .bool()
                .then(|| ExtraDisconnect { command_ns: any_u32(rng, 1000), ..ExtraDisconnect::default() }),
            ..usual.overheads
        },
        bus_ns_per_block: any_u32(rng, usual.bus_ns_per_block),
        segments: SegmentParameters {
            count: any(rng, 3, 1025) as usize,
            blocks: any(rng, 100, u64::MAX),
            read_ahead: READ_AHEADS[rng.usize(..READ_AHEADS.len())],
            read_ahead_min_blocks: any(rng, 0, u64::MAX),
            read_ahead_max_blocks: rng.bool().then(|| any(rng, 100, u64::MAX)),
            reads_ahead_after_hit: rng.bool(),
            hits_what_is_read: rng.bool(),
            keeps_whole_track: rng.bool(),
            read_watermark_permille: any(rng, 500, 1001) as u32,
            keeps_written: rng.bool(),
            write_segments: any(rng, 0, 4) as usize,
            fast_write_max_blocks: any(rng, 64, 200),
            fast_write: [FastWrite::Always, FastWrite::WhenIdle][rng.usize(..2)],
        },
        scheduling: [Scheduling::Fcfs, Scheduling::Look, Scheduling::Sptf { ageing_permille: u32::MAX }]
            [rng.usize(..3)],
        queue_depth: any(rng, 4, 65_537) as usize,
        name: usual.name.clone(),
    }
}

fn any_flash(rng: &mut Rng) -> FlashParameters {
    FlashParameters {
        len_blocks: any(rng, 1 << 20, u64::MAX),
        units: any(rng, 8, 4097) as usize,
        read_ns: any_u32(rng, 1000),
        write_ns: any_u32(rng, 1000),
        link_read_bytes_per_s: any(rng, 1 << 30, u64::MAX),
        link_write_bytes_per_s: any(rng, 1 << 30, u64::MAX),
        buffer_bytes: any(rng, 1 << 28, u64::MAX),
        program_bytes_per_s: any(rng, 1 << 30, u64::MAX),
        amplification_percent: any_u32(rng, 100),
        protected_buffer: rng.bool(),
        ..SATA_SSD.clone()
    }
}

/// Each request is answered, none before it came.
fn check_works(parameters: &DriveParameters, rng: &mut Rng) {
    let mut drive = DriveModel::new(parameters).expect("they were checked");
    let len_blocks = drive.len_blocks();
    let mut now_ns = 0;
    for _ in 0..4 {
        let requests: Vec<Request> = (0..6)
            .map(|token| {
                let kinds = [Kind::Read, Kind::Read, Kind::Write, Kind::Write, Kind::Zero, Kind::Flush];
                let block = [0, len_blocks - 1, rng.u64(..len_blocks)][rng.usize(..3)];
                request(token, kinds[rng.usize(..6)], block, (1 + rng.u64(..300)).min(len_blocks - block))
            })
            .collect();
        let done = at_once(&mut drive, now_ns, &requests);
        assert!(done.iter().all(|done| done.at_ns >= now_ns));
        assert!(drive.due_ns().is_none_or(|due_ns| due_ns >= now_ns));
        now_ns = done.last().map_or(now_ns, |done| done.at_ns) + rng.u64(..1_000_000);
    }
}

#[test]
fn parameters_at_the_ends_of_what_numbers_can_be_are_refused_or_work() {
    let (mut refused, mut worked) = (0, 0);
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let parameters = match seed % 3 {
            0 => DriveParameters::Flash(any_flash(&mut rng)),
            _ => DriveParameters::HardDisk(any_hard_disk(&mut rng)),
        };
        match parameters.check() {
            Ok(()) => {
                check_works(&parameters, &mut rng);
                worked += 1;
            }
            Err(e) => {
                assert!(!e.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(worked > 100 && refused > 100, "{worked} worked, {refused} were refused");
}
