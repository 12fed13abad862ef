//! Work on groups: its pace beside what hosts do, scrubs, and how it is paused, resumed and ended.

use std::rc::Rc;
use std::time::Duration;

use lu::CommandContext;
use raid::{Go, Throttle};
use stack::Gate;

use crate::config::{FOREGROUND_SHARE_PERCENT_DEFAULT, PoolConfig};
use crate::control::{ControlError, Steer};
use crate::controller::{Controller, Job};
use crate::status::JobKind;

/// How often paused work looks whether it was resumed or stopped.
const PAUSED_INTERVAL: Duration = Duration::from_millis(200);

/// What hosts keep of the time while a group is worked on.
pub(crate) fn foreground_share_percent(controller: &Controller, group: &str) -> u8 {
    let state = controller.state();
    let declared = state.config.groups.iter().find(|g| g.name == group);
    declared.map_or(FOREGROUND_SHARE_PERCENT_DEFAULT, |g| g.foreground_share_percent)
}

/// The pace of work on a group: steps wait for their turn among the volumes of its pool where one of these is promised something, and leave
/// the foreground its share of the time elsewhere.
pub(super) fn throttle(controller: &Rc<Controller>, group: &str) -> Throttle {
    let share = foreground_share_percent(controller, group);
    let (this, name) = (controller.clone(), group.to_owned());
    let throttle = Throttle::new(controller.world.clone(), share).with_turns(Rc::new(move |bytes| {
        let gate = background_of_group(&this, &name)?;
        Some(Box::pin(async move {
            // Its I/O is not a part of the turn: it comes after it, and the next turn is later for it.
            let _ = gate.enter(CommandContext::DETACHED, bytes).await;
        }))
    }));
    let (this, name) = (controller.clone(), group.to_owned());
    throttle.with_control(Rc::new(move || go(&this, &name)))
}

/// The same for a scrub, which ends when its job is stopped.
fn throttle_of_job(controller: &Rc<Controller>, group: &str, job: Rc<Job>) -> Throttle {
    let (this, name) = (controller.clone(), group.to_owned());
    throttle(controller, group).with_control(Rc::new(move || match job.is_stopped() {
        true => Go::End,
        false => go(&this, &name),
    }))
}

/// Pauses, resumes or ends the work on a group.
pub(crate) fn steer(controller: &Controller, name: &str, steer: Steer) -> Result<Vec<String>, ControlError> {
    if !controller.state().groups.contains_key(name) {
        return Err(ControlError::at(format!("group {name:?}"))(&"there is no such group here"));
    }
    let text = match steer {
        Steer::Pause if controller.state.borrow_mut().paused.insert(name.to_owned()) => "its work is paused",
        Steer::Pause => "nothing to do: its work is paused already",
        Steer::Resume if controller.state.borrow_mut().paused.remove(name) => "its work goes on",
        Steer::Resume => "nothing to do: its work is not paused",
        Steer::StopScrub if controller.jobs.ask_to_stop(|k, o| k == JobKind::Scrub && o == name) => {
            "its scrub ends"
        }
        Steer::StopScrub => "nothing to do: it is not being scrubbed",
    };
    Ok(vec![format!("group {name}: {text}")])
}

/// Whether work on a group goes on: it waits while it is paused. A scrub ends when its job is stopped.
fn go(controller: &Controller, group: &str) -> Go {
    match controller.state().paused.contains(group) {
        true => Go::Wait,
        false => Go::On,
    }
}

/// Waits while work on a group is paused. A job that is stopped does not wait any longer.
pub(crate) async fn wait_while_paused(controller: &Controller, group: &str, job: &Job) {
    while controller.state().paused.contains(group) && !job.is_stopped() {
        controller.world.sleep(PAUSED_INTERVAL).await;
    }
}

/// The gate of work on a group, while somebody is promised something in its pool.
fn background_of_group(controller: &Controller, group: &str) -> Option<Rc<Gate>> {
    let state = controller.state();
    let of = |p: &&PoolConfig| p.groups.iter().chain(&p.leaving).any(|g| g == group);
    let pool = state.config.pools.iter().find(of)?;
    state.services.get(&pool.name)?.background_if_closed()
}

/// Reads and compares everything on a group, as a job.
pub(crate) fn scrub(controller: &Rc<Controller>, name: &str) -> Result<Vec<String>, ControlError> {
    let group = controller.state().groups.get(name).cloned();
    let group =
        group.ok_or_else(|| ControlError::at(format!("group {name:?}"))(&"there is no such group here"))?;
    let (this, object) = (controller.clone(), name.to_owned());
    let begun = controller.jobs.begin((JobKind::Scrub, name), 0, async move |job| {
        let throttle = throttle_of_job(&this, &object, job);
        drop(this);
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
