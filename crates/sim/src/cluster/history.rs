//! One history: nodes, their registry and drives, a host, and faults.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use array::Lun;
use array::config::Made;
use clap::ValueEnum;
use cluster::portal_group;
use iscsi::initiator::Options;
use scsi::Events;
use world::{Rng, World};
use world_model::Model;

use super::bed::Bed;
use super::life::life;
use super::node::{NODES_MAX, Node, make, paths};
use super::shape::{Shape, Volume};
use crate::actors::contenders::{Contenders, reserve};
use crate::actors::paths::Paths;
use crate::actors::workload::{self, Shared, Snapshot};
use crate::faults::nodes::{Counts, Faults};
use crate::faults::{Fault, lies};
use crate::shadow::Shadow;
use crate::stacks::array::{Between, PAGE_BYTES};
use crate::stacks::lu::{Lu, Path};
use crate::stamp::SECTOR_BYTES;

/// Clocks run at most this much too fast or too slow: 40 of the 50 permille that are allowed.
const DRIFT_MAX: i64 = 40;
/// Between two looks at who serves.
const LOOK: Duration = Duration::from_millis(5);
/// The host does something else between commands, at most for so long.
const THINK: Duration = Duration::from_millis(150);

/// By then the owner knows the other nodes.
const ALL_KNOWN: Duration = Duration::from_secs(3);

/// The LU of which a block is the other hosts' to count in, the last one: no sector of the workload.
const COUNTED: u16 = 0;
/// The LU that is reserved for the host of the workload.
const RESERVED: Lun = Lun(1);

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) histories: u64,
    pub(crate) nodes: u64,
    pub(crate) faults: Counts,
    /// How often a node began to serve.
    pub(crate) served: u64,
    pub(crate) failed: u64,
    /// Histories with controllers at several nodes; how often such a node began to run some, and how often
    /// the owner ran them again.
    pub(crate) spread: u64,
    pub(crate) lent: u64,
    pub(crate) taken_back: u64,
    /// Drives that could not be fenced, and without which their groups began.
    pub(crate) left_out: u64,
    pub(crate) withheld: u64,
    /// How often a node could not claim the drives of controllers, and gave them back.
    pub(crate) given_back: u64,
    /// How often a host had a pool served elsewhere.
    pub(crate) moves_asked: u64,
    /// How often a pool went to another controller of an owner.
    pub(crate) pools_moved: u64,
    /// How often the host took another path.
    pub(crate) changes: u64,
    /// The longest time that a command of the host took.
    pub(crate) waited_max: Duration,
    /// How often other hosts counted by COMPARE AND WRITE.
    pub(crate) counted: u64,
    /// How often a reservation kept a host out.
    pub(crate) refused: u64,
    pub(crate) digest: u64,
}

impl Story {
    pub(super) fn add(&mut self, other: Story) {
        self.histories += other.histories;
        self.nodes += other.nodes;
        let (all, more) = (&mut self.faults, other.faults);
        all.kills += more.kills;
        all.pauses += more.pauses;
        all.moves += more.moves;
        all.cuts += more.cuts;
        all.late += more.late;
        all.partitions += more.partitions;
        all.leaves += more.leaves;
        all.connections += more.connections;
        all.hangs += more.hangs;
        self.served += other.served;
        self.failed += other.failed;
        self.spread += other.spread;
        self.lent += other.lent;
        self.taken_back += other.taken_back;
        self.left_out += other.left_out;
        self.withheld += other.withheld;
        self.given_back += other.given_back;
        self.moves_asked += other.moves_asked;
        self.pools_moved += other.pools_moved;
        self.changes += other.changes;
        self.waited_max = self.waited_max.max(other.waited_max);
        self.counted += other.counted;
        self.refused += other.refused;
        // A sum: histories end in any order.
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { kills, pauses, moves, cuts, late, connections, hangs, partitions, leaves } = self.faults;
        write!(
            f,
            "{} histories, {} nodes: {kills} killed, {pauses} paused, {late} with late writes, {moves} moves, \
             {cuts} cuts from the registry, {connections} connections broken, {hangs} drives hung; {} times a \
             node began to serve and {} times it could not, {} pools moved between \
             controllers, the host changed its path {} times and waited {:.1} s \
             at most; others counted {} times by COMPARE AND WRITE, and a reservation kept one out {} times, \
             in {} histories nodes ran controllers for the owner: {} times, {} of them were taken back, \
             {partitions} nodes cut off from the owner, {leaves} ended in order, hosts had {} pools served \
             elsewhere, groups began without {} drives that could not be fenced, {} waited for theirs beside others, nodes gave controllers back {} \
             times, digest {:016x}",
            self.histories,
            self.nodes,
            self.served,
            self.failed,
            self.pools_moved,
            self.changes,
            self.waited_max.as_secs_f64(),
            self.counted,
            self.refused,
            self.spread,
            self.lent,
            self.taken_back,
            self.moves_asked,
            self.left_out,
            self.withheld,
            self.given_back,
            self.digest
        )
    }
}

