//! The service loop of a controller: it takes what is asked of the controller and has it done. All that
//! controllers do is below it, and calls nothing of it.

mod absent;
mod apply;
mod later;
mod observe;
mod prepare_pools;
mod stages;
mod stop;

use std::collections::BTreeMap;
use std::rc::Rc;

use raid::Overwrite;
use scsi::HostView;
use world::World;

use crate::config::{GroupId, Identities, NotOpen};
use crate::control::{Control, ControlError, Reply};
use crate::controller::{Controller, Events};
use crate::front_ends::LocalPort;
use crate::hosts::{announce, hold, list_ports, remote_nexus};
use crate::mailbox::{ControllerHandle, Mailbox, Message};
use crate::policies::take_parts;
use crate::trace::{name_drives, send_traces};
use crate::{groups, images, pools};

pub use absent::answer_for_absent;

/// Runs a controller until it is told to stop. `handles` are those of all controllers, in order.
pub async fn run_controller(world: World, index: usize, mailbox: Mailbox, handles: Vec<ControllerHandle>) {
    run_with_local_port(world, index, mailbox, handles).1.await;
}

/// Like [`run_controller`], with a port for hosts on the controller's own thread.
pub fn run_with_local_port(
    world: World,
    index: usize,
    mailbox: Mailbox,
    handles: Vec<ControllerHandle>,
) -> (LocalPort, impl Future<Output = ()>) {
    let events = Events::new(world.clone(), handles.len(), mailbox.events.clone());
    let controller = Rc::new(Controller::new(world, (index, handles), events));
    let mut life = [0; 2];
    let of_this = format!("array.life.{}", controller.world.now().0);
    controller.world.random(&of_this).fill(&mut life);
    controller.state.borrow_mut().nexuses.begin_at(u16::from_le_bytes(life));
    if let Some(nodes) = &mailbox.nodes {
        controller.state.borrow_mut().nodes = nodes.clone();
        list_ports(&controller);
    }
    if let Some(traces) = &mailbox.traces {
        send_traces(&controller, traces.clone());
    }
    if let Some(moves) = &mailbox.moves {
        _ = controller.moves.set(moves.clone());
    }
    (LocalPort(controller.clone()), serve(controller, mailbox))
}

async fn serve(controller: Rc<Controller>, mailbox: Mailbox) {
    while let Some(message) = mailbox.next().await {
        match message {
            Message::Control(Control::Stop { grace }, reply) => {
                let stopped = stop::stop(&controller, grace).await;
                if !mailbox.lasts {
                    mailbox.close();
                }
                let _ = reply.send(stopped);
                break;
            }
            Message::Control(control, reply) => {
                if let Control::Nodes(nodes) = &control {
                    // Here, since tasks take their turns in any order: the last one counts.
                    controller.state.borrow_mut().nodes = nodes.clone();
                }
                let own = controller.clone();
                controller.world.spawn(async move {
                    let _ = reply.send(perform(&own, control).await);
                });
            }
            message if controller.has_begun() => carry_out(&controller, message),
            message => controller.keep_early(message),
        }
    }
}

/// What hosts send at the ports of other controllers.
fn carry_out(controller: &Rc<Controller>, message: Message) {
    let (world, carried) = (&controller.world, controller.carried.clone());
    match message {
        Message::Execute { nexus, lun, request, reply } => {
            let (seen, controller) = (remote_nexus(controller, &nexus), controller.clone());
            world.spawn(async move {
                let mut response = seen.view.execute(lun, request).await;
                if let Some(trace) = &mut response.trace {
                    name_drives(&controller, trace);
                }
                let _ = reply.send(response);
                drop(carried);
            });
        }
        Message::Manage { nexus, function, reply } => {
            let seen = remote_nexus(controller, &nexus);
            world.spawn(async move {
                let _ = reply.send(seen.view.manage(function).await);
                drop(carried);
            });
        }
        Message::Copy { nexus, request, reply } => {
            let seen = remote_nexus(controller, &nexus);
            world.spawn(async move {
                let _ = reply.send(seen.view.serve_copy(request).await);
                drop(carried);
            });
        }
        Message::Open { nexus } => drop(remote_nexus(controller, &nexus)),
        Message::Close { nexus } => {
            controller.state.borrow_mut().nexuses.end(nexus.id);
        }
        Message::Control(..) => unreachable!("the mailbox loop handles it"),
    }
}

