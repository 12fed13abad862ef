//! A controller: one thread that owns its ports, drives, groups, pools and LUs.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use iscsi::target::LoginRefusal;
use pool::Pool;
use raid::{Group, GroupId, Overwrite};
use scsi::{TargetPort, Tokens, View, ViewSpec};
use world::{Instant, World};

use crate::Disk;
use crate::config::Config;
use crate::control::{Control, ControlError, ControllerHandle, Mailbox, Message, Reply};
use crate::crossing::RemoteNexus;
use crate::event::{Event, EventSender, Severity};
use crate::hosts::{Seen, initiator_port, target_port};
use crate::images::{all_images, close_images};
use crate::index::Index;
use crate::jobs::JobKind;
use crate::local::LocalPort;
use crate::observe::status;
use crate::often::Often;
use crate::slices::Slices;
use crate::state::State;
use crate::watch::Watch;
use crate::{apply, groups, jobs, pools, travel, upkeep, volumes};

/// One controller. Everything in it lives on its thread.
pub(crate) struct Controller {
    pub(crate) world: World,
    pub(crate) index: usize,
    handles: Vec<ControllerHandle>,
    tokens: Rc<Tokens<Disk>>,
    pub(crate) state: RefCell<State>,
    /// When it started, and the processor time that its thread had used then.
    pub(crate) started: (Instant, Duration),
    stopping: Cell<bool>,
    /// Who keeps the events.
    events: Option<EventSender>,
    /// What declared hosts can cause as often as they like.
    of_hosts: RefCell<Often>,
    /// What anybody can.
    of_strangers: RefCell<Often>,
}

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
    let started = (world.now(), world.cpu_time());
    let controller = Rc::new(Controller {
        tokens: Rc::new(Tokens::new(world.clone())),
        world,
        index,
        of_hosts: RefCell::new(Often::new(handles.len())),
        of_strangers: RefCell::new(Often::new(handles.len())),
        handles,
        state: RefCell::new(State::new()),
        started,
        stopping: Cell::new(false),
        events: mailbox.events.clone(),
    });
    (LocalPort(controller.clone()), controller.run(mailbox))
}

impl Controller {
    async fn run(self: Rc<Self>, mailbox: Mailbox) {
        while let Ok(message) = mailbox.messages.recv().await {
            match message {
                Message::Control(Control::Stop { grace }, reply) => {
                    let stopped = self.stop(grace).await;
                    mailbox.messages.close();
                    let _ = reply.send(stopped);
                    break;
                }
                Message::Control(control, reply) => {
                    let controller = self.clone();
                    self.world.spawn(async move {
                        let _ = reply.send(controller.perform(control).await);
                    });
                }
                Message::Execute { nexus, lun, request, reply } => {
                    let seen = self.remote_nexus(&nexus);
                    self.world.spawn(async move {
                        let _ = reply.send(seen.view.execute(lun, request).await);
                    });
                }
                Message::Manage { nexus, function, reply } => {
                    let seen = self.remote_nexus(&nexus);
                    self.world.spawn(async move {
                        let _ = reply.send(seen.view.manage(function).await);
                    });
                }
                Message::Close { nexus } => {
                    self.state.borrow_mut().nexuses.remove(nexus.id);
                }
            }
        }
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        self.state.borrow().config.clone()
    }

