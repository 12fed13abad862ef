//! A disk that is attached by a thread of its own, until it is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use futures::channel::oneshot;
use world::World;

use lab_core::interrupt::Held;
use lab_tools::attached::{Attached, Disk};

use super::system::held_mount;

/// How often the thread looks whether it is to end.
const POLL: Duration = Duration::from_millis(20);
/// Who has the file open still, when it is detached, has so long.
const IN_USE_MAX: Duration = Duration::from_secs(10);

pub(super) struct Attachment {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Result<()>, world_real::RunError>>>,
    _held: Held,
}

impl Attachment {
    /// Attaches what `open` opens, and waits until it is there.
    pub(super) fn start<F, Fut>(name: &str, point: &Path, seed: u64, open: F) -> Result<Attachment>
    where
        F: FnOnce(World) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Disk>>,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let (there, outcome) = oneshot::channel();
        let held = held_mount(point)?;
        let (asked, shown, point) = (stop.clone(), name.to_owned(), point.to_owned());
        let options = world_real::Options { seed, ..world_real::Options::default() };
        let thread = world_real::start(name, options, move |world| async move {
            let disk = open(world.clone()).await?;
            let served = serve(&world, &disk, (&shown, &point), there, &asked).await;
            let closed = disk.close().await;
            served.and(closed)
        })?;
        let mut attachment = Attachment { file: PathBuf::new(), stop, thread: Some(thread), _held: held };
        match futures::executor::block_on(outcome) {
            Ok(file) => attachment.file = file,
            // It has ended: what it says is why.
            Err(_) => {
                attachment.end().context(name.to_owned()).and(Err(anyhow!("{name} is not attached")))?
            }
        }
        Ok(attachment)
    }

    /// Where the disk is.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Detaches it; whether all of it is on the disk.
    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended.map_err(anyhow::Error::from).flatten(),
            Some(Err(_)) => Err(anyhow!("its thread has panicked")),
        }
    }
}

async fn serve(
    world: &World,
    disk: &Disk,
    (name, point): (&str, &Path),
    there: oneshot::Sender<PathBuf>,
    stop: &AtomicBool,
) -> Result<()> {
    let mut attached = Attached::new(world, disk, point, name, false)?;
    // Nobody waits for it any more: it is told to end soon.
    let _ = there.send(attached.file());
    let mut asked_at: Option<Instant> = None;
    while !attached.has_ended() {
        if asked_at.is_none() && stop.load(Ordering::Relaxed) {
            asked_at = Some(Instant::now());
            attached.detach()?;
        }
        if asked_at.is_some_and(|at| at.elapsed() > IN_USE_MAX) {
            return Err(anyhow!("{name}: {} is in use still", attached.file().display()));
        }
        world.sleep(POLL).await;
    }
    attached.join()
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            lab_core::console::note(&lab_core::console::causes(&error));
        }
    }
}
