//! The pauses of work that moves or scans pages beside the volumes' own I/O.

use std::ops::ControlFlow;

use raid::Throttle;

use crate::Pool;

impl Pool {
    /// A pace for [`Pool::evacuate`], [`Pool::rebalance`] and [`Pool::reclaim`]: after every step during
    /// which volumes of this pool had I/O, it pauses as the throttle requires. It never stops the work.
    pub fn paced(&self, throttle: Throttle) -> impl AsyncFnMut(u64) -> ControlFlow<()> + use<> {
        let inner = self.0.clone();
        let (mut began, mut operations) = (inner.world.now(), inner.counts.get().operations);
        async move |_| {
            throttle.step_done(began, inner.counts.get().operations != operations).await;
            (began, operations) = (inner.world.now(), inner.counts.get().operations);
            ControlFlow::Continue(())
        }
    }
}
