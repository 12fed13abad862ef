//! Monitoring of groups: probes drives, assigns spares to vacant positions, starts rebuilds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use pool::Pool;
use raid::{Group, GroupError, GroupEvent, GroupState, MemberState, MemberStatus};
use world::Drive;

use super::drives::{leave_to_others, probe};
use super::pulled::Pulled;
use super::resync::resync_task;
use super::returns::{RETURNS_IN, RETURNS_MAX, Returns};
use super::spares::{spare_turn, spares_by_size};
use super::work::throttle;
use crate::controller::{Controller, Watch};
use crate::event::{Event, Severity};

/// Interval of probes. I/O detects the failure of a busy drive; a probe detects that of an idle one.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A monitored group.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) controller: Rc<Controller>,
    pub(super) name: String,
    pub(super) group: Group,
    /// Free pages are being zeroed before the rebuild starts.
    preparing: Rc<Cell<bool>>,
    /// What lies on the group has been recovered, so that mirrors may be made equal.
    pub(super) recovered: Rc<Cell<bool>>,
    /// Positions with an unanswered probe.
    asked: Rc<RefCell<BTreeSet<u32>>>,
    pub(super) returns: Rc<RefCell<Returns>>,
    pub(super) pulled: Rc<Pulled>,
    /// The last field, so that the group is already dropped for whoever waits for the watch.
    pub(super) watch: Watch,
}

/// Starts the monitoring of a group that was opened.
pub(crate) fn begin_upkeep(controller: &Rc<Controller>, name: &str, group: Group) {
    let watch = Watch::default();
    controller.state.borrow_mut().group_watches.insert(name.to_owned(), watch.clone());
    let recovered = Rc::new(Cell::new(!group.status().reads_pinned));
    let kept = || {
        let (controller, name) = (controller.clone(), name.to_owned());
        Kept {
            controller,
            name,
            group: group.clone(),
            preparing: Rc::default(),
            recovered: recovered.clone(),
            asked: Rc::default(),
            returns: Rc::default(),
            pulled: Rc::default(),
            watch: watch.clone(),
        }
    };
    controller.world.spawn(resync_task(kept()));
    controller.world.spawn(upkeep_task(kept()));
}

/// Handles the events of a group and monitors its drives, as long as the controller has it.
async fn upkeep_task(kept: Kept) {
    kept.take_back_stale().await;
    kept.begin_rebuild();
    loop {
        let tick = select(Box::pin(kept.group.next_event()), kept.controller.world.sleep(PROBE_INTERVAL));
        match select(tick, Box::pin(kept.watch.ended())).await {
            Either::Right(_) => return,
            Either::Left((Either::Left((event, _)), _)) => kept.heed(event).await,
            Either::Left((Either::Right(_), _)) => {
                kept.probe();
                kept.take_back_silent().await;
                kept.look_for_pulled();
                kept.fill_places().await;
                // A rebuild that ended with an error is started again.
                if kept.group.status().rebuild.is_some() {
                    kept.begin_rebuild();
                }
            }
        }
    }
}

impl Kept {
    async fn heed(&self, event: GroupEvent) {
        let (name, note) = (&self.name, |text| self.controller.events.note(text));
        match event {
            GroupEvent::DriveFailed { position, drive, cause } => {
                let state = self.group.status().state;
                let severity = if state == GroupState::Failed { Severity::Error } else { Severity::Warning };
                let state = format!("{state:?}").to_lowercase();
                let told =
                    format!("group {name}: drive {drive} at position {position} failed: {cause}; {state}");
                self.controller.events.event(Event { severity, ..Event::of_line(&told) });
                self.fill_places().await;
            }
            GroupEvent::DriveReplaced { position, drive } => {
                note(format!("group {name}: drive {drive} takes position {position}; rebuild started"));
                self.prepare_rebuild();
            }
            GroupEvent::Rebuilt { position } => {
                note(format!("group {name}: position {position} is in sync again"))
            }
            GroupEvent::Lost { at, len } => {
                let told = format!(
                    "group {name}: {len} bytes at {at} are lost; reads return an error until \
                    they are written again"
                );
                self.controller.events.alarm(told);
            }
        }
    }

    /// The open drive of a member.
    fn drive_of(&self, member: &MemberStatus) -> Option<Drive> {
        let state = self.controller.state();
        state.drives.values().find(|d| Some(&d.info().name) == member.drive.as_ref()).cloned()
    }

    /// Probes every drive of the group.
    fn probe(&self) {
        let takes_part = |m: &&MemberStatus| matches!(m.state, MemberState::Active | MemberState::Rebuilding);
        for member in self.group.status().members.iter().filter(takes_part) {
            let Some(drive) = self.drive_of(member) else { continue };
            drive.set_patience(self.controller.config().patience_of(&drive.info().name));
            // One probe per drive at a time, in its own task, so that events are handled meanwhile.
            if !self.asked.borrow_mut().insert(member.position) {
                continue;
            }
            let (kept, position) = (self.clone(), member.position);
            self.controller.world.spawn(async move {
                let answer = probe(&kept.controller.world, &drive).await;
                kept.asked.borrow_mut().remove(&position);
                if let Err(error) = answer {
                    kept.pulled.note(position, &error);
                    // The group raises an event if it fails without this drive.
                    let _ = kept.group.drop_drive(position, &error).await;
                }
            });
        }
    }

