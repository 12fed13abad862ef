//! Controllers of a node that is gone, or has stopped them, begin at the owner.

use std::collections::BTreeSet;
use std::time::Duration;

use array::{Event, answer_for_absent};
use lab_core::console::causes;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;
use world::Instant;
use world_real::boot_now;

use super::{AGAIN, Changing, Lender, Peer, Place};
use crate::daemon::nodes::elsewhere::claim::claim;
use crate::daemon::nodes::elsewhere::{numbers, text_of, told};

/// How controllers come back that a node does not run any more.
enum Back {
    /// Nobody has closed them there.
    Lost,
    /// They were to begin there.
    Beginning(oneshot::Sender<()>),
    /// They are being closed there: who says when they are, and takes when they are to begin here.
    Closing(oneshot::Receiver<oneshot::Sender<()>>),
}

impl Lender {
    /// The node is gone, or has stopped: its controllers run here.
    pub(super) async fn take_back(&self, mut peer: Peer) {
        match std::mem::replace(&mut peer.place, Place::Idle) {
            Place::Idle => {}
            Place::Closing { changing, closed } => {
                // They begin here again, or have not been closed.
                drop(closed);
                let _ = changing.await;
            }
            Place::Beginning { changing, begins, .. } => {
                self.replace(&peer, changing, Back::Beginning(begins)).await;
            }
            Place::There { exchange, carries, changing, closed } => {
                carries.end().await;
                // Who waits for an answer of the node learns that there is none.
                drop(exchange);
                self.own.runs.send_modify(|runs| _ = runs.remove(&peer.number));
                self.replace(&peer, changing, closed.map_or(Back::Lost, Back::Closing)).await;
            }
        }
        self.forget(&mut peer);
        peer.wire.end().await;
    }

    /// Runs the controllers of a node that does not run them any more.
    async fn replace(&self, peer: &Peer, changing: Changing, back: Back) {
        let Peer { name, controllers, over, ended, .. } = peer;
        if !*ended {
            self.pauses().lost(peer.number, boot_now());
        }
        if !self.stops() {
            let what = text_of(&numbers(&controllers.iter().copied().collect::<Vec<_>>()));
            let event = match ended {
                true => Event::info("array", format!("node {name}, which {what}, has stopped that in order")),
                false => {
                    let text = format!("node {name}, which {what}, does not answer: this node takes over");
                    Event::warning("array", text)
                }
            };
            self.served.events.tell(event);
            // What it has stopped in order it does not hold any more.
            if !*ended {
                self.claim(controllers, (name, *over)).await;
            }
        }
        // Who brings them back starts them, and opens them with what they had in memory.
        match back {
            Back::Lost => {}
            Back::Beginning(begins) => {
                drop(begins);
                let _ = changing.await;
            }
            Back::Closing(closed) => {
                let begins = self.until_closed(controllers, name, closed).await;
                // An array that stops leaves them closed: a node that is gone may hold their drives yet.
                if let Some(begins) = begins.filter(|_| !self.stops()) {
                    let _ = begins.send(());
                }
                let _ = changing.await;
            }
        }
        let run_nowhere: BTreeSet<usize> =
            controllers.iter().copied().filter(|index| !self.served.threads.runs(*index)).collect();
        if self.stops() && !run_nowhere.is_empty() {
            // All are told to stop, and these have: nothing of them is open here.
            return self.answer_for(&run_nowhere, &format!("node {name} is gone")).detach_all();
        }
        self.begin_here(controllers).await;
    }

    /// Waits until a node that does not answer cannot serve any more. Meanwhile hosts hear that its logical
    /// units are busy.
    async fn claim(&self, controllers: &BTreeSet<usize>, (name, over): (&str, Option<Instant>)) {
        let cause = format!("node {name} is gone, and its drives are not free yet");
        // A node that took the array over would wait for them, too.
        self.own.waits.send_replace(Some(format!("{cause}; ask again in a moment")));
        let mut absent = self.answer_for(controllers, &cause);
        let controllers: Vec<usize> = controllers.iter().copied().collect();
        let claimed = async {
            // On one machine the locks of the drives say when it has ended.
            while self.served.spans_machines && over.is_some_and(|over| boot_now() < over) {
                sleep(Duration::from_millis(10)).await;
            }
            let tell = |why: String| {
                let text = format!("waits for the drives of controllers that node {name} ran: {why}");
                self.served.events.tell(Event::error("array", text));
                // A node that took over would wait for all drives.
                let waits = format!(
                    "node {name} stands still and holds drives ({why}); continue it, or end it (kill -9)"
                );
                self.own.waits.send_replace(Some(waits));
            };
            // A pool may be on its way to them, or from them.
            claim(&self.served.openers.part(&controllers), tell).await;
            self.own.waits.send_replace(None);
        };
        let mut stop = self.stop.clone();
        tokio::select! {
            () = claimed => {}
            () = told(&mut stop) => {}
        }
        absent.shutdown().await;
    }

    /// Who brings them back asks them and all others before it has them begin; others who change the array
    /// ask them, too. None: it has given up.
    async fn until_closed(
        &self,
        controllers: &BTreeSet<usize>,
        name: &str,
        closed: oneshot::Receiver<oneshot::Sender<()>>,
    ) -> Option<oneshot::Sender<()>> {
        let mut absent = self.answer_for(controllers, &format!("node {name} is gone"));
        let begins = closed.await.ok();
        absent.shutdown().await;
        begins
    }

    /// Answers for controllers that run nowhere, until the tasks are dropped or the array has ended.
    pub(super) fn answer_for(&self, controllers: &BTreeSet<usize>, cause: &str) -> JoinSet<()> {
        let mut absent = JoinSet::new();
        for index in controllers.iter().copied() {
            let (mailbox, config) = (self.served.threads.mailbox(index).clone(), self.declared());
            let cause = cause.to_owned();
            absent.spawn(async move { answer_for_absent(&mailbox, index, &config, &cause).await });
        }
        absent
    }

    /// Starts a controller.
    pub(super) fn start(&self, index: usize) {
        let nodes = self.own.nodes.borrow().clone();
        if let Err(error) = self.served.threads.start(index, Some(nodes)) {
            tracing::error!("{}", causes(&error));
        }
    }

    /// Runs controllers here, those that do not run already. All are there before the first opens anything:
    /// others ask all of them.
    async fn begin_here(&self, controllers: &BTreeSet<usize>) {
        let new: Vec<usize> =
            controllers.iter().copied().filter(|index| !self.served.threads.runs(*index)).collect();
        new.iter().for_each(|index| self.start(*index));
        for index in new {
            while let Err(error) = self.served.owner.bring_up(index).await {
                if self.stops() {
                    return;
                }
                tracing::error!("controller {index}: {error}; it is tried again");
                sleep(AGAIN).await;
            }
        }
        for index in controllers {
            self.served.events.tell(Event::info("array", format!("controller {index} runs at this node")));
        }
    }
}
