//! Everything grows while clients work: an over-committed pool warns, is full, and gets a group; the LU grows
//! and its host hears of it, then the virtual disk, the partition and the file system; what is copied then is
//! deleted, and comes back to the pool.
//!
//! ```text
//!   as made | filling up | full | a group joins | LU | virtual disk | volume | filled | deleted, UNMAP | compacted
//!                                                      └─ offline, and so is compaction: the guest's I/O waits
//! ```
//!
//! A second run has the same clients copy the same files where nothing of this is done: what a file takes
//! longer here than there is what the stages cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::scenario::Fileserver;
use super::bed::{Bed, LU_MORE_BYTES, Shape, StagedShape, volume};
use super::copier::Copier;
use super::copies::{self, Copied, Times};
use super::course::{Stage as Name, StageSpan, Staged, StagedWindow};
use super::disk::Format;
use super::growth::{expand, pool, used_percent, window};
use super::layout::Layout;
use super::play::{Near, Set, Stage, Use, Watcher};
use super::server::Server;
use lab_tools::files::{Plan, SetSpec};

const WINDOW: Duration = Duration::from_secs(1);
/// Before the first stage: the clients have only begun.
const WARM_UP_S: u32 = 5;
/// How often it is looked whether something has come.
const LOOK: Duration = Duration::from_millis(1);
/// So long a host waits for the news that its LU has grown, and an array for space that comes back.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// CAPACITY DATA HAS CHANGED, and THIN PROVISIONING SOFT THRESHOLD REACHED.
const CAPACITY_CHANGED: u16 = 0x2a09;
const THRESHOLD_REACHED: u16 = 0x3807;

/// Where a run begins.
pub(super) struct Ground {
    scenario: Fileserver,
    bed: Bed,
    /// The same with nothing else in the pool.
    still: Bed,
    set: Set,
}

/// What is counted every second.
#[derive(Default)]
struct Samples {
    windows: RefCell<Vec<StagedWindow>>,
    /// Of the pool, when it was looked at last.
    used_percent: Cell<f64>,
}

/// A run that goes on.
struct Play<'a> {
    scenario: &'a Fileserver,
    stage: Stage,
    server: Rc<Server>,
    copier: Rc<Copier>,
    samples: Rc<Samples>,
    watcher: &'a Watcher<'a>,
    /// Of the disk before.
    disk_bytes: u64,
    /// What the virtual disk's blocks have, when files have been deleted.
    kept_bytes: u64,
    staged: Staged,
}

impl Ground {
    pub(super) fn make(scenario: &Fileserver, format: Format, seed: u64) -> Result<Ground> {
        let scenario = scenario.clone();
        let own = &scenario.staged;
        let plan = Plan::new(SetSpec::published(seed).with_trees(own.trees, own.dummy_trees))?;
        let layout = Layout::new(&plan, scenario.published.disk.0)?;
        let staged = StagedShape {
            drive_bytes: own.drive_bytes.map(|size| size.0),
            thresholds: (own.warning_percent, own.critical_percent),
        };
        let shape = Shape {
            pool_free_bytes: Some(own.free.0),
            spare_groups: 1,
            staged: Some(staged),
            ..Shape::published(format, 1)
        };
        let still = Shape { pool_free_bytes: None, ..shape.clone() };
        let bed = Bed::make(&scenario, shape, Some(&layout), seed)?;
        let still = Bed::make(&scenario, still, Some(&layout), seed)?;
        Ok(Ground { scenario, bed, still, set: Set { plan: plan.into(), layout: layout.into() } })
    }

    pub(super) fn run(&self, seed: u64, watcher: &Watcher<'_>) -> Result<Staged> {
        let model = self.bed.model(seed);
        let format = self.bed.shape.format;
        let what = Use::published(&self.scenario, 1, false, seed);
        let run = model.run(async |world| {
            let stage = Stage::start(&self.scenario, (&model, &world, &self.bed), &self.set, what).await?;
            let server = stage.servers[0].clone();
            server.note_copies();
            let disk_bytes = self.scenario.published.disk.0;
            server.disk.lu.watch_pages(self.scenario.array.page.0, self.bed.vdisk.end(disk_bytes));
            let copier = Copier::new(&self.scenario, &server);
            let samples = Rc::<Samples>::default();
            sample(&stage, &server, &copier, &samples);
            let staged = nothing_yet(format);
            let scenario = &self.scenario;
            let mut play =
                Play { scenario, stage, server, copier, samples, watcher, disk_bytes, kept_bytes: 0, staged };
            play.all().await?;
            let (began_ns, copied) = (play.stage.began_ns, play.server.copied());
            anyhow::Ok((play.end(), began_ns, copied))
        });
        let (mut staged, began_ns, copied) =
            run.with_context(|| format!("growth, stage by stage, {format:?}"))?;
        if let Some(last) = staged.span(Name::VolumeGrown) {
            let to_ns = began_ns + (last.to_s * 1e9) as u64;
            let needed: Vec<Copied> = copied.into_iter().filter(|one| one.from_ns < to_ns).collect();
            let there = self.where_nothing_grows(seed, &needed, (last.to_s, watcher))?;
            let at_ns = |w: &StagedWindow| began_ns + (w.load.at_s * 1e9).round() as u64;
            let ends: Vec<u64> = staged.windows.iter().map(at_ns).take_while(|end| *end <= to_ns).collect();
            let spent = copies::compare(&needed, &there, (&ends, WINDOW.as_nanos() as u64));
            staged.windows.iter_mut().zip(spent).for_each(|(window, spent)| window.spent = Some(spent));
        }
        Ok(staged)
    }

