//! Locking: many VMs powered on at once by several hosts on one datastore, and whether every lock had one
//! owner.

mod daily;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use block::Pieces;
use futures::future::{Either, select, try_join_all};
use iscsi::initiator::{Options, Session};
use scsi::{Lun, OpClass};
use world::{Rng, World};

use super::bed::Bed;
use super::record::{PoweredOn, Record};
use super::scenario::{PowerOn, Vaai};
use lab_core::interrupt::Stop;
use lab_tools::datastore::{
    self, CLUSTERS, Content, Datastore, EXTENT_BYTES, FILES_MAX, File, HOSTS_MAX, HostId, Layout, LockCounts,
    LockRecord, Locking, Locks, Owner, Patience, StoreError, Ways,
};
use lab_tools::hosts::{Capabilities, Connection, Disk, HostThread, Reading, Spent, sum};
use lab_tools::testbed::embedded::ArrayReading;

pub(crate) use daily::{Bystander, Lived, Operation};

/// How the VMs are powered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// All hosts, the LU reserved for each change of a lock.
    Reserve,
    /// All hosts, COMPARE AND WRITE.
    Compare,
    /// One host, COMPARE AND WRITE: nobody to wait for.
    Alone,
}

impl Crowd {
    pub(crate) const ALL: [Crowd; 3] = [Crowd::Reserve, Crowd::Compare, Crowd::Alone];

    /// As it is called in samples.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Crowd::Reserve => "reserve",
            Crowd::Compare => "compare",
            Crowd::Alone => "alone",
        }
    }
}

/// The first slot of VMs: before it the disks of the bulk tests.
const FIRST_SLOT: u32 = 2;
/// Reads and writes of a booting guest.
const BOOT_READ_BYTES: u64 = 16 << 10;
const BOOT_WRITE_BYTES: u64 = 4 << 10;

/// What the jobs of the hosts' thread share.
pub(crate) struct Cluster {
    world: World,
    connections: Vec<Connection>,
    disks: Vec<Disk>,
    caps: Capabilities,
    layout: Layout,
    stop: Stop,
    ways: Ways,
    patience: Patience,
    power_on: PowerOn,
    vms_per_host: usize,
    vms: RefCell<Vec<File>>,
    /// The allocation clusters as they are before each run.
    fresh_clusters: RefCell<Vec<Pieces>>,
}

/// What is needed to open it.
pub(crate) struct ClusterPlan {
    pub(crate) lun: Lun,
    pub(crate) ways: Ways,
    pub(crate) patience: Patience,
    pub(crate) stop: Stop,
    pub(crate) vaai: Vaai,
}

/// What one run gave.
pub(crate) struct Outcome {
    times: Vec<(usize, usize, f64)>,
    spent: Spent,
    counts: LockCounts,
    violations: Vec<String>,
}

/// One host while VMs power on.
struct Side {
    store: Datastore,
    me: HostId,
    /// Extents that its VMs took.
    taken: RefCell<Vec<u64>>,
    rng: RefCell<Rng>,
}

impl Cluster {
    /// Hosts on a thread of their own, with their sessions.
    pub(crate) fn start(logins: Vec<Options>, plan: ClusterPlan, seed: u64) -> Result<HostThread<Cluster>> {
        HostThread::start("hosts", seed, move |world| async move {
            let mut connections = Vec::new();
            for login in &logins {
                let session =
                    Session::login(&world, login).await.with_context(|| format!("{}", login.address))?;
                connections.push(session.into());
            }
            Cluster::open(world, connections, plan).await
        })
    }

