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
}

impl Which {
    pub(super) fn lu_of(&self, server: u32) -> u32 {
        Shape::of(self.layout).map_or(server, |shape| shape.lu_of(server, &self.packing))
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
    parts.into_iter().chain(packing).fold(seed, |h, part| {
        // The odd constant is 2^64 divided by the golden ratio.
        (h.rotate_left(23) ^ (part + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Runs it.
pub(super) fn run(sanboot: &Sanboot, bed: &Bed, which: Which, seed: u64) -> Result<Point> {
    let seed = seed_of(seed, &which);
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
                            .port
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
        self.fill_beside_reads().await?;
        let settled = warm_up(&self.world, &self.ramp, run).await?;
        self.ramp.take_tallies();
        let warm_up_s = self.world.now().0 as f64 / 1e9;
        let scene = self.scene();
        let first = self.sample().await?;
        let mut last = self.sample().await?;
        let mut windows = Vec::new();
        for _ in 0..run.windows {
            pass(&self.world, &self.ramp, (run.window_ios, run.window_time.0)).await?;
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

    /// With reads beside them, writes need not fill the cache: the more is pending, the more the drives do for them. More and more is made pending
    /// until, with the servers at work, it grows no more.
    async fn fill_beside_reads(&self) -> Result<()> {
        let pattern = self.which.pattern;
        let is_mixed = pattern.is_random() && (1..100).contains(&pattern.read_percent());
        let Some(array) = self.array.as_ref().filter(|_| is_mixed) else { return Ok(()) };
        let capacity = cache_frames(&array.status().await?);
        let mut rng = self.world.random("fill beside reads");
        let run = &self.sanboot.run;
        for _ in 0..FILL_ROUNDS {
            let before = write_pending(&array.status().await?);
            pass(&self.world, &self.ramp, (run.round_ios, run.round_time.0)).await?;
            let status = array.status().await?;
            if waits(&status) > 0 || (before > 0.0 && write_pending(&status) <= before) {
                break;
            }
            self.condition(self.writes(capacity / FILL_ROUNDS, &mut rng), self.sanboot.published.transfer.0)
                .await?;
        }
        Ok(())
    }

    /// So many writes at random places, of all servers in turn.
    fn writes(&self, count: u64, rng: &mut Rng) -> impl Iterator<Item = (usize, Op)> + use<> {
        let bytes = self.sanboot.published.transfer.0;
        let transfers = self.sanboot.published.file.0 / bytes;
        let servers = u64::from(self.which.servers);
        let op = |n: u64| ((n % servers) as usize, Op { at: rng.u64(..transfers) * bytes, reads: false });
        (0..count).map(op).collect::<Vec<_>>().into_iter()
    }

    /// Writes at random places until writes have to wait, or until the drives have kept up for as many as the cache has frames.
    async fn fill_with_writes(&self, array: &Array, capacity: u64, rng: &mut Rng) -> Result<()> {
        for _ in 0..FILL_ROUNDS {
            self.condition(self.writes(capacity / FILL_ROUNDS, rng), self.sanboot.published.transfer.0)
                .await?;
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

/// In so many parts the cache is filled with writes.
const FILL_ROUNDS: u64 = 16;

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

pub(super) fn write_pending(status: &[ControllerStatus]) -> f64 {
    let Some(cache) = status.first().and_then(|part| part.cache.as_ref()) else { return 0.0 };
    let frames = cache.counts.frames;
    f64::from(frames.dirty + frames.destaging + frames.rewritten) / f64::from(frames.capacity.max(1))
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
        small
    }

    #[test]
    fn the_same_seed_gives_the_same_point_and_another_seed_another() {
        let small = small();
        let bed = Bed::make(&small, Layout::Raid1x8, 1).expect("a bed");
        let which = Which {
            pattern: Pattern::RandomMix,
            layout: Layout::Raid1x8,
            servers: 3,
            repeat: 0,
            packing: vec![],
        };
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
        let which = Which {
            pattern: Pattern::SequentialRead,
            layout: Layout::Raid1x8,
            servers: 1,
            repeat: 0,
            packing: vec![],
        };
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
                    seeds.extend((0..3).map(|repeat| {
                        seed_of(1, &Which { pattern, layout, servers, repeat, packing: vec![] })
                    }));
                }
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6 * 4 * 16 * 3);
    }
}
