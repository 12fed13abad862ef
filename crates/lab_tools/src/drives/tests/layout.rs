//! Drives with spare sectors, slipped and remapped ones, and parameter files of DiskSim.

use super::*;
use std::io;

const EXAMPLE: &str = r#"
# A comment.
disksim_disk TEST_validate {
  Model = dm_disk TEST {
    Block count = 100,
    Number of data surfaces = 2,
    Number of cylinders = 40,
    Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Single cylinder seek time = 1.0,
      Full seek curve = test.seek,
      Full strobe seek time = 4.0,
      Add. write settling delay = 0.5,
      Head switch time = 0.2,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
    },
    Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = SCHEME,
      Rangesize for sparing = 4,
      Zones = [
        dm_layout_g1_zone {
          First cylinder number = 0,
          Last cylinder number = 19,
          Blocks per track = 50,
          Offset of first block = 3.0,
          Empty space at zone front = 7,
          Skew for track switch = 5.7,
          Skew for cylinder switch = 9.0,
          Number of spares = 5,
          slips = [ 11, 120, 121 ],
          defects = [ 30, 1998 ]
        },
        dm_layout_g1_zone {
          First cylinder number = 20,
          Last cylinder number = 39,
          Blocks per track = 40,
          Offset of first block = 0.0,
          Empty space at zone front = 0,
          Skew for track switch = 5.0,
          Skew for cylinder switch = 9.0,
          Number of spares = 2,
          slips = [],
          defects = []
        }
      ]
    }
  },
  Bulk sector transfer time = 0.1,
  Max queue length = 1,
  Number of buffer segments = 4,
  Maximum number of write segments = 1,
  Segment size (in blks) = 64,
  Use separate write segment = 0,
  High (read) water mark = 0.25,
  Enable caching in buffer = 1,
  Buffer continuous read = 2,
  Minimum read-ahead (blks) = 0,
  Maximum read-ahead (blks) = 30,
  Read-ahead over requested = 1,
  Read-ahead on idle hit = 0,
  Allow almost read hits = 0,
  Allow read hits on write data = 1,
  Read any free blocks = 0,
  Fast write level = 1,
  Read hit over. after read = 0.1,
  Read hit over. after write = 0.2,
  Read miss over. after read = 0.3,
  Read miss over. after write = 0.4,
  Write hit over. after read = 0.5,
  Write hit over. after write = 0.6,
  Write miss over. after read = 0.7,
  Write miss over. after write = 0.8,
  Read completion overhead = 0.05,
  First reselect overhead = 0.02,
  Preseeking level = 1
}
"#;

fn seek_file(name: &str) -> io::Result<String> {
    match name {
        "test.seek" => Ok("Seek distances measured: 3\n1,\t1.0\n10, 2.0\n20, 3.0\n".into()),
        _ => Err(io::Error::other("no such file")),
    }
}

fn converted(scheme: u32) -> HardDiskParameters {
    let mut text = EXAMPLE.replace("SCHEME", &scheme.to_string());
    if scheme != 9 {
        // Elsewhere that sector has a block, or there are no spare ones.
        text = text.replace("[ 30, 1998 ]", "[]");
    }
    if scheme == 1 {
        // Numbers of tracks.
        text = text.replace("[ 11, 120, 121 ]", "[ 11, 30, 31 ]");
    }
    match disksim::convert(&text, "test.diskspecs", &seek_file).expect("a drive").parameters {
        DriveParameters::HardDisk(disk) => disk,
        DriveParameters::Flash(_) => panic!("DiskSim has no flash"),
    }
}

#[test]
fn a_disksim_drive_has_its_parameters() {
    let disk = converted(9);
    assert_eq!((disk.revolution_ns, disk.heads, disk.queue_depth), (10_000_000, 2, 1));
    assert_eq!(disk.zones[0].track_skew_sectors, 5, "DiskSim takes whole sectors");
    assert_eq!((disk.zones[0].offset_sectors, disk.zones[0].reserved_sectors), (3, 7));
    assert_eq!(disk.defects.len(), 4);
    assert_eq!(disk.segments.read_ahead_max_blocks, Some(30));
    assert_eq!((disk.segments.write_segments, disk.segments.read_watermark_permille), (1, 250));
    assert_eq!(disk.overheads.read_completion_ns, 50_000);
    let Seek::Measured(points) = &disk.seek_read else { panic!("a measured curve") };
    assert_eq!(points[..], [(1, 1_000_000), (10, 2_000_000), (20, 3_000_000), (40, 5_000_000)]);
    let notes = disksim::convert(&EXAMPLE.replace("SCHEME", "9"), "t", &seek_file).expect("a drive").notes;
    assert_eq!(notes, ["Preseeking level"]);
}

