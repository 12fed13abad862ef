//! Command slots: an executor task that is created once and executes one command after the other.
//!
//! The reader itself makes the first poll of a command: a command whose data is in memory is answered before
//! the reader continues with the next PDU, without the executor's queue. A command that waits for a drive is
//! woken through the slot's own task.

use std::cell::{OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use scsi::{HostView, Lun, Request, TaskFunction};

use super::seam::Target;
use super::session::Session;

/// A task management function in progress.
pub(crate) struct Management {
    /// The function for the array; none for ABORT TASK without a LU.
    pub(crate) function: Option<TaskFunction>,
    /// Slots of this session's own tasks that must end first.
    pub(crate) victims: Vec<u16>,
    /// Whether the initiator's own sessions end with it: TARGET COLD RESET.
    pub(crate) is_cold: bool,
}

/// The work of a slot.
pub(crate) enum Work {
    Command(Option<Lun>, Request),
    Manage(Management),
}

type Loop = Pin<Box<dyn Future<Output = ()>>>;

/// A command slot.
#[derive(Default)]
pub(crate) struct Slot {
    work: RefCell<Option<Work>>,
    /// `None` before the first command and after the session's end.
    future: RefCell<Option<Loop>>,
    waker: OnceCell<Waker>,
}

impl Slot {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.future.borrow_mut() {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }

    /// Ends the slot's task. Must not be called while a command executes in it.
    pub(crate) fn end(&self) {
        *self.future.borrow_mut() = None;
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl<T: Target> Session<T> {
    /// Assigns work to a free slot and polls it once.
    pub(crate) fn run(self: &Rc<Self>, index: u16, work: Work) {
        let slot = self.slot(index);
        *slot.work.borrow_mut() = Some(work);
        match slot.waker.get() {
            Some(waker) => {
                let _ = slot.poll(&mut Context::from_waker(waker));
            }
            None => self.spawn_slot(index, slot),
        }
    }

    fn spawn_slot(self: &Rc<Self>, index: u16, slot: Rc<Slot>) {
        if slot.future.borrow().is_some() {
            // Its task was spawned and has not run yet; it will find the work.
            return;
        }
        *slot.future.borrow_mut() = Some(Box::pin(slot_task(self.clone(), slot.clone(), index)));
        let task = SlotTask(slot);
        self.world.spawn(poll_fn(move |cx| {
            task.0.waker.get_or_init(|| cx.waker().clone());
            task.0.poll(cx)
        }));
    }
}

/// Held by the executor's task of a slot.
struct SlotTask(Rc<Slot>);

impl Drop for SlotTask {
    /// The executor ends, maybe in the middle of a command: that holds the session, which holds the slot.
    fn drop(&mut self) {
        let future = self.0.future.try_borrow_mut().ok().and_then(|mut future| future.take());
        drop(future);
    }
}

async fn slot_task<T: Target>(session: Rc<Session<T>>, slot: Rc<Slot>, index: u16) {
    loop {
        // The caller that assigns work polls the slot, so no waker is stored.
        let work = poll_fn(|_| slot.work.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await;
        let Some(nexus) = session.nexus() else { return };
        match work {
            Work::Command(lun, request) => {
                let view: &T::View = (*nexus).as_ref();
                let response = view.execute(lun, request).await;
                drop(nexus);
                session.finish(index, response);
            }
            Work::Manage(management) => {
                let outcome = session.manage((*nexus).as_ref(), management).await;
                drop(nexus);
                session.finish_management(index, outcome);
            }
        }
    }
}
