//! Tells what becomes of promises: an event when a minimum is not kept, and one when it is again.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use qos::{FlowId, Health};
use stack::Service;
use world::World;

use crate::controller::{Events, Watch};

/// The scheduler is asked this often whether its window of 5 s has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Below this part of the minimums, in thousandths, more is promised than the pool gives; above the other it is not. Between them is what
/// one request more or less in a window makes.
const SCALED_PERMILLE: u32 = 980;
const WHOLE_PERMILLE: u32 = 990;

/// Judges until the pool is let go. `place` says whose scheduler it is.
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
        Health::Ok => format!("{who}: its minimum is kept again"),
        Health::BelowMinimum { minimum_iops, served_iops } => {
            format!("{who}: below its minimum: {served_iops} of {minimum_iops} IOPS")
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
                "{place}: its minimums do not fit: of {promised} IOPS all are scaled to {percent}.{tenth} %"
            ))
        }
        true if scale >= WHOLE_PERMILLE => {
            *scaled = false;
            Some(format!("{place}: its minimums fit again"))
        }
        _ => None,
    }
}

/// Whose flow it is.
fn who(service: &Service, place: &str, flow: FlowId) -> Option<String> {
    match service.shared_policy(flow) {
        Some(policy) => Some(format!("policy {policy} in {place}")),
        None => service.client_of(flow),
    }
}
