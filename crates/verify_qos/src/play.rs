//! One experiment in one form: phases one after the other, and everything that was seen.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ::qos::Policy;
use anyhow::Result;
use array::Array;
use lab_core::interrupt::{Abandoned, Stop};
use world::World;
use world_model::Disk;

use super::bed::{self, Bed};
use super::hosts::{Hosts, SharingLook};
use super::phases::{Experiment, Form, NodeFaults, StoreState};
use super::scenario::Qos;
use super::vm::{Done, Route, Vm};
use lab_tools::load::access::Walk;
use lab_tools::load::{Access, Mix};
use lab_tools::testbed::Started;

/// How often schedulers and hosts are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A phase as it was.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) name: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) policies: Vec<Policy>,
    /// Which VMs did nothing.
    pub(super) still: Vec<bool>,
    /// What was wrong with the hosts, and with their store.
    pub(super) nodes: NodeFaults,
    pub(super) store: StoreState,
}

impl Played {
    /// Whether hosts or their store were not as they should be.
    pub(super) fn has_fault(&self) -> bool {
        self.nodes != NodeFaults::default() || self.store == StoreState::Away
    }
}

/// A look at the schedulers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) at_ns: u64,
    /// Requests below all schedulers at most.
    pub(super) depth: u32,
    /// What work in the background has done to drives so far.
    pub(super) background_bytes: u64,
    /// Of 1000: what of the minimums could be given.
    pub(super) scale_permille: u32,
    /// Where hosts agree on shares.
    pub(super) sharing: Option<SharingLook>,
}

/// A minimum that is missed, or met again.
#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) at_ns: u64,
    pub(super) vm: usize,
    pub(super) is_below: bool,
}

/// What was seen in one run.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) form: Form,
    pub(super) world: &'static str,
    pub(super) phases: Vec<Played>,
    /// What each VM does.
    pub(super) loads: Vec<Load>,
    /// Of each VM, in the order of time.
    pub(super) done: Vec<Vec<Done>>,
    pub(super) looks: Vec<Look>,
    pub(super) news: Vec<News>,
}

impl Course {
    /// Counts its times from here on.
    fn begin_at(&mut self, origin_ns: u64) {
        let times = self.phases.iter_mut().flat_map(|phase| [&mut phase.from_ns, &mut phase.to_ns]);
        let done = self.done.iter_mut().flatten().map(|done| &mut done.at_ns);
        let looks = self.looks.iter_mut().map(|look| &mut look.at_ns);
        let news = self.news.iter_mut().map(|news| &mut news.at_ns);
        times.chain(done).chain(looks).chain(news).for_each(|at_ns| *at_ns -= origin_ns);
    }
}

/// What a VM does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) access: Access,
    pub(super) outstanding: u16,
}

/// A stretch of a run.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) policies: Vec<Policy>,
    pub(super) time: Duration,
    /// A drive that dies when it begins.
    pub(super) dies: Option<u32>,
    /// Which VMs do nothing.
    pub(super) still: Vec<bool>,
    /// What is wrong with the hosts, and with their store.
    pub(super) nodes: NodeFaults,
    pub(super) store: StoreState,
}

/// What is played.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) hosts: usize,
    /// Of each VM.
    pub(super) loads: Vec<Load>,
    pub(super) steps: Vec<Step>,
}

impl Script {
    /// An experiment of the scenario in a form, on an array that can do so many bytes per second.
    pub(super) fn of(qos: &Qos, experiment: &Experiment, form: Form, capacity: f64) -> Script {
        let vms = qos.published.vms;
        let units = (capacity / qos.unit_bytes(qos.published.transfer.0) as f64) as u64;
        let step = |phase: &super::phases::Phase| Step {
            name: phase.name.clone(),
            policies: phase.policies(vms, units),
            time: phase.time(form, qos.run.phase).0,
            dies: None,
            still: phase.stand_still(vms, experiment.hosts),
            nodes: phase.nodes.clone(),
            store: phase.store,
        };
        Script {
            id: experiment.id.clone(),
            title: experiment.title.clone(),
            hosts: experiment.hosts,
            loads: vec![Load::published(qos); vms],
            steps: experiment.phases.iter().map(step).collect(),
        }
    }
}

