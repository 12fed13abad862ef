//! Between winning the epoch and opening the drives: nobody else may write to them any more.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use array::{DriveSpec, Event, EventSender, Unclaimed, Withheld};
use config::{Config, Made};
use lab_core::console::causes;
use tokio::time::Instant;

use crate::daemon::signals::Signals;
use crate::held::{IN_USE, WAIT_TIME, still_held};

/// Between two attempts to claim the drives.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// So long a drive that cannot be fenced is tried again, before a group that can do without it does. An
/// attempt at a Ceph cluster that does not answer takes 12 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// What has a command that fences. The kernel's exclusive lock is the fence of files, and of devices that one
/// machine has; memory and what is only read need none.
fn fenced_by_command(config: &Config) -> Vec<(Fenced, DriveSpec)> {
    let drives = config.drives.iter().map(|drive| (Fenced::Drive(drive.name.clone()), &drive.spec));
    let images = config.images.iter().filter(|image| !image.read_only);
    let images = images.map(|image| (Fenced::Image(image.name.clone()), &image.spec));
    drives
        .chain(images)
        .filter(|(_, spec)| world_real::is_fenced_by_command(spec))
        .map(|(name, spec)| (name, spec.clone()))
        .collect()
}

/// What is fenced, by its declared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fenced {
    Drive(String),
    Image(String),
}

impl Fenced {
    fn add_to(self, all: &mut Unclaimed, cause: String) {
        match self {
            Fenced::Drive(name) => all.unfenced.insert(name, cause),
            Fenced::Image(name) => all.images.insert(name, cause),
        };
    }
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fenced::Drive(name) => write!(f, "drive {name:?}"),
            Fenced::Image(name) => write!(f, "image {name:?}"),
        }
    }
}

/// Fences the drives against owners of earlier epochs, all at once: the lock of an RBD image is broken and
/// its client blocklisted; the registration at a block device is preempted. Nothing is done to an image that
/// nobody has. It is not left before it has ended: a fence that goes on after the hand-over would be one
/// against the next owner. What is `done` is not fenced again: a pool that was on its way may have been
/// opened in this process since.
///
/// # Errors
/// Nothing could be fenced.
async fn fence(config: &Config, done: &mut Vec<Fenced>) -> Result<Unclaimed> {
    let mut drives = fenced_by_command(config);
    drives.retain(|(name, _)| !done.contains(name));
    if drives.is_empty() {
        return Ok(Unclaimed::default());
    }
    let fences = move || {
        world_real::run(world_real::Options::default(), async move |world| {
            // Each begins with the call, on a thread of its own image.
            let begun: Vec<_> = drives.into_iter().map(|(name, spec)| (name, world.fence(&spec))).collect();
            let (mut failed, mut fenced_now) = (Unclaimed::default(), vec![]);
            for (name, fenced) in begun {
                match fenced.await {
                    Ok(holder) => {
                        holder.iter().for_each(|holder| tracing::warn!("{name}: fenced {holder}"));
                        fenced_now.push(name);
                    }
                    Err(error) => name.add_to(&mut failed, format!("cannot be fenced: {}", error.cause)),
                }
            }
            (failed, fenced_now)
        })
    };
    let fenced = tokio::task::spawn_blocking(fences).await?;
    let (failed, fenced_now) = fenced.context("cannot fence the drives")?;
    done.extend(fenced_now);
    Ok(failed)
}

/// Fences the drives of a part of the declaration. Who has `waited` for this long enough begins without those
/// that cannot be fenced, if its groups can do without them. Returns which those are, and why.
///
/// # Errors
/// One could not be fenced.
pub(super) async fn fence_part(
    part: &Config,
    done: &mut Vec<Fenced>,
    waited: Duration,
) -> Result<Option<String>> {
    let failed = fence(part, done).await?;
    if failed.is_empty() {
        return Ok(None);
    }
    let text = text(&failed);
    ensure!(waited >= PATIENCE && failed.can_be_spared(part), "{text}");
    Ok(Some(text))
}

fn text(unclaimed: &Unclaimed) -> String {
    let Unclaimed { unfenced, held, images } = unclaimed;
    let of = |kind: &'static str, all: &BTreeMap<String, String>| {
        all.iter().map(|(name, cause)| format!("{kind} {name:?}: {cause}")).collect::<Vec<_>>()
    };
    [of("drive", unfenced), of("drive", held), of("image", images)].concat().join("; ")
}

