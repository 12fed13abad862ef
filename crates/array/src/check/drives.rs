//! The examined drives: masu reads each through an overlay and writes nothing to it.

use world::{Drive, DriveSpec, World};

use super::examination::Examination;
use super::overlay::{Overlay, OverlayMemory};
use crate::config::{Config, GroupConfig};

/// A declared drive that could be opened.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) overlay: Overlay,
}

impl Opened {
    pub(super) fn drive(&self) -> &Drive {
        &self.overlay.drive
    }
}

/// Opens every persistent drive, each under its own overlay.
pub(super) async fn open_drives(
    world: &World,
    config: &Config,
    examination: &mut Examination,
) -> Vec<Opened> {
    let memory = OverlayMemory::default();
    let mut opened = Vec::new();
    for declared in &config.drives {
        let spec = match &declared.spec {
            // A missing file is a finding; masu does not create it.
            DriveSpec::File { path, .. } => DriveSpec::File { path: path.clone(), create_len_bytes: None },
            DriveSpec::Memory { .. } => {
                let text = "memory drive: its content does not survive the array";
                examination.harmless(format!("drive {}", declared.name), text);
                continue;
            }
            spec @ (DriveSpec::Device { .. }
            | DriveSpec::ReadOnly { .. }
            | DriveSpec::Rbd(_)
            | DriveSpec::Modelled { .. }
            | DriveSpec::Image { .. }
            | DriveSpec::ImageWithin { .. }) => spec.clone(),
        };
        match world.open_drive(&spec).await {
            Ok(below) => {
                let overlay = Overlay::new(world.clone(), below, memory.clone());
                opened.push(Opened { name: declared.name.clone(), overlay });
            }
            Err(error) => {
                let (place, text) =
                    (format!("drive {}", declared.name), format!("cannot be opened: {error}"));
                let of_group = |g: &GroupConfig| g.drives.contains(&declared.name);
                match config.groups.iter().any(of_group) || config.spares.contains(&declared.name) {
                    true => examination.damage(place, text),
                    // A drive in no group holds nothing that the array needs.
                    false => examination.harmless(place, text),
                }
            }
        }
    }
    opened
}
