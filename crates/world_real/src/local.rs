//! The services of a world for its drives, besides the ring: tasks, timers, and helper calls with a deadline.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::{self, Rc};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use world::Instant;
use world::io::{Completions, Io};

use crate::aside::{self, Answer, Closings};
use crate::clock;
use crate::executor::Tasks;
use crate::operations::drive::Medium;
use crate::rbd::Flights;
use crate::reactor::Reactor;
use crate::timers::Timers;

/// An image with the lane of calls about it.
type Image = (PathBuf, Weak<Flights>);

/// The parts of a world that its drives share.
#[derive(Clone)]
pub(crate) struct Local {
    pub(crate) tasks: Rc<Tasks>,
    pub(crate) timers: Rc<RefCell<Timers>>,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) closings: Closings,
    /// Images that were opened here: the cluster has to be told of their end, whatever still holds a handle.
    images: Rc<RefCell<Vec<Image>>>,
    /// Files and devices that were opened here: another process may open them when the world has ended,
    /// whatever still holds a handle.
    media: Rc<RefCell<Vec<rc::Weak<Medium>>>>,
}

impl Local {
    pub(crate) fn new(tasks: Tasks, reactor: Rc<Reactor>) -> Local {
        Local {
            tasks: Rc::new(tasks),
            timers: Rc::default(),
            reactor,
            closings: Closings::default(),
            images: Rc::default(),
            media: Rc::default(),
        }
    }

    pub(crate) fn sleep_until(&self, deadline: Instant) -> Io<()> {
        if deadline <= clock::now() {
            return Io::ready(());
        }
        self.timers.borrow_mut().set(deadline)
    }

    /// Remembers an image that was opened.
    pub(crate) fn opened(&self, lane: PathBuf, image: &Arc<Flights>) {
        let mut images = self.images.borrow_mut();
        images.retain(|(_, image)| image.strong_count() > 0);
        images.push((lane, Arc::downgrade(image)));
    }

    /// Remembers a file or a device that was opened.
    pub(crate) fn opened_medium(&self, medium: &Rc<Medium>) {
        let mut media = self.media.borrow_mut();
        media.retain(|medium| medium.strong_count() > 0);
        media.push(Rc::downgrade(medium));
    }

    /// Closes the files and devices that are still open. Nothing is in flight any more.
    pub(crate) fn close_media(&self) {
        self.media.take().iter().filter_map(rc::Weak::upgrade).for_each(|medium| medium.close());
    }

    /// Closes the images that are still open, on other threads: their locks are released.
    pub(crate) fn close_images(&self) {
        for (lane, image) in self.images.take() {
            if let Some(image) = image.upgrade() {
                self.closings.close(&lane, move || image.close());
            }
        }
    }

    /// Makes a call about `lane` on another thread, then calls `then` here with the result, or with `None`
    /// after the deadline.
    pub(crate) fn ask<T: Send + 'static, U: 'static>(
        &self,
        lane: &Path,
        time_max: Option<Duration>,
        call: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Option<T>) -> U + 'static,
    ) -> Io<U> {
        let Some(answer) = aside::ask(lane, call) else { return Io::ready(then(None)) };
        let (io, end) = Completions::default().start();
        let deadline = time_max.map(|time| self.sleep_until(clock::now() + time));
        self.tasks.spawn(Box::pin(async move {
            let outcome = in_time(answer, deadline).await;
            end.complete(then(outcome));
        }));
        io
    }
}

/// The result, if it comes before the deadline.
async fn in_time<T>(answer: Answer<T>, mut deadline: Option<Io<()>>) -> Option<T> {
    let mut answer = pin!(answer);
    poll_fn(|cx| {
        if let Poll::Ready(value) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        match deadline.as_mut().map(|d| Pin::new(d).poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}