    /// The same clients where nothing is filled, grown or compacted, until they have copied the same files,
    /// or for twice the time: what each file took.
    fn where_nothing_grows(
        &self,
        seed: u64,
        needed: &[Copied],
        (seconds, watcher): (f64, &Watcher<'_>),
    ) -> Result<Times> {
        let model = self.still.model(seed);
        let what = Use::published(&self.scenario, 1, false, seed);
        let run = model.run(async |world| {
            let stage = Stage::start(&self.scenario, (&model, &world, &self.still), &self.set, what).await?;
            let server = stage.servers[0].clone();
            server.note_copies();
            for passed in 0..(2.0 * seconds) as u32 {
                stage.world.sleep(WINDOW).await;
                stage.check()?;
                (watcher.tell)(passed.into(), seconds.max(passed.into()));
                let there = copies::times(&server.copied());
                let is_whole = needed.iter().all(|one| there.contains_key(&(one.unit, one.file)));
                if is_whole || watcher.stop.is_asked() {
                    break;
                }
            }
            anyhow::Ok(copies::times(&server.copied()))
        });
        run.context("the same files where nothing grows")
    }
}

fn nothing_yet(format: Format) -> Staged {
    Staged {
        format,
        stages: vec![],
        windows: vec![],
        seen_s: None,
        deleted_bytes: 0,
        shrunk_bytes: 0,
        compacted_bytes: 0,
        returned_bytes: 0,
        reused_bytes: 0,
        warned_s: vec![],
        refused_s: None,
        wrongly_refused: 0,
    }
}

/// Roughly how long all of it takes, in virtual time.
pub(super) fn estimate_s(scenario: &Fileserver) -> f64 {
    /// What a server takes of a copy.
    const MB_PER_S: f64 = 40.0;
    let own = &scenario.staged;
    let waits = f64::from(own.seconds) * Name::ALL.len() as f64 + f64::from(own.full_seconds);
    waits + (own.fill.0 + own.free.0) as f64 / 1e6 / MB_PER_S
}

/// Counts every second, for ever.
fn sample(stage: &Stage, server: &Rc<Server>, copier: &Rc<Copier>, samples: &Rc<Samples>) {
    let (fabric, began_ns) = (stage.fabric.clone(), stage.began_ns);
    let (servers, copier, samples) = ([server.clone()], copier.clone(), samples.clone());
    stage.spawn(async move {
        let mut before = (Near::of(&fabric, &servers), copier.copied_bytes());
        loop {
            fabric.world.sleep(WINDOW).await;
            let now = (Near::of(&fabric, &servers), copier.copied_bytes());
            let seconds = (now.0.at_ns - before.0.at_ns) as f64 / 1e9;
            let at_s = (now.0.at_ns - began_ns) as f64 / 1e9;
            let copied_mb_per_s = (now.1 - before.1) as f64 / seconds / 1e6;
            let mut load = window((&before.0, &now.0), at_s, samples.used_percent.get());
            // A file that is copied is a file that is written.
            load.write_mb_per_s = (load.write_mb_per_s - copied_mb_per_s).max(0.0);
            samples.windows.borrow_mut().push(StagedWindow { load, copied_mb_per_s, spent: None });
            before = now;
        }
    });
}

impl Play<'_> {
    fn now_s(&self) -> f64 {
        self.stage.seconds(self.stage.world.now().0)
    }

    fn is_stopped(&self) -> bool {
        self.watcher.stop.is_asked()
    }

    /// Bytes of the pool: used, all.
    async fn look(&self) -> Result<(u64, u64)> {
        self.stage.check()?;
        let status = self.stage.array.status().await?;
        let pool = pool(&status);
        self.samples.used_percent.set(used_percent(pool));
        (self.watcher.tell)(self.now_s(), estimate_s(self.scenario).max(self.now_s()));
        pool.map(|p| (p.used_bytes, p.size_bytes)).context("the pool is there")
    }

    async fn wait(&self, seconds: u32) -> Result<()> {
        for _ in 0..seconds {
            if self.is_stopped() {
                break;
            }
            self.stage.world.sleep(WINDOW).await;
            self.look().await?;
        }
        Ok(())
    }

    /// A stage: something is done, and then it goes on for so many seconds.
    async fn run(
        &mut self,
        stage: Name,
        seconds: u32,
        work: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.is_stopped() {
            return Ok(());
        }
        let from_s = self.now_s();
        work(self).await.with_context(|| stage.name())?;
        let took_s = Some(self.now_s() - from_s).filter(|took| *took > 0.0);
        self.wait(seconds).await?;
        let (used_bytes, size_bytes) = self.look().await?;
        let to_s = self.now_s();
        self.staged.stages.push(StageSpan { stage, from_s, to_s, took_s, used_bytes, size_bytes });
        Ok(())
    }

