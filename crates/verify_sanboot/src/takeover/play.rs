//! A run: load on both controllers, one of them is lost or gives its pools away, and load on the other one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use lab_core::interrupt::{Abandoned, Stop};
use lab_tools::testbed::Testbed;
use lab_tools::testbed::nodes::Nodes;
use scsi::Events;
use world::World;
use world_model::Model;

use super::bed::{self, GOES, STAYS};
use super::gaps::{count_in, longest};
use super::paths::{Paths, Side};
use super::server::Server;
use crate::front::Front;
use crate::results::{Disks, Load, Pattern, Takeover, Way};
use crate::scenario::Sanboot;

/// How often it is looked at whether servers are served.
const LOOK: Duration = Duration::from_millis(50);
/// Who is not served again after so long is not waited for any more.
const SERVED_MAX: Duration = Duration::from_secs(120);
/// Planned moves: a pool is destaged before it moves, under this load for ten seconds.
const POOLS_MOVED: u32 = 2;
/// Throughput is shown over this time.
pub(super) const BIN_NS: u64 = 250_000_000;

/// Which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakeoverOf {
    pub(super) pattern: Pattern,
    pub(super) servers: u32,
    /// The disks of the controller that goes.
    pub(super) goes: Disks,
    pub(super) way: Way,
}

/// Runs it.
///
/// # Errors
///
/// [`Abandoned`] after a stop request; and when it cannot be run.
pub(super) fn run(
    sanboot: &Sanboot,
    made: &Testbed,
    which: TakeoverOf,
    (seed, stop): (u64, &Stop),
) -> Result<Takeover> {
    let seed = seed_of(seed, which);
    let model = made.model(seed);
    // An event of another model in this process would wake this one's exchanges.
    Events::enter(Some(Arc::default()));
    let played = model.run_while(
        || !stop.is_asked(),
        async |world| {
            let stage = Stage::set(sanboot, (&model, &world, made), which).await?;
            stage.play(seed).await
        },
    );
    Events::enter(None);
    let name = || format!("{}, {} servers, {}", which.pattern.name(), which.servers, which.way.words());
    played.unwrap_or_else(|| Err(Abandoned.into())).with_context(name)
}

struct Stage<'a> {
    sanboot: &'a Sanboot,
    model: &'a Model,
    world: World,
    which: TakeoverOf,
    nodes: Nodes,
    sides: Rc<[Side; 2]>,
    servers: Vec<Rc<Server>>,
}

impl<'a> Stage<'a> {
    /// Starts array and servers.
    async fn set(
        sanboot: &'a Sanboot,
        (model, world, made): (&'a Model, &World, &Testbed),
        which: TakeoverOf,
    ) -> Result<Stage<'a>> {
        let takeover = &sanboot.takeover;
        let nodes = Nodes::start(model, world, &made.config, takeover.latency.0).await?;
        let side = |n: usize| Side {
            front: Front::new(sanboot, world, sanboot.published.transfer.0),
            machine: nodes.machine(n).clone(),
        };
        let sides = Rc::new([side(STAYS), side(GOES)]);
        let mut servers = Vec::new();
        for number in 0..which.servers {
            let paths = Paths::open(world, (&nodes, &sides), number, (which.way, takeover)).await?;
            for disks in Disks::ALL {
                let owner = if disks == which.goes { GOES } else { STAYS };
                ensure!(
                    paths.side(disks) == owner,
                    "server {number} uses another path than the optimized one"
                );
            }
            servers.push(Rc::new(Server::new(sanboot, world, which.pattern, (number, paths))));
        }
        Ok(Stage { sanboot, model, world: world.clone(), which, nodes, sides, servers })
    }

    async fn play(mut self, seed: u64) -> Result<Takeover> {
        let takeover = &self.sanboot.takeover;
        let (warm_up, time) = (takeover.warm_up.0, takeover.time.0);
        self.servers.iter().for_each(|server| server.start(self.sanboot.run.outstanding));
        self.pass(warm_up).await?;
        let before = self.reading();
        self.pass(time).await?;
        let lost = self.reading();
        let refused = self.change().await?;
        let changed = self.world.now().0;
        self.all_are_served(changed).await?;
        self.pass(warm_up).await?;
        let again = self.reading();
        self.pass(time).await?;
        let end = self.reading();
        self.servers.iter().for_each(|server| server.stop());
        self.wait_for_the_last().await?;
        let read_back: Vec<u64> = try_join_all(self.servers.iter().map(|server| server.read_back())).await?;
        let done = Disks::ALL
            .map(|disks| self.servers.iter().map(|server| server.take_done(disks)).collect::<Vec<_>>());
        let s = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let gap_s = |disks: Disks, from: u64, to: u64| {
            done[disks as usize].iter().map(|one| s(0, longest(one, from, to))).fold(0.0, f64::max)
        };
        let other = self.which.goes.other();
        let counts = self.servers.iter().map(|server| server.counts());
        let (written, wrong) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let bins = |disks: Disks| {
            let all = done[disks as usize].concat();
            let per_s = |n: u64| count_in(&all, n * BIN_NS, (n + 1) * BIN_NS) as f64 * 1e9 / BIN_NS as f64;
            let first = before.at_ns / BIN_NS;
            (first..end.at_ns / BIN_NS).map(per_s).collect()
        };
        let load = |from: &Reading, to: &Reading| self.load(&done, from, to);
        Ok(Takeover {
            pattern: self.which.pattern,
            servers: self.which.servers,
            goes: self.which.goes,
            way: self.which.way,
            seed,
            before: load(&before, &lost),
            after: load(&again, &end),
            gap_before_s: Disks::ALL
                .map(|disks| gap_s(disks, before.at_ns, lost.at_ns))
                .into_iter()
                .fold(0.0, f64::max),
            gap_s: gap_s(self.which.goes, lost.at_ns, end.at_ns),
            gap_other_s: gap_s(other, lost.at_ns, end.at_ns),
            changed_s: s(lost.at_ns, changed),
            refused,
            written,
            read_back: read_back.iter().sum(),
            wrong,
            lost_at: (lost.at_ns / BIN_NS - before.at_ns / BIN_NS) as u32,
            bins: Disks::ALL.map(bins),
        })
    }

