//! How the cache comes to where these servers keep it in the long run, before anything is measured.

use std::cell::RefCell;

use anyhow::Result;
use array::status::ControllerStatus;
use futures::future::try_join_all;
use world::Rng;

use super::bench::{Bench, Probe};
use super::front::Op;
use super::host::Ramp;
use super::results::Pattern;
use super::steady::pass;
use super::steps::reads_of_boots;

/// What fills the cache reads this much at once: less than what passes by its frames (256 KiB), more than a
/// block.
const FILL_BYTES: u64 = 128 << 10;
/// So many at once.
const FILL_DEPTH: usize = 32;

/// Runs these of a server and so many bytes, so many at once; nobody counts them.
pub(super) async fn condition(ramp: &Ramp, ops: impl IntoIterator<Item = (usize, Op, u64)>) -> Result<()> {
    let ops = RefCell::new(ops.into_iter());
    let next = || ops.borrow_mut().next();
    let worker = async || {
        while let Some((server, op, bytes)) = next() {
            ramp.condition(server, op, bytes).await?;
        }
        Ok(())
    };
    try_join_all((0..FILL_DEPTH).map(|_| worker())).await.map(drop)
}

impl<P: Probe> Bench<'_, P> {
    /// Brings the cache to where these servers bring it in the long run: random readers fill it with their
    /// files, random writers with what waits for the drives.
    pub(super) async fn fill(&self) -> Result<()> {
        let pattern = self.which.pattern;
        if pattern == Pattern::Boots {
            return self.fill_with_boots().await;
        }
        if !pattern.is_random() {
            return Ok(());
        }
        let capacity = cache_frames(&self.probe.status().await?);
        let mut rng = self.world.random("fill");
        if pattern.read_percent() > 0 {
            let chunks = self.sanboot.published.file.0 / FILL_BYTES;
            let all = chunks * u64::from(self.which.servers);
            let wanted = (capacity * array::FRAME_BYTES / FILL_BYTES).min(all);
            let places = some_of(all, wanted, &mut rng);
            let ops = places
                .into_iter()
                .map(|n| (n % u64::from(self.which.servers), n / u64::from(self.which.servers)));
            let op = |chunk: u64| Op { at: chunk * FILL_BYTES, reads: true };
            let ops = ops.map(|(server, chunk)| (server as usize, op(chunk), FILL_BYTES));
            condition(&self.ramp, ops).await?;
        }
        if pattern.read_percent() == 0 {
            self.fill_with_writes(capacity, &mut rng).await?;
        }
        Ok(())
    }

    /// Images that servers boot from, as many as the cache holds.
    async fn fill_with_boots(&self) -> Result<()> {
        let capacity = cache_frames(&self.probe.status().await?) * array::FRAME_BYTES;
        let rng = self.world.random("fill");
        condition(&self.ramp, reads_of_boots(self.sanboot, self.which.servers, (capacity, rng))?).await
    }

    /// With reads beside them, writes need not fill the cache: the more is pending, the more the drives do
    /// for them, until they do as much as is written. That takes minutes to come about, so the fill comes
    /// near to it from below: what is missing is written at once, at most as much again as is pending.
    /// Whether it came about.
    pub(super) async fn balance(&self) -> Result<bool> {
        if !self.which.pattern.is_mixed() {
            return Ok(true);
        }
        let mut rng = self.world.random("balance");
        let mut since = Vec::new();
        for _ in 0..BALANCE_ROUNDS_MAX {
            since.push(self.round().await?);
            let last = Round::of(&since[since.len().saturating_sub(BALANCED_ROUNDS)..]);
            let is_whole = since.len() >= BALANCED_ROUNDS;
            if is_whole && last.growth().abs() <= BALANCED {
                return Ok(true);
            }
            if last.growth() > if is_whole { BALANCED } else { FAR } {
                condition(&self.ramp, self.writes(last.missing() as u64, &mut rng, |even| even)).await?;
                since.clear();
            }
        }
        Ok(false)
    }

    async fn round(&self) -> Result<Round> {
        let (pending, counts) = (pending_frames(&self.probe.status().await?), self.ramp.counts.get());
        let run = &self.sanboot.run;
        pass(&self.world, &self.ramp, (run.round_ios, run.balance_time.0)).await?;
        let (then, now) = (pending_frames(&self.probe.status().await?), self.ramp.counts.get());
        Ok(Round {
            pending: then as f64,
            grown: then as f64 - pending as f64,
            written: (now.ios - now.reads - (counts.ios - counts.reads)) as f64,
        })
    }

    /// So many writes, of all servers in turn, at random places of their files: `place` makes them of even
    /// ones from 0 to 1.
    fn writes(&self, count: u64, rng: &mut Rng, place: fn(f64) -> f64) -> Vec<(usize, Op, u64)> {
        let bytes = self.sanboot.published.transfer.0;
        let transfers = self.sanboot.published.file.0 / bytes;
        let servers = u64::from(self.which.servers);
        let mut at = || ((place(rng.f64()) * transfers as f64) as u64).min(transfers - 1) * bytes;
        let op = |n: u64| ((n % servers) as usize, Op { at: at(), reads: false }, bytes);
        (0..count).map(op).collect()
    }

    /// Writes until writes have to wait, or until the drives have kept up for as many as the cache has
    /// frames. They lie as they do when the elevator has just come around: where it comes to next they have
    /// gathered for a whole turn, where it was last for no time. A turn takes minutes: filled evenly, the
    /// cache would give the drives half as much in a row for all of the first one.
    async fn fill_with_writes(&self, capacity: u64, rng: &mut Rng) -> Result<()> {
        let part = capacity / WRITE_PARTS;
        for _ in 0..WRITE_PARTS {
            condition(&self.ramp, self.writes(part, rng, gathered)).await?;
            if waits(&self.probe.status().await?) > 0 {
                break;
            }
        }
        Ok(())
    }
}

