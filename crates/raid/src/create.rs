//! Creation: labels with epoch 0 on all drives, then with epoch 1. A drive with epoch 0 never held data.

use block::BlockError;
use futures::future::join_all;
use smallvec::SmallVec;
use world::{Buf, Drive, DriveError, World};

use crate::await_all::await_all;
use crate::examine::{OnDrive, examine, label_copies};
use crate::group::Group;
use crate::inner::Inner;
use crate::label::{COPIES_AT, LABEL_LEN, LABEL_REGION_LEN, Label, LabelCopy};
use crate::member::{Member, MemberState};
use crate::relabel::write_all;
use crate::{ArrayId, DRIVES_MAX, GroupError, GroupId, GroupSpec};

/// Creation zeroes the start of the data area, so that older content cannot be mistaken for this group's.
const HEAD_ZEROED: u64 = 1 << 20;

/// What creation, or a drive that takes a position, may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Overwrite {
    /// Nothing: the drives are blank, or labelled by the same interrupted creation. A drive that takes a
    /// position may be a spare of the array.
    Nothing,
    /// Anything that is not known to be data of this array: other formats, labels of other arrays, of spares,
    /// damaged labels. Not the label of a group of this array, and not one of a newer format.
    Foreign,
    Anything,
}

impl Group {
    /// Labels the drives and opens the group.
    ///
    /// # Errors
    /// Drives that are not blank are refused, unless they carry the labels of an interrupted creation of this
    /// very group.
    pub async fn create(world: World, spec: GroupSpec, drives: Vec<Drive>) -> Result<Group, GroupError> {
        Group::create_over(world, spec, drives, Overwrite::Nothing).await
    }

    /// Like [`Group::create`], but overwrites any content.
    ///
    /// # Errors
    ///
    /// As [`Group::create`], but for what the drives carry.
    pub async fn create_forced(
        world: World,
        spec: GroupSpec,
        drives: Vec<Drive>,
    ) -> Result<Group, GroupError> {
        Group::create_over(world, spec, drives, Overwrite::Anything).await
    }

    /// Like [`Group::create`], with a choice of what may be overwritten. All drives are examined before one
    /// is written.
    ///
    /// # Errors
    ///
    /// The declaration is invalid, a drive is too small or carries what may not be overwritten, two drives
    /// are one medium, or a drive failed. In the first three cases nothing was written; in the fourth, the
    /// labels were, and what was in their places is put back.
    pub async fn create_over(
        world: World,
        spec: GroupSpec,
        drives: Vec<Drive>,
        overwrite: Overwrite,
    ) -> Result<Group, GroupError> {
        spec.check(drives.len())?;
        let same_creation = |l: &Label| {
            let same = l.array_id == spec.array_id && l.group_name == spec.name;
            l.epoch == 0 && same && spec.id.is_none_or(|id| id == l.group_id)
        };
        if overwrite != Overwrite::Anything {
            for (drive, found) in drives.iter().zip(join_all(drives.iter().map(examine)).await) {
                let found = found.map_err(|e| io(&spec, e))?;
                may_overwrite(&spec.name, spec.array_id, drive, found, overwrite, same_creation)?;
            }
        }
        let mut labels = new_labels(&world, &spec, &drives)?;
        write_first(&spec, &drives, &labels).await?;
        let head = HEAD_ZEROED.min(labels[0].data_len);
        let from = LABEL_REGION_LEN;
        // Parity must match from the beginning. Mirrors should, also where the drives had other content.
        let mirrored = spec.level.copies(labels[0].width) > 1;
        let cheap = drives.iter().all(|d| d.info().cheap_zero);
        let all_of_it = spec.level.parities() > 0 || mirrored && cheap && overwrite != Overwrite::Nothing;
        let head = labels[0].journal_len + if all_of_it { labels[0].data_len } else { head };
        let zeros: SmallVec<_> = drives.iter().map(|d| d.zero(from, head)).collect();
        await_all(zeros).await.map_err(|(_, e)| io(&spec, e))?;
        for label in &mut labels {
            label.epoch = 1;
        }
        // The first flush also makes these zeros durable; their order does not matter.
        write_all(drives.iter().zip(&labels)).await.map_err(|(_, e)| io(&spec, e))?;
        let members = drives.into_iter().map(|d| Member::new(Some(d), MemberState::Active)).collect();
        let group = Group::of(Inner::new(world, &labels[0], members, true));
        group.0.look_for_labels(&group.0.labels()).await.map_err(|(_, e)| io(&spec, e))?;
        Ok(group)
    }
}

/// Writes the first labels of a group, and reads them back: a drive that has the label of another one is the
/// same medium, by another path. Then what was in the places of the labels is put back, and nothing else of
/// the medium was written.
async fn write_first(spec: &GroupSpec, drives: &[Drive], labels: &[Label]) -> Result<(), GroupError> {
    let before = join_all(drives.iter().map(in_places_of_labels)).await;
    write_all(drives.iter().zip(labels)).await.map_err(|(_, e)| io(spec, e))?;
    let Some((one, other)) = same_medium(drives, labels).await.map_err(|e| io(spec, e))? else {
        return Ok(());
    };
    for (drive, before) in drives.iter().zip(before) {
        for (at, bytes) in before {
            // The error says what was wrong first.
            let _ = drive.write(at, bytes.freeze()).await;
        }
        let _ = drive.flush().await;
    }
    let name = |i: usize| drives[i].info().name.clone();
    Err(GroupError::SameMedium { group: spec.name.clone(), drive: name(one), other: name(other) })
}

