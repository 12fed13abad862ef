//! What the published experiment left out: virtual disks that grow fast on a pool that is over-committed, a
//! pool that is expanded under them in time, and one that is full before.

use std::time::Duration;

use anyhow::{Context, Result};
use array::status::{ControllerStatus, Pool};

use super::super::scenario::Fileserver;
use super::bed::{Bed, Shape, spare_group};
use super::course::{Growth, GrowthWindow};
use super::disk::Format;
use super::layout::Layout;
use super::play::{Near, Set, Stage, Use, Watcher};
use lab_tools::files::{Plan, SetSpec};

const WINDOW: Duration = Duration::from_secs(1);
/// A full pool gets its group this long after the first write was refused.
const NOTICED_AFTER_S: f64 = 15.0;
/// The trees of a server: enough for all its workers.
const TREES: u32 = 32;
/// The pool of the one server.
const POOL: &str = "p0";

/// Where both runs begin.
pub(super) struct Ground {
    scenario: Fileserver,
    bed: Bed,
    set: Set,
}

impl Ground {
    pub(super) fn make(scenario: &Fileserver, seed: u64) -> Result<Ground> {
        let scenario = scenario.clone();
        let plan = Plan::new(SetSpec::published(seed).with_trees(TREES, 0))?;
        let layout = Layout::new(&plan, scenario.published.disk.0)?;
        let shape = Shape {
            format: Format::Dynamic,
            servers: 1,
            pool_free_bytes: Some(scenario.growth.free.0),
            spare_groups: 1,
            owners: 1,
            staged: None,
        };
        let bed = Bed::make(&scenario, shape, Some(&layout), seed)?;
        Ok(Ground { scenario, bed, set: Set { plan: plan.into(), layout: layout.into() } })
    }

    /// With the pool expanded in time, or when it has been full for a while.
    pub(super) fn run(&self, in_time: bool, seed: u64, watcher: &Watcher<'_>) -> Result<Growth> {
        let model = self.bed.model(seed);
        let name = if in_time { "in_time" } else { "full" };
        let read_percent = self.scenario.growth.read_percent;
        // Everything that is written is a new file.
        let published = Use::published(&self.scenario, 1, false, seed);
        let what = Use { read_percent, replaces: false, ..published };
        let run = model.run(async |world| {
            let stage = Stage::start(&self.scenario, (&model, &world, &self.bed), &self.set, what).await?;
            self.play(stage, (in_time, name), watcher).await
        });
        run.with_context(|| format!("growth, {name}"))
    }

    async fn play(
        &self,
        mut stage: Stage,
        (in_time, name): (bool, &'static str),
        watcher: &Watcher<'_>,
    ) -> Result<Growth> {
        let settings = &self.scenario.growth;
        let (mut windows, mut expanded_s, mut warned_s) = (Vec::new(), None, None);
        let mut refused_s: Option<(f64, f64)> = None;
        let status = stage.array.status().await?;
        let (pool_bytes, promised_bytes) = pool(&status).map_or((0, 0), |p| (p.size_bytes, p.promised_bytes));
        let mut before = stage.near();
        for _ in 0..settings.seconds {
            stage.world.sleep(WINDOW).await;
            stage.check()?;
            let now = stage.near();
            let status = stage.array.status().await?;
            let window = window((&before, &now), stage.seconds(now.at_ns), used_percent(pool(&status)));
            before = now;
            if window.refused > 0 {
                refused_s = Some((refused_s.map_or(window.at_s, |(first, _)| first), window.at_s));
            }
            let is_warned = pool(&status).is_some_and(|p| is_over(p, p.soft_threshold_percent));
            if is_warned && warned_s.is_none() {
                warned_s = Some(window.at_s);
            }
            let is_due = match (in_time, refused_s) {
                (true, _) => window.at_s >= settings.expand_at.0.as_secs_f64(),
                (false, Some((first, _))) => window.at_s >= first + NOTICED_AFTER_S,
                (false, None) => false,
            };
            if is_due && expanded_s.is_none() {
                expanded_s = Some(window.at_s);
                expand(&mut stage).await?;
            }
            (watcher.tell)(window.at_s, settings.seconds.into());
            windows.push(window);
            if watcher.stop.is_asked() {
                break;
            }
        }
        let grown_blocks = stage.near().servers[0].disk.grown;
        Ok(Growth {
            name,
            windows,
            promised_bytes,
            pool_bytes,
            grown_blocks,
            expanded_s: expanded_s.unwrap_or(f64::NAN),
            warned_s,
            refused_s,
        })
    }
}

/// The spare group joins the pool, while everything goes on.
pub(super) async fn expand(stage: &mut Stage) -> Result<()> {
    let mut config = stage.array.config().clone();
    let pool = config.pools.iter_mut().find(|p| p.name == POOL).context("the pool is declared")?;
    pool.groups.push(spare_group(0));
    stage.array.apply(config).await?;
    Ok(())
}

pub(super) fn pool(status: &[ControllerStatus]) -> Option<&Pool> {
    status.iter().flat_map(|controller| &controller.pools).find(|pool| pool.name == POOL)
}

pub(super) fn used_percent(pool: Option<&Pool>) -> f64 {
    pool.map_or(0.0, |p| 100.0 * p.used_bytes as f64 / p.size_bytes.max(1) as f64)
}

fn is_over(pool: &Pool, percent: u8) -> bool {
    u128::from(pool.used_bytes) * 100 >= u128::from(pool.size_bytes) * u128::from(percent)
}

pub(super) fn window((from, to): (&Near, &Near), at_s: f64, used_percent: f64) -> GrowthWindow {
    let (f, t) = (&from.servers[0], &to.servers[0]);
    let seconds = (to.at_ns - from.at_ns) as f64 / 1e9;
    let mb = |to: u64, from: u64| (to - from) as f64 / seconds / 1e6;
    let reads = (t.disk.reads - f.disk.reads).max(1) as f64;
    GrowthWindow {
        at_s,
        read_mb_per_s: mb(t.tally.read_bytes, f.tally.read_bytes),
        write_mb_per_s: mb(t.tally.written_bytes, f.tally.written_bytes),
        read_ms: (t.disk.read_ns - f.disk.read_ns) as f64 / reads / 1e6,
        used_percent,
        refused: t.disk.refused - f.disk.refused,
        held_back: t.tally.held_back,
        lost_mb: (t.tally.lost_bytes - f.tally.lost_bytes) as f64 / 1e6,
        lost_files: t.tally.lost_files - f.tally.lost_files,
    }
}