async fn perform(controller: &Rc<Controller>, control: Control) -> Result<Reply, ControlError> {
    match control {
        Control::Nodes(_)
        | Control::Forget(_)
        | Control::Hold(_)
        | Control::Announce(_)
        | Control::Arrived
        | Control::StopJobs
        | Control::EndSessions { .. } => {
            heed(controller, control).await;
            Ok(Reply::Done(vec![]))
        }
        Control::MakeReady(pool) => pools::make_ready(controller, &pool).await.map(|()| Reply::Done(vec![])),
        Control::ReleasePool(pool) => {
            let (lus, found) = pools::release_pool(controller, &pool).await?;
            Ok(Reply::Released(lus, found))
        }
        Control::Release(config) => groups::release(controller, &config).await.map(Reply::Done),
        Control::Prepare { config, made, arrival } => {
            controller.was_prepared.set(true);
            apply::prepare(controller, &config, (made, arrival)).await
        }
        Control::Commit(_) if !controller.was_prepared.get() => Ok(Reply::Done(vec![])),
        Control::Commit(config) => {
            let done = apply::commit(controller, config).await.map(Reply::Done);
            // They find their logical units now.
            controller.begin().into_iter().for_each(|message| carry_out(controller, message));
            done
        }
        Control::Undo(config) => apply::undo(controller, config).await.map(|()| Reply::Done(vec![])),
        Control::GroupIds(names) => Ok(named(group_ids(&controller.world, names))),
        Control::AtNextStart(config) => Ok(Reply::Done(later::told(controller, &config).await)),
        Control::ImageFormats(config) => Ok(Reply::Formats(images::formats(controller, &config).await)),
        Control::DeleteVolume { pool, name } => {
            pools::delete_volume(controller, &(pool, name)).await.map(Reply::Done)
        }
        Control::CloneVolume { from, to } => {
            pools::clone_volume(controller, &from, &to).await.map(Reply::Done)
        }
        Control::ReplaceDrive { group, old, new, overwrite } => {
            let overwrite = if overwrite { Overwrite::Foreign } else { Overwrite::Nothing };
            groups::replace_drive(controller, (&group, &old, &new), overwrite).await.map(Reply::Done)
        }
        Control::Scrub(group) => groups::scrub(controller, &group).map(Reply::Done),
        Control::SteerWork { group, steer } => groups::steer(controller, &group, steer).map(Reply::Done),
        Control::Rebalance(pool) => pools::rebalance(controller, &pool).map(Reply::Done),
        Control::Reclaim(volume) => pools::reclaim(controller, &volume).map(Reply::Done),
        Control::DeletePool(pool) => pools::delete(controller, &pool).await.map(Reply::Done),
        Control::MayDeleteGroup(name) => groups::may_delete(controller, &name).await.map(Reply::Done),
        Control::DeleteGroup { name, deleted } => {
            groups::delete(controller, &name, &deleted).await.map(Reply::Done)
        }
        Control::ExportPool(pool) => pools::export(controller, &pool).await.map(Reply::Done),
        Control::ImportPool { drives, force } => {
            pools::import(controller, &drives, force).await.map(|i| Reply::Imported(Box::new(i)))
        }
        Control::FinishExport { name, drives } => {
            pools::finish_export(controller, &name, &drives).await.map(Reply::Done)
        }
        Control::GiveBack { drives, owners } => {
            pools::give_back(controller, (&drives, &owners)).await.map(Reply::Done)
        }
        Control::PolicyParts(parts) => Ok(Reply::PolicyDemand(take_parts(controller, parts))),
        Control::Ping => Ok(Reply::Done(vec![])),
        Control::Status => Ok(Reply::Status(Box::new(observe::status(controller, true).await))),
        Control::Overview => Ok(Reply::Status(Box::new(observe::status(controller, false).await))),
        Control::Stop { .. } => unreachable!("the mailbox loop handles it"),
    }
}

/// What cannot fail, and has no answer.
async fn heed(controller: &Rc<Controller>, control: Control) {
    match control {
        Control::Nodes(_) => list_ports(controller),
        Control::Forget(other) => controller.state.borrow_mut().nexuses.forget(other),
        Control::Hold(volumes) => hold(controller, volumes).await,
        Control::Announce(owner) => announce(controller, owner).await,
        Control::Arrived => pools::arrived(controller),
        Control::StopJobs => controller.jobs.stop_all(),
        Control::EndSessions { grace } => stop::end_sessions(controller, grace).await,
        _ => unreachable!("it is performed"),
    }
}

fn named(ids: BTreeMap<String, GroupId>) -> Reply {
    Reply::Prepared(vec![], Identities { groups: ids, ..Default::default() }, NotOpen::default())
}

/// An identity for each group: with the time, so that a group made again under its old name is another one.
fn group_ids(world: &World, names: Vec<String>) -> BTreeMap<String, GroupId> {
    let id = |name: String| {
        let mut id = [0; 16];
        world.random(&format!("array.group.{name}.{}", world.now().0)).fill(&mut id);
        (name, GroupId(id))
    };
    names.into_iter().map(id).collect()
}
