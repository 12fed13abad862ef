//! What fails of nodes, their registry, their hosts and their storage, one thing after the other, some of
//! them at the same time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use world::{Instant, Rng, World};
use world_model::{Link, Model, NetSpec};

use super::Fault;
use crate::actors::workload::Shared;
use crate::cluster::UNFENCED;
use crate::cluster::lending::node_port;
use crate::cluster::node::Node;

/// Between two faults.
const PAUSE_MS_MAX: u64 = 6_000;
/// Longer than a lease, so that others take over meanwhile.
const STILL_MS_MAX: u64 = 20_000;
/// So long another process holds drives: longer than a host waits.
const HELD_MS: std::ops::Range<u64> = 20_000..300_000;
/// How late writes arrive, so that others have taken over meanwhile.
const LATE_MS: std::ops::Range<u64> = 5_000..15_000;
/// Longer than a new owner waits for a drive, and shorter than a host for an answer.
const UNFENCED_MS: std::ops::Range<u64> = 5_000..60_000;
/// How slow writes of an owner are that goes on: a host has given up the path, and the drives are not silent
/// yet.
const SLOW_WRITE_MS: std::ops::Range<u64> = 3_500..9_000;
/// A drive that answers nothing for longer is taken for gone.
const HANG_MS_MAX: u64 = 2_000;
/// A registry is slow, and an owner can still renew in time.
const SLOW_MS_MAX: u64 = 300;
/// A way between nodes that is slow: some Mbit/s.
const SLOW_BYTES_PER_S: u64 = 2_000_000;

/// How often what failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kills: u64,
    pub(crate) pauses: u64,
    pub(crate) moves: u64,
    /// Of one node's way to the registry, or of all.
    pub(crate) cuts: u64,
    /// Writes of a node were late when it died or stood still.
    pub(crate) late: u64,
    /// Connections of hosts that were reset, or silent.
    pub(crate) connections: u64,
    pub(crate) hangs: u64,
    /// Nodes that ran controllers and could not reach the owner.
    pub(crate) partitions: u64,
    /// Nodes that were asked to end.
    pub(crate) leaves: u64,
}

