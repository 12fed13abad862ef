//! One experiment in one form: phases one after the other, and everything that was seen.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ::qos::{Claim, Health, Policy, Settings, shares};
use anyhow::Result;
use array::Array;
use world::World;
use world_model::Disk;

use super::bed::{self, Bed};
use super::judge::{Capacity, Rates};
use super::node::Node;
use super::scenario::{Experiment, Form, Qos};
use super::vm::{Done, Route, Vm};
use lab_core::interrupt::Stop;
use lab_core::parallel;
use lab_tools::load::access::Walk;
use lab_tools::load::{Access, Mix};
use lab_tools::testbed::Started;

/// How the policy store hears of claims, and nodes of their shares.
const SHARES_EVERY: Duration = Duration::from_secs(1);
/// The store gives out this much of what the array can do: given out whole, the queue in the array grows
/// until minimums are lost in it.
const STORE_SHARE: f64 = 0.97;
/// And for a minimum it leaves this part more, so that a node can catch up after a slow moment of the array.
const CATCH_UP_PART: u64 = 25;
/// How often the schedulers are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A phase as it was.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) name: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) policies: Vec<Policy>,
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
}

/// A minimum that is missed, or met again.
#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) at_ns: u64,
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
    /// The largest I/O of each VM.
    pub(super) io_bytes: Vec<u64>,
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
    /// A published experiment.
    pub(super) fn of(qos: &Qos, experiment: &Experiment) -> Script {
        let vms = qos.published.vms;
        let step = |phase: &super::scenario::Phase| Step {
            name: phase.name.clone(),
            policies: phase.policies(vms),
            time: qos.run.phase.0,
            dies: None,
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
        Load { access: Access::new(qos.published.transfer.0, 0, 100), outstanding: qos.published.outstanding }
    }
}

/// The nodes before the array, and which VM is where.
pub(super) struct Nodes {
    all: Vec<Rc<Node>>,
    per_node: usize,
}

impl Nodes {
    /// None in the form in which the array schedules.
    pub(super) fn new(qos: &Qos, world: &World, script: &Script, form: Form) -> Nodes {
        let nodes = if form == Form::Array { 0 } else { script.hosts };
        let settings = Settings {
            unit_bytes: qos.published.unit.0,
            depth_max: qos.array.depth,
            // A node sees its own VMs only: sending less at once would slow them and nobody else.
            depth_adapts: false,
            anticipates: false,
            ..Settings::default()
        };
        let per_node = script.loads.len().div_ceil(nodes.max(1));
        Nodes { all: (0..nodes).map(|_| Node::new(world, settings, per_node)).collect(), per_node }
    }

    /// The node that a VM is on, and its number there.
    pub(super) fn of(&self, vm: usize) -> Option<(Rc<Node>, usize)> {
        let node = self.all.get(vm / self.per_node.max(1))?;
        Some((node.clone(), vm % self.per_node))
    }

    fn set(&self, policies: &[Policy]) {
        for (vm, policy) in policies.iter().enumerate() {
            if let Some((node, own)) = self.of(vm) {
                node.set_policy(own, *policy);
            }
        }
    }

    /// The policy store: shares by water-filling over the claims of all nodes.
    fn share(&self, capacity: Option<u64>) {
        let Some(capacity) = capacity else { return self.all.iter().for_each(|node| node.set_share(None)) };
        let with_room =
            |claim: Claim| Claim { minimum: claim.minimum + claim.minimum / CATCH_UP_PART, ..claim };
        let claims = |node: &Rc<Node>| -> Vec<Claim> {
            node.scheduler.borrow().claims().map(|(_, claim)| with_room(claim)).collect()
        };
        let all: Vec<Vec<Claim>> = self.all.iter().map(claims).collect();
        for (node, share) in self.all.iter().zip(shares(capacity, &all)) {
            node.set_share(Some(share));
        }
    }

    fn look(&self, at_ns: u64) -> Option<Look> {
        let depth = self.all.iter().map(|node| node.scheduler.borrow().depth()).sum();
        let scale = self.all.iter().map(|node| node.scheduler.borrow().scale_permille()).min()?;
        Some(Look { at_ns, depth, background_bytes: 0, scale_permille: scale })
    }
}

/// Plays a script in the model world. `capacity` is what the policy store knows of the array, in units per
/// second.
pub(super) fn model(
    qos: &Qos,
    bed: &Bed,
    script: &Script,
    form: Form,
    capacity: &Capacity,
    seed: u64,
) -> Result<Course> {
    let model = bed.model(seed);
    model.run(async |world| {
        let started = bed.start(&world).await?;
        let nodes = Nodes::new(qos, &world, script, form);
        let vms = vms(&world, &started, script, Some(&nodes)).await?;
        let kill = |drive: u32| model.disks().get(&bed::drive_name(drive)).iter().for_each(Disk::kill);
        let array = RefCell::new(started.array);
        let stage = Stage { qos, place: "model", world, array, nodes, vms, form, capacity, kill: &kill };
        stage.play(script).await
    })
}

