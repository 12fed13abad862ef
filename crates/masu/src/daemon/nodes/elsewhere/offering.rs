//! A standby that runs controllers for the owner (`running`).

mod running;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use admin::NodeTls;
use anyhow::Result;
use array::OtherPortal;
use cluster::lending::{AFTER_REFUSAL, BEGIN_MAX, EVERY, Terms};
use cluster::{Standing, State, Waits};
use lab_core::console::causes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use world_real::{boot_now, set_term};

use self::running::{Happened, Running, next};
use super::frames::{Frame, Hello, Path};
use super::told;
use super::wire::Wire;
use super::{name_of, numbers};
use crate::daemon::controllers::Footing;
use crate::daemon::nodes::link;
use crate::daemon::nodes::owner::way_to;
use crate::daemon::nodes::relay::Way;

/// Between two attempts to reach the owner.
const AGAIN: Duration = Duration::from_secs(1);
/// A node that is to end waits so long for the owner to take its controllers back.
const LEAVE_TIME: Duration = Duration::from_secs(5);
/// Why it could not run controllers is a trouble for so long, if the owner assigns none again.
const TROUBLE_TIME: Duration = AFTER_REFUSAL.saturating_add(BEGIN_MAX);

/// What happens to the portals of this node.
pub(in crate::daemon::nodes) enum Turn {
    /// These controllers open them when this is answered.
    Opens(Vec<u16>, oneshot::Sender<()>),
    /// They are closed again.
    Closed,
}

/// What is known of this node.
pub(in crate::daemon::nodes) struct About {
    pub(in crate::daemon::nodes) tls: Arc<NodeTls>,
    pub(in crate::daemon::nodes) portals: Vec<SocketAddr>,
    pub(in crate::daemon::nodes) spans_machines: bool,
    pub(in crate::daemon::nodes) footing: Footing,
    /// Why it could not run controllers, which keeps it from taking over, too.
    pub(in crate::daemon::nodes) cannot: watch::Sender<Option<String>>,
}

/// The task of a standby.
pub(in crate::daemon::nodes) struct Offering {
    turns: mpsc::Receiver<Turn>,
    ends: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Offering {
    pub(in crate::daemon::nodes) fn start(about: About, state: watch::Receiver<State>) -> Offering {
        let (tell, turns) = mpsc::channel(1);
        let (ends, end) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut node = Node { about, state, tell, ends: end };
            while node.until_owner().await {
                // An owner that has just begun, or has not seen this node yet, refuses it.
                tokio::select! {
                    () = sleep(AGAIN) => {}
                    () = told(&mut node.ends) => return,
                }
                if let Err(error) = node.offer().await {
                    tracing::debug!("the owner runs all controllers itself: {error}");
                }
            }
        });
        Offering { turns, ends, task }
    }

    /// What happens next; waits for ever when nothing does.
    pub(in crate::daemon::nodes) async fn turn(&mut self) -> Turn {
        match self.turns.recv().await {
            Some(turn) => turn,
            None => std::future::pending().await,
        }
    }

    /// Stops the controllers in order. The portals are closed then.
    pub(in crate::daemon::nodes) async fn end(mut self) {
        self.ends.send_replace(true);
        self.turns.close();
        let _ = self.task.await;
    }
}

struct Node {
    about: About,
    state: watch::Receiver<State>,
    tell: mpsc::Sender<Turn>,
    ends: watch::Receiver<bool>,
}

/// The owner, and the number of this node, if it can run controllers for that owner.
fn owner_in(state: &State) -> Option<(link::Peer, u16)> {
    let Standing::Standby(Waits::Owner { .. }) = &state.standing else { return None };
    let owner = state.owner.as_ref().filter(|_| !state.owner_leaves)?;
    let own = Hello::own();
    if owner.controllers_protocol != Some(own.protocol) || owner.version != own.version {
        return None;
    }
    match way_to(owner) {
        Way::Tls(peer) => Some((peer, state.number?)),
        Way::Plain(_) | Way::Nowhere => None,
    }
}

impl Node {
    /// Returns when there is an owner; false: the node does not offer anything any more.
    async fn until_owner(&mut self) -> bool {
        let mut state = self.state.clone();
        tokio::select! {
            found = state.wait_for(|state| owner_in(state).is_some()) => found.is_ok(),
            () = told(&mut self.ends) => false,
        }
    }