    /// Hosts at these connections.
    pub(crate) async fn open(
        world: World,
        connections: Vec<Connection>,
        plan: ClusterPlan,
    ) -> Result<Cluster> {
        let mut disks = Vec::new();
        for connection in &connections {
            disks.push(Disk::open(world.clone(), connection.clone(), plan.lun).await?);
        }
        let caps = disks[0].capabilities().await?;
        let layout = Layout::of(caps.len_bytes, caps.block_bytes)?;
        let caps = datastore::capabilities(&disks[0], &layout).await?;
        let vms = connections.len() * plan.vaai.published.vms_per_host;
        let locks = CLUSTERS as usize + vms * plan.vaai.power_on.file_locks;
        ensure!(connections.len() <= HOSTS_MAX as usize, "a datastore takes {HOSTS_MAX} hosts");
        ensure!(
            locks <= layout.locks() as usize,
            "{vms} VMs need {locks} locks, the datastore has {}",
            layout.locks()
        );
        ensure!(
            vms + FIRST_SLOT as usize <= FILES_MAX as usize,
            "{vms} VMs are more than the datastore's {FILES_MAX} files"
        );
        Ok(Cluster {
            world,
            connections,
            disks,
            caps,
            layout,
            stop: plan.stop,
            ways: plan.ways,
            patience: plan.patience,
            power_on: plan.vaai.power_on,
            vms_per_host: plan.vaai.published.vms_per_host,
            vms: RefCell::default(),
            fresh_clusters: RefCell::default(),
        })
    }

    async fn mount(&self, host: usize, method: Locking) -> Result<Datastore, StoreError> {
        let rng = self.world.random(&format!("locks of host {host}"));
        let disk = self.disks[host].clone();
        let locks =
            Locks::new(disk.clone(), self.layout, HostId(host as u32 + 1), method, self.patience, rng);
        Datastore::mount(disk, self.caps.clone(), locks, self.ways, self.stop.clone()).await
    }

    /// Makes the VMs: thin disks, of which the first MiB is there.
    pub(crate) async fn prepare(&self, vm_len_bytes: u64, content: impl Fn(usize) -> Content) -> Result<()> {
        let method = if self.caps.compare_and_write_blocks_max > 0 {
            Locking::CompareAndWrite
        } else {
            Locking::Reserve
        };
        let store = self.mount(0, method).await?;
        for vm in 0..self.disks.len() * self.vms_per_host {
            let file = store
                .create_file(FIRST_SLOT + vm as u32, &format!("vm-{vm}.vmdk"), vm_len_bytes, EXTENT_BYTES)
                .await?;
            store.fill(&file, content(vm)).await?;
            self.vms.borrow_mut().push(file);
        }
        let mut clusters = Vec::new();
        for cluster in 0..CLUSTERS {
            clusters.push(self.disks[0].read(self.layout.cluster_at(cluster), 4096).await?);
        }
        *self.fresh_clusters.borrow_mut() = clusters;
        Ok(())
    }

    /// All locks free and new, all clusters as they were.
    pub(crate) async fn reset(&self) -> Result<()> {
        let last_lock =
            self.file_lock(self.disks.len() * self.vms_per_host - 1, self.power_on.file_locks.max(1) - 1);
        let (first, last) = (
            self.layout.heartbeat_at(0),
            self.layout.lock_at(last_lock) + u64::from(self.layout.block_bytes),
        );
        let zeros = world::Buf::zeroed(1 << 20).freeze();
        let mut at = first;
        while at < last {
            let len = (1 << 20).min(last - at);
            self.disks[0].write(at, zeros.slice(..len as usize).into()).await?;
            at += len;
        }
        let fresh = self.fresh_clusters.borrow().clone();
        for (cluster, block) in fresh.into_iter().enumerate() {
            self.disks[0].write(self.layout.cluster_at(cluster as u32), block).await?;
        }
        Ok(())
    }

    /// Sessions share the clock of their thread; each modelled host has a processor of its own.
    fn cpu(&self) -> Duration {
        let is_modelled = |connection: &&Connection| matches!(connection, Connection::Modelled(_));
        match self.connections.iter().filter(is_modelled).count() {
            0 => self.connections.first().map_or(Duration::ZERO, Connection::cpu),
            _ => self.connections.iter().map(Connection::cpu).sum(),
        }
    }

    fn read_meters(&self) -> Reading {
        Reading {
            at: self.world.now(),
            cpu: self.cpu(),
            tcp: sum(self.connections.iter().map(Connection::tcp_counts)),
        }
    }

