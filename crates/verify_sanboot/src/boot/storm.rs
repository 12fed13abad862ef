//! A boot storm: so many servers that are switched on at once, each with the boot of the trace, through port
//! and controller, on the array's own code.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use array::status::ControllerStatus;
use array::{Array, LocalSession, Lun};
use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use lab_core::interrupt::{Abandoned, Stop};
use lab_tools::testbed::{Testbed, notice_attentions};
use world::{Rng, World};
use world_model::Disk;

use super::trace::{Step, Trace};
use crate::bed::{Shape, initiator};
use crate::front::Front;
use crate::results::{Form, Layout, Storm};
use crate::scenario::Sanboot;

/// Which storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StormOf {
    pub(super) layout: Layout,
    pub(super) form: Form,
    pub(super) servers: u32,
    pub(super) repeat: u32,
}

/// What all servers of a storm share.
struct Site {
    front: Front,
    trace: Rc<Trace>,
    /// The commands that wait for each.
    next: Vec<Vec<usize>>,
    think_percent: u32,
    spread_percent: u32,
}

impl Site {
    fn new(sanboot: &Sanboot, world: &World, trace: Rc<Trace>) -> Site {
        let mut next = vec![Vec::new(); trace.steps.len()];
        for (n, step) in trace.steps.iter().enumerate() {
            if let Some(after) = step.after {
                next[after].push(n);
            }
        }
        Site {
            front: Front::new(sanboot, world, trace.bytes_max()),
            trace,
            next,
            think_percent: sanboot.boot.think_percent,
            spread_percent: sanboot.boot.spread_percent,
        }
    }

    /// What a server does between two commands: as the trace says, more or less.
    fn think(&self, think: Duration, rng: &mut Rng) -> Duration {
        let (percent, spread) = (self.think_percent, self.spread_percent);
        let varied = 100 - spread + rng.u32(..=2 * spread);
        think * percent * varied / 10_000
    }

    /// Seconds from power-on until the system of a server runs. Its remaining commands end, too.
    async fn boot(&self, session: LocalSession, number: usize) -> Result<f64> {
        let world = &self.front.world;
        let power_on = world.now();
        let mut rng = world.random(&format!("boot {number}"));
        let command = async |n: usize, think: Duration| {
            world.sleep(think).await;
            let Step { op, bytes, .. } = self.trace.steps[n];
            self.front.reach(&session, n as u64, op, bytes).await.map(|_| n)
        };
        let mut begin = |n: usize| command(n, self.think(self.trace.steps[n].think, &mut rng));
        let first = self.trace.steps.iter().enumerate().filter(|(_, step)| step.after.is_none());
        let mut under_way: FuturesUnordered<_> = first.map(|(n, _)| begin(n)).collect();
        let mut last = None;
        while let Some(done) = under_way.next().await {
            let done = done?;
            under_way.extend(self.next[done].iter().map(|n| begin(*n)));
            if done == self.trace.up.0 {
                last = Some(world.now());
            }
        }
        let last = last.context("the boot has no end")?;
        Ok((last.since(power_on) + self.think(self.trace.up.1, &mut rng)).as_secs_f64())
    }
}

/// What the drives did, together.
#[derive(Clone, Copy, Debug, Default)]
struct Drives {
    reads: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl Drives {
    async fn of(array: &Array) -> Result<Drives> {
        let parts: Vec<ControllerStatus> = array.status().await?;
        Ok(parts.iter().flat_map(|part| &part.drives).fold(Drives::default(), |sum, drive| Drives {
            reads: sum.reads + drive.reads,
            read_bytes: sum.read_bytes + drive.read_bytes,
            write_bytes: sum.write_bytes + drive.write_bytes,
        }))
    }
}

/// Runs it.
///
/// # Errors
///
/// [`Abandoned`] after a stop request; and when a server cannot boot.
pub(super) fn run(
    sanboot: &Sanboot,
    bed: &Testbed,
    trace: &Trace,
    which: StormOf,
    (seed, stop): (u64, &Stop),
) -> Result<Storm> {
    let seed = seed_of(seed, which);
    let model = bed.model(seed);
    let shape = Shape::of(which.layout).context("a disk in each server boots alone")?;
    let disks: Vec<Disk> = shape.drives().filter_map(|name| model.disks().get(&name)).collect();
    ensure!(trace.end() <= sanboot.boot.lu.0, "boot.lu: the boot reads beyond its end");
    let trace = Rc::new(trace.clone());
    let name = format!("{}, {}, {} servers boot", which.layout.name(), which.form.words(), which.servers);
    model
        .run_while(
            || !stop.is_asked(),
            async |world| {
                let started = bed.start(&world).await?;
                let mut sessions = Vec::new();
                for server in 0..which.servers {
                    let session = started.port().open(&initiator(server), [0; 6]);
                    let session = session.map_err(|e| anyhow::anyhow!("server {server} is refused: {e}"))?;
                    notice_attentions(&session, Lun(0)).await;
                    sessions.push(session);
                }
                let site = Site::new(sanboot, &world, trace.clone());
                let (began, before) = (world.now(), Drives::of(&started.array).await?);
                let busy = || disks.iter().map(|disk| disk.usage().unwrap_or_default().busy_ns).sum::<u64>();
                let busy_before = busy();
                let boots = sessions.into_iter().enumerate().map(|(n, session)| site.boot(session, n));
                let up_s = try_join_all(boots).await?;
                let after = Drives::of(&started.array).await?;
                let (now, ns) = (world.now().0, world.now().since(began).as_nanos() as f64);
                let port = [&site.front.inbound, &site.front.outbound].map(|way| way.borrow().busy_ns(now));
                anyhow::Ok(Storm {
                    layout: which.layout,
                    form: which.form,
                    servers: which.servers,
                    repeat: which.repeat,
                    seed,
                    up_s,
                    read_bytes: trace.read_bytes() * u64::from(which.servers),
                    commands: site.front.executed.get(),
                    drive_reads: after.reads - before.reads,
                    drive_read_bytes: after.read_bytes - before.read_bytes,
                    drive_write_bytes: after.write_bytes - before.write_bytes,
                    controller_busy: site.front.controller.borrow().busy_ns(now) as f64
                        / ns
                        / f64::from(sanboot.controller.cores),
                    port_busy: port[0].max(port[1]) as f64 / ns,
                    drive_busy: (busy() - busy_before) as f64 / ns / disks.len().max(1) as f64,
                })
            },
        )
        .unwrap_or_else(|| Err(Abandoned.into()))
        .context(name)
}

/// A number of its own for each repeat: a server takes the same times in all storms of one repeat, so that
/// storms differ by what the array does.
fn seed_of(seed: u64, which: StormOf) -> u64 {
    // The odd constant is 2^64 divided by the golden ratio.
    (seed.rotate_left(23) ^ (u64::from(which.repeat) + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
