//! Replacing a drive, and changing the owner of a group.

use std::rc::Rc;

use block::BlockError;
use world::Drive;

use crate::create::{Overwrite, may_overwrite};
use crate::events::GroupEvent;
use crate::examine::{OnDrive, examine, inspect};
use crate::group::{Group, asked};
use crate::inner::Inner;
use crate::label::Label;
use crate::member::{Member, MemberState};
use crate::relabel::{mend_copies, write_all};
use crate::spec::check_name;
use crate::{ArrayId, GroupError, Ownership};

/// What a rebuild writes to a drive that takes a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Everything.
    Anew,
    /// The ranges that changed since it was dropped.
    WhatChanged,
}

impl Group {
    /// Assigns the position of a missing, stale or failed drive to `drive`, which is blank, a spare of this
    /// array, or a former member of this group. Durable on return; [`Group::rebuild`] then rebuilds it.
    ///
    /// # Errors
    ///
    /// The position is in sync, or the drive is too small, not blank, or another group's; or it failed. The
    /// position then stays as it was.
    pub async fn replace(&self, position: u32, drive: Drive) -> Result<(), GroupError> {
        self.replace_over(position, drive, Overwrite::Nothing).await
    }

    /// Like [`Group::replace`], but overwrites any content.
    ///
    /// # Errors
    ///
    /// As [`Group::replace`], but for what the drive carries.
    pub async fn replace_forced(&self, position: u32, drive: Drive) -> Result<(), GroupError> {
        self.replace_over(position, drive, Overwrite::Anything).await
    }

    /// Like [`Group::replace`], with a choice of what may be overwritten.
    ///
    /// # Errors
    ///
    /// As [`Group::replace`], by what may be overwritten.
    pub async fn replace_over(
        &self,
        position: u32,
        drive: Drive,
        overwrite: Overwrite,
    ) -> Result<(), GroupError> {
        self.check_replacement(position, &drive, overwrite).await?;
        self.take_place(position, drive, Fill::Anew).await
    }

    /// Takes back a drive that was dropped as unresponsive or gone and answers again without having been
    /// reopened. [`Group::rebuild`] then writes what changed meanwhile, if that is known. Returns the number
    /// of these bytes; `None` for a complete rebuild.
    pub async fn take_back(&self, position: u32) -> Result<Option<u64>, GroupError> {
        let inner = &self.0;
        let member = inner.members.get(position as usize);
        let dropped = |m: &&Member| m.silent.get() || m.gone.get();
        let returned = member.filter(dropped).and_then(|m| Some((m, m.drive.borrow().clone()?)));
        let Some((member, drive)) = returned else {
            let cause = format!(
                "position {position} has no drive that was dropped because it was unresponsive or \
                    gone"
            );
            return Err(GroupError::Spec { group: inner.name.clone(), cause });
        };
        // A flush that was given up may have failed since: the drive is then like one that failed it in use.
        if let Err(error) = drive.flush().await
            && !error.is_of_drive()
        {
            member.silent.set(false);
            member.gone.set(false);
            *member.cause.borrow_mut() = Some(error.to_string());
            return Err(inner.io_error(error.into()));
        }
        let own = |label: &Label| label.position == position && self.left(label);
        let fill = match examine(&drive).await.map_err(|e| inner.io_error(e.into()))? {
            OnDrive::Label(label) if own(&label) && !inner.pinned.get() => Fill::WhatChanged,
            found => {
                let array = inner.array_id.get();
                may_overwrite(&inner.name, array, &drive, found, Overwrite::Nothing, own)?;
                Fill::Anew
            }
        };
        self.take_place(position, drive, fill).await?;
        let missed = member.missed.borrow();
        Ok(missed.as_ref().map(|missed| missed.len_bytes().min(inner.data_len)))
    }

