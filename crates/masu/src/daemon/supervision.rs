//! What watches the daemon from inside, and what it says to the service manager (sd_notify): a dead part ends the process, and the
//! service manager starts it again.

use anyhow::{Context, Result};
use array::{Event, EventSender};
use sd_notify::NotifyState;
use world_real::{WatchdogLimits, Watched};

/// From here on a panic ends the process, with its backtrace in the log.
pub(super) fn end_on_panic() {
    world_real::abort_on_panic(|text| tracing::error!("a part of the array died, the process ends: {text}"));
}

/// Watches the loops of the controllers, and tells the service manager that somebody does.
pub(super) fn watch_controllers(events: EventSender) -> Result<()> {
    let tell = move |watched| match watched {
        Watched::Looked => notify(&[NotifyState::Watchdog]),
        Watched::Slow { thread, silent } => {
            let text = format!("does not turn for {} s: its hosts wait", silent.as_secs());
            events.tell(Event::error(thread, text));
        }
        Watched::Again { thread, silent } => {
            let text = format!("turns again; it stood still for {} s", silent.as_secs());
            events.tell(Event::warning(thread, text));
        }
        Watched::Dead { thread, silent, stacks } => {
            let seconds = silent.as_secs();
            events.tell(Event::error(&thread, format!("did not turn for {seconds} s: the process ends")));
            tracing::error!(
                "{thread} did not turn for {seconds} s: the process ends. Its threads:\n{stacks}"
            );
        }
    };
    world_real::start_watchdog(WatchdogLimits::default(), tell).context("cannot start the watchdog")
}

/// Hosts are served.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The declaration is read again; `ready` follows.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        notify(&[NotifyState::Reloading, now]);
    }
}

/// The array stops.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Without a service manager this does nothing.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("the service manager does not hear: {error}");
    }
}
