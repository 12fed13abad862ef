//! A run with so many nodes: phases one after the other, a node that is lost, and everything that was seen.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lab_tools::load::Access;
use world::World;

use super::bed::{self, Class, Promised};
use super::scenario::{ArrayNodes, Phase};
use crate::play::{self, Load};
use crate::scenario::Qos;
use crate::vm::{Done, Route, Vm};

/// How often the array's status is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Of the I/Os in flight when a run ends.
const END_TIME: Duration = Duration::from_secs(60);

/// A phase as it was.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) name: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) promised: Promised,
    /// Which VMs do nothing.
    pub(super) still: Vec<bool>,
    /// The node that died when it began, counted from 0.
    pub(super) lost: Option<usize>,
    /// When the first node began to run the controller of one that was lost.
    pub(super) taken_over_ns: Option<u64>,
    /// How long that took: fences, and opening.
    pub(super) took_over_ns: u64,
    /// When each VM of the aggregated minimum was first said to be below it.
    pub(super) said_ns: Vec<Option<u64>>,
}

/// A run with so many nodes. Times are those since it began.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(crate) nodes: usize,
    /// Processes, in real time.
    pub(super) is_real: bool,
    pub(super) phases: Vec<Played>,
    /// Of each VM, in the order of time; the VMs of a node follow one another.
    pub(super) done: Vec<Vec<Done>>,
    /// What a node can do, in bytes per second: measured in the first phase, without policies.
    pub(super) node_can_do: f64,
}

/// An array at several nodes, as a play sees it.
pub(super) trait Ground {
    /// Puts promises in force.
    async fn promise(&mut self, promised: Promised) -> Result<()>;

    /// Loses a node, not the first one.
    async fn lose(&mut self, node: usize) -> Result<()>;

    /// Returns when the first node runs the controller of one that is lost.
    async fn take_over(&mut self, node: usize) -> Result<()>;

    /// Volumes that are said to be below their minimum.
    async fn below_minimum(&self) -> Result<Vec<String>>;
}

/// A VM with its disk at the end of a route.
pub(super) fn vm(world: &World, shape: &ArrayNodes, (vm, route): (usize, Route)) -> Result<Rc<Vm>> {
    let load = Load { access: Access::new(shape.transfer.0, 0, 100), outstanding: shape.outstanding };
    let walk = play::walk(world, &load, shape.disk.0, vm)?;
    Ok(Rc::new(Vm::new(world, route, walk, shape.transfer.0)))
}

/// Where a run is played.
pub(super) struct Stage<'a, G> {
    pub(super) qos: &'a Qos,
    pub(super) shape: &'a ArrayNodes,
    pub(super) world: World,
    pub(super) ground: G,
    pub(super) vms: Vec<Rc<Vm>>,
    /// A node that is lost and not taken over yet.
    pub(super) lost: Option<usize>,
    pub(super) node_can_do: f64,
}