/// What is where the copies of a label will be, as far as it can be read.
async fn in_places_of_labels(drive: &Drive) -> Vec<(u64, Buf)> {
    let mut found = Vec::new();
    for at in COPIES_AT {
        let filled = drive.read(at, Buf::new(LABEL_LEN)).await;
        found.extend(filled.result.is_ok().then_some((at, filled.buf)));
    }
    found
}

/// A drive that has the label of another one, and that one. (A drive without any label keeps nothing, which
/// is found out by whoever needs what it should have kept.)
async fn same_medium(drives: &[Drive], labels: &[Label]) -> Result<Option<(usize, usize)>, DriveError> {
    for (i, drive) in drives.iter().enumerate() {
        for copy in label_copies(drive).await {
            let LabelCopy::Label(found) = copy? else { continue };
            match found.position as usize {
                other if other != i && found.group_id == labels[i].group_id && other < drives.len() => {
                    return Ok(Some((i, other)));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Refuses a drive whose content must not be overwritten. `own` selects labels that may be overwritten in any
/// case.
pub(crate) fn may_overwrite(
    group: &str,
    array_id: ArrayId,
    drive: &Drive,
    found: OnDrive,
    overwrite: Overwrite,
    own: impl Fn(&Label) -> bool,
) -> Result<(), GroupError> {
    let (group, drive) = (group.to_owned(), drive.info().name.clone());
    match found {
        OnDrive::Blank => Ok(()),
        OnDrive::Label(label) if own(&label) => Ok(()),
        OnDrive::NewerFormat { format } => Err(GroupError::NewerFormat { group, drive, format }),
        OnDrive::Spare { array_id } if overwrite == Overwrite::Nothing => {
            let found = format!("array {array_id}, as a spare");
            Err(GroupError::InUse { group, drive, found })
        }
        OnDrive::Cache { array_id } if overwrite == Overwrite::Nothing => {
            let found = format!("array {array_id}, as the second level of a cache");
            Err(GroupError::InUse { group, drive, found })
        }
        OnDrive::Label(label) if overwrite == Overwrite::Nothing || label.array_id == array_id => {
            Err(GroupError::InUse { group, drive, found: label.to_string() })
        }
        _ if overwrite != Overwrite::Nothing => Ok(()),
        OnDrive::DamagedLabel => Err(GroupError::DamagedLabel { group, drive }),
        OnDrive::NotBlank { at } => Err(GroupError::NotBlank { group, drive, at }),
        OnDrive::Label(_) | OnDrive::Spare { .. } | OnDrive::Cache { .. } => {
            unreachable!("all kinds of labels are above")
        }
    }
}

/// The journal's share of a drive, within the limits below.
const JOURNAL_SHARE: u64 = 256;
/// The minimum holds the content of this many units: a batch may take a quarter of the journal, and a row
/// goes into one batch.
const JOURNAL_UNITS_MIN: u64 = 8;
/// The maximum, because opening a group reads the whole journal of every drive at once.
const JOURNAL_LEN_MAX: u64 = 16 << 20;

fn journal_len(spec: &GroupSpec, len_bytes: u64) -> u64 {
    if spec.level.parities() == 0 {
        return 0;
    }
    let min = JOURNAL_UNITS_MIN * u64::from(spec.stripe_unit_bytes) + 8 * LABEL_LEN as u64;
    (len_bytes / JOURNAL_SHARE).clamp(min, JOURNAL_LEN_MAX.max(min)).next_multiple_of(LABEL_LEN as u64)
}

fn new_labels(world: &World, spec: &GroupSpec, drives: &[Drive]) -> Result<Vec<Label>, GroupError> {
    let unit = u64::from(spec.stripe_unit_bytes);
    let smallest = drives.iter().min_by_key(|d| d.info().len_bytes).expect("a group has drives");
    let journal_len = journal_len(spec, smallest.info().len_bytes);
    let data_offset = LABEL_REGION_LEN + journal_len;
    let data_len = smallest.info().len_bytes.saturating_sub(data_offset) / unit * unit;
    if data_len == 0 {
        return Err(GroupError::TooSmall {
            group: spec.name.clone(),
            drive: smallest.info().name.clone(),
            len_bytes: smallest.info().len_bytes,
            needed_bytes: data_offset + unit,
        });
    }
    let id = spec.id.unwrap_or_else(|| {
        let mut id = [0; 16];
        // Includes the time, so that a group created again under its old name has another identity.
        world.random(&format!("raid.id.{}.{}.{}", spec.array_id, spec.name, world.now().0)).fill(&mut id);
        GroupId(id)
    });
    let width = drives.len() as u32;
    let label = |position| Label {
        array_id: spec.array_id,
        group_id: id,
        group_name: spec.name.clone(),
        level: spec.level,
        stripe_unit_bytes: spec.stripe_unit_bytes,
        position,
        width,
        epoch: 0,
        version: 1,
        in_sync: u32::MAX >> (32 - width),
        // Content that was never written may differ, as on any device.
        mirrors_may_differ: None,
        data_offset,
        data_len,
        block_bytes: drives.iter().map(|d| d.info().block_bytes).max().unwrap_or(512),
        rebuilding: None,
        waiting: 0,
        tags: [0; DRIVES_MAX],
        journal_len,
        journal_epoch: 1,
        differing: 0,
        lost: Some(Vec::new()),
        floor: 0,
        ownership: spec.ownership.unwrap_or_default(),
        lost_slot: 0,
    };
    Ok((0..width).map(label).collect())
}

pub(crate) fn io(spec: &GroupSpec, error: DriveError) -> GroupError {
    GroupError::Io { group: spec.name.clone(), cause: BlockError::from(error) }
}
