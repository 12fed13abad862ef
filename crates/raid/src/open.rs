//! Opening: every label is held against the declaration and against the other labels.

use world::{Drive, World};

use crate::create::io;
use crate::error::MissingCause;
use crate::examine::{OnDrive, examine};
use crate::group::Group;
use crate::inner::{Inner, Layout};
use crate::label::Label;
use crate::member::{Member, MemberState};
use crate::{DRIVES_MAX, GroupError, GroupSpec, Level};

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
    /// Opens a group from its drives, in any order, and repairs what a power cut left. A drive that is known to be stale is left
    /// out. Without drives that the labels call for the group is opened degraded when those that are there can tell that the
    /// missing ones have nothing later: when no other set of its drives could have gone on without any of them. Otherwise, as
    /// of one mirror of two, that is an error.
    pub async fn open(world: World, spec: GroupSpec, drives: Vec<Drive>) -> Result<Group, GroupError> {
        open(world, spec, drives, false).await
    }

    /// Like [`Group::open`], also without drives that the labels call for. Whoever calls this vouches that the missing
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
    world: World,
    spec: GroupSpec,
    drives: Vec<Drive>,
    degraded: bool,
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
        found.push(identify(&spec, drive, label)?);
    }
    let reference = newest(&found).ok_or_else(|| GroupError::Spec {
        group: spec.name.clone(),
        cause: "no drive was given".to_owned(),
    })?;
    same_group(&spec, &found, &reference)?;
    agree(&spec, &found, &reference)?;
    let reference = with_lost_ranges(&spec, &found, reference)?;
    assemble(world, spec, found, reference, degraded).await
}

/// The label of a drive, if it carries one; an error where it carries one that cannot be read.
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
        OnDrive::Blank | OnDrive::NotBlank { .. } => Ok(None),
    }
}

/// The newest label that counts its own drive in: that of a drive which is still being filled does not decide.
fn newest(found: &[Found]) -> Option<Label> {
    let counts_in = |f: &&Found| f.label.is_in_sync(f.label.position);
    let newest = found.iter().filter(counts_in).max_by_key(|f| f.label.age());
    newest.or_else(|| found.iter().max_by_key(|f| f.label.age())).map(|f| f.label.clone())
}

/// The deciding label with its lost ranges, from whichever drive has them whole. Without them nobody knows what must not be read.
fn with_lost_ranges(spec: &GroupSpec, found: &[Found], mut reference: Label) -> Result<Label, GroupError> {
    let same = found.iter().filter(|f| f.label.age() == reference.age());
    let lost = same.filter_map(|f| f.label.lost.clone()).next();
    reference.lost = Some(lost.ok_or_else(|| GroupError::LostRanges { group: spec.name.clone() })?);
    Ok(reference)
}

/// Puts every drive in its place; brings labels up to date.
async fn assemble(
    world: World,
    spec: GroupSpec,
    mut found: Vec<Found>,
    reference: Label,
    degraded: bool,
) -> Result<Group, GroupError> {
    let mut label = reference.clone();
    label.mirrors_may_differ =
        found.iter().any(|f| f.label.mirrors_may_differ && is_fresh(&f.label, &reference));
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
        // Two, so that a change that a power cut left on a missing drive alone is older than this one.
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

/// Whether the group may be opened with these members, of which some are `older` copies of themselves.
fn may_go_without(
    spec: &GroupSpec,
    reference: &Label,
    (members, older): (&[Member], u32),
    degraded: bool,
) -> Result<(), GroupError> {
    let active = (0_u32..).zip(members).filter(|(_, m)| m.active().is_some()).fold(0, |s, (p, _)| s | 1 << p);
    let missing = reference.in_sync & !active;
    // A drive that is there and older than the others has nothing that they have not.
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
    if let Some(expected) = spec.id.filter(|id| *id != label.group_id) {
        return Err(GroupError::OtherGroup { group, drive: name, found: label.to_string(), expected });
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

/// Whether a drive holds all data. With redundancy: the newest label counts it in, whatever its own epoch is (the power may
/// have been cut between the labels of two survivors). RAID 0: epoch 0 beside 1 is a creation cut between the two.
fn is_fresh(label: &Label, reference: &Label) -> bool {
    match label.level {
        _ if is_rolled_back(label, reference) => false,
        Level::Raid0 => label.epoch == reference.epoch || (label.epoch == 0 && reference.epoch == 1),
        _ => reference.is_in_sync(label.position) && label.is_known_to(reference),
    }
}

/// Whether a drive is a copy of itself from an earlier time: all drives had a later label, this one has not.
fn is_rolled_back(label: &Label, reference: &Label) -> bool {
    let counts = reference.is_in_sync(label.position) && label.is_known_to(reference);
    label.epoch > 0 && label.version < reference.floor && counts
}

/// Whether a drive is the one that the newest label says is being filled, or waits for that.
fn is_being_filled(label: &Label, reference: &Label) -> bool {
    let filled = reference.rebuilding.is_some_and(|(p, _)| p == label.position);
    (filled || reference.waiting & 1 << label.position != 0) && label.is_known_to(reference)
}

/// Labels of the same epoch say the same, and the drives that an older one counts in are not all others than those that the
/// newest counts in: such two went on without each other. The label of a drive that does not count itself in says nothing.
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

/// Puts the drive of this position in its place; takes the position out of `label` when it goes without.
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
        format!("a copy of itself from an earlier time: its label has version {has}, all drives have had {had} since")
    });
    if let (Level::Raid0, Some(cause)) = (label.level, &rolled_back) {
        let (group, cause) =
            (spec.name.clone(), format!("drive {} is {cause}; give the newer one", f.name()));
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
    let older = format!("stale: its label is of epoch {}, the group is at {}", f.label.epoch, label.epoch);
    let cause = rolled_back.unwrap_or(older);
    *member.cause.borrow_mut() = Some(cause);
    Ok(member)
}
