//! Changes of the labels. A drive is dropped in memory at once; operations are acknowledged only after the
//! survivors' labels say so.

use block::BlockError;
use futures::future::try_join_all;
use smallvec::SmallVec;
use world::{Buf, Drive, DriveError};

use crate::await_all::await_all;
use crate::events::GroupEvent;
use crate::inner::{Inner, Layout};
use crate::label::{COPIES_AT, LABEL_LEN, Label, LabelCopy};
use crate::lost_table::{self, SLOTS};
use crate::member::{Member, MemberState};

impl Inner {
    /// Drops a drive. If there would be no data without it, its label stays in sync, so that the group does
    /// not open without it. Returns `false` if it remains in use because it is only silent and there would be
    /// no data without it.
    pub(crate) fn mark_failed(&self, m: usize, error: &DriveError) -> bool {
        let member = &self.members[m];
        let was = member.state.get();
        if was != MemberState::Active && was != MemberState::Rebuilding {
            return true;
        }
        member.count_error();
        let silent = matches!(error, DriveError::Silent { .. });
        if silent && matches!(self.layout, Layout::Sets(_)) && !self.can_go_without(m, 0) {
            return false;
        }
        member.silent.set(silent);
        member.gone.set(matches!(error, DriveError::Gone { .. }));
        self.begin_to_miss(m, was == MemberState::Active);
        let drive = member.drive.borrow().as_ref().map(|d| d.info().name.clone()).unwrap_or_default();
        member.state.set(MemberState::Failed);
        *member.cause.borrow_mut() = Some(error.to_string());
        let (position, cause) = (m as u32, error.to_string());
        self.events.tell(GroupEvent::DriveFailed { position, drive, cause });
        if was == MemberState::Rebuilding {
            if self.rebuilding.get().is_some_and(|(p, _)| p == position) {
                self.rebuilding.set(None);
                self.next_to_rebuild();
            }
            self.epoch.set(self.epoch.get() + 1);
            return true;
        }
        let in_sync = self.in_sync.get() & !(1 << m);
        if self.level.can_serve(in_sync, self.members.len() as u32) {
            self.in_sync.set(in_sync);
            self.epoch.set(self.epoch.get() + 1);
        }
        true
    }

    /// Whether the group can serve without this drive and without `others`.
    fn can_go_without(&self, m: usize, others: u32) -> bool {
        let active = self.active_set();
        active & 1 << m == 0 || self.level.can_serve(active & !others & !(1 << m), self.members.len() as u32)
    }

    /// Whether a drive may count as silent when others already do. On levels 5 and 6 only while the group can
    /// do without all of them, because a partly written row could not be reconstructed any more. On other
    /// levels every block is independent.
    pub(crate) fn may_give_up(&self, m: usize) -> bool {
        let silent =
            |(_, other): &(u32, &Member)| other.drive.borrow().as_ref().is_some_and(Drive::has_given_up);
        let others = (0..).zip(&self.members).filter(|(p, _)| *p as usize != m).filter(silent);
        let others = others.fold(0, |set, (p, _)| set | 1 << p);
        matches!(self.layout, Layout::Sets(_)) || self.can_go_without(m, others)
    }

    /// Drops a drive and returns when the survivors' labels are durable. An error if it is silent and the
    /// group cannot do without it.
    pub(crate) async fn drop_member(&self, m: usize, error: &DriveError) -> Result<(), BlockError> {
        match self.mark_failed(m, error) {
            true => self.relabel().await,
            false => Err(error.clone().into()),
        }
    }

    /// Changes the label apart from membership.
    pub(crate) fn label_changed(&self) {
        self.version.set(self.version.get() + 1);
    }

    /// Begins a life of the group: the labels of all drives get a new version, and then record that all of
    /// them had it. A drive that returns with an earlier state (a copy, a snapshot of its image) is
    /// recognised by that.
    pub(crate) async fn begin_life(&self) -> Result<(), BlockError> {
        for _ in 0..2 {
            self.label_changed();
            self.relabel().await?;
        }
        Ok(())
    }

    /// Records on the labels that mirrors may differ, before the first write after opening.
    pub(crate) async fn mirrors_begin_to_differ(&self) -> Result<(), BlockError> {
        if self.marked.get() {
            return Ok(());
        }
        if !self.may_differ.replace(true) {
            self.label_changed();
        }
        self.relabel().await?;
        self.marked.set(true);
        Ok(())
    }

    /// Returns when the labels on all members are up to date. One writer at a time; the others wait.
    pub(crate) async fn relabel(&self) -> Result<(), BlockError> {
        loop {
            if !self.level.can_serve(self.active_set(), self.members.len() as u32) {
                return Err(self.failure());
            }
            let wanted = (self.epoch.get(), self.version.get());
            if self.labelled.get() == wanted {
                return Ok(());
            }
            if self.labelling.get() {
                self.label_written.wait_for(|| (!self.labelling.get()).then_some(())).await;
                continue;
            }
            self.labelling.set(true);
            let outcome = self.write_labels().await;
            self.labelling.set(false);
            self.label_written.wake_all();
            match outcome {
                Ok(()) => {
                    self.labelled.set(wanted);
                    self.floor.set(wanted.1);
                }
                Err((m, error)) if self.mark_failed(m, &error) => {}
                Err((_, error)) => return Err(error.into()),
            }
        }
    }

