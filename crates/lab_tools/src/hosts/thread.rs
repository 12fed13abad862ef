//! A thread of hosts: a world of its own, which takes jobs from the laboratory and gives their outcome back.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use futures::channel::oneshot;
use world::World;

type Local<T> = Pin<Box<dyn Future<Output = T>>>;
type Job<S> = Box<dyn FnOnce(Rc<S>) -> Local<()> + Send>;

/// A world on a thread, with something of type `S` that its jobs share (its sessions).
pub struct HostThread<S> {
    jobs: async_channel::Sender<Job<S>>,
    thread: Option<JoinHandle<Result<(), world_real::RunError>>>,
}

impl<S: 'static> HostThread<S> {
    /// Starts the thread and waits until `open` has made what the jobs share.
    pub fn start<F, Fut>(name: &str, seed: u64, open: F) -> Result<HostThread<S>>
    where
        F: FnOnce(World) -> Fut + Send + 'static,
        Fut: Future<Output = Result<S>>,
    {
        let (jobs, queue) = async_channel::bounded::<Job<S>>(16);
        let (opened, outcome) = oneshot::channel();
        let options = world_real::Options { seed, ..world_real::Options::default() };
        let thread = world_real::start(name, options, move |world| async move {
            match open(world).await {
                Ok(shared) => {
                    let _ = opened.send(Ok(()));
                    let shared = Rc::new(shared);
                    while let Ok(job) = queue.recv().await {
                        job(shared.clone()).await;
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        })
        .with_context(|| format!("{name} cannot start"))?;
        futures::executor::block_on(outcome).unwrap_or_else(|_| Err(anyhow!("{name} has ended at once")))?;
        Ok(HostThread { jobs, thread: Some(thread) })
    }

    /// Runs a job there and waits for its outcome.
    pub fn run<T, F, Fut>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Rc<S>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + 'static,
    {
        let (done, outcome) = oneshot::channel();
        let boxed: Job<S> = Box::new(move |shared| {
            Box::pin(async move {
                let _ = done.send(job(shared).await);
            })
        });
        self.jobs.send_blocking(boxed).map_err(|_| anyhow!("the thread of hosts has ended"))?;
        futures::executor::block_on(outcome).map_err(|_| anyhow!("the thread of hosts has panicked"))?
    }
}

impl<S> Drop for HostThread<S> {
    fn drop(&mut self) {
        self.jobs.close();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the job that it ended.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_on_the_thread_and_failures_come_back() {
        let thread = HostThread::start("hosts", 1, |world| async move { Ok(world) }).expect("starts");
        let seed = thread.run(|world| async move { Ok(world.seed()) }).expect("runs");
        assert_eq!(seed, 1);
        let refused: Result<()> = thread.run(|_| async move { Err(anyhow!("no")) });
        assert_eq!(refused.expect_err("refused").to_string(), "no");
        let failed = HostThread::<()>::start("hosts", 1, |_| async move { Err(anyhow!("nobody there")) });
        assert_eq!(failed.err().expect("not open").to_string(), "nobody there");
    }
}
