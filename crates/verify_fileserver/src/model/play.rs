//! One run: the array, the servers, their clients, from the first step to the last window.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use array::status::ControllerStatus;
use array::{Array, DriveSpec, Lun};
use scsi::OpClass;
use world::World;
use world_model::drives::Usage;
use world_model::{Disk, DiskSpec, Model};

use super::super::scenario::{Fileserver, Run};
use super::bed::{Bed, drives_of, session, volume};
use super::client::{Load, Machine, Mix};
use super::course::{ArrayWindow, Commands, Course, HostWindow, LuWindow, ServerWindow, Which};
use super::fabric::Fabric;
use super::layout::Layout;
use super::lu::Lu;
use super::path::{DiskTally, GuestDisk};
use super::server::{Server, ServerTally};
use lab_core::console::causes;
use lab_core::interrupt::Stop;
use lab_tools::files::Plan;
use lab_tools::testbed::notice_attentions;

/// Everything that runs.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) fabric: Rc<Fabric>,
    pub(super) servers: Vec<Rc<Server>>,
    pub(super) array: Array,
    drives: Vec<Vec<Disk>>,
    failure: Failure,
    /// When the clients began.
    pub(super) began_ns: u64,
    /// Of a server, a controller, a host.
    cores: [f64; 3],
    /// Of a host, beside what its servers have.
    available_mb: f64,
}

/// How a bed is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// So many of its servers.
    pub(super) servers: u32,
    /// So many of these on each host.
    pub(super) per_host: u32,
    pub(super) os_cache: bool,
    pub(super) read_percent: u32,
    /// Whether files that are written replace those there; else they are new ones.
    pub(super) replaces: bool,
    pub(super) seed: u64,
}

impl Use {
    /// All servers on one host.
    pub(super) fn published(scenario: &Fileserver, servers: u32, os_cache: bool, seed: u64) -> Use {
        let read_percent = scenario.published.read_percent;
        Use { servers, per_host: servers, os_cache, read_percent, replaces: true, seed }
    }
}

/// Who waits for a run.
pub(super) struct Watcher<'a> {
    pub(super) stop: &'a Stop,
    /// Is told how many of how many seconds have passed.
    pub(super) tell: &'a dyn Fn(f64, f64),
}

/// The seeds of all runs are the same: what differs is what is compared.
pub(super) struct Set {
    pub(super) plan: Arc<Plan>,
    pub(super) layout: Arc<Layout>,
}

/// What failed first of all that runs.
#[derive(Clone, Default)]
struct Failure(Rc<RefCell<Option<String>>>);

impl Failure {
    fn spawn(&self, world: &World, task: impl Future<Output = Result<()>> + 'static) {
        let failure = self.clone();
        world.spawn(async move {
            if let Err(error) = task.await {
                failure.0.borrow_mut().get_or_insert(causes(&error));
            }
        });
    }
}

/// The clients of a server, each with a disk of its own.
fn start_clients(
    scenario: &Fileserver,
    (model, world, set): (&Model, &World, &Set),
    (number, server): (u32, &Rc<Server>),
    what: Use,
    failure: &Failure,
) -> Result<()> {
    let seed = what.seed ^ (u64::from(number + 1) << 32);
    let mix = Mix { read_percent: what.read_percent, replaces: what.replaces, seed };
    let both = (set.plan.clone(), set.layout.clone());
    let load = Rc::new(Load::new(scenario, server.clone(), both, mix));
    let spec = DiskSpec::drive(&lab_tools::drives::load(&scenario.client.drive)?)?.without_content();
    let set_bytes = set.layout.free_at;
    ensure!(
        set_bytes <= spec.len_bytes,
        "client.drive: {:?} has {} MiB, and the files of a server have {} MiB: name a larger drive",
        scenario.client.drive,
        spec.len_bytes >> 20,
        set_bytes >> 20
    );
    for client in 0..scenario.published.clients {
        let name = format!("c{number}-{client}");
        model.disk(&name, spec.clone());
        let drive = world.open_now(&DriveSpec::Modelled { name })?;
        let machine = Rc::new(Machine::new(scenario, drive));
        let (lazy, own) = (machine.clone(), world.clone());
        failure.spawn(world, async move { lazy.write_lazily(&own).await });
        for worker in 0..scenario.published.workers {
            let (load, machine, own) = (load.clone(), machine.clone(), world.clone());
            let rng = world.random(&format!("worker {number} {client} {worker}"));
            failure.spawn(world, async move { load.work(&own, &machine, rng).await });
        }
    }
    Ok(())
}

