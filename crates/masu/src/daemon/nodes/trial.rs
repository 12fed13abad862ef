//! Whether this node could take over: it tries to write its data directory, where an owner keeps its epoch
//! and the state, before it has to.

use std::sync::Arc;
use std::time::Duration;

use admin::{Store, StoreError};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// Between two trials.
const EVERY: Duration = Duration::from_secs(10);
/// A file system that has not written a small file by then does not answer: a take-over would wait for it.
const TIME_MAX: Duration = Duration::from_secs(20);

/// How a trial goes; it blocks.
type Trial = Arc<dyn Fn() -> Result<(), StoreError> + Send + Sync>;

/// What is wrong with the data directory, from now on until nobody listens.
pub(super) fn of_directory(store: Store) -> watch::Receiver<Option<String>> {
    let place = format!("its data directory {}", store.dir().display());
    of(place, Arc::new(move || store.try_write()), (EVERY, TIME_MAX))
}

/// The first of two troubles that there is.
pub(super) fn either(
    mut first: watch::Receiver<Option<String>>,
    mut second: watch::Receiver<Option<String>>,
) -> watch::Receiver<Option<String>> {
    let (tell, trouble) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let both = (first.borrow_and_update().clone(), second.borrow_and_update().clone());
            let now = both.0.or(both.1);
            tell.send_if_modified(|last| std::mem::replace(last, now.clone()) != now);
            tokio::select! {
                Ok(()) = first.changed() => {}
                Ok(()) = second.changed() => {}
                () = tell.closed() => return,
            }
        }
    });
    trouble
}

fn of(
    place: String,
    trial: Trial,
    (every, time_max): (Duration, Duration),
) -> watch::Receiver<Option<String>> {
    let (tell, trouble) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let mut tried = begin(trial.clone());
            let first = timeout(time_max, &mut tried).await;
            let is_late = first.is_err();
            let went = match first {
                Ok(went) => text_of(&place, went.unwrap_or(Ok(()))),
                Err(_) => Some(format!("{place} has not answered a write for {} s", time_max.as_secs())),
            };
            say(&tell, went);
            if is_late {
                // One trial at a time: a directory that hangs collects no threads.
                tokio::select! {
                    went = tried => say(&tell, text_of(&place, went.unwrap_or(Ok(())))),
                    () = tell.closed() => return,
                }
            }
            tokio::select! {
                () = sleep(every) => {}
                () = tell.closed() => return,
            }
        }
    });
    trouble
}

/// On a thread that nobody waits for when the process ends.
fn begin(trial: Trial) -> oneshot::Receiver<Result<(), StoreError>> {
    let (tell, went) = oneshot::channel();
    let begun = std::thread::Builder::new().name("trial".into()).spawn(move || {
        // Nobody listens any more: the node has left.
        let _ = tell.send(trial());
    });
    // Without a thread, nothing is known: the channel is closed.
    drop(begun);
    went
}

fn text_of(place: &str, went: Result<(), StoreError>) -> Option<String> {
    let cause = match went {
        Ok(()) => return None,
        Err(StoreError::Io { cause, .. }) => cause,
        Err(error) => error.to_string(),
    };
    Some(format!("{place} cannot be written: {cause}; make room in its file system, or repair it"))
}

/// In the log, too: a standby has no events.
fn say(tell: &watch::Sender<Option<String>>, trouble: Option<String>) {
    let is_new = tell.send_if_modified(|last| std::mem::replace(last, trouble.clone()) != trouble);
    match trouble {
        Some(text) if is_new => tracing::warn!("this node could not take over: {text}"),
        None if is_new => tracing::info!("this node can take over again: its data directory is written"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(30);

    async fn next(trouble: &mut watch::Receiver<Option<String>>) -> Option<String> {
        timeout(LONG, trouble.changed()).await.expect("in time").expect("it goes on");
        trouble.borrow_and_update().clone()
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_is_a_trouble_until_it_can() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        // In place of a full file system: the trial's file cannot be made.
        let blocked = store.dir().join("array.trial.new");
        std::fs::create_dir(&blocked).expect("made");
        let (place, tried) = (store.dir().display().to_string(), store.clone());
        let mut trouble = of(place.clone(), Arc::new(move || tried.try_write()), (SHORT, LONG));
        let text = next(&mut trouble).await.expect("a trouble");
        assert!(text.starts_with(&place) && text.contains("make room"), "{text}");
        std::fs::remove_dir(&blocked).expect("removed");
        assert_eq!(next(&mut trouble).await, None);
        drop(trouble);
        assert!(store.try_write().is_ok());
    }

    #[tokio::test]
    async fn a_directory_that_hangs_is_a_trouble_and_collects_no_trials() {
        let (goes_on, waits) = mpsc::channel::<()>();
        let (waits, begun) = (Mutex::new(waits), Arc::new(Mutex::new(0)));
        let trials = || *begun.lock().expect("not poisoned");
        let count = begun.clone();
        let trial = move || {
            *count.lock().expect("not poisoned") += 1;
            let _ = waits.lock().expect("not poisoned").recv();
            Ok(())
        };
        let mut trouble = of("here".into(), Arc::new(trial), (SHORT, SHORT));
        assert!(next(&mut trouble).await.is_some_and(|text| text.contains("has not answered")));
        // Its thread may begin later than it is waited for.
        while trials() == 0 {
            sleep(SHORT).await;
        }
        sleep(SHORT * 20).await;
        assert_eq!(trials(), 1, "one at a time");
        goes_on.send(()).expect("it waits");
        assert_eq!(next(&mut trouble).await, None);
    }

    /// A real full file system, where this process may mount one.
    #[tokio::test]
    async fn a_full_file_system_is_a_trouble_and_names_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let Some(_mounted) = tiny_tmpfs(dir.path()) else { return };
        let store = Store::open(dir.path()).expect("a store");
        assert!(store.try_write().is_ok());
        let room = std::fs::write(dir.path().join("much"), vec![1; 2 << 20]);
        assert!(room.is_err(), "it is full");
        let mut trouble = of_directory(store.clone());
        let text = next(&mut trouble).await.expect("a trouble");
        let place = format!("its data directory {} cannot be written", store.dir().display());
        assert!(text.starts_with(&place) && text.contains("No space left"), "{text}");
        std::fs::remove_file(dir.path().join("much")).expect("removed");
        assert!(store.try_write().is_ok());
    }

    struct Mounted(std::path::PathBuf);

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
        }
    }

    fn tiny_tmpfs(at: &std::path::Path) -> Option<Mounted> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "masu-test"]).arg(at);
        let is_mounted = mount.output().is_ok_and(|done| done.status.success());
        if !is_mounted {
            eprintln!("SKIPPED: this user cannot mount a tmpfs");
        }
        is_mounted.then(|| Mounted(at.into()))
    }
}
