//! The cache on the drive.

use super::*;

fn cached(segments: SegmentParameters) -> HardDiskParameters {
    HardDiskParameters { segments, bus_ns_per_block: 1000, ..plain() }
}

const READ_AHEAD: SegmentParameters =
    SegmentParameters { read_ahead: ReadAhead::Segment, ..SegmentParameters::plain(2, 50) };

#[test]
fn what_was_read_ahead_comes_over_the_bus() {
    let mut drive = model(cached(READ_AHEAD));
    let done_ns = alone(&mut drive, 0, Kind::Read, 0, 8);
    // The head reads on: sectors 8 to 15 have passed at 1.6 ms.
    let at_ns = 1_700_000;
    assert!(done_ns < at_ns);
    assert_eq!(alone(&mut drive, at_ns, Kind::Read, 8, 8) - at_ns, 8000);
    // Before they have passed, they are waited for, and not for a turn.
    let soon_ns = alone(&mut drive, at_ns, Kind::Read, 20, 4);
    assert_eq!(soon_ns, 2_401_000);
    assert_eq!(drive.usage().hits, 1);
}

#[test]
fn a_drive_that_keeps_the_whole_track_has_what_lay_before_too() {
    let whole = SegmentParameters { keeps_whole_track: true, blocks: 200, ..READ_AHEAD };
    for (segments, hit) in [(whole, true), (READ_AHEAD, false)] {
        let mut drive = model(cached(SegmentParameters { read_ahead: ReadAhead::Track, ..segments }));
        let done_ns = alone(&mut drive, 0, Kind::Read, 50, 4);
        let again_ns = alone(&mut drive, done_ns, Kind::Read, 10, 4);
        assert_eq!(again_ns - done_ns == 4000, hit, "sector 10 passed before sector 50");
    }
}

#[test]
fn the_segment_that_was_not_used_for_longest_is_given_up() {
    let mut drive = model(cached(READ_AHEAD));
    let mut at_ns = 0;
    let mut read = |drive: &mut DriveModel, block| {
        let from_ns = at_ns + 20_000_000;
        at_ns = alone(drive, from_ns, Kind::Read, block, 4);
        at_ns - from_ns
    };
    for block in [0, 1000] {
        assert!(read(&mut drive, block) > 4000, "not there yet");
    }
    assert_eq!([0, 1000, 0].map(|block| read(&mut drive, block)), [4000; 3]);
    read(&mut drive, 5000);
    assert_eq!(read(&mut drive, 0), 4000);
    assert!(read(&mut drive, 1000) > 4000, "two segments hold two runs");
}

#[test]
fn a_write_makes_what_was_read_invalid() {
    let mut drive = model(cached(READ_AHEAD));
    let read_ns = alone(&mut drive, 0, Kind::Read, 0, 4);
    let at_ns = alone(&mut drive, read_ns, Kind::Read, 0, 4);
    assert_eq!(at_ns - read_ns, 4000);
    let written_ns = alone(&mut drive, at_ns, Kind::Write, 2, 1);
    assert!(alone(&mut drive, written_ns, Kind::Read, 0, 4) - written_ns > 4000);
}

#[test]
fn a_write_waits_for_the_medium_unless_the_cache_takes_it_and_then_a_flush_does() {
    let mut off = model(cached(READ_AHEAD));
    assert_eq!(alone(&mut off, 0, Kind::Write, 40, 8), 4_800_000);
    assert_eq!(alone(&mut off, 5_000_000, Kind::Flush, 0, 0), 5_000_000, "nothing is open");

    let mut on = model(cached(SegmentParameters { write_segments: 1, ..READ_AHEAD }));
    let mut done = Vec::new();
    on.submit(0, request(1, Kind::Write, 40, 8), &mut done);
    assert_eq!(done, [Completion { token: 1, at_ns: 8000 }], "over the bus and done");
    let flushed = at_once(&mut on, 8000, &[request(2, Kind::Flush, 0, 0)]);
    assert_eq!(flushed, [Completion { token: 2, at_ns: 4_800_000 }], "when the head has put it there");
}

#[test]
fn writes_that_find_no_segment_wait_for_the_medium() {
    let mut drive = model(cached(SegmentParameters { write_segments: 1, ..READ_AHEAD }));
    let writes = [0, 1, 2].map(|i| request(i, Kind::Write, i * 5000, 8));
    let done = at_once(&mut drive, 0, &writes);
    assert_eq!(done[0].at_ns, 8000);
    assert!(done[1..].iter().all(|done| done.at_ns > 1_000_000), "{done:?}");
}
