//! Compares the labels of the drives with the declaration and with each other.

use raid::{ArrayId, GroupId, Label, LabelCopy, OnDrive, examine, inspect, label_copies};
use world::Drive;

use super::drives::Opened;
use super::examination::Examination;
use crate::config::{Config, GroupConfig};
use crate::terms;

/// A drive of a declared group, with its label.
pub(super) struct Labelled {
    pub(super) name: String,
    pub(super) drive: Drive,
    pub(super) label: Label,
}

/// The drives of one declared group that carry its labels, and the newest of these labels.
pub(super) struct Members {
    pub(super) group: String,
    pub(super) newest: Label,
    pub(super) drives: Vec<Labelled>,
}

/// Reads all labels. Returns the drives of each declared group that belong together, and reports what is
/// wrong.
pub(super) async fn check(config: &Config, drives: &[Opened], examination: &mut Examination) -> Vec<Members> {
    let mut all = Vec::new();
    for opened in drives {
        let place = format!("drive {}", opened.name);
        match inspect(opened.drive()).await {
            Ok(label) => {
                if label.is_some() {
                    copies_agree(&place, opened.drive(), examination).await;
                }
                all.push((opened, label));
            }
            Err(error) => examination.damage(place, format!("cannot read the label: {error}")),
        }
    }
    let of_group = |group: &GroupConfig| -> Vec<(&Opened, Option<Label>)> {
        let declared = |name: &String| all.iter().find(|(opened, _)| opened.name == *name);
        group.drives.iter().filter_map(declared).map(|(o, l)| (*o, l.clone())).collect()
    };
    let mut members = Vec::new();
    for group in &config.groups {
        let mut labelled = labelled(group, of_group(group), examination);
        let Some(id) = group_id(group, &labelled) else {
            if !labelled.is_empty() {
                examination.damage(format!("group {}", group.name), "no drive carries a label of this group");
            }
            continue;
        };
        // A spare replaces a drive without an operator: its label changes first, the declaration follows.
        let spares = all.iter().filter(|(opened, _)| config.spares.contains(&opened.name));
        labelled.extend(spares.filter_map(|(opened, label)| {
            let label = label.clone().filter(|l| l.group_id == id)?;
            Some(Labelled { name: opened.name.clone(), drive: opened.drive().clone(), label })
        }));
        members.push(belonging(config, group, id, labelled, examination));
    }
    strangers(config, &all, &members, examination);
    for (opened, _) in all.iter().filter(|(o, label)| label.is_none() && config.spares.contains(&o.name)) {
        spare(config, opened, examination).await;
    }
    members
}

/// A spare is blank until it is labelled. No group takes a spare that carries anything else.
async fn spare(config: &Config, opened: &Opened, examination: &mut Examination) {
    let place = format!("drive {}", opened.name);
    match examine(opened.drive()).await {
        Ok(OnDrive::Blank) => {}
        Ok(OnDrive::Spare { array_id }) if array_id == terms::array_id(config) => {}
        Ok(found) => examination.harmless(place, format!("unusable spare: the drive {found}")),
        Err(error) => examination.damage(place, format!("cannot be read: {error}")),
    }
}

/// Both copies of a drive's label must be equal, unless the power failed between the two writes.
async fn copies_agree(place: &str, drive: &Drive, examination: &mut Examination) {
    let mut said = Vec::new();
    for (copy, label) in (0..).zip(label_copies(drive).await) {
        match label {
            Ok(LabelCopy::Label(label)) => said.push(*label),
            Ok(LabelCopy::NewerFormat { format }) => {
                examination.damage(
                    place,
                    format!("copy {copy} of the label has format {format}, written by a newer masu"),
                );
            }
            Ok(LabelCopy::Spare { .. }) => {
                let text = format!("copy {copy} of the label is still that of a spare");
                examination.harmless(place, text);
            }
            Ok(LabelCopy::Cache { .. }) => {
                examination.damage(place, format!("copy {copy} of the label is that of a cache"));
            }
            Ok(LabelCopy::Damaged { .. } | LabelCopy::None) => {
                examination.damage(place, format!("copy {copy} of the label is torn or overwritten"))
            }
            Err(error) => {
                examination.damage(place, format!("copy {copy} of the label cannot be read: {error}"))
            }
        }
    }
    if let [first, second] = said.as_slice()
        && first != second
    {
        let (a, b) = (age(first), age(second));
        let text = format!("the copies of the label differ: (epoch, version) {a:?} and {b:?}");
        match a == b {
            true => examination.damage(place, text),
            false => examination.harmless(place, text),
        }
    }
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
                format!("carries no label, but is declared in group {}", group.name),
            ),
        }
    }
    labelled
}

