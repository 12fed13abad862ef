//! Events of a pool: it is running out of space.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use world::sync::Signal;

/// Hysteresis: after a crossing, the used share must fall this many percent below the threshold before the
/// next event.
const HYSTERESIS_PERCENT: u64 = 2;

/// The kind of threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// A warning: there is time to add drives.
    Soft,
    /// Writes will soon fail for lack of pages.
    Critical,
}

/// An event of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// The used share rose to a threshold.
    ThresholdCrossed {
        /// Soft or critical.
        level: Threshold,
        /// The used share in percent.
        percent: u8,
        /// Bytes in use now.
        used_bytes: u64,
        /// Size of the pool.
        total_bytes: u64,
    },
    /// A write found no free page.
    Full,
}

impl PoolEvent {
    /// Whether a later event of this kind replaces a queued one.
    fn replaces(&self, earlier: &PoolEvent) -> bool {
        let level = |event: &PoolEvent| match event {
            PoolEvent::ThresholdCrossed { level, .. } => Some(*level),
            PoolEvent::Full => None,
        };
        level(self) == level(earlier)
    }
}

/// The thresholds of the used share in percent; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thresholds {
    pub(crate) soft: u8,
    pub(crate) critical: u8,
}

impl Thresholds {
    /// What is wrong with them, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let Thresholds { soft, critical } = *self;
        if let Some(over) = [soft, critical].into_iter().find(|p| *p > 100) {
            return Some(format!("invalid threshold of {over} %: must be at most 100 %"));
        }
        let crossed = soft > 0 && critical > 0 && soft > critical;
        crossed.then(|| {
            format!(
                "invalid soft threshold of {soft} %: must not exceed the critical threshold \
            of {critical} %"
            )
        })
    }
}

/// Queued events: at most one of each kind.
#[derive(Default)]
pub(crate) struct Events {
    queue: RefCell<VecDeque<PoolEvent>>,
    ready: Signal,
    above_soft: Cell<bool>,
    above_critical: Cell<bool>,
    full: Cell<bool>,
}

impl Events {
    /// Checks the used share after a change.
    pub(crate) fn watch(&self, used_bytes: u64, total_bytes: u64, thresholds: Thresholds) {
        let (used, total) = (u128::from(used_bytes) * 100, u128::from(total_bytes));
        let below = |percent: u64| used < total * u128::from(percent);
        let both = [
            (Threshold::Soft, thresholds.soft, &self.above_soft),
            (Threshold::Critical, thresholds.critical, &self.above_critical),
        ];
        for (level, percent, above) in both {
            if !above.get() && percent > 0 && !below(percent.into()) {
                above.set(true);
                self.tell(PoolEvent::ThresholdCrossed { level, percent, used_bytes, total_bytes });
            } else if above.get() && below(u64::from(percent).saturating_sub(HYSTERESIS_PERCENT)) {
                above.set(false);
            }
        }
        if self.full.get() && below(100 - HYSTERESIS_PERCENT) {
            self.full.set(false);
        }
    }

    /// Changes the thresholds; raises an event if the share is above one of them.
    pub(crate) fn renew(&self) {
        self.above_soft.set(false);
        self.above_critical.set(false);
    }

    pub(crate) fn full(&self) {
        if !self.full.replace(true) {
            self.tell(PoolEvent::Full);
        }
    }

    fn tell(&self, event: PoolEvent) {
        let mut queue = self.queue.borrow_mut();
        queue.retain(|earlier| !event.replaces(earlier));
        queue.push_back(event);
        drop(queue);
        self.ready.wake_all();
    }

    #[cfg(test)]
    pub(crate) fn try_next(&self) -> Option<PoolEvent> {
        self.queue.borrow_mut().pop_front()
    }

    pub(crate) async fn next(&self) -> PoolEvent {
        self.ready.wait_for(|| self.queue.borrow_mut().pop_front()).await
    }
}