    /// Runs what the owner assigns, until one of them leaves.
    ///
    /// # Errors
    /// The owner cannot be reached.
    async fn offer(&mut self) -> io::Result<()> {
        let Some((owner, number)) = owner_in(&self.state.borrow()) else { return Ok(()) };
        let mut stream = timeout(AGAIN, link::connect(&self.about.tls, &owner)).await??;
        Hello::own().write(&mut stream).await?;
        let mut wire = Wire::over(stream);
        let (mut terms, mut ask) = (Terms::default(), interval(EVERY));
        let (mut running, mut paths): (Option<Running>, Vec<OtherPortal>) = (None, Vec::new());
        let (mut ends, mut leaves) = (self.ends.clone(), false);
        let (mut patience, mut clears) = (Box::pin(sleep(LEAVE_TIME)), Box::pin(sleep(TROUBLE_TIME)));
        loop {
            tokio::select! {
                _ = ask.tick() => wire.send(Frame::AskTerm(terms.ask(boot_now()))).await,
                frame = wire.next() => match (frame, &mut running) {
                    (Some(Frame::Term { number, granted_ms }), running) => {
                        terms.granted(number, Duration::from_millis(u64::from(granted_ms)));
                        if running.is_some() {
                            set_term(terms.until());
                        }
                    }
                    (Some(Frame::Paths(told)), running) => {
                        paths = told.iter().map(Path::portal).collect();
                        running.iter().for_each(|running| running.hear_of(&paths));
                    }
                    (Some(Frame::Assign(assignment)), None) if terms.holds(boot_now()) => {
                        // From here on this process ends when the owner grants no more.
                        set_term(terms.until());
                        running = Some(Running::prepare(&self.about, *assignment, (number, &paths)));
                    }
                    (Some(Frame::Message(message)), Some(running)) => {
                        if let Err(error) = running.exchange.incoming(&message).await {
                            tracing::error!("the owner's messages cannot be read: {error}");
                            break;
                        }
                    }
                    _ => break,
                },
                happened = next(&mut running) => {
                    if !self.heed(happened, &mut running, &wire).await {
                        break;
                    }
                    clears.as_mut().reset(Instant::now() + TROUBLE_TIME);
                }
                () = &mut clears, if self.about.cannot.borrow().is_some() => {
                    self.about.cannot.send_replace(None);
                }
                // The owner closes them, and hosts notice little.
                () = told(&mut ends), if !leaves => {
                    leaves = true;
                    if running.as_ref().is_none_or(|running| !running.has_portals) {
                        break;
                    }
                    wire.send(Frame::Leaves).await;
                    patience.as_mut().reset(Instant::now() + LEAVE_TIME);
                }
                () = &mut patience, if leaves => break,
            }
        }
        if let Some(running) = running.take() {
            if running.has_portals {
                tracing::warn!("this node {} no more: it stops them", running.text);
            }
            self.stop(running, false).await;
            // An owner that hears it need not wait for the end of the term.
            wire.send(Frame::Ended).await;
        }
        wire.end().await;
        self.about.cannot.send_replace(None);
        Ok(())
    }

    /// What became of controllers; false: the connection is to end.
    async fn heed(&self, happened: Happened, running: &mut Option<Running>, wire: &Wire) -> bool {
        let Some(mut was) = running.take() else { return true };
        let claimed = match happened {
            Happened::Claimed(claimed) => claimed,
            Happened::AllEnded => {
                self.stop(was, true).await;
                wire.send(Frame::Ended).await;
                return false;
            }
        };
        let begun = match claimed {
            Ok(()) => self.begin(&mut was).await.map_err(|error| causes(&error)),
            Err(cause) => Err(format!("cannot claim the drives of {}: {cause}", name_of(&numbers(&was.own)))),
        };
        match begun {
            Ok(()) => {
                wire.send(Frame::Begins).await;
                was.carry(wire);
                self.about.cannot.send_replace(None);
                *running = Some(was);
            }
            Err(cause) => {
                tracing::warn!("this node gives controllers back to the owner: it {cause}");
                self.stop(was, true).await;
                self.about.cannot.send_replace(Some(format!("it {cause}")));
                wire.send(Frame::CannotBegin(cause)).await;
            }
        }
        true
    }

    /// Has controllers begin whose drives are this node's.
    async fn begin(&self, running: &mut Running) -> Result<()> {
        let (lent, is_lent) = oneshot::channel();
        if self.tell.send(Turn::Opens(numbers(&running.own), lent)).await.is_ok() {
            let _ = is_lent.await;
        }
        running.has_portals = true;
        running.begin()?;
        tracing::info!("this node {}", running.text);
        Ok(())
    }

    async fn stop(&self, running: Running, in_order: bool) {
        let has_portals = running.has_portals;
        running.stop(in_order).await;
        set_term(None);
        if has_portals {
            let _ = self.tell.send(Turn::Closed).await;
        }
    }
}
