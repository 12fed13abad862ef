//! Pools that move between the controllers of a running array, while hosts use them.

use std::collections::BTreeSet;
use std::sync::Arc;

use status::Reason;

use super::stored::also;
use super::{Array, refusals};
use crate::config::{Config, PoolConfig};
use crate::control::{Arrival, Control, ControlError, PoolFound, Reply};
use crate::why::Why;

/// A pool and the controller that it moves to.
pub(super) struct Move {
    pub(super) pool: String,
    pub(super) to: usize,
}

/// Takes the moves out of a declaration: the pools stay where they are, and the moves come after everything
/// else has changed.
pub(super) fn without_moves(now: &Config, next: &mut Config) -> Vec<Move> {
    let mut moves = Vec::new();
    for pool in &mut next.pools {
        if let Some(known) = now.pool(&pool.name)
            && known.controller != pool.controller
        {
            moves.push(Move { pool: pool.name.clone(), to: pool.controller });
            pool.controller = known.controller;
        }
    }
    moves
}

/// Why a pool does not move when a controller ends meanwhile that a node runs: the node is what is wrong.
fn at_node_of(config: &Config, pool: &str, error: ControlError) -> ControlError {
    let ControlError::Stopped(index) = error else { return error };
    let Some(node) = config.controller_nodes.get(index).filter(|node| !node.is_empty()) else { return error };
    ControlError::Failed {
        place: format!("pool {pool:?}"),
        cause: format!(
            "not moved: node {node}, which runs controller {index}, does not answer any more; see masu status, and \
             move it when that controller runs again"
        ),
        why: Why { reason: Reason::NodeGone, drive: None },
    }
}

impl Array {
    /// Moves a pool to another controller. Commands on its volumes wait while it moves; then the ports of
    /// that controller are the optimized ones, and hosts hear of it. What the volumes' LUs have in memory
    /// goes along: reservations, mode parameters, unit attentions, counters. ROD tokens and the results of
    /// copies do not.
    ///
    /// # Errors
    /// No such pool or controller; the pool is not open, or on memory drives; work on it runs that cannot be
    /// interrupted; or a command on it does not end within 5 s. Nothing has changed then. Where the other
    /// controller cannot open the pool, the first one opens it again.
    pub async fn move_pool(&mut self, pool: &str, to: usize) -> Result<Vec<String>, ControlError> {
        let next = refusals::with_controller(&self.config, pool, to)?;
        let from = self.config.pool(pool).map_or(to, |p| p.controller);
        if from == to {
            return Ok(vec![format!("pool {pool}: controller {to} has it already")]);
        }
        self.refuse_on_the_way()?;
        let explained = |error| at_node_of(&self.config, pool, error);
        self.ask(from, Control::MakeReady(pool.into())).await.map_err(explained)?;
        if let Err(error) = self.hold(pool, to).await {
            self.let_go([from]).await;
            return Err(at_node_of(&self.config, pool, error));
        }
        let moved = self.carry_over(&next, (pool, from, to)).await;
        let owner = if moved.is_ok() { to } else { from };
        let moved = match moved {
            Ok(()) => Ok(()),
            // What is stored first: the declaration of the move must not stay.
            Err(error) => {
                let error = self.stored.refused(at_node_of(&self.config, pool, error));
                let came_back = self.bring_back((pool, from, to)).await;
                Err(match came_back {
                    Ok(()) => error,
                    Err(left) => also(error, &left.to_string()),
                })
            }
        };
        // Whatever happened: hosts go on. A controller that is gone holds nothing.
        self.let_go([owner]).await;
        moved?;
        Ok(vec![format!("pool {pool}: moved from controller {from} to controller {to}")])
    }

    /// Whoever is told of a change opens what is declared: not while a controller that is gone may have a
    /// pool open.
    pub(super) fn refuse_on_the_way(&self) -> Result<(), ControlError> {
        let Some(pool) = self.openers.on_their_way().pop_first() else { return Ok(()) };
        let (place, why) = (format!("pool {pool:?}"), Reason::NodeGone.into());
        let cause = "its move was cut off by the loss of a node, and its drives are not free yet";
        Err(ControlError::Failed { place, cause: cause.into(), why })
    }

