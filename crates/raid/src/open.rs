//! Opening: every label is compared with the declaration and with the other labels.

use world::{Drive, World};

use crate::create::io;
use crate::error::MissingCause;
use crate::examine::{OnDrive, examine};
use crate::group::Group;
use crate::inner::{Inner, Layout};
use crate::label::{Label, Preferred};
use crate::member::{Member, MemberState};
use crate::{ArrayId, DRIVES_MAX, GroupError, GroupSpec, Level, Ownership};

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
    /// Opens a group from its drives, in any order, and recovers from a power failure. A stale drive is not
    /// used. If drives are missing, the group opens degraded only if the available ones prove that the
    /// missing ones have nothing newer: no other set of its drives could have continued without any of these.
    ///
    /// # Errors
    /// Otherwise, as with one mirror of two, [`GroupError::Missing`]; any other contradiction between labels
    /// and declaration has its own error.
    pub async fn open(world: World, spec: GroupSpec, drives: Vec<Drive>) -> Result<Group, GroupError> {
        open(world, spec, drives, (false, &[])).await
    }

    /// Like [`Group::open`], also if drives are missing. The caller vouches that they are lost for good, or
    /// have nothing that these drives lack.
    ///
    /// # Errors
    ///
    /// As [`Group::open`], but for drives that are missing, as long as the level tolerates it.
    pub async fn open_degraded(
        world: World,
        spec: GroupSpec,
        drives: Vec<Drive>,
    ) -> Result<Group, GroupError> {
        open(world, spec, drives, (true, &[])).await
    }

    /// Like [`Group::open`], also if some labels name one of these owners instead of the declared one:
    /// [`Group::adopt`] was interrupted between two drives. The newest label decides who owns the group.
    ///
    /// # Errors
    ///
    /// As [`Group::open`].
    pub async fn open_between_owners(
        world: World,
        spec: GroupSpec,
        drives: Vec<Drive>,
        owners: &[ArrayId],
    ) -> Result<Group, GroupError> {
        open(world, spec, drives, (false, owners)).await
    }
}

async fn open(
    world: World,
    spec: GroupSpec,
    drives: Vec<Drive>,
    (degraded, owners): (bool, &[ArrayId]),
) -> Result<Group, GroupError> {
    let mut labels = Vec::new();
    for drive in &drives {
        labels.push(label_of(&spec, drive).await?);
    }
    let mine = |l: &Label| {
        let named = l.array_id == spec.array_id && l.group_name == spec.name;
        named && spec.id.is_none_or(|id| id == l.group_id)
    };
    // Creation writes epoch 0 everywhere before it writes epoch 1 anywhere.
    if labels.iter().any(Option::is_some) && labels.iter().flatten().all(|l| l.epoch == 0 && mine(l)) {
        return Err(GroupError::Unfinished { group: spec.name });
    }
    let mut found = Vec::new();
    for (drive, label) in drives.into_iter().zip(labels) {
        found.push(identify(&spec, drive, label, owners)?);
    }
    let reference = newest(&found).ok_or_else(|| GroupError::Spec {
        group: spec.name.clone(),
        cause: "no drive is available".to_owned(),
    })?;
    same_group(&spec, &found, &reference)?;
    agree(&spec, &found, &reference)?;
    let reference = with_lost_ranges(&spec, &found, reference)?;
    not_from_before(&spec, &reference)?;
    assemble(world, spec, found, reference, degraded).await
}

/// The label of a drive, if it has one; an error if the label cannot be read.
async fn label_of(spec: &GroupSpec, drive: &Drive) -> Result<Option<Label>, GroupError> {
    let (group, name) = (spec.name.clone(), drive.info().name.clone());
    match examine(drive).await.map_err(|e| io(spec, e))? {
        OnDrive::Label(label) => Ok(Some(*label)),
        OnDrive::NewerFormat { format } => Err(GroupError::NewerFormat { group, drive: name, format }),
        OnDrive::DamagedLabel => Err(GroupError::DamagedLabel { group, drive: name }),
        OnDrive::Spare { array_id } => {
            let found = format!("array {array_id}, as a spare");
            let expected = format!("group {group}");
            Err(GroupError::Foreign { group, drive: name, found, expected })
        }
        OnDrive::Cache { array_id } => {
            let found = format!("array {array_id}, as the second level of a cache");
            let expected = format!("group {group}");
            Err(GroupError::Foreign { group, drive: name, found, expected })
        }
        OnDrive::Blank | OnDrive::NotBlank { .. } => Ok(None),
    }
}

/// The newest label that counts its own drive as in sync. The label of a drive that is being rebuilt does not
/// decide.
fn newest(found: &[Found]) -> Option<Label> {
    let counts_in = |f: &&Found| f.label.is_in_sync(f.label.position);
    let newest = found.iter().filter(counts_in).max_by_key(|f| f.label.age());
    newest.or_else(|| found.iter().max_by_key(|f| f.label.age())).map(|f| f.label.clone())
}

