//! Between winning the epoch and opening the drives: nobody else may write to them any more.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use array::{DriveSpec, Event, EventSender};
use config::Config;

use crate::daemon::locks::drives_are_free;
use crate::daemon::signals::Signals;

/// Between two attempts to fence the drives.
const FENCE_PAUSE: Duration = Duration::from_secs(1);

/// What has a command that fences. The kernel's exclusive lock is the fence of files and devices, for
/// processes of one machine; memory and what is only read need none.
fn fenced_by_command(config: &Config) -> Vec<(String, DriveSpec)> {
    let drives = config.drives.iter().map(|drive| (format!("drive {:?}", drive.name), &drive.spec));
    let images = config.images.iter().filter(|image| !image.read_only);
    let images = images.map(|image| (format!("image {:?}", image.name), &image.spec));
    drives
        .chain(images)
        .filter(|(_, spec)| matches!(spec, DriveSpec::Rbd(_)))
        .map(|(name, spec)| (name, spec.clone()))
        .collect()
}

/// Fences the drives against owners of earlier epochs, all at once: the lock of an RBD image is broken and
/// its client blocklisted. Nothing is done to an image that nobody has. It is not left before it has ended:
/// a fence that goes on after the hand-over would be one against the next owner.
///
/// # Errors
/// A drive that cannot be fenced: it must not be opened.
async fn fence(config: &Config) -> Result<()> {
    let drives = fenced_by_command(config);
    if drives.is_empty() {
        return Ok(());
    }
    let fences = move || {
        world_real::run(world_real::Options::default(), async move |world| {
            // Each begins with the call, on a thread of its own image.
            let begun: Vec<_> = drives.iter().map(|(name, spec)| (name, world.fence(spec))).collect();
            let mut failed = vec![];
            for (name, fenced) in begun {
                match fenced.await {
                    Ok(Some(holder)) => tracing::warn!("{name}: fenced {holder}"),
                    Ok(None) => {}
                    Err(error) => failed.push(format!("{name}: {}", error.cause)),
                }
            }
            failed
        })
    };
    let failed = tokio::task::spawn_blocking(fences).await?.context("cannot fence the drives")?;
    if !failed.is_empty() {
        bail!("cannot fence {}", failed.join("; "));
    }
    Ok(())
}

/// Fences the drives and waits until this has succeeded. False: a signal to stop came first.
async fn until_fenced(
    (name, epoch): (&str, u64),
    config: &Config,
    events: &EventSender,
    signals: &mut Signals,
) -> Result<bool> {
    let mut failed = false;
    while let Err(error) = fence(config).await {
        let error =
            anyhow!("node {name} owns the array (epoch {epoch}), and waits for its drives: {error:#}");
        tracing::warn!("{error}");
        // Once: the log repeats it.
        if !failed {
            events.tell(Event::error("array", error.to_string()));
        }
        failed = true;
        tokio::select! {
            () = tokio::time::sleep(FENCE_PAUSE) => {}
            () = signals.stop() => return Ok(false),
        }
    }
    if failed {
        events.tell(Event::warning("array", "the drives are fenced"));
    }
    Ok(true)
}

/// Fences the drives, and waits until no other process holds one: that may be an owner that was stopped and
/// not continued, so there is no limit. False: a signal to stop came first.
pub(in crate::daemon) async fn wait_for_drives(
    (name, epoch): (&str, u64),
    config: &Config,
    events: &EventSender,
    signals: &mut Signals,
) -> Result<bool> {
    if !until_fenced((name, epoch), config, events, signals).await? {
        return Ok(false);
    }
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
