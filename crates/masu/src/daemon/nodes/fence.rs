//! Between winning the epoch and opening the drives: nobody else may write to them any more.

use anyhow::{Result, bail};
use array::{DriveSpec, Event, EventSender};
use config::{Config, DriveConfig};

use crate::daemon::locks::drives_are_free;
use crate::daemon::signals::Signals;

/// Fences the drives against owners of earlier epochs. This is where kinds of drives that have a command for
/// it (an RBD lock that is broken, its client blocklisted; reservations that are pre-empted) come in.
///
/// # Errors
/// A drive that cannot be fenced: it must not be opened.
async fn fence(drives: &[DriveConfig], _epoch: u64) -> Result<()> {
    for drive in drives {
        match &drive.spec {
            // The kernel's exclusive lock is the fence, for processes of one machine: `wait_for_drives`.
            DriveSpec::File { .. }
            | DriveSpec::Device { .. }
            | DriveSpec::Image { .. }
            | DriveSpec::ImageWithin { .. } => {}
            DriveSpec::Rbd { .. } => bail!("drive {}: RBD images cannot be shared by nodes yet", drive.name),
            // Nobody else has it, or nobody writes.
            DriveSpec::Memory { .. } | DriveSpec::Modelled { .. } | DriveSpec::ReadOnly { .. } => {}
        }
    }
    Ok(())
}

/// Fences the drives, and waits until no other process holds one: that may be an owner that was stopped and
/// not continued, so there is no limit. False: a signal to stop came first.
pub(in crate::daemon) async fn wait_for_drives(
    (name, epoch): (&str, u64),
    config: &Config,
    events: &EventSender,
    signals: &mut Signals,
) -> Result<bool> {
    fence(&config.drives, epoch).await?;
    let mut waited = false;
    loop {
        match drives_are_free(config, signals).await {
            Err(error) => {
                let text = format!(
                    "node {name} owns the array (epoch {epoch}), and waits for its drives: {error:#}"
                );
                tracing::warn!("{text}");
                // Once: the log repeats it.
                if !waited {
                    events.tell(Event::error("array", text));
                }
                waited = true;
            }
            free => {
                if waited && matches!(free, Ok(true)) {
                    events.tell(Event::warning("array", "the drives are free"));
                }
                return free;
            }
        }
    }
}
