//! Tells what becomes of promises: an event when a minimum is not kept, and one when it is again.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use qos::{FlowId, Health};

use super::service::Service;
use crate::controller::{Events, Watch};

/// The scheduler is asked this often whether its window of 5 s has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Below this part of the minimums, in thousandths, more is promised than the pool gives; above the other it is not. Between them is what
/// one request more or less in a window makes.
const SCALED_PERMILLE: u32 = 980;
const WHOLE_PERMILLE: u32 = 990;

/// Judges until the pool is let go. `place` says whose scheduler it is.
pub(super) async fn judge_task(events: Rc<Events>, place: String, service: Rc<Service>, watch: Watch) {
    let mut ended = pin!(watch.ended());
    let mut news = Vec::new();
    loop {
        let slept = service.world.sleep(LOOK_INTERVAL);
        let Either::Right(_) = select(ended.as_mut(), pin!(slept)).await else { return };
        service.scheduler.borrow_mut().close_window(service.now(), &mut news);
        for (flow, health) in news.drain(..) {
            let is_kept = health == Health::Ok;
            if let Some(text) = tell(&service, &place, flow, health) {
                if is_kept { events.note(text) } else { events.warn(text) }
            }
        }
        if let Some(text) = tell_scale(&service, &place) {
            if service.scaled.get() { events.warn(text) } else { events.note(text) }
        }
    }
}

fn tell(service: &Service, place: &str, flow: FlowId, health: Health) -> Option<String> {
    let who = service.who(place, flow)?;
    Some(match health {
        Health::Ok => format!("{who}: its minimum is kept again"),
        Health::BelowMinimum { minimum_iops, served_iops } => {
            format!("{who}: below its minimum: {served_iops} of {minimum_iops} IOPS")
        }
    })
}

fn tell_scale(service: &Service, place: &str) -> Option<String> {
    let (scale, promised) = {
        let scheduler = service.scheduler.borrow();
        (scheduler.scale_permille(), scheduler.minimums())
    };
    match service.scaled.get() {
        false if scale < SCALED_PERMILLE => {
            service.scaled.set(true);
            let (percent, tenth) = (scale / 10, scale % 10);
            Some(format!(
                "{place}: its minimums do not fit: of {promised} IOPS all are scaled to {percent}.{tenth} %"
            ))
        }
        true if scale >= WHOLE_PERMILLE => {
            service.scaled.set(false);
            Some(format!("{place}: its minimums fit again"))
        }
        _ => None,
    }
}

impl Service {
    /// Whose flow it is.
    fn who(&self, place: &str, flow: FlowId) -> Option<String> {
        let shared = self.shared.borrow();
        if let Some((name, _)) = shared.iter().find(|(_, shared)| **shared == flow) {
            return Some(format!("policy {name} in {place}"));
        }
        let (names, scheduler) = (self.names.borrow(), self.scheduler.borrow());
        let (_, name) = names.iter().find(|(client, _)| scheduler.flow_of(**client) == flow)?;
        Some(name.clone())
    }
}
