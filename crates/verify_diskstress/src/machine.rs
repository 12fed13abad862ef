//! A server in the model world: its processors, a controller that mirrors two drives, reads ahead and gathers
//! writes.
//!
//! ```text
//!   thread (a file each) ──> processors ──> adapter: so many commands ──> controller: one chunk after the other on each drive ──> two modelled drives
//! ```
//!
//! An adapter takes so many commands at a time, and what is beyond waits in the system that runs the load:
//! one that is emulated register by register takes one, and then only one drive of two is at work.
//!
//! The result depends on how long a drive stays with one file, because it moves to another file for every
//! chunk. The controller reads ahead for each stream that it finds, in a window that doubles with each read
//! while the windows of all streams fit its memory: many files have short windows. A guest's reads arrive at
//! the same controller, at the same addresses, so that it finds the same streams.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use anyhow::{Context, Result};
use diskstress::{Direction, Pattern};
use futures::channel::oneshot;
use futures::future::{join_all, try_join_all};
use world::{Buf, Data, Drive, DriveSpec, Instant, Rng, World};
use world_model::station::Station;

use super::scenario::{Kind, Machine};

/// The mirrored drives.
pub(super) const DRIVES: [&str; 2] = ["d0", "d1"];

/// What so many can have at a time, and those who wait for it, first come first served.
struct Turns {
    free: Cell<usize>,
    waiting: RefCell<VecDeque<oneshot::Sender<()>>>,
}

/// One of them, until it is dropped.
struct Turn<'a>(&'a Turns);

impl Turns {
    fn new(count: usize) -> Turns {
        Turns { free: Cell::new(count), waiting: RefCell::default() }
    }

    async fn turn(&self) -> Turn<'_> {
        match self.free.get().checked_sub(1) {
            Some(left) => self.free.set(left),
            None => {
                let (call, called) = oneshot::channel();
                self.waiting.borrow_mut().push_back(call);
                // Whoever has one calls the next; it does not go away before.
                let _ = called.await;
            }
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let next = self.0.waiting.borrow_mut().pop_front();
        match next {
            Some(next) => drop(next.send(())),
            None => self.0.free.set(self.0.free.get() + 1),
        }
    }
}

/// A drive, one chunk after the other.
struct Queue {
    drive: Drive,
    turns: Turns,
}

impl Queue {
    fn len(&self) -> usize {
        usize::from(self.turns.free.get() == 0) + self.turns.waiting.borrow().len()
    }
}

/// What a pattern did on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) seconds: f64,
    pub(super) processor_percent: f64,
}

/// The server with its files.
struct Server {
    world: World,
    queues: [Queue; 2],
    /// Commands that the adapter takes from the system that runs the load.
    adapter: Turns,
    cores: RefCell<Station>,
    machine: Machine,
    io_ns: u64,
    place: u64,
    pattern: Pattern,
    zeros: Data,
}

/// Runs a pattern whose first file begins at `place`; the others follow it.
pub(super) async fn run(
    world: &World,
    machine: &Machine,
    kind: &Kind,
    pattern: &Pattern,
    place: u64,
) -> Result<Done> {
    let open = |name: &str| -> Result<Queue> {
        let drive = world.open_now(&DriveSpec::Modelled { name: name.into() }).context("a modelled drive")?;
        Ok(Queue { drive, turns: Turns::new(1) })
    };
    let server = Rc::new(Server {
        world: world.clone(),
        queues: [open(DRIVES[0])?, open(DRIVES[1])?],
        adapter: Turns::new(kind.outstanding as usize),
        cores: RefCell::new(Station::new(machine.cores as usize)),
        machine: machine.clone(),
        io_ns: kind.transfer_ns(),
        place,
        pattern: pattern.clone(),
        zeros: Buf::shared_zeros(machine.command.0 as usize).freeze(),
    });
    let from = world.now();
    let files = (0..pattern.files).map(|number| {
        let server = server.clone();
        async move { server.file(number).await }
    });
    try_join_all(files).await?;
    let seconds = world.now().since(from).as_secs_f64();
    let busy_s = server.cores.borrow().busy_ns(world.now().0) as f64 / 1e9;
    let processor_percent = 100.0 * busy_s / seconds / f64::from(machine.cores);
    Ok(Done { seconds, processor_percent })
}

impl Server {
    /// A thread's work: its file, chunk by chunk.
    async fn file(&self, number: u32) -> Result<()> {
        let mut rng = self.world.random(&format!("file {number}"));
        let first = self.place + u64::from(number) * self.pattern.file_bytes;
        let (mut at, mut reads) = (0, 0);
        while at < self.pattern.file_bytes {
            let len = self.chunk_bytes(reads).min(self.pattern.file_bytes - at);
            reads += 1;
            match self.pattern.direction {
                Direction::Read => {
                    self.read(number, first + at, len).await?;
                    self.work(len, &mut rng).await;
                }
                Direction::Write => {
                    self.work(len, &mut rng).await;
                    self.write(first + at, len).await?;
                }
            }
            at += len;
        }
        Ok(())
    }

    /// How much of a file is read or written at once, after so many times.
    fn chunk_bytes(&self, times: u32) -> u64 {
        let (machine, files) = (&self.machine, self.pattern.files);
        match self.pattern.direction {
            Direction::Read => machine.read_ahead.window_bytes(files, times, machine.transfer.0),
            Direction::Write => machine.write_back.0,
        }
    }

    /// A chunk, from the drive for which fewer wait.
    async fn read(&self, number: u32, at: u64, len: u64) -> Result<()> {
        let _command = self.adapter.turn().await;
        let own = number as usize % self.queues.len();
        let other = 1 - own;
        let queue = &self.queues[if self.queues[other].len() < self.queues[own].len() { other } else { own }];
        let _turn = queue.turns.turn().await;
        let reads = self.commands(at, len).map(|(at, len)| queue.drive.read(at, Buf::shared_zeros(len)));
        for filled in join_all(reads).await {
            filled.result?;
        }
        Ok(())
    }

    /// A chunk, to both drives.
    async fn write(&self, at: u64, len: u64) -> Result<()> {
        let _command = self.adapter.turn().await;
        try_join_all(self.queues.iter().map(|queue| self.write_one(queue, at, len))).await?;
        Ok(())
    }

    async fn write_one(&self, queue: &Queue, at: u64, len: u64) -> Result<()> {
        let _turn = queue.turns.turn().await;
        let writes = self.commands(at, len).map(|(at, len)| queue.drive.write(at, self.zeros.slice(..len)));
        for written in join_all(writes).await {
            written?;
        }
        Ok(())
    }

    /// As a drive is given it.
    fn commands(&self, at: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
        let most = self.machine.command.0;
        (0..len.div_ceil(most)).map(move |n| (at + n * most, most.min(len - n * most) as usize))
    }

    /// What the transfers of a chunk take of a processor.
    async fn work(&self, len: u64, rng: &mut Rng) {
        let per_kib_ns = self.machine.per_kib.0.as_nanos() as u64;
        let mean = len.div_ceil(self.machine.transfer.0) * self.io_ns + len / 1024 * per_kib_ns;
        let spread = mean * u64::from(self.machine.spread_percent) / 100;
        let work_ns = mean - spread + rng.u64(..=2 * spread);
        let end = self.cores.borrow_mut().serve(self.world.now().0, work_ns);
        self.world.sleep_until(Instant(end)).await;
    }
}