#[test]
fn in_each_sparing_scheme_every_block_has_a_sector_of_its_own() {
    for scheme in 0..=10 {
        let disk = converted(scheme);
        let mechanics = Mechanics::new(disk.clone()).expect("a drive");
        let geometry = mechanics.geometry();
        let mut seen = std::collections::BTreeSet::new();
        for block in 0..geometry.len_blocks() {
            let place = geometry.place(block);
            assert!(
                place.cylinder < 40 && place.head < 2 && place.left > 0,
                "scheme {scheme}, block {block}"
            );
            assert!(
                seen.insert((place.cylinder, place.head, place.sector)),
                "scheme {scheme}: block {block} lies on another: {place:?}"
            );
            let track = geometry.track(block);
            assert!(track.contains(&block), "scheme {scheme}: block {block} is not on {track:?}");
            if place.left > 1 {
                let next = geometry.place(block + 1);
                assert_eq!(
                    (next.cylinder, next.head, next.sector),
                    (place.cylinder, place.head, place.sector + 1)
                );
            }
        }
        let whole = 2 * 20 * (50 + 40);
        assert!(seen.len() < whole && seen.len() > whole * 4 / 5, "scheme {scheme}: {}", seen.len());
    }
}

#[test]
fn a_slipped_sector_shifts_those_behind_it_and_a_remapped_one_is_elsewhere() {
    let mechanics = Mechanics::new(converted(9)).expect("a drive");
    let place = |block| {
        let place = mechanics.geometry().place(block);
        (place.cylinder, place.head, place.sector)
    };
    // Seven sectors are reserved; sector 11 is slipped; sector 30 is replaced by 1998, on the last cylinder
    // of the zone.
    assert_eq!([0, 3, 4].map(place), [(0, 0, 7), (0, 0, 10), (0, 0, 12)]);
    assert_eq!([21, 22, 23].map(place), [(0, 0, 29), (19, 0, 48), (0, 0, 31)]);
    // The first cylinder of each zone ascends.
    assert_eq!(place(93), (1, 1, 1));
}

#[test]
fn a_drive_that_is_written_reads_as_the_same() {
    for scheme in 0..=10 {
        let drive = DriveParameters::HardDisk(converted(scheme));
        let text = write(&drive, &["About it.".into()]);
        assert_eq!(parse(&text, "written.toml").expect("it reads"), drive, "scheme {scheme}");
    }
    for (name, _) in CATALOGUE {
        let drive = load(name).expect("a drive");
        assert_eq!(parse(&write(&drive, &[]), "written.toml").expect("it reads"), drive, "{name}");
    }
}

#[test]
fn a_disksim_file_that_is_none_is_refused_with_its_place() {
    let check = |from: &str, to: &str, parts: &[&str]| {
        let text = EXAMPLE.replace("SCHEME", "9").replacen(from, to, 1);
        let line = 1 + EXAMPLE[..EXAMPLE.find(from).unwrap_or_default()].matches('\n').count();
        let message = match disksim::convert(&text, "t.diskspecs", &seek_file) {
            Ok(_) => panic!("{to:?} was taken"),
            Err(e) => e.to_string(),
        };
        for part in parts {
            let part = part.replace("LINE", &line.to_string());
            assert!(message.contains(&part), "{part:?} is not in {message:?}");
        }
    };
    check("= 6000", "= fast", &["t.diskspecs:LINE:", "Rotation speed"]);
    check("Block count = 100", "Block count 100", &["t.diskspecs:", "Block count 100"]);
    check("test.seek", "other.seek", &["t.diskspecs:LINE:", "other.seek: no such file"]);
    check("disksim_disk", "disk_sim", &["missing a block disksim_disk"]);
    check("Number of data surfaces = 2,", "", &["missing Number of data surfaces"]);
    check("First cylinder number = 20", "First cylinder number = 2", &["zone 1", "do not follow"]);
    check("}\n", "", &["t.diskspecs:"]);
    check("Head switch time = 0.2", "Head switch time = -1", &["t.diskspecs:LINE:", "0 to 1000 ms"]);
    check("[ 30, 1998 ]", "[ 30 ]", &["must be pairs"]);
    check("[ 30, 1998 ]", "[ 30, 99999 ]", &["zone 0", "a defect beyond its end"]);
    let deep = "disksim_disk D { Model = ".to_owned() + &"a { b = ".repeat(10_000);
    let message = disksim::convert(&deep, "deep", &seek_file).expect_err("too deep").to_string();
    assert!(message.contains("within each other"), "{message}");
    let circle = disksim::convert("source circle", "circle", &|_| Ok("source circle".into()));
    assert!(circle.expect_err("a circle").to_string().contains("within each other"));
}
