//! What the drives say they are, held against the declaration and against each other.

use raid::{ArrayId, GroupId, Label, inspect};
use world::Drive;

use super::{Examination, Opened};
use crate::config::{Config, GroupConfig};

/// A drive of a declared group, with its label.
pub(super) struct Labelled {
    pub(super) name: String,
    pub(super) drive: Drive,
    pub(super) label: Label,
}

/// The drives of one declared group that carry its labels, and what the newest of these says.
pub(super) struct Members {
    pub(super) group: String,
    pub(super) newest: Label,
    pub(super) drives: Vec<Labelled>,
}

/// Reads all labels. The drives of each declared group that belong together come back; what is wrong is noted.
pub(super) async fn check(config: &Config, drives: &[Opened], examination: &mut Examination) -> Vec<Members> {
    let mut all = Vec::new();
    for opened in drives {
        let place = format!("drive {}", opened.name);
        match inspect(opened.drive()).await {
            Ok(label) => all.push((opened, label)),
            Err(error) => examination.damage(place, format!("its label cannot be read: {error}")),
        }
    }
    let of_group = |group: &GroupConfig| -> Vec<(&Opened, Option<Label>)> {
        let declared = |name: &String| all.iter().find(|(opened, _)| opened.name == *name);
        group.drives.iter().filter_map(declared).map(|(o, l)| (*o, l.clone())).collect()
    };
    let mut members = Vec::new();
    for group in &config.groups {
        let (labelled, place) =
            (labelled(group, of_group(group), examination), format!("group {}", group.name));
        let Some(id) = group_id(group, &labelled) else {
            if !labelled.is_empty() {
                examination.damage(place, "none of its drives carries its label");
            }
            continue;
        };
        members.push(belonging(config, group, id, labelled, examination));
    }
    strangers(config, &all, examination);
    members
}

fn labelled(
    group: &GroupConfig,
    drives: Vec<(&Opened, Option<Label>)>,
    examination: &mut Examination,
) -> Vec<Labelled> {
    let mut labelled = Vec::new();
    for (opened, label) in drives {
        let name = opened.name.clone();
        match label {
            Some(label) => labelled.push(Labelled { name, drive: opened.drive().clone(), label }),
            None => examination.damage(
                format!("drive {name}"),
                format!("it carries no label; group {} is declared on it", group.name),
            ),
        }
    }
    labelled
}

/// The identity of the group: that of the label with its name which most drives carry; of several the first.
fn group_id(group: &GroupConfig, labelled: &[Labelled]) -> Option<GroupId> {
    let named = || labelled.iter().filter(|l| l.label.group_name == group.name).map(|l| l.label.group_id);
    named().rev().max_by_key(|id| named().filter(|other| other == id).count())
}

/// Sorts out the drives that do not belong to the group, and says what of the others does not fit.
fn belonging(
    config: &Config,
    group: &GroupConfig,
    id: GroupId,
    labelled: Vec<Labelled>,
    examination: &mut Examination,
) -> Members {
    let mut drives: Vec<Labelled> = Vec::new();
    for found in labelled {
        let place = format!("drive {}", found.name);
        let twin = drives.iter().find(|d| d.label.position == found.label.position).map(|d| d.name.clone());
        if found.label.group_id != id {
            examination
                .damage(place, format!("it is foreign in group {}: it carries {}", group.name, found.label));
        } else if let Some(twin) = twin {
            let position = found.label.position;
            examination.damage(
                place,
                format!(
                    "it is a duplicate of drive {twin}: both carry position {position} of group {}",
                    group.name
                ),
            );
        } else {
            drives.push(found);
        }
    }
    let newest =
        drives.iter().map(|d| &d.label).max_by_key(|l| age(l)).expect("one drive has the identity").clone();
    for found in &drives {
        held_against_newest(&newest, found, examination);
    }
    held_against_declaration(config, group, &newest, &drives, examination);
    Members { group: group.name.clone(), newest, drives }
}

/// Which of two labels is newer.
fn age(label: &Label) -> (u64, u64) {
    (label.epoch, label.version)
}

fn held_against_newest(newest: &Label, found: &Labelled, examination: &mut Examination) {
    let (place, label) = (format!("drive {}", found.name), &found.label);
    if newest.in_sync & (1 << label.position) == 0 {
        let text = format!(
            "it is stale: it has not all data of group {}, which goes on at epoch {}",
            newest.group_name, newest.epoch
        );
        examination.damage(place, text);
    } else if age(label) < age(newest) {
        let text = format!("its label is of epoch {}, that of others of epoch {}", label.epoch, newest.epoch);
        examination.harmless(place, text);
    } else if (label.level, label.width, label.stripe_unit_bytes)
        != (newest.level, newest.width, newest.stripe_unit_bytes)
    {
        examination.damage(
            place,
            format!(
                "its label says {}, width {}; others say {}, width {}",
                label.level, label.width, newest.level, newest.width
            ),
        );
    }
}

fn held_against_declaration(
    config: &Config,
    group: &GroupConfig,
    newest: &Label,
    drives: &[Labelled],
    examination: &mut Examination,
) {
    let place = format!("group {}", group.name);
    if newest.array_id == ArrayId::default() {
        examination.damage(&place, "it was exported: no array owns it; import it");
    } else if newest.array_id != config.id {
        examination
            .damage(&place, format!("it belongs to array {}, this one is {}", newest.array_id, config.id));
    }
    if newest.level != group.level {
        examination
            .damage(&place, format!("it is declared as {}, its labels say {}", group.level, newest.level));
    }
    if newest.width as usize != group.drives.len() {
        let text =
            format!("it is declared with {} drives, its labels say {}", group.drives.len(), newest.width);
        examination.damage(&place, text);
    }
    for position in 0..newest.width {
        if !drives.iter().any(|d| d.label.position == position) {
            examination
                .damage(&place, format!("no drive carries its position {position} of {}", newest.width));
        }
    }
}

/// Drives of no declared group that carry the label of one.
fn strangers(config: &Config, all: &[(&Opened, Option<Label>)], examination: &mut Examination) {
    for (opened, label) in all {
        let declared = config.groups.iter().any(|g| g.drives.contains(&opened.name));
        if let (false, Some(label)) = (declared, label) {
            let text = format!("no group is declared on it, and it carries {label}");
            examination.damage(format!("drive {}", opened.name), text);
        }
    }
}