impl Stage {
    /// Starts array, servers and clients.
    pub(super) async fn start(
        scenario: &Fileserver,
        (model, world, bed): (&Model, &World, &Bed),
        set: &Set,
        what: Use,
    ) -> Result<Stage> {
        let started = bed.start(world).await?;
        let hosts = what.servers.div_ceil(what.per_host) as usize;
        let fabric = Rc::new(Fabric::new(scenario, world, hosts));
        let failure = Failure::default();
        let (mut servers, mut drives) = (Vec::new(), Vec::new());
        for number in 0..what.servers {
            let session = session(&started, &bed.shape, number)?;
            notice_attentions(&session, Lun(0)).await;
            let lu = Rc::new(Lu::new(&fabric, session, bed.shape.owner(number)));
            let host = (number / what.per_host) as usize;
            let disk = GuestDisk::new(&fabric, lu, bed.vdisk.clone(), host);
            let server = Rc::new(Server::new(scenario, (disk, &set.layout), what.os_cache));
            let lazy = server.clone();
            failure.spawn(world, async move { lazy.write_lazily().await });
            start_clients(scenario, (model, world, set), (number, &server), what, &failure)?;
            servers.push(server);
            let disk = |name: &String| model.disks().get(name).expect("the bed has it");
            drives.push(drives_of(scenario, number).iter().map(disk).collect());
        }
        Ok(Stage {
            world: world.clone(),
            fabric,
            servers,
            array: started.array,
            drives,
            failure,
            began_ns: world.now().0,
            cores: [scenario.server.cores, scenario.controller.cores, scenario.host.cores].map(f64::from),
            available_mb: (scenario.host.memory.0 as f64
                - scenario.server.memory.0 as f64 * f64::from(what.per_host))
                / 1e6,
        })
    }

    /// Starts something beside what runs; what fails of it ends the run.
    pub(super) fn spawn(&self, task: impl Future<Output = Result<()>> + 'static) {
        self.failure.spawn(&self.world, task);
    }

    /// What failed first, if anything did.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.failure.0.borrow() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    /// From the beginning of the clients to a moment.
    pub(super) fn seconds(&self, at_ns: u64) -> f64 {
        (at_ns - self.began_ns) as f64 / 1e9
    }

    pub(super) fn near(&self) -> Near {
        Near::of(&self.fabric, &self.servers)
    }

    async fn far(&self) -> Result<Far> {
        let status = self.array.status().await?;
        let at_ns = self.world.now().0;
        let controllers = self.fabric.controllers.iter();
        let usage = |disks: &Vec<Disk>| disks.iter().map(|d| d.usage().unwrap_or_default()).collect();
        Ok(Far {
            at_ns,
            lus: (0..self.servers.len()).map(|n| LuNow::of(&status, n as u32)).collect(),
            controllers_ns: controllers.map(|c| c.cores.borrow().busy_ns(at_ns)).collect(),
            pending: pending(&status),
            drives: self.drives.iter().map(usage).collect(),
        })
    }
}

/// What servers and host counted up to a moment.
pub(super) struct Near {
    pub(super) at_ns: u64,
    pub(super) servers: Vec<ServerNow>,
    host_ns: u64,
    root_ns: u64,
}

