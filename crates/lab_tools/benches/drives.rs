//! What modelled drives do, beside what was measured and published: the tables of docs/model.md.

#![expect(clippy::disallowed_methods, reason = "this measures the model from outside, on the real clock")]

use std::time::Instant;

use lab_tools::drives::{CATALOGUE, Load, load, measure, replay, sheet, trace, traces};
use world_model::drives::{
    DriveParameters, HardDiskParameters, Kind, Mechanics, ParameterError, Scheduling, Seek,
};

/// The five drives with platters whose published numbers are compared.
const HARD_DISKS: [&str; 5] =
    ["cheetah-15k5", "cheetah-15k6", "savvio-10k4", "savvio-10k1", "constellation-2"];

fn hard_disk(name: &str) -> anyhow::Result<HardDiskParameters> {
    match load(name)? {
        DriveParameters::HardDisk(disk) => Ok(disk),
        DriveParameters::Flash(_) => anyhow::bail!("{name} is not a hard disk"),
    }
}

fn main() -> anyhow::Result<()> {
    replays()?;
    seeks()?;
    queues()?;
    streams()?;
    flash()?;
    speed()
}

fn replays() -> anyhow::Result<()> {
    println!("measured traces replayed: mean response, and demerit in percent of the measured mean");
    for (name, text) in traces() {
        let trace = trace::parse(text, name, None)?;
        let extracted = hard_disk(name)?;
        let bus_ns = extracted.bus_ns_per_block;
        let from_sheet = |bus_ns, overhead_ns| {
            let sheet = sheet(name, bus_ns).expect("both drives have a data sheet");
            world_model::drives::Datasheet { overhead_ns, ..sheet }.parameters()
        };
        let rows = [
            ("extracted parameters", extracted.clone()),
            ("the same, seeks by three numbers", three_numbers(extracted)?),
            ("data sheet, overhead 0.2 ms", from_sheet(bus_ns, 200_000)?),
            ("data sheet, overhead 0.1 ms", from_sheet(bus_ns, 100_000)?),
            ("data sheet, bus of 80 MB/s", from_sheet(6400, 200_000)?),
        ];
        for (what, drive) in rows {
            let replay = replay(&DriveParameters::HardDisk(drive), &trace)?;
            println!(
                "  {name:<12} {what:<34} measured {:.3} ms  modelled {:.3} ms  demerit {:.3} ms = {:.2} %",
                replay.measured_mean_ns / 1e6,
                replay.mean_ns / 1e6,
                replay.demerit_ns / 1e6,
                replay.demerit_percent()
            );
        }
    }
    Ok(())
}

/// The drive with a curve through the three numbers of its measured seeks.
fn three_numbers(disk: HardDiskParameters) -> Result<HardDiskParameters, ParameterError> {
    let cylinders = disk.cylinders();
    let mechanics = Mechanics::new(disk)?;
    let curve = mechanics.seek_read();
    let seek_read = Seek::Datasheet {
        single_ns: curve.ns(1),
        average_ns: curve.average_ns(cylinders) as u32,
        full_ns: curve.ns(cylinders - 1),
    };
    Ok(HardDiskParameters { seek_read, ..mechanics.parameters().clone() })
}

fn seeks() -> anyhow::Result<()> {
    println!("average over all pairs of cylinders, and the data sheet's, in ms");
    for name in HARD_DISKS {
        let mechanics = Mechanics::new(hard_disk(name)?)?;
        let parameters = mechanics.parameters();
        let curves = [("read", mechanics.seek_read(), Some(&parameters.seek_read))];
        let writes = [("write", mechanics.seek_write(), parameters.seek_write.as_ref())];
        for (what, curve, seek) in curves.into_iter().chain(writes) {
            let Some(Seek::Datasheet { average_ns, .. }) = seek else { continue };
            let average_ms = curve.average_ns(parameters.cylinders()) as f64 / 1e6;
            println!("  {name:<16} {what:<6} {average_ms:.4}  {:.3}", f64::from(*average_ns) / 1e6);
        }
    }
    Ok(())
}

fn queues() -> anyhow::Result<()> {
    println!("4 KiB random reads per second (and the longest response in ms) at 1, 8 and 32 at once");
    for name in HARD_DISKS {
        for (what, scheduling) in [
            ("FCFS", Scheduling::Fcfs),
            ("LOOK", Scheduling::Look),
            ("SPTF", Scheduling::Sptf { ageing_permille: 0 }),
            ("SPTF, ageing 10", Scheduling::Sptf { ageing_permille: 10 }),
            ("SPTF, ageing 30", Scheduling::Sptf { ageing_permille: 30 }),
        ] {
            let drive = DriveParameters::HardDisk(hard_disk(name)?.with_scheduling(scheduling));
            print!("  {name:<16} {what:<16}");
            for queue_depth in [1, 8, 32] {
                let got = measure(&drive, &Load::random_4k(Kind::Read, queue_depth, 20_000))?;
                print!(" {:>5.0} ({:>4.0})", got.per_s, got.longest_ms);
            }
            println!();
        }
    }
    Ok(())
}

fn streams() -> anyhow::Result<()> {
    println!("one stream of 64 KiB requests, MB/s: outermost and innermost zone, reading and writing");
    for name in HARD_DISKS {
        let drive = load(name)?;
        print!("  {name:<16}");
        for from_share in [0.0, 0.97] {
            for kind in [Kind::Read, Kind::Write] {
                print!(" {:>6.1}", measure(&drive, &Load::stream(kind, from_share))?.mb_per_s);
            }
        }
        println!();
    }
    Ok(())
}

fn flash() -> anyhow::Result<()> {
    println!(
        "flash, 4 KiB random reads per second at 1, 8, 32 and 128 at once; 64 KiB stream in MB/s, reading and writing"
    );
    for name in ["sata-ssd", "nvme-ssd"] {
        let drive = load(name)?;
        print!("  {name:<16}");
        for queue_depth in [1, 8, 32, 128] {
            print!(" {:>7.0}", measure(&drive, &Load::random_4k(Kind::Read, queue_depth, 100_000))?.per_s);
        }
        for kind in [Kind::Read, Kind::Write] {
            let load = Load { queue_depth: 32, requests: 100_000, ..Load::stream(kind, 0.0) };
            print!(" {:>7.0}", measure(&drive, &load)?.mb_per_s);
        }
        println!();
    }
    Ok(())
}

fn speed() -> anyhow::Result<()> {
    println!("what a request costs in real time, in ns, random reads at 1, 8, 32 and 64 at once");
    for (name, _) in CATALOGUE {
        let drive = load(name)?;
        print!("  {name:<16}");
        for queue_depth in [1, 8, 32, 64] {
            let load = Load::random_4k(Kind::Read, queue_depth, 100_000);
            let mut ns = u128::MAX;
            for _ in 0..3 {
                let start = Instant::now();
                measure(&drive, &load)?;
                ns = ns.min(start.elapsed().as_nanos() / u128::from(load.requests));
            }
            print!(" {ns:>6}");
        }
        println!();
    }
    Ok(())
}
