//! Examination of a stopped array: everything that is not as it should be, in words. Nothing is ever written to a drive.
//!
//! ```text
//!   drives ──> overlays ──> labels held against the declaration and each other
//!                 │
//!                 └──> groups opened (what a power cut left is put right in memory) ──> scrubbed, when data are wanted
//!                          └──> pools: metadata inspected as they lie, then opened and audited
//! ```

mod groups;
mod labels;
mod overlay;
mod pools;

#[cfg(test)]
mod tests;

use std::fmt;

use world::{Drive, World};

use crate::config::{Config, GroupConfig};
use overlay::{Overlay, OverlayMemory};
use world::DriveSpec;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What.
    pub text: String,
    /// A power cut leaves this, too, and starting the array puts it right.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// What an examination saw.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// All findings, from the drives up.
    pub findings: Vec<Finding>,
    /// How many drives were read.
    pub drives: usize,
    /// How many groups could be opened.
    pub groups: usize,
    /// How many pools could be opened.
    pub pools: usize,
    /// How many volumes are in them.
    pub volumes: usize,
    /// Bytes of drives that were read and compared.
    pub compared_bytes: u64,
}

impl Examination {
    /// Whether anything is wrong that starting the array does not put right.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|f| f.harmless)
    }

    fn damage(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding { place: place.into(), text: text.into(), harmless: false });
    }

    fn harmless(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding { place: place.into(), text: text.into(), harmless: true });
    }
}

/// How far an examination is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is examined now.
    pub what: String,
    /// Bytes that are done of it, and all of them; both 0 where nobody counts.
    pub done_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// Who is told how far the examination is.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&Progress);

fn begin(tell: Tell<'_>, what: String) {
    tell(&Progress { what, done_bytes: 0, total_bytes: 0 });
}

/// A declared drive that could be opened.
pub(crate) struct Opened {
    name: String,
    overlay: Overlay,
}

impl Opened {
    fn drive(&self) -> &Drive {
        &self.overlay.drive
    }
}

/// Examines the drives of a stopped array; `data` says whether everything on them is read and compared.
pub async fn check(
    world: World,
    config: &Config,
    data: bool,
    mut tell: impl FnMut(&Progress),
) -> Examination {
    let mut examination = Examination::default();
    let drives = open_drives(&world, config, &mut examination).await;
    examination.drives = drives.len();
    begin(&mut tell, "labels".into());
    let labelled = labels::check(config, &drives, &mut examination).await;
    let mut groups = Vec::new();
    for declared in &config.groups {
        begin(&mut tell, format!("group {}", declared.name));
        if let Some(group) = groups::open(&world, declared, &labelled, &mut examination).await {
            groups.push((declared.name.clone(), group));
        }
    }
    examination.groups = groups.len();
    if data {
        for (_, group) in &groups {
            groups::scrub(&world, group, &drives, &mut tell, &mut examination).await;
        }
    }
    for declared in &config.pools {
        begin(&mut tell, format!("pool {}", declared.name));
        pools::check(&world, config, declared, &groups, &mut examination).await;
    }
    examination
}

/// Opens every drive that outlives its process, under an overlay of its own.
async fn open_drives(world: &World, config: &Config, examination: &mut Examination) -> Vec<Opened> {
    let memory = OverlayMemory::default();
    let mut opened = Vec::new();
    for declared in &config.drives {
        let spec = match &declared.spec {
            // A file that is not there is a finding, and is not made.
            DriveSpec::File { path, .. } => DriveSpec::File { path: path.clone(), create_len_bytes: None },
            DriveSpec::Memory { .. } => {
                let text = "it is memory: nothing of it outlives the array";
                examination.harmless(format!("drive {}", declared.name), text);
                continue;
            }
            spec @ (DriveSpec::Device { .. }
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
                    // Nobody misses a drive that is in no group.
                    false => examination.harmless(place, text),
                }
            }
        }
    }
    opened
}
