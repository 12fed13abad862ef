//! Work on groups: rebuild and scrub, their pace beside foreground I/O, pause and resume.

use std::rc::Rc;
use std::time::Duration;

use lu::CommandContext;
use raid::{Go, Throttle};
use stack::Gate;

use crate::config::{FOREGROUND_SHARE_PERCENT_DEFAULT, PoolConfig};
use crate::control::{ControlError, Steer};
use crate::controller::{Controller, Job};
use crate::status::JobKind;

/// How often paused work checks whether it was resumed or stopped.
const PAUSED_INTERVAL: Duration = Duration::from_millis(200);

/// The share of the time that foreground I/O keeps while a group is worked on.
pub(crate) fn foreground_share_percent(controller: &Controller, group: &str) -> u8 {
    let state = controller.state();
    let declared = state.config.groups.iter().find(|g| g.name == group);
    declared.map_or(FOREGROUND_SHARE_PERCENT_DEFAULT, |g| g.foreground_share_percent)
}

/// The pace of work on a group. If a policy is in force in its pool, each step waits for its turn at the
/// scheduler. Otherwise the work leaves foreground I/O its share of the time.
pub(super) fn throttle(controller: &Rc<Controller>, group: &str) -> Throttle {
    let share = foreground_share_percent(controller, group);
    let (this, name) = (controller.clone(), group.to_owned());
    let throttle = Throttle::new(controller.world.clone(), share)
        .with_turns(Rc::new(move |bytes| Some(Box::pin(turn(background_of_group(&this, &name)?, bytes)))));
    let (this, name) = (controller.clone(), group.to_owned());
    throttle.with_control(Rc::new(move || go(&this, &name)))
}

/// The turn of a step.
pub(super) async fn turn(gate: Rc<Gate>, bytes: u64) {
    // The permit ends before the step's I/O; the scheduler charges the step to the next turn.
    let _ = gate.enter(CommandContext::DETACHED, bytes).await;
}

/// The pace of a scrub, which ends when its job is stopped.
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
        return Err(ControlError::at(format!("group {name:?}"))(&"not open"));
    }
    let text = match steer {
        Steer::Pause if controller.state.borrow_mut().paused.insert(name.to_owned()) => "work paused",
        Steer::Pause => "nothing to do: already paused",
        Steer::Resume if controller.state.borrow_mut().paused.remove(name) => "work resumed",
        Steer::Resume => "nothing to do: not paused",
        Steer::StopScrub if controller.jobs.ask_to_stop(|k, o| k == JobKind::Scrub && o == name) => {
            "scrub stopped"
        }
        Steer::StopScrub => "nothing to do: no scrub is running",
    };
    Ok(vec![format!("group {name}: {text}")])
}

/// Whether work on a group continues or is paused.
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

/// The gate of background work on a group, if a policy is in force in its pool.
pub(super) fn background_of_group(controller: &Controller, group: &str) -> Option<Rc<Gate>> {
    let state = controller.state();
    let of = |p: &&PoolConfig| p.groups.iter().chain(&p.leaving).any(|g| g == group);
    let pool = state.config.pools.iter().find(of)?;
    state.services.get(&pool.name)?.background_if_closed()
}

/// Scrubs a group, as a job.
pub(crate) fn scrub(controller: &Rc<Controller>, name: &str) -> Result<Vec<String>, ControlError> {
    let group = controller.state().groups.get(name).cloned();
    let place = || ControlError::at(format!("group {name:?}"));
    let group = group.ok_or_else(|| place()(&"not open"))?;
    // A scrub makes the mirrors equal first.
    let waits = controller.state().resync_waits.get(name).map(|wait| wait.cause.clone());
    if let Some(cause) = waits {
        return Err(place()(&format!("the resync of its mirrors waits: {cause}")));
    }
    let (this, object) = (controller.clone(), name.to_owned());
    let begun = controller.jobs.begin((JobKind::Scrub, name), 0, async move |job| {
        let throttle = throttle_of_job(&this, &object, job);
        drop(this);
        match group.scrub(&throttle).await {
            Ok(s) if !s.complete => {
                Ok(format!("group {object}: scrub stopped after {} bytes", s.compared_bytes))
            }
            Ok(s) if s.differing > 0 || s.unrepaired > 0 => Err(scrub_line(&object, &s)),
            Ok(s) => Ok(scrub_line(&object, &s)),
            Err(e) => Err(format!("group {object}: scrub failed: {e}")),
        }
    });
    let what = if begun { "scrub started" } else { "scrub already running" };
    Ok(vec![format!("group {name}: {what}")])
}

/// The result of a scrub.
fn scrub_line(group: &str, s: &raid::Scrubbed) -> String {
    let mut line = format!(
        "group {group}: scrub finished, {} bytes: {} blocks mismatched, {} repaired, {} unreadable and not \
         repaired",
        s.compared_bytes, s.mismatches, s.repaired, s.unrepaired
    );
    if s.differing > 0 {
        let at: Vec<String> = s.first_differing().map(|at| at.to_string()).collect();
        let first = at.join(", ");
        line += &format!(
            "; {} differ between mirrors and were not repaired: the first at byte {first} of the \
                group",
            s.differing
        );
    }
    line
}
