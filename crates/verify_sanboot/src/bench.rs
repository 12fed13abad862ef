//! The servers of one point before whatever they use, in either world: brought to where they are in the long
//! run, then measured, window by window.

use std::rc::Rc;

use anyhow::Result;
use array::status::ControllerStatus;
use world::{Instant, World};

use super::host::{Ramp, Tally};
use super::measured::{Sample, Scene, hit_share};
use super::results::Point;
use super::scenario::Sanboot;
use super::steady::{pass, warm_up};
use super::which::Which;

/// What a world shows of what the servers use.
pub(super) trait Probe {
    /// Whether that is an array, and one that answers.
    fn has_array(&self) -> bool;

    /// What its controllers say; nothing where there is none.
    async fn status(&self) -> Result<Vec<ControllerStatus>>;

    /// Everything that is counted, now; these are the servers.
    async fn sample(&self, ramp: &Ramp) -> Result<Sample>;
}

/// The servers, logged in, none of them started.
pub(super) struct Bench<'a, P> {
    pub(super) sanboot: &'a Sanboot,
    pub(super) which: &'a Which,
    pub(super) world: World,
    pub(super) ramp: Rc<Ramp>,
    pub(super) probe: P,
    /// When the point began: its warm-up is counted from there.
    pub(super) began: Instant,
}

impl<P: Probe> Bench<'_, P> {
    /// The point that this seed gives.
    pub(super) async fn run(&self, seed: u64) -> Result<Point> {
        let settled = self.settle().await?;
        self.ramp.take_tallies();
        let scene = Scene::of(self.sanboot, self.which);
        let first = self.probe.sample(&self.ramp).await?;
        let (mut last, mut windows) = (first.clone(), Vec::new());
        for _ in 0..self.windows() {
            self.window().await?;
            let next = self.probe.sample(&self.ramp).await?;
            windows.push(scene.window(&last, &next));
            last = next;
        }
        let seconds = |from: u64, to: u64| (to - from) as f64 / 1e9;
        let measured_s = seconds(first.at_ns, last.at_ns);
        let rate = |tally: Tally| tally.rate(measured_s);
        Ok(Point {
            pattern: self.which.pattern,
            layout: self.which.layout,
            servers: self.which.servers,
            repeat: self.which.repeat,
            packing: self.which.packing.clone(),
            share_of: self.which.share_of,
            lost: self.which.lost,
            seed,
            per_server: self.ramp.take_tallies().into_iter().map(rate).collect(),
            windows,
            resources: scene.resources(&first, &last),
            hit_share: hit_share(first.counts, last.counts),
            warm_up_s: seconds(self.began.0, first.at_ns),
            settled,
            virtual_s: seconds(self.began.0, last.at_ns),
            array_ios: self.ramp.front.executed.get(),
        })
    }

    /// Fills the cache if there is one, starts the servers and lets them run until what they get is steady.
    /// Whether that came about.
    async fn settle(&self) -> Result<bool> {
        let run = &self.sanboot.run;
        if self.probe.has_array() {
            self.fill().await?;
        }
        self.ramp.start(run.outstanding);
        let balanced = !self.probe.has_array() || self.balance().await?;
        Ok(warm_up(&self.world, &self.ramp, run).await? && balanced)
    }

    /// How many are measured.
    fn windows(&self) -> u32 {
        let run = &self.sanboot.run;
        match self.which.pattern.writes_at_random() {
            true => run.windows.min(run.balance_windows),
            false => run.windows,
        }
    }

    /// Lets as much pass as a measured window takes. Where writes are random, what is pending is as even as a
    /// mix is judged by, and no more: what the drives gain of it changes while the elevator passes through.
    async fn window(&self) -> Result<()> {
        let run = &self.sanboot.run;
        let time = run.window_time.0;
        let time = if self.which.pattern.writes_at_random() { time.max(run.balance_time.0) } else { time };
        pass(&self.world, &self.ramp, (run.window_ios, time)).await
    }
}