impl<G: Ground> Stage<'_, G> {
    /// Plays it, in one world or the other.
    pub(super) async fn play(&mut self, (nodes, is_real): (usize, bool)) -> Result<Course> {
        let origin_ns = self.world.now().0;
        self.vms.iter().for_each(|vm| vm.start(self.shape.outstanding));
        let shape = self.shape;
        let mut phases = Vec::new();
        for (number, phase) in shape.phases.iter().enumerate() {
            let played = self.phase(phase, nodes).await?;
            if number == 0 {
                self.node_can_do = self.measured(&played) / nodes as f64;
            }
            phases.push(played);
        }
        self.vms.iter().for_each(|vm| vm.stop());
        if let Some(node) = self.lost.take() {
            self.ground.take_over(node).await?;
        }
        let until = self.world.now() + END_TIME;
        while self.vms.iter().any(|vm| vm.running.get() > 0) {
            ensure!(self.world.now() < until, "I/Os do not end within {} s", END_TIME.as_secs());
            self.world.sleep(LOOK_EVERY).await;
        }
        let mut course = Course {
            nodes,
            is_real,
            phases,
            done: self.vms.iter().map(|vm| vm.log.take()).collect(),
            node_can_do: self.node_can_do,
        };
        course.begin_at(origin_ns);
        Ok(course)
    }

    /// What all VMs had together in a phase, from when it had settled on; bytes per second.
    fn measured(&self, played: &Played) -> f64 {
        let from_ns = played.from_ns + self.qos.run.settle.0.as_nanos() as u64;
        let own = |vm: &Rc<Vm>| {
            vm.log.borrow().iter().filter(|done| done.at_ns >= from_ns).map(|done| done.bytes).sum::<u64>()
        };
        let bytes: u64 = self.vms.iter().map(own).sum();
        bytes as f64 * 1e9 / (played.to_ns - from_ns).max(1) as f64
    }

    /// Percentages of what was measured, in units per second.
    fn promised(&self, phase: &Phase, nodes: usize) -> Promised {
        let unit_bytes = self.qos.unit_bytes(self.shape.transfer.0) as f64;
        let of = |percent: Option<u64>, bytes_per_s: f64| {
            percent.map(|percent| ((bytes_per_s * percent as f64 / 100.0 / unit_bytes) as u64).max(1))
        };
        let all = self.node_can_do * nodes as f64;
        Promised {
            gold: of(phase.gold, all).unwrap_or(0),
            silver: of(phase.silver, self.node_can_do).unwrap_or(0),
            bronze: of(phase.bronze, all),
        }
    }

    async fn phase(&mut self, phase: &Phase, nodes: usize) -> Result<Played> {
        let from_ns = self.world.now().0;
        let promised = self.promised(phase, nodes);
        let still: Vec<bool> = (0..self.vms.len()).map(|vm| stands_still(phase, vm, nodes)).collect();
        let mut played = Played {
            name: phase.name.clone(),
            from_ns,
            to_ns: from_ns,
            promised,
            still,
            lost: phase.lost.map(|node| node - 1),
            taken_over_ns: None,
            took_over_ns: 0,
            said_ns: vec![None; self.vms.len()],
        };
        self.take_over(&mut played).await?;
        // A change is refused while a node is lost, and its policies stay in force.
        if played.lost.is_none() {
            self.ground.promise(promised).await?;
        }
        // Whoever begins now is under its policy from the first write on.
        self.vms.iter().zip(&played.still).for_each(|(vm, still)| vm.stand_still(*still));
        let end_ns = from_ns + self.shape.time.0.as_nanos() as u64;
        if let Some(node) = played.lost {
            self.lost = Some(node);
            self.ground.lose(node).await?;
            if let Some(after) = phase.taken_over {
                self.pass(from_ns + after.0.as_nanos() as u64, &mut played).await?;
                self.take_over(&mut played).await?;
            }
        }
        self.pass(end_ns, &mut played).await?;
        played.to_ns = self.world.now().0;
        Ok(played)
    }

    /// The first node takes over what is lost.
    async fn take_over(&mut self, played: &mut Played) -> Result<()> {
        if let Some(node) = self.lost.take() {
            let from_ns = self.world.now().0;
            self.ground.take_over(node).await?;
            let now = self.world.now().0;
            (played.taken_over_ns, played.took_over_ns) = (Some(now), now - from_ns);
        }
        Ok(())
    }

    /// Lets time pass, and looks at the array meanwhile.
    async fn pass(&self, until_ns: u64, played: &mut Played) -> Result<()> {
        while self.world.now().0 < until_ns {
            let next = (self.world.now() + LOOK_EVERY).min(world::Instant(until_ns));
            self.world.sleep_until(next).await;
            self.vms.iter().try_for_each(|vm| vm.check())?;
            let below = self.ground.below_minimum().await?;
            let at_ns = self.world.now().0;
            for name in below {
                let own = |vm: &usize| bed::volume_name(*vm) == name;
                if let Some(vm) = (0..self.vms.len()).find(own) {
                    played.said_ns[vm].get_or_insert(at_ns);
                }
            }
        }
        Ok(())
    }
}

fn stands_still(phase: &Phase, vm: usize, nodes: usize) -> bool {
    match bed::place_of(vm) {
        (Class::Gold, node) => !phase.gold_at.has(node, nodes),
        (Class::Bronze, _) => phase.bronze_idle,
        (Class::Silver | Class::Free, _) => false,
    }
}

impl Course {
    /// Counts its times from here on.
    fn begin_at(&mut self, origin_ns: u64) {
        for phase in &mut self.phases {
            let said = phase.said_ns.iter_mut().flatten();
            let times = [&mut phase.from_ns, &mut phase.to_ns].into_iter().chain(&mut phase.taken_over_ns);
            times.chain(said).for_each(|at_ns| *at_ns -= origin_ns);
        }
        self.done.iter_mut().flatten().for_each(|done| done.at_ns -= origin_ns);
    }
}
