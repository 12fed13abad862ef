//! What an I/O costs in the model world: allocations and nanoseconds through zero, one and two layers that
//! only pass on.
//!
//! `cargo test -p world_model --release --test cost -- --nocapture` prints the row of
//! docs/decisions/0001-worlds.md.

#![expect(clippy::disallowed_methods, reason = "this measures the model from outside, on the real clock")]

use std::time::Duration;

use block::{BlockError, Buf, Device, Geometry, Pieces};
use world::{Drive, DriveSpec};
use world_model::drives::{DriveModel, DriveParameters, Kind as RequestKind, Request, catalogue};
use world_model::{DiskSpec, Model};

const IO_BYTES: usize = 4096;
/// Few enough blocks that all of them exist after the warm-up.
const BLOCKS: u64 = 16;

/// The lowest layer: a drive.
struct Bottom(Drive);

impl Device for Bottom {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.info().len_bytes, block_bytes: self.0.info().block_bytes }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        let filled = self.0.read(at, Buf::new(len)).await;
        filled.result?;
        out.push(filled.buf.freeze());
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        Ok(self.0.write(at, data.joined()).await?)
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Ok(self.0.zero(at, len).await?)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(self.0.flush().await?)
    }
}

/// A layer that checks the range and passes on.
struct PassOn<D>(D);

impl<D: Device> Device for PassOn<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, len as u64)?;
        self.0.read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, data.len() as u64)?;
        self.0.write(at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.0.zero(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.0.flush().await
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
}

/// One operation after the other.
async fn drive_it(device: &impl Device, kind: Kind, ios: u64) {
    let data = Pieces::from(Buf::zeroed(IO_BYTES).freeze());
    for i in 0..ios {
        let at = i % BLOCKS * IO_BYTES as u64;
        match kind {
            Kind::Read => {
                let mut out = Pieces::new();
                device.read(at, IO_BYTES, &mut out).await.expect("read");
                assert_eq!(out.len(), IO_BYTES);
            }
            Kind::Write => device.write(at, &data).await.expect("write"),
        }
    }
}

/// Allocations and real time of one run of `ios` operations through `layers` layers above the bottom.
fn cost_of_run(spec: &DiskSpec, kind: Kind, layers: u32, ios: u64) -> (u64, Duration) {
    let mut time = Duration::ZERO;
    let counted = allocation_counter::measure(|| {
        let model = Model::new(1);
        model.disk("d", spec.clone());
        let start = std::time::Instant::now();
        model.run(async |world| {
            let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("the disk is there");
            match layers {
                0 => drive_it(&Bottom(drive), kind, ios).await,
                1 => drive_it(&PassOn(Bottom(drive)), kind, ios).await,
                _ => drive_it(&PassOn(PassOn(Bottom(drive))), kind, ios).await,
            }
        });
        time = start.elapsed();
    });
    (counted.count_total, time)
}

/// The least of this many measurements counts: whatever else the machine does only adds.
const MEASUREMENTS: usize = 5;

/// What a longer run costs more than a shorter one is the steady state: it may not allocate. Its nanoseconds
/// for each I/O.
fn check_steady_state(spec: &DiskSpec, kind: Kind, layers: u32) -> u128 {
    let (few, many) = (5_000, 25_000);
    // The first run fills the thread's shelf of buffers.
    cost_of_run(spec, kind, layers, few);
    let measured = (0..MEASUREMENTS).map(|_| {
        let (allocations_few, time_few) = cost_of_run(spec, kind, layers, few);
        let (allocations_many, time_many) = cost_of_run(spec, kind, layers, many);
        assert_eq!(allocations_many, allocations_few, "{kind:?} through {layers} layers");
        time_many.saturating_sub(time_few).as_nanos() / u128::from(many - few)
    });
    measured.min().expect("there are measurements")
}

#[test]
fn an_io_in_steady_state_allocates_nothing() {
    println!("model world, 4 KiB, constant latency, one I/O in flight:");
    let spec = DiskSpec::new(1 << 20).with_cache_bytes(64 << 10);
    for kind in [Kind::Read, Kind::Write] {
        for layers in 0..=2 {
            let ns = check_steady_state(&spec, kind, layers);
            println!("  {kind:?} through {layers} layers: {ns} ns, 0 allocations");
        }
    }
}

#[test]
fn an_io_on_a_modelled_drive_allocates_nothing_either() {
    println!("model world, 4 KiB, one I/O in flight:");
    for parameters in [
        DriveParameters::HardDisk(catalogue::CHEETAH_15K5.clone()),
        DriveParameters::Flash(catalogue::SATA_SSD.clone()),
    ] {
        let spec = DiskSpec::drive(&parameters).expect("a drive can be like this");
        for kind in [Kind::Read, Kind::Write] {
            let ns = check_steady_state(&spec, kind, 0);
            println!("  {kind:?} on a {}: {ns} ns, 0 allocations", parameters.name());
        }
    }
}

#[test]
fn a_queue_of_32_on_a_drive_allocates_nothing_once_it_was_full() {
    let mut drive = DriveModel::new(&DriveParameters::HardDisk(catalogue::CHEETAH_15K5.clone()))
        .expect("a drive can be like this");
    let mut done = Vec::new();
    let mut rounds = |from: u64, to: u64| {
        for round in from..to {
            let now_ns = drive.due_ns().unwrap_or_default().max(round * 1_000_000_000);
            for token in 0..32 {
                // Spread by a multiplication with a prime.
                let block = (round * 32 + token) * 7_919_777 % drive.len_blocks();
                let blocks = 8.min(drive.len_blocks() - block);
                drive.submit(now_ns, Request { token, kind: RequestKind::Read, block, blocks }, &mut done);
            }
            while let Some(due_ns) = drive.due_ns() {
                drive.wake(due_ns, &mut done);
            }
            assert_eq!(done.len(), 32);
            done.clear();
        }
    };
    rounds(0, 10);
    let counted = allocation_counter::measure(|| rounds(10, 1000));
    assert_eq!(counted.count_total, 0);
}
