//! The controller threads: started and joined; an unexpected end is detected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use array::{ControllerHandle, EventSender, Mailbox, MoveSender, Nodes, TraceSender};
use lab_tools::testbed::timed_file::FileDrives;
use tokio::sync::mpsc;
use world_real::RunError;

use admin::random;

/// Running controllers.
pub(super) struct Controllers {
    pub(super) handles: Vec<ControllerHandle>,
    threads: Arc<Threads>,
    ended: mpsc::UnboundedReceiver<usize>,
}

/// What controllers run on.
#[derive(Clone, Default)]
pub(super) struct Footing {
    /// The processor of the first one; the others follow.
    pub(super) pin_first: Option<usize>,
    /// Files take the time of this drive.
    pub(super) drives: Option<FileDrives>,
}

/// Where controllers tell things.
pub(super) struct Ends {
    pub(super) events: EventSender,
    pub(super) traces: Option<TraceSender>,
    pub(super) moves: MoveSender,
}

impl Ends {
    /// The mailbox of a controller that tells things there.
    pub(super) fn told_by(&self, mailbox: Mailbox) -> Mailbox {
        let mailbox = mailbox.telling(self.events.clone()).moving(self.moves.clone());
        match &self.traces {
            Some(traces) => mailbox.tracing(traces.clone()),
            None => mailbox,
        }
    }
}

/// The threads of controllers, of which each can end and begin anew.
pub(super) struct Threads {
    handles: Vec<ControllerHandle>,
    mailboxes: Vec<Mailbox>,
    footing: Footing,
    tell: mpsc::UnboundedSender<usize>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    threads: BTreeMap<usize, JoinHandle<Result<(), RunError>>>,
    /// Those that end on purpose.
    ending: BTreeSet<usize>,
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
    /// Starts `count` controllers, which know these nodes. If one cannot start, the others are stopped.
    /// `lasting`: other nodes may run some of them. Each has its own ends: the exporter ends with the last
    /// one.
    pub(super) fn start(
        (count, lasting): (usize, bool),
        footing: Footing,
        ends: Ends,
        nodes: Option<&Arc<Nodes>>,
    ) -> Result<Controllers> {
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let told = mailboxes.into_iter().map(|mailbox| ends.told_by(mailbox));
        let mailboxes = told.map(|mailbox| if lasting { mailbox.lasting() } else { mailbox }).collect();
        let of_owner = Controllers::of(handles, mailboxes, footing);
        (0..count).try_for_each(|index| of_owner.threads.start(index, nodes.cloned()))?;
        Ok(of_owner)
    }

    /// None of them runs yet.
    pub(super) fn of(
        handles: Vec<ControllerHandle>,
        mailboxes: Vec<Mailbox>,
        footing: Footing,
    ) -> Controllers {
        let (tell, ended) = mpsc::unbounded_channel();
        let (all, running) = (handles.clone(), Mutex::default());
        let threads = Arc::new(Threads { handles: all, mailboxes, footing, tell, running });
        Controllers { handles, threads, ended }
    }

    /// The threads, for who ends and starts some of them.
    pub(super) fn threads(&self) -> Arc<Threads> {
        self.threads.clone()
    }

    /// Returns when a controller has ended that was not to.
    pub(super) async fn one_ended(&mut self) -> usize {
        loop {
            match self.ended.recv().await {
                Some(index) if self.threads.running().ending.remove(&index) => {}
                Some(index) => return index,
                // The sender's last copy is here.
                None => std::future::pending().await,
            }
        }
    }

    /// Joins the threads; returns the error of the first that ended unexpectedly.
    pub(super) fn join(self) -> Result<()> {
        let threads = std::mem::take(&mut self.threads.running().threads);
        let mut outcome = Ok(());
        for (index, thread) in threads {
            outcome = outcome.and(joined(index, thread));
        }
        // Whoever still asks a controller hears that it has stopped.
        self.threads.mailboxes.iter().cloned().for_each(Mailbox::discard);
        outcome
    }
}

impl Threads {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a controller that does not run. In an array of several nodes it has to know them first: who it
    /// writes labels for.
    ///
    /// # Errors
    /// The system has no room for its thread.
    pub(super) fn start(&self, index: usize, nodes: Option<Arc<Nodes>>) -> Result<()> {
        let mailbox = self.mailboxes[index].clone();
        let mailbox = match nodes {
            Some(nodes) => mailbox.knowing(nodes),
            None => mailbox,
        };
        let end = TellsEnd(index, self.tell.clone());
        let thread = start(index, self.footing.clone(), mailbox, self.handles.clone(), end);
        // If nothing is open yet, the process's end is orderly.
        let thread = thread.with_context(|| format!("cannot start controller {index}"))?;
        self.running().threads.insert(index, thread);
        Ok(())
    }

    pub(super) fn runs(&self, index: usize) -> bool {
        self.running().threads.contains_key(&index)
    }

    /// Whether a controller may end now, while the array goes on.
    pub(super) fn may_end(&self, index: usize, may: bool) {
        let ending = &mut self.running().ending;
        if may {
            ending.insert(index)
        } else {
            ending.remove(&index)
        };
    }

    /// Waits for the end of a controller that was told to stop.
    ///
    /// # Errors
    /// It ended by a fault.
    pub(super) async fn ended(&self, index: usize) -> Result<()> {
        let thread = self.running().threads.remove(&index);
        let Some(thread) = thread else { return Ok(()) };
        tokio::task::spawn_blocking(move || joined(index, thread)).await?
    }

    pub(super) fn handles(&self) -> &[ControllerHandle] {
        &self.handles
    }

    /// What is sent to a controller, whoever runs it.
    pub(super) fn mailbox(&self, index: usize) -> &Mailbox {
        &self.mailboxes[index]
    }
}

fn joined(index: usize, thread: JoinHandle<Result<(), RunError>>) -> Result<()> {
    match thread.join() {
        Ok(ended) => ended.with_context(|| format!("controller {index}")),
        Err(_) => Err(anyhow!("controller {index} panicked; see the log above")),
    }
}

fn start(
    index: usize,
    Footing { pin_first, drives }: Footing,
    mailbox: Mailbox,
    all: Vec<ControllerHandle>,
    end: TellsEnd,
) -> Result<JoinHandle<Result<(), RunError>>> {
    // Secrets (CHAP challenges, copy tokens) come from the world's random streams: the seed must not be
    // guessed.
    let seed = u64::from_le_bytes(random()?);
    let cpu = pin_first.map(|first| first + index);
    let options = world_real::Options { cpu, seed, ..world_real::Options::default() };
    Ok(world_real::start(&format!("controller-{index}"), options, move |world| async move {
        let _end = end;
        let world = match drives {
            Some(drives) => drives.world(world),
            None => world,
        };
        array::run_controller(world, index, mailbox, all).await;
    })?)
}