impl Load {
    pub(super) fn published(qos: &Qos) -> Load {
        let published = &qos.published;
        let access = Access::new(published.transfer.0, published.reads_percent, 100);
        Load { access, outstanding: published.outstanding }
    }
}

/// Plays a script in the model world.
///
/// # Errors
///
/// [`Abandoned`] after a stop request; and when it cannot be played.
pub(super) fn model(
    qos: &Qos,
    bed: &Bed,
    script: &Script,
    form: Form,
    (seed, stop): (u64, &Stop),
) -> Result<Course> {
    let model = bed.model(seed);
    let played = model.run_while(
        || !stop.is_asked(),
        async |world| {
            let started = bed.start(&world).await?;
            let hosts = Hosts::new(qos, &world, (script.loads.len(), script.hosts), form);
            let vms = vms(&world, &started, script, &hosts).await?;
            let kill = |drive: u32| model.disks().get(&bed::drive_name(drive)).iter().for_each(Disk::kill);
            let array = RefCell::new(started.array);
            let stage = Stage { qos, place: "model", world, array, hosts, vms, form, kill: &kill };
            stage.play(script).await
        },
    );
    played.unwrap_or_else(|| Err(Abandoned.into()))
}

/// The VMs, each at its LU.
pub(super) async fn vms(
    world: &World,
    started: &Started,
    script: &Script,
    hosts: &Hosts,
) -> Result<Vec<Rc<Vm>>> {
    let mut vms = Vec::new();
    for (number, load) in script.loads.iter().enumerate() {
        let session = Rc::new(bed::session(started, number)?);
        let route = Route::Local(session, bed::lun(number));
        route.greet().await;
        let len = started.array.config().volumes[number].len_bytes;
        let mut vm = Vm::new(world, route, walk(world, load, len, number)?, load.access.size);
        vm.gate = hosts.gate(number, script.loads.len());
        vms.push(Rc::new(vm));
    }
    Ok(vms)
}

/// Where a VM goes on its disk.
pub(super) fn walk(world: &World, load: &Load, len: u64, number: usize) -> Result<Walk> {
    let mix = Mix::new(vec![load.access])?;
    Ok(Walk::new(mix, 0, len, (0, 1), world.random(&format!("vm {number}"))))
}

/// Where a script is played.
pub(super) struct Stage<'a> {
    pub(super) qos: &'a Qos,
    /// `model` or `real`.
    pub(super) place: &'static str,
    pub(super) world: World,
    /// Who schedules where the hosts do not.
    pub(super) array: RefCell<Array>,
    pub(super) hosts: Hosts,
    pub(super) vms: Vec<Rc<Vm>>,
    pub(super) form: Form,
    /// Makes a drive die.
    pub(super) kill: &'a dyn Fn(u32),
}

