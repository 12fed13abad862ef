//! Bars: what the model may be off from measured traces, data sheets and published tables.

use super::*;
use fit::Known;
use world_model::drives::{BLOCK_BYTES, Datasheet, Kind, Scheduling};

fn demerit_percent(drive: HardDiskParameters, trace: &str) -> f64 {
    let (_, text) = traces().into_iter().find(|(name, _)| *name == trace).expect("a trace");
    let trace = trace::parse(text, "trace", None).expect("a trace");
    assert_eq!(trace.requests.len(), 10_000);
    replay(&DriveParameters::HardDisk(drive), &trace).expect("a drive").demerit_percent()
}

#[test]
fn measured_traces_are_met_with_the_extracted_parameters() {
    // The validation set's own simulator reaches 2.5 and 6.9 %.
    for (name, bar) in [("cheetah-9lp", 5.0), ("atlas-10k", 7.5)] {
        let percent = demerit_percent(hard_disk(name), name);
        assert!(percent <= bar, "{name}: {percent:.2} %");
    }
}

#[test]
fn measured_traces_are_met_within_ten_percent_by_data_sheets_and_the_bus_of_the_machine_that_measured() {
    for name in ["cheetah-9lp", "atlas-10k"] {
        let sheet = sheet(name, hard_disk(name).bus_ns_per_block).expect("it has a data sheet");
        let percent = demerit_percent(sheet.parameters().expect("a drive"), name);
        assert!(percent <= 10.0, "{name}: {percent:.2} %");
    }
}

#[test]
fn the_demerit_tells_a_wrong_drive_from_the_right_one() {
    let right = hard_disk("cheetah-9lp");
    // 7,200 rpm.
    let slower = HardDiskParameters { revolution_ns: 8_333_333, ..right.clone() };
    assert!(demerit_percent(slower, "cheetah-9lp") > 15.0);
    let Some(sheet) = sheet("cheetah-9lp", right.bus_ns_per_block) else { panic!("it has a data sheet") };
    let seeks = Datasheet { seek_read_ns: [980_000, 8_000_000, 18_000_000], ..sheet };
    assert!(demerit_percent(seeks.parameters().expect("a drive"), "cheetah-9lp") > 15.0);
}

#[test]
fn a_demerit_is_the_distance_of_equal_ranks() {
    use super::super::replay::demerit;
    assert_eq!(demerit(&[1, 2, 3], &[3, 1, 2]), 0.0);
    assert_eq!(demerit(&[10, 20], &[13, 24]), (12.5_f64).sqrt());
}

/// Sustained MB/s in the outermost and the innermost zone; for the drives whose average track only is
/// published, of one track.
const RATES: [(&str, bool, [f64; 2]); 5] = [
    ("cheetah-15k5", true, [125.0, 75.0]),
    ("cheetah-15k6", true, [171.0, 112.0]),
    ("constellation-2", true, [163.0, 84.0]),
    ("savvio-10k4", false, [135.0, 90.0]),
    ("savvio-10k1", false, [72.0, 48.0]),
];

#[test]
fn streams_have_the_sustained_rates_of_the_data_sheets() {
    for (name, sustained, published) in RATES {
        let disk = hard_disk(name);
        let ends = [disk.zones[0], disk.zones[disk.zones.len() - 1]];
        for (i, (zone, published)) in ends.into_iter().zip(published).enumerate() {
            let drive = DriveParameters::HardDisk(disk.clone());
            let track =
                f64::from(zone.sectors_per_track) * BLOCK_BYTES as f64 * 1e3 / disk.revolution_ns as f64;
            let load = Load::stream(Kind::Read, [0.0, 0.97][i]);
            let stream = measure(&drive, &load).expect("a drive").mb_per_s;
            let got = if sustained { stream } else { track };
            assert!((got / published - 1.0).abs() <= 0.01, "{name}: {got:.1} MB/s of {published}");
            assert!(stream > track * 0.8 && stream < track, "{name}: {stream:.1} MB/s of {track:.1}");
        }
    }
}

#[test]
fn capacities_are_those_of_the_data_sheets() {
    for (name, gb) in [("cheetah-15k5", 146.8), ("cheetah-15k6", 450.0), ("savvio-10k4", 600.0)] {
        let mechanics = Mechanics::new(hard_disk(name)).expect("a drive");
        let got = (mechanics.geometry().len_blocks() * BLOCK_BYTES) as f64 / 1e9;
        assert!((got / gb - 1.0).abs() <= 0.03, "{name}: {got:.1} GB");
    }
}

