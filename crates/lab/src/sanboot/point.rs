//! One point: the servers of one pattern on one layout, from the first I/O to the last window.

use std::rc::Rc;

use anyhow::{Context, Result};
use array::Array;
use array::status::ControllerStatus;
use futures::TryStreamExt;
use world::{DriveSpec, Rng, World};
use world_model::Disk;
use world_model::Model;

use super::bed::{Bed, INTERNAL, Shape, initiator};
use super::host::{Op, Ramp, Tally, Target};
use super::measured::{ArraySample, Sample, Scene, hit_share};
use super::results::{Layout, Pattern, Point};
use super::scenario::Sanboot;
use super::steady::{pass, warm_up};

/// Which point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Which {
    pub(super) pattern: Pattern,
    pub(super) layout: Layout,
    pub(super) servers: u32,
    pub(super) repeat: u32,
    /// So many servers on each group; none: the groups in turn.
    pub(super) packing: Vec<u32>,
    /// Their files are together as long as those of so many servers; 0: each is as long as the scenario says.
    pub(super) files_of: u32,
}

impl Which {
    /// The first repeat of so many servers that go to the groups in turn, with files as the scenario says.
    pub(super) fn in_turn(pattern: Pattern, layout: Layout, servers: u32) -> Which {
        Which { pattern, layout, servers, repeat: 0, packing: vec![], files_of: 0 }
    }

    pub(super) fn lu_of(&self, server: u32) -> u32 {
        Shape::of(self.layout).map_or(server, |shape| shape.lu_of(server, &self.packing))
    }

    /// The scenario with files as long as they are here.
    fn with_files(&self, sanboot: &Sanboot) -> Sanboot {
        let mut with = sanboot.clone();
        if self.files_of > 0 {
            let longer = sanboot.published.file.0 / u64::from(self.servers) * u64::from(self.files_of);
            with.published.file.0 = (longer >> 20 << 20).min(sanboot.array.lu.0);
        }
        with
    }
}

/// What fills the cache reads this much at once: less than what passes by its frames (256 KiB), more than a block.
const FILL_BYTES: u64 = 128 << 10;
/// So many of these at once.
const FILL_DEPTH: usize = 32;

