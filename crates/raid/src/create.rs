//! Creation: labels with epoch 0 on all drives, then with epoch 1. A drive with epoch 0 never held data.

use block::BlockError;
use smallvec::SmallVec;
use world::{Drive, DriveError, World};

use crate::group::Group;
use crate::inner::Inner;
use crate::label::{LABEL_LEN, LABEL_REGION_LEN, Label, inspect};
use crate::member::{Member, MemberState};
use crate::relabel::{all, write_all};
use crate::{DRIVES_MAX, GroupError, GroupId, GroupSpec};

/// The head of the data area is zeroed at creation, so that nothing is mistaken for what lay there before.
const HEAD_ZEROED: u64 = 1 << 20;

impl Group {
    /// Labels the drives and opens the group. A drive that carries a label is refused, unless it is one of an
    /// interrupted creation of a group of this name.
    pub async fn create(world: World, spec: GroupSpec, drives: Vec<Drive>) -> Result<Group, GroupError> {
        spec.check(drives.len())?;
        for drive in &drives {
            let found = inspect(drive).await.map_err(|e| io(&spec, e))?;
            if let Some(label) = found
                && !(label.epoch == 0 && label.array_id == spec.array_id && label.group_name == spec.name)
            {
                let (group, drive) = (spec.name.clone(), drive.info().name.clone());
                return Err(GroupError::InUse { group, drive, found: label.to_string() });
            }
        }
        Group::create_forced(world, spec, drives).await
    }

    /// Like [`Group::create`], whatever the drives carry.
    pub async fn create_forced(
        world: World,
        spec: GroupSpec,
        drives: Vec<Drive>,
    ) -> Result<Group, GroupError> {
        spec.check(drives.len())?;
        let mut labels = new_labels(&world, &spec, &drives)?;
        write_all(drives.iter().zip(&labels)).await.map_err(|(_, e)| io(&spec, e))?;
        let head = HEAD_ZEROED.min(labels[0].data_len);
        let from = LABEL_REGION_LEN;
        let head = labels[0].journal_len + if spec.level.parities() > 0 { labels[0].data_len } else { head };
        let zeros: SmallVec<_> = drives.iter().map(|d| d.zero(from, head)).collect();
        all(zeros).await.map_err(|(_, e)| io(&spec, e))?;
        for label in &mut labels {
            label.epoch = 1;
        }
        // The first flush of this makes the zeros durable, too, though nothing depends on their order.
        write_all(drives.iter().zip(&labels)).await.map_err(|(_, e)| io(&spec, e))?;
        let members = drives.into_iter().map(|d| Member::new(Some(d), MemberState::Active)).collect();
        Ok(Group(std::rc::Rc::new(Inner::new(world, &labels[0], members, true))))
    }
}

/// The journal is this part of a drive, within the limits that follow.
const JOURNAL_SHARE: u64 = 256;
/// The least holds the content of so many units: a batch may take a quarter of the journal, and a row goes into one batch.
const JOURNAL_UNITS_MIN: u64 = 8;
/// The most is read at once from every drive when a group is opened.
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
    let mut id = [0; 16];
    // With the time, so that a group made again under its old name is another one.
    world.random(&format!("raid.id.{}.{}.{}", spec.array_id, spec.name, world.now().0)).fill(&mut id);
    let width = drives.len() as u32;
    let label = |position| Label {
        array_id: spec.array_id,
        group_id: GroupId(id),
        group_name: spec.name.clone(),
        level: spec.level,
        stripe_unit_bytes: spec.stripe_unit_bytes,
        position,
        width,
        epoch: 0,
        version: 1,
        in_sync: u32::MAX >> (32 - width),
        // What was never written may differ, as it may on any device.
        mirrors_may_differ: false,
        data_offset,
        data_len,
        block_bytes: drives.iter().map(|d| d.info().block_bytes).max().unwrap_or(512),
        rebuilding: None,
        waiting: 0,
        tags: [0; DRIVES_MAX],
        journal_len,
        journal_epoch: 1,
        lost: Vec::new(),
    };
    Ok((0..width).map(label).collect())
}

pub(crate) fn io(spec: &GroupSpec, error: DriveError) -> GroupError {
    GroupError::Io { group: spec.name.clone(), cause: BlockError::from(error) }
}
