//! Opening: every label is held against the declaration and against the other labels.

use std::rc::Rc;

use world::{Drive, World};

use crate::create::io;
use crate::group::{Group, Inner};
use crate::label::{Label, inspect};
use crate::member::{Member, MemberState};
use crate::{GroupError, GroupSpec, Level};

struct Found {
    drive: Drive,
    label: Label,
}

impl Found {
    fn name(&self) -> String {
        self.drive.info().name.clone()
    }
}

impl Group {
    /// Opens a group from its drives, in any order. A drive that the labels call for and that is not given is an error:
    /// nobody else could tell whether it has later data. A drive of a mirror that is known to be stale is left out.
    pub async fn open(world: World, spec: GroupSpec, drives: Vec<Drive>) -> Result<Group, GroupError> {
        open(world, spec, drives, false).await
    }

    /// Like [`Group::open`], also without mirrors that the labels call for. Whoever calls this vouches that the missing
    /// drive is lost for good, or at least has nothing that these have not.
    pub async fn open_degraded(
        world: World,
        spec: GroupSpec,
        drives: Vec<Drive>,
    ) -> Result<Group, GroupError> {
        open(world, spec, drives, true).await
    }
}

async fn open(
    _world: World,
    spec: GroupSpec,
    drives: Vec<Drive>,
    degraded: bool,
) -> Result<Group, GroupError> {
    let mut labels = Vec::new();
    for drive in &drives {
        labels.push(inspect(drive).await.map_err(|e| io(&spec, e))?);
    }
    let mine = |l: &Label| l.array_id == spec.array_id && l.group_name == spec.name;
    // Creation writes epoch 0 everywhere before it writes epoch 1 anywhere.
    if labels.iter().any(Option::is_some) && labels.iter().flatten().all(|l| l.epoch == 0 && mine(l)) {
        return Err(GroupError::Unfinished { group: spec.name });
    }
    let mut found = Vec::new();
    for (drive, label) in drives.into_iter().zip(labels) {
        found.push(identify(&spec, drive, label)?);
    }
    let newest = found.iter().max_by_key(|f| f.label.epoch).ok_or_else(|| GroupError::Spec {
        group: spec.name.clone(),
        cause: "no drive was given".to_owned(),
    })?;
    let reference = newest.label.clone();
    same_group(&spec, &found, &reference)?;
    agree(&spec, &found, &reference)?;
    assemble(spec, found, reference, degraded).await
}

/// Puts every drive in its place; brings labels up to date.
async fn assemble(
    spec: GroupSpec,
    mut found: Vec<Found>,
    reference: Label,
    degraded: bool,
) -> Result<Group, GroupError> {
    let mut label = reference.clone();
    label.mirrors_may_differ =
        found.iter().any(|f| f.label.mirrors_may_differ && is_fresh(&f.label, &reference));
    let behind = found.iter().any(|f| f.label.epoch != reference.epoch && is_fresh(&f.label, &reference));
    let mut members = Vec::new();
    for position in 0..reference.width {
        members.push(place(&spec, &mut found, &mut label, position, degraded)?);
    }
    let missing = label.in_sync != reference.in_sync;
    if missing {
        label.epoch += 1;
    }
    let group = Group(Rc::new(Inner::new(&label, members, !missing && !behind)));
    group.0.relabel().await.map_err(|cause| GroupError::Io { group: spec.name, cause })?;
    Ok(group)
}

/// Holds a label against the declaration.
fn identify(spec: &GroupSpec, drive: Drive, label: Option<Label>) -> Result<Found, GroupError> {
    let expected = format!("group {} of array {}", spec.name, spec.array_id);
    let group = spec.name.clone();
    let name = drive.info().name.clone();
    let Some(label) = label else {
        return Err(GroupError::Unlabelled { group, drive: name, expected });
    };
    if label.array_id != spec.array_id || label.group_name != spec.name {
        return Err(GroupError::Foreign { group, drive: name, found: label.to_string(), expected });
    }
    if label.level != spec.level {
        let cause = format!("it is declared as {} but drive {name} is labelled {}", spec.level, label.level);
        return Err(GroupError::Spec { group, cause });
    }
    let needed_bytes = label.data_offset + label.data_len;
    if drive.info().len_bytes < needed_bytes {
        return Err(GroupError::TooSmall {
            group,
            drive: name,
            len_bytes: drive.info().len_bytes,
            needed_bytes,
        });
    }
    if drive.info().block_bytes > label.block_bytes {
        let (has, blocks) = (drive.info().block_bytes, label.block_bytes);
        let cause = format!("drive {name} has blocks of {has} bytes, the group has blocks of {blocks}");
        return Err(GroupError::Spec { group, cause });
    }
    Ok(Found { drive, label })
}

