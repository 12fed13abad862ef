//! A disk that moves from one LU to another while its VM writes.

use anyhow::Result;
use futures::future::try_join;
use lab_tools::datastore::{Content, Datastore, File, Mirror, Mode, StoreError};

use super::super::bed::Space;
use super::super::guest::{Guest, Place};
use super::super::piece::Found;
use super::{SETTLE, SLOT, Stage, mode, note_content, note_spent};
use crate::bulk::Way;

impl Stage<'_> {
    /// Regions one after the other, by the host or by the array; the VM's writes as the mirror says.
    pub(super) async fn moved(&self, (way, space): (Way, Space)) -> Result<Found> {
        let daily = &self.stand.daily;
        let host = self.host(0, self.outstanding(way)).await?;
        let (from, to, len) = (&host.stores[0], &host.stores[1], daily.moved_disk.0);
        let content = Content::Pattern { key: self.stand.seed, used_bytes: len };
        let old = from.create_file(SLOT, "moved.vmdk", len, len).await?;
        from.fill(&old, content).await?;
        self.world.sleep(SETTLE).await;
        // The VM's own traffic crosses another host's wire and processor in no case: it is measured apart.
        let own = self.host(1, daily.guest_outstanding).await?;
        let (guest, mirror) = (Guest::new(self.world, content, len), Mirror::default());
        let new = to.create_file(SLOT, "moved.vmdk", len, len).await?;
        let (began, by) = (self.world.now(), self.by(way));
        let place = Place::Moving(&mirror, [(&own.stores[0], &old), (&own.stores[1], &new)]);
        let copy = async {
            let regions = copy_all((from, &old), (to, &new), &mirror, (daily.moved_region.0, by));
            let measured = host.measure(async { Ok(regions.await?) }).await;
            guest.end();
            measured
        };
        let run = async {
            let pace = (daily.guest_outstanding, daily.guest_pause.0);
            Ok(guest.run(place, pace).await?)
        };
        let (((), spent, _), ()) = try_join(copy, run).await?;
        let (response, longest) = guest.responses(began, self.world.now());
        let mut found = Found::default();
        let mode = mode(way, space);
        note_spent(&mut found, "live", mode, &spent);
        found.record.add("live", mode, 1, "response_s", response);
        found.record.add("live", mode, 1, "slowest_s", longest);
        note_content(&mut found, "live", mode, guest.verify(to, &new).await?);
        Ok(found)
    }
}

async fn copy_all(
    (from, old): (&Datastore, &File),
    (to, new): (&Datastore, &File),
    mirror: &Mirror,
    (region, by): (u64, Mode),
) -> Result<(), StoreError> {
    for (offset, len) in lab_tools::hosts::steps(&[(0, old.taken_bytes())], region) {
        mirror.begin(offset + len).await;
        to.copy_ranges(from, &old.part(offset, len), &new.part(offset, len), by).await?;
        mirror.end();
    }
    Ok(())
}
