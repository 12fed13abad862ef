//! Parents of VHDs that were written after their children were created. Nothing in a VHD changes when it is
//! written; a child has the time of its parent's file. A copy of a parent may have another time and be the
//! same, so this is a note, not a refusal.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use vdisk::{Access, Chain, Image, attach_parents};
use world::{DriveSpec, ImageAccess, World};

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

/// What the files of children are called.
const OF_IMAGES: [&str; 4] = ["vhd", "vhdx", "avhd", "avhdx"];
/// So many of them are opened to see whose children they are.
const LOOKED_AT_MAX: usize = 1000;

/// An image in the directory of this one that has it as its parent. A parent does not know its children:
/// those in other directories are not found.
pub(super) async fn child_beside(world: &World, path: &Path) -> Option<PathBuf> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
    let own = identity(path)?;
    let absolute = path.canonicalize().ok()?;
    let is_image = |path: &PathBuf| {
        let extension = path.extension().map(|of| of.to_string_lossy().to_lowercase());
        extension.is_some_and(|of| OF_IMAGES.contains(&of.as_str()))
    };
    let entries = std::fs::read_dir(absolute.parent()?).ok()?.flatten().map(|entry| entry.path());
    let others = entries.filter(|other| is_image(other) && identity(other) != Some(own));
    for other in others.take(LOOKED_AT_MAX) {
        let chain = Chain { path: &other, access: Access::Read, format: None, parents_in: &[] };
        let mut image = open_alone(world, &other).await;
        if let Some(image) = &image {
            // Those up to one that is missing or damaged are attached all the same.
            let _ = attach_parents(world, image, &chain).await;
        }
        while let Some(parent) = image.and_then(|image| image.parent()) {
            if identity(Path::new(&parent.drive().info().name)) == Some(own) {
                return Some(other);
            }
            image = Some(parent);
        }
    }
    None
}

/// An image without its parents; what cannot be opened says nothing, and cannot lose more.
async fn open_alone(world: &World, path: &Path) -> Option<Image> {
    let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Read };
    let drive = world.open_drive(&spec).await.ok()?;
    Image::open(world, drive, Access::Read).await.ok()
}
