//! Drives of the catalogue, measured as if nothing were known of them.

use lab_core::interrupt::Stop;
use world::{Buf, DriveSpec};
use world_model::drives::{DriveParameters, FlashParameters, Kind};
use world_model::{DiskSpec, Model};

use super::measure::{self, MeasureError, Measurement, Medium, Plan, Writing};
use super::*;

fn measured(spec: DiskSpec, plan: Plan, before: Option<u64>) -> Result<Measurement, MeasureError> {
    measured_until(spec, plan, before, &Stop::default())
}

fn measured_until(
    spec: DiskSpec,
    plan: Plan,
    before: Option<u64>,
    stop: &Stop,
) -> Result<Measurement, MeasureError> {
    let (model, stop) = (Model::new(1), stop.clone());
    model.disk("d", spec);
    model.run(|world| async move {
        let drive = world.open_drive(&DriveSpec::Modelled { name: "d".into() }).await.expect("it is there");
        if let Some(at) = before {
            drive.write(at, Buf::copy_of(&[1; 4096]).freeze()).await.expect("written");
        }
        measure::measure(&world, &drive, plan, &stop, &mut |_| {}).await
    })
}

fn figures(drive: &DriveParameters, loads: &[closed_loop::Load]) -> Vec<closed_loop::Measured> {
    loads.iter().map(|load| measure(drive, load).expect("a drive")).collect()
}

/// Of 100, how far the second is from the first.
fn off(original: f64, model: f64) -> f64 {
    100.0 * (model / original - 1.0).abs()
}

#[test]
fn a_measured_disk_answers_as_the_original() {
    let plan = Plan { requests: 1500, writes: Writing::None };
    for name in ["cheetah-15k5", "savvio-10k4", "constellation-2"] {
        let original = load(name).expect("a drive");
        let measurement =
            measured(DiskSpec::drive(&original).expect("a drive"), plan, None).expect("measured");
        let model = measurement.model(name).expect("a model").parameters;
        let loads = [0.0, 0.45, 0.9].map(|share| Load::stream(Kind::Read, share));
        for (is, was) in figures(&model, &loads).iter().zip(figures(&original, &loads)) {
            let off = off(was.mb_per_s, is.mb_per_s);
            assert!(off <= 5.0, "{name}: {:.1} MB/s of {:.1}, {off:.1} % off", is.mb_per_s, was.mb_per_s);
        }
        let random = [Load::random_4k(Kind::Read, 1, 4000)];
        let (is, was) = (figures(&model, &random)[0], figures(&original, &random)[0]);
        assert!(off(was.per_s, is.per_s) <= 5.0, "{name}: {:.1} reads per s of {:.1}", is.per_s, was.per_s);
    }
}

#[test]
fn measured_flash_answers_as_the_original() {
    for (name, writes) in [("sata-ssd", Writing::None), ("nvme-ssd", Writing::Any)] {
        let original = load(name).expect("a drive");
        let plan = Plan { requests: 1500, writes };
        let measurement =
            measured(DiskSpec::drive(&original).expect("a drive"), plan, None).expect("measured");
        let model = measurement.model(name).expect("a model").parameters;
        let kinds = if writes == Writing::Any { &[Kind::Read, Kind::Write][..] } else { &[Kind::Read] };
        for kind in kinds {
            for depth in [1, 4, 32] {
                let load = [Load::random_4k(*kind, depth, 4000)];
                let (is, was) = (figures(&model, &load)[0], figures(&original, &load)[0]);
                let off = off(was.per_s, is.per_s);
                assert!(off <= 10.0, "{name}: {kind:?} {depth}: {:.0} of {:.0}", is.per_s, was.per_s);
            }
        }
    }
}

