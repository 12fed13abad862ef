//! The workload: several tasks write, zero, unmap, copy, read and flush volumes concurrently, compared with
//! their shadows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Buf, Data, Device, Pieces};
use world::sync::Signal;
use world::{Rng, World};

use crate::shadow::{Moment, Shadow};
use crate::stamp::{SECTOR_BYTES, Stamp};

/// Most operations in flight.
const TASKS: usize = 8;
/// The longest read or write, in sectors: 192 KiB, three of the smallest pages.
const SECTORS_MAX: usize = 384;
/// The longest offload, in sectors: 256 KiB, four of the smallest pages.
const OFFLOAD_SECTORS_MAX: usize = 512;
/// Half of the offloads keep to whole pages of this many sectors: 64 KiB, the smallest page.
const PAGE_SECTORS: usize = 128;
/// The longest compare-and-write, in sectors: 8 KiB; hosts use one sector, of a lock.
const SWAP_SECTORS_MAX: usize = 16;
/// Sectors per read of a full comparison.
const COMPARE_SECTORS: usize = 2048;
/// How often a task checks for a range without operations in flight.
const TRIES: usize = 4;

/// The interface of a volume to the workload.
pub(crate) trait Subject: Device + Clone + 'static {
    /// Releases space; the range then reads as zeros.
    async fn unmap(&self, at: u64, len: u64) -> Result<(), BlockError>;
    /// Copies inside the array.
    async fn copy_from(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError>;
    /// Replaces `old` by `new`, atomically where there is a command for it.
    async fn swap(&self, at: u64, old: &Pieces, new: &Pieces) -> Result<(), BlockError>;
}

/// The shadows of all volumes at a moment.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    shadows: BTreeMap<String, Shadow>,
    versions: u64,
    lost: bool,
}

/// Sectors of a volume: its name, the first, their number.
#[derive(Clone, PartialEq, Eq)]
struct Range {
    volume: String,
    first: usize,
    count: usize,
}

impl Range {
    fn overlaps(&self, other: &Range) -> bool {
        self.volume == other.volume
            && self.first < other.first + other.count
            && other.first < self.first + self.count
    }

    fn at(&self) -> u64 {
        (self.first * SECTOR_BYTES) as u64
    }

    fn len(&self) -> usize {
        self.count * SECTOR_BYTES
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} sectors at {}", self.volume, self.count, self.first)
    }
}

/// The shadows by volume, shared by the tasks, and the ranges in which operations are in flight.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub(crate) shadows: Rc<RefCell<BTreeMap<String, Shadow>>>,
    busy: Rc<RefCell<Vec<Range>>>,
    versions: Rc<Cell<u64>>,
    /// Whether sectors may be lost: a drive is missing or has latent errors.
    may_lose: Rc<Cell<bool>>,
    /// Whether any was. Then writes may fail, too, if they have to copy the rest of a page.
    lost: Rc<Cell<bool>>,
    /// Whether every operation is printed.
    told: Rc<Cell<bool>>,
}

impl From<Snapshot> for Shared {
    fn from(known: Snapshot) -> Shared {
        Shared {
            shadows: Rc::new(RefCell::new(known.shadows)),
            versions: Rc::new(Cell::new(known.versions)),
            lost: Rc::new(Cell::new(known.lost)),
            ..Shared::default()
        }
    }
}

impl Shared {
    /// The current shadows.
    pub(crate) fn known(&self) -> Snapshot {
        let shadows = self.shadows.borrow().clone();
        Snapshot { shadows, versions: self.versions.get(), lost: self.lost.get() }
    }

    /// The run is over, and nothing is in flight any more.
    pub(crate) fn ended(&self, tell: impl Fn(&mut Shadow)) {
        self.busy.borrow_mut().clear();
        self.shadows.borrow_mut().values_mut().for_each(tell);
    }

    /// Prints every operation from now on to standard error.
    pub(crate) fn tell_all(&self) {
        self.told.set(true);
    }

    /// Whether a drive is missing or has latent errors: a write in progress at a crash may then be lost.
    pub(crate) fn set_may_lose(&self, may: bool) {
        self.may_lose.set(may);
    }

    /// Says what happens, when that is wanted.
    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.told.get() {
            eprintln!("{}", text());
        }
    }

    fn with<T>(&self, volume: &str, act: impl FnOnce(&mut Shadow) -> T) -> T {
        act(self.shadows.borrow_mut().get_mut(volume).expect("a volume of the workload has its shadow"))
    }

    /// Compares a read with the shadow.
    fn hold_against(&self, range: &Range, read: &Pieces) {
        assert_eq!(read.len(), range.len(), "read of {range}");
        if let Err(wrong) = self.with(&range.volume, |s| s.check(range.first, &read.joined())) {
            panic!("{}: {wrong}", range.volume);
        }
    }

    fn new_version(&self) -> u64 {
        self.versions.set(self.versions.get() + 1);
        self.versions.get()
    }

    /// A random range of whole units (of this many sectors) without operations in flight: overlapping
    /// operations have no order.
    fn take_range(&self, rng: &mut Rng, unit: usize, longest: usize, volumes: &[String]) -> Option<Range> {
        (0..TRIES).find_map(|_| {
            let volume = &volumes[rng.usize(..volumes.len())];
            let units = self.with(volume, |s| s.sectors()) / unit;
            // Half of the operations meet in a sixteenth of the volume, so that pages are written again and
            // again.
            let span = if rng.bool() { (units / 16).max(1) } else { units };
            let first = rng.usize(..span);
            let longest = (longest / unit).min(units - first);
            let count = if rng.u8(..4) == 0 { 1 } else { rng.usize(1..=longest) };
            self.take(Range { volume: volume.clone(), first: first * unit, count: count * unit })
        })
    }

    fn take(&self, range: Range) -> Option<Range> {
        let mut busy = self.busy.borrow_mut();
        if busy.iter().any(|b| b.overlaps(&range)) {
            return None;
        }
        busy.push(range.clone());
        Some(range)
    }

    fn give_back(&self, range: &Range) {
        self.busy.borrow_mut().retain(|r| r != range);
    }
}

