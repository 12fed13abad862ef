//! Controllers that this node runs, or is about to.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use array::{Control, ControllerHandle, Exchange, Nodes, OtherPortal, Told, event_channel, move_channel};
use cluster::portal_group;
use config::PortalConfig;
use lab_core::console::causes;
use tokio::sync::watch;

use super::About;
use crate::daemon::controllers::{Controllers, Ends};
use crate::daemon::nodes::elsewhere::claim::Claims;
use crate::daemon::nodes::elsewhere::frames::Assignment;
use crate::daemon::nodes::elsewhere::wire::{Carries, Wire};
use crate::daemon::nodes::elsewhere::{numbers, text_of};
use crate::daemon::nodes::paths::keep_telling;

/// Groups that were refused and are not yet told to the owner; more say nothing new.
const REFUSALS_MAX: usize = 64;

/// Controllers that this node runs.
pub(super) struct Running {
    pub(super) text: String,
    pub(super) own: Vec<usize>,
    controllers: Controllers,
    pub(super) exchange: Arc<Exchange>,
    /// What its controllers are told.
    nodes: watch::Sender<Arc<Nodes>>,
    /// While it claims their drives; nothing of them runs then.
    claims: Option<Claims>,
    /// Whether they have the portals of this node.
    pub(super) has_portals: bool,
    /// Once they run.
    carries: Option<Carries>,
    ended: BTreeSet<usize>,
}

/// What became of controllers.
pub(super) enum Happened {
    /// Their drives are this node's, or why they are not.
    Claimed(Result<(), String>),
    AllEnded,
}

/// Waits for what becomes of controllers; for ever, if there are none.
pub(super) async fn next(running: &mut Option<Running>) -> Happened {
    match running {
        None => std::future::pending().await,
        Some(running) => running.next().await,
    }
}

impl Running {
    /// Begins to claim the drives of controllers.
    pub(super) fn prepare(
        about: &About,
        assignment: Assignment,
        (number, paths): (u16, &[OtherPortal]),
    ) -> Running {
        let ownership = Some(assignment.ownership());
        let Assignment { controllers: own, config, .. } = assignment;
        if about.spans_machines {
            world_real::reserve_devices(config.id.0);
        }
        let count = config.controllers;
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let ((events, told), (moves, asked)) = (event_channel(), move_channel());
        let (refused, heard) = async_channel::bounded(REFUSALS_MAX);
        let away = (0..count).filter(|index| !own.contains(index));
        let away = away.map(|index| mailboxes[index].clone()).collect();
        let here = own.iter().filter_map(|index| handles.get(*index).cloned()).collect();
        let exchange =
            Arc::new(Exchange::new(away, here, Told::Node { events: told, moves: asked, refused: heard }));
        let ends = Ends { events, traces: None, moves };
        let mailboxes = mailboxes.into_iter().map(|mailbox| ends.told_by(mailbox)).collect();
        let controllers = Controllers::of(handles, mailboxes, about.footing.clone());
        let first = own.first().copied().unwrap_or_default();
        let portal = |listen: &SocketAddr| PortalConfig {
            listen: *listen,
            controller: first,
            segment_bytes_max: None,
        };
        let nodes = Nodes {
            first_group: portal_group(number, 0),
            portals: Some(about.portals.iter().map(portal).collect()),
            relay_keys: vec![],
            others: paths.to_vec(),
            ownership,
            refused: Some(refused),
            keeps_spares: None,
            // The owner has the node run nothing of which it has not claimed the drives itself.
            withheld: Arc::default(),
        };
        let nodes = watch::Sender::new(Arc::new(nodes));
        own.iter().for_each(|index| {
            tokio::spawn(keep_telling(controllers.handles[*index].clone(), nodes.subscribe()));
        });
        let text = text_of(&numbers(&own));
        let claims = Some(Claims::begin(config.of_controllers(&own)));
        let (has_portals, carries, ended) = (false, None, BTreeSet::new());
        Running { text, own, controllers, exchange, nodes, claims, has_portals, carries, ended }
    }

    pub(super) fn hear_of(&self, paths: &[OtherPortal]) {
        let others = paths.to_vec();
        self.nodes.send_modify(|nodes| *nodes = Arc::new(Nodes { others, ..Nodes::clone(nodes) }));
    }

    /// Has the controllers begin: their drives are claimed, and the portals are theirs.
    ///
    /// # Errors
    /// The system has no room for their threads.
    pub(super) fn begin(&mut self) -> Result<()> {
        let threads = self.controllers.threads();
        self.own.iter().try_for_each(|index| threads.start(*index, Some(self.nodes.borrow().clone())))
    }

    /// From now on what the owner and the controllers say to each other crosses.
    pub(super) fn carry(&mut self, wire: &Wire) {
        self.carries = Some(wire.carry(self.exchange.clone()));
    }

    async fn next(&mut self) -> Happened {
        if let Some(claims) = &mut self.claims {
            let claimed = claims.end().await;
            self.claims = None;
            return Happened::Claimed(claimed);
        }
        while self.ended.len() < self.own.len() {
            let index = self.controllers.one_ended().await;
            self.ended.insert(index);
        }
        Happened::AllEnded
    }

    /// What was acknowledged is durable then, and the drives are closed. If that takes longer than the
    /// term, the process ends. `in_order`: the owner has told them to; otherwise it is gone, and nothing
    /// waits for its answers.
    pub(super) async fn stop(mut self, in_order: bool) {
        let threads = self.controllers.threads();
        if !in_order {
            if let Some(carries) = self.carries.take() {
                carries.end().await;
            }
            drop(self.exchange);
            let others = (0..self.controllers.handles.len()).filter(|index| !self.own.contains(index));
            others.for_each(|index| threads.mailbox(index).clone().discard());
        }
        if let Some(claims) = self.claims {
            claims.give_up().await;
        }
        for index in self.own.into_iter().filter(|index| threads.runs(*index) && !self.ended.contains(index))
        {
            let stop = Control::Stop { grace: Duration::ZERO };
            if let Err(error) = self.controllers.handles[index].ask(stop).await {
                tracing::warn!("{error}");
            }
        }
        if let Err(error) = self.controllers.join() {
            tracing::error!("{}", causes(&error));
        }
        // Their last answers.
        if let Some(carries) = self.carries {
            carries.end().await;
        }
    }
}