    /// Powers all VMs on at once, and checks that no lock had two owners.
    pub(crate) async fn power_on(&self, crowd: Crowd) -> Result<Outcome> {
        let (hosts, method) = match crowd {
            Crowd::Reserve => (self.disks.len(), Locking::Reserve),
            Crowd::Compare => (self.disks.len(), Locking::CompareAndWrite),
            Crowd::Alone => (1, Locking::CompareAndWrite),
        };
        let mut sides = Vec::new();
        for host in 0..hosts {
            let store = self.mount(host, method).await?;
            let rng = self.world.random(&format!("VMs of host {host}"));
            sides.push(Side {
                store,
                me: HostId(host as u32 + 1),
                taken: RefCell::default(),
                rng: RefCell::new(rng),
            });
        }
        let before = self.read_meters();
        let times =
            try_join_all(sides.iter().enumerate().map(|(host, side)| self.power_on_host(host, side))).await?;
        let spent = Spent::between(&before, &self.read_meters());
        let violations = self.audit(&sides).await?;
        let counts = sides.iter().map(|s| s.store.locks().counts()).fold(LockCounts::default(), add);
        let times = times
            .into_iter()
            .enumerate()
            .flat_map(|(host, t)| t.into_iter().enumerate().map(move |(vm, s)| (host, vm, s)));
        Ok(Outcome { times: times.collect(), spent, counts, violations })
    }

    /// All VMs of one host at once, and its heartbeat meanwhile.
    async fn power_on_host(&self, host: usize, side: &Side) -> Result<Vec<f64>, StoreError> {
        let vms = try_join_all(
            (0..self.vms_per_host).map(|vm| self.power_on_vm(side, host * self.vms_per_host + vm)),
        );
        let beating = self.heartbeat_task(side);
        match select(Box::pin(vms), Box::pin(beating)).await {
            Either::Left((times, _)) => times,
            // The heartbeat only ends with an error.
            Either::Right((failed, _)) => failed.map(|()| Vec::new()),
        }
    }

    async fn heartbeat_task(&self, side: &Side) -> Result<(), StoreError> {
        let mut beat = LockRecord::FRESH;
        loop {
            self.world.sleep(self.power_on.heartbeat.0).await;
            beat = side.store.locks().renew_heartbeat(beat).await?;
        }
    }

    async fn power_on_vm(&self, side: &Side, vm: usize) -> Result<f64, StoreError> {
        let began = self.world.now();
        let file = self.vms.borrow()[vm].clone();
        let (own, shared) = (self.power_on.file_locks, self.power_on.shared_locks);
        let steps = own + shared;
        let (reads, writes) = (Cell::new(0), Cell::new(0));
        for step in 0..steps {
            if self.stop.is_asked() {
                return Err(StoreError::Stopped);
            }
            let jitter = 0.8 + 0.4 * side.rng.borrow_mut().f64();
            self.world.sleep(self.power_on.pause.0.mul_f64(jitter)).await;
            // The shared ones are spread over the others: after every so many of its own.
            let is_shared = (step + 1) * shared / steps > step * shared / steps;
            if is_shared {
                let first = side.rng.borrow_mut().u32(0..CLUSTERS);
                let places = side.store.allocate(first, 1).await?;
                side.taken.borrow_mut().extend(places);
            } else {
                let done = step - step * shared / steps;
                side.store.locks().acquire(self.file_lock(vm, done)).await?;
            }
            self.boot(side, &file, (step + 1, steps), (&reads, &writes)).await?;
        }
        Ok(self.world.now().since(began).as_secs_f64())
    }

    /// The lock of a VM's file.
    fn file_lock(&self, vm: usize, file: usize) -> u32 {
        CLUSTERS + (vm * self.power_on.file_locks + file) as u32
    }

    /// The guest's reads and writes up to this step of the power-on.
    async fn boot(
        &self,
        side: &Side,
        file: &File,
        (step, steps): (usize, usize),
        (reads, writes): (&Cell<usize>, &Cell<usize>),
    ) -> Result<(), StoreError> {
        let (at, len) = file.place(0).unwrap_or_default();
        let locks = side.store.locks();
        while reads.get() < self.power_on.boot_reads * step / steps {
            let offset = reads.get() as u64 * BOOT_READ_BYTES % len.max(BOOT_READ_BYTES);
            locks.read(at + offset, BOOT_READ_BYTES).await?;
            reads.set(reads.get() + 1);
        }
        while writes.get() < self.power_on.boot_writes * step / steps {
            let offset = writes.get() as u64 * BOOT_READ_BYTES % len.max(BOOT_READ_BYTES);
            let data = locks.read(at + offset, BOOT_WRITE_BYTES).await?;
            locks.write(at + offset, data).await?;
            writes.set(writes.get() + 1);
        }
        Ok(())
    }

