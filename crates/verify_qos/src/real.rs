//! The same in real time: ten initiators over iSCSI, the array's controller on a thread, modelled drives that
//! take their time.

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

use super::bed::{self, Shape};
use super::judge::Capacity;
use super::play::{self, Course, Nodes, Script, Stage};
use super::run::{CAPACITY_TIME, Run};
use super::scenario::{Form, Qos};
use super::vm::{Route, Vm};
use lab_core::interrupt::Stop;
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
    let scripts: Vec<Script> = qos
        .experiments
        .iter()
        .filter(|experiment| experiment.forms.contains(&Form::Array))
        .map(|experiment| Script::of(qos, experiment))
        .collect();
    let progress = Progress::new(scripts.len() as u64 + 1);
    progress.step("what the array can do, in the model");
    let bed = bed::make(qos, Shape::published(qos), seed)?;
    let capacity = play::capacity(qos, &bed, CAPACITY_TIME, seed)?;
    let mut courses = Vec::new();
    for script in &scripts {
        if stop.is_asked() {
            continue;
        }
        progress.step(&format!("{}, over iSCSI", script.title));
        courses.push(played(qos, script, &capacity, seed)?);
    }
    progress.end();
    Ok(Run { capacity, courses, extras: None, stopped: stop.is_asked() })
}

fn played(qos: &Qos, script: &Script, capacity: &Capacity, seed: u64) -> Result<Course> {
    let mut standing = start(qos, seed)?;
    let (array, listen) = (standing.control(), standing.listen());
    let (qos, script, capacity) = (qos.clone(), script.clone(), capacity.clone());
    let options = world_real::Options { seed, ..world_real::Options::default() };
    let hosts = world_real::start("initiators", options, move |world| async move {
        let nodes = Nodes::new(&qos, &world, &script, Form::Array);
        let vms = log_in(&world, &script, listen, &nodes).await?;
        let stage = Stage {
            qos: &qos,
            place: "real",
            world,
            array: RefCell::new(array),
            nodes,
            vms,
            form: Form::Array,
            capacity: &capacity,
            kill: &|_| {},
        };
        stage.play(&script).await
    })?;
    hosts.join().map_err(|_| anyhow!("the initiators have panicked"))??
}

/// A session for each VM.
async fn log_in(world: &World, script: &Script, listen: SocketAddr, nodes: &Nodes) -> Result<Vec<Rc<Vm>>> {
    let mut vms = Vec::new();
    for (number, load) in script.loads.iter().enumerate() {
        let login = Options::new(listen, &initiator(number), bed::TARGET, number as u32 + 1);
        let session = Session::login(world, &login).await.with_context(|| initiator(number))?;
        let disk = Disk::open(world.clone(), session, Lun(0)).await?;
        let len = disk.capabilities().await?.len_bytes;
        let walk = play::walk(world, load, len, number)?;
        let mut vm = Vm::new(world, Route::Session(disk), walk, load.access.size);
        vm.node = nodes.of(number);
        vms.push(Rc::new(vm));
    }
    Ok(vms)
}
