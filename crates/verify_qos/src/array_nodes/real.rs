//! The nodes as real processes: `masu serve`, hosts over iSCSI, and drives that are files and take the time
//! of the modelled drive. A node is lost by `kill -9`, and the first one takes over by itself.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use array::config::{ArrayId, DriveConfig};
use array::{Config, DriveSpec};
use futures::channel::oneshot;
use iscsi::initiator::{Options, Session};
use lab_core::interrupt::{Abandoned, Stop};
use lab_tools::testbed::processes::Processes;
use lab_tools::testbed::timed_file::FileDrives;
use world::World;

use super::bed::{self, Promised, VMS};
use super::paths::{Paths, Way};
use super::play::{Course, Ground, Stage, vm};
use super::scenario::ArrayNodes;
use crate::bed::TARGET;
use crate::scenario::Qos;
use crate::vm::Route;

/// How often it is looked whether a node has taken over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Until a node has taken over, on a busy machine: docs/cluster.md has it in seconds.
const TAKE_OVER_TIME: Duration = Duration::from_secs(60);

/// Plays a run with so many processes of `program`, which is masu.
///
/// # Errors
/// [`Abandoned`] after a stop request; a process that does not start or ends; and when it cannot be played.
pub(crate) fn play(
    qos: &Qos,
    (shape, nodes): (&ArrayNodes, usize),
    program: &Path,
    (seed, stop): (u64, &Stop),
) -> Result<Course> {
    let model = &qos.published.drive;
    let len_bytes = FileDrives::alike(model)?.len_bytes();
    let declare = |dir: &Path| {
        let file = |name: String| {
            let path = dir.join(format!("{name}.img"));
            DriveConfig { spec: DriveSpec::File { path, create_len_bytes: Some(len_bytes) }, name }
        };
        // The array makes its identifier itself: a declared one is that of an array that exists.
        Config { id: ArrayId::default(), ..bed::declaration(qos, (shape, nodes), file) }
    };
    let (processes, config) = Processes::start((program, model), declare, stop)?;
    let processes = Arc::new(processes);
    let (qos, shape, stop) = (qos.clone(), shape.clone(), stop.clone());
    // The nodes need the processors: hosts may hear of an answer 20 us later.
    let options = world_real::Options { seed, watch: false, ..world_real::Options::default() };
    let running = processes.clone();
    let hosts = world_real::start("hosts", options, move |world| async move {
        let mut vms = Vec::new();
        for number in 0..nodes * VMS.len() {
            let way = log_in(&world, &running, number).await?;
            let paths = Rc::new(Paths::new(&world, number, way, shape.retry.0));
            vms.push(vm(&world, &shape, (number, Route::Paths(paths)))?);
        }
        let ground = Real { world: world.clone(), processes: running, config, stop };
        let mut stage = Stage { qos: &qos, shape: &shape, world, ground, vms, lost: None, node_can_do: 0.0 };
        stage.play((nodes, true)).await
    })?;
    hosts.join().map_err(|_| anyhow!("the hosts have panicked"))??
}

/// A session at its own node, and one at the first.
async fn log_in(world: &World, processes: &Processes, vm: usize) -> Result<Way> {
    let (_, node) = bed::place_of(vm);
    let initiator = bed::initiator(node);
    let log_in = async |at: usize| {
        let port = u32::from(bed::lun(vm).0) + 1;
        let options = Options::new(processes.portal(at), &initiator, TARGET, port);
        Session::login(world, &options).await.with_context(|| format!("{initiator} at node {}", at + 1))
    };
    let own = log_in(node).await?;
    let other = if node == 0 { own.clone() } else { log_in(0).await? };
    Ok(Way::Real { own, other })
}

/// What a play has of the processes.
struct Real {
    world: World,
    processes: Arc<Processes>,
    config: Config,
    stop: Stop,
}

impl Real {
    /// Has it done on a thread of its own: hosts go on meanwhile.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Processes) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.stop.is_asked() {
            return Err(Abandoned.into());
        }
        let (tell, told) = oneshot::channel();
        let processes = self.processes.clone();
        let named = std::thread::Builder::new().name("control".into());
        named.spawn(move || {
            // Nobody waits any more: the run has ended.
            let _ = tell.send(work(&processes));
        })?;
        let done = told.await.context("the control thread has panicked")?;
        // Ctrl-C reaches the nodes, too: what fails then is no error of the run.
        if self.stop.is_asked() { Err(Abandoned.into()) } else { done }
    }
}

impl Ground for Real {
    async fn promise(&mut self, promised: Promised) -> Result<()> {
        let config = bed::with_policies(&self.config, promised);
        self.aside(move |processes| processes.import(&config)).await
    }

    async fn lose(&mut self, node: usize) -> Result<()> {
        self.aside(move |processes| processes.kill(node)).await
    }

    async fn take_over(&mut self, node: usize) -> Result<()> {
        let until = self.world.now() + TAKE_OVER_TIME;
        while !self.aside(move |processes| Ok(processes.has_taken_over(node))).await? {
            self.aside(Processes::check).await?;
            let secs = TAKE_OVER_TIME.as_secs();
            ensure!(self.world.now() < until, "node {} is not taken over within {secs} s", node + 1);
            self.world.sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn below_minimum(&self) -> Result<Vec<String>> {
        self.aside(|processes| {
            processes.check()?;
            processes.below_minimum()
        })
        .await
    }
}