/// All labels are of one group, and no two of one position.
fn same_group(spec: &GroupSpec, found: &[Found], reference: &Label) -> Result<(), GroupError> {
    for (i, f) in found.iter().enumerate() {
        let twin = found[..i].iter().find(|o| o.label.position == f.label.position);
        let other = match twin {
            Some(twin) => Some(format!("{} (as drive {})", twin.label, twin.name())),
            None if f.label.group_id != reference.group_id || f.label.width != reference.width => {
                Some(reference.to_string())
            }
            None => None,
        };
        if let Some(expected) = other {
            let (group, drive, found) = (spec.name.clone(), f.name(), f.label.to_string());
            return Err(GroupError::Foreign { group, drive, found, expected });
        }
    }
    Ok(())
}

/// Whether a drive holds all data. RAID 1: the newest label counts it in, whatever its own epoch is (the power may have
/// been cut between the labels of two survivors). RAID 0: epoch 0 beside 1 is a creation cut between the two.
fn is_fresh(label: &Label, reference: &Label) -> bool {
    match label.level {
        Level::Raid0 => label.epoch == reference.epoch || (label.epoch == 0 && reference.epoch == 1),
        Level::Raid1 => reference.is_in_sync(label.position),
    }
}

/// Labels of the same epoch say the same, and every older one counts the newest drive in.
fn agree(spec: &GroupSpec, found: &[Found], reference: &Label) -> Result<(), GroupError> {
    let newest = found.iter().find(|f| f.label == *reference).expect("the reference is one of them");
    for f in found {
        let same = f.label.epoch != reference.epoch || f.label.in_sync == reference.in_sync;
        if !same || !f.label.is_in_sync(reference.position) {
            let (group, drive, other) = (spec.name.clone(), newest.name(), f.name());
            return Err(GroupError::Diverged { group, drive, other });
        }
    }
    Ok(())
}

/// Puts the drive of this position in its place; takes the position out of `label` when it goes without.
fn place(
    spec: &GroupSpec,
    found: &mut Vec<Found>,
    label: &mut Label,
    position: u32,
    degraded: bool,
) -> Result<Member, GroupError> {
    let called_for = label.is_in_sync(position);
    let Some(i) = found.iter().position(|f| f.label.position == position) else {
        if called_for && (label.level == Level::Raid0 || !degraded) {
            let cause = match label.level {
                Level::Raid0 => "without it there is no data",
                Level::Raid1 => "it may have later data; give it, or say that the group shall start degraded",
            };
            let (group, width, cause) = (spec.name.clone(), label.width, cause.to_owned());
            return Err(GroupError::Missing { group, position, width, cause });
        }
        label.in_sync &= !(1 << position);
        return Ok(Member::new(None, MemberState::Missing));
    };
    let f = found.swap_remove(i);
    if is_fresh(&f.label, label) {
        return Ok(Member::new(Some(f.drive), MemberState::Active));
    }
    if label.level == Level::Raid0 {
        let (group, drive) = (spec.name.clone(), f.name());
        return Err(GroupError::Stale {
            group,
            drive,
            found: f.label.to_string(),
            expected: label.to_string(),
        });
    }
    let member = Member::new(Some(f.drive), MemberState::Stale);
    let cause = format!("stale: its label is of epoch {}, the group is at {}", f.label.epoch, label.epoch);
    *member.cause.borrow_mut() = Some(cause);
    Ok(member)
}
