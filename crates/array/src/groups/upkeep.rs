//! What keeps groups whole: drives are asked whether they are there, spares take the places of those that are not, what is to be
//! filled is filled.

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
use super::returns::{RETURNS_IN, RETURNS_MAX, Returns};
use super::spares::{spare_turn, spares_by_size};
use super::work::throttle;
use crate::controller::{Controller, Watch};
use crate::event::{Event, Severity};

/// Drives are asked this often: a drive that is gone is found by its I/O, an idle one by this.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A group that is looked after.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) controller: Rc<Controller>,
    pub(super) name: String,
    pub(super) group: Group,
    /// Free pages are being zeroed for a rebuild that begins then.
    preparing: Rc<Cell<bool>>,
    /// Positions whose drives have not answered yet whether they are there.
    asked: Rc<RefCell<BTreeSet<u32>>>,
    pub(super) returns: Rc<RefCell<Returns>>,
    pub(super) pulled: Rc<Pulled>,
    /// Last, so that whoever waits for the watch finds the group let go.
    pub(super) watch: Watch,
}

/// Begins the upkeep of a group that was opened.
pub(crate) fn begin_upkeep(controller: &Rc<Controller>, name: &str, group: Group) {
    let watch = Watch::default();
    controller.state.borrow_mut().group_watches.insert(name.to_owned(), watch.clone());
    let kept = || {
        let (controller, name) = (controller.clone(), name.to_owned());
        Kept {
            controller,
            name,
            group: group.clone(),
            preparing: Rc::default(),
            asked: Rc::default(),
            returns: Rc::default(),
            pulled: Rc::default(),
            watch: watch.clone(),
        }
    };
    controller.world.spawn(resync_task(kept()));
    controller.world.spawn(upkeep_task(kept()));
}

/// Brings mirrors together again that a power cut may have left different.
async fn resync_task(kept: Kept) {
    let Kept { controller, name, group, .. } = &kept;
    if !group.status().reads_pinned {
        return;
    }
    controller.events.note(format!("group {name}: mirrors are compared after an unclean stop"));
    let ended = group.resync(&throttle(controller, name)).await;
    match ended {
        Ok(written) => {
            controller.events.note(format!("group {name}: mirrors are equal again, {written} bytes differed"))
        }
        Err(e) => controller.events.warn(format!("group {name}: mirrors could not be compared: {e}")),
    }
}

/// Listens to a group and looks after its drives, as long as the controller has it.
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
                // One that ended with an error is taken up again.
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
                note(format!("group {name}: drive {drive} takes position {position}, it is rebuilt"));
                self.prepare_rebuild();
            }
            GroupEvent::Rebuilt { position } => {
                note(format!("group {name}: position {position} is whole again"))
            }
            GroupEvent::Lost { at, len } => {
                let told = format!("group {name}: {len} bytes at {at} are lost until they are written again");
                self.controller.events.alarm(told);
            }
        }
    }

    /// The drive that a member is, when it is open.
    fn drive_of(&self, member: &MemberStatus) -> Option<Drive> {
        let state = self.controller.state();
        state.drives.values().find(|d| Some(&d.info().name) == member.drive.as_ref()).cloned()
    }

    /// Asks every drive of the group whether it is there.
    fn probe(&self) {
        let takes_part = |m: &&MemberStatus| matches!(m.state, MemberState::Active | MemberState::Rebuilding);
        for member in self.group.status().members.iter().filter(takes_part) {
            let Some(drive) = self.drive_of(member) else { continue };
            drive.set_patience(self.controller.config().patience());
            // One at a time, and nobody waits for it: events are heeded meanwhile.
            if !self.asked.borrow_mut().insert(member.position) {
                continue;
            }
            let (kept, position) = (self.clone(), member.position);
            self.controller.world.spawn(async move {
                let answer = probe(&kept.controller.world, &drive).await;
                kept.asked.borrow_mut().remove(&position);
                if let Err(error) = answer {
                    kept.pulled.note(position, &error);
                    // The group tells when it cannot go on without it.
                    let _ = kept.group.drop_drive(position, &error).await;
                }
            });
        }
    }

    /// Drives that were dropped because they did not answer take their places again when they do: a few times.
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

    /// Whether a drive came back too often lately; that is told.
    pub(super) fn flaps(&self, position: u32, drive: &Drive) -> bool {
        let flaps = self.returns.borrow_mut().is_flapping(position, self.controller.world.now());
        if flaps {
            self.controller.events.once(
                Severity::Warning,
                format!(
                    "group {}: drive {} at position {position} came back {RETURNS_MAX} times in {} min, and stays out now; \
                     exchange it: masu group replace",
                    self.name,
                    drive.info().name,
                    RETURNS_IN.as_secs() / 60
                ),
            );
        }
        flaps
    }

    /// Says what became of a drive that came back: with how many bytes it is filled, or anew.
    pub(super) fn tell_return(
        &self,
        (position, drive, how): (u32, &Drive, &str),
        outcome: Result<Option<u64>, GroupError>,
    ) {
        let (name, medium) = (&self.name, &drive.info().name);
        match outcome {
            Ok(missed) => {
                let filled = missed
                    .map_or("anew".to_owned(), |bytes| format!("with {bytes} bytes that changed meanwhile"));
                self.controller.events.note(format!(
                    "group {name}: drive {medium} at position {position} {how} and is filled {filled}"
                ));
            }
            Err(error) => self
                .controller
                .events
                .once(Severity::Warning, format!("group {name}: position {position} stays empty: {error}")),
        }
    }

    /// A drive of the group that missed changes while it was away takes its place again.
    async fn take_back_stale(&self) {
        for member in self.group.status().members.iter().filter(|m| m.state == MemberState::Stale) {
            let Some(drive) = self.drive_of(member) else { continue };
            if let Err(error) = self.group.replace(member.position, drive).await {
                let (name, position) = (&self.name, member.position);
                self.controller
                    .events
                    .warn(format!("group {name}: position {position} stays empty: {error}"));
            }
        }
    }

    /// Gives places without a drive to spares: of those that fit the smallest.
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
            // Whoever is second to ask for a spare finds it labelled, and is refused. One that might be erased was, when it was declared.
            match self.group.replace(position, drive).await {
                Ok(()) => {
                    taken = true;
                    controller.state.borrow_mut().spares.retain(|s| *s != spare);
                    controller.events.note(format!("group {name}: spare {spare} takes position {position}"));
                }
                Err(error) => {
                    leave_to_others(controller, &spare);
                    let told = format!("group {name}: spare {spare} does not fit: {error}");
                    controller.events.once(Severity::Warning, told);
                }
            }
        }
    }

    /// Has the group's pool zero its free pages, where that is cheap, so that they are not copied; then fills what is to be filled.
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
                let told = format!("group {}: free pages are copied, too: {error}", kept.name);
                kept.controller.events.once(Severity::Warning, told);
            }
            drop(pool);
            kept.preparing.set(false);
            kept.begin_rebuild();
        });
    }

    /// Fills what is to be filled. A rebuild that runs takes up what comes meanwhile.
    fn begin_rebuild(&self) {
        if self.preparing.get() {
            return;
        }
        let (controller, name) = (self.controller.clone(), self.name.clone());
        let (group, watch) = (self.group.clone(), self.watch.clone());
        self.controller.world.spawn(async move {
            let _held = watch;
            if let Err(error) = group.rebuild(&throttle(&controller, &name)).await {
                controller
                    .events
                    .once(Severity::Warning, format!("group {name}: the rebuild ended: {error}"));
            }
            drop(group);
        });
    }
}
