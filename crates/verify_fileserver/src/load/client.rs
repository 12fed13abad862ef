//! One client: its workers, each a thread with a connection of its own, from one moment on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::agent::orders;
use super::outcome::{ClientOutcome, Counted, Outcome, Placed, merge};
use super::share::{Address, ShareError};
use super::wire::Part;
use super::worker::{Did, Orders, Worker, prepare};
use lab_core::interrupt::Stop;
use lab_tools::files::Plan;

/// Of one client.
pub(super) const WORKERS_MAX: u32 = 256;

/// A client that is ready to begin.
pub(super) struct Client {
    orders: Orders,
    address: Address,
    /// The numbers of its workers, of those of all clients.
    numbers: Vec<(u32, u32)>,
}

/// A set as a share has it, by its description.
pub(super) fn plan_of(address: &Address) -> Result<Plan, ShareError> {
    let wrong = |cause: String| ShareError::Address(format!("set.json: {cause}"));
    let text = super::share::small_file(&mut *address.open()?, "set.json")?;
    let spec = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    Plan::new(spec).map_err(|e| wrong(e.to_string()))
}

/// One client, here.
pub(crate) fn run_here(
    share: &Address,
    local: Option<PathBuf>,
    part: &Part,
    stop: &Stop,
) -> Result<Outcome, ShareError> {
    let orders = orders(plan_of(share)?, part, local);
    let client = Client::prepare(share.clone(), orders, (0, 1), part.workers, stop)?;
    let epoch = Instant::now();
    let outcome = client.run(epoch, epoch, stop)?;
    let (began_ns, ended_ns) = (outcome.began_ns, outcome.ended_ns);
    Ok(merge(&[Placed { outcome, began_ns, ended_ns, clock_error_ns: 0 }], part.workers))
}

impl Client {
    /// With its local copies made. `client` is its number, of so many.
    pub(super) fn prepare(
        address: Address,
        orders: Orders,
        (client, clients): (u32, u32),
        workers: u32,
        stop: &Stop,
    ) -> Result<Client, ShareError> {
        // Neighbouring trees are on different clients.
        let numbers: Vec<(u32, u32)> =
            (0..workers).map(|w| (w * clients + client, clients * workers)).collect();
        prepare(&orders, &numbers, stop)?;
        Ok(Client { orders, address, numbers })
    }

    /// Runs all workers from `at` on. Times of the outcome are nanoseconds since `epoch`.
    pub(super) fn run(&self, epoch: Instant, at: Instant, stop: &Stop) -> Result<ClientOutcome, ShareError> {
        let done: Vec<Result<(Did, Instant, Instant), ShareError>> = std::thread::scope(|scope| {
            let one = |number: &(u32, u32)| {
                let number = *number;
                scope.spawn(move || self.work(number, at, stop))
            };
            let threads: Vec<_> = self.numbers.iter().map(one).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err(ShareError::Address("a worker did not end".into())))
            };
            threads.into_iter().map(join).collect()
        });
        let mut did = Vec::new();
        for one in done {
            did.push(one?);
        }
        let ns = |moment: Instant| moment.saturating_duration_since(epoch).as_nanos() as u64;
        let began_ns = did.iter().map(|(_, began, _)| ns(*began)).min().unwrap_or_default();
        let ended_ns = did.iter().map(|(_, _, ended)| ns(*ended)).max().unwrap_or_default();
        Ok(outcome(did.iter().map(|(did, _, _)| did), began_ns, ended_ns))
    }

    fn work(
        &self,
        number: (u32, u32),
        at: Instant,
        stop: &Stop,
    ) -> Result<(Did, Instant, Instant), ShareError> {
        let share = self.address.open().inspect_err(|_| stop.ask())?;
        let mut worker = Worker { orders: &self.orders, share, stop, did: Did::new() };
        wait_until(at, stop);
        let began = Instant::now();
        // One that fails ends all: a server with fewer workers is another load.
        worker.work(number, at).inspect_err(|_| stop.ask())?;
        Ok((worker.did, began, Instant::now()))
    }
}

/// Longest sleep between two checks for a stop request.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn wait_until(at: Instant, stop: &Stop) {
    while !stop.is_asked() {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

fn outcome<'a>(did: impl Iterator<Item = &'a Did>, began_ns: u64, ended_ns: u64) -> ClientOutcome {
    let (mut reads, mut writes) = (Counted::new(), Counted::new());
    let mut out = ClientOutcome { began_ns, ended_ns, ..ClientOutcome::default() };
    for one in did {
        reads.merge(&one.reads);
        writes.merge(&one.writes);
        out.folders += one.folders;
        out.mismatches += one.mismatches;
        if out.seconds.len() < one.seconds.len() {
            out.seconds.resize(one.seconds.len(), 0);
        }
        for (sum, bytes) in out.seconds.iter_mut().zip(&one.seconds) {
            *sum += bytes;
        }
    }
    (out.reads, out.writes) = (reads.copies(), writes.copies());
    out
}