/// In so many parts the cache is filled with writes: what of the last is too much waits for the drives, a
/// hundredth of their turn at most.
const WRITE_PARTS: u64 = 128;
/// It is in balance when over so many rounds together it changes by at most this share of what was written in
/// them. Of a group's work up to half is destages: the servers get within 2.5 % of what they get in the long
/// run.
const BALANCED_ROUNDS: usize = 4;
const BALANCED: f64 = 0.05;
/// While the drives leave this share, one round tells enough to go on by.
const FAR: f64 = 0.5;
/// After so many it is measured all the same.
const BALANCE_ROUNDS_MAX: u32 = 60;

/// Where a write lies that was made since the elevator passed there last, from an even number from 0 to 1:
/// the density falls in a straight line from the start of the file, where it passes next, to the end, where
/// it was just now.
fn gathered(even: f64) -> f64 {
    1.0 - even.sqrt()
}

/// What rounds of the settling saw.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Frames at the end.
    pending: f64,
    grown: f64,
    written: f64,
}

impl Round {
    /// All of these together.
    fn of(rounds: &[Round]) -> Round {
        let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum();
        let pending = rounds.last().map_or(0.0, |round| round.pending);
        Round { pending, grown: sum(|round| round.grown), written: sum(|round| round.written) }
    }

    /// Of what was written, the share that the drives left.
    fn growth(&self) -> f64 {
        self.grown / self.written.max(1.0)
    }

    /// Frames missing to where nothing grows. With nothing pending the drives leave everything: a straight
    /// line from there through what was seen ends short of the balance, because what more pending writes gain
    /// grows less and less.
    fn missing(&self) -> f64 {
        let growth = self.growth().clamp(0.0, FAR);
        self.pending * growth / (1.0 - growth)
    }
}

/// `wanted` of the numbers below `all`, in any order.
fn some_of(all: u64, wanted: u64, rng: &mut Rng) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..all).collect();
    rng.shuffle(&mut numbers);
    numbers.truncate(wanted as usize);
    numbers
}

fn cache_frames(status: &[ControllerStatus]) -> u64 {
    let first = status.first().and_then(|part| part.cache.as_ref());
    first.map_or(0, |cache| cache.counts.frames.capacity.into())
}

fn waits(status: &[ControllerStatus]) -> u64 {
    let first = status.first().and_then(|part| part.cache.as_ref());
    first.map_or(0, |cache| cache.counts.waits)
}

fn pending_frames(status: &[ControllerStatus]) -> u64 {
    let Some(cache) = status.first().and_then(|part| part.cache.as_ref()) else { return 0 };
    let frames = cache.counts.frames;
    (frames.dirty + frames.destaging + frames.rewritten).into()
}

pub(super) fn write_pending(status: &[ControllerStatus]) -> f64 {
    pending_frames(status) as f64 / cache_frames(status).max(1) as f64
}
