//! An array on modelled drives that take their time: its controller on a thread of this process, at a port that the system chooses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use array::status::ControllerStatus;
use array::{Array, Config, ControllerHandle};
use futures::channel::oneshot;
use futures::executor::block_on;
use world_model::drives::{Prepared, Usage};

use crate::timed_drive::{Drives, metered_world_with};

/// It, until it is dropped.
pub(crate) struct TimedArray {
    array: Array,
    handles: Vec<ControllerHandle>,
    takes_time: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), world_real::RunError>>>,
    usage: async_channel::Sender<oneshot::Sender<BTreeMap<String, Usage>>>,
    listen: SocketAddr,
}

impl TimedArray {
    /// Starts it, on modelled drives that are all alike.
    pub(crate) fn start(config: Config, prepared: &Prepared, seed: u64) -> Result<TimedArray> {
        let drives = Drives::alike(&config, prepared, Arc::default());
        TimedArray::start_on(config, drives, seed)
    }

    /// Starts it. One controller owns everything; the modelled drives take no time until all of it is made.
    pub(crate) fn start_on(config: Config, drives: Drives, seed: u64) -> Result<TimedArray> {
        let takes_time = drives.takes_time.clone();
        let (handle, mailbox) = ControllerHandle::new(0);
        let handles = vec![handle];
        let (usage, asked) = async_channel::unbounded::<oneshot::Sender<BTreeMap<String, Usage>>>();
        let all = handles.clone();
        let options = world_real::Options { seed, ..world_real::Options::default() };
        let thread = world_real::start("controller-0", options, move |world| {
            let (world, meter) = metered_world_with(world, drives);
            world.spawn(async move {
                while let Ok(reply) = asked.recv().await {
                    // Nobody waits for it any more: nothing is lost.
                    let _ = reply.send(meter.usage());
                }
            });
            array::run_controller(world, 0, mailbox, all)
        })
        .context("the array's controller cannot start")?;
        let array = Array::new(handles.clone(), &config.target);
        let listen = SocketAddr::from(([0; 4], 0));
        let mut timed = TimedArray { array, handles, takes_time, thread: Some(thread), usage, listen };
        block_on(timed.array.apply(config)).context("the array under test")?;
        timed.takes_time.store(true, Ordering::Relaxed);
        let parts = block_on(timed.array.status())?;
        let port = parts.iter().flat_map(|part| &part.ports).next();
        timed.listen = port.ok_or_else(|| anyhow!("the array under test has no port"))?.listen;
        Ok(timed)
    }

    /// What changes its declaration, from any thread.
    pub(crate) fn control(&mut self) -> Array {
        let target = self.array.config().target.clone();
        std::mem::replace(&mut self.array, Array::new(self.handles.clone(), &target))
    }

    /// Whether its drives take their time.
    pub(crate) fn take_time(&self, takes_time: bool) {
        self.takes_time.store(takes_time, Ordering::Relaxed);
    }

    /// Where it listens.
    pub(crate) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// What tells how much it works, to be asked from any thread.
    pub(crate) fn observer(&self) -> Observer {
        Observer {
            array: Array::new(self.handles.clone(), &self.array.config().target),
            usage: self.usage.clone(),
        }
    }
}

/// Asks an array that runs.
pub(crate) struct Observer {
    array: Array,
    usage: async_channel::Sender<oneshot::Sender<BTreeMap<String, Usage>>>,
}

impl Observer {
    /// What its controllers say.
    pub(crate) async fn status(&self) -> Result<Vec<ControllerStatus>> {
        Ok(self.array.status().await?)
    }

    /// What its drives did so far, by name.
    pub(crate) async fn usage(&self) -> Result<BTreeMap<String, Usage>> {
        let (reply, usage) = oneshot::channel();
        self.usage.send(reply).await.map_err(|_| anyhow!("the array's controller has ended"))?;
        usage.await.context("the array's controller has ended")
    }
}

impl Drop for TimedArray {
    fn drop(&mut self) {
        // What its cache still has to write need not take the time of drives. Errors on the way out change nothing that was measured.
        self.takes_time.store(false, Ordering::Relaxed);
        let _ = block_on(self.array.stop());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