/// Checks that no later owner had the group open, by the deciding label: a drive that was left out keeps that
/// of an owner whose epochs may be of another registry.
fn not_from_before(spec: &GroupSpec, reference: &Label) -> Result<(), GroupError> {
    let had = reference.ownership;
    let is_later =
        |own: &Ownership| had.epoch > own.epoch || had.epoch == own.epoch && had.owner != own.owner;
    match spec.ownership.filter(is_later) {
        Some(own) => {
            Err(GroupError::LaterOwner { group: spec.name.clone(), found: had.epoch, own: own.epoch })
        }
        None => Ok(()),
    }
}

/// The deciding label with its lost ranges, from any drive with a valid table. Without them, nobody knows
/// which reads must fail.
fn with_lost_ranges(spec: &GroupSpec, found: &[Found], mut reference: Label) -> Result<Label, GroupError> {
    let same = found.iter().filter(|f| f.label.age() == reference.age());
    let lost = same.filter_map(|f| f.label.lost.clone()).next();
    reference.lost = Some(lost.ok_or_else(|| GroupError::LostRanges { group: spec.name.clone() })?);
    Ok(reference)
}

/// Assigns every drive to its position and updates the labels.
async fn assemble(
    world: World,
    spec: GroupSpec,
    mut found: Vec<Found>,
    reference: Label,
    degraded: bool,
) -> Result<Group, GroupError> {
    let mut label = reference.clone();
    label.ownership = spec.ownership.unwrap_or_default();
    label.mirrors_may_differ = may_differ(&found, &reference);
    let behind = found.iter().any(|f| f.label.age() != reference.age() && is_fresh(&f.label, &reference));
    let older = found.iter().filter(|f| is_rolled_back(&f.label, &reference));
    let older = older.fold(0, |s, f| s | 1 << f.label.position);
    let mut members = Vec::new();
    for position in 0..reference.width {
        members.push(place(&spec, &mut found, &mut label, position)?);
    }
    may_go_without(&spec, &reference, (&members, older), degraded)?;
    let changed = label.in_sync != reference.in_sync || label.rebuilding != reference.rebuilding;
    if changed {
        // Two, so that this label is newer than a change that reached only a missing drive before a power
        // failure.
        label.epoch += 2;
    }
    let group = Group::of(Inner::new(world, &label, members, !changed && !behind));
    group.0.next_to_rebuild();
    let failed = |cause| GroupError::Io { group: spec.name.clone(), cause };
    if let Layout::Rows(rows) = &group.0.layout {
        group.0.rows_recover(rows).await.map_err(failed)?;
    }
    group.0.begin_life().await.map_err(failed)?;
    Ok(group)
}

/// Whether mirrors may differ, and which one is preferred there: by the earlier rule if a drive in sync still
/// has the label of it.
fn may_differ(found: &[Found], reference: &Label) -> Option<Preferred> {
    let in_sync = found.iter().filter(|f| is_fresh(&f.label, reference));
    let rules = in_sync.filter_map(|f| f.label.mirrors_may_differ);
    rules.reduce(|one, other| if one == Preferred::First { one } else { other })
}

/// Whether the group may open with these members, some of which are `older` copies of an earlier state.
fn may_go_without(
    spec: &GroupSpec,
    reference: &Label,
    (members, older): (&[Member], u32),
    degraded: bool,
) -> Result<(), GroupError> {
    let active = (0_u32..).zip(members).filter(|(_, m)| m.active().is_some()).fold(0, |s, (p, _)| s | 1 << p);
    let missing = reference.in_sync & !active;
    // An available drive that is older than the others has no newer data.
    if missing == 0 || missing & !older == 0 && reference.level.can_serve(active, reference.width) {
        return Ok(());
    }
    let (level, width) = (reference.level, reference.width);
    let cause = if level.tolerates(width as usize) == 0 {
        MissingCause::NoData
    } else if !level.can_serve(active, width) {
        MissingCause::NoDataWithOthers
    } else if degraded || active.count_ones() + level.serving_min(width) > width {
        return Ok(());
    } else {
        MissingCause::MayBeNewer
    };
    let (group, position) = (spec.name.clone(), missing.trailing_zeros());
    Err(GroupError::Missing { group, position, width, cause })
}

