//! One change at a time: who makes one holds the array. Who only looks does not wait for it: what is declared
//! is known from the last change that has ended, and controllers answer beside one.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use array::{Array, ControllerHandle, Unfinished};
use config::Config;
use status::UnderWay;
use tokio::sync::{Mutex, MutexGuard as AsyncGuard};

/// The array, for who changes it and for who looks.
pub(crate) struct Holding {
    array: Mutex<Array>,
    controllers: Vec<ControllerHandle>,
    known: std::sync::Mutex<Known>,
}

/// What is known without the array.
#[derive(Clone)]
pub(crate) struct Known {
    /// What is declared.
    pub(crate) config: Arc<Config>,
    /// The identities of block devices, by drive.
    pub(crate) devices: Arc<BTreeMap<String, String>>,
    /// Why the state cannot be saved, as [`Array::state_fault`].
    pub(crate) state_fault: Option<(String, bool)>,
    /// What was interrupted, as [`Array::unfinished`].
    pub(crate) unfinished: Vec<Unfinished>,
    change: Option<(String, Instant)>,
}

impl Known {
    fn of(array: &Array) -> Known {
        Known {
            config: Arc::new(array.config().clone()),
            devices: Arc::new(array.made().devices.clone()),
            state_fault: array.state_fault(),
            unfinished: array.unfinished(),
            change: None,
        }
    }

    /// The change that is being made.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let (what, since) = self.change.as_ref()?;
        let for_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(UnderWay { what: what.clone(), for_ms })
    }
}

impl Holding {
    pub(crate) fn new(array: Array) -> Holding {
        let (controllers, known) = (array.controllers().to_vec(), Known::of(&array).into());
        Holding { array: Mutex::new(array), controllers, known }
    }

    /// Waits for the turn to change the array; `what` is said to who looks meanwhile.
    pub(crate) async fn hold(&self, what: impl Into<String>) -> Held<'_> {
        let array = self.array.lock().await;
        self.lock().change = Some((what.into(), Instant::now()));
        Held { array, of: self }
    }

    /// What is known now, at once.
    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    /// The controllers, which answer at any time.
    pub(crate) fn controllers(&self) -> &[ControllerHandle] {
        &self.controllers
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The array in the hands of who changes it. What has changed is known when it is dropped.
pub(crate) struct Held<'a> {
    array: AsyncGuard<'a, Array>,
    of: &'a Holding,
}

impl Held<'_> {
    /// Says more of what is being made.
    pub(crate) fn is_for(&self, what: String) {
        let mut known = self.of.lock();
        known.change.iter_mut().for_each(|(of, _)| of.clone_from(&what));
    }
}

impl Deref for Held<'_> {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.array
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Array {
        &mut self.array
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut known = self.of.lock();
        // Most of the time nothing has: thousands of names are not copied then.
        if *known.config != *self.array.config() {
            known.config = Arc::new(self.array.config().clone());
        }
        if *known.devices != self.array.made().devices {
            known.devices = Arc::new(self.array.made().devices.clone());
        }
        known.state_fault = self.array.state_fault();
        known.unfinished = self.array.unfinished();
        known.change = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_does_not_wait_for_a_change_and_learns_what_it_is() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let holding = Holding::new(Array::new(vec![], "iqn.2026-11.net.example:x"));
            assert_eq!(holding.known().under_way(), None);
            let mut held = holding.hold("volume_create by user 0").await;
            let under_way = holding.known().under_way().expect("a change");
            assert_eq!(under_way.what, "volume_create by user 0");
            held.adopt(config::Made {
                devices: [("d0".into(), "wwid: 1".into())].into(),
                ..Default::default()
            });
            assert!(holding.known().devices.is_empty(), "it has not ended");
            drop(held);
            assert_eq!(holding.known().devices["d0"], "wwid: 1");
            assert_eq!(holding.known().under_way(), None);
        });
    }
}