/// Who fails.
pub(crate) struct Faults {
    world: World,
    model: Rc<Model>,
    nodes: Vec<Rc<Node>>,
    /// Whether controllers run at several nodes.
    is_spread: bool,
    rng: RefCell<Rng>,
    counts: Cell<Counts>,
    /// Until when nodes stand still.
    still: RefCell<BTreeMap<String, Instant>>,
    shared: Shared,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Faults {
    pub(crate) fn new(
        world: &World,
        model: &Rc<Model>,
        (nodes, is_spread): (&[Rc<Node>], bool),
        shared: &Shared,
    ) -> Rc<Faults> {
        Rc::new(Faults {
            world: world.clone(),
            model: model.clone(),
            nodes: nodes.to_vec(),
            is_spread,
            rng: RefCell::new(world.random("faults")),
            counts: Cell::default(),
            still: RefCell::default(),
            shared: shared.clone(),
        })
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// So many of them; where a fault is to be found, only those that nothing but what it breaks survives.
    pub(crate) async fn strike(self: Rc<Faults>, times: u64, fault: Fault) {
        for _ in 0..times {
            let pause = self.rng.borrow_mut().u64(..PAUSE_MS_MAX);
            self.world.sleep(ms(pause)).await;
            match fault {
                Fault::NoFence => self.delay_writes(&self.victim()),
                Fault::SomeFences => self.fail_fences(),
                Fault::HeldDrives if self.draw(..2) == 0 => self.hold_drives(),
                _ if fault.is_of_lending() => self.one_of_a_lent(fault),
                _ if self.is_spread && self.draw(..2) == 0 => self.one_of_several_places(),
                _ => self.one(),
            }
        }
    }

    /// A node that runs controllers for the owner, if there is one.
    fn lent(&self) -> Option<Rc<Node>> {
        let all: Vec<&Rc<Node>> = self.nodes.iter().filter(|node| node.runs_for_owner()).collect();
        (!all.is_empty()).then(|| all[self.rng.borrow_mut().usize(..all.len())].clone())
    }

    fn one_of_a_lent(self: &Rc<Faults>, fault: Fault) {
        let Some(victim) = self.lent() else { return };
        match fault {
            Fault::NoLendingFence => self.delay_writes(&victim),
            Fault::NoTerm => self.pause(&victim, self.draw(LATE_MS)),
            _ => self.cut_off(&victim),
        }
    }

    /// Begins a fault of a node that runs controllers for the owner, or of its way to it.
    fn one_of_several_places(self: &Rc<Faults>) {
        let Some(victim) = self.lent() else { return self.one() };
        match self.draw(..8) {
            0 => self.kill(&victim),
            1 | 2 => self.pause(&victim, self.draw(1..STILL_MS_MAX)),
            3 => self.delay_writes(&victim),
            4 | 5 => self.cut_off(&victim),
            6 => {
                self.count(|counts| counts.leaves += 1);
                self.tell(|| format!("{} is asked to end", victim.name));
                victim.leave();
            }
            _ => self.slow_link(),
        }
    }

    /// Nothing passes between this node and the owner for a while.
    fn cut_off(self: &Rc<Faults>, node: &Rc<Node>) {
        self.count(|counts| counts.partitions += 1);
        let cut_ms = self.draw(1..STILL_MS_MAX);
        self.tell(|| format!("{} is cut off from the owner for {cut_ms} ms", node.name));
        node.is_cut_off.set(true);
        node.way_to_owner.get().into_iter().for_each(|client| match self.draw(..2) {
            0 => self.model.net().reset(client),
            _ => self.model.net().silence(client),
        });
        let node = node.clone();
        self.later(cut_ms, move |_| node.is_cut_off.set(false));
    }

    /// What nodes say to each other takes long.
    fn slow_link(self: &Rc<Faults>) {
        let latency_ms = self.draw(1..SLOW_MS_MAX);
        self.tell(|| format!("nodes are {latency_ms} ms away from each other"));
        let set = |faults: &Faults, link: Link| {
            let ports = faults.nodes.iter().map(|node| node_port(node.address()));
            ports.for_each(|port| faults.model.net().set_port(port, link));
        };
        set(self, Link::plain(SLOW_BYTES_PER_S, ms(latency_ms)));
        self.later(self.draw(1..STILL_MS_MAX), move |faults| set(faults, NetSpec::default().link));
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        self.shared.tell(|| format!("{:?}: {}", self.world.now(), text()));
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Mostly the one that serves.
    fn victim(&self) -> Rc<Node> {
        let mut rng = self.rng.borrow_mut();
        let owner = self.nodes.iter().find(|node| node.serves().is_some()).filter(|_| rng.u8(..4) > 0);
        owner.unwrap_or_else(|| &self.nodes[rng.usize(..self.nodes.len())]).clone()
    }

    fn draw(&self, range: impl std::ops::RangeBounds<u64>) -> u64 {
        self.rng.borrow_mut().u64(range)
    }

    /// Begins one fault, which ends by itself.
    fn one(self: &Rc<Faults>) {
        let victim = self.victim();
        match self.draw(..12) {
            0..2 => self.kill(&victim),
            2..4 => self.pause(&victim, self.draw(1..STILL_MS_MAX)),
            4..6 => self.delay_writes(&victim),
            6 | 7 => {
                self.count(|counts| counts.moves += 1);
                self.tell(|| format!("{} moves away", victim.name));
                victim.move_away();
            }
            8 => self.cut_registry(std::slice::from_ref(&victim)),
            9 if self.draw(..3) == 0 => self.cut_registry(&self.nodes),
            9 => self.slow_registry(&victim),
            10 => self.hang_drive(),
            _ => self.break_connections(),
        }
    }

    /// Runs beside the faults that follow.
    fn later(self: &Rc<Faults>, after_ms: u64, act: impl FnOnce(&Rc<Faults>) + 'static) {
        let (faults, sleep) = (self.clone(), self.world.sleep(ms(after_ms)));
        self.world.spawn(async move {
            sleep.await;
            act(&faults);
        });
    }

    fn kill(&self, node: &Node) {
        let Some(machine) = node.machine() else { return };
        self.tell(|| format!("{} is killed", node.name));
        machine.kill();
        self.count(|counts| counts.kills += 1);
    }

    fn pause(self: &Rc<Faults>, node: &Node, still_ms: u64) {
        let Some(machine) = node.machine() else { return };
        machine.pause();
        self.count(|counts| counts.pauses += 1);
        let name = node.name.clone();
        self.tell(|| format!("{name} stands still for {still_ms} ms"));
        let until = self.world.now() + ms(still_ms);
        let longest = self.still.borrow().get(&name).copied().map_or(until, |other| other.max(until));
        self.still.borrow_mut().insert(name.clone(), longest);
        self.later(still_ms, move |faults| {
            if faults.still.borrow()[&name] <= faults.world.now() {
                faults.tell(|| format!("{name} goes on"));
                // It may be another life of the node by now, which stood still until the same moment.
                let node = faults.nodes.iter().find(|node| node.name == name);
                if let Some(machine) = node.and_then(|node| node.machine()) {
                    machine.resume();
                }
            }
        });
    }

    /// Its writes are late. Soon after, it dies or stands still for longer than a term, while they are on
    /// their way; or it goes on, and later writes overtake them unless they wait.
    fn delay_writes(self: &Rc<Faults>, node: &Rc<Node>) {
        let Some(machine) = node.machine() else { return };
        let ends = self.draw(..3);
        let late_ms = self.draw(if ends < 2 { LATE_MS } else { SLOW_WRITE_MS });
        self.tell(|| format!("writes of {} are {late_ms} ms late", node.name));
        machine.set_way_to_storage(ms(late_ms));
        self.count(|counts| counts.late += 1);
        let node = node.clone();
        self.later(self.draw(1..500), move |faults| {
            match ends {
                0 => faults.kill(&node),
                1 => faults.pause(&node, LATE_MS.end),
                _ => {}
            }
            machine.set_way_to_storage(Duration::ZERO);
        });
    }

    /// These nodes reach no registry.
    fn cut_registry(self: &Rc<Faults>, nodes: &[Rc<Node>]) {
        self.count(|counts| counts.cuts += 1);
        let links: Vec<_> = nodes.iter().map(|node| node.link.clone()).collect();
        links.iter().for_each(|link| link.cut.set(true));
        let cut_ms = self.draw(1..STILL_MS_MAX);
        self.tell(|| {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            format!("{} cut from the registry for {cut_ms} ms", names.join(", "))
        });
        self.later(cut_ms, move |_| links.iter().for_each(|link| link.cut.set(false)));
    }

    /// It hears late, and of no change.
    fn slow_registry(self: &Rc<Faults>, node: &Node) {
        let (link, was) = (node.link.clone(), node.link.delay.get());
        link.delay.set(ms(self.draw(1..SLOW_MS_MAX)));
        link.loses_watches.set(true);
        self.later(self.draw(1..STILL_MS_MAX), move |_| {
            link.delay.set(was.min(ms(2)));
            link.loses_watches.set(false);
        });
    }

    /// Another process holds drives at a node, which may lose the controllers that it has, and would get them
    /// again.
    fn hold_drives(self: &Rc<Faults>) {
        let node = self.nodes[self.draw(..self.nodes.len() as u64) as usize].clone();
        node.cannot_claim.set(true);
        let time_ms = self.draw(HELD_MS);
        self.tell(|| format!("{} cannot claim drives for {time_ms} ms", node.name));
        let free = node.clone();
        self.later(time_ms, move |_| free.cannot_claim.set(false));
        if node.runs_for_owner() {
            self.kill(&node);
        }
    }

    /// A drive cannot be fenced for a while, in which a node that may have it open is lost.
    fn fail_fences(self: &Rc<Faults>) {
        if let Some(disk) = self.model.disks().get(UNFENCED) {
            disk.set_fences_fail(true);
            let time_ms = self.draw(UNFENCED_MS);
            self.tell(|| format!("{} cannot be fenced for {time_ms} ms", disk.name()));
            self.later(time_ms, move |_| disk.set_fences_fail(false));
        }
        let victim = self.lent().unwrap_or_else(|| self.victim());
        self.delay_writes(&victim);
    }

    /// One drive answers nothing for a while.
    fn hang_drive(self: &Rc<Faults>) {
        let disks = self.model.disks();
        let Some(disk) = disks.get(&format!("d{}", self.draw(..crate::stacks::array::DISKS as u64))) else {
            return;
        };
        disk.hang();
        self.count(|counts| counts.hangs += 1);
        let hang_ms = self.draw(1..HANG_MS_MAX);
        self.tell(|| format!("{} hangs for {hang_ms} ms", disk.name()));
        self.later(hang_ms, move |_| disk.resume());
    }

    /// Of hosts to nodes: reset, or nothing arrives any more.
    fn break_connections(&self) {
        let net = self.model.net();
        for (client, _) in net.connections() {
            self.count(|counts| counts.connections += 1);
            self.tell(|| format!("the connection of {client} breaks"));
            match self.draw(..2) {
                0 => net.reset(client),
                _ => net.silence(client),
            }
        }
    }
}
