//! Command slots: a task of the executor that is made once and executes one command after the other.
//!
//! The first poll of a command is made by the reader itself, on the spot: a command whose data is in memory is answered
//! before the reader looks at the next PDU, and nothing goes through the executor's queue. A command that has to wait for a
//! drive is woken through the slot's own task.

use std::cell::{OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use scsi::{Lun, Request, TaskFunction};

use super::seam::Target;
use super::session::Session;

/// A task management function in progress.
pub(crate) struct Management {
    /// What the array has to do; nothing for ABORT TASK without a LU.
    pub(crate) function: Option<TaskFunction>,
    /// Slots of this session's own tasks that must end first.
    pub(crate) victims: Vec<u16>,
    /// The initiator's own sessions end with it: TARGET COLD RESET.
    pub(crate) is_cold: bool,
}

/// What a slot has to do.
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

    /// Ends the slot's task. Not to be called while a command executes in it.
    pub(crate) fn end(&self) {
        *self.future.borrow_mut() = None;
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl<T: Target> Session<T> {
    /// Gives work to a free slot and polls it once.
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
            // Its task is spawned and has not run yet; it will find the work.
            return;
        }
        *slot.future.borrow_mut() = Some(Box::pin(slot_task(self.clone(), slot.clone(), index)));
        self.world.spawn(poll_fn(move |cx| {
            slot.waker.get_or_init(|| cx.waker().clone());
            slot.poll(cx)
        }));
    }
}

async fn slot_task<T: Target>(session: Rc<Session<T>>, slot: Rc<Slot>, index: u16) {
    loop {
        // Who brings work polls the slot: no waker needs to be kept here.
        let work = poll_fn(|_| slot.work.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await;
        let Some(nexus) = session.nexus() else { return };
        match work {
            Work::Command(lun, request) => {
                let response = session.target.execute(&nexus, lun, request).await;
                drop(nexus);
                session.finish(index, response);
            }
            Work::Manage(management) => {
                let outcome = session.manage(&nexus, management).await;
                drop(nexus);
                session.finish_management(index, outcome);
            }
        }
    }
}