/// Where the controllers of an array run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Places {
    /// In one history of two, at other nodes too; which histories those are, the seed says.
    #[default]
    Drawn,
    /// All of them run at the owner.
    One,
    /// At other nodes too.
    Several,
}

/// Tells the history of this seed; panics with it on any deviation.
pub(super) fn tell(seed: u64, (places, fault): (Places, Fault), verbose: bool) -> Story {
    let model = Rc::new(Model::new(seed));
    let between = if seed.is_multiple_of(2) { Between::Nothing } else { Between::Caches };
    // A stream of its own: what is drawn elsewhere stays as it was.
    let mut rng = Rng::with_seed(seed ^ u64::from_le_bytes(*b"places\0\0"));
    let is_spread = match places {
        Places::Drawn => rng.bool(),
        Places::One => false,
        Places::Several => true,
    };
    let nodes = rng.usize(2..=usize::from(NODES_MAX));
    let (mut shape, nodes) = match is_spread {
        true => (Shape::spread(between, nodes, &mut rng), Some(nodes)),
        false => (Shape::of_one_place(between), None),
    };
    // Others wait for the drive, and the owner serves what else there is.
    shape.starts_degraded = fault == Fault::SomeFences && seed % 4 < 2;
    shape.add_disks(&model).iter().for_each(|disk| lies::begin_now(fault, disk));
    let mut made = Made::default();
    model.run(async |world| made = make(&world, &shape).await);
    let laid = (shape.clone(), made);
    let story = model.run(async |world| history(&model, world, (laid.clone(), nodes, fault), verbose).await);
    Events::enter(None);
    Story { histories: 1, spread: u64::from(is_spread), digest: model.digest(), ..story }
}

async fn history(
    model: &Rc<Model>,
    world: World,
    ((shape, made), count, fault): ((Shape, Made), Option<usize>, Fault),
    verbose: bool,
) -> Story {
    let mut rng = world.random("history");
    let shared = Shared::from(Snapshot::default());
    if verbose {
        shared.tell_all();
    }
    shared.tell(|| format!("{shape:?}"));
    let bed = Bed {
        model: model.clone(),
        world: world.clone(),
        registry: registry::Store::default(),
        shape: shape.clone(),
        fault,
        shared: shared.clone(),
        configs: RefCell::default(),
        paths: RefCell::default(),
        made,
    };
    let bed = Rc::new(bed);
    let count = count.unwrap_or_else(|| rng.usize(2..=usize::from(NODES_MAX)));
    let nodes: Vec<Rc<Node>> =
        (0..count).map(|number| Node::new(&bed, number, rng.i64(-DRIFT_MAX..=DRIFT_MAX))).collect();
    for node in &nodes {
        world.spawn(node.clone().keep_running(bed.clone(), life));
    }
    watch(&world, &nodes, shape.is_spread());
    let all: Vec<_> = nodes.iter().flat_map(|node| paths(node)).collect();
    let host = Rc::new(Paths::new(&world, "host", all.clone(), THINK));
    let units = units(&shape, &host, &shared).await;
    // In one history of six nodes join after the host has registered at all ports: it is so at theirs, too.
    if shape.is_spread() && world.seed() % 6 != 5 {
        world.sleep(ALL_KNOWN).await;
    }
    reserve(&host, RESERVED, world.seed() % 4 < 2).await;
    let (contenders, counted) = contenders(&world, &all, &shape, count as u16);
    let faults = Faults::new(&world, model, (&nodes, shape.is_spread()), &shared);
    world.spawn(faults.clone().strike(rng.u64(6..=14), fault));
    let steps = Rc::new(Cell::new(rng.u64(1500..3500)));
    workload::run(&world, &units, &shared, &steps).await;
    for (name, unit) in &units {
        workload::compare_all(unit, &shared, name).await;
    }
    let (counts, refused, moves_asked) = contenders.end(&all, counted).await;
    let total = |of: fn(&Node) -> u64| nodes.iter().map(|node| of(node)).sum();
    let story = Story {
        nodes: count as u64,
        faults: faults.counts(),
        served: total(|node| node.served.get()),
        failed: total(|node| node.failed.get()),
        pools_moved: total(|node| node.pools_moved.get()),
        lent: total(|node| node.lent.get()),
        taken_back: total(|node| node.taken_back.get()),
        left_out: total(|node| node.left_out.get()),
        withheld: total(|node| node.withheld.get()),
        given_back: total(|node| node.given_back.get()),
        changes: host.changes(),
        waited_max: host.waited_max(),
        counted: counts,
        refused,
        moves_asked,
        ..Story::default()
    };
    nodes.iter().filter_map(|node| node.machine()).for_each(|machine| machine.kill());
    story
}

