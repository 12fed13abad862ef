//! The workload: several tasks write, zero, read and flush one device at once, against its shadow.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{Buf, Device, Pieces};
use world::sync::Signal;
use world::{Rng, World};

use super::shadow::Shadow;
use super::stamp::{SECTOR_BYTES, fill};

/// How many operations are in flight at most.
const TASKS: usize = 8;
/// The longest operation, in sectors: 64 KiB.
const SECTORS_MAX: usize = 128;
/// How many sectors one read takes when everything is compared.
const COMPARE_SECTORS: usize = 2048;

/// The shadow, shared by the tasks, and the ranges in which operations are in flight.
#[derive(Clone)]
pub(crate) struct Shared {
    shadow: Rc<RefCell<Shadow>>,
    busy: Rc<RefCell<Vec<(usize, usize)>>>,
}

impl Shared {
    pub(crate) fn new(shadow: Shadow) -> Shared {
        Shared { shadow: Rc::new(RefCell::new(shadow)), busy: Rc::default() }
    }

    /// The run is over, and nothing is in flight any more.
    pub(crate) fn ended(&self, tell: impl FnOnce(&mut Shadow)) {
        self.busy.borrow_mut().clear();
        tell(&mut self.shadow.borrow_mut());
    }

    /// A random range of whole blocks in which nothing is in flight: operations that overlap have no order.
    fn take_range(&self, rng: &mut Rng, block: usize) -> Option<(usize, usize)> {
        let blocks = self.shadow.borrow().sectors() / block;
        // Half of the operations meet in a sixteenth of the device, so that pages are written again and again.
        let span = if rng.bool() { (blocks / 16).max(1) } else { blocks };
        let first = rng.usize(..span) * block;
        let longest = (SECTORS_MAX / block).min(blocks - first / block);
        let count = if rng.u8(..4) == 0 { block } else { rng.usize(1..=longest) * block };
        let mut busy = self.busy.borrow_mut();
        if busy.iter().any(|(f, c)| first < f + c && *f < first + count) {
            return None;
        }
        busy.push((first, count));
        Some((first, count))
    }

    fn give_back(&self, range: (usize, usize)) {
        self.busy.borrow_mut().retain(|r| *r != range);
    }

    fn check(&self, first: usize, bytes: &[u8]) {
        if let Err(wrong) = self.shadow.borrow_mut().check(first, bytes) {
            panic!("{wrong}");
        }
    }
}

/// Compares all of the device with the shadow, and so decides what a crash left undecided.
pub(crate) async fn compare_all(device: &impl Device, shared: &Shared) {
    let sectors = shared.shadow.borrow().sectors();
    for first in (0..sectors).step_by(COMPARE_SECTORS) {
        compare(device, shared, first, COMPARE_SECTORS.min(sectors - first)).await;
    }
}

async fn compare(device: &impl Device, shared: &Shared, first: usize, count: usize) {
    let mut out = Pieces::new();
    let (at, len) = ((first * SECTOR_BYTES) as u64, count * SECTOR_BYTES);
    device.read(at, len, &mut out).await.unwrap_or_else(|e| panic!("read of {len} bytes at {at}: {e}"));
    assert_eq!(out.len(), len, "a read at {at}");
    shared.check(first, &out.joined());
}

/// Does operations until `steps` has run out, several at once.
pub(crate) async fn run(
    world: &World,
    device: impl Device + Clone + 'static,
    shared: &Shared,
    steps: &Rc<Cell<u64>>,
) {
    let (ended, count) = (Rc::new(Signal::default()), Rc::new(Cell::new(0)));
    for task in 0..TASKS {
        let (device, shared, steps) = (device.clone(), shared.clone(), steps.clone());
        let (ended, count) = (ended.clone(), count.clone());
        let mut rng = world.random(&format!("workload {task}"));
        world.spawn(async move {
            while let Some(left) = steps.get().checked_sub(1) {
                steps.set(left);
                step(&device, &shared, &mut rng).await;
            }
            count.set(count.get() + 1);
            ended.wake_all();
        });
    }
    ended.wait_for(|| (count.get() == TASKS).then_some(())).await;
}

async fn step(device: &impl Device, shared: &Shared, rng: &mut Rng) {
    if rng.u8(..16) == 0 {
        let began = shared.shadow.borrow_mut().begin_flush();
        device.flush().await.unwrap_or_else(|e| panic!("flush: {e}"));
        shared.shadow.borrow_mut().complete_flush(began);
        return;
    }
    let block = device.geometry().block_bytes as usize / SECTOR_BYTES;
    let Some((first, count)) = shared.take_range(rng, block) else { return };
    match rng.u8(..10) {
        0..5 => write(device, shared, first, count).await,
        5 => zero(device, shared, first, count).await,
        _ => compare(device, shared, first, count).await,
    }
    shared.give_back((first, count));
}

async fn write(device: &impl Device, shared: &Shared, first: usize, count: usize) {
    let version = shared.shadow.borrow_mut().new_version();
    let mut buf = Buf::new(count * SECTOR_BYTES);
    for (i, sector) in buf.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        fill(sector, version, (first + i) as u64);
    }
    shared.shadow.borrow_mut().begin(first, count, version);
    let written = device.write((first * SECTOR_BYTES) as u64, &buf.freeze().into()).await;
    written.unwrap_or_else(|e| panic!("write of {count} sectors at sector {first}: {e}"));
    shared.shadow.borrow_mut().complete(first, count, version);
}

async fn zero(device: &impl Device, shared: &Shared, first: usize, count: usize) {
    shared.shadow.borrow_mut().begin(first, count, 0);
    let zeroed = device.zero((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64).await;
    zeroed.unwrap_or_else(|e| panic!("zero of {count} sectors at sector {first}: {e}"));
    shared.shadow.borrow_mut().complete(first, count, 0);
}
