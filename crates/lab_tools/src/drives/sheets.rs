//! The two drives of the measured traces as their data sheets have them: how near the model comes with what
//! one knows of any drive.
//!
//! Capacity, surfaces, tracks, speed and zones' rates are in the manuals; the seeks are from memory. The
//! command overhead is the upper end of what is usual (0.1 to 0.2 ms), the cache is cut into segments of
//! about a track, and writes are acknowledged from it, as both drives came. Only the bus is not the drive's:
//! the machine that measured took a block in about 0.1 ms, and that is in every response time.

use std::borrow::Cow;

use world_model::drives::{Datasheet, ReadAhead, Scheduling, SegmentParameters};

/// The usual overhead of a command: 0.1 to 0.2 ms.
const OVERHEAD_NS: u32 = 200_000;

/// A cache of a megabyte or two, a part of it for writes.
const SEGMENTS: SegmentParameters = SegmentParameters {
    read_ahead: ReadAhead::Segment,
    write_segments: 1,
    ..SegmentParameters::plain(4, 512)
};

/// By the name of the trace. `bus_ns_per_block` is that of the machine that measured.
pub fn sheet(trace: &str, bus_ns_per_block: u32) -> Option<Datasheet> {
    let cheetah = Datasheet {
        name: Cow::Borrowed("Cheetah 9LP, data sheet"),
        revolution_ns: 5_973_121,
        heads: 12,
        tracks_per_surface: 6962,
        len_blocks: 17_783_240,
        // 152 to 231 Mbit/s.
        outer_to_inner_percent: 152,
        seek_read_ns: [980_000, 5_400_000, 12_200_000],
        seek_write_ns: [1_240_000, 6_200_000, 13_200_000],
        overhead_ns: OVERHEAD_NS,
        bus_ns_per_block,
        segments: SEGMENTS,
        scheduling: Scheduling::Look,
    };
    match trace {
        "cheetah-9lp" => Some(cheetah),
        "atlas-10k" => Some(Datasheet {
            name: Cow::Borrowed("Atlas 10K, data sheet"),
            revolution_ns: 5_985_037,
            heads: 6,
            tracks_per_surface: 10_042,
            len_blocks: 17_938_986,
            // 18 to 26 MB/s.
            outer_to_inner_percent: 144,
            seek_read_ns: [800_000, 5_000_000, 10_000_000],
            seek_write_ns: [1_300_000, 5_500_000, 10_500_000],
            ..cheetah
        }),
        _ => None,
    }
}