/// Compares a whole volume with its shadow, and decides what a crash left open.
pub(crate) async fn compare_all(device: &impl Device, shared: &Shared, volume: &str) {
    let sectors = shared.with(volume, |s| s.sectors());
    assert!(device.geometry().len_bytes as usize / SECTOR_BYTES >= sectors, "{volume} has lost its end");
    for first in (0..sectors).step_by(COMPARE_SECTORS) {
        let range = Range { volume: volume.to_owned(), first, count: COMPARE_SECTORS.min(sectors - first) };
        compare(device, shared, &range).await;
    }
}

/// After more was lost than redundancy allows, compares every readable sector: every read must be an error or
/// correct.
pub(crate) async fn compare_what_can_be_read(device: &impl Device, shared: &Shared, volume: &str) {
    let sectors = shared.with(volume, |s| s.sectors());
    for first in 0..sectors {
        let range = Range { volume: volume.to_owned(), first, count: 1 };
        let mut out = Pieces::new();
        if device.read(range.at(), range.len(), &mut out).await.is_ok() {
            shared.hold_against(&range, &out);
        }
    }
}

async fn compare(device: &impl Device, shared: &Shared, range: &Range) {
    let mut out = Pieces::new();
    match device.read(range.at(), range.len(), &mut out).await {
        Ok(()) => shared.hold_against(range, &out),
        // Which of its sectors are unreadable, and is that allowed?
        Err(error) => {
            shared.tell(|| format!("read of {range}: {error}"));
            for first in range.first..range.first + range.count {
                compare_sector(device, shared, &Range { first, count: 1, ..range.clone() }).await;
            }
        }
    }
}

async fn compare_sector(device: &impl Device, shared: &Shared, sector: &Range) {
    let mut out = Pieces::new();
    match device.read(sector.at(), sector.len(), &mut out).await {
        Ok(()) => shared.hold_against(sector, &out),
        Err(error) => {
            let known = shared.with(&sector.volume, |s| s.is_lost(sector.first, 1));
            assert!(known || shared.may_lose.get(), "read of {sector}: {error}, and all drives are there");
            let lost = shared.with(&sector.volume, |s| s.lose(sector.first));
            lost.unwrap_or_else(|wrong| panic!("read of {sector}: {error}: {wrong}"));
            shared.lost.set(true);
        }
    }
}

/// Runs operations concurrently until `steps` is used up.
pub(crate) async fn run<S: Subject>(
    world: &World,
    volumes: &BTreeMap<String, S>,
    shared: &Shared,
    steps: &Rc<Cell<u64>>,
) {
    let (ended, count) = (Rc::new(Signal::default()), Rc::new(Cell::new(0)));
    for task in 0..TASKS {
        let (ended, count, steps) = (ended.clone(), count.clone(), steps.clone());
        let rng = world.random(&format!("workload {task}"));
        let names = volumes.keys().cloned().collect();
        let mut task = Task { volumes: volumes.clone(), names, shared: shared.clone(), rng };
        world.spawn(async move {
            while let Some(left) = steps.get().checked_sub(1) {
                steps.set(left);
                task.step().await;
            }
            count.set(count.get() + 1);
            ended.wake_all();
        });
    }
    ended.wait_for(|| (count.get() == TASKS).then_some(())).await;
}

/// Sectors with these stamps.
fn content_of(stamps: &[Stamp]) -> Data {
    let mut buf = Buf::new(stamps.len() * SECTOR_BYTES);
    buf.chunks_exact_mut(SECTOR_BYTES).zip(stamps).for_each(|(sector, stamp)| stamp.fill(sector));
    buf.freeze()
}

/// The same bytes, split as a network might deliver them.
fn in_pieces(data: &Data, rng: &mut Rng) -> Pieces {
    let mut pieces = Pieces::new();
    let mut at = 0;
    while at < data.len() {
        let left = data.len() - at;
        let n = if rng.bool() { left } else { rng.usize(1..=left) };
        pieces.push(data.slice(at..at + n));
        at += n;
    }
    pieces
}

struct Task<S> {
    volumes: BTreeMap<String, S>,
    names: Vec<String>,
    shared: Shared,
    rng: Rng,
}

