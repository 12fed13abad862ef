//! Between winning the epoch and opening the drives: nobody else may write to them any more.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use array::{DriveSpec, Event, EventSender, groups_without};
use config::{Config, Made};
use tokio::time::Instant;

use crate::daemon::locks::drives_are_free;
use crate::daemon::signals::Signals;

/// Between two attempts to fence the drives.
const FENCE_PAUSE: Duration = Duration::from_secs(1);
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
enum Fenced {
    Drive(String),
    Image(String),
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fenced::Drive(name) => write!(f, "drive {name:?}"),
            Fenced::Image(name) => write!(f, "image {name:?}"),
        }
    }
}

/// What could not be fenced, and why.
type Failed = Vec<(Fenced, String)>;

fn text(failed: &Failed) -> String {
    let texts: Vec<String> = failed.iter().map(|(what, cause)| format!("{what}: {cause}")).collect();
    texts.join("; ")
}

/// Fences the drives against owners of earlier epochs, all at once: the lock of an RBD image is broken and
/// its client blocklisted; the registration at a block device is preempted. Nothing is done to an image that
/// nobody has. It is not left before it has ended:
/// a fence that goes on after the hand-over would be one against the next owner.
///
/// # Errors
/// Nothing could be fenced.
async fn fence(config: &Config) -> Result<Failed> {
    let drives = fenced_by_command(config);
    if drives.is_empty() {
        return Ok(vec![]);
    }
    let fences = move || {
        world_real::run(world_real::Options::default(), async move |world| {
            // Each begins with the call, on a thread of its own image.
            let begun: Vec<_> = drives.into_iter().map(|(name, spec)| (name, world.fence(&spec))).collect();
            let mut failed = vec![];
            for (name, fenced) in begun {
                match fenced.await {
                    Ok(Some(holder)) => tracing::warn!("{name}: fenced {holder}"),
                    Ok(None) => {}
                    Err(error) => failed.push((name, error.cause)),
                }
            }
            failed
        })
    };
    tokio::task::spawn_blocking(fences).await?.context("cannot fence the drives")
}

/// Fences the drives of a part of the declaration. Who has `waited` for this long enough begins without those
/// that cannot be fenced, if its groups can do without them. Returns which those are, and why.
///
/// # Errors
/// One could not be fenced.
pub(super) async fn fence_part(part: &Config, waited: Duration) -> Result<Option<String>> {
    let failed = fence(part).await?;
    if failed.is_empty() {
        return Ok(None);
    }
    let text = text(&failed);
    // What another process had open was made.
    ensure!(waited >= PATIENCE && can_do_without(part, |_| true, &failed), "cannot fence {text}");
    Ok(Some(text))
}

/// Whether every group that lacks one of these was made, and opens without them. A drive that could not be
/// fenced is never written to beside its last owner: opening it takes its lock, or fails.
fn can_do_without(config: &Config, was_made: impl Fn(&str) -> bool, failed: &Failed) -> bool {
    let drive = |what: &Fenced| match what {
        Fenced::Drive(name) => Some(name.clone()),
        // Nothing else has its data.
        Fenced::Image(_) => None,
    };
    let drives: Option<Vec<String>> = failed.iter().map(|(what, _)| drive(what)).collect();
    let groups = drives.and_then(|drives| groups_without(config, &drives));
    groups.is_some_and(|groups| groups.into_iter().all(was_made))
}

/// Fences the drives and waits until this has succeeded, or the groups can do without those that cannot be
/// fenced. False: a signal to stop came first.
async fn until_fenced(
    (name, epoch): (&str, u64),
    (config, made): (&Config, Option<&Made>),
    events: &EventSender,
    signals: &mut Signals,
) -> Result<bool> {
    let begun = Instant::now();
    let mut told = false;
    let was_made = |name: &str| made.is_some_and(|made| made.has_group(name));
    loop {
        let cause = match fence(config).await {
            Ok(failed) if failed.is_empty() => break,
            Ok(failed) if begun.elapsed() >= PATIENCE && can_do_without(config, was_made, &failed) => {
                let text = format!("the array begins without what cannot be fenced: {}", text(&failed));
                events.tell(Event::warning("array", text));
                return Ok(true);
            }
            Ok(failed) => format!("cannot fence {}", text(&failed)),
            Err(error) => format!("{error:#}"),
        };
        let cause = format!("node {name} owns the array (epoch {epoch}), and waits for its drives: {cause}");
        tracing::warn!("{cause}");
        // Once: the log repeats it.
        if !told {
            events.tell(Event::error("array", cause));
        }
        told = true;
        tokio::select! {
            () = tokio::time::sleep(FENCE_PAUSE) => {}
            () = signals.stop() => return Ok(false),
        }
    }
    if told {
        events.tell(Event::warning("array", "the drives are fenced"));
    }
    Ok(true)
}

/// Fences the drives, and waits until no other process holds one: that may be an owner that was stopped and
/// not continued, so there is no limit. False: a signal to stop came first.
pub(in crate::daemon) async fn wait_for_drives(
    (name, epoch): (&str, u64),
    (config, made): (&Config, Option<&Made>),
    events: &EventSender,
    signals: &mut Signals,
) -> Result<bool> {
    if !until_fenced((name, epoch), (config, made), events, signals).await? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use config::{GroupId, MadeGroup};

    #[test]
    fn groups_that_were_made_do_without_a_drive_and_nothing_else_does() {
        let image = |name: &str| format!("[[drive]]\nname = \"{name}\"\nrbd = \"vms/{name}\"\n");
        let drives: String = ["a", "b", "c", "d", "s", "x"].map(image).concat();
        let text = format!(
            "target = \"iqn.2026-11.test:a\"\nspares = [\"s\"]\n{drives}\
             [[group]]\nname = \"five\"\nlevel = \"raid5\"\ndrives = [\"a\", \"b\", \"c\"]\n\
             [[group]]\nname = \"zero\"\nlevel = \"raid0\"\ndrives = [\"d\"]\n"
        );
        let config = Config::parse(&text, "array.toml", "/tmp".as_ref()).expect("a declaration");
        let whole = MadeGroup { id: Some(GroupId([1; 16])), ready: true };
        let made =
            Made { groups: ["five", "zero"].map(|name| (name.to_owned(), whole)).into(), ..Made::default() };
        let failed = |names: &[&str]| -> Failed {
            names.iter().map(|name| (Fenced::Drive((*name).to_owned()), "why".to_owned())).collect()
        };
        let was_made = |name: &str| made.has_group(name);
        let spared = |names: &[&str]| can_do_without(&config, was_made, &failed(names));
        assert!(spared(&["a"]) && spared(&["c"]));
        assert!(!spared(&["a", "b"]), "more than the level tolerates");
        assert!(!spared(&["d"]) && !spared(&["a", "d"]), "a group without redundancy");
        assert!(!spared(&["a", "s"]) && !spared(&["s"]), "the spare may be a member, of either group");
        assert!(!spared(&["x"]), "of no group");
        assert!(!can_do_without(&config, was_made, &vec![(Fenced::Image("a".into()), "why".into())]));
        assert!(!can_do_without(&config, |_| false, &failed(&["a"])), "a new group needs all");
        // A controller at another node: what is of other controllers does not matter.
        let mut part = config.clone();
        part.groups.retain(|group| group.name == "five");
        assert!(can_do_without(&part, |_| true, &failed(&["a"])));
        assert!(!can_do_without(&part, |_| true, &failed(&["d"])), "no drive of it");
    }
}
