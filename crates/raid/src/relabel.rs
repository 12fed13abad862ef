//! Changes of the labels: a drive is dropped in memory at once, and acknowledged only when the survivors' labels say so.

use block::BlockError;
use smallvec::SmallVec;
use world::{Drive, DriveError, Io};

use crate::events::GroupEvent;
use crate::inner::Inner;
use crate::label::{COPIES_AT, Label};
use crate::lost_table::{self, SLOTS};
use crate::member::MemberState;

impl Inner {
    /// Takes a drive out of service. In the label it stays when without it there would be no data: whoever opens the group
    /// must find it called for.
    pub(crate) fn mark_failed(&self, m: usize, error: &DriveError) {
        let member = &self.members[m];
        let was = member.state.get();
        if was != MemberState::Active && was != MemberState::Rebuilding {
            return;
        }
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
            return;
        }
        let in_sync = self.in_sync.get() & !(1 << m);
        if self.level.can_serve(in_sync, self.members.len() as u32) {
            self.in_sync.set(in_sync);
            self.epoch.set(self.epoch.get() + 1);
        }
    }

    /// Drops a drive and returns when the survivors' labels are durable.
    pub(crate) async fn drop_member(&self, m: usize, error: &DriveError) -> Result<(), BlockError> {
        self.mark_failed(m, error);
        self.relabel().await
    }

    /// Something on the label changed that is not membership.
    pub(crate) fn label_changed(&self) {
        self.version.set(self.version.get() + 1);
    }

    /// A life begins: the labels of all drives get a version of their own, and then say that all of them had it. A drive that comes
    /// back later as it was before (a copy, a snapshot of its image) is known by that.
    pub(crate) async fn begin_life(&self) -> Result<(), BlockError> {
        for _ in 0..2 {
            self.label_changed();
            self.relabel().await?;
        }
        Ok(())
    }

    /// Says on the labels that mirrors may differ, before the first write since the group was opened.
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

    /// Returns when the labels on all drives that take part say what is true now. One writer at a time; the others wait.
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
            match outcome {
                Ok(()) => {
                    self.labelled.set(wanted);
                    self.floor.set(wanted.1);
                }
                Err((m, error)) => self.mark_failed(m, &error),
            }
            self.label_written.wake_all();
        }
    }

    async fn write_labels(&self) -> Result<(), (usize, DriveError)> {
        // Not the one that labels may refer to: also when this is tried again, without a drive that failed meanwhile.
        self.lost_slot.set((self.lost_slot.get() + 1) % SLOTS);
        let labels: SmallVec<[(usize, Drive, Label); 4]> = (self.members.iter().enumerate())
            .filter_map(|(m, member)| member.taking_part().map(|drive| (m, drive, self.label(m as u32))))
            .collect();
        let to = labels.iter().map(|(_, drive, label)| (drive, label));
        write_all(to).await.map_err(|(i, error)| (labels[i].0, error))
    }
}

/// Writes the tables of lost ranges that labels need, then the labels, one copy after the other on all drives at once: whatever is torn, each drive has one whole label.
/// The index of the first drive that failed comes with its error.
pub(crate) async fn write_all<'a>(
    labels: impl Iterator<Item = (&'a Drive, &'a Label)> + Clone,
) -> Result<(), (usize, DriveError)> {
    lost_table::write_all(labels.clone()).await?;
    for at in COPIES_AT {
        let writes = labels.clone().map(|(drive, label)| drive.write(at, label.encode().freeze())).collect();
        all(writes).await?;
        all(labels.clone().map(|(drive, _)| drive.flush()).collect()).await?;
    }
    Ok(())
}

/// Waits for all operations; the first failure counts.
pub(crate) async fn all(
    operations: SmallVec<[Io<Result<(), DriveError>>; 4]>,
) -> Result<(), (usize, DriveError)> {
    let mut outcome = Ok(());
    for (i, io) in operations.into_iter().enumerate() {
        if let Err(error) = io.await {
            outcome = outcome.and(Err((i, error)));
        }
    }
    outcome
}