/// Compares a label with the declaration.
fn identify(
    spec: &GroupSpec,
    drive: Drive,
    label: Option<Label>,
    owners: &[ArrayId],
) -> Result<Found, GroupError> {
    let expected = format!("group {} of array {}", spec.name, spec.array_id);
    let group = spec.name.clone();
    let name = drive.info().name.clone();
    let Some(label) = label else {
        return Err(GroupError::Unlabelled { group, drive: name, expected });
    };
    let is_owned = label.array_id == spec.array_id || owners.contains(&label.array_id);
    if !is_owned || label.group_name != spec.name {
        return Err(GroupError::Foreign { group, drive: name, found: label.to_string(), expected });
    }
    if let Some(expected) = spec.id.filter(|id| *id != label.group_id) {
        return Err(GroupError::OtherGroup { group, drive: name, found: label.to_string(), expected });
    }
    if label.level != spec.level {
        let cause = format!("declared as {}, but drive {name} is labelled {}", spec.level, label.level);
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
        let cause = format!(
            "drive {name} has blocks of {has} bytes, larger than the blocks of the group \
            ({blocks})"
        );
        return Err(GroupError::Spec { group, cause });
    }
    Ok(Found { drive, label })
}

/// Checks that all labels are of one group, and no two of one position.
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

/// Whether a drive is in sync. With redundancy: the newest label decides, whatever the drive's own epoch (the
/// power may have failed between the labels of two survivors). RAID 0: epoch 0 beside 1 is a creation that
/// was interrupted between the two.
fn is_fresh(label: &Label, reference: &Label) -> bool {
    match label.level {
        _ if is_rolled_back(label, reference) => false,
        Level::Raid0 => label.epoch == reference.epoch || (label.epoch == 0 && reference.epoch == 1),
        _ => reference.is_in_sync(label.position) && label.is_known_to(reference),
    }
}

/// Whether a drive is a copy of an earlier state: all drives had a later label, this one does not.
fn is_rolled_back(label: &Label, reference: &Label) -> bool {
    let counts = reference.is_in_sync(label.position) && label.is_known_to(reference);
    label.epoch > 0 && label.version < reference.floor && counts
}

/// Whether the newest label says that this drive is being rebuilt, or waits for it.
fn is_being_filled(label: &Label, reference: &Label) -> bool {
    let filled = reference.rebuilding.is_some_and(|(p, _)| p == label.position);
    (filled || reference.waiting & 1 << label.position != 0) && label.is_known_to(reference)
}

/// Checks that labels of the same epoch are equal, and that an older label shares a drive in sync with the
/// newest: otherwise the two parts continued without each other. The label of a drive that does not count
/// itself as in sync is ignored.
fn agree(spec: &GroupSpec, found: &[Found], reference: &Label) -> Result<(), GroupError> {
    let newest = found.iter().find(|f| f.label == *reference).expect("the reference is one of them");
    for f in found {
        let same = f.label.epoch != reference.epoch || f.label.in_sync == reference.in_sync;
        let both = f.label.in_sync & reference.in_sync;
        let together = (0..DRIVES_MAX).any(|p| both & 1 << p != 0 && f.label.tags[p] == reference.tags[p]);
        if f.label.is_in_sync(f.label.position) && !(same && together) {
            let (group, drive, other) = (spec.name.clone(), newest.name(), f.name());
            return Err(GroupError::Diverged { group, drive, other });
        }
    }
    Ok(())
}

/// Assigns the drive of this position. Removes the position from `label` if there is none.
fn place(
    spec: &GroupSpec,
    found: &mut Vec<Found>,
    label: &mut Label,
    position: u32,
) -> Result<Member, GroupError> {
    let was_filled = label.rebuilding.is_some_and(|(p, _)| p == position);
    let Some(i) = found.iter().position(|f| f.label.position == position) else {
        label.in_sync &= !(1 << position);
        label.rebuilding = label.rebuilding.filter(|_| !was_filled);
        return Ok(Member::new(None, MemberState::Missing));
    };
    let f = found.swap_remove(i);
    if is_fresh(&f.label, label) {
        return Ok(Member::new(Some(f.drive), MemberState::Active));
    }
    let rolled_back = is_rolled_back(&f.label, label).then(|| {
        let (has, had) = (f.label.version, label.floor);
        format!(
            "a copy of an earlier state: its label has version {has}, all drives have reached {had} \
            since"
        )
    });
    if let (Level::Raid0, Some(cause)) = (label.level, &rolled_back) {
        let (group, cause) =
            (spec.name.clone(), format!("drive {} is {cause}; connect the current drive", f.name()));
        return Err(GroupError::Spec { group, cause });
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
    if is_being_filled(&f.label, label) {
        return Ok(Member::new(Some(f.drive), MemberState::Rebuilding));
    }
    label.rebuilding = label.rebuilding.filter(|_| !was_filled);
    if rolled_back.is_some() {
        label.in_sync &= !(1 << position);
    }
    let member = Member::new(Some(f.drive), MemberState::Stale);
    let older = format!("stale: its label has epoch {}, the group has epoch {}", f.label.epoch, label.epoch);
    let cause = rolled_back.unwrap_or(older);
    *member.cause.borrow_mut() = Some(cause);
    Ok(member)
}