    /// Whether every lock had one owner at a time: from what lies on the disk against what the hosts believe.
    async fn audit(&self, sides: &[Side]) -> Result<Vec<String>> {
        let mut violations = Vec::new();
        let locks = sides[0].store.locks();
        for (host, side) in sides.iter().enumerate() {
            for vm in host * self.vms_per_host..(host + 1) * self.vms_per_host {
                for file in 0..self.power_on.file_locks {
                    let lock = self.file_lock(vm, file);
                    let expected = LockRecord { owner: Owner::Host(side.me), generation: 1 };
                    let found = locks.look(self.layout.lock_at(lock)).await?;
                    if found != expected {
                        violations.push(format!("lock {lock} of VM {vm}: {found:?} instead of {expected:?}"));
                    }
                }
            }
        }
        let allocations: u64 = sides.iter().map(|s| s.taken.borrow().len() as u64).sum();
        let (mut changes, mut generations) = (0, 0);
        for cluster in 0..CLUSTERS {
            let record = locks.look(self.layout.lock_at(cluster)).await?;
            if record.owner != Owner::Free {
                violations.push(format!("the lock of cluster {cluster} was not released: {record:?}"));
            }
            generations += record.generation;
            changes += self.cluster_changes(cluster).await?;
        }
        // Each allocation locks, changes and releases; a change under two owners at once is lost.
        let counts = sides.iter().map(|s| s.store.locks().counts()).fold(LockCounts::default(), add);
        let own_locks = (sides.len() * self.vms_per_host * self.power_on.file_locks) as u64;
        if generations != counts.acquired - own_locks + counts.released {
            violations
                .push(format!("{generations} changes of cluster locks on disk, {counts:?} by the hosts"));
        }
        if changes != counts.released {
            violations
                .push(format!("{changes} changes of clusters on disk, {} by the hosts", counts.released));
        }
        let mut places: Vec<u64> = sides.iter().flat_map(|s| s.taken.borrow().clone()).collect();
        places.sort_unstable();
        places.dedup();
        if places.len() as u64 != allocations {
            violations.push(format!("{} extents were given to two VMs", allocations - places.len() as u64));
        }
        Ok(violations)
    }

    /// How often a cluster was changed since the reset.
    async fn cluster_changes(&self, cluster: u32) -> Result<u64> {
        let extents = self.layout.cluster_extents();
        let now = self.disks[0].read(self.layout.cluster_at(cluster), 4096).await?;
        let fresh = self.fresh_clusters.borrow()[cluster as usize].clone();
        let changes = |block: &Pieces| {
            lab_tools::datastore::Cluster::decode(&block.joined(), extents).map(|c| c.changes)
        };
        Ok(changes(&now)?.saturating_sub(changes(&fresh)?))
    }
}

fn add(a: LockCounts, b: LockCounts) -> LockCounts {
    LockCounts {
        acquired: a.acquired + b.acquired,
        released: a.released + b.released,
        misses: a.misses + b.misses,
        waits: a.waits + b.waits,
        conflicts: a.conflicts + b.conflicts,
    }
}

/// What stops the locking test on this array, if anything.
pub(crate) fn obstacle(hosts: &HostThread<Cluster>) -> Result<Option<String>> {
    hosts.run(|cluster| async move {
        let disk = &cluster.disks[0];
        if cluster.caps.compare_and_write_blocks_max == 0 {
            return Ok(Some("the array does not support COMPARE AND WRITE".into()));
        }
        Ok(match disk.reserve().await {
            Ok(()) => {
                disk.release().await?;
                None
            }
            Err(error) => Some(format!("the array takes no RESERVE(6): {error}")),
        })
    })
}

