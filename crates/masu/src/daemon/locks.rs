//! Waits for the kernel's locks of the drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Result;
use config::Config;

use super::signals::Signals;
use crate::held::wait_until_free;

/// Waits for drives that another process holds; false: a signal to stop came first.
pub(super) async fn drives_are_free(config: &Config, signals: &mut Signals) -> Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    let (config, seen) = (config.clone(), stop.clone());
    let mut waiting = tokio::task::spawn_blocking(move || wait_until_free(&config, &seen));
    tokio::select! {
        free = &mut waiting => free?.map(|()| true),
        () = signals.stop() => {
            stop.store(true, Relaxed);
            Ok(false)
        }
    }
}
