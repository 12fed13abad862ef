//! Pools that move between the controllers of a running array, while hosts use them.

use std::sync::Arc;

use super::stored::also;
use super::{Array, refusals};
use status::Reason;

use crate::config::Config;
use crate::control::{Arrival, Control, ControlError, Reply};
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
        let explained = |error| at_node_of(&self.config, pool, error);
        self.ask(from, Control::MakeReady(pool.into())).await.map_err(explained)?;
        let volumes = self.config.volumes.iter().filter(|v| v.pool == pool).map(|v| v.name.clone());
        if let Err(error) = self.ask_each(Control::Hold(Arc::new(volumes.collect()))).await {
            self.tell_each(Control::Hold(Arc::default())).await;
            return Err(at_node_of(&self.config, pool, error));
        }
        let moved = self.carry_over(&next, (pool, from, to)).await;
        let owner = if moved.is_ok() { to } else { from };
        let moved = match moved {
            Ok(()) => Ok(()),
            // What is stored first: the declaration of the move must not stay.
            Err(error) => {
                let error = self.stored.refused(at_node_of(&self.config, pool, error));
                let came_back = self.bring_back((from, to)).await;
                Err(match came_back {
                    Ok(()) => error,
                    Err(left) => also(error, &left.to_string()),
                })
            }
        };
        // Whatever happened: hosts go on, also where a node is gone that runs another controller.
        for what in [Control::Announce(owner), Control::Arrived, Control::Hold(Arc::default())] {
            self.tell_each(what).await;
        }
        moved?;
        Ok(vec![format!("pool {pool}: moved from controller {from} to controller {to}")])
    }

    async fn ask_each(&self, what: Control) -> Result<(), ControlError> {
        for controller in &self.controllers {
            controller.ask(what.clone()).await?;
        }
        Ok(())
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
        let lus = match self.controllers[from].ask(Control::ReleasePool(pool.into())).await? {
            Reply::Released(lus) => lus,
            _ => Vec::new(),
        };
        // The group of its journal.
        self.ask(from, Control::Release(shared.clone())).await?;
        let arrival = Some(Arrival { pool: pool.into(), lus });
        let prepare = Control::Prepare { config: shared.clone(), made: before, arrival };
        let (mut ids, mut not_open) = Default::default();
        if let Reply::Prepared(_, open, not) = self.controllers[to].ask(prepare).await? {
            (ids, not_open) = (open, not);
        }
        made.finish(next, &ids, &not_open);
        if made != self.made {
            self.stored.store(next, &made)?;
        }
        self.ask_each(Control::Commit(shared)).await?;
        self.stored.in_force(next, &made);
        (self.config, self.made) = (next.clone(), made);
        Ok(())
    }

    /// The pool goes back to the controller that had it, as it was declared.
    async fn bring_back(&mut self, (from, to): (usize, usize)) -> Result<(), ControlError> {
        let (shared, before) = (self.sent.config(&self.config), self.sent.made(&self.made));
        self.ask(to, Control::Undo(shared.clone())).await?;
        self.ask(to, Control::Release(shared.clone())).await?;
        let prepare = Control::Prepare { config: shared.clone(), made: before, arrival: None };
        self.controllers[from].ask(prepare).await?;
        self.ask_each(Control::Commit(shared)).await
    }
}
