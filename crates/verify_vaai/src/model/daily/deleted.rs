//! A VM is deleted: its space goes back, and another VM does not notice.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join;
use lab_tools::datastore::{Content, Datastore, EXTENT_BYTES, File, StoreError};

use super::super::guest::{self, Guest, Place};
use super::super::piece::Found;
use super::{SETTLE, SLOT, Stage, note_content};
use crate::bulk::Way;

/// How long the other VM is watched before, and after the space is back.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_millis(500);
/// Between two looks at the pool, and how many there are at most.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 6000;
/// One extent of so many is overwritten by the clone.
const OVERWRITTEN_ONE_OF: u64 = 4;

impl Stage<'_> {
    pub(super) async fn deleted(&self) -> Result<Found> {
        let daily = &self.stand.daily;
        let host = self.host(0, self.outstanding(Way::Off)).await?;
        let store = &host.stores[0];
        let content = |n: u64| Content::Pattern { key: self.stand.seed ^ n, used_bytes: u64::MAX };
        let other = filled(store, (SLOT, "other.vmdk"), daily.other_disk.0, content(1)).await?;
        let used_before = self.used_bytes().await?;
        let deleted = filled(store, (SLOT + 1, "deleted.vmdk"), daily.deleted_disk.0, content(2)).await?;
        self.world.sleep(SETTLE).await;
        let used = self.used_bytes().await?;
        let own = self.host(1, daily.guest_outstanding).await?;
        let guest = Guest::new(self.world, content(1), daily.other_disk.0);
        let watched = self.world.now();
        let run = async {
            let pace = (daily.guest_outstanding, daily.guest_pause.0);
            Ok(guest.run(Place::Plain(&own.stores[0], &other), pace).await?)
        };
        let delete = async {
            self.world.sleep(BEFORE).await;
            let began = self.world.now();
            store.delete(SLOT + 1, &deleted, true).await?;
            let mut looks = 0;
            while self.used_bytes().await? > used_before && looks < LOOKS_MAX {
                self.world.sleep(LOOK).await;
                looks += 1;
            }
            let back = self.world.now();
            self.world.sleep(AFTER).await;
            guest.end();
            anyhow::Ok((began, back))
        };
        let ((began, back), ()) = try_join(delete, run).await?;
        let returned = used as f64 - self.used_bytes().await? as f64;
        let (idle, _) = guest.responses(watched, began);
        let (busy, slowest) = guest.responses(began, back + AFTER);
        let mut found = Found::default();
        for (metric, value) in [
            ("time_s", back.since(began).as_secs_f64()),
            ("returned_percent", 100.0 * returned / (used - used_before).max(1) as f64),
            ("idle_response_s", idle),
            ("response_s", busy),
            ("slowest_s", slowest),
        ] {
            found.record.add("space", "unmap", 1, metric, value);
        }
        let mut blocks = guest.verify(store, &other).await?;
        blocks.wrong += store.differences(&deleted, Content::Zeros).await?;
        blocks.compared += deleted.taken_bytes() / guest::BLOCK;
        let (percent, of_clone) = self.deleted_clone(store, content(3)).await?;
        found.record.add("space", "unmap", 1, "clone_percent", percent);
        blocks.wrong += of_clone.wrong;
        blocks.compared += of_clone.compared;
        note_content(&mut found, "space", "unmap", blocks);
        Ok(found)
    }

    /// A clone that has overwritten some of its template's pages: what comes back of what it took, and its
    /// template afterwards.
    async fn deleted_clone(&self, store: &Datastore, content: Content) -> Result<(f64, guest::Found)> {
        let len = self.stand.daily.other_disk.0;
        let template = filled(store, (SLOT + 2, "template-2.vmdk"), len, content).await?;
        self.world.sleep(SETTLE).await;
        let used_before = self.used_bytes().await?;
        let clone = store.clone_file(store, &template, SLOT + 3, "clone.vmdk", self.by(Way::Paper)).await?;
        let zeros = Content::Zeros;
        for nth in 0..len / EXTENT_BYTES / OVERWRITTEN_ONE_OF {
            let (at, _) = clone.place(nth * OVERWRITTEN_ONE_OF * EXTENT_BYTES).unwrap_or_default();
            store.locks().write(at, zeros.bytes(0, EXTENT_BYTES)).await?;
        }
        let used = self.used_bytes().await?;
        store.delete(SLOT + 3, &clone, true).await?;
        self.world.sleep(SETTLE).await;
        let returned = used as f64 - self.used_bytes().await? as f64;
        let wrong = store.differences(&template, content).await?;
        let compared = template.taken_bytes() / guest::BLOCK;
        // A clone that took nothing gives nothing back.
        let took = used.saturating_sub(used_before) as f64;
        let percent = if took > 0.0 { 100.0 * returned / took } else { 0.0 };
        Ok((percent, guest::Found { compared, wrong }))
    }
}

async fn filled(
    store: &Datastore,
    (slot, name): (u32, &str),
    len: u64,
    content: Content,
) -> Result<File, StoreError> {
    let file = store.create_file(slot, name, len, len).await?;
    store.fill(&file, content).await?;
    Ok(file)
}