    /// The labels that the members are to have, with their positions and drives.
    pub(crate) fn labels(&self) -> SmallVec<[(usize, Drive, Label); 4]> {
        (self.members.iter().enumerate())
            .filter_map(|(m, member)| member.taking_part().map(|drive| (m, drive, self.label(m as u32))))
            .collect()
    }

    /// Learns which drives have a label, and fails for one that had it before.
    pub(crate) async fn look_for_labels(
        &self,
        labels: &[(usize, Drive, Label)],
    ) -> Result<(), (usize, DriveError)> {
        let looks = labels.iter().map(|(m, drive, label)| async move {
            let kept = &self.members[*m].has_kept_label;
            match has_label(drive, label).await.map_err(|error| (*m, error))? {
                Some(false) if kept.get() => Err((*m, overwritten(drive))),
                Some(is_there) => {
                    kept.set(is_there);
                    Ok(())
                }
                None => Ok(()),
            }
        });
        try_join_all(looks).await.map(drop)
    }

    async fn write_labels(&self) -> Result<(), (usize, DriveError)> {
        // Not a slot that labels may refer to, also on another attempt after a drive failed.
        self.lost_slot.set((self.lost_slot.get() + 1) % SLOTS);
        let labels = self.labels();
        let of_member = |(i, error): (usize, DriveError)| (labels[i].0, error);
        self.look_for_labels(&labels).await?;
        // The last attempt, or an earlier process, may have left the second copy in a drive's cache. A power
        // failure would lose it together with the first copy, which is written now.
        let was_in_cache = self.label_in_cache.replace(true);
        if self.found.take() || was_in_cache {
            let flushes = labels.iter().map(|(_, drive, _)| drive.flush()).collect();
            await_all(flushes).await.map_err(of_member)?;
        }
        if was_in_cache {
            for (m, drive, _) in &labels {
                mend_copies(drive).await.map_err(|error| (*m, error))?;
            }
        }
        let to = labels.iter().map(|(_, drive, label)| (drive, label));
        write_all(to).await.map_err(of_member)?;
        self.label_in_cache.set(false);
        Ok(())
    }
}

/// Whether a drive that takes part has a label of this group and position: a new one gets its first label
/// when it takes the position. `None` if a copy cannot be read, which says nothing.
async fn has_label(drive: &Drive, label: &Label) -> Result<Option<bool>, DriveError> {
    for at in COPIES_AT {
        let filled = drive.read(at, Buf::new(LABEL_LEN)).await;
        match filled.result {
            Ok(()) => {
                let (found, _) = LabelCopy::of(&filled.buf);
                let own =
                    |found: &Label| (found.group_id, found.position) == (label.group_id, label.position);
                if found.label().is_some_and(own) {
                    return Ok(Some(true));
                }
            }
            Err(error) if error.is_of_drive() => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(false))
}

/// What has overwritten both copies of a label has overwritten data as well, and a new label would count the
/// drive as in sync at the next start.
fn overwritten(drive: &Drive) -> DriveError {
    let cause = "its label was overwritten: another program writes to it".to_owned();
    DriveError::Gone { drive: drive.info().name.clone(), cause }
}

/// If only one copy of the label is valid, makes the other one equal to it. The first copy is written first,
/// and is torn if the power fails: by then the second one must be valid. A power failure may have torn it, or
/// the medium may have lost it.
pub(crate) async fn mend_copies(drive: &Drive) -> Result<(), DriveError> {
    let mut found = Vec::new();
    for at in COPIES_AT {
        let filled = drive.read(at, Buf::new(LABEL_LEN)).await;
        found.push(match filled.result {
            Ok(()) => (LabelCopy::of(&filled.buf).0, filled.buf),
            Err(error) if error.is_of_drive() => return Err(error),
            Err(_) => (LabelCopy::None, filled.buf),
        });
    }
    let is_torn = |i: usize| matches!(found[i].0, LabelCopy::Damaged { .. } | LabelCopy::None);
    let torn = (0..2).find(|i| is_torn(*i) && found[1 - i].0.label().is_some());
    let Some((at, bytes)) = torn.map(|i| (COPIES_AT[i], found.swap_remove(1 - i).1)) else { return Ok(()) };
    drive.write(at, bytes.freeze()).await?;
    drive.flush().await
}

/// Writes the tables of lost ranges that labels need, then the labels, one copy after the other on all drives
/// at once: if both copies were valid before, each drive has a valid label whatever is torn. An error comes
/// with the index of the first drive that failed.
pub(crate) async fn write_all<'a>(
    labels: impl Iterator<Item = (&'a Drive, &'a Label)> + Clone,
) -> Result<(), (usize, DriveError)> {
    lost_table::write_all(labels.clone()).await?;
    for at in COPIES_AT {
        let writes = labels.clone().map(|(drive, label)| drive.write(at, label.encode().freeze())).collect();
        await_all(writes).await?;
        await_all(labels.clone().map(|(drive, _)| drive.flush()).collect()).await?;
    }
    Ok(())
}