impl Near {
    pub(super) fn of(fabric: &Fabric, servers: &[Rc<Server>]) -> Near {
        let now = fabric.world.now().0;
        let server = |server: &Rc<Server>| ServerNow {
            tally: server.tally.get(),
            disk: server.disk.tally(),
            cpu_ns: server.cpu.borrow().busy_ns(now),
            available_bytes: server.available_bytes(),
        };
        Near {
            at_ns: now,
            servers: servers.iter().map(server).collect(),
            host_ns: fabric.hosts.iter().map(|host| host.processors.borrow().busy_ns(now)).sum(),
            root_ns: fabric.hosts.iter().map(|host| host.root_ns.get()).sum(),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct ServerNow {
    pub(super) tally: ServerTally,
    pub(super) disk: DiskTally,
    cpu_ns: u64,
    available_bytes: u64,
}

/// What the array counted up to a moment.
struct Far {
    at_ns: u64,
    lus: Vec<LuNow>,
    controllers_ns: Vec<u64>,
    pending: f64,
    drives: Vec<Vec<Usage>>,
}

#[derive(Clone, Copy, Default)]
struct LuNow {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    cached_bytes: u64,
    cached_hit_bytes: u64,
}

impl LuNow {
    fn of(status: &[ControllerStatus], server: u32) -> LuNow {
        let name = volume(server);
        let lu = status.iter().flat_map(|c| &c.volumes).find(|v| v.name == name);
        let mut units = status.iter().flat_map(|c| c.cache.iter().flat_map(|cache| &cache.units));
        let unit = units.find(|unit| unit.volume == name);
        let Some(lu) = lu else { return LuNow::default() };
        LuNow {
            reads: lu.counters.commands[OpClass::Read as usize],
            writes: lu.counters.commands[OpClass::Write as usize],
            read_bytes: lu.counters.read_bytes,
            written_bytes: lu.counters.written_bytes,
            cached_bytes: unit.map_or(0, |u| u.counts.write_bytes),
            cached_hit_bytes: unit.map_or(0, |u| u.counts.write_hit_bytes),
        }
    }
}

fn pending(status: &[ControllerStatus]) -> f64 {
    let Some(cache) = status.first().and_then(|part| part.cache.as_ref()) else { return 0.0 };
    let frames = cache.counts.frames;
    f64::from(frames.dirty + frames.destaging + frames.rewritten) / f64::from(frames.capacity.max(1))
}

fn per_s(count: u64, ns: f64) -> f64 {
    count as f64 * 1e9 / ns
}

fn mean_ms(sum_ns: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum_ns as f64 / count as f64 / 1e6 }
}

fn server_window(from: &ServerNow, to: &ServerNow, ns: f64, cores: f64) -> ServerWindow {
    let (f, t) = (&from.tally, &to.tally);
    let mb = |to: u64, from: u64| per_s(to - from, ns) / 1e6;
    let bytes = |t: &ServerTally| t.read_bytes + t.written_bytes;
    ServerWindow {
        tool_mb_per_s: mb(bytes(t), bytes(f)),
        cpu_percent: 100.0 * (to.cpu_ns - from.cpu_ns) as f64 / ns / cores,
        available_mb: to.available_bytes as f64 / 1e6,
        queue: (to.disk.held_ns - from.disk.held_ns) as f64 / ns,
        queue_max: to.disk.most,
        read_ms: mean_ms(to.disk.read_ns - from.disk.read_ns, to.disk.reads - from.disk.reads),
        write_ms: mean_ms(to.disk.write_ns - from.disk.write_ns, to.disk.writes - from.disk.writes),
        received_mb_per_s: mb(t.received_bytes, f.received_bytes),
        sent_mb_per_s: mb(t.sent_bytes, f.sent_bytes),
    }
}

fn lu_window(from: &LuNow, to: &LuNow, ns: f64) -> LuWindow {
    let written = to.cached_bytes - from.cached_bytes;
    LuWindow {
        read_iops: per_s(to.reads - from.reads, ns),
        write_iops: per_s(to.writes - from.writes, ns),
        read_mb_per_s: per_s(to.read_bytes - from.read_bytes, ns) / 1e6,
        write_mb_per_s: per_s(to.written_bytes - from.written_bytes, ns) / 1e6,
        write_hit_percent: (written > 0)
            .then(|| 100.0 * (to.cached_hit_bytes - from.cached_hit_bytes) as f64 / written as f64),
    }
}

impl Stage {
    fn array_window(&self, from: &Far, to: &Far) -> ArrayWindow {
        let ns = (to.at_ns - from.at_ns) as f64;
        let controllers = to.controllers_ns.iter().zip(&from.controllers_ns);
        let controller_percent =
            controllers.map(|(t, f)| 100.0 * (t - f) as f64 / ns / self.cores[1]).collect();
        let both = || to.drives.iter().zip(&from.drives);
        // A drive counts a request when it begins: the last one of a window may end in the next.
        let busy = |(t, f): (&Usage, &Usage)| ((t.busy_ns - f.busy_ns) as f64 / ns).min(1.0);
        let held = |(t, f): (&Usage, &Usage)| (t.held_ns - f.held_ns) as f64 / ns;
        let sum = |t: &Vec<Usage>, f: &Vec<Usage>, of: &dyn Fn((&Usage, &Usage)) -> f64| {
            t.iter().zip(f).map(of).sum::<f64>()
        };
        ArrayWindow {
            at_s: self.seconds(to.at_ns),
            lus: to.lus.iter().zip(&from.lus).map(|(t, f)| lu_window(f, t, ns)).collect(),
            controller_percent,
            pending_percent: 100.0 * to.pending,
            drive_percent: both().map(|(t, f)| 100.0 * sum(t, f, &busy) / t.len() as f64).collect(),
            group_queue: both().map(|(t, f)| sum(t, f, &held)).collect(),
        }
    }

    fn host_window(&self, from: &Near, to: &Near) -> HostWindow {
        let ns = (to.at_ns - from.at_ns) as f64;
        let cores = self.cores[2] * self.fabric.hosts.len() as f64;
        let percent = |to: u64, from: u64| 100.0 * (to - from) as f64 / ns / cores;
        let both = to.servers.iter().zip(&from.servers);
        HostWindow {
            at_s: self.seconds(to.at_ns),
            servers: both.map(|(t, f)| server_window(f, t, ns, self.cores[0])).collect(),
            logical_percent: percent(to.host_ns, from.host_ns),
            root_percent: percent(to.root_ns, from.root_ns),
            available_mb: self.available_mb,
        }
    }

    /// Counts until the end, or until it is stopped: then returns the complete windows.
    async fn course(&self, run: &Run, (which, seed): (Which, u64), watcher: &Watcher<'_>) -> Result<Course> {
        self.world.sleep(run.from.0).await;
        let (mut near, mut far) = (self.near(), self.far().await?);
        let first = self.near();
        let (mut hosts, mut arrays) = (Vec::new(), Vec::new());
        let per_array = (run.array_every.0.as_nanos() / run.server_every.0.as_nanos()) as usize;
        let count = u128::from(run.seconds) * 1_000_000_000 / run.server_every.0.as_nanos();
        for number in 1..=count as usize {
            self.world.sleep(run.server_every.0).await;
            self.check()?;
            let next = self.near();
            hosts.push(self.host_window(&near, &next));
            near = next;
            if number % per_array == 0 {
                let next = self.far().await?;
                arrays.push(self.array_window(&far, &next));
                far = next;
                (watcher.tell)(run.server_every.0.as_secs_f64() * number as f64, run.seconds.into());
                if watcher.stop.is_asked() {
                    break;
                }
            }
        }
        // What is left over at the end is in no window of the array.
        hosts.truncate(arrays.len() * per_array);
        let files = |near: &Near| near.servers.iter().map(|s| s.tally.files).collect::<Vec<u64>>();
        let files = files(&near).iter().zip(files(&first)).map(|(to, from)| to - from).collect();
        let grown = near.servers.iter().map(|s| s.disk.grown).collect();
        let commands = commands(&first, &near);
        Ok(Course { which, seed, hosts, arrays, files, grown_blocks: grown, commands })
    }
}

fn commands(from: &Near, to: &Near) -> Commands {
    let all = |of: fn(&DiskTally) -> u64| {
        let sum = |near: &Near| near.servers.iter().map(|s| of(&s.disk)).sum::<u64>();
        sum(to) - sum(from)
    };
    Commands { payload: all(|d| d.commands), crooked: all(|d| d.crooked), besides: all(|d| d.besides) }
}

pub(super) fn run(
    scenario: &Fileserver,
    (bed, set): (&Bed, &Set),
    (which, run): (Which, &Run),
    what: Use,
    watcher: &Watcher<'_>,
) -> Result<Course> {
    let model = bed.model(what.seed);
    model
        .run(async |world| {
            let stage = Stage::start(scenario, (&model, &world, bed), set, what).await?;
            stage.course(run, (which, what.seed), watcher).await
        })
        .with_context(|| which.name())
}
