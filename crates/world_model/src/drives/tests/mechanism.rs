//! The arm and the platters, reckoned by hand.

use super::*;
use crate::drives::{Datasheet, Geometry, Mechanics};

#[test]
fn a_block_comes_round_once_in_a_turn() {
    let mut drive = model(plain());
    // Sector 7 of the first track begins to pass after 700 µs.
    let first_ns = alone(&mut drive, 0, Kind::Read, 7, 1);
    assert_eq!(first_ns, 800_000);
    let second_ns = alone(&mut drive, first_ns, Kind::Read, 7, 1);
    assert_eq!(second_ns - first_ns, 10_000_000);
    // Many turns later the angle is still exact.
    let late_ns = second_ns + 1_000_000_007 * 10_000_000;
    assert_eq!(alone(&mut drive, late_ns, Kind::Read, 7, 1) - late_ns, 10_000_000);
}

#[test]
fn a_request_is_overhead_seek_rotation_and_transfer() {
    let mut drive = model(HardDiskParameters {
        overheads: Overheads::same(300_000),
        seek_write: Some(Seek::Measured(vec![(1, 1_500_000), (999, 9_500_000)].into())),
        ..plain()
    });
    // Cylinder 1: 0.3 ms and a seek of 1 ms end in the middle of sector 13; sector 20 begins at 2 ms, and 5
    // sectors pass.
    assert_eq!(alone(&mut drive, 0, Kind::Read, CYLINDER + 20, 5), 2_500_000);
    // Back, writing: 0.3 and 1.5 ms from 10 ms on; sector 18 begins just then.
    assert_eq!(alone(&mut drive, 10_000_000, Kind::Write, 18, 1), 11_900_000);
    // Sector 17 has just gone by.
    assert_eq!(alone(&mut drive, 20_000_000, Kind::Write, CYLINDER + 17, 1), 31_800_000);
}

#[test]
fn the_next_track_is_missed_without_skew_and_met_with_it() {
    let crossing = |skew: u32| {
        let zone = Zone { track_skew_sectors: skew, ..plain().zones[0] };
        let mut drive =
            model(HardDiskParameters { zones: vec![zone].into(), head_switch_ns: 450_000, ..plain() });
        alone(&mut drive, 0, Kind::Read, 0, 200)
    };
    assert_eq!(crossing(5), 20_500_000);
    assert_eq!(crossing(4), 30_400_000);
}

#[test]
fn every_block_has_a_place_of_its_own_and_neighbours_follow() {
    let zone = |first, last, sectors, spare| Zone {
        first_cylinder: first,
        last_cylinder: last,
        sectors_per_track: sectors,
        track_skew_sectors: 3,
        cylinder_skew_sectors: 5,
        spare_sectors: spare,
        offset_sectors: 0,
        reserved_sectors: 0,
    };
    let zones = vec![zone(0, 3, 11, 13), zone(5, 6, 7, 0)];
    let disk =
        HardDiskParameters { zones: zones.into(), head_order: HeadOrder::Serpentine, heads: 3, ..plain() };
    let geometry = Geometry::new(&disk);
    assert_eq!(geometry.len_blocks(), (4 * 3 * 11 - 13) + 2 * 3 * 7);
    let mut seen = std::collections::BTreeSet::new();
    for block in 0..geometry.len_blocks() {
        let place = geometry.place(block);
        assert!(seen.insert((place.cylinder, place.head, place.slot)), "block {block} lies on another");
        if place.left > 1 {
            let next = geometry.place(block + 1);
            assert_eq!(
                (next.cylinder, next.head, next.slot),
                (place.cylinder, place.head, (place.slot + 1) % place.sectors),
                "block {block}"
            );
        }
    }
    // Serpentine: the step to the next cylinder stays on its surface.
    let ends = [32, 33].map(|block| geometry.place(block));
    assert_eq!(ends.map(|place| (place.cylinder, place.head)), [(0, 2), (1, 2)]);
}

#[test]
fn a_data_sheet_makes_a_drive_with_its_capacity_seeks_and_rates() {
    let sheet = Datasheet {
        name: Cow::Borrowed("sheet"),
        revolution_ns: 6_000_000,
        heads: 12,
        tracks_per_surface: 6962,
        len_blocks: 17_783_240,
        outer_to_inner_percent: 150,
        seek_read_ns: [800_000, 5_000_000, 10_000_000],
        seek_write_ns: [1_200_000, 5_500_000, 10_500_000],
        overhead_ns: 100_000,
        bus_ns_per_block: 6400,
        segments: plain().segments,
        scheduling: Scheduling::Look,
    };
    let disk = sheet.parameters().expect("a drive can be like this");
    let (outer, inner) = (disk.zones[0].sectors_per_track, disk.zones[15].sectors_per_track);
    // The middles of the outermost and innermost of 16 zones are 1/32 of the way in: 1.484 to 1.016.
    assert!((outer * 1000 / inner).abs_diff(1_462) < 10, "{outer} to {inner}");
    let mechanics = Mechanics::new(disk.clone()).expect("a drive can be like this");
    assert_eq!(mechanics.geometry().len_blocks(), sheet.len_blocks);
    let held: u64 = disk
        .zones
        .iter()
        .map(|z| u64::from(z.last_cylinder - z.first_cylinder + 1) * 12 * u64::from(z.sectors_per_track))
        .sum();
    assert!(held * 1000 / sheet.len_blocks < 1005, "{held} blocks: more than half a percent too many");
    assert!(mechanics.seek_write().average_ns(6962).abs_diff(5_500_000) < 55_000);
    assert!(Datasheet { tracks_per_surface: 0, ..sheet }.parameters().is_err());
}