impl<S: Subject> Task<S> {
    async fn step(&mut self) {
        let block = self.volumes[&self.names[0]].geometry().block_bytes as usize / SECTOR_BYTES;
        let what = self.rng.u8(..16);
        if what == 0 {
            self.flush().await;
            return;
        }
        let offload = (8..12).contains(&what);
        let unit = if offload && self.rng.bool() { PAGE_SECTORS } else { block };
        let longest = if offload { OFFLOAD_SECTORS_MAX } else { SECTORS_MAX };
        let Some(range) = self.shared.take_range(&mut self.rng, unit, longest, &self.names) else { return };
        match what {
            1..7 => self.write(&range).await,
            7 => self.swap(range.clone(), block).await,
            8 => self.zero(&range).await,
            9 => self.unmap(&range).await,
            10..12 => self.copy(&range, unit).await,
            _ => compare(&self.volumes[&range.volume], &self.shared, &range).await,
        }
        self.shared.give_back(&range);
    }

    /// The stamps of a new write of this range, and its content.
    fn new_content(&self, range: &Range) -> (u64, Vec<Stamp>, Data) {
        let version = self.shared.new_version();
        let stamps: Vec<Stamp> =
            (0..range.count).map(|i| Stamp { version, place: (range.first + i) as u64 }).collect();
        let content = content_of(&stamps);
        (version, stamps, content)
    }

    fn begin(&self, range: &Range, what: &str, stamps: Vec<Stamp>) -> Moment {
        let began = self.shared.with(&range.volume, |s| s.begin(range.first, stamps));
        self.shared.tell(|| format!("{range}: {began}: {what}"));
        began
    }

    fn ended(&self, range: &Range, began: Moment, outcome: Result<(), BlockError>) {
        match outcome {
            Ok(()) => {
                self.shared.with(&range.volume, |s| s.complete(range.first, range.count, began));
                self.shared.tell(|| format!("{range}: {began} is done"));
            }
            Err(error) => {
                assert!(self.shared.lost.get(), "{range}: {error}");
                self.shared.with(&range.volume, |s| s.fail(range.first, range.count));
                self.shared.tell(|| format!("{range}: {began} failed: {error}"));
            }
        }
    }

    async fn flush(&mut self) {
        let name = &self.names[self.rng.usize(..self.names.len())];
        let began = self.shared.with(name, Shadow::begin_flush);
        self.shared.tell(|| format!("flush {began} of {name}"));
        self.volumes[name].flush().await.unwrap_or_else(|e| panic!("flush of {name}: {e}"));
        self.shared.with(name, |s| s.complete_flush(began));
        self.shared.tell(|| format!("flush {began} of {name} is done"));
    }

    async fn write(&mut self, range: &Range) {
        let (version, stamps, content) = self.new_content(range);
        let began = self.begin(range, &format!("write {version}"), stamps);
        let data = in_pieces(&content, &mut self.rng);
        let written = self.volumes[&range.volume].write(range.at(), &data).await;
        self.ended(range, began, written);
    }

    /// Replaces the latest content, in the first sectors of the range.
    async fn swap(&self, taken: Range, block: usize) {
        let range = Range { count: taken.count.min(SWAP_SECTORS_MAX / block * block), ..taken };
        if self.shared.with(&range.volume, |s| s.is_lost(range.first, range.count)) {
            return;
        }
        let old = content_of(&self.shared.with(&range.volume, |s| s.latest(range.first, range.count)));
        let (version, stamps, new) = self.new_content(&range);
        let began = self.begin(&range, &format!("swap for {version}"), stamps);
        let swapped = self.volumes[&range.volume].swap(range.at(), &old.into(), &new.into()).await;
        self.ended(&range, began, swapped);
    }

    async fn zero(&self, range: &Range) {
        let began = self.begin(range, "zero", vec![Stamp::default(); range.count]);
        let zeroed = self.volumes[&range.volume].zero(range.at(), range.len() as u64).await;
        self.ended(range, began, zeroed);
    }

    async fn unmap(&self, range: &Range) {
        let began = self.begin(range, "unmap", vec![Stamp::default(); range.count]);
        let unmapped = self.volumes[&range.volume].unmap(range.at(), range.len() as u64).await;
        self.ended(range, began, unmapped);
    }

    /// Copies to `range` from another range.
    async fn copy(&mut self, range: &Range, unit: usize) {
        let Some(source) = self.shared.take_range(&mut self.rng, unit, range.count, &self.names) else {
            return;
        };
        if self.shared.with(&source.volume, |s| s.is_lost(source.first, source.count)) {
            return self.shared.give_back(&source);
        }
        let stamps = self.shared.with(&source.volume, |s| s.latest(source.first, source.count));
        let to_range = Range { count: source.count, ..range.clone() };
        let began = self.begin(&to_range, &format!("copy from {source}"), stamps);
        let (from, to) = (&self.volumes[&source.volume], &self.volumes[&range.volume]);
        let copied = to.copy_from(from, source.at(), range.at(), source.len() as u64).await;
        self.ended(&to_range, began, copied);
        self.shared.give_back(&source);
    }
}
