//! Time and tasks of a thread, for measuring operations and their deadlines.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{Instant, Io};

/// Time and tasks as a world implements them. Callers use [`World`](crate::World); a drive uses it for its
/// deadlines.
pub trait TaskBackend {
    /// Nanoseconds since the world began.
    fn now(&self) -> Instant;
    /// CPU time that the thread has used.
    fn cpu_time(&self) -> Duration;
    /// Completes at `deadline`, or at once when it has passed.
    fn sleep_until(&self, deadline: Instant) -> Io<()>;
    /// Runs a task on this thread.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>);
}

/// Lets the other ready tasks run first.
pub async fn yield_now() {
    struct Yield(bool);
    impl Future for Yield {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            if self.0 {
                return Poll::Ready(());
            }
            self.0 = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Yield(false).await;
}
