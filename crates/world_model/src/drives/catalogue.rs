//! Drives that tests take without a file. The catalogue's files say the same, with sources; a test of the
//! laboratory compares.

use std::borrow::Cow;

use super::parameters::{
    FlashParameters, HardDiskParameters, HeadOrder, Overheads, ReadAhead, Scheduling, Seek,
    SegmentParameters, Spares, Zone,
};

/// The zones of the Cheetah 15K.5: last cylinder and sectors of a track.
const CHEETAH_15K5_ZONES: [(u32, u32); 14] = [
    (7800, 1200),
    (14_200, 1160),
    (20_200, 1120),
    (25_900, 1104),
    (31_300, 1080),
    (36_400, 1020),
    (41_300, 994),
    (46_000, 960),
    (50_500, 920),
    (54_900, 880),
    (59_100, 840),
    (63_200, 816),
    (67_200, 780),
    (72_170, 720),
];

const fn zones_15k5() -> [Zone; 14] {
    let mut zones = [Zone {
        first_cylinder: 0,
        last_cylinder: 0,
        sectors_per_track: 0,
        track_skew_sectors: 0,
        cylinder_skew_sectors: 0,
        spare_sectors: 0,
        offset_sectors: 0,
        reserved_sectors: 0,
    }; 14];
    let (mut i, mut first) = (0, 0);
    while i < zones.len() {
        let (last, sectors) = CHEETAH_15K5_ZONES[i];
        // 0.92 of the 4 ms of a turn.
        let skew = (sectors * 23).div_ceil(100);
        zones[i] = Zone {
            first_cylinder: first,
            last_cylinder: last,
            sectors_per_track: sectors,
            track_skew_sectors: skew,
            cylinder_skew_sectors: skew,
            spare_sectors: 0,
            offset_sectors: 0,
            reserved_sectors: 0,
        };
        first = last + 1;
        i += 1;
    }
    zones
}

static ZONES_15K5: [Zone; 14] = zones_15k5();

/// Cheetah 15K.5, 146 GB: 15,000 rpm, two platters.
pub static CHEETAH_15K5: HardDiskParameters = HardDiskParameters {
    name: Cow::Borrowed("Cheetah 15K.5 146 GB"),
    revolution_ns: 4_000_000,
    heads: 4,
    zones: Cow::Borrowed(&ZONES_15K5),
    spares: Spares::Zone,
    slips_use_spares: true,
    defects: Cow::Borrowed(&[]),
    head_order: HeadOrder::Ascending,
    len_blocks: None,
    head_switch_ns: 200_000,
    write_settle_ns: 0,
    write_seek_min_ns: 0,
    seek_read: Seek::Datasheet { single_ns: 200_000, average_ns: 3_500_000, full_ns: 7_400_000 },
    seek_write: Some(Seek::Datasheet { single_ns: 400_000, average_ns: 4_000_000, full_ns: 7_900_000 }),
    overheads: Overheads::same(100_000),
    bus_ns_per_block: 1707,
    segments: SegmentParameters { read_ahead: ReadAhead::Segment, ..SegmentParameters::plain(32, 1024) },
    scheduling: Scheduling::Sptf { ageing_permille: 10 },
    queue_depth: 64,
};

/// A SATA drive with flash.
pub static SATA_SSD: FlashParameters = FlashParameters {
    name: Cow::Borrowed("SATA SSD 960 GB"),
    len_blocks: 1_875_385_008,
    units: 8,
    read_ns: 90_000,
    write_ns: 20_000,
    link_read_bytes_per_s: 550_000_000,
    link_write_bytes_per_s: 520_000_000,
    buffer_bytes: 256 << 20,
    program_bytes_per_s: 500_000_000,
    amplification_percent: 250,
    protected_buffer: true,
};

/// An NVMe drive with flash.
pub static NVME_SSD: FlashParameters = FlashParameters {
    name: Cow::Borrowed("NVMe SSD 1.92 TB"),
    len_blocks: 3_750_748_848,
    units: 48,
    read_ns: 85_000,
    write_ns: 15_000,
    link_read_bytes_per_s: 3_300_000_000,
    link_write_bytes_per_s: 2_500_000_000,
    buffer_bytes: 1 << 30,
    program_bytes_per_s: 2_500_000_000,
    amplification_percent: 250,
    protected_buffer: true,
};