    /// Drives that were dropped as unresponsive and answer again take their positions again, a few times.
    async fn take_back_silent(&self) {
        if self.controller.state().replacing.contains(&self.name) {
            return;
        }
        let dropped = |m: &&MemberStatus| m.dropped_silent;
        for member in self.group.status().members.iter().filter(dropped) {
            let (position, now) = (member.position, self.controller.world.now());
            let Some(drive) = self.drive_of(member).filter(|d| !d.has_given_up()) else { continue };
            if self.flaps(position, &drive) {
                continue;
            }
            if probe(&self.controller.world, &drive).await.is_err() {
                continue;
            }
            self.returns.borrow_mut().note(position, now);
            self.tell_return((position, &drive, "answers again"), self.group.take_back(position).await);
        }
    }

    /// Whether a drive is flapping; raises an event if so.
    pub(super) fn flaps(&self, position: u32, drive: &Drive) -> bool {
        let flaps = self.returns.borrow_mut().is_flapping(position, self.controller.world.now());
        if flaps {
            self.controller.events.once(
                Severity::Warning,
                format!(
                    "group {}: drive {} at position {position} is flapping: it returned {RETURNS_MAX} times \
                     in {} min, and is not used any more; exchange it with masu group replace",
                    self.name,
                    drive.info().name,
                    RETURNS_IN.as_secs() / 60
                ),
            );
        }
        flaps
    }

    /// Raises the event for a returned drive: how much of it is rebuilt.
    pub(super) fn tell_return(
        &self,
        (position, drive, how): (u32, &Drive, &str),
        outcome: Result<Option<u64>, GroupError>,
    ) {
        let (name, medium) = (&self.name, &drive.info().name);
        match outcome {
            Ok(missed) => {
                let filled = missed.map_or("a full rebuild".to_owned(), |bytes| {
                    format!("a rebuild of {bytes} bytes that changed meanwhile")
                });
                self.controller.events.note(format!(
                    "group {name}: drive {medium} at position {position} {how}; {filled} started"
                ));
            }
            Err(error) => self.controller.events.once(
                Severity::Warning,
                format!(
                    "group {name}: position {position} remains without a drive: \
                    {error}"
                ),
            ),
        }
    }

    /// Takes back a drive that missed changes while it was away.
    async fn take_back_stale(&self) {
        for member in self.group.status().members.iter().filter(|m| m.state == MemberState::Stale) {
            let Some(drive) = self.drive_of(member) else { continue };
            if let Err(error) = self.group.replace(member.position, drive).await {
                let (name, position) = (&self.name, member.position);
                self.controller
                    .events
                    .warn(format!("group {name}: position {position} remains without a drive: {error}"));
            }
        }
    }

    /// Assigns the smallest suitable spares to positions without a drive.
    async fn fill_places(&self) {
        if self.controller.state().replacing.contains(&self.name) {
            return;
        }
        let empty = |m: &&MemberStatus| matches!(m.state, MemberState::Missing | MemberState::Failed);
        let members = self.group.status().members;
        for place in members.iter().filter(empty) {
            self.fill_place(place.position).await;
        }
    }

    async fn fill_place(&self, position: u32) {
        let (controller, name) = (&self.controller, &self.name);
        let mut taken = false;
        let _turn = spare_turn(controller).await;
        for (_, spare, drive) in spares_by_size(controller).await {
            if taken || self.watch.has_ended() {
                leave_to_others(controller, &spare);
                continue;
            }
            // The second group to ask for a spare finds it labelled and is refused. A spare with erasable
            // content was erased when it was declared.
            match self.group.replace(position, drive).await {
                Ok(()) => {
                    taken = true;
                    controller.state.borrow_mut().spares.retain(|s| *s != spare);
                    controller.events.note(format!("group {name}: spare {spare} takes position {position}"));
                }
                Err(error) => {
                    leave_to_others(controller, &spare);
                    let told = format!("group {name}: spare {spare} cannot be used: {error}");
                    controller.events.once(Severity::Warning, told);
                }
            }
        }
    }

    /// Lets the group's pool zero its free pages, if that is cheap, so that the rebuild does not copy them;
    /// then starts the rebuild.
    fn prepare_rebuild(&self) {
        let pool = {
            let state = self.controller.state();
            let has = |p: &&Pool| p.group_spaces().iter().any(|g| g.id == self.group.id());
            state.pools.values().find(has).cloned()
        };
        let Some(pool) = pool.filter(|_| !self.preparing.get()) else { return self.begin_rebuild() };
        self.preparing.set(true);
        let kept = self.clone();
        self.controller.world.spawn(async move {
            if let Err(error) = pool.clean_free_pages(kept.group.id()).await {
                let told = format!("group {}: the rebuild also copies free pages: {error}", kept.name);
                kept.controller.events.once(Severity::Warning, told);
            }
            drop(pool);
            kept.preparing.set(false);
            kept.begin_rebuild();
        });
    }

    /// Starts a rebuild. A running rebuild also takes up new members. It makes the mirrors equal first, so it
    /// waits for what the resync waits for.
    fn begin_rebuild(&self) {
        if self.preparing.get() || !self.recovered.get() {
            return;
        }
        let (controller, name) = (self.controller.clone(), self.name.clone());
        let (group, watch) = (self.group.clone(), self.watch.clone());
        self.controller.world.spawn(async move {
            let _held = watch;
            if let Err(error) = group.rebuild(&throttle(&controller, &name)).await {
                controller.events.once(Severity::Warning, format!("group {name}: rebuild failed: {error}"));
            }
            drop(group);
        });
    }
}
