//! Controllers change their place: they close where they are, and begin at a node, or here again.

use std::sync::Arc;
use std::time::Duration;

use array::{
    Began, ClosedControllers, Control, ControlError, Event, Exchange, Ownership, Reply, Told, cannot_leave,
};
use cluster::lending::{AFTER_REFUSAL, BEGIN_MAX, CHANGES_WAIT, CLAIM_MAX};
use config::Config;
use lab_core::console::causes;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use world_real::boot_now;

use super::{LOOK, Lender, Peer, Place};
use crate::daemon::nodes::elsewhere::frames::{Assignment, Frame};
use crate::daemon::nodes::elsewhere::{name_of, numbers};

/// Who says when controllers have begun where they are to; dropped: they have not.
type Begun = oneshot::Receiver<()>;

impl Lender {
    /// Closes controllers here, and opens them at a node when that has begun.
    pub(super) async fn lend(
        &self,
        controllers: &[usize],
        (name, number): (&str, u16),
        tell: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Result<(), ControlError> {
        let threads = &self.served.threads;
        self.refuse_missing(controllers).await?;
        controllers.iter().for_each(|index| threads.may_end(*index, true));
        let mut later = None;
        let changed = self.served.owner.change_places(controllers, async || {
            for index in controllers {
                if let Err(error) = threads.ended(*index).await {
                    tracing::error!("{}", causes(&error));
                }
            }
            let (begins, begun) = oneshot::channel();
            // Without the node they begin here again.
            let _ = tell.send(begins);
            self.until_begun((controllers, begun), Lender::begin_without_node, &mut later).await
        });
        let changed = changed.await;
        controllers.iter().for_each(|index| threads.may_end(*index, false));
        if let (Some(closed), Some(begun)) = (changed?, later) {
            let cause = format!("node {name}, which is to run it, waits for its drives");
            self.begin_later((controllers, begun, closed), Lender::begin_without_node, &cause).await?;
        }
        // They may have begun here again.
        let are_here = controllers.iter().any(|index| threads.runs(*index));
        let place = if are_here { "this node".into() } else { format!("node {name}") };
        for index in controllers {
            self.served.events.tell(Event::info("array", format!("controller {index} runs at {place}")));
        }
        if are_here {
            return Ok(());
        }
        if let Some(cause) = self.lacks(controllers).await {
            self.tell_refused((name, number), controllers, &cause);
            self.stop_there(controllers).await;
        }
        Ok(())
    }

    /// What controllers lack that have begun, and were whole before: why, once this lasts for as long as a
    /// claim may.
    async fn lacks(&self, controllers: &[usize]) -> Option<String> {
        let until = boot_now() + CLAIM_MAX;
        loop {
            let mut lacking = None;
            for index in controllers {
                let asked = self.served.threads.handles()[*index].ask(Control::Overview).await;
                let Ok(Reply::Status(status)) = asked else { return None };
                lacking = lacking.or(status.missing.into_iter().next());
            }
            let missing = lacking.filter(|_| !self.stops())?;
            if boot_now() >= until {
                return Some(format!(
                    "does not serve {} {:?}: {}",
                    missing.kind, missing.name, missing.cause
                ));
            }
            sleep(LOOK).await;
        }
    }

    /// Controllers at a node stop in order, which that says then.
    async fn stop_there(&self, controllers: &[usize]) {
        for index in controllers {
            let stop = Control::Stop { grace: Duration::ZERO };
            // One that is gone has stopped.
            let _ = self.served.threads.handles()[*index].ask(stop).await;
        }
    }

    /// Closes controllers at the node where they run, and opens them here when it has ended them.
    pub(super) async fn bring_back(
        &self,
        controllers: &[usize],
        tell: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Result<(), ControlError> {
        let mut later = None;
        let changed = self.served.owner.change_places(controllers, async || {
            let (begins, begun) = oneshot::channel();
            let _ = tell.send(begins);
            self.until_begun((controllers, begun), Lender::begin_all, &mut later).await
        });
        if let (Some(closed), Some(begun)) = (changed.await?, later) {
            let cause = "it is brought back from its node, and its drives are not free yet";
            self.begin_later((controllers, begun, closed), Lender::begin_all, cause).await?;
        }
        Ok(())
    }

    fn begin_without_node(&self, controllers: &[usize], has_begun: bool) {
        if !has_begun {
            self.begin_all(controllers, has_begun);
        }
    }

    fn begin_all(&self, controllers: &[usize], _: bool) {
        controllers.iter().for_each(|index| self.start(*index));
    }

    /// Waits until closed controllers have begun, while everything else waits, too; not for long: `later` is
    /// to go on with.
    async fn until_begun(
        &self,
        (controllers, mut begun): (&[usize], Begun),
        begin: impl Fn(&Lender, &[usize], bool),
        later: &mut Option<Begun>,
    ) -> Began {
        match timeout(CHANGES_WAIT, &mut begun).await {
            Ok(there) if there.is_ok() || !self.stops() => {
                begin(self, controllers, there.is_ok());
                return Began::Now;
            }
            Ok(_) => *later = Some(oneshot::channel().1),
            Err(_) => *later = Some(begun),
        }
        Began::Later
    }

    /// The same, while the array changes without them, and hosts hear that they are busy.
    async fn begin_later(
        &self,
        (controllers, begun, closed): (&[usize], Begun, ClosedControllers),
        begin: impl Fn(&Lender, &[usize], bool),
        cause: &str,
    ) -> Result<(), ControlError> {
        let mut absent = self.answer_for(&controllers.iter().copied().collect(), cause);
        let there = begun.await.is_ok();
        if !there && self.stops() {
            // The node may still be fencing their drives: they are closed, and stay so until the next owner.
            absent.detach_all();
            return Err(ControlError::Stopped(controllers[0]));
        }
        // Until the array is this task's: who stops it meanwhile asks these controllers, too.
        let opened = self.served.owner.begin_places(closed, async || {
            absent.shutdown().await;
            begin(self, controllers, there);
        });
        let opened = opened.await;
        absent.detach_all();
        if let (Err(ControlError::Stopped(_)), true) = (&opened, there) {
            // The array has stopped meanwhile: those at the node were not told.
            self.stop_there(controllers).await;
        }
        opened
    }

    /// Nothing is moved of which a part is missing, or is not declared.
    async fn refuse_missing(&self, controllers: &[usize]) -> Result<(), ControlError> {
        for index in controllers {
            if let Reply::Status(status) =
                self.served.threads.handles()[*index].ask(Control::Overview).await?
                && let Some(cause) = cannot_leave(&self.declared(), &status)
            {
                return Err(ControlError::failed(format!("controller {index}"), cause));
            }
        }
        Ok(())
    }

    /// The controllers are closed here.
    pub(super) async fn begin_there(&self, peer: &mut Peer, begins: oneshot::Sender<()>) {
        let Place::Closing { changing, .. } = std::mem::replace(&mut peer.place, Place::Idle) else { return };
        let controllers = peer.controllers.iter().copied().collect();
        let Ownership { epoch, owner } = self.own.ownership;
        let config = Config::clone(&self.declared());
        let assignment = Assignment { controllers, config, epoch, owner };
        peer.wire.send(Frame::Assign(Box::new(assignment))).await;
        peer.place = Place::Beginning { changing, begins, until: boot_now() + BEGIN_MAX };
    }

    /// The node has the drives to itself. False: nobody asked it to.
    pub(super) fn has_begun(&self, peer: &mut Peer) -> bool {
        let Place::Beginning { changing, begins, .. } = std::mem::replace(&mut peer.place, Place::Idle)
        else {
            return false;
        };
        let threads = &self.served.threads;
        let controllers: Vec<usize> = peer.controllers.iter().copied().collect();
        let away = controllers.iter().map(|index| threads.mailbox(*index).clone()).collect();
        let here = threads.handles().iter().filter(|handle| !peer.controllers.contains(&handle.index));
        let told = Told::Owner {
            events: self.served.events.clone(),
            moves: self.served.moves.clone(),
            refused: self.own.nodes.borrow().refused.clone().unwrap_or_else(nobody),
        };
        let exchange = Arc::new(Exchange::new(away, here.cloned().collect(), told));
        let first = controllers.first().copied().unwrap_or_default();
        let carries = peer.wire.carry(exchange.clone());
        self.own.runs.send_modify(|runs| _ = runs.insert(peer.number, first));
        peer.place = Place::There { exchange, carries, changing, closed: None };
        let _ = begins.send(());
        true
    }

    /// The node cannot claim the drives: they begin here again. False: nobody asked it to.
    pub(super) fn has_refused(&self, peer: &mut Peer, cause: &str) -> bool {
        let Place::Beginning { changing, begins, .. } = std::mem::replace(&mut peer.place, Place::Idle)
        else {
            return false;
        };
        self.refused_by(peer, cause);
        drop(begins);
        // As if they could not have been closed.
        peer.place = Place::Closing { changing, closed: oneshot::channel().1 };
        true
    }

    /// The node runs none of the controllers that it was to run.
    pub(super) fn refused_by(&self, peer: &Peer, cause: &str) {
        let controllers: Vec<usize> = peer.controllers.iter().copied().collect();
        self.tell_refused((&peer.name, peer.number), &controllers, cause);
    }

    fn tell_refused(&self, (name, number): (&str, u16), controllers: &[usize], cause: &str) {
        let drives = self.served.openers.part(controllers).drives;
        self.pauses().refused(number, drives, boot_now());
        let text = format!(
            "node {name} does not run {}: it {cause}. This node runs what it can; node {name} is asked again in {} s, \
             or when the drives are declared anew",
            name_of(&numbers(controllers)),
            AFTER_REFUSAL.as_secs()
        );
        self.served.events.tell(Event::error("array", text));
    }
}

/// A channel that nobody listens at.
fn nobody() -> async_channel::Sender<u64> {
    async_channel::bounded(1).0
}