/// A number of its own for each point of a run.
pub(super) fn seed_of(seed: u64, which: &Which) -> u64 {
    let parts = [which.pattern as u64, which.layout as u64, which.servers.into(), which.repeat.into()];
    let packing = which.packing.iter().map(|servers| u64::from(*servers));
    let longer = (which.files_of > 0).then_some(which.files_of.into());
    parts.into_iter().chain(packing).chain(longer).fold(seed, |h, part| {
        // The odd constant is 2^64 divided by the golden ratio.
        (h.rotate_left(23) ^ (part + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Runs it.
pub(super) fn run(sanboot: &Sanboot, bed: &Bed, which: Which, seed: u64) -> Result<Point> {
    let seed = seed_of(seed, &which);
    let sanboot = &which.with_files(sanboot);
    let model = bed.model(seed);
    let name = format!("{}, {}, {} servers", which.pattern.name(), which.layout.name(), which.servers);
    model
        .run(async |world| {
            let started = bed.start(&world).await?;
            let mut targets = Vec::new();
            for server in 0..which.servers {
                targets.push(match &started {
                    Some(started) => Target::Lu(
                        started
                            .port()
                            .open(&initiator(which.lu_of(server)), [0; 6])
                            .map_err(|e| anyhow::anyhow!("server {server} is refused: {e:?}"))?,
                    ),
                    None => {
                        Target::Disk(world.open_drive(&DriveSpec::Modelled { name: INTERNAL.to_owned() })?)
                    }
                });
            }
            let ramp = Rc::new(Ramp::new(sanboot, &world, which.pattern, targets));
            let array = started.map(|started| started.array);
            let drives = drives_of(&model, which.layout);
            let bench = Bench { sanboot, which, world: world.clone(), ramp, array, drives };
            bench.run(seed).await
        })
        .context(name)
}

fn drives_of(model: &Model, layout: Layout) -> Vec<Disk> {
    let names = match Shape::of(layout) {
        Some(shape) => shape.drives().collect(),
        None => vec![INTERNAL.to_owned()],
    };
    names.iter().map(|name| model.disks().get(name).expect("the bed has it")).collect()
}

struct Bench<'a> {
    sanboot: &'a Sanboot,
    which: Which,
    world: World,
    ramp: Rc<Ramp>,
    array: Option<Array>,
    drives: Vec<Disk>,
}

impl Bench<'_> {
    async fn run(&self, seed: u64) -> Result<Point> {
        let run = &self.sanboot.run;
        self.ramp.log_in().await?;
        self.fill().await?;
        self.ramp.start(run.outstanding);
        let balanced = self.balance().await?;
        let settled = warm_up(&self.world, &self.ramp, run).await? && balanced;
        self.ramp.take_tallies();
        let warm_up_s = self.world.now().0 as f64 / 1e9;
        let scene = self.scene();
        let first = self.sample().await?;
        let mut last = self.sample().await?;
        let mut windows = Vec::new();
        // What is pending is as even as it was judged by, and no more.
        let time =
            if self.is_mixed() { run.window_time.0.max(run.balance_time.0) } else { run.window_time.0 };
        for _ in 0..run.windows {
            pass(&self.world, &self.ramp, (run.window_ios, time)).await?;
            let next = self.sample().await?;
            windows.push(scene.window(&last, &next));
            last = next;
        }
        let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
        let rate = |tally: Tally| tally.rate(seconds, self.sanboot.published.transfer.0);
        Ok(Point {
            pattern: self.which.pattern,
            layout: self.which.layout,
            servers: self.which.servers,
            repeat: self.which.repeat,
            packing: self.which.packing.clone(),
            files_of: self.which.files_of,
            seed,
            per_server: self.ramp.take_tallies().into_iter().map(rate).collect(),
            windows,
            resources: scene.resources(&first, &last),
            hit_share: hit_share(first.counts, last.counts),
            warm_up_s,
            settled,
            virtual_s: last.at_ns as f64 / 1e9,
            array_ios: self.ramp.executed.get(),
        })
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            which: &self.which,
            transfer_bytes: self.sanboot.published.transfer.0,
            controllers: self.sanboot.array.controllers,
            cores: self.sanboot.controller.cores,
        }
    }

    /// Brings the cache to where these servers bring it in the long run: random readers fill it with their files, random writers with what
    /// waits for the drives.
    async fn fill(&self) -> Result<()> {
        let pattern = self.which.pattern;
        let Some(array) = self.array.as_ref().filter(|_| pattern.is_random()) else { return Ok(()) };
        let capacity = cache_frames(&array.status().await?);
        let mut rng = self.world.random("fill");
        if pattern.read_percent() > 0 {
            let chunks = self.sanboot.published.file.0 / FILL_BYTES;
            let all = chunks * u64::from(self.which.servers);
            let wanted = (capacity * array::FRAME_BYTES / FILL_BYTES).min(all);
            let places = some_of(all, wanted, &mut rng);
            let ops = places
                .into_iter()
                .map(|n| (n % u64::from(self.which.servers), n / u64::from(self.which.servers)));
            let ops =
                ops.map(|(server, chunk)| (server as usize, Op { at: chunk * FILL_BYTES, reads: true }));
            self.condition(ops, FILL_BYTES).await?;
        }
        if pattern.read_percent() == 0 {
            self.fill_with_writes(array, capacity, &mut rng).await?;
        }
        Ok(())
    }

    /// With reads beside them, writes need not fill the cache: the more is pending, the more the drives do for them, until they do as much as is
    /// written. That takes minutes to come about, so the fill comes near to it from below: what is missing is written at once, at most as much again
    /// as is pending. Whether it came about.
    async fn balance(&self) -> Result<bool> {
        let Some(array) = self.array.as_ref().filter(|_| self.is_mixed()) else { return Ok(true) };
        let mut rng = self.world.random("balance");
        let mut since = Vec::new();
        for _ in 0..BALANCE_ROUNDS_MAX {
            since.push(self.round(array).await?);
            let last = Round::of(&since[since.len().saturating_sub(BALANCED_ROUNDS)..]);
            let is_whole = since.len() >= BALANCED_ROUNDS;
            if is_whole && last.growth().abs() <= BALANCED {
                return Ok(true);
            }
            if last.growth() > if is_whole { BALANCED } else { FAR } {
                let more = self.writes(last.missing() as u64, &mut rng, |even| even);
                self.condition(more, self.sanboot.published.transfer.0).await?;
                since.clear();
            }
        }
        Ok(false)
    }

    /// Whether drives have random reads and writes to do at the same time.
    fn is_mixed(&self) -> bool {
        let pattern = self.which.pattern;
        pattern.is_random() && (1..100).contains(&pattern.read_percent())
    }

    async fn round(&self, array: &Array) -> Result<Round> {
        let (pending, counts) = (pending_frames(&array.status().await?), self.ramp.counts.get());
        let run = &self.sanboot.run;
        pass(&self.world, &self.ramp, (run.round_ios, run.balance_time.0)).await?;
        let (then, now) = (pending_frames(&array.status().await?), self.ramp.counts.get());
        Ok(Round {
            pending: then as f64,
            grown: then as f64 - pending as f64,
            written: (now.ios - now.reads - (counts.ios - counts.reads)) as f64,
        })
    }

    /// So many writes, of all servers in turn, at random places of their files: `place` makes them of even ones from 0 to 1.
    fn writes(
        &self,
        count: u64,
        rng: &mut Rng,
        place: fn(f64) -> f64,
    ) -> impl Iterator<Item = (usize, Op)> + use<> {
        let bytes = self.sanboot.published.transfer.0;
        let transfers = self.sanboot.published.file.0 / bytes;
        let servers = u64::from(self.which.servers);
        let mut at = || ((place(rng.f64()) * transfers as f64) as u64).min(transfers - 1) * bytes;
        let op = |n: u64| ((n % servers) as usize, Op { at: at(), reads: false });
        (0..count).map(op).collect::<Vec<_>>().into_iter()
    }

    /// Writes until writes have to wait, or until the drives have kept up for as many as the cache has frames. They lie as they do when the
    /// elevator has just come around: where it comes to next they have gathered for a whole turn, where it was last for no time. A turn takes
    /// minutes: filled evenly, the cache would give the drives half as much in a row for all of the first one.
    async fn fill_with_writes(&self, array: &Array, capacity: u64, rng: &mut Rng) -> Result<()> {
        let part = capacity / WRITE_PARTS;
        for _ in 0..WRITE_PARTS {
            self.condition(self.writes(part, rng, gathered), self.sanboot.published.transfer.0).await?;
            if waits(&array.status().await?) > 0 {
                break;
            }
        }
        Ok(())
    }

    async fn condition(&self, ops: impl Iterator<Item = (usize, Op)>, bytes: u64) -> Result<()> {
        let all = futures::stream::iter(ops.map(Ok));
        all.try_for_each_concurrent(FILL_DEPTH, |(server, op)| self.ramp.condition(server, op, bytes)).await
    }

    async fn sample(&self) -> Result<Sample> {
        let pending = match &self.array {
            Some(array) => Some(write_pending(&array.status().await?)),
            None => None,
        };
        let at_ns = self.world.now().0;
        let ramp = &self.ramp;
        let array = pending.map(|pending| ArraySample {
            controller_ns: ramp.controller.borrow().busy_ns(at_ns),
            port_ns: Some([&ramp.inbound, &ramp.outbound].map(|way| way.borrow().busy_ns(at_ns))),
            pending,
        });
        Ok(Sample {
            at_ns,
            counts: ramp.counts.get(),
            server_ios: ramp.server_ios(),
            hosts_ns: ramp.host_busy_ns(at_ns),
            array,
            drives: self.drives.iter().map(|d| d.usage().unwrap_or_default()).collect(),
        })
    }
}

/// In so many parts the cache is filled with writes: what of the last is too much waits for the drives, a hundredth of their turn at most.
const WRITE_PARTS: u64 = 128;
/// It is in balance when over so many rounds together it changes by at most this share of what was written in them. Of a group's work up to half is
/// destages: the servers get within 2.5 % of what they get in the long run.
const BALANCED_ROUNDS: usize = 4;
const BALANCED: f64 = 0.05;
/// While the drives leave this share, one round tells enough to go on by.
const FAR: f64 = 0.5;
/// After so many it is measured all the same.
const BALANCE_ROUNDS_MAX: u32 = 60;

/// Where a write lies that was made since the elevator passed there last, from an even number from 0 to 1: the density falls in a straight line from
/// the start of the file, where it passes next, to the end, where it was just now.
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

    /// Frames missing to where nothing grows. With nothing pending the drives leave everything: a straight line from there through what was seen ends
    /// short of the balance, because what more pending writes gain grows less and less.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sanboot::results::ResourceKind;

    /// The built-in scenario with little of everything.
    fn small() -> Sanboot {
        let (mut small, _) = Sanboot::load(None).expect("built in");
        (small.published.file.0, small.array.lu.0, small.array.cache.0) = (16 << 20, 64 << 20, 16 << 20);
        (small.run.windows, small.run.window_ios, small.run.round_ios) = (3, 300, 100);
        small.run.balance_time.0 = small.run.round_time.0;
        small
    }

    #[test]
    fn the_same_seed_gives_the_same_point_and_another_seed_another() {
        let small = small();
        let bed = Bed::make(&small, Layout::Raid1x8, 1).expect("a bed");
        let which = Which::in_turn(Pattern::RandomMix, Layout::Raid1x8, 3);
        let [first, again, other] =
            [1, 1, 2].map(|seed| run(&small, &bed, which.clone(), seed).expect("a point"));
        assert_eq!(first, again);
        assert_ne!(first.per_server, other.per_server);
        assert_eq!((first.per_server.len(), first.windows.len()), (3, 3));
        let share = |kind| first.resources.iter().filter(move |r| r.kind == kind);
        // 2 controllers, 8 groups of 2 drives; what nobody uses stands still.
        assert_eq!(share(ResourceKind::Drive).count(), 16);
        assert_eq!(share(ResourceKind::Controller).map(|r| r.used_by.len()).collect::<Vec<_>>(), [3, 0]);
        for group in share(ResourceKind::Group) {
            assert_eq!(group.utilisation > 0.0, !group.used_by.is_empty(), "{group:?}");
        }
        assert!(
            first.resources.iter().all(|r| (0.0..=1.001).contains(&r.utilisation)),
            "{:?}",
            first.resources
        );
    }

    /// With everything in the cache the rate is that of the station that is the bottleneck: the server's own path.
    #[test]
    fn what_the_cache_holds_goes_as_fast_as_the_server() {
        let small = small();
        let bed = Bed::make(&small, Layout::Raid1x8, 1).expect("a bed");
        let which = Which::in_turn(Pattern::SequentialRead, Layout::Raid1x8, 1);
        let point = run(&small, &bed, which, 1).expect("a point");
        let most = 1.0 / small.host.io.0.as_secs_f64();
        let iops = point.per_server[0].iops;
        assert!((0.85 * most..=1.05 * most).contains(&iops), "{iops} of {most}");
        assert!(point.hit_share > 0.9, "{}", point.hit_share);
    }

    #[test]
    fn each_point_has_a_seed_of_its_own() {
        let mut seeds = Vec::new();
        for pattern in Pattern::ALL {
            for layout in Layout::ALL {
                for servers in 1..=16 {
                    let first = Which::in_turn(pattern, layout, servers);
                    seeds.extend((0..3).map(|repeat| seed_of(1, &Which { repeat, ..first.clone() })));
                }
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6 * 4 * 16 * 3);
    }
}
