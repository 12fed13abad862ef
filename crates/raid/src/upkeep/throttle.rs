//! The pauses of background work between its steps, so that the foreground keeps its share.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use world::{Instant, World, yield_now};

use crate::inner::Inner;

/// Waits for the turn of a step with this many bytes of drive I/O; `None` if there is no scheduler.
pub type Turns = Rc<dyn Fn(u64) -> Option<Pin<Box<dyn Future<Output = ()>>>>>;

/// Whether background work continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// Continue.
    On,
    /// Wait until told otherwise.
    Wait,
    /// End at the next step; completed steps remain done.
    End,
}

/// How often paused work asks whether it may continue.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// Paces the steps of background work.
#[derive(Clone)]
pub struct Throttle {
    world: World,
    foreground_share_percent: u8,
    resync_share_percent: u8,
    turns: Option<Turns>,
    control: Option<Rc<dyn Fn() -> Go>>,
}

/// The largest share of the foreground: the work must come to an end.
const SHARE_PERCENT_MAX: u8 = 99;

/// The longest pause of a resync. So it advances by a step of 1 MiB in little more than a second at least,
/// whatever hosts do.
const RESYNC_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after a step of length `took`: none while no other I/O wants the drives; otherwise so long that
/// the steps take no more than the remaining share of the time.
fn pause(took: Duration, foreground_was_busy: bool, foreground_share_percent: u8) -> Duration {
    let share = u32::from(foreground_share_percent.min(SHARE_PERCENT_MAX));
    match foreground_was_busy {
        true => took * share / (100 - share),
        false => Duration::ZERO,
    }
}

/// How long a resync leaves the drives to hosts that want them, after a step of length `took`: so that these
/// have this share of the time, but 1 s at most.
pub fn resync_pause(took: Duration, foreground_share_percent: u8) -> Duration {
    pause(took, true, foreground_share_percent).min(RESYNC_PAUSE_MAX)
}

impl Throttle {
    /// The foreground, if there is any, keeps `foreground_share_percent` of the time.
    pub fn new(world: World, foreground_share_percent: u8) -> Throttle {
        let resync_share_percent = foreground_share_percent;
        Throttle { world, foreground_share_percent, resync_share_percent, turns: None, control: None }
    }

    /// Beside a resync the foreground keeps at least this share while half of the drives or more have reads
    /// in flight; the resync then pauses for one second at most after each step of 1 MiB. Not while a drive
    /// is to be rebuilt, since that waits for the resync.
    pub fn with_resync_share(self, percent: u8) -> Throttle {
        Throttle { resync_share_percent: percent.max(self.foreground_share_percent), ..self }
    }

    /// While there is a scheduler, each step waits for its turn, and the share is ignored.
    pub fn with_turns(self, turns: Turns) -> Throttle {
        Throttle { turns: Some(turns), ..self }
    }

    /// Asked after each step whether the work continues.
    pub fn with_control(self, control: Rc<dyn Fn() -> Go>) -> Throttle {
        Throttle { control: Some(control), ..self }
    }

    fn go(&self) -> Go {
        self.control.as_ref().map_or(Go::On, |control| control())
    }

    /// No pauses.
    pub fn none(world: World) -> Throttle {
        Throttle::new(world, 0)
    }

    /// Called after a step that began at `began`. Yields in any case.
    pub async fn step_done(&self, began: Instant, foreground_was_busy: bool) {
        let took = self.world.now().since(began);
        self.pause(pause(took, foreground_was_busy, self.foreground_share_percent)).await;
    }

    /// The same after a step of a resync that nobody waits for.
    async fn resync_step_done(&self, began: Instant, foreground_was_busy: bool) {
        let took = self.world.now().since(began);
        let pause = match foreground_was_busy {
            true => resync_pause(took, self.resync_share_percent),
            false => Duration::ZERO,
        };
        self.pause(pause).await;
    }

    async fn pause(&self, pause: Duration) {
        match pause.is_zero() {
            true => yield_now().await,
            false => self.world.sleep(pause).await,
        }
    }
}

/// The steps of one work on one group.
pub(crate) struct Steps<'a> {
    inner: &'a Inner,
    throttle: &'a Throttle,
    /// User operations when the last step ended: operations during the pause count, too.
    seen: u64,
    began: Instant,
}

impl<'a> Steps<'a> {
    pub(crate) fn begin(inner: &'a Inner, throttle: &'a Throttle) -> Steps<'a> {
        Steps { inner, throttle, seen: inner.foreground.get(), began: throttle.world.now() }
    }

    /// Waits while the work is paused. Returns whether it continues.
    pub(crate) async fn may_go_on(&self) -> bool {
        while self.throttle.go() == Go::Wait {
            self.throttle.world.sleep(WAIT_INTERVAL).await;
        }
        self.throttle.go() == Go::On
    }

    /// Ends a step with this many bytes of drive I/O: pauses as the throttle requires, then the next step
    /// begins if the work continues.
    pub(crate) async fn step_done(&mut self, drive_bytes: u64) -> bool {
        self.end_step(drive_bytes, false).await
    }

    /// The same of a resync, which yields more to reads that wait for drives.
    pub(crate) async fn resync_step_done(&mut self, drive_bytes: u64) -> bool {
        let yields_more = self.inner.rebuilding.get().is_none() && self.inner.is_read_from();
        self.end_step(drive_bytes, yields_more).await
    }

    async fn end_step(&mut self, drive_bytes: u64, yields_more: bool) -> bool {
        let foreground = self.inner.foreground.get();
        let busy = foreground != self.seen;
        self.seen = foreground;
        match self.throttle.turns.as_ref().and_then(|turns| turns(drive_bytes)) {
            Some(turn) => turn.await,
            None if yields_more => self.throttle.resync_step_done(self.began, busy).await,
            None => self.throttle.step_done(self.began, busy).await,
        }
        let goes_on = self.may_go_on().await;
        self.began = self.throttle.world.now();
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_foreground_keeps_its_share_of_the_time() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(10), false, 70), Duration::ZERO);
        assert_eq!(pause(ms(30), true, 70), ms(70));
        assert_eq!(pause(ms(10), true, 0), Duration::ZERO);
        assert_eq!(pause(ms(1), true, 100), ms(99));
    }
}
