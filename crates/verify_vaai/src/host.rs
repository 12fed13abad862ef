//! The host of the bulk tests: one session, the datastores of its LUs, and its meters.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use iscsi::initiator::{Options, Session};
use scsi::Lun;
use world::World;

use super::record::Tick;
use lab_core::interrupt::Stop;
use lab_tools::datastore::{self, Datastore, HostId, Layout, Locking, Locks, Patience, Ways};
use lab_tools::hosts::{Capabilities, Connection, Disk, HostThread, Reading, Spent};

/// Time between two ticks of a course.
const TICK: Duration = Duration::from_millis(100);
/// In the model, where operations take a hundred times as long.
const TICK_MODELLED: Duration = Duration::from_secs(2);

/// A host with its datastores; the jobs of its thread share it.
pub(crate) struct Host {
    pub(crate) world: World,
    connection: Connection,
    pub(crate) stores: Vec<Datastore>,
    /// What the array calls itself.
    pub(crate) product: String,
}

/// What is needed to open it.
#[derive(Clone)]
pub(crate) struct HostPlan {
    pub(crate) luns: Vec<Lun>,
    pub(crate) ways: Ways,
    pub(crate) patience: Patience,
    pub(crate) stop: Stop,
    /// Of the host: the owner of its locks.
    pub(crate) number: u32,
}

/// Whether the LUs of a host have datastores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datastores {
    /// They get new ones.
    New,
    /// They were made before.
    Made,
}

impl Host {
    /// A host on a thread of its own; its LUs get new datastores.
    pub(crate) fn start(login: Options, plan: HostPlan, seed: u64) -> Result<HostThread<Host>> {
        HostThread::start("host-0", seed, move |world| async move {
            let session =
                Session::login(&world, &login).await.with_context(|| format!("{}", login.address))?;
            Host::open(world, session.into(), plan, Datastores::New).await
        })
    }

    /// A host at this connection.
    pub(crate) async fn open(
        world: World,
        connection: Connection,
        plan: HostPlan,
        datastores: Datastores,
    ) -> Result<Host> {
        let (mut stores, mut product) = (Vec::new(), String::new());
        for lun in &plan.luns {
            let disk = Disk::open(world.clone(), connection.clone(), *lun)
                .await
                .with_context(|| format!("LUN {}", lun.0))?;
            product = disk.product().await?;
            let caps = disk.capabilities().await?;
            let layout =
                Layout::of(caps.len_bytes, caps.block_bytes).with_context(|| format!("LUN {}", lun.0))?;
            if datastores == Datastores::New {
                datastore::format(&disk, &layout)
                    .await
                    .with_context(|| format!("LUN {}: a new datastore", lun.0))?;
            }
            let caps = datastore::capabilities(&disk, &layout).await?;
            let rng = world.random(&format!("locks of host {} on LUN {}", plan.number, lun.0));
            let me = HostId(plan.number + 1);
            let locks = Locks::new(disk.clone(), layout, me, locking(&caps), plan.patience, rng);
            stores.push(Datastore::mount(disk, caps, locks, plan.ways, plan.stop.clone()).await?);
        }
        Ok(Host { world, connection, stores, product })
    }

    fn read_meters(&self) -> Reading {
        Reading { at: self.world.now(), cpu: self.connection.cpu(), tcp: self.connection.tcp_counts() }
    }

    /// Runs an operation and measures it: what it spent, and its course.
    pub(crate) async fn measure<T>(
        &self,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<(T, Spent, Vec<Tick>)> {
        let before = self.read_meters();
        let ended = Rc::new(Cell::new(false));
        let ticks = Rc::new(std::cell::RefCell::new(Vec::new()));
        self.world.spawn(tick_task(
            self.world.clone(),
            self.connection.clone(),
            before,
            ticks.clone(),
            ended.clone(),
        ));
        let outcome = operation.await;
        ended.set(true);
        let after = self.read_meters();
        let mut ticks = ticks.take();
        ticks.push(tick(&before, &after));
        Ok((outcome?, Spent::between(&before, &after), ticks))
    }
}

/// How a host without a choice locks: as the LU can.
fn locking(caps: &Capabilities) -> Locking {
    if caps.compare_and_write_blocks_max > 0 { Locking::CompareAndWrite } else { Locking::Reserve }
}

fn tick(before: &Reading, now: &Reading) -> Tick {
    let spent = Spent::between(before, now);
    Tick { at_s: spent.time_s, bytes: spent.bytes_in + spent.bytes_out, packets: spent.packets() }
}

async fn tick_task(
    world: World,
    connection: Connection,
    before: Reading,
    ticks: Rc<std::cell::RefCell<Vec<Tick>>>,
    ended: Rc<Cell<bool>>,
) {
    let tick_time = match connection {
        Connection::Session(_) => TICK,
        Connection::Modelled(_) => TICK_MODELLED,
    };
    loop {
        world.sleep(tick_time).await;
        if ended.get() {
            return;
        }
        let now = Reading { at: world.now(), cpu: Duration::ZERO, tcp: connection.tcp_counts() };
        ticks.borrow_mut().push(tick(&before, &now));
    }
}