/// Makes the VMs.
pub(crate) fn prepare(hosts: &HostThread<Cluster>, vaai: &Vaai, seed: u64) -> Result<()> {
    let len = vaai.scaled(vaai.published.vm_disk, EXTENT_BYTES);
    let content = move |vm| Content::Pattern { key: seed ^ vm as u64, used_bytes: EXTENT_BYTES };
    hosts.run(move |cluster: Rc<Cluster>| async move { cluster.prepare(len, content).await })
}

/// One run; adds what it measured (repeat 0: nothing). Gives what was wrong with the locks.
pub(crate) fn run(
    bed: &Bed,
    hosts: &HostThread<Cluster>,
    crowd: Crowd,
    repeat: usize,
    record: &mut Record,
) -> Result<Vec<String>> {
    hosts.run(|cluster| async move { cluster.reset().await })?;
    let before = bed.read()?;
    let outcome = hosts.run(move |cluster: Rc<Cluster>| async move { cluster.power_on(crowd).await })?;
    let after = bed.read()?;
    match repeat {
        0 => Ok(outcome.violations),
        _ => Ok(note(outcome, (crowd, repeat), before.zip(after), record)),
    }
}

/// Adds what a power-on measured, with what the array says before and after it. Gives what was wrong with the
/// locks.
pub(crate) fn note(
    outcome: Outcome,
    (crowd, repeat): (Crowd, usize),
    array: Option<(ArrayReading, ArrayReading)>,
    record: &mut Record,
) -> Vec<String> {
    let mode = crowd.name();
    let times: Vec<f64> = outcome.times.iter().map(|(_, _, s)| *s).collect();
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let max = times.iter().copied().fold(0.0, f64::max);
    let counts = outcome.counts;
    for (metric, value) in [
        ("vm_time_mean_s", mean),
        ("vm_time_max_s", max),
        ("time_s", outcome.spent.time_s),
        ("host_cpu_s", outcome.spent.host_cpu_s),
        ("packets", outcome.spent.packets()),
        ("locks_acquired", counts.acquired as f64),
        ("lock_waits", counts.waits as f64),
        ("compare_misses", counts.misses as f64),
        ("reservation_conflicts", counts.conflicts as f64),
    ] {
        record.add("locking", mode, repeat, metric, value);
    }
    if let Some((before, after)) = array {
        record.add("locking", mode, repeat, "array_cpu_s", after.cpu_since(&before).as_secs_f64());
        let compared = after.counted_since(&before, |c| c.commands[OpClass::Compare as usize]);
        record.add("locking", mode, repeat, "compares_counted", compared as f64);
        record.add(
            "locking",
            mode,
            repeat,
            "misses_counted",
            after.counted_since(&before, |c| c.compare_misses) as f64,
        );
    }
    record.power_ons.extend(outcome.times.into_iter().map(|(host, vm, time_s)| PoweredOn {
        mode,
        repeat,
        host,
        vm,
        time_s,
    }));
    outcome.violations
}

/// Adds what the operations of a life measured. Gives what was wrong after them.
pub(crate) fn note_lived(
    (lived, beside): (Vec<Lived>, Bystander),
    crowd: Crowd,
    record: &mut Record,
) -> Vec<String> {
    let mode = crowd.name();
    for (metric, value) in [
        ("idle_response_s", beside.idle_s),
        ("response_s", beside.busy_s),
        ("slowest_s", beside.slowest_s),
        ("reservation_conflicts", beside.conflicts as f64),
    ] {
        record.add("bystander", mode, 1, metric, value);
    }
    let mut wrong = Vec::new();
    for Lived { operation, times_s, spent, counts, violations } in lived {
        let test = operation.name();
        let mean = times_s.iter().sum::<f64>() / times_s.len().max(1) as f64;
        for (metric, value) in [
            ("vm_time_mean_s", mean),
            ("vm_time_max_s", times_s.iter().copied().fold(0.0, f64::max)),
            ("time_s", spent.time_s),
            ("host_cpu_s", spent.host_cpu_s),
            ("packets", spent.packets()),
            ("locks_acquired", counts.acquired as f64),
            ("lock_waits", counts.waits as f64),
            ("compare_misses", counts.misses as f64),
            ("reservation_conflicts", counts.conflicts as f64),
            ("violations", violations.len() as f64),
        ] {
            record.add(test, mode, 1, metric, value);
        }
        wrong.extend(violations);
    }
    wrong
}
