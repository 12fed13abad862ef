//! The controllers of a process, of which each can end and begin anew.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use array::{ControllerHandle, Mailbox, Nodes, run_controller};
use async_channel::{Receiver, Sender, unbounded};
use futures::channel::oneshot;

use super::process::Process;

pub(super) struct Threads {
    process: Rc<Process>,
    pub(super) handles: Vec<ControllerHandle>,
    mailboxes: Vec<Mailbox>,
    running: RefCell<BTreeMap<usize, oneshot::Receiver<()>>>,
    tell: Sender<usize>,
    /// Those that have ended.
    pub(super) ended: Receiver<usize>,
}

impl Threads {
    /// None of them runs yet.
    pub(super) fn of(process: &Rc<Process>, all: Vec<(ControllerHandle, Mailbox)>) -> Rc<Threads> {
        let (handles, mailboxes) = all.into_iter().unzip();
        let ((tell, ended), running) = (unbounded(), RefCell::default());
        Rc::new(Threads { process: process.clone(), handles, mailboxes, running, tell, ended })
    }

    /// Starts a controller that does not run; it knows these nodes before it takes a message.
    pub(super) fn start(&self, index: usize, nodes: Arc<Nodes>) {
        let (thread, mailbox) = (self.process.machine.thread(), self.mailbox(index).clone().knowing(nodes));
        let run = run_controller(thread.world(), index, mailbox, self.handles.clone());
        let ((end, ended), tell, node) = (oneshot::channel(), self.tell.clone(), self.process.node.clone());
        node.runs(index);
        self.process.world.spawn(async move {
            run.await;
            thread.end();
            node.runs_no_more(index);
            let _ = end.send(());
            let _ = tell.try_send(index);
        });
        self.running.borrow_mut().insert(index, ended);
    }

    /// Whether it runs, or has not been waited for.
    pub(super) fn runs(&self, index: usize) -> bool {
        self.running.borrow().contains_key(&index)
    }

    /// Waits for the end of a controller that was told to stop.
    pub(super) async fn wait_for_end(&self, index: usize) {
        let running = self.running.borrow_mut().remove(&index);
        if let Some(ended) = running {
            let _ = ended.await;
        }
    }

    /// Waits for the end of all.
    pub(super) async fn join(&self) {
        let all: Vec<usize> = self.running.borrow().keys().copied().collect();
        for index in all {
            self.wait_for_end(index).await;
        }
        self.mailboxes.iter().cloned().for_each(Mailbox::discard);
    }

    /// What is sent to a controller, whoever runs it.
    pub(super) fn mailbox(&self, index: usize) -> &Mailbox {
        &self.mailboxes[index]
    }
}
