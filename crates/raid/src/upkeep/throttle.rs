//! How long work pauses between its steps, so that the foreground keeps its share.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use world::{Instant, World, yield_now};

use crate::inner::Inner;

/// Waits for the turn of a step of so many bytes of drive I/O; `None` while nobody gives turns.
pub type Turns = Rc<dyn Fn(u64) -> Option<Pin<Box<dyn Future<Output = ()>>>>>;

/// Whether long work goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// It does.
    On,
    /// It waits until it is told otherwise.
    Wait,
    /// It ends at its next step; what it has done stays done.
    End,
}

/// Paused work asks so often whether it may go on.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// Paces the steps of long work.
#[derive(Clone)]
pub struct Throttle {
    world: World,
    foreground_share_percent: u8,
    turns: Option<Turns>,
    control: Option<Rc<dyn Fn() -> Go>>,
}

/// The most that the foreground can be promised: the work must come to an end.
const SHARE_PERCENT_MAX: u8 = 99;

/// After a step that took `took`: no pause while nobody else wants the drives; otherwise so long that the steps take no more than
/// what the foreground leaves of the time.
fn pause(took: Duration, foreground_was_busy: bool, foreground_share_percent: u8) -> Duration {
    let share = u32::from(foreground_share_percent.min(SHARE_PERCENT_MAX));
    match foreground_was_busy {
        true => took * share / (100 - share),
        false => Duration::ZERO,
    }
}

impl Throttle {
    /// The foreground keeps `foreground_share_percent` of the time, while there is one.
    pub fn new(world: World, foreground_share_percent: u8) -> Throttle {
        Throttle { world, foreground_share_percent, turns: None, control: None }
    }

    /// While somebody gives turns, each step waits for its own, and the share of the time does not count.
    pub fn with_turns(self, turns: Turns) -> Throttle {
        Throttle { turns: Some(turns), ..self }
    }

    /// Asked after each step whether the work goes on.
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

    /// To be called after a step that began at `began`. Lets others run in any case.
    pub async fn step_done(&self, began: Instant, foreground_was_busy: bool) {
        let took = self.world.now().since(began);
        let pause = pause(took, foreground_was_busy, self.foreground_share_percent);
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
    /// Operations of users when the last step ended: those during the pause count, too.
    seen: u64,
    began: Instant,
}

impl<'a> Steps<'a> {
    pub(crate) fn begin(inner: &'a Inner, throttle: &'a Throttle) -> Steps<'a> {
        Steps { inner, throttle, seen: inner.foreground.get(), began: throttle.world.now() }
    }

    /// Waits while the work is paused; whether it goes on then.
    pub(crate) async fn may_go_on(&self) -> bool {
        while self.throttle.go() == Go::Wait {
            self.throttle.world.sleep(WAIT_INTERVAL).await;
        }
        self.throttle.go() == Go::On
    }

    /// A step of so many bytes of drive I/O ended: pauses as the throttle says; then the next one begins, if the work goes on.
    pub(crate) async fn step_done(&mut self, drive_bytes: u64) -> bool {
        let foreground = self.inner.foreground.get();
        let busy = foreground != self.seen;
        self.seen = foreground;
        match self.throttle.turns.as_ref().and_then(|turns| turns(drive_bytes)) {
            Some(turn) => turn.await,
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
