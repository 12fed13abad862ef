//! One point: the servers of one pattern on one layout, from the first I/O to the last window.

use std::rc::Rc;

use anyhow::{Context, Result};
use array::Array;
use array::status::ControllerStatus;
use futures::TryStreamExt;
use world::{DriveSpec, Rng, World};
use world_model::Disk;
use world_model::Model;
use world_model::drives::Usage;

use super::bed::{Bed, INTERNAL, Shape, group, initiator};
use super::host::{Counts, Op, Ramp, Target};
use super::results::{Layout, Pattern, Point, Resource, ResourceKind, ServerRate, Window};
use super::scenario::Sanboot;

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
    fn lu_of(&self, server: u32) -> u32 {
        Shape::of(self.layout).map_or(server, |shape| shape.lu_of(server, &self.packing))
    }
}

/// How often, at least, a round looks whether it may end.
const LOOKS_PER_ROUND: u32 = 8;
/// SNIA PTS: five rounds, an excursion of at most 20 % of the mean, a trend of at most 10 %.
const STEADY_ROUNDS: usize = 5;
const EXCURSION_MAX: f64 = 0.20;
const TREND_MAX: f64 = 0.10;
/// What fills the cache reads this much at once: less than what passes by its frames (256 KiB), more than a block.
const FILL_BYTES: u64 = 128 << 10;
/// So many of these at once.
const FILL_DEPTH: usize = 32;

