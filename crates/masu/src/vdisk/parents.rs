//! Parents of VHDs that were written after their children were created. Nothing in a VHD changes when it is
//! written; a child has the time of its parent's file. A copy of a parent may have another time and be the
//! same, so this is a note, not a refusal.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use vdisk::Image;

/// 2000-01-01 00:00 UTC, from which VHD counts seconds, in seconds of Unix.
const VHD_EPOCH_S: u64 = 946_684_800;

/// The time as a VHD has it.
pub(super) fn time_stamp_s(time: SystemTime) -> u32 {
    let unix_s = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    u32::try_from(unix_s.saturating_sub(VHD_EPOCH_S)).unwrap_or(0)
}

/// When the file was written last.
pub(super) fn written_s(path: &Path) -> Option<u32> {
    Some(time_stamp_s(std::fs::metadata(path).ok()?.modified().ok()?))
}

/// The parents in the chain of an image whose time is another than when their children were created.
pub(super) fn notes(image: &Image) -> Vec<String> {
    let (mut notes, mut child) = (Vec::new(), image.clone());
    while let Some(parent) = child.parent() {
        let name = parent.drive().info().name.clone();
        let expected = child.parent_link().map_or(0, |link| link.time_stamp_s);
        if expected != 0 && written_s(Path::new(&name)).is_some_and(|written| written != expected) {
            notes.push(format!(
                "parent {name}: written or copied after its child was created; if it was written, the data of the child are wrong"
            ));
        }
        child = parent;
    }
    notes
}