    /// One controller goes: its pools move, or it is lost and taken over. Why a move is refused.
    async fn change(&mut self) -> Result<Option<String>> {
        if self.which.way == Way::Moved {
            for number in 0..POOLS_MOVED {
                let moved = self.nodes.array.move_pool(&bed::pool(self.which.goes, number), STAYS).await;
                if let Err(refused) = moved {
                    return Ok(Some(refused.to_string()));
                }
            }
            return Ok(None);
        }
        self.nodes.lose(GOES);
        self.pass(self.sanboot.takeover.noticed.0).await?;
        self.nodes.take_over(GOES).await?;
        Ok(None)
    }

    /// Waits until every server had an answer from both disks since then.
    async fn all_are_served(&self, since_ns: u64) -> Result<()> {
        let last = |server: &Rc<Server>| Disks::ALL.map(|disks| server.last_done(disks)).into_iter().min();
        let until = self.world.now() + SERVED_MAX;
        while self.world.now() < until && self.servers.iter().any(|server| last(server) < Some(since_ns)) {
            self.pass(LOOK).await?;
        }
        Ok(())
    }

    async fn wait_for_the_last(&self) -> Result<()> {
        let until = self.world.now() + SERVED_MAX;
        while self.servers.iter().any(|server| server.is_running()) {
            ensure!(self.world.now() < until, "I/Os of a server do not end");
            self.pass(LOOK).await?;
        }
        Ok(())
    }

    async fn pass(&self, time: Duration) -> Result<()> {
        self.world.sleep(time).await;
        self.servers.iter().try_for_each(|server| server.check())
    }

    fn reading(&self) -> Reading {
        let at_ns = self.world.now().0;
        let drives = |disks: Disks| {
            let names = bed::drives_of(disks).into_iter();
            names.filter_map(|name| self.model.disks().get(&name)?.usage()).map(|usage| usage.busy_ns).sum()
        };
        let sides = &self.sides;
        Reading {
            at_ns,
            controllers: [STAYS, GOES].map(|n| sides[n].front.controller.borrow().busy_ns(at_ns)),
            ports: [STAYS, GOES].map(|n| {
                let front = &sides[n].front;
                [&front.inbound, &front.outbound].map(|way| way.borrow().busy_ns(at_ns))
            }),
            drives: Disks::ALL.map(drives),
        }
    }

    /// What there was between two readings.
    fn load(&self, done: &[Vec<Vec<u64>>; 2], from: &Reading, to: &Reading) -> Load {
        let ns = to.at_ns.saturating_sub(from.at_ns).max(1) as f64;
        let rate = |one: &Vec<u64>| count_in(one, from.at_ns, to.at_ns) as f64 * 1e9 / ns;
        let iops = |disks: Disks| done[disks as usize].iter().map(rate).sum::<f64>();
        let of_server = |n: usize| Disks::ALL.map(|disks| rate(&done[disks as usize][n])).into_iter().sum();
        let cores = f64::from(self.sanboot.controller.cores);
        let share = |to: u64, from: u64| (to - from) as f64 / ns;
        let drives = 2.0 * f64::from(bed::shape().groups);
        Load {
            iops: Disks::ALL.map(iops),
            server_iops: (0..self.servers.len()).map(of_server).collect(),
            controller_busy: [STAYS, GOES].map(|n| share(to.controllers[n], from.controllers[n]) / cores),
            port_busy: [STAYS, GOES].map(|n| {
                [0, 1].map(|way| share(to.ports[n][way], from.ports[n][way])).into_iter().fold(0.0, f64::max)
            }),
            drive_busy: Disks::ALL
                .map(|disks| share(to.drives[disks as usize], from.drives[disks as usize]) / drives),
        }
    }
}

/// What was used up to a time, in nanoseconds.
struct Reading {
    at_ns: u64,
    controllers: [u64; 2],
    /// In, out.
    ports: [[u64; 2]; 2],
    drives: [u64; 2],
}

/// A number of its own for each pattern and number of servers: what is compared differs in what goes, and
/// how.
fn seed_of(seed: u64, which: TakeoverOf) -> u64 {
    let parts = [which.pattern as u64, u64::from(which.servers)];
    // The odd constant is 2^64 divided by the golden ratio.
    parts
        .into_iter()
        .fold(seed, |h, part| (h.rotate_left(23) ^ (part + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
