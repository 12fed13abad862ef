//! The controller threads: started and joined together; an unexpected end is detected.

use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use array::{ControllerHandle, EventSender, Mailbox, MoveSender, TraceSender};
use tokio::sync::mpsc;
use world_real::RunError;

use admin::random;

/// Running controllers.
pub(super) struct Controllers {
    pub(super) handles: Vec<ControllerHandle>,
    threads: Vec<JoinHandle<Result<(), RunError>>>,
    ended: mpsc::UnboundedReceiver<usize>,
}

/// Reports that a controller has ended, for any reason.
struct TellsEnd(usize, mpsc::UnboundedSender<usize>);

impl Drop for TellsEnd {
    fn drop(&mut self) {
        // Nobody listens any more: then nobody needs to know.
        let _ = self.1.send(self.0);
    }
}

impl Controllers {
    /// Starts `count` controllers. If one cannot start, the others are stopped.
    pub(super) fn start(
        count: usize,
        pin_first: Option<usize>,
        (events, traces, moves): (&EventSender, &TraceSender, &MoveSender),
    ) -> Result<Controllers> {
        let (tell, ended) = mpsc::unbounded_channel();
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let mut controllers = Controllers { handles: handles.clone(), threads: vec![], ended };
        for (index, mailbox) in mailboxes.into_iter().enumerate() {
            let mailbox = mailbox.telling(events.clone()).tracing(traces.clone()).moving(moves.clone());
            let end = TellsEnd(index, tell.clone());
            let cpu = pin_first.map(|first| first + index);
            match start(index, cpu, mailbox, handles.clone(), end) {
                Ok(thread) => controllers.threads.push(thread),
                // Nothing is open yet: the process's end is orderly.
                Err(error) => return Err(error).context(format!("cannot start controller {index}")),
            }
        }
        Ok(controllers)
    }

    /// Returns when a controller has ended.
    pub(super) async fn one_ended(&mut self) -> usize {
        match self.ended.recv().await {
            Some(index) => index,
            // The sender's last copy went with the last thread, and each told before.
            None => std::future::pending().await,
        }
    }

    /// Joins the threads; returns the error of the first that ended unexpectedly.
    pub(super) fn join(self) -> Result<()> {
        let mut outcome = Ok(());
        for (index, thread) in self.threads.into_iter().enumerate() {
            let ended = match thread.join() {
                Ok(ended) => ended.with_context(|| format!("controller {index}")),
                Err(_) => Err(anyhow!("controller {index} panicked; see the log above")),
            };
            outcome = outcome.and(ended);
        }
        outcome
    }
}

fn start(
    index: usize,
    cpu: Option<usize>,
    mailbox: Mailbox,
    all: Vec<ControllerHandle>,
    end: TellsEnd,
) -> Result<JoinHandle<Result<(), RunError>>> {
    // Secrets (CHAP challenges, copy tokens) come from the world's random streams: the seed must not be
    // guessed.
    let seed = u64::from_le_bytes(random()?);
    let options = world_real::Options { cpu, seed, ..world_real::Options::default() };
    Ok(world_real::start(&format!("controller-{index}"), options, move |world| async move {
        let _end = end;
        array::run_controller(world, index, mailbox, all).await;
    })?)
}