/// The other hosts, and the block in which they count.
fn contenders(world: &World, all: &[Options], shape: &Shape, nodes: u16) -> (Contenders, (Lun, u64)) {
    let counted = (Lun(COUNTED), sectors_of(shape.volumes()[usize::from(COUNTED)].pages) as u64 - 1);
    let contenders = Contenders::start(world, all, counted, RESERVED);
    if shape.is_spread() {
        let groups = (0..nodes).map(|number| portal_group(number, 0)).collect();
        contenders.ask_for_moves(all, shape.volumes().len() as u16, groups);
    }
    (contenders, counted)
}

fn watch(world: &World, nodes: &[Rc<Node>], is_spread: bool) {
    world.spawn(watch_owners(world.clone(), nodes.to_vec()));
    if is_spread {
        world.spawn(watch_controllers(world.clone(), nodes.to_vec()));
    }
}

/// The LUs, and their shadows.
async fn units(shape: &Shape, host: &Rc<Paths>, shared: &Shared) -> BTreeMap<String, Lu> {
    let mut units = BTreeMap::new();
    for Volume { name, lun, pool, pages } in shape.volumes() {
        let sectors = sectors_of(pages) - usize::from(lun == COUNTED);
        shared.shadows.borrow_mut().insert(name.clone(), Shadow::new(sectors));
        // Copies cross between controllers where those run at several nodes.
        let home = if shape.is_spread() { 0 } else { pool };
        let unit = Lu::behind(Path::Nodes(host.clone()), Lun(lun), home).await;
        let unit = unit.unwrap_or_else(|e| panic!("{name}: {e}"));
        unit.write_through().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        units.insert(name, unit);
    }
    units
}

fn sectors_of(pages: u64) -> usize {
    (pages * PAGE_BYTES) as usize / SECTOR_BYTES
}

/// Two nodes within their terms at one instant are the failure that terms are to prevent. One that stands
/// still does nothing, and dies when it goes on.
async fn watch_owners(world: World, nodes: Vec<Rc<Node>>) {
    let mut last = 0;
    loop {
        let serving = nodes.iter().filter(|node| node.is_within_term());
        let epochs: Vec<(&str, u64)> =
            serving.filter_map(|node| Some((node.name.as_str(), node.serves()?))).collect();
        assert!(epochs.len() <= 1, "{epochs:?} serve at {:?}, seed {}", world.now(), world.seed());
        if let Some((name, epoch)) = epochs.first() {
            assert!(*epoch >= last, "{name} serves in epoch {epoch} after {last}, seed {}", world.seed());
            last = *epoch;
        }
        world.sleep(LOOK).await;
    }
}

/// Nobody runs a controller that another process runs, too. One that stands still does nothing, and dies
/// when it goes on.
async fn watch_controllers(world: World, nodes: Vec<Rc<Node>>) {
    loop {
        let within = nodes.iter().filter(|node| node.acts());
        let mut all = BTreeMap::new();
        for node in within {
            for index in node.running() {
                let other = all.insert(index, &node.name);
                assert!(
                    other.is_none(),
                    "{} and {} run controller {index} at {:?}, seed {}",
                    node.name,
                    other.map_or("", String::as_str),
                    world.now(),
                    world.seed()
                );
            }
        }
        world.sleep(LOOK).await;
    }
}
