//! An array on modelled drives that take their time: the testbed of the laboratory in real time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use array::status::ControllerStatus;
use array::{Array, Config};
use world_model::drives::{Prepared, Usage};

use super::thread::{ArrayThread, Meter};
use super::timed_drive::{Drives, metered_world_with};

/// It, until it is dropped.
pub struct TimedArray {
    running: ArrayThread<BTreeMap<String, Usage>>,
    takes_time: Arc<AtomicBool>,
}

impl TimedArray {
    /// Starts it, on modelled drives that are all alike.
    pub fn start(config: Config, prepared: &Prepared, seed: u64) -> Result<TimedArray> {
        let drives = Drives::alike(&config, prepared);
        TimedArray::start_on(&[config], drives, seed)
    }

    /// Starts it and applies the declarations, one after the other. One controller owns everything; the
    /// modelled drives take no time until all of it is made.
    pub fn start_on(declarations: &[Config], drives: Drives, seed: u64) -> Result<TimedArray> {
        let takes_time = drives.takes_time.clone();
        let running = ArrayThread::start(declarations, seed, move |world| {
            let (world, meter) = metered_world_with(world, drives);
            (world, move || meter.usage())
        })?;
        takes_time.store(true, Ordering::Relaxed);
        Ok(TimedArray { running, takes_time })
    }

    /// What changes its declaration, from any thread.
    pub fn control(&mut self) -> Array {
        let other = self.another();
        std::mem::replace(&mut self.running.array, other)
    }

    fn another(&self) -> Array {
        Array::new(self.running.handles.clone(), &self.running.array.config().target)
    }

    /// Whether its drives take their time.
    pub fn take_time(&self, takes_time: bool) {
        self.takes_time.store(takes_time, Ordering::Relaxed);
    }

    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.running.listen
    }

    /// What tells how much it works, to be asked from any thread.
    pub fn observer(&self) -> Observer {
        Observer { array: self.another(), usage: self.running.meter.clone() }
    }
}

/// Asks an array that runs.
pub struct Observer {
    array: Array,
    usage: Meter<BTreeMap<String, Usage>>,
}

impl Observer {
    /// What its controllers say.
    pub async fn status(&self) -> Result<Vec<ControllerStatus>> {
        Ok(self.array.status().await?)
    }

    /// What its drives did so far, by name.
    pub async fn usage(&self) -> Result<BTreeMap<String, Usage>> {
        self.usage.read().await
    }
}

impl Drop for TimedArray {
    fn drop(&mut self) {
        // What its cache still has to write need not take the time of drives.
        self.takes_time.store(false, Ordering::Relaxed);
    }
}
