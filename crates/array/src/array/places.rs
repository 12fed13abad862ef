//! Controllers that begin anew while the array goes on: at another node, or here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Array;
use super::stored::also;
use crate::control::{Arrival, Control, ControlError, PoolFound, Released, Reply};

impl Array {
    /// Has controllers end where they run, and open everything again where they run then. `change` is called
    /// when they have ended, and returns when others have begun under their numbers. Commands on their
    /// volumes wait meanwhile, and what their LUs have in memory goes along, as with [`Array::move_pool`].
    ///
    /// # Errors
    /// A pool cannot be closed now (it is rebuilt, or a command on it does not end): nothing has changed. Or
    /// one cannot be opened again: that is in the status, and tried again.
    pub async fn change_places<F: Future<Output = ()>>(
        &mut self,
        indices: &[usize],
        change: impl FnOnce() -> F,
    ) -> Result<(), ControlError> {
        self.refuse_stopped(indices)?;
        self.refuse_on_the_way()?;
        let pools = self.config.pools.iter().filter(|pool| indices.contains(&pool.controller));
        let pools: Vec<(usize, String)> = pools.map(|pool| (pool.controller, pool.name.clone())).collect();
        for (index, pool) in &pools {
            self.ask(*index, Control::MakeReady(pool.clone())).await?;
        }
        let volumes = self.held(pools.iter().map(|(_, pool)| pool.as_str()));
        let changed = self.change_held((indices, &pools), volumes, change).await;
        // Whatever happened: hosts go on.
        self.let_go(indices.iter().copied()).await;
        changed
    }

    async fn change_held<F: Future<Output = ()>>(
        &mut self,
        (indices, pools): (&[usize], &[(usize, String)]),
        volumes: Arc<BTreeSet<String>>,
        change: impl FnOnce() -> F,
    ) -> Result<(), ControlError> {
        self.tell_each(Control::Hold(volumes)).await;
        let mut released = Vec::new();
        let mut failed = Ok(());
        for (index, pool) in pools {
            match self.controllers[*index].ask(Control::ReleasePool(pool.clone())).await {
                Ok(Reply::Released(one)) => released.push(((*index, pool.clone()), one)),
                Ok(_) => {}
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        if failed.is_ok() {
            for index in indices {
                // What it cannot close in order is repaired when it is opened again.
                let _ = self.controllers[*index].ask(Control::Stop { grace: Duration::ZERO }).await;
            }
            change().await;
        }
        let mut opened = Ok(());
        for index in indices {
            let lus = arrival(*index, &released);
            opened = opened.and(self.open_again(*index, failed.is_ok(), lus).await);
        }
        match (failed, opened) {
            (Err(error), Err(left)) => Err(also(error, &left.to_string())),
            (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
            (Ok(()), Ok(())) => Ok(()),
        }
    }

    /// Has a controller that has just begun open what the declaration in force assigns to it, and shows it to
    /// hosts. What is missing is in the status, and tried again.
    ///
    /// # Errors
    /// The controller has stopped again.
    pub async fn bring_up(&mut self, index: usize) -> Result<(), ControlError> {
        self.refuse_stopped(&[index])?;
        self.open_again(index, true, None).await
    }

    /// Who comes after the array has stopped would wait for controllers that are no more.
    fn refuse_stopped(&self, indices: &[usize]) -> Result<(), ControlError> {
        match (self.stopped.load(Relaxed), indices.first()) {
            (true, Some(index)) => Err(ControlError::Stopped(*index)),
            _ => Ok(()),
        }
    }

    /// `is_new`: it does not know what it did before.
    async fn open_again(
        &mut self,
        index: usize,
        is_new: bool,
        arrival: Option<Arrival>,
    ) -> Result<(), ControlError> {
        if is_new {
            for other in self.controllers.iter().filter(|other| other.index != index) {
                // One that has ended, too, knows of none.
                let _ = other.ask(Control::Forget(index)).await;
            }
        }
        let mut made = self.made.clone();
        let (config, before) = (self.sent.config(&self.config), self.sent.made(&made));
        let prepare = |arrival| Control::Prepare { config: config.clone(), made: before.clone(), arrival };
        let controller = self.controllers[index].clone();
        let prepared = match controller.ask(prepare(arrival)).await {
            // Without that pool, which is missing then.
            Err(ControlError::Failed { .. }) => controller.ask(prepare(None)).await?,
            prepared => prepared?,
        };
        if let Reply::Prepared(_, ids, not_open) = prepared {
            made.finish(&self.config, &ids, &not_open);
        }
        if made != self.made {
            self.keep_made(made)?;
        }
        controller.ask(Control::Commit(config)).await?;
        self.openers.opened(index);
        if is_new { self.open_left(index).await } else { Ok(()) }
    }

    /// Those that have ended need not hear it.
    pub(super) async fn tell_each(&self, what: Control) {
        for controller in &self.controllers {
            let _ = controller.ask(what.clone()).await;
        }
    }
}

/// What the pools of a controller take along.
fn arrival(index: usize, released: &[((usize, String), Released)]) -> Option<Arrival> {
    let own = || released.iter().filter(|((of, _), _)| *of == index).map(|((_, pool), one)| (pool, one));
    let (pool, _) = own().next()?;
    let found = |(pool, one): (&String, &Released)| Some(PoolFound { pool: pool.clone(), found: one.found? });
    Some(Arrival {
        pool: pool.clone(),
        lus: own().flat_map(|(_, one)| one.lus.iter().cloned()).collect(),
        closed: own().map(|(pool, one)| (pool.clone(), one.closed)).collect(),
        found: own().filter_map(found).collect(),
    })
}
