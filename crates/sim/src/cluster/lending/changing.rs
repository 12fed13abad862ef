//! Controllers change their place: they close where they are, and begin at a node, or here again.

use std::sync::Arc;

use array::{
    Began, ClosedControllers, Config, Control, ControlError, Exchange, Ownership, Reply, Told, cannot_leave,
};
use cluster::lending::{BEGIN_MAX, CHANGES_WAIT};
use futures::channel::oneshot;

use super::frames::Frame;
use super::lender::Lender;
use super::peer::{Peer, Place};
use super::process::within;

/// Who says when controllers have begun where they are to; dropped: they have not.
type Begun = oneshot::Receiver<()>;

impl Lender {
    /// Closes controllers here, and opens them at a node when that has begun.
    pub(super) async fn lend(
        &self,
        controllers: &[usize],
        tell: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Result<(), ControlError> {
        self.refuse_missing(controllers).await?;
        self.process.tell(|| format!("closes controllers {controllers:?}"));
        let mut later = None;
        let mut array = self.array.lock().await;
        let changed = array.change_places(controllers, async || {
            for index in controllers {
                self.threads.wait_for_end(*index).await;
            }
            let (begins, begun) = oneshot::channel();
            // Without the node they begin here again.
            let _ = tell.send(begins);
            self.until_begun((controllers, begun), Lender::begin_without_node, &mut later).await
        });
        let changed = changed.await;
        drop(array);
        if let (Some(closed), Some(begun)) = (changed?, later) {
            let cause = "its node waits for its drives";
            self.begin_later((controllers, begun, closed), Lender::begin_without_node, cause).await?;
        }
        self.process.tell(|| format!("controllers {controllers:?} have changed their place"));
        Ok(())
    }

    /// Closes controllers at the node where they run, and opens them here when it has ended them.
    pub(super) async fn bring_back(
        &self,
        controllers: &[usize],
        tell: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Result<(), ControlError> {
        let mut later = None;
        let mut array = self.array.lock().await;
        let changed = array.change_places(controllers, async || {
            let (begins, begun) = oneshot::channel();
            let _ = tell.send(begins);
            self.until_begun((controllers, begun), Lender::begin_all, &mut later).await
        });
        let changed = changed.await;
        drop(array);
        if let (Some(closed), Some(begun)) = (changed?, later) {
            self.begin_later((controllers, begun, closed), Lender::begin_all, "it is brought back").await?;
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
        match within(&self.process.world, CHANGES_WAIT, &mut begun).await {
            Some(there) if there.is_ok() || !self.stops.get() => {
                begin(self, controllers, there.is_ok());
                return Began::Now;
            }
            Some(_) => *later = Some(oneshot::channel().1),
            None => *later = Some(begun),
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
        let absent = self.answer_for(&controllers.iter().copied().collect(), cause);
        let there = begun.await.is_ok();
        if !there && self.stops.get() {
            // The node may still be fencing their drives: they are closed, and stay so until the next owner.
            drop(absent);
            return Err(ControlError::Stopped(controllers[0]));
        }
        // Until the array is this task's: who stops it meanwhile asks these controllers, too.
        let mut array = self.array.lock().await;
        let opened = array.begin_places(closed, async || {
            absent.shutdown().await;
            begin(self, controllers, there);
        });
        let opened = opened.await;
        drop(array);
        if let (Err(ControlError::Stopped(_)), true) = (&opened, there) {
            // The array has stopped meanwhile: those at the node were not told.
            for index in controllers {
                let stop = Control::Stop { grace: std::time::Duration::ZERO };
                let _ = self.threads.handles[*index].ask(stop).await;
            }
        }
        opened
    }

    /// Nothing is moved of which a part is missing, or is not declared.
    async fn refuse_missing(&self, controllers: &[usize]) -> Result<(), ControlError> {
        for index in controllers {
            if let Reply::Status(status) = self.threads.handles[*index].ask(Control::Overview).await?
                && let Some(cause) = cannot_leave(&self.config(), &status)
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
        let Ownership { epoch, owner } = self.ownership;
        let config = self.process.bed.keep_config(Config::clone(&self.config()));
        peer.wire.send(Frame::Assign { controllers, config, epoch, owner }).await;
        let until = self.process.now() + BEGIN_MAX;
        peer.place = Place::Beginning { changing, begins, until };
    }

    /// The node has the drives to itself. False: nobody asked it to.
    pub(super) fn has_begun(&self, peer: &mut Peer) -> bool {
        let Place::Beginning { changing, begins, .. } = std::mem::replace(&mut peer.place, Place::Idle)
        else {
            return false;
        };
        let controllers: Vec<usize> = peer.controllers.iter().copied().collect();
        let away = controllers.iter().map(|index| self.threads.mailbox(*index).clone()).collect();
        let here = self.threads.handles.iter().filter(|handle| !peer.controllers.contains(&handle.index));
        let (events, moves, refused) = (self.events.clone(), self.moves.clone(), self.refused.clone());
        let told = Told::Owner { events, moves, refused };
        let exchange = Arc::new(Exchange::new(away, here.cloned().collect(), told));
        let first = controllers.first().copied().unwrap_or_default();
        let sent = peer.sent.clone();
        let carries =
            peer.wire.carry(exchange.clone(), move |message| sent.borrow_mut().push(message.to_vec()));
        self.runs.borrow_mut().insert(peer.number, first);
        self.changed.wake_all();
        self.process.node.lent.set(self.process.node.lent.get() + 1);
        peer.place = Place::There { exchange, carries, changing, closed: None };
        let _ = begins.send(());
        true
    }

    /// The node cannot claim the drives: they begin here again. False: nobody asked it to.
    pub(super) fn has_refused(&self, peer: &mut Peer) -> bool {
        let Place::Beginning { changing, begins, .. } = std::mem::replace(&mut peer.place, Place::Idle)
        else {
            return false;
        };
        self.note_refused(peer);
        drop(begins);
        // As if they could not have been closed.
        peer.place = Place::Closing { changing, closed: oneshot::channel().1 };
        true
    }

    pub(super) fn note_refused(&self, peer: &Peer) {
        self.process.tell(|| format!("{} does not run {:?}", peer.name, peer.controllers));
        let (drives, now) = (self.drives_of(&peer.controllers), self.process.now());
        self.pauses.borrow_mut().refused(peer.number, drives, now);
        self.process.node.given_back.set(self.process.node.given_back.get() + 1);
    }
}