/// One request more was counted than the time had: 0.8 % too much.
#[test]
fn a_stream_is_counted_over_the_time_of_its_requests() {
    let original = load("nvme-ssd").expect("a drive");
    let DriveParameters::Flash(flash) = &original else { panic!("it has no arm") };
    let plan = Plan { requests: 900, writes: Writing::None };
    let measurement = measured(DiskSpec::drive(&original).expect("a drive"), plan, None).expect("measured");
    let Medium::Flash(figures) = measurement.medium else { panic!("it has no arm") };
    let off = off(flash.link_read_bytes_per_s as f64, figures.read_rate);
    assert!(off <= 0.1, "{} of {}", figures.read_rate, flash.link_read_bytes_per_s);
}

#[test]
fn writes_are_measured_only_where_nothing_is_lost() {
    let len = 72 << 20;
    let measured = |writes, before| measured(DiskSpec::new(len), Plan { requests: 900, writes }, before);
    // The ends and some places between them were looked at: half a GiB in the middle of a drive was lost.
    for at in [0, 5 << 20, 40 << 20, len - 4096] {
        let refused = measured(Writing::IfBlank, Some(at)).expect_err("it holds data");
        assert!(matches!(refused, MeasureError::NotBlank(from) if from == at >> 20 << 20), "{at}: {refused}");
    }
    let has_writes = |writes, before| match measured(writes, before).expect("measured").medium {
        Medium::Flash(figures) => figures.writes.is_some(),
        Medium::HardDisk { .. } => panic!("it has no arm"),
    };
    assert!(!has_writes(Writing::None, Some(0)));
    assert!(has_writes(Writing::IfBlank, None) && has_writes(Writing::Any, Some(0)));
}

#[test]
fn a_drive_that_is_too_small_is_refused() {
    let refused = measured(DiskSpec::new(1 << 20), Plan { requests: 900, writes: Writing::None }, None);
    assert!(matches!(refused.expect_err("too small"), MeasureError::Small(_)));
}

/// The first chunks of a small drive were issued and not waited for: the link was as fast as a call.
#[test]
fn a_chunk_that_is_smaller_than_the_queue_is_counted_when_it_is_written() {
    let DriveParameters::Flash(flash) = load("nvme-ssd").expect("a drive") else { panic!("it has no arm") };
    let link = flash.link_write_bytes_per_s;
    let small = DriveParameters::Flash(FlashParameters { len_blocks: (72 << 20) / 512, ..flash });
    let plan = Plan { requests: 900, writes: Writing::Any };
    let measurement = measured(DiskSpec::drive(&small).expect("a drive"), plan, None).expect("measured");
    let Medium::Flash(figures) = measurement.medium else { panic!("it has no arm") };
    let rates = figures.writes.expect("measured").rates;
    assert!(rates.iter().all(|rate| *rate <= 1.01 * link as f64), "{rates:?} through {link}");
}

/// Ctrl-C ended the process, and a minute or two of single requests were lost.
#[test]
fn what_was_measured_before_a_stop_is_kept_or_said() {
    let stopped = |name: &str, looks| {
        let spec = DiskSpec::drive(&load(name).expect("a drive")).expect("a drive");
        let plan = Plan { requests: 1500, writes: Writing::None };
        measured_until(spec, plan, None, &Stop::after_looks(looks))
    };
    let measurement = stopped("cheetah-15k5", 900).expect("some requests");
    let Medium::HardDisk { trace, rates } = &measurement.medium else { panic!("it has an arm") };
    assert_eq!((trace.requests.len(), rates.len()), (800, 0), "100 looks were of the sample");
    let about = measurement.model("d").expect("a model").about;
    assert!(about[0].starts_with("Stopped before the sequential reads. Measured with 800"), "{about:?}");
    let short = stopped("cheetah-15k5", 300).expect("some requests").model("d").expect_err("too few");
    assert_eq!(short.to_string(), "a trace of 200 requests: at least 500 are needed");
    let nothing = stopped("cheetah-15k5", 50).expect_err("nothing").to_string();
    assert_eq!(nothing, "stopped before anything was measured");
    let said = stopped("sata-ssd", 102).expect_err("no rates").to_string();
    assert!(
        said.starts_with("stopped before the sequential requests were measured; random reads: "),
        "{said}"
    );
    assert!(said.contains("with 1 under way, ") && said.ends_with(" per s with 2 under way"), "{said}");
}