impl Stage<'_> {
    /// Plays it. Times are those since it began.
    pub(super) async fn play(&self, script: &Script) -> Result<Course> {
        let mut seen = Seen { below: vec![false; self.vms.len()], ..Seen::default() };
        let origin_ns = self.world.now().0;
        for (vm, load) in self.vms.iter().zip(&script.loads) {
            vm.start(load.outstanding);
        }
        self.pass(self.qos.run.warm_up.0, &mut seen).await?;
        let mut phases = Vec::new();
        for step in &script.steps {
            let from_ns = self.world.now().0;
            self.set(step).await?;
            step.dies.into_iter().for_each(self.kill);
            self.pass(step.time, &mut seen).await?;
            phases.push(Played {
                name: step.name.clone(),
                from_ns,
                to_ns: self.world.now().0,
                policies: step.policies.clone(),
                still: step.still.clone(),
                nodes: step.nodes.clone(),
                store: step.store,
            });
        }
        self.vms.iter().for_each(|vm| vm.stop());
        while self.vms.iter().any(|vm| vm.running.get() > 0) {
            self.world.sleep(LOOK_EVERY).await;
        }
        let mut course = Course {
            id: script.id.clone(),
            title: script.title.clone(),
            form: self.form,
            world: self.place,
            phases,
            loads: script.loads.clone(),
            done: self.vms.iter().map(|vm| vm.log.take()).collect(),
            looks: seen.looks,
            news: seen.news,
        };
        course.begin_at(origin_ns);
        Ok(course)
    }

    /// What is so from now on.
    #[expect(clippy::await_holding_refcell_ref, reason = "one task plays, and nobody else holds the array")]
    async fn set(&self, step: &Step) -> Result<()> {
        self.vms.iter().zip(&step.still).for_each(|(vm, still)| vm.stand_still(*still));
        if let Hosts::Sharing(sharing) = &self.hosts {
            sharing.set_faults(&step.nodes, step.store);
        }
        if self.form != Form::Array {
            return self.hosts.set(&step.policies).await;
        }
        let mut array = self.array.borrow_mut();
        let config = bed::with_policies(array.config(), &step.policies);
        array.apply(config).await?;
        Ok(())
    }

    /// Looks at the array's own scheduler.
    #[expect(clippy::await_holding_refcell_ref, reason = "one task plays, and nobody else holds the array")]
    async fn look_at_array(&self, seen: &mut Seen) -> Result<()> {
        let parts = self.array.borrow().status().await?;
        let at_ns = self.world.now().0;
        let schedulers = parts.iter().flat_map(|part| &part.schedulers);
        seen.looks.extend(schedulers.map(|scheduler| Look {
            at_ns,
            depth: scheduler.depth,
            background_bytes: scheduler.background_bytes,
            scale_permille: scheduler.scale_permille,
            sharing: None,
        }));
        let volumes: Vec<_> = parts.iter().flat_map(|part| &part.volumes).collect();
        for vm in 0..self.vms.len() {
            // Volumes come by name, and there are others than those of the VMs.
            let own = bed::volume_name(vm);
            let volume = volumes.iter().find(|volume| volume.name == own);
            let is_below = volume.is_some_and(|volume| volume.qos.state == "below_minimum");
            if is_below != seen.below[vm] {
                seen.news.push(News { at_ns, vm, is_below });
            }
            seen.below[vm] = is_below;
        }
        Ok(())
    }

    /// Looks at the hosts.
    async fn look_at_hosts(&self, seen: &mut Seen) -> Result<()> {
        let at_ns = self.world.now().0;
        let (depth, scale_permille, sharing) = match &self.hosts {
            Hosts::None => return self.look_at_array(seen).await,
            Hosts::Alone(nodes) => {
                let of = |node: &Rc<super::node::Node>| {
                    let scheduler = node.scheduler.borrow();
                    (scheduler.depth(), scheduler.scale_permille())
                };
                let all = nodes.iter().map(of).reduce(|a, b| (a.0 + b.0, a.1.min(b.1)));
                let (depth, scale) = all.unwrap_or((0, 1000));
                (depth, scale, None)
            }
            Hosts::Sharing(sharing) => {
                let look = sharing.look().await?;
                (0, look.scale_permille, Some(look))
            }
        };
        seen.looks.push(Look { at_ns, depth, background_bytes: 0, scale_permille, sharing });
        seen.news.extend(self.hosts.news().into_iter().map(|(vm, is_below)| News { at_ns, vm, is_below }));
        Ok(())
    }

    /// Lets time pass, and looks at the schedulers meanwhile.
    async fn pass(&self, time: Duration, seen: &mut Seen) -> Result<()> {
        let end = self.world.now() + time;
        while self.world.now() < end {
            let next = (self.world.now() + LOOK_EVERY).min(end);
            self.world.sleep_until(next).await;
            self.vms.iter().try_for_each(|vm| vm.check())?;
            self.look_at_hosts(seen).await?;
        }
        Ok(())
    }
}

/// What was seen of the schedulers so far.
#[derive(Default)]
struct Seen {
    looks: Vec<Look>,
    news: Vec<News>,
    /// VMs that were below their minimum at the last look.
    below: Vec<bool>,
}
