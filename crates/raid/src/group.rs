//! The group as its users hold it: a handle, its facts, and the device that it is.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockError, Device, Geometry, Pieces};
use world::sync::Signal;
use world::{Drive, DriveError};

use crate::label::{DATA_OFFSET, Label};
use crate::member::{Member, MemberState, MemberStatus};
use crate::ranges::Ranges;
use crate::stripe::Stripes;
use crate::{ArrayId, GroupId, Level};

/// A RAID group: a handle, cheap to clone.
#[derive(Clone)]
pub struct Group(pub(crate) Rc<Inner>);

/// How a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// All drives serve.
    Optimal,
    /// It serves without some of its drives.
    Degraded,
    /// It cannot serve any more.
    Failed,
}

/// A group as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: GroupId,
    /// Its level.
    pub level: Level,
    /// Its stripe unit (of RAID 0).
    pub stripe_unit_bytes: u32,
    /// How it is.
    pub state: GroupState,
    /// Its size.
    pub len_bytes: u64,
    /// How often its membership changed.
    pub epoch: u64,
    /// Whether reads are kept to one mirror, because the mirrors may differ since a power cut.
    pub reads_pinned: bool,
    /// Places that were written again after a medium error, since the group was opened.
    pub repairs: u64,
    /// Its drives by position.
    pub members: Vec<MemberStatus>,
}

pub(crate) struct Inner {
    pub(crate) array_id: ArrayId,
    pub(crate) id: GroupId,
    pub(crate) name: String,
    pub(crate) level: Level,
    pub(crate) stripe_unit_bytes: u32,
    pub(crate) geometry: Geometry,
    pub(crate) data_offset: u64,
    pub(crate) data_len: u64,
    pub(crate) members: Vec<Member>,
    pub(crate) epoch: Cell<u64>,
    pub(crate) in_sync: Cell<u32>,
    /// What the label says of the mirrors; with its own version, because it changes without the epoch.
    pub(crate) may_differ: Cell<bool>,
    pub(crate) version: Cell<u64>,
    /// Whether `may_differ` is durable: the one look that a write takes.
    pub(crate) marked: Cell<bool>,
    /// Reads are kept to the first active mirror.
    pub(crate) pinned: Cell<bool>,
    /// The epoch and version that the labels have.
    pub(crate) labelled: Cell<(u64, u64)>,
    pub(crate) labelling: Cell<bool>,
    pub(crate) label_written: Signal,
    pub(crate) writes: Ranges,
    pub(crate) turn: Cell<usize>,
    repairs: Cell<u64>,
}

impl Inner {
    /// A group whose labels say `label`, apart from the position.
    pub(crate) fn new(label: &Label, members: Vec<Member>, labelled: bool) -> Inner {
        let data_drives = match label.level {
            Level::Raid0 => u64::from(label.width),
            Level::Raid1 => 1,
        };
        Inner {
            array_id: label.array_id,
            id: label.group_id,
            name: label.group_name.clone(),
            level: label.level,
            stripe_unit_bytes: label.stripe_unit_bytes,
            geometry: Geometry { len_bytes: label.data_len * data_drives, block_bytes: label.block_bytes },
            data_offset: DATA_OFFSET,
            data_len: label.data_len,
            members,
            epoch: Cell::new(label.epoch),
            in_sync: Cell::new(label.in_sync),
            may_differ: Cell::new(label.mirrors_may_differ),
            version: Cell::new(1),
            marked: Cell::new(label.mirrors_may_differ && labelled),
            pinned: Cell::new(label.mirrors_may_differ),
            labelled: Cell::new(if labelled { (label.epoch, 1) } else { (0, 0) }),
            labelling: Cell::new(false),
            label_written: Signal::default(),
            writes: Ranges::default(),
            turn: Cell::new(0),
            repairs: Cell::new(0),
        }
    }

    pub(crate) fn label(&self, position: u32) -> Label {
        Label {
            array_id: self.array_id,
            group_id: self.id,
            group_name: self.name.clone(),
            level: self.level,
            stripe_unit_bytes: self.stripe_unit_bytes,
            position,
            width: self.members.len() as u32,
            epoch: self.epoch.get(),
            in_sync: self.in_sync.get(),
            mirrors_may_differ: self.may_differ.get(),
            data_offset: self.data_offset,
            data_len: self.data_len,
            block_bytes: self.geometry.block_bytes,
        }
    }

    pub(crate) fn stripes(&self) -> Stripes {
        Stripes { unit: self.stripe_unit_bytes.into(), width: self.members.len() as u64 }
    }

    /// The drive at a position that must serve.
    pub(crate) fn serving(&self, m: usize) -> Result<&Drive, BlockError> {
        self.members[m].active().ok_or_else(|| self.failure())
    }