#[test]
fn the_average_seek_of_each_file_is_its_data_sheets_within_a_percent() {
    for name in ["cheetah-15k5", "cheetah-15k6", "savvio-10k4", "savvio-10k1", "constellation-2"] {
        let mechanics = Mechanics::new(hard_disk(name)).expect("a drive");
        let parameters = mechanics.parameters();
        for (seek, curve) in [
            (Some(&parameters.seek_read), mechanics.seek_read()),
            (parameters.seek_write.as_ref(), mechanics.seek_write()),
        ] {
            let Some(Seek::Datasheet { average_ns, .. }) = seek else { panic!("{name} has a data sheet") };
            let got = curve.average_ns(parameters.cylinders()) as f64;
            assert!((got / f64::from(*average_ns) - 1.0).abs() <= 0.01, "{name}: {got} ns");
        }
    }
}

fn reads_per_s(disk: &HardDiskParameters, scheduling: Scheduling, queue_depth: u64) -> Measured {
    let drive = DriveParameters::HardDisk(disk.clone().with_scheduling(scheduling));
    measure(&drive, &Load::random_4k(Kind::Read, queue_depth, 8_000)).expect("a drive")
}

const SPTF: Scheduling = Scheduling::Sptf { ageing_permille: 0 };

/// Random reads of 4 KiB per second, SPTF, 1, 8 and 32 at once.
const PUBLISHED: [(&str, [f64; 3]); 3] = [
    ("cheetah-15k5", [179.0, 317.0, 476.0]),
    ("savvio-10k4", [143.0, 259.0, 382.0]),
    ("savvio-10k1", [139.0, 247.0, 375.0]),
];

#[test]
fn random_reads_are_as_many_as_published() {
    for (name, published) in PUBLISHED {
        let disk = hard_disk(name);
        for ((queue_depth, published), off_max) in
            [1, 8, 32].into_iter().zip(published).zip([0.02, 0.05, 0.07])
        {
            let got = reads_per_s(&disk, SPTF, queue_depth).per_s;
            let off = (got / published - 1.0).abs();
            assert!(off <= off_max, "{name} at {queue_depth}: {got:.0} of {published}");
        }
    }
    // The published 79 of "a drive with 7,200 rpm" is what an average seek of 8.5 ms gives; the
    // Constellation.2 reads with 7.5.
    let slow = hard_disk("constellation-2");
    let slow = HardDiskParameters { seek_read: slow.seek_write.clone().expect("its own"), ..slow };
    let got = reads_per_s(&slow, SPTF, 1).per_s;
    assert!((got / 79.0 - 1.0).abs() <= 0.02, "{got:.1}");
}

#[test]
fn with_deep_queues_the_least_time_beats_the_arms_way_and_that_the_order_of_arrival() {
    for name in ["cheetah-15k5", "savvio-10k4", "constellation-2"] {
        let disk = hard_disk(name);
        let at_32 = [Scheduling::Fcfs, Scheduling::Look, SPTF]
            .map(|scheduling| reads_per_s(&disk, scheduling, 32).per_s);
        assert!(at_32[1] > at_32[0] * 1.5 && at_32[2] > at_32[1] * 1.3, "{name}: {at_32:?}");
    }
    // FCFS does not profit from a queue at all.
    let disk = hard_disk("cheetah-15k5");
    let fcfs = [1, 8, 32].map(|queue_depth| reads_per_s(&disk, Scheduling::Fcfs, queue_depth).per_s);
    assert!((fcfs[2] / fcfs[0] - 1.0).abs() < 0.01 && (fcfs[0] / 179.0 - 1.0).abs() < 0.02, "{fcfs:?}");
    let look = [8, 32].map(|queue_depth| reads_per_s(&disk, Scheduling::Look, queue_depth).per_s);
    assert!((look[0] / 271.0 - 1.0).abs() < 0.05 && (look[1] / 331.0 - 1.0).abs() < 0.05, "{look:?}");
}

#[test]
fn ageing_shortens_the_longest_wait_for_little() {
    let disk = hard_disk("cheetah-15k5");
    let [none, some] =
        [0, 10].map(|ageing_permille| reads_per_s(&disk, Scheduling::Sptf { ageing_permille }, 32));
    assert!(some.longest_ms < none.longest_ms / 2.0, "{} of {}", some.longest_ms, none.longest_ms);
    assert!(some.per_s > none.per_s * 0.95, "{} of {}", some.per_s, none.per_s);
}

#[test]
fn the_same_load_twice_gives_the_same_figures() {
    let drive = load("savvio-10k1").expect("a drive");
    let load = Load::random_4k(Kind::Write, 16, 2000);
    assert_eq!(measure(&drive, &load).expect("a drive"), measure(&drive, &load).expect("a drive"));
}

#[test]
fn a_drive_that_is_fitted_to_a_trace_has_a_demerit_of_ten_percent_at_most() {
    for (name, text) in traces() {
        let trace = trace::parse(text, name, None).expect("a trace");
        let fitted = fit::fit(&trace, &Known { name: name.into(), ..Known::default() }).expect("a fit");
        let (percent, held_out) = (fitted.replay.demerit_percent(), fitted.held_out_percent);
        assert!(percent <= 10.0 && held_out <= 10.0, "{name}: {percent:.2} %, held out {held_out:.2} %");
    }
}