/// A number of its own for each point of a run.
fn seed_of(seed: u64, which: &Which) -> u64 {
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

/// Everything that is counted, at one moment.
struct Sample {
    at_ns: u64,
    counts: Counts,
    server_ios: Vec<u64>,
    controller_ns: u64,
    inbound_ns: u64,
    outbound_ns: u64,
    hosts_ns: Vec<u64>,
    drives: Vec<Usage>,
    pending: f64,
}

impl Bench<'_> {
    async fn run(&self, seed: u64) -> Result<Point> {
        let run = &self.sanboot.run;
        self.ramp.log_in().await?;
        self.fill().await?;
        self.ramp.start(run.outstanding);
        self.fill_beside_reads().await?;
        let settled = self.warm_up().await?;
        self.ramp.take_tallies();
        let warm_up_s = self.world.now().0 as f64 / 1e9;
        let first = self.sample().await?;
        let mut last = self.sample().await?;
        let mut windows = Vec::new();
        for _ in 0..run.windows {
            self.pass(run.window_ios, run.window_time.0).await?;
            let next = self.sample().await?;
            windows.push(self.window(&last, &next));
            last = next;
        }
        let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
        let bytes = self.sanboot.published.transfer.0 as f64;
        let rate = |tally: super::host::Tally| ServerRate {
            iops: tally.ios as f64 / seconds,
            mb_per_s: tally.ios as f64 * bytes / seconds / 1e6,
            response_ms_mean: tally.response_ns as f64 / tally.ios.max(1) as f64 / 1e6,
            response_ms_p99: tally.responses_us.value_at_quantile(0.99) as f64 / 1e3,
        };
        Ok(Point {
            pattern: self.which.pattern,
            layout: self.which.layout,
            servers: self.which.servers,
            repeat: self.which.repeat,
            packing: self.which.packing.clone(),
            seed,
            per_server: self.ramp.take_tallies().into_iter().map(rate).collect(),
            windows,
            resources: self.resources(&first, &last),
            hit_share: hit_share(first.counts, last.counts),
            warm_up_s,
            settled,
            virtual_s: last.at_ns as f64 / 1e9,
            array_ios: self.ramp.executed.get(),
        })
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
        for _ in 0..FILL_ROUNDS {
            let before = write_pending(&array.status().await?);
            self.pass(self.sanboot.run.round_ios, self.sanboot.run.round_time.0).await?;
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

    /// Whether it settled; if not, after as many rounds as there may be.
    async fn warm_up(&self) -> Result<bool> {
        let run = &self.sanboot.run;
        let mut rates = Vec::new();
        for _ in 0..run.rounds_max {
            let (before, from) = (self.ramp.counts.get().ios, self.world.now().0);
            self.pass(run.round_ios, run.round_time.0).await?;
            let (ios, ns) = (self.ramp.counts.get().ios - before, self.world.now().0 - from);
            rates.push(ios as f64 / ns as f64);
            if is_steady(&rates) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets so many I/Os pass, and so much time.
    async fn pass(&self, ios: u64, time: std::time::Duration) -> Result<()> {
        let until = self.ramp.counts.get().ios + ios;
        let end = self.world.now() + time;
        while self.ramp.counts.get().ios < until || self.world.now() < end {
            self.world.sleep(time / LOOKS_PER_ROUND).await;
            self.ramp.check()?;
        }
        Ok(())
    }

    async fn sample(&self) -> Result<Sample> {
        let pending = match &self.array {
            Some(array) => write_pending(&array.status().await?),
            None => 0.0,
        };
        let at_ns = self.world.now().0;
        let ramp = &self.ramp;
        Ok(Sample {
            at_ns,
            counts: ramp.counts.get(),
            server_ios: ramp.server_ios(),
            controller_ns: ramp.controller.borrow().busy_ns(at_ns),
            inbound_ns: ramp.inbound.borrow().busy_ns(at_ns),
            outbound_ns: ramp.outbound.borrow().busy_ns(at_ns),
            hosts_ns: ramp.host_busy_ns(at_ns),
            drives: self.drives.iter().map(|d| d.usage().unwrap_or_default()).collect(),
            pending,
        })
    }

    fn window(&self, from: &Sample, to: &Sample) -> Window {
        let ns = (to.at_ns - from.at_ns) as f64;
        let ios = (to.counts.ios - from.counts.ios) as f64;
        let has_array = self.array.is_some();
        let mut controller_busy = vec![self.controller_share(from, to)];
        controller_busy.resize(self.sanboot.array.controllers, 0.0);
        let port_busy = controller_busy.iter().enumerate();
        let port_busy =
            port_busy.map(|(port, _)| if port == 0 { port_share(from, to) } else { 0.0 }).collect();
        let bytes = self.sanboot.published.transfer.0 as f64;
        let held: u64 = to.drives.iter().zip(&from.drives).map(|(t, f)| t.held_ns - f.held_ns).sum();
        let per_s = |ios: f64| ios * 1e9 / ns;
        let served = to.server_ios.iter().zip(&from.server_ios);
        Window {
            seconds: ns / 1e9,
            iops: per_s(ios),
            server_iops: served.map(|(t, f)| per_s((t - f) as f64)).collect(),
            controller_busy: if has_array { controller_busy } else { vec![] },
            port_busy: if has_array { port_busy } else { vec![] },
            port_mb_per_s: if has_array { per_s(ios) * bytes / 1e6 } else { 0.0 },
            drive_busy: drive_shares(from, to),
            drive_queue_mean: held as f64 / ns / self.drives.len() as f64,
            hit_share: hit_share(from.counts, to.counts),
            write_pending: to.pending,
        }
    }

    fn controller_share(&self, from: &Sample, to: &Sample) -> f64 {
        let cores = self.ramp.controller.borrow().servers() as f64;
        (to.controller_ns - from.controller_ns) as f64 / (to.at_ns - from.at_ns) as f64 / cores
    }

    fn resources(&self, from: &Sample, to: &Sample) -> Vec<Resource> {
        let ns = (to.at_ns - from.at_ns) as f64;
        let everybody: Vec<u32> = (0..self.which.servers).collect();
        let resource = |name: String, kind, units, utilisation, used_by| Resource {
            name,
            kind,
            units,
            utilisation,
            used_by,
        };
        let hosts = to.hosts_ns.iter().zip(&from.hosts_ns).zip(0..);
        let mut all: Vec<Resource> = hosts
            .map(|((t, f), n)| {
                resource(format!("server{n}"), ResourceKind::Host, 1, (t - f) as f64 / ns, vec![n])
            })
            .collect();
        let shares = drive_shares(from, to);
        let Some(shape) = Shape::of(self.which.layout) else {
            all.push(resource(INTERNAL.to_owned(), ResourceKind::Drive, 1, shares[0], everybody));
            return all;
        };
        for n in 0..self.sanboot.array.controllers {
            let (cpu, port) =
                if n == 0 { (self.controller_share(from, to), port_share(from, to)) } else { (0.0, 0.0) };
            let used_by = if n == 0 { everybody.clone() } else { vec![] };
            let cores = self.sanboot.controller.cores;
            all.push(resource(
                format!("controller{n}"),
                ResourceKind::Controller,
                cores,
                cpu,
                used_by.clone(),
            ));
            all.push(resource(format!("port{n}"), ResourceKind::Port, 1, port, used_by));
        }
        let per_group = shape.drives_per_group as usize;
        for (g, shares) in (0..).zip(shares.chunks_exact(per_group)) {
            let used_by: Vec<u32> = (0..self.which.servers)
                .filter(|server| shape.group_of(self.which.lu_of(*server)) == g)
                .collect();
            let mean = shares.iter().sum::<f64>() / per_group as f64;
            all.push(resource(group(g), ResourceKind::Group, shape.drives_per_group, mean, used_by.clone()));
            all.extend((0..).zip(shares).map(|(d, share)| {
                resource(shape.drive(g, d), ResourceKind::Drive, 1, *share, used_by.clone())
            }));
        }
        all
    }
}

/// In so many parts the cache is filled with writes.
const FILL_ROUNDS: u64 = 16;

/// A drive counts a request when it begins: the last one of a window may end in the next.
fn drive_shares(from: &Sample, to: &Sample) -> Vec<f64> {
    let ns = (to.at_ns - from.at_ns) as f64;
    let share = |(t, f): (&Usage, &Usage)| ((t.busy_ns - f.busy_ns) as f64 / ns).min(1.0);
    to.drives.iter().zip(&from.drives).map(share).collect()
}

/// Of the busier direction.
fn port_share(from: &Sample, to: &Sample) -> f64 {
    let ns = (to.at_ns - from.at_ns) as f64;
    ((to.inbound_ns - from.inbound_ns).max(to.outbound_ns - from.outbound_ns)) as f64 / ns
}

fn hit_share(from: Counts, to: Counts) -> f64 {
    match to.reads - from.reads {
        0 => 0.0,
        reads => (to.hits - from.hits) as f64 / reads as f64,
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

fn write_pending(status: &[ControllerStatus]) -> f64 {
    let Some(cache) = status.first().and_then(|part| part.cache.as_ref()) else { return 0.0 };
    let frames = cache.counts.frames;
    f64::from(frames.dirty + frames.destaging + frames.rewritten) / f64::from(frames.capacity.max(1))
}

/// SNIA PTS: whether the last rounds are a steady state.
fn is_steady(rates: &[f64]) -> bool {
    let Some(last) = rates.last_chunk::<STEADY_ROUNDS>() else { return false };
    let mean = last.iter().sum::<f64>() / STEADY_ROUNDS as f64;
    let (low, high) = last.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    // The least squares line over rounds -2 to 2: its slope is the sum of position times rate over 10; across the five rounds it
    // climbs four slopes.
    let slope = last.iter().zip(-2..).map(|(rate, at)| rate * f64::from(at)).sum::<f64>() / 10.0;
    high - low <= EXCURSION_MAX * mean && (4.0 * slope).abs() <= TREND_MAX * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_state_neither_jumps_nor_climbs() {
        assert!(!is_steady(&[1.0; 4]));
        assert!(is_steady(&[9.0, 1.0, 1.05, 0.95, 1.0, 1.0]));
        assert!(!is_steady(&[1.0, 1.25, 0.95, 1.0, 1.0]));
        assert!(!is_steady(&[1.0, 1.03, 1.06, 1.09, 1.12]));
    }

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
        assert_eq!(seeds.len(), 6 * 3 * 16 * 3);
    }
}