/// The VMs, each at its LU.
async fn vms(
    world: &World,
    started: &Started,
    script: &Script,
    nodes: Option<&Nodes>,
) -> Result<Vec<Rc<Vm>>> {
    let mut vms = Vec::new();
    for (number, load) in script.loads.iter().enumerate() {
        let session = Rc::new(bed::session(started, number)?);
        let route = Route::Local(session, bed::lun(number));
        route.greet().await;
        let len = started.array.config().volumes[number].len_bytes;
        let mut vm = Vm::new(world, route, walk(world, load, len, number)?, load.access.size);
        vm.node = nodes.and_then(|nodes| nodes.of(number));
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
    /// Who schedules where the nodes do not.
    pub(super) array: RefCell<Array>,
    pub(super) nodes: Nodes,
    pub(super) vms: Vec<Rc<Vm>>,
    pub(super) form: Form,
    pub(super) capacity: &'a Capacity,
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
        self.pass(self.qos.run.warm_up.0, None, &mut seen).await?;
        let mut phases = Vec::new();
        for step in &script.steps {
            let from_ns = self.world.now().0;
            self.set(&step.policies).await?;
            step.dies.into_iter().for_each(self.kill);
            self.pass(step.time, self.share_of(&step.policies), &mut seen).await?;
            let (name, to_ns) = (step.name.clone(), self.world.now().0);
            phases.push(Played { name, from_ns, to_ns, policies: step.policies.clone() });
        }
        self.vms.iter().for_each(|vm| vm.stopped.set(true));
        while self.vms.iter().any(|vm| vm.running.get() > 0) {
            self.world.sleep(LOOK_EVERY).await;
        }
        let mut course = Course {
            id: script.id.clone(),
            title: script.title.clone(),
            form: self.form,
            world: self.place,
            phases,
            io_bytes: script.loads.iter().map(|load| load.access.size).collect(),
            done: self.vms.iter().map(|vm| vm.log.take()).collect(),
            looks: seen.looks,
            news: seen.news,
        };
        course.begin_at(origin_ns);
        Ok(course)
    }

    /// Policies for all VMs, from now on.
    #[expect(clippy::await_holding_refcell_ref, reason = "one task plays, and nobody else holds the array")]
    async fn set(&self, policies: &[Policy]) -> Result<()> {
        if self.form != Form::Array {
            self.nodes.set(policies);
            return Ok(());
        }
        let mut array = self.array.borrow_mut();
        let config = bed::with_policies(array.config(), policies);
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
        }));
        let volumes = parts.iter().flat_map(|part| &part.volumes).take(self.vms.len());
        for (vm, volume) in volumes.enumerate() {
            let is_below = volume.qos.state == "below_minimum";
            if is_below != seen.below[vm] {
                seen.news.push(News { at_ns, is_below });
            }
            seen.below[vm] = is_below;
        }
        Ok(())
    }

    /// What the nodes share: as much as the array does while it leaves the minimums. Without any, the array
    /// is left to itself.
    fn share_of(&self, policies: &[Policy]) -> Option<u64> {
        let unit = self.qos.published.unit.0;
        let io_bytes = self.qos.published.transfer.0;
        let rates: Vec<Rates> = policies.iter().map(|policy| Rates::of(policy, unit, io_bytes)).collect();
        let has_minimum = rates.iter().any(|rates| rates.minimum > 0.0);
        has_minimum.then(|| (STORE_SHARE * self.capacity.can_do(&rates) / unit as f64) as u64)
    }

    /// Lets time pass, and looks at the schedulers meanwhile.
    async fn pass(&self, time: Duration, capacity: Option<u64>, seen: &mut Seen) -> Result<()> {
        let end = self.world.now() + time;
        let mut shared = None;
        while self.world.now() < end {
            let now = self.world.now();
            if self.form == Form::Coordinated && shared.is_none_or(|at| now.since(at) >= SHARES_EVERY) {
                self.nodes.share(capacity);
                shared = Some(now);
            }
            let next = (now + LOOK_EVERY).min(end);
            self.world.sleep_until(next).await;
            self.vms.iter().try_for_each(|vm| vm.check())?;
            let at_ns = self.world.now().0;
            seen.looks.extend(self.nodes.look(at_ns));
            let told = self.nodes.all.iter().flat_map(|node| node.news());
            seen.news.extend(told.map(|health| News { at_ns, is_below: health != Health::Ok }));
            if self.form == Form::Array {
                self.look_at_array(seen).await?;
            }
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

/// What the array does with 1, 2, … VMs at once and no scheduler: everything else is judged by it, so nobody
/// stops it half-way.
pub(super) fn capacity(qos: &Qos, bed: &Bed, time: Duration, seed: u64) -> Result<Capacity> {
    let script = Script {
        id: "capacity".into(),
        title: "Capacity".into(),
        hosts: 1,
        loads: vec![Load::published(qos); qos.published.vms],
        steps: vec![],
    };
    let of = |index: usize, _: &dyn Fn(())| {
        bed.model(seed).run(async |world| {
            let started = bed.start(&world).await?;
            let vms = vms(&world, &started, &script, None).await?;
            vms.iter().take(index + 1).for_each(|vm| vm.start(1));
            world.sleep(qos.run.warm_up.0).await;
            vms.iter().for_each(|vm| drop(vm.log.take()));
            world.sleep(time).await;
            vms.iter().try_for_each(|vm| vm.check())?;
            let bytes: u64 = vms.iter().flat_map(|vm| vm.log.take()).map(|done| done.bytes).sum();
            anyhow::Ok(bytes as f64 / time.as_secs_f64())
        })
    };
    let rates = parallel::run((qos.published.vms, parallel::cores()), &Stop::default(), of, |()| ())?;
    Ok(Capacity(rates.into_iter().map(|(_, rate)| rate).collect()))
}