    /// Whose error this is.
    pub(crate) fn member_named(&self, error: &DriveError) -> usize {
        let (DriveError::Medium { drive, .. }
        | DriveError::Gone { drive, .. }
        | DriveError::NoRoom { drive, .. }) = error;
        let found =
            self.members.iter().position(|m| m.drive.as_ref().is_some_and(|d| d.info().name == *drive));
        found.unwrap_or_default()
    }

    /// Why the group does not serve.
    pub(crate) fn failure(&self) -> BlockError {
        let cause = self.members.iter().find_map(|m| m.cause.borrow().clone());
        let cause = cause.unwrap_or_else(|| "too few drives are left".to_owned());
        BlockError::Failed { cause: format!("group {}: {cause}", self.name) }
    }

    pub(crate) fn count_repair(&self) {
        self.repairs.set(self.repairs.get() + 1);
    }

    fn state(&self) -> GroupState {
        let active = self.members.iter().filter(|m| m.active().is_some()).count();
        match self.level {
            _ if active == self.members.len() => GroupState::Optimal,
            Level::Raid1 if active > 0 => GroupState::Degraded,
            _ => GroupState::Failed,
        }
    }

    fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.geometry.check(at, len)?;
        let block = u64::from(self.geometry.block_bytes);
        assert!(
            at.is_multiple_of(block) && len.is_multiple_of(block),
            "group {}: {len} bytes at {at} are not whole blocks of {block}",
            self.name
        );
        Ok(())
    }
}

impl Group {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its identity.
    pub fn id(&self) -> GroupId {
        self.0.id
    }

    /// The drives that serve.
    pub fn drives(&self) -> Vec<Drive> {
        self.0.members.iter().filter_map(|m| m.active().cloned()).collect()
    }

    /// Whether zeroing is cheap on all drives.
    pub fn cheap_zero(&self) -> bool {
        self.0.members.iter().filter_map(Member::active).all(|d| d.info().cheap_zero)
    }

    /// How it is, with its drives and how often they were used.
    pub fn status(&self) -> GroupStatus {
        let inner = &self.0;
        GroupStatus {
            name: inner.name.clone(),
            id: inner.id,
            level: inner.level,
            stripe_unit_bytes: inner.stripe_unit_bytes,
            state: inner.state(),
            len_bytes: inner.geometry.len_bytes,
            epoch: inner.epoch.get(),
            reads_pinned: inner.pinned.get(),
            repairs: inner.repairs.get(),
            members: (0..).zip(&inner.members).map(|(position, m)| m.status(position)).collect(),
        }
    }

    /// Flushes, and notes on the labels of mirrors that they are equal, so that the next start reads from all of them.
    /// No write may be in flight or follow.
    pub async fn close(&self) -> Result<(), BlockError> {
        self.flush().await?;
        let inner = &self.0;
        if inner.level == Level::Raid1 && !inner.pinned.get() && inner.may_differ.replace(false) {
            inner.version.set(inner.version.get() + 1);
            inner.marked.set(false);
            inner.relabel().await?;
        }
        Ok(())
    }

    /// Makes a drive fail from here on, as if it had been pulled: for fault tests of the layers above.
    pub async fn fail_drive(&self, position: u32) -> Result<(), BlockError> {
        let Some(drive) = self.0.members.get(position as usize).and_then(Member::active) else {
            return Ok(());
        };
        let cause = "taken out of service by hand".to_owned();
        let error = DriveError::Gone { drive: drive.info().name.clone(), cause };
        self.0.drop_member(position as usize, &error).await
    }
}

impl Device for Group {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.0.check(at, len as u64)?;
        match self.0.level {
            _ if len == 0 => Ok(()),
            Level::Raid0 => self.0.stripe_read(at, len, out).await,
            Level::Raid1 => self.0.mirror_read(at, len, out).await,
        }
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.0.check(at, data.len() as u64)?;
        match self.0.level {
            _ if data.is_empty() => Ok(()),
            Level::Raid0 => self.0.stripe_write(at, data).await,
            Level::Raid1 => self.0.mirror_write(at, data).await,
        }
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.0.check(at, len)?;
        match self.0.level {
            _ if len == 0 => Ok(()),
            Level::Raid0 => self.0.stripe_zero(at, len).await,
            Level::Raid1 => self.0.mirror_zero(at, len).await,
        }
    }

    async fn flush(&self) -> Result<(), BlockError> {
        match self.0.level {
            Level::Raid0 => self.0.stripe_flush().await,
            Level::Raid1 => self.0.mirror_flush().await,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        debug_assert!(
            self.members.iter().all(|m| m.drive.is_some() || m.state.get() == MemberState::Missing)
        );
    }
}
