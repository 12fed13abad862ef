//! Supervision of the daemon from inside, and notifications to the service manager (sd_notify): a failed part
//! ends the process, and the service manager restarts it.

use anyhow::{Context, Result};
use array::{Event, EventSender};
use sd_notify::NotifyState;
use world_real::{WatchdogLimits, Watched};

/// From here on a panic ends the process, with its backtrace in the log.
pub(super) fn end_on_panic() {
    world_real::abort_on_panic(|text| tracing::error!("a thread panicked, the process ends: {text}"));
}

/// Watches the event loops of the controllers, and notifies the service manager.
pub(super) fn watch_controllers(events: EventSender) -> Result<()> {
    let tell = move |watched| match watched {
        Watched::Looked => notify(&[NotifyState::Watchdog]),
        Watched::Slow { thread, silent } => {
            let text = format!("has not responded for {} s; its hosts wait", silent.as_secs());
            events.tell(Event::error(thread, text));
        }
        Watched::Again { thread, silent } => {
            let text = format!("responds again after {} s", silent.as_secs());
            events.tell(Event::warning(thread, text));
        }
        Watched::Dead { thread, silent, stacks } => {
            let seconds = silent.as_secs();
            events
                .tell(Event::error(&thread, format!("has not responded for {seconds} s; the process ends")));
            tracing::error!(
                "{thread} has not responded for {seconds} s; the process ends. Its threads:\n{stacks}"
            );
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