/// The identity of the group: that of the label with its name which most drives carry; of several, the first.
fn group_id(group: &GroupConfig, labelled: &[Labelled]) -> Option<GroupId> {
    let named = || labelled.iter().filter(|l| l.label.group_name == group.name).map(|l| l.label.group_id);
    named().rev().max_by_key(|id| named().filter(|other| other == id).count())
}

/// Separates the drives that do not belong to the group, and reports what is wrong with the others.
fn belonging(
    config: &Config,
    group: &GroupConfig,
    id: GroupId,
    labelled: Vec<Labelled>,
    examination: &mut Examination,
) -> Members {
    let mut drives: Vec<Labelled> = Vec::new();
    for found in labelled {
        if found.label.group_id != id {
            let text = format!("foreign in group {}: carries {}", group.name, found.label);
            examination.damage(format!("drive {}", found.name), text);
            continue;
        }
        match drives.iter_mut().find(|d| d.label.position == found.label.position) {
            Some(twin) => twins(group, twin, found, examination),
            None => drives.push(found),
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

/// Of two drives with the label of one position, the newer label has it.
fn twins(group: &GroupConfig, kept: &mut Labelled, mut other: Labelled, examination: &mut Examination) {
    let (position, group) = (other.label.position, &group.name);
    if age(&kept.label) == age(&other.label) {
        let twin = &kept.name;
        let text = format!("duplicate of drive {twin}: both carry position {position} of group {group}");
        return examination.damage(format!("drive {}", other.name), text);
    }
    if age(&other.label) > age(&kept.label) {
        std::mem::swap(kept, &mut other);
    }
    let text = format!("superseded: drive {} now has position {position} of group {group}", kept.name);
    examination.harmless(format!("drive {}", other.name), text);
}

/// The age of a label: the greater is the newer.
fn age(label: &Label) -> (u64, u64) {
    (label.epoch, label.version)
}

fn held_against_newest(newest: &Label, found: &Labelled, examination: &mut Examination) {
    let (place, label) = (format!("drive {}", found.name), &found.label);
    if newest.rebuilding.is_some_and(|(position, _)| position == label.position) {
        // Opening the group reports this.
        return;
    }
    if newest.in_sync & (1 << label.position) == 0 {
        let text = format!(
            "stale: it lacks data of group {}, which continues at epoch {}",
            newest.group_name, newest.epoch
        );
        examination.damage(place, text);
    } else if age(label) < age(newest) {
        let text = format!("its label has epoch {}, others have epoch {}", label.epoch, newest.epoch);
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
        examination.damage(&place, "exported: no array owns it; import it");
    } else if newest.array_id != terms::array_id(config) {
        examination.damage(
            &place,
            format!("belongs to array {}, not to this array ({})", newest.array_id, config.id),
        );
    }
    if newest.level != terms::level(group.level) {
        examination
            .damage(&place, format!("declared as {}, but its labels say {}", group.level, newest.level));
    }
    if newest.width as usize != group.drives.len() {
        let text =
            format!("declared with {} drives, but its labels say {}", group.drives.len(), newest.width);
        examination.damage(&place, text);
    }
    for position in 0..newest.width {
        if !drives.iter().any(|d| d.label.position == position) {
            examination.damage(&place, format!("no drive carries position {position} of {}", newest.width));
        }
    }
}

/// Reports drives of no declared group that carry a label of one.
fn strangers(
    config: &Config,
    all: &[(&Opened, Option<Label>)],
    members: &[Members],
    examination: &mut Examination,
) {
    for (opened, label) in all {
        let declared = config.groups.iter().any(|g| g.drives.contains(&opened.name));
        let taken = members.iter().any(|m| m.drives.iter().any(|d| d.name == opened.name));
        let (false, false, Some(label)) = (declared, taken, label) else { continue };
        let place = format!("drive {}", opened.name);
        let has_its_place = |m: &&Members| {
            let newer = |d: &Labelled| d.label.position == label.position && age(&d.label) > age(label);
            m.newest.group_id == label.group_id && m.drives.iter().any(newer)
        };
        match members.iter().find(has_its_place) {
            Some(m) => {
                let text = format!("replaced in group {}; it still carries the old label", m.group);
                examination.harmless(place, text);
            }
            None => examination.damage(place, format!("in no declared group, but carries {label}")),
        }
    }
}
