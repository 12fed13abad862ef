//! What a layer costs: one drive and one 4 KiB write and read, through no, one and two layers that pass it
//! on.
//!
//! Layers are `block::Device`s with static `async fn`s. Beside them stands the other way to write a seam, a
//! boxed future per call, so that the price of that choice is known. Each figure is the median of 5
//! alternating repeats.
//!
//! ```text
//! cargo bench -p world_real --bench layers
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{BlockError, Device, Geometry, Pieces};
use world::{Buf, Data, Drive, DriveSpec, World};
use world_real::{Options, run};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting touches an integer only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LEN: usize = 4096;
const REPEATS: usize = 5;

/// The bottom: a drive as a device.
struct Bottom(Drive);

/// A layer that passes everything on.
struct Layer<D>(D);

impl Device for Bottom {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.info().len_bytes, block_bytes: self.0.info().block_bytes }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        let got = self.0.read(at, Buf::new(len)).await;
        got.result?;
        out.push(got.buf.freeze());
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        for piece in data.iter() {
            self.0.write(at, piece.clone()).await?;
        }
        Ok(())
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Ok(self.0.zero(at, len).await?)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(self.0.flush().await?)
    }
}

impl<D: Device> Device for Layer<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    #[inline(never)]
    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, len as u64)?;
        self.0.read(at, len, out).await
    }

    #[inline(never)]
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

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<(), BlockError>> + 'a>>;

/// The other way: an object-safe layer, whose every call is a boxed future.
trait BoxedDevice {
    fn read<'a>(&'a self, at: u64, len: usize, out: &'a mut Pieces) -> Boxed<'a>;
    fn write<'a>(&'a self, at: u64, data: &'a Pieces) -> Boxed<'a>;
}

impl BoxedDevice for Bottom {
    fn read<'a>(&'a self, at: u64, len: usize, out: &'a mut Pieces) -> Boxed<'a> {
        Box::pin(Device::read(self, at, len, out))
    }

    fn write<'a>(&'a self, at: u64, data: &'a Pieces) -> Boxed<'a> {
        Box::pin(Device::write(self, at, data))
    }
}

impl BoxedDevice for Layer<Box<dyn BoxedDevice>> {
    fn read<'a>(&'a self, at: u64, len: usize, out: &'a mut Pieces) -> Boxed<'a> {
        Box::pin(async move { self.0.read(at, len, out).await })
    }

    fn write<'a>(&'a self, at: u64, data: &'a Pieces) -> Boxed<'a> {
        Box::pin(async move { self.0.write(at, data).await })
    }
}

/// Nanoseconds and allocations of one write and one read.
#[derive(Clone, Copy, Default)]
struct Cost {
    ns: f64,
    allocations: f64,
}

async fn measure(world: &World, pairs: u64, mut pair: impl AsyncFnMut(u64)) -> Cost {
    for i in 0..pairs / 10 {
        pair(i).await;
    }
    let (begin, allocations) = (world.now(), ALLOCATIONS.load(Ordering::Relaxed));
    for i in 0..pairs {
        pair(i).await;
    }
    let ns = world.now().since(begin).as_nanos() as f64;
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    Cost { ns: ns / pairs as f64, allocations: allocations as f64 / pairs as f64 }
}

async fn through(world: &World, device: &impl Device, pairs: u64) -> Cost {
    let blocks = device.geometry().len_bytes / LEN as u64;
    let data = Pieces::from(Data::copy_of(&[7; LEN]));
    measure(world, pairs, async |i| {
        let at = i % blocks * LEN as u64;
        device.write(at, &data).await.expect("writes");
        let mut out = Pieces::new();
        device.read(at, LEN, &mut out).await.expect("reads");
        black_box(&out);
    })
    .await
}

async fn through_boxed(world: &World, device: &dyn BoxedDevice, blocks: u64, pairs: u64) -> Cost {
    let data = Pieces::from(Data::copy_of(&[7; LEN]));
    measure(world, pairs, async |i| {
        let at = i % blocks * LEN as u64;
        device.write(at, &data).await.expect("writes");
        let mut out = Pieces::new();
        device.read(at, LEN, &mut out).await.expect("reads");
        black_box(&out);
    })
    .await
}

async fn report(world: &World, what: &str, drive: Drive, pairs: u64) {
    let blocks = drive.info().len_bytes / LEN as u64;
    let (none, one, two) =
        (Bottom(drive.clone()), Layer(Bottom(drive.clone())), Layer(Layer(Bottom(drive.clone()))));
    let boxed =
        Layer(Box::new(Layer(Box::new(Bottom(drive)) as Box<dyn BoxedDevice>)) as Box<dyn BoxedDevice>);
    let mut costs = vec![Vec::new(); 4];
    for _ in 0..REPEATS {
        costs[0].push(through(world, &none, pairs).await);
        costs[1].push(through(world, &one, pairs).await);
        costs[2].push(through(world, &two, pairs).await);
        costs[3].push(through_boxed(world, &boxed, blocks, pairs).await);
    }
    println!("{what}: one 4 KiB write and one 4 KiB read, medians of {REPEATS}");
    for (name, costs) in
        ["no layer", "one layer", "two layers", "two layers, boxed futures"].iter().zip(&mut costs)
    {
        costs.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        let cost = costs[REPEATS / 2];
        println!("  {name:<26} {:>8.0} ns  {:.3} allocations", cost.ns, cost.allocations);
    }
}

fn main() {
    let path = std::env::args()
        .filter(|a| a != "--bench")
        .nth(1)
        .unwrap_or_else(|| format!("layers-{}.img", std::process::id()));
    run(Options::default(), |world| async move {
        let memory = DriveSpec::Memory { name: "memory".into(), len_bytes: 4 << 20 };
        report(&world, "memory drive", world.open_drive(&memory).await.expect("opens"), 200_000).await;
        let file = DriveSpec::File { path: path.clone().into(), create_len_bytes: Some(4 << 20) };
        match world.open_drive(&file).await {
            Ok(drive) => {
                report(&world, "file drive", drive, 1_000).await;
                let _ = std::fs::remove_file(&path);
            }
            Err(e) => println!("file drive: skipped: {e}"),
        }
    })
    .expect("runs");
}
