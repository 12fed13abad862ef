//! The same in real time: ten initiators over iSCSI, the array's controller on a thread, modelled drives that
//! take their time. And one array at several nodes, which are processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use array::config::HostConfig;
use array::{Config, Lun};
use iscsi::initiator::{Options, Session};
use world::World;
use world_model::drives::Prepared;

use super::array_nodes;
use super::bed::{self, Shape};
use super::capacity;
use super::hosts::Hosts;
use super::phases::Form;
use super::play::{self, Course, Script, Stage};
use super::run::Run;
use super::scenario::Qos;
use super::vm::{Route, Vm};
use lab_core::interrupt::{Stop, unless_abandoned};
use lab_core::progress::Progress;
use lab_tools::drives;
use lab_tools::hosts::Disk;
use lab_tools::testbed::timed_drive::Drives;
use lab_tools::testbed::{TimedArray, portal};

fn initiator(vm: usize) -> String {
    format!("iqn.2026-11.net.masu.lab:vm{:02}", vm + 1)
}

/// Each VM is a host of its own, with its disk as LUN 0.
fn declaration(qos: &Qos) -> Config {
    let shape = Shape::published(qos);
    let host = |vm: usize| {
        HostConfig::new(bed::volume_name(vm), initiator(vm), BTreeMap::from([(0, bed::volume_name(vm))]))
    };
    Config {
        portals: vec![portal()],
        hosts: (0..shape.volumes).map(host).collect(),
        ..bed::declaration(qos, shape)
    }
}

/// The array with all of its volumes, which grow in turn.
fn start(qos: &Qos, seed: u64) -> Result<TimedArray> {
    let config = declaration(qos);
    let prepared = Prepared::new(&drives::load(&qos.published.drive)?)?;
    let pieces: Vec<Config> = (1..=bed::PIECES).map(|piece| bed::grown(&config, piece)).collect();
    TimedArray::start_on(&pieces, Drives::alike(&config, &prepared), seed)
}

/// Runs it. What the array can do is taken from the model: the drives are the same.
pub(super) fn run(qos: &Qos, seed: u64, stop: &Stop) -> Result<Run> {
    let with_array = || qos.experiments.iter().filter(|e| e.forms.contains(&Form::Array));
    let at_nodes: Vec<usize> = qos.array_nodes.iter().flat_map(|shape| shape.nodes.clone()).collect();
    let progress = Progress::new((with_array().count() + at_nodes.len()) as u64 + 1);
    progress.step("what the array can do, in the model");
    let bed = bed::make(qos, Shape::published(qos), seed)?;
    let capacity = capacity::measure(qos, &bed, seed, stop)?;
    let mut courses = Vec::new();
    for script in with_array().map(|experiment| Script::of(qos, experiment, Form::Array, capacity.all())) {
        if stop.is_asked() {
            continue;
        }
        progress.step(&format!("{}, over iSCSI", script.title));
        courses.push(played(qos, &script, seed)?);
    }
    let mut nodes = Vec::new();
    for count in at_nodes {
        if stop.is_asked() {
            continue;
        }
        progress.step(&format!("one array at {count} nodes, as processes"));
        nodes.extend(unless_abandoned(at_processes(qos, count, (seed, stop)))?);
    }
    progress.end();
    Ok(Run { capacity, courses, nodes, extras: None, stopped: stop.is_asked() })
}

/// The nodes are processes of this program.
fn at_processes(qos: &Qos, nodes: usize, how: (u64, &Stop)) -> Result<array_nodes::Course> {
    let shape = qos.array_nodes.as_ref().context("the scenario has no array_nodes")?;
    let program = std::env::current_exe().context("the path of this program")?;
    array_nodes::play_real(qos, (shape, nodes), &program, how)
}

fn played(qos: &Qos, script: &Script, seed: u64) -> Result<Course> {
    let mut standing = start(qos, seed)?;
    let (array, listen) = (standing.control(), standing.listen());
    let (qos, script) = (qos.clone(), script.clone());
    let options = world_real::Options { seed, ..world_real::Options::default() };
    let hosts = world_real::start("initiators", options, move |world| async move {
        let hosts = Hosts::new(&qos, &world, (script.loads.len(), script.hosts), Form::Array);
        let vms = log_in(&world, &script, listen).await?;
        let stage = Stage {
            qos: &qos,
            place: "real",
            world,
            array: RefCell::new(array),
            hosts,
            vms,
            form: Form::Array,
            kill: &|_| {},
        };
        stage.play(&script).await
    })?;
    hosts.join().map_err(|_| anyhow!("the initiators have panicked"))??
}

/// A session for each VM.
async fn log_in(world: &World, script: &Script, listen: SocketAddr) -> Result<Vec<Rc<Vm>>> {
    let mut vms = Vec::new();
    for (number, load) in script.loads.iter().enumerate() {
        let login = Options::new(listen, &initiator(number), bed::TARGET, number as u32 + 1);
        let session = Session::login(world, &login).await.with_context(|| initiator(number))?;
        let disk = Disk::open(world.clone(), session, Lun(0)).await?;
        let len = disk.capabilities().await?.len_bytes;
        let walk = play::walk(world, load, len, number)?;
        vms.push(Rc::new(Vm::new(world, Route::Session(disk), walk, load.access.size)));
    }
    Ok(vms)
}
