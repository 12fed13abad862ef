//! An array whose controller runs on a thread of this process, in real time, at a port that the system
//! chooses.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use array::config::PortalConfig;
use array::status::ControllerStatus;
use array::{Array, Config, ControllerHandle};
use futures::channel::oneshot;
use futures::executor::block_on;
use world::World;

/// The portal of such an array.
pub fn portal() -> PortalConfig {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    PortalConfig { listen, controller: 0, segment_bytes_max: None }
}

/// It, until it is dropped. `M` is what only the controller's thread can read.
pub(super) struct ArrayThread<M> {
    pub(super) array: Array,
    pub(super) handles: Vec<ControllerHandle>,
    pub(super) listen: SocketAddr,
    pub(super) meter: Meter<M>,
    thread: Option<JoinHandle<Result<(), world_real::RunError>>>,
}

/// Asks the controller's thread, from any other.
pub(super) struct Meter<M>(async_channel::Sender<oneshot::Sender<M>>);

impl<M> Clone for Meter<M> {
    fn clone(&self) -> Meter<M> {
        Meter(self.0.clone())
    }
}

impl<M> Meter<M> {
    pub(super) async fn read(&self) -> Result<M> {
        let (reply, read) = oneshot::channel();
        self.0.send(reply).await.map_err(|_| anyhow!("the array's controller has ended"))?;
        read.await.context("the array's controller has ended")
    }
}

impl<M: Send + 'static> ArrayThread<M> {
    /// Starts it and applies the declarations, one after the other. `world` gives the world of the
    /// controller, and what reads its meter.
    pub(super) fn start<R: FnMut() -> M + 'static>(
        declarations: &[Config],
        seed: u64,
        world: impl FnOnce(World) -> (World, R) + Send + 'static,
    ) -> Result<ArrayThread<M>> {
        let (handle, mailbox) = ControllerHandle::new(0);
        let handles = vec![handle];
        let (meter, asked) = async_channel::unbounded::<oneshot::Sender<M>>();
        let all = handles.clone();
        let options = world_real::Options { seed, ..world_real::Options::default() };
        let thread = world_real::start("controller-0", options, move |inner| {
            let (world, mut read) = world(inner);
            world.spawn(async move {
                while let Ok(reply) = asked.recv().await {
                    // Nobody waits for it any more: nothing is lost.
                    let _ = reply.send(read());
                }
            });
            array::run_controller(world, 0, mailbox, all)
        })
        .context("the array's controller cannot start")?;
        let target = declarations.first().map_or("", |config| &config.target);
        let mut running = ArrayThread {
            array: Array::new(handles.clone(), target),
            handles,
            listen: SocketAddr::from(([0; 4], 0)),
            meter: Meter(meter),
            thread: Some(thread),
        };
        for config in declarations {
            block_on(running.array.apply(config.clone())).context("the array under test")?;
        }
        let parts = running.status()?;
        let port = parts.iter().flat_map(|part| &part.ports).next();
        running.listen = port.ok_or_else(|| anyhow!("the array under test has no port"))?.listen;
        Ok(running)
    }

    pub(super) fn status(&self) -> Result<Vec<ControllerStatus>> {
        Ok(block_on(self.array.status())?)
    }
}

impl<M> Drop for ArrayThread<M> {
    fn drop(&mut self) {
        // Errors on the way out change nothing that was measured.
        let _ = block_on(self.array.stop());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