    pub(crate) fn handle(&self, index: usize) -> &ControllerHandle {
        &self.handles[index]
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = &ControllerHandle> {
        self.handles.iter().filter(|h| h.index != self.index)
    }

    /// Tells an event: the status shows the last ones, the data directory keeps them.
    pub(crate) fn event(&self, event: Event) {
        if let Some(events) = &self.events {
            events.tell(event.clone());
        }
        self.state.borrow_mut().note(event);
    }

    /// Tells what a declared host caused, or a stranger, to who keeps events, and does not show it in the status: there may be many.
    pub(crate) fn tell(&self, event: Event, is_host: bool) {
        let Some(events) = &self.events else { return };
        let often = if is_host { &self.of_hosts } else { &self.of_strangers };
        let event = often.borrow_mut().admit(event, self.world.now());
        event.into_iter().for_each(|event| events.tell(event));
    }

    /// Tells an event that happened as it should, as a line that begins with its object: `group g0: …`.
    pub(crate) fn note(&self, line: String) {
        self.event(Event::of_line(&line));
    }

    /// The same for what is to be looked at.
    pub(crate) fn warn(&self, line: String) {
        self.event(Event { severity: Severity::Warning, ..Event::of_line(&line) });
    }

    /// The same where something is not served, or data are in danger.
    pub(crate) fn alarm(&self, line: String) {
        self.event(Event { severity: Severity::Error, ..Event::of_line(&line) });
    }

    /// Tells an event that would be told again and again, once.
    pub(crate) fn once(&self, severity: Severity, line: String) {
        let event = Event { severity, ..Event::of_line(&line) };
        if !self.state().has_noted(&event) {
            self.event(event);
        }
    }

    /// Reads and compares everything on a group, as a job.
    fn scrub(self: &Rc<Self>, name: &str) -> Result<Vec<String>, ControlError> {
        let group = self.state().groups.get(name).cloned();
        let group = group
            .ok_or_else(|| ControlError::at(format!("group {name:?}"))(&"there is no such group here"))?;
        let (controller, object) = (self.clone(), name.to_owned());
        let begun = crate::jobs::begin(self, (JobKind::Scrub, name), 0, async move |job| {
            let throttle = upkeep::throttle_of_job(&controller, &object, job);
            drop(controller);
            match group.scrub(&throttle).await {
                Ok(s) if !s.complete => {
                    Ok(format!("group {object}: the scrub was stopped after {} bytes", s.compared_bytes))
                }
                Ok(s) if s.differing > 0 || s.unrepaired > 0 => Err(scrub_line(&object, &s)),
                Ok(s) => Ok(scrub_line(&object, &s)),
                Err(e) => Err(format!("group {object}: the scrub ended: {e}")),
            }
        });
        let what = if begun { "is being scrubbed" } else { "is being scrubbed already" };
        Ok(vec![format!("group {name}: {what}")])
    }

    /// An identity for each group: with the time, so that a group made again under its old name is another one.
    fn group_ids(&self, names: Vec<String>) -> BTreeMap<String, GroupId> {
        let id = |name: String| {
            let mut id = [0; 16];
            self.world.random(&format!("array.group.{name}.{}", self.world.now().0)).fill(&mut id);
            (name, GroupId(id))
        };
        names.into_iter().map(id).collect()
    }

    async fn perform(self: &Rc<Self>, control: Control) -> Result<Reply, ControlError> {
        match control {
            Control::Release(config) => groups::release(self, &config).await.map(Reply::Done),
            Control::Prepare { config, made } => apply::prepare(self, &config, made).await,
            Control::Commit(config) => apply::commit(self, config).await.map(Reply::Done),
            Control::Undo(config) => apply::undo(self, config).await.map(|()| Reply::Done(vec![])),
            Control::GroupIds(names) => Ok(Reply::Prepared(vec![], self.group_ids(names))),
            Control::ImageFormats(config) => Ok(Reply::Formats(crate::images::formats(self, &config).await)),
            Control::DeleteVolume(name) => volumes::delete_volume(self, &name).await.map(Reply::Done),
            Control::CloneVolume { from, to } => {
                volumes::clone_volume(self, &from, &to).await.map(Reply::Done)
            }
            Control::ReplaceDrive { group, old, new, overwrite } => {
                let config = self.config();
                let overwrite = if overwrite { Overwrite::Foreign } else { Overwrite::Nothing };
                groups::replace_drive(self, &config, (&group, &old, &new), overwrite).await.map(Reply::Done)
            }
            Control::Scrub(group) => self.scrub(&group).map(Reply::Done),
            Control::SteerWork { group, steer } => upkeep::steer(self, &group, steer).map(Reply::Done),
            Control::Rebalance(pool) => pools::rebalance(self, &pool).map(Reply::Done),
            Control::Reclaim(volume) => pools::reclaim(self, &volume).map(Reply::Done),
            Control::StopJobs => {
                self.state().jobs.stop_all();
                Ok(Reply::Done(vec![]))
            }
            Control::ExportPool(pool) => travel::export(self, &pool).await.map(Reply::Done),
            Control::ImportPool { drives, force } => {
                travel::import(self, &drives, force).await.map(|i| Reply::Imported(Box::new(i)))
            }
            Control::Ping => Ok(Reply::Done(vec![])),
            Control::Status => Ok(Reply::Status(Box::new(status(self, true).await))),
            Control::Overview => Ok(Reply::Status(Box::new(status(self, false).await))),
            Control::Stop { .. } => unreachable!("the mailbox loop handles it"),
        }
    }

    /// Opens the nexus of a session at one of this controller's ports.
    pub(crate) fn open_nexus(
        &self,
        initiator: &str,
        isid: [u8; 6],
        portal_group: u16,
    ) -> Result<Rc<Seen>, LoginRefusal> {
        if self.stopping.get() {
            return Err(LoginRefusal::ServiceUnavailable);
        }
        let id = self.state.borrow_mut().nexuses.fresh_id(self.index);
        let target = self.config().target.clone();
        let nexus = RemoteNexus {
            id,
            initiator: initiator_port(initiator, isid),
            port: target_port(&target, portal_group),
        };
        self.admit(nexus, true).ok_or(LoginRefusal::NotAllowed)
    }

    /// The nexus of a session at another controller's port, made when its first command crosses.
    fn remote_nexus(&self, nexus: &RemoteNexus) -> Rc<Seen> {
        let known = self.state.borrow().nexuses.get(nexus.id);
        known.unwrap_or_else(|| {
            // A host that was removed a moment ago sees nothing.
            self.admit(nexus.clone(), false).unwrap_or_else(|| self.empty_view(nexus.clone()))
        })
    }

    fn admit(&self, nexus: RemoteNexus, local: bool) -> Option<Rc<Seen>> {
        let config = self.config();
        let host = config.host_of(&nexus.initiator.name)?;
        let seen = Rc::new(Seen::new(nexus.clone(), Some(host), self.view_of(nexus), local));
        let mut state = self.state.borrow_mut();
        let (here, elsewhere) = state.what_host_sees(host, self.index);
        seen.update(&here, elsewhere);
        state.nexuses.insert(seen.clone());
        Some(seen)
    }

    fn empty_view(&self, nexus: RemoteNexus) -> Rc<Seen> {
        Rc::new(Seen::new(nexus.clone(), None, self.view_of(nexus), false))
    }

    fn view_of(&self, nexus: RemoteNexus) -> View<Disk> {
        let config = self.config();
        let ports = (1..=config.portals.len().max(1) as u16).map(|g| target_port(&config.target, g));
        View::new(ViewSpec {
            nexus: nexus.id,
            initiator: nexus.initiator,
            port: Rc::new(nexus.port),
            ports: ports.collect::<Vec<TargetPort>>().into(),
            tokens: self.tokens.clone(),
        })
    }

    /// Ends a nexus here, and at the controllers that may have made a view for it.
    pub(crate) fn close_nexus(&self, nexus: &RemoteNexus) {
        self.state.borrow_mut().nexuses.remove(nexus.id);
        for other in self.others() {
            // A full mailbox is the only failure besides a stopped controller; then the view waits for the array's end.
            let _ = other.try_send(Message::Close { nexus: nexus.clone() });
        }
    }

    /// Makes every view what the configuration says. A session whose host is another one now, or has another secret, sees nothing any more.
    pub(crate) async fn update_views(&self, index: &Index<'_>, slices: &mut Slices) {
        let all: Vec<Rc<Seen>> = self.state().nexuses.iter().cloned().collect();
        for seen in all {
            let (mut here, mut elsewhere) = (BTreeMap::new(), Vec::new());
            slices.step(1).await;
            let luns = seen.host_in(index).map(|host| &host.luns);
            for one in luns.into_iter().flatten() {
                slices.step(1).await;
                self.state().place(one, self.index, &mut here, &mut elsewhere);
            }
            seen.update(&here, elsewhere);
        }
    }

    async fn stop(&self, grace: Duration) -> Result<Reply, ControlError> {
        self.stopping.set(true);
        let ports = self.state.borrow().ports.clone();
        ports.iter().for_each(|port| port.portal.stop());
        let deadline = self.world.now() + grace;
        while self.state.borrow().nexuses.iter().any(|seen| seen.local) && self.world.now() < deadline {
            self.world.sleep(Duration::from_millis(10)).await;
        }
        self.state().group_watches.values().for_each(Watch::end);
        self.state().pool_watches.values().for_each(Watch::end);
        self.state().image_watch.end();
        // A scrub ends with the process: it leaves nothing half done.
        jobs::stop(self, |kind, _| kind != JobKind::Scrub).await;
        self.close_all().await.map(|()| Reply::Done(vec![]))
    }

    /// Makes everything durable and says so on the drives. What fails does not keep the rest from it.
    async fn close_all(&self) -> Result<(), ControlError> {
        let mut outcome = close_images(all_images(self)).await;
        outcome = outcome.and(crate::cached::let_go(self, |_| true).await);
        if outcome.is_ok() {
            outcome = crate::cached::close_journals(self, |_| true).await;
        }
        let pools: Vec<Pool> = self.state.borrow().pools.values().cloned().collect();
        let in_pools: Vec<_> = pools.iter().flat_map(|p| p.group_spaces()).map(|g| g.id).collect();
        for pool in pools {
            let place = ControlError::at(format!("pool {:?}", pool.name()));
            outcome = outcome.and(pool.close().await.map_err(|e| place(&e)));
        }
        let groups: Vec<Group> = self.state.borrow().groups.values().cloned().collect();
        for group in groups.into_iter().filter(|g| !in_pools.contains(&g.id())) {
            let place = ControlError::at(format!("group {:?}", group.name()));
            outcome = outcome.and(group.close().await.map_err(|e| place(&e)));
        }
        outcome
    }

    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }
}

/// How a scrub ended.
fn scrub_line(group: &str, s: &raid::Scrubbed) -> String {
    let mut line = format!(
        "group {group}: scrubbed {} bytes: {} blocks did not agree, {} repaired, {} not readable and not repaired",
        s.compared_bytes, s.mismatches, s.repaired, s.unrepaired
    );
    if s.differing > 0 {
        let at: Vec<String> = s.first_differing().map(|at| at.to_string()).collect();
        let first = at.join(", ");
        line +=
            &format!("; {} not repaired, sides differ: the first at byte {first} of the group", s.differing);
    }
    line
}