    /// The volumes of these pools, of those whose move has failed at a controller that was gone, and of
    /// controllers that run nowhere: commands on them wait.
    pub(super) fn held<'a>(&self, pools: impl IntoIterator<Item = &'a str>) -> Arc<BTreeSet<String>> {
        let mut held = self.openers.on_their_way();
        held.extend(pools.into_iter().map(str::to_owned));
        let run_nowhere = |pool: &&PoolConfig| self.nowhere.contains(&pool.controller);
        held.extend(self.config.pools.iter().filter(run_nowhere).map(|pool| pool.name.clone()));
        let volumes = self.config.volumes.iter().filter(|volume| held.contains(&volume.pool));
        Arc::new(volumes.map(|volume| volume.name.clone()).collect())
    }

    /// Commands on the volumes of the pool wait, at all controllers. One that is gone holds nothing; but the
    /// one that is to have the pool has to answer.
    async fn hold(&self, pool: &str, to: usize) -> Result<(), ControlError> {
        let (volumes, mut answers) = (self.held([pool]), Ok(()));
        for controller in &self.controllers {
            let held = controller.ask(Control::Hold(volumes.clone())).await;
            if controller.index == to {
                answers = held.map(drop);
            }
        }
        answers
    }

    /// Hosts go on with what these controllers have now.
    pub(super) async fn let_go(&self, owners: impl IntoIterator<Item = usize>) {
        for what in owners.into_iter().map(Control::Announce).chain([Control::Arrived]) {
            self.tell_each(what).await;
        }
        self.tell_each(Control::Hold(self.held([]))).await;
    }

    /// Shows hosts what is in force, at all controllers. One that is gone learns it when it begins anew.
    pub(super) async fn commit_each(&self, config: &Arc<Config>) -> Result<(), ControlError> {
        let mut committed = Ok(());
        for controller in &self.controllers {
            match controller.ask(Control::Commit(config.clone())).await {
                Err(error) if !error.is_of_one_gone() => committed = committed.and(Err(error)),
                _ => {}
            }
        }
        committed
    }

    /// Stores the declaration, has one controller release the pool and the other one open it, and shows hosts
    /// where it is.
    async fn carry_over(
        &mut self,
        next: &Config,
        (pool, from, to): (&str, usize, usize),
    ) -> Result<(), ControlError> {
        let mut made = self.made.clone();
        self.stored.store(next, &made)?;
        let (shared, before) = (self.sent.config(next), self.sent.made(&made));
        let (lus, closed, found) = match self.controllers[from].ask(Control::ReleasePool(pool.into())).await?
        {
            Reply::Released(one) => (one.lus, vec![(pool.to_owned(), one.closed)], one.found),
            _ => Default::default(),
        };
        self.openers.has(pool, None);
        // The group of its journal.
        self.ask(from, Control::Release(shared.clone())).await?;
        let found = found.into_iter().map(|found| PoolFound { pool: pool.into(), found }).collect();
        let arrival = Some(Arrival { pool: pool.into(), lus, closed, found });
        let prepare = Control::Prepare { config: shared.clone(), made: before, arrival };
        let (mut ids, mut not_open) = Default::default();
        self.openers.has(pool, Some(to));
        match self.controllers[to].ask(prepare).await {
            Ok(Reply::Prepared(_, open, not)) => (ids, not_open) = (open, not),
            Ok(_) => {}
            Err(error) => {
                if error.is_for(Reason::NodeGone) {
                    // It has not heard of it.
                    self.openers.has(pool, None);
                }
                return Err(error);
            }
        }
        made.finish(next, &ids, &not_open);
        if made != self.made {
            self.stored.store(next, &made)?;
        }
        self.commit_each(&shared).await?;
        self.stored.in_force(next, &made);
        self.openers.in_force(next);
        self.openers.as_declared(pool);
        (self.config, self.made) = (next.clone(), made);
        Ok(())
    }

    /// The pool goes back to the controller that had it, as it was declared. If the other one has gone in the
    /// middle of it, the pool stays closed until nobody else can write to its drives: [`Array::open_left`].
    async fn bring_back(&mut self, (pool, from, to): (&str, usize, usize)) -> Result<(), ControlError> {
        let shared = self.sent.config(&self.config);
        let undone = self.ask(to, Control::Undo(shared.clone())).await;
        let closed = undone.and(self.ask(to, Control::Release(shared)).await);
        if let (Err(error), true) = (closed, self.openers.left_at(to).iter().any(|left| left == pool)) {
            self.openers.left(pool, (from, to));
            return Err(error);
        }
        self.open_at(pool, from).await
    }

    /// Opens the pools whose move to this controller has failed because it was gone, where they are declared.
    /// Nothing of that controller reaches their drives any more.
    pub(super) async fn open_left(&mut self, at: usize) -> Result<(), ControlError> {
        for pool in self.openers.left_at(at) {
            match self.config.pool(&pool).map(|pool| pool.controller) {
                Some(declared) if declared != at => {
                    let opened = self.open_at(&pool, declared).await;
                    self.let_go([declared]).await;
                    opened?;
                }
                _ => self.openers.as_declared(&pool),
            }
        }
        Ok(())
    }

    async fn open_at(&mut self, pool: &str, controller: usize) -> Result<(), ControlError> {
        self.openers.as_declared(pool);
        let (shared, before) = (self.sent.config(&self.config), self.sent.made(&self.made));
        let prepare = Control::Prepare { config: shared.clone(), made: before, arrival: None };
        self.controllers[controller].ask(prepare).await?;
        self.commit_each(&shared).await
    }
}
