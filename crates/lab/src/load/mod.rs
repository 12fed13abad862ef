//! Loads: one pattern against one LU, as cheap as an initiator can be, so that the figures are the array's.

mod outcome;
mod reads;
mod window;
mod writes;

use anyhow::{Context, Result, anyhow, ensure};
use iscsi::initiator::{Options, Session, Url};
use scsi::Lun;
use world::World;

pub use outcome::Outcome;

use crate::cli::Pattern;
use crate::hosts::{Disk, thread_cpu};
use window::{Places, Window};

/// What a load does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The LU.
    pub url: String,
    /// What to do.
    pub pattern: Pattern,
    /// Bytes of one command.
    pub size: u64,
    /// Commands in flight per connection.
    pub depth: u16,
    /// How long it is measured.
    pub seconds: f64,
    /// How long it runs before.
    pub warm_up_seconds: f64,
    /// Sessions.
    pub connections: usize,
    /// The processor of the first.
    pub cpu: Option<usize>,
    /// Only so many bytes of the LU.
    pub span: Option<u64>,
    /// Whether content is checked.
    pub verify: bool,
    /// Random seed.
    pub seed: u64,
}

/// One connection of a load.
#[derive(Clone)]
struct Lane {
    plan: Plan,
    login: Options,
    lun: Lun,
    index: usize,
}

/// Most commands in flight on one connection: what a session's table of tags holds.
const DEPTH_MAX: u16 = 1000;
/// The longest that a load runs: a week.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

/// Runs a load to its end.
pub fn run(plan: &Plan) -> Result<Outcome> {
    let url = Url::parse(&plan.url)?;
    check(plan)?;
    let login = crate::vaai::login_of(&url)?;
    let mut threads = Vec::new();
    for index in 0..plan.connections {
        // An initiator port of its own for each session.
        let number = (index as u32 + 1).to_be_bytes();
        let login =
            Options { isid: [0x80, 1, number[2], number[3], 0, 0], depth_max: plan.depth, ..login.clone() };
        let lane = Lane { plan: plan.clone(), login, lun: Lun(url.lun), index };
        let cpu = plan.cpu.map(|first| first + index);
        let options = world_real::Options {
            seed: plan.seed ^ (index as u64) << 32,
            cpu,
            ..world_real::Options::default()
        };
        threads.push(world_real::start(&format!("load-{index}"), options, move |world| lane.run(world))?);
    }
    let mut total: Option<Outcome> = None;
    for thread in threads {
        let outcome = thread.join().map_err(|_| anyhow!("a connection has panicked"))???;
        total = Some(total.map_or_else(|| outcome.clone(), |t| t.plus(&outcome)));
    }
    total.ok_or_else(|| anyhow!("no connection ran"))
}

fn check(plan: &Plan) -> Result<()> {
    ensure!(plan.size > 0 && plan.size <= world::BUF_LEN_MAX as u64, "--size: between one block and 8 MiB");
    ensure!((1..=DEPTH_MAX).contains(&plan.depth), "--depth: between 1 and {DEPTH_MAX}");
    ensure!((1..=1024).contains(&plan.connections), "--connections: between 1 and 1024");
    ensure!(plan.seconds > 0.0 && plan.seconds <= SECONDS_MAX, "--seconds: more than 0, at most a week");
    ensure!((0.0..=SECONDS_MAX).contains(&plan.warm_up_seconds), "--warm-up-seconds: at most a week");
    ensure!(!plan.verify || plan.size.is_multiple_of(4096), "--verify: needs a --size of whole 4 KiB");
    Ok(())
}

impl Lane {
    async fn run(self, world: World) -> Result<Outcome> {
        let session = Session::login(&world, &self.login).await.with_context(|| self.plan.url.clone())?;
        let disk = Disk::open(world.clone(), session.clone(), self.lun)
            .await
            .with_context(|| self.plan.url.clone())?;
        let caps = disk.capabilities().await?;
        let len = self.plan.span.unwrap_or(u64::MAX).min(caps.len_bytes);
        let (size, block) = (self.plan.size, caps.block_bytes);
        ensure!(size.is_multiple_of(block.into()), "--size {size}: the LU has blocks of {block} bytes");
        ensure!(len >= size, "--span: the load has no room on {len} bytes");
        ensure!(
            caps.transfer_bytes_max == 0 || size <= caps.transfer_bytes_max,
            "--size {size}: the LU takes {} bytes at most",
            caps.transfer_bytes_max
        );
        let places = Places::new(
            self.plan.pattern.is_random(),
            size,
            len,
            (self.index, self.plan.connections),
            world.random("places"),
        );
        let window = Window::new(world.now(), self.plan.warm_up_seconds, self.plan.seconds);
        let before = thread_cpu();
        let cheap = !self.plan.verify && !self.plan.pattern.writes();
        let window = if cheap {
            session.close();
            reads::run(&world, &self.login, self.lun, block, places, self.plan.depth, window).await?
        } else {
            writes::run(&disk, &self.plan, places, window).await?
        };
        let cpu = thread_cpu() - before;
        Ok(window.outcome(&self.plan, cpu))
    }
}
