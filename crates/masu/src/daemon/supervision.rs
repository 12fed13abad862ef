//! Supervision of the daemon from inside, and notifications to the service manager (sd_notify): a failed part
//! ends the process, and the service manager restarts it.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use array::{Event, EventSender};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use sd_notify::NotifyState;
use world_real::{WatchdogLimits, Watched};

use crate::stderr_queue;

/// From here on a panic ends the process, with its backtrace in the log.
pub(super) fn end_on_panic() {
    world_real::abort_on_panic(|text| {
        tracing::error!("a thread panicked, the process ends: {text}");
        stderr_queue::drain();
    });
}

/// From here on this process ends with its parent, however that ends.
///
/// # Errors
/// The parent is not `parent`: it ended before.
pub(super) fn end_with(parent: i32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // No signal comes for a parent that ended before the call.
    let own = Pid::as_raw(getppid());
    ensure!(own == parent, "process {parent}, which started this one, has ended");
    Ok(())
}

/// Where the watchdog tells its events: the log of the array's life in this process.
static EVENTS: Mutex<Option<EventSender>> = Mutex::new(None);

/// Watches the event loops of the controllers, and notifies the service manager. A second call only replaces
/// where events are told.
pub(super) fn watch_controllers(events: EventSender) -> Result<()> {
    if EVENTS.lock().unwrap_or_else(PoisonError::into_inner).replace(events).is_some() {
        return Ok(());
    }
    let tell_event = |event| {
        if let Some(events) = &*EVENTS.lock().unwrap_or_else(PoisonError::into_inner) {
            events.tell(event);
        }
    };
    let tell = move |watched| match watched {
        Watched::Looked => notify(&[NotifyState::Watchdog]),
        Watched::Slow { thread, silent } => {
            let text = format!("has not responded for {} s; its hosts wait", silent.as_secs());
            tell_event(Event::error(thread, text));
        }
        Watched::Again { thread, silent } => {
            let text = format!("responds again after {} s", silent.as_secs());
            tell_event(Event::warning(thread, text));
        }
        Watched::Dead { thread, silent, stacks } => {
            let seconds = silent.as_secs();
            tell_event(Event::error(&thread, format!("has not responded for {seconds} s; the process ends")));
            tracing::error!(
                "{thread} has not responded for {seconds} s; the process ends. Its threads:\n{stacks}"
            );
            stderr_queue::drain();
        }
    };
    world_real::start_watchdog(WatchdogLimits::default(), tell).context("cannot start the watchdog")
}

/// Notifies that hosts are served.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Notifies that the declaration is applied again; `ready` follows.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        notify(&[NotifyState::Reloading, now]);
    }
}

/// Notifies that the array stops.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Without a service manager this has no effect.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot notify the service manager: {error}");
    }
}
