//! Examination of a stopped array: reports every deviation. It never writes to a drive.
//!
//! ```text
//!   drives ──> overlays ──> labels held against the declaration and each other
//!                 │
//!                 └──> groups opened (what a power cut left is put right in memory) ──> scrubbed, when data are wanted
//!                          └──> pools: metadata inspected as they lie, then opened and audited
//! ```

mod drives;
mod examination;
mod groups;
mod labels;
mod overlay;
mod pools;
mod unfinished;

#[cfg(test)]
mod tests;

use world::World;

use crate::config::{Config, Made};
use drives::open_drives;
use examination::Tell;

pub use examination::{Examination, Finding, Progress};

fn begin(tell: Tell<'_>, what: String) {
    tell(&Progress { what, done_bytes: 0, total_bytes: 0 });
}

/// Examines the drives of a stopped array. With `data`, everything on them is read and compared.
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

/// Examines the drives of a stopped array, and what was interrupted on them by what it has recorded: the next
/// start completes that, and it is no damage.
pub async fn check_recorded(
    world: World,
    (config, made): (&Config, &Made),
    data: bool,
    tell: impl FnMut(&Progress),
) -> Examination {
    let mut examination = check(world, config, data, tell).await;
    unfinished::pass_over(config, made, &mut examination);
    examination
}