    async fn all(&mut self) -> Result<()> {
        let (seconds, full) = (self.scenario.staged.seconds, self.scenario.staged.full_seconds);
        self.wait(WARM_UP_S).await?;
        self.run(Name::AsMade, seconds, async |_| Ok(())).await?;
        self.run(Name::FillingUp, 0, Play::fill_up).await?;
        self.run(Name::Full, full, async |_| Ok(())).await?;
        self.run(Name::GroupJoined, seconds, async |play| expand(&mut play.stage).await).await?;
        self.run(Name::LuGrown, seconds, Play::grow_lu).await?;
        self.run(Name::DiskGrown, seconds, async |play| {
            play.server.disk.grow(play.scenario.staged.disk.0).await
        })
        .await?;
        self.run(Name::VolumeGrown, seconds, async |play| {
            play.server.grow_volume(play.disk_bytes, play.scenario.staged.disk.0).await
        })
        .await?;
        self.run(Name::Filled, seconds, async |play| {
            // What was copied before stays.
            play.copier.take_files();
            play.start_copies(play.scenario.staged.fill.0);
            play.until_copied(|_| false).await
        })
        .await?;
        self.run(Name::Deleted, seconds, Play::delete).await?;
        self.run(Name::Compacted, seconds, Play::compact).await
    }

    /// The LU grows; its host hears of it with its next command, and asks how long it is.
    async fn grow_lu(&mut self) -> Result<()> {
        let began = self.stage.world.now();
        let len_bytes = self.scenario.staged.disk.0 + LU_MORE_BYTES;
        let mut config = self.stage.array.config().clone();
        let lu = config.volumes.iter_mut().find(|v| v.name == volume(0)).context("the LU is declared")?;
        lu.len_bytes = len_bytes;
        self.stage.array.apply(config).await?;
        while self.server.disk.lu.heard(CAPACITY_CHANGED).is_empty() {
            ensure!(self.stage.world.now().since(began) < WAIT_MAX, "the host hears nothing of it");
            self.stage.world.sleep(LOOK).await;
        }
        let capacity = self.server.disk.lu.capacity_bytes().await?;
        ensure!(capacity == len_bytes, "the LU has {capacity} bytes, and should have {len_bytes}");
        self.staged.seen_s = Some(self.stage.world.now().since(began).as_secs_f64());
        Ok(())
    }

    fn start_copies(&self, bytes: u64) {
        let copies = self.scenario.staged.copies;
        self.copier.begin(bytes, copies);
        for _ in 0..copies {
            let copier = self.copier.clone();
            self.stage.spawn(async move { copier.copy().await });
        }
    }

    /// Until all is copied, or something else is.
    async fn until_copied(&self, is_over: impl Fn(&Self) -> bool) -> Result<()> {
        while self.copier.is_active() {
            if self.is_stopped() || is_over(self) {
                self.copier.stop();
            }
            self.stage.world.sleep(WINDOW / 10).await;
            self.look().await?;
        }
        Ok(())
    }

    fn allocated_bytes(&self) -> u64 {
        self.server.disk.vdisk.borrow_mut().allocated_bytes()
    }

    fn file_bytes(&self) -> u64 {
        self.server.disk.vdisk.borrow().file_bytes(self.disk_bytes)
    }

    async fn delete(&mut self) -> Result<()> {
        let files = self.copier.take_files();
        let before = self.file_bytes();
        self.staged.deleted_bytes = self.server.delete(&files).await?;
        self.kept_bytes = self.allocated_bytes();
        self.staged.shrunk_bytes = before.saturating_sub(self.file_bytes());
        Ok(())
    }

    /// Until the file is shorter; the pool has its pages back a little later.
    async fn compact(&mut self) -> Result<()> {
        let (used, _) = self.look().await?;
        self.staged.reused_bytes = self.allocated_bytes().saturating_sub(self.kept_bytes);
        let done = self.server.disk.compact().await?;
        self.staged.compacted_bytes = done.before_bytes.saturating_sub(done.after_bytes);
        let returned = used.saturating_sub(self.look().await?.0);
        self.staged.returned_bytes = returned;
        Ok(())
    }

    /// Copies take what other LUs have left of the pool.
    async fn fill_up(&mut self) -> Result<()> {
        let (_, size) = self.look().await?;
        self.start_copies(size);
        self.until_copied(|play| play.server.disk.lu.first_refused().is_some()).await?;
        ensure!(self.is_stopped() || self.server.disk.lu.first_refused().is_some(), "the pool is not full");
        Ok(())
    }

    fn end(self) -> Staged {
        let lu = &self.server.disk.lu;
        let seconds = |at_ns: u64| self.stage.seconds(at_ns);
        Staged {
            windows: self.samples.windows.take(),
            warned_s: lu.heard(THRESHOLD_REACHED).into_iter().map(seconds).collect(),
            refused_s: lu.first_refused().map(seconds),
            wrongly_refused: lu.wrongly_refused(),
            ..self.staged
        }
    }
}
