//! What a pool tells on its own: that space runs short.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use world::sync::Signal;

/// After a crossing, the used share must fall this many percent below the threshold before the next one is told.
const HYSTERESIS_PERCENT: u64 = 2;

/// Something that happened to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// The used share has risen to the soft threshold.
    ThresholdCrossed {
        /// The threshold.
        percent: u8,
        /// Bytes in use now.
        used_bytes: u64,
        /// Size of the pool.
        total_bytes: u64,
    },
    /// A write found no free page.
    Full,
}

/// Events that nobody has taken yet: at most one of each kind is on its way.
#[derive(Default)]
pub(crate) struct Events {
    queue: RefCell<VecDeque<PoolEvent>>,
    ready: Signal,
    above: Cell<bool>,
    full: Cell<bool>,
}

impl Events {
    /// Looks at the used share after it changed.
    pub(crate) fn watch(&self, used_bytes: u64, total_bytes: u64, percent: u8) {
        let (used, total, limit) =
            (u128::from(used_bytes) * 100, u128::from(total_bytes), u128::from(percent));
        if !self.above.get() && percent > 0 && used >= total * limit {
            self.above.set(true);
            self.tell(PoolEvent::ThresholdCrossed { percent, used_bytes, total_bytes });
        } else if self.above.get() && used < total * limit.saturating_sub(HYSTERESIS_PERCENT.into()) {
            self.above.set(false);
        }
        if self.full.get() && used < total * u128::from(100 - HYSTERESIS_PERCENT) {
            self.full.set(false);
        }
    }

    pub(crate) fn full(&self) {
        if !self.full.replace(true) {
            self.tell(PoolEvent::Full);
        }
    }

    fn tell(&self, event: PoolEvent) {
        let mut queue = self.queue.borrow_mut();
        queue.retain(|e| std::mem::discriminant(e) != std::mem::discriminant(&event));
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