    /// Whether the label is of a drive that this group dropped, and that nobody else used since: it had its
    /// position last, and shares a drive in sync with the group.
    pub fn left(&self, label: &Label) -> bool {
        let inner = &self.0;
        let Some(member) = inner.members.get(label.position as usize) else { return false };
        let tag_of = |p: usize| inner.members[p].tag.get();
        let in_common = label.in_sync & inner.active_set();
        let together =
            (0..inner.members.len()).any(|p| in_common & 1 << p != 0 && label.tags[p] == tag_of(p));
        label.group_id == inner.id && label.tags[label.position as usize] == member.tag.get() && together
    }

    /// Whether `drive` could take a position: its content and its size. For callers that ask before the
    /// current drive leaves, so the state of the position does not matter.
    ///
    /// # Errors
    ///
    /// Why it could not.
    pub async fn check_replacement(
        &self,
        position: u32,
        drive: &Drive,
        overwrite: Overwrite,
    ) -> Result<(), GroupError> {
        let inner = &self.0;
        inner.fits(drive)?;
        if overwrite == Overwrite::Anything {
            return Ok(());
        }
        let own = |label: &Label| {
            let left_out = label.group_id == inner.id && label.position == position;
            left_out || label.epoch == 0 && label.array_id == inner.array_id.get()
        };
        let found = examine(drive).await.map_err(|e| inner.io_error(e.into()))?;
        if found == (OnDrive::Spare { array_id: inner.array_id.get() }) {
            return Ok(());
        }
        may_overwrite(&inner.name, inner.array_id.get(), drive, found, overwrite, own)
    }

    async fn take_place(&self, position: u32, drive: Drive, fill: Fill) -> Result<(), GroupError> {
        let inner = &self.0;
        inner.can_take(position, &drive)?;
        // Before the drive's frames are erased, the labels say that it was dropped.
        inner.relabel().await.map_err(|e| inner.io_error(e))?;
        let zeroed = match inner.data_offset - crate::label::LABEL_REGION_LEN {
            0 => Ok(()),
            // Frames of an earlier life must not be found.
            journal => drive.zero(crate::label::LABEL_REGION_LEN, journal).await,
        };
        zeroed.map_err(|e| inner.io_error(e.into()))?;
        inner.can_take(position, &drive)?;
        let member = &inner.members[position as usize];
        let tag = inner.new_tag(position);
        inner.label_first(position, &drive, tag).await.map_err(|e| inner.io_error(e.into()))?;
        inner.can_take(position, &drive)?;
        let name = drive.info().name.clone();
        // Writers read the members once, so no write may be in progress.
        let held = inner.locks.exclusive(0..inner.geometry.len_bytes).await;
        inner.can_take(position, &drive)?;
        if let Some(before) = &*member.drive.borrow() {
            before.ask_before_giving_up(Rc::new(|| true));
        }
        drive.ask_before_giving_up(asked(inner, position as usize));
        *member.drive.borrow_mut() = Some(drive);
        if fill == Fill::Anew || inner.pinned.get() {
            *member.missed.borrow_mut() = None;
        }
        member.silent.set(false);
        member.gone.set(false);
        member.has_kept_label.set(false);
        *member.cause.borrow_mut() = None;
        member.tag.set(tag);
        member.state.set(MemberState::Rebuilding);
        inner.epoch.set(inner.epoch.get() + 1);
        inner.next_to_rebuild();
        drop(held);
        inner.relabel().await.map_err(|e| inner.io_error(e))?;
        inner.events.tell(GroupEvent::DriveReplaced { position, drive: name });
        Ok(())
    }

    /// Changes the owner on the labels: an array that imports the group, or nobody ([`ArrayId::default`]) for
    /// an export. Epochs of ownership are the former array's: none is left. A name, if given, is in force
    /// from the next opening on.
    ///
    /// # Errors
    ///
    /// The labels could not be written on enough drives.
    pub async fn adopt(&self, owner: ArrayId, name: Option<&str>) -> Result<(), GroupError> {
        let inner = &self.0;
        if let Some(name) = name {
            check_name(name)?;
            *inner.renamed.borrow_mut() = Some(name.to_owned());
        }
        inner.array_id.set(owner);
        inner.ownership.set(Ownership::default());
        inner.label_changed();
        inner.relabel().await.map_err(|e| inner.io_error(e))
    }
}