/// Fences the drives, and waits for those that other processes hold, for so long at most; once `stop` is set,
/// it does not wait any more. Returns what is left.
///
/// # Errors
/// Nothing could be fenced.
pub(super) async fn claim(
    config: &Config,
    done: &mut Vec<Fenced>,
    (stop, time): (&Arc<AtomicBool>, Duration),
) -> Result<Unclaimed> {
    let mut unclaimed = fence(config, done).await?;
    let mut rest = config.clone();
    rest.drives.retain(|drive| !unclaimed.unfenced.contains_key(&drive.name));
    let stop = stop.clone();
    let held = tokio::task::spawn_blocking(move || still_held(&rest, &stop, time)).await?;
    // An image that is in use is tried when it is opened: the status says so.
    unclaimed.held = held.drives.into_iter().map(|name| (name, IN_USE.to_owned())).collect();
    Ok(unclaimed)
}

/// Fences the drives, and waits until no other process holds one: that may be an owner that was stopped and
/// not continued, so there is no limit where nothing could be served without it. Returns what the array
/// begins without; none: a signal to stop came first.
pub(in crate::daemon) async fn wait_for_drives(
    (name, epoch): (&str, u64),
    (config, made): (&Config, Option<&Made>),
    events: &EventSender,
    signals: &mut Signals,
) -> Result<Option<Withheld>> {
    let (begun, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let was_made = |name: &str| made.is_some_and(|made| made.has_group(name));
    let (mut told, mut done) = (false, vec![]);
    loop {
        let mut claiming = pin!(claim(config, &mut done, (&stop, WAIT_TIME)));
        let claimed = tokio::select! {
            claimed = &mut claiming => claimed,
            () = signals.stop() => {
                // A fence that is under way ends first.
                stop.store(true, Relaxed);
                claiming.await?;
                return Ok(None);
            }
        };
        let cause = match &claimed {
            Ok(unclaimed) if unclaimed.is_empty() => break,
            Ok(unclaimed) => text(unclaimed),
            Err(error) => causes(error),
        };
        let unclaimed = claimed.ok().filter(|_| begun.elapsed() >= PATIENCE);
        if let Some(withheld) = unclaimed.and_then(|left| Withheld::to_begin(config, was_made, &left)) {
            events.tell(Event::warning("array", format!("begins without what it cannot claim: {cause}")));
            return Ok(Some(withheld));
        }
        let cause = format!("node {name} owns the array (epoch {epoch}), and waits for its drives: {cause}");
        tracing::warn!("{cause}");
        // Once: the log repeats it.
        if !told {
            events.tell(Event::error("array", cause));
        }
        told = true;
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = signals.stop() => return Ok(None),
        }
    }
    if told {
        events.tell(Event::warning("array", "the drives are free"));
    }
    Ok(Some(Withheld::default()))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

    use super::*;

    /// The kernel releases an image of an owner that was killed a moment later: it was tried too early, and
    /// not served.
    #[tokio::test]
    async fn an_image_that_is_about_to_be_free_is_waited_for_and_is_no_reason_to_wait_longer() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("i.img");
        let file = open(&image, OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR).expect("a file");
        flock(&file, FlockOperation::LockExclusive).expect("locked");
        let text = format!(
            "target = \"iqn.2026-11.test:a\"\n[[image]]\nname = \"i\"\nfile = {image:?}\nformat = \"raw\"\n"
        );
        let config = Config::parse(&text, "array.toml", dir.path()).expect("a declaration");
        let stop = Arc::default();
        let held = claim(&config, &mut vec![], (&stop, Duration::from_millis(1))).await;
        assert!(held.expect("claimed").is_empty());
        let lets_go = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(file);
        });
        claim(&config, &mut vec![], (&stop, WAIT_TIME)).await.expect("claimed");
        assert!(lets_go.is_finished(), "it is in use yet");
    }

    #[test]
    fn what_is_not_claimed_is_named_with_its_cause() {
        let one = |name: &str, cause: &str| [(name.to_owned(), cause.to_owned())].into();
        let unclaimed = Unclaimed {
            unfenced: one("d1", "cannot be fenced: no answer"),
            held: one("d0", IN_USE),
            images: one("i", "cannot be fenced: refused"),
        };
        assert_eq!(
            text(&unclaimed),
            "drive \"d1\": cannot be fenced: no answer; drive \"d0\": in use by another process; \
             image \"i\": cannot be fenced: refused"
        );
    }
}
