//! Spares for groups that other nodes run: their controllers open none by themselves, since a node that is
//! lost must have no drive open that is not declared to be its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use array::{Control, Event, Reply, lacks_drives};
use tokio::time::{Instant, interval};

use super::{LOOK, Lender};
use crate::daemon::nodes::elsewhere::told;

/// Until a place that no spare fits is looked at again.
const AGAIN: Duration = Duration::from_secs(60);

impl Lender {
    /// Gives spares until the array stops. It ends between two looks, and not in the middle of a change.
    pub(super) async fn give_spares(self: Arc<Lender>) {
        let (mut look, mut stop, mut not_before) = (interval(LOOK), self.stop.clone(), Instant::now());
        let mut said = BTreeSet::new();
        loop {
            tokio::select! {
                _ = look.tick() => {}
                () = told(&mut stop) => return,
            }
            if Instant::now() < not_before {
                continue;
            }
            let lacking = tokio::select! {
                lacking = self.lacking() => lacking,
                () = told(&mut stop) => return,
            };
            if lacking.is_empty() || self.stops() {
                continue;
            }
            // A controller that has stopped is looked at when it runs again.
            let Ok((done, refused)) = self.served.owner.give_spares(&lacking).await else { continue };
            done.iter().for_each(|line| self.served.events.tell(Event::of_line(line)));
            if refused.is_empty() {
                said.clear();
            } else {
                not_before = Instant::now() + AGAIN;
                said.retain(|text| refused.contains(text));
            }
            for text in refused {
                if said.insert(text.clone()) {
                    self.served.events.tell(Event::warning("array", text));
                }
            }
        }
    }

    /// The controllers at other nodes of which a group lacks a drive, if there are spares.
    async fn lacking(&self) -> Vec<usize> {
        let (config, lent) = (self.declared(), self.lent().keys().copied().collect::<Vec<_>>());
        let mut lacking = Vec::new();
        for index in lent.into_iter().filter(|_| !config.spares.is_empty()) {
            let asked = self.served.threads.handles()[index].ask(Control::Overview).await;
            if let Ok(Reply::Status(status)) = asked
                && lacks_drives(&config, &status)
            {
                lacking.push(index);
            }
        }
        lacking
    }
}
