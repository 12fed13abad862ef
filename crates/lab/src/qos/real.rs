//! The same in real time: ten initiators over iSCSI, the array's controller on a thread, modelled drives that take their time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use array::config::{HostConfig, PortalConfig};
use array::{Array, Config, ControllerHandle, Lun};
use futures::executor::block_on;
use iscsi::initiator::{Options, Session};
use world::World;
use world_model::drives::Prepared;

use super::bed::{self, Shape};
use super::judge::Capacity;
use super::play::{self, Course, Nodes, Script, Stage};
use super::run::{CAPACITY_TIME, Run};
use super::scenario::{Form, Qos};
use super::vm::{Route, Vm};
use crate::drives;
use crate::hosts::Disk;
use crate::timed_drive::{Drives, world_with};
use lab_core::interrupt::Stop;
use lab_core::progress::Progress;

/// An array on modelled drives, in real time.
struct Standing {
    handles: Vec<ControllerHandle>,
    config: Config,
    thread: Option<JoinHandle<Result<(), world_real::RunError>>>,
    listen: SocketAddr,
}

fn initiator(vm: usize) -> String {
    format!("iqn.2026-11.net.masu.lab:vm{:02}", vm + 1)
}

/// Each VM is a host of its own, with its disk as LUN 0.
fn declaration(qos: &Qos) -> Config {
    let shape = Shape::published(qos);
    let host = |vm: usize| {
        HostConfig::new(bed::volume_name(vm), initiator(vm), BTreeMap::from([(Lun(0), bed::volume_name(vm))]))
    };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Config {
        portals: vec![PortalConfig { listen, controller: 0, segment_bytes_max: None }],
        hosts: (0..shape.volumes).map(host).collect(),
        ..bed::declaration(qos, shape)
    }
}

impl Standing {
    /// Starts it; whoever plays has the array, and it ends with what is standing.
    fn start(qos: &Qos, seed: u64) -> Result<(Standing, Array)> {
        let config = declaration(qos);
        let takes_time = Arc::new(AtomicBool::new(false));
        let prepared = Prepared::new(&drives::load(&qos.published.drive)?)?;
        let drives = Drives::alike(&config, &prepared, takes_time.clone());
        let (handle, mailbox) = ControllerHandle::new(0);
        let handles = vec![handle];
        let all = handles.clone();
        let options = world_real::Options { seed, ..world_real::Options::default() };
        let thread = world_real::start("controller-0", options, move |world| {
            array::run_controller(world_with(world, drives), 0, mailbox, all)
        })
        .context("the array's controller cannot start")?;
        let mut array = Array::new(handles.clone(), &config.target);
        for piece in 1..=bed::PIECES {
            block_on(array.apply(bed::grown(&config, piece))).context("the array under test")?;
        }
        takes_time.store(true, Ordering::Relaxed);
        let parts = block_on(array.status())?;
        let port = parts.iter().flat_map(|part| &part.ports).next();
        let listen = port.ok_or_else(|| anyhow!("the array under test has no port"))?.listen;
        let standing = Standing { handles, config, thread: Some(thread), listen };
        Ok((standing, array))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // Errors on the way out change nothing that was measured.
        let _ = block_on(Array::new(self.handles.clone(), &self.config.target).stop());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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
    let (standing, array) = Standing::start(qos, seed)?;
    let (qos, script, capacity, listen) = (qos.clone(), script.clone(), capacity.clone(), standing.listen);
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
