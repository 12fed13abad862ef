//! Monitors minimums: raises an event when one is violated, and one when it is met again.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use qos::{FlowId, Health};
use stack::Service;
use world::World;

use super::standing::reason;
use crate::controller::{Events, Watch};

/// How often masu checks whether the scheduler's window of 5 s has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Minimums are over-committed below this share of them, in thousandths, and no longer over-committed above
/// the second. One request more or less in a window makes a difference between the two.
const SCALED_PERMILLE: u32 = 980;
const WHOLE_PERMILLE: u32 = 990;

/// Monitors until the pool is released. `place` names the scheduler.
pub(super) async fn judge_task(
    (world, events): (World, Rc<Events>),
    place: String,
    service: Rc<Service>,
    watch: Watch,
) {
    let mut ended = pin!(watch.ended());
    let (mut news, mut scaled) = (Vec::new(), false);
    loop {
        let slept = world.sleep(LOOK_INTERVAL);
        let Either::Right(_) = select(ended.as_mut(), pin!(slept)).await else { return };
        service.close_window(&mut news);
        for (flow, health) in news.drain(..) {
            let is_kept = health == Health::Ok;
            if let Some(text) = tell(&service, &place, flow, health) {
                if is_kept { events.note(text) } else { events.warn(text) }
            }
        }
        if let Some(text) = tell_scale(&service, &place, &mut scaled) {
            if scaled { events.warn(text) } else { events.note(text) }
        }
    }
}

fn tell(service: &Service, place: &str, flow: FlowId, health: Health) -> Option<String> {
    let who = who(service, place, flow)?;
    Some(match health {
        Health::Ok => format!("{who}: minimum met again"),
        Health::BelowMinimum { minimum_iops, served_iops, lacks } => {
            format!("{who}: minimum violated: {served_iops} of {minimum_iops} IOPS: {}", reason(lacks))
        }
    })
}

fn tell_scale(service: &Service, place: &str, scaled: &mut bool) -> Option<String> {
    let (scale, promised) = {
        let scheduler = service.scheduler();
        (scheduler.scale_permille(), scheduler.minimums())
    };
    match *scaled {
        false if scale < SCALED_PERMILLE => {
            *scaled = true;
            let (percent, tenth) = (scale / 10, scale % 10);
            Some(format!(
                "{place}: minimums are over-committed: all {promised} IOPS are scaled to {percent}.{tenth} %"
            ))
        }
        true if scale >= WHOLE_PERMILLE => {
            *scaled = false;
            Some(format!("{place}: minimums are no longer over-committed"))
        }
        _ => None,
    }
}

/// The object of a flow.
fn who(service: &Service, place: &str, flow: FlowId) -> Option<String> {
    match service.shared_policy(flow) {
        Some(policy) => Some(format!("policy {policy} in {place}")),
        None => service.client_of(flow),
    }
}
