//! What the owner began without is claimed while it serves the rest.

use std::sync::Arc;
use std::time::Duration;

use array::{Event, EventSender, Openers, Withheld};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::fence::{Fenced, PAUSE, claim};

/// The task that claims it, until all is claimed or the array stops.
pub(in crate::daemon) struct Claiming {
    stops: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Claiming {
    /// `tells` has what is withheld now, for the controllers.
    pub(super) fn start(
        tells: watch::Sender<Arc<Withheld>>,
        openers: Openers,
        events: EventSender,
    ) -> Claiming {
        let (stops, mut stop) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut done = vec![];
            while !tells.borrow().is_empty() {
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    _ = stop.wait_for(|stops| *stops) => return,
                }
                // A fence that is under way ends before the array does: it would be one against the next
                // owner.
                claim_some(&tells, (&openers, &events), &mut done).await;
            }
        });
        Claiming { stops, task }
    }

    /// Returns when nothing more is claimed.
    pub(in crate::daemon) async fn end(self) {
        self.stops.send_replace(true);
        let _ = self.task.await;
    }
}

/// Tries once, and tells the controllers what they may open now.
async fn claim_some(
    tells: &watch::Sender<Arc<Withheld>>,
    (openers, events): (&Openers, &EventSender),
    done: &mut Vec<Fenced>,
) {
    let (withheld, config) = (tells.borrow().clone(), openers.config());
    let part = withheld.part(&config);
    let Ok(unclaimed) = claim(&part, done, (&Arc::default(), Duration::ZERO)).await else { return };
    let still = withheld.still(&config, &unclaimed);
    if still == *withheld {
        return;
    }
    // One that was deleted meanwhile is not told.
    let is_released =
        |name: &&String| withheld.groups.contains_key(*name) && !still.groups.contains_key(*name);
    for name in config.groups.iter().map(|group| &group.name).filter(is_released) {
        events.tell(Event::info(format!("group {name}"), "its drives are claimed: it is opened"));
    }
    tells.send_replace(Arc::new(still));
}
