//! Controllers that begin anew while the array goes on: at another node, or here.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::stream::{self, StreamExt};

use super::Array;
use super::stored::also;
use crate::control::{Arrival, Control, ControlError, PoolFound, Released, Reply};

/// Pools that are closed at a time.
const POOLS_AT_ONCE: usize = 16;

/// Whether controllers have begun where they are to run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// Others run under their numbers.
    Now,
    /// Not yet: something else may change meanwhile.
    Later,
}

/// Controllers that are closed and run nowhere. Commands on their volumes wait until
/// [`Array::begin_places`].
#[must_use = "hosts wait until they begin"]
pub struct ClosedControllers {
    indices: Vec<usize>,
    released: Vec<((usize, String), Released)>,
}

impl Array {
    /// Has controllers end where they run, and open everything again where they run then. `change` is called
    /// when they have ended, and returns when others have begun under their numbers, or when that takes
    /// longer than other changes are to wait: then they are left closed, and returned. Who calls this answers
    /// for them until [`Array::begin_places`]. Commands on their volumes wait meanwhile, and what their LUs
    /// have in memory goes along, as with [`Array::move_pool`].
    ///
    /// # Errors
    /// A pool cannot be closed now (it is rebuilt, or a command on it does not end): nothing has changed. Or
    /// one cannot be opened again: that is in the status, and tried again.
    pub async fn change_places<F: Future<Output = Began>>(
        &mut self,
        indices: &[usize],
        change: impl FnOnce() -> F,
    ) -> Result<Option<ClosedControllers>, ControlError> {
        self.refuse_stopped(indices)?;
        self.refuse_on_the_way()?;
        let pools = self.config.pools.iter().filter(|pool| indices.contains(&pool.controller));
        let pools: Vec<(usize, String)> = pools.map(|pool| (pool.controller, pool.name.clone())).collect();
        let ready = self.of_each(&pools, Control::MakeReady).await;
        ready.into_iter().try_for_each(|(_, ready)| ready.map(drop))?;
        let volumes = self.held(pools.iter().map(|(_, pool)| pool.as_str()));
        self.tell_each(Control::Hold(volumes)).await;
        let (released, failed) = self.release(&pools).await;
        let closed = ClosedControllers { indices: indices.to_vec(), released };
        if failed.is_ok() {
            for index in indices {
                // What it cannot close in order is repaired when it is opened again.
                let _ = self.controllers[*index].ask(Control::Stop { grace: Duration::ZERO }).await;
            }
            if change().await == Began::Later {
                self.nowhere.extend(indices);
                return Ok(Some(closed));
            }
        }
        let opened = self.open_places(closed, failed.is_ok()).await;
        match (failed, opened) {
            (Err(error), Err(left)) => Err(also(error, &left.to_string())),
            (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
            (Ok(()), Ok(())) => Ok(None),
        }
    }

    /// Goes on with [`Array::change_places`]: `begin` has the controllers begin, where they have not yet, and
    /// nobody answers for them any more when it has ended.
    ///
    /// # Errors
    /// The array has stopped: nothing has begun. Or something cannot be opened again: that is in the status,
    /// and tried again.
    pub async fn begin_places<F: Future<Output = ()>>(
        &mut self,
        closed: ClosedControllers,
        begin: impl FnOnce() -> F,
    ) -> Result<(), ControlError> {
        self.refuse_stopped(&closed.indices)?;
        begin().await;
        self.nowhere.retain(|index| !closed.indices.contains(index));
        self.open_places(closed, true).await
    }

    /// Closes pools whose LUs are held. If one cannot be closed, the others are all the same.
    async fn release(
        &self,
        pools: &[(usize, String)],
    ) -> (Vec<((usize, String), Released)>, Result<(), ControlError>) {
        let (mut released, mut failed) = (Vec::new(), Ok(()));
        for (pool, answer) in self.of_each(pools, Control::ReleasePool).await {
            match answer {
                Ok(Reply::Released(one)) => released.push((pool, one)),
                Ok(_) => {}
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        (released, failed)
    }

    /// Asks the controllers of pools, at once: hosts would otherwise wait the longer, the more pools there
    /// are. The answers are in the order of the pools.
    async fn of_each(
        &self,
        pools: &[(usize, String)],
        what: impl Fn(String) -> Control,
    ) -> Vec<((usize, String), Result<Reply, ControlError>)> {
        let asked = pools.iter().map(|(index, pool)| {
            let (controller, asked) = (self.controllers[*index].clone(), what(pool.clone()));
            async move { ((*index, pool.clone()), controller.ask(asked).await) }
        });
        stream::iter(asked.collect::<Vec<_>>()).buffered(POOLS_AT_ONCE).collect().await
    }

    async fn open_places(&mut self, closed: ClosedControllers, are_new: bool) -> Result<(), ControlError> {
        let ClosedControllers { indices, released } = closed;
        let mut opened = Ok(());
        for index in &indices {
            let lus = arrival(*index, &released);
            opened = opened.and(self.open_again(*index, are_new, lus).await);
        }
        // Whatever happened: hosts go on.
        self.let_go(indices.iter().copied()).await;
        opened
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