impl Inner {
    fn new_tag(&self, position: u32) -> u64 {
        let (epoch, now) = (self.epoch.get(), self.world.now().0);
        self.world.random(&format!("raid.tag.{}.{position}.{epoch}.{now}", self.id)).u64(1..)
    }

    /// Labels a new drive before any other label names it: after a power failure its label is there, and the
    /// drive is either a member or stale.
    async fn label_first(&self, position: u32, drive: &Drive, tag: u64) -> Result<(), world::DriveError> {
        let mut label = self.label(position);
        // The slots of a new drive are free; the next labels use the next slot.
        label.tags[position as usize] = tag;
        mend_copies(drive).await?;
        write_all([(drive, &label)].into_iter()).await.map_err(|(_, error)| error)
    }

    fn can_take(&self, position: u32, drive: &Drive) -> Result<(), GroupError> {
        let refuse = |cause: String| Err(GroupError::Spec { group: self.name.clone(), cause });
        let Some(member) = self.members.get(position as usize) else {
            return refuse(format!("no such position: {position}"));
        };
        if !self.level.can_serve(self.active_set(), self.members.len() as u32) {
            return refuse("too few drives are left to rebuild another one".to_owned());
        }
        match member.state.get() {
            MemberState::Active => return refuse(format!("the drive at position {position} is in use")),
            MemberState::Rebuilding => {
                return refuse(format!("the drive at position {position} is being rebuilt"));
            }
            MemberState::Missing | MemberState::Stale | MemberState::Failed => {}
        }
        self.fits(drive)
    }

    /// Whether a drive is large enough, and its blocks are not larger than the group's.
    fn fits(&self, drive: &Drive) -> Result<(), GroupError> {
        let refuse = |cause: String| Err(GroupError::Spec { group: self.name.clone(), cause });
        let (info, needed_bytes) = (drive.info(), self.data_offset + self.data_len);
        if info.len_bytes < needed_bytes {
            let (group, drive) = (self.name.clone(), info.name.clone());
            return Err(GroupError::TooSmall { group, drive, len_bytes: info.len_bytes, needed_bytes });
        }
        if info.block_bytes > self.geometry.block_bytes {
            let (has, blocks) = (info.block_bytes, self.geometry.block_bytes);
            return refuse(format!(
                "drive {} has blocks of {has} bytes, larger than the blocks of the group ({blocks})",
                info.name
            ));
        }
        Ok(())
    }

    fn io_error(&self, cause: BlockError) -> GroupError {
        GroupError::Io { group: self.name.clone(), cause }
    }
}

/// A group found on some drives.
#[derive(Clone, Debug)]
pub struct Found {
    /// The newest label of the group.
    pub label: Label,
    /// The drives of the group, by their index in the argument, with their labels.
    pub drives: Vec<(usize, Label)>,
}

/// Sorts drives into groups by their labels. Drives without a label are omitted.
///
/// # Errors
///
/// A drive could not be read.
pub async fn identify(drives: &[Drive]) -> Result<Vec<Found>, world::DriveError> {
    let mut found: Vec<Found> = Vec::new();
    for (i, drive) in drives.iter().enumerate() {
        let Some(label) = inspect(drive).await? else { continue };
        match found.iter_mut().find(|f| f.label.group_id == label.group_id) {
            Some(known) => {
                if label.age() > known.label.age() {
                    known.label = label.clone();
                }
                known.drives.push((i, label));
            }
            None => found.push(Found { label: label.clone(), drives: vec![(i, label)] }),
        }
    }
    Ok(found)
}
