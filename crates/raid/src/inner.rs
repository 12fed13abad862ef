//! The state of a group, shared by all its handles.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use block::{BlockError, Cause, Geometry, RangeLocks};
use world::sync::{Permit, Permits, Signal};
use world::{Drive, DriveError, Stage, World};

use crate::contents::{Contents, KnownContents};
use crate::differing::Differing;
use crate::events::{Events, GroupEvent};
use crate::label::{Label, Preferred};
use crate::lost::Lost;
use crate::member::{Member, MemberState};
use crate::overdue::Overdue;
use crate::regions::{Regions, Unflushed};
use crate::sets::Sets;
use crate::status::{GroupState, Progress};
use crate::stripe::Rows;
use crate::{ArrayId, GroupId, Level, Ownership};

/// Where the data are on the drives.
pub(crate) enum Layout {
    /// Levels 0, 1, 10.
    Sets(Sets),
    /// Levels 5, 6.
    Rows(Rc<Rows>),
}

pub(crate) struct Inner {
    pub(crate) world: World,
    pub(crate) array_id: Cell<ArrayId>,
    pub(crate) id: GroupId,
    pub(crate) name: String,
    /// The name on the labels, if it differs from the one under which the group was opened.
    pub(crate) renamed: RefCell<Option<String>>,
    pub(crate) level: Level,
    pub(crate) stripe_unit_bytes: u32,
    pub(crate) geometry: Geometry,
    pub(crate) layout: Layout,
    pub(crate) data_offset: u64,
    /// Bytes of data on each drive.
    pub(crate) data_len: u64,
    pub(crate) members: Vec<Member>,
    pub(crate) epoch: Cell<u64>,
    pub(crate) in_sync: Cell<u32>,
    /// The position that is being rebuilt, and how much of its drive is in sync.
    pub(crate) rebuilding: Cell<Option<(u32, u64)>>,
    /// The part of it that is on the labels.
    pub(crate) rebuilt_durably: Cell<u64>,
    pub(crate) lost: Lost,
    /// The slot of the label region whose table the labels refer to, or will refer to.
    pub(crate) lost_slot: Cell<u32>,
    /// Blocks that the last scrub left alone, because drives differ and redundancy cannot decide.
    pub(crate) differing: Cell<u64>,
    /// Whether the labels say that the mirrors may differ.
    pub(crate) may_differ: Cell<bool>,
    pub(crate) version: Cell<u64>,
    /// The version that all labels have reached.
    pub(crate) floor: Cell<u64>,
    /// As the labels have it.
    pub(crate) ownership: Cell<Ownership>,
    /// Whether `may_differ` is durable: the only check of a write.
    pub(crate) marked: Cell<bool>,
    /// Mirrors may differ: there reads go only to the preferred active mirror of each set.
    pub(crate) pinned: Cell<bool>,
    /// The rule by which it is preferred.
    pub(crate) preferred: Preferred,
    /// The ranges to which that applies.
    pub(crate) differing_in: Differing,
    /// A write failed on all mirrors since the resync began: they may differ where it has been.
    pub(crate) differ_again: Cell<bool>,
    /// Epoch and version of the labels.
    pub(crate) labelled: Cell<(u64, u64)>,
    pub(crate) labelling: Cell<bool>,
    /// A copy of a label may exist only in a drive's cache.
    pub(crate) label_in_cache: Cell<bool>,
    /// Whether a lost range was written again since the last label: the label that says so comes after a
    /// flush.
    pub(crate) found: Cell<bool>,
    pub(crate) label_written: Signal,
    pub(crate) locks: RangeLocks,
    /// Whether the group can do without a drive.
    pub(crate) unflushed: Option<Unflushed>,
    pub(crate) turn: Cell<usize>,
    pub(crate) repairs: Cell<u64>,
    /// User operations since the group was opened.
    pub(crate) foreground: Cell<u64>,
    pub(crate) scrub_progress: Cell<Option<Progress>>,
    /// Bytes of zeros that may be in flight, if drives write them. More would keep everything else waiting,
    /// and an operation behind them would count as silent.
    pub(crate) zeroing: Permits,
    /// One resync at a time.
    pub(crate) resync_turn: Permits,
    /// One rebuild at a time.
    pub(crate) rebuild_runs: Cell<bool>,
    pub(crate) events: Events,
    /// Callers of levels 5 and 6 that wait for a silent drive.
    pub(crate) overdue: Rc<Overdue>,
    /// What the user of the group knows about its content.
    pub(crate) contents: RefCell<Option<KnownContents>>,
    /// Latencies of the user's reads and writes.
    pub(crate) stage: Stage,
}

/// Zeros of one step on each drive, and as many steps at once.
const ZEROS_STEP: u64 = 16 << 20;
const ZEROS_IN_FLIGHT: u64 = 2;

impl Inner {
    /// Whether zeroing is cheap on all active drives.
    pub(crate) fn cheap_zero(&self) -> bool {
        self.members.iter().filter_map(|m| m.active()).all(|drive| drive.info().cheap_zero)
    }

    /// The end of what is zeroed in one step from `at` on, which ends at a multiple of whole rows.
    pub(crate) fn zeros_end(&self, at: u64, end: u64) -> u64 {
        let step = ZEROS_STEP * u64::from(self.level.data_drives(self.members.len() as u32));
        if self.cheap_zero() { end } else { end.min((at / step + 1) * step) }
    }

    /// Waits until a step of zeros may be written.
    pub(crate) async fn zeros_turn(&self, len: u64) -> Option<Permit> {
        if self.cheap_zero() { None } else { Some(self.zeroing.take(len).await) }
    }

    /// A group with the labels `label`, apart from the position.
    pub(crate) fn new(world: World, label: &Label, members: Vec<Member>, labelled: bool) -> Inner {
        let data_drives = u64::from(label.level.data_drives(label.width));
        let version = label.version;
        members.iter().zip(label.tags).for_each(|(member, tag)| member.tag.set(tag));
        Inner {
            world,
            array_id: Cell::new(label.array_id),
            id: label.group_id,
            name: label.group_name.clone(),
            renamed: RefCell::default(),
            level: label.level,
            stripe_unit_bytes: label.stripe_unit_bytes,
            geometry: Geometry { len_bytes: label.data_len * data_drives, block_bytes: label.block_bytes },
            layout: match label.level.parities() {
                0 => Layout::Sets(Sets::of(label)),
                _ => Layout::Rows(Rc::new(Rows::of(label))),
            },
            data_offset: label.data_offset,
            data_len: label.data_len,
            members,
            epoch: Cell::new(label.epoch),
            in_sync: Cell::new(label.in_sync),
            rebuilding: Cell::new(label.rebuilding),
            rebuilt_durably: Cell::new(label.rebuilding.map_or(0, |(_, to)| to)),
            lost: Lost::new(
                label.lost.as_deref().expect("a group is opened only when it is known what is lost"),
            ),
            lost_slot: Cell::new(label.lost_slot),
            differing: Cell::new(label.differing),
            may_differ: Cell::new(label.mirrors_may_differ.is_some()),
            version: Cell::new(version),
            floor: Cell::new(label.floor),
            ownership: Cell::new(label.ownership),
            marked: Cell::new(label.mirrors_may_differ.is_some() && labelled),
            pinned: Cell::new(label.mirrors_may_differ.is_some()),
            preferred: label.mirrors_may_differ.unwrap_or(Preferred::ByRegion),
            differing_in: Differing::default(),
            differ_again: Cell::new(false),
            labelled: Cell::new(if labelled { (label.epoch, version) } else { (0, 0) }),
            labelling: Cell::new(false),
            label_in_cache: Cell::new(true),
            found: Cell::new(false),
            label_written: Signal::default(),
            locks: RangeLocks::default(),
            unflushed: (label.level.tolerates(label.width as usize) > 0)
                .then(|| Unflushed::new(&Regions::new(label.data_len, label.stripe_unit_bytes.into()))),
            turn: Cell::new(0),
            repairs: Cell::new(0),
            foreground: Cell::new(0),
            scrub_progress: Cell::new(None),
            zeroing: Permits::new(ZEROS_IN_FLIGHT * data_drives * ZEROS_STEP),
            resync_turn: Permits::new(1),
            rebuild_runs: Cell::new(false),
            events: Events::default(),
            overdue: Rc::default(),
            contents: RefCell::default(),
            stage: Stage::default(),
        }
    }

    pub(crate) fn label(&self, position: u32) -> Label {
        let journal = match &self.layout {
            Layout::Sets(_) => (0, 0),
            Layout::Rows(rows) => (rows.journal.len(), rows.journal.epoch()),
        };
        Label {
            array_id: self.array_id.get(),
            group_id: self.id,
            group_name: self.renamed.borrow().as_ref().unwrap_or(&self.name).clone(),
            level: self.level,
            stripe_unit_bytes: self.stripe_unit_bytes,
            position,
            width: self.members.len() as u32,
            epoch: self.epoch.get(),
            version: self.version.get(),
            in_sync: self.in_sync.get(),
            mirrors_may_differ: self.may_differ.get().then_some(self.preferred),
            data_offset: self.data_offset,
            data_len: self.data_len,
            block_bytes: self.geometry.block_bytes,
            rebuilding: self.rebuilding.get().map(|(position, _)| (position, self.rebuilt_durably.get())),
            waiting: self.waiting_set(),
            tags: std::array::from_fn(|p| self.members.get(p).map_or(0, |m| m.tag.get())),
            journal_len: journal.0,
            journal_epoch: journal.1,
            differing: self.differing.get(),
            floor: self.floor.get(),
            ownership: self.ownership.get(),
            lost: Some(self.lost.ranges()),
            lost_slot: self.lost_slot.get(),
        }
    }

    /// Whether drives hold the same data.
    pub(crate) fn mirrored(&self) -> bool {
        self.level.copies(self.members.len() as u32) > 1
    }

    /// The positions in sync and active, as bits.
    pub(crate) fn active_set(&self) -> u32 {
        let active = (0..).zip(&self.members).filter(|(_, m)| m.state.get() == MemberState::Active);
        active.fold(0, |set, (p, _): (u32, _)| set | 1 << p)
    }

    /// The positions whose new drives wait until another one is rebuilt, as bits.
    fn waiting_set(&self) -> u32 {
        let filled = self.rebuilding.get().map(|(p, _)| p);
        let waits = |(p, m): &(u32, &Member)| m.state.get() == MemberState::Rebuilding && Some(*p) != filled;
        (0..).zip(&self.members).filter(waits).fold(0, |set, (p, _)| set | 1 << p)
    }

    /// Whether enough drives are left.
    pub(crate) fn serves(&self) -> bool {
        self.level.can_serve(self.active_set(), self.members.len() as u32)
    }

    /// Whether reads of mirrors are in flight on half of the drives or more.
    pub(crate) fn is_read_from(&self) -> bool {
        let read = self.members.iter().filter(|m| m.reads_in_flight.get() > 0).count();
        2 * read >= self.members.len()
    }

    pub(crate) fn is_optimal(&self) -> bool {
        self.active_set().count_ones() as usize == self.members.len()
    }

    pub(crate) fn state(&self) -> GroupState {
        let (active, width) = (self.active_set(), self.members.len() as u32);
        match self.level.can_serve(active, width) {
            true if active.count_ones() == width => GroupState::Optimal,
            true => GroupState::Degraded,
            false => GroupState::Failed,
        }
    }

    /// The drive at a position that must serve.
    pub(crate) fn serving(&self, m: usize) -> Result<Drive, BlockError> {
        self.members[m].active().ok_or_else(|| self.failure())
    }

    /// Why the group has failed.
    pub(crate) fn failure(&self) -> BlockError {
        let failed = self.members.iter().find_map(|m| Some((m, m.cause.borrow().clone()?)));
        let drive = failed.as_ref().and_then(|(member, _)| member.drive.borrow().clone());
        let cause = failed.map_or_else(|| "too few drives are left".to_owned(), |(_, cause)| cause);
        let text = format!("group {}: {cause}", self.name);
        BlockError::Failed { cause: Cause::of_drive(drive.as_ref().map(|d| d.info().name.as_str()), text) }
    }

    /// The error of a block that redundancy cannot recover.
    pub(crate) fn unhelped(&self, at: u64, error: &DriveError) -> BlockError {
        match error {
            DriveError::Medium { .. } => BlockError::Unreadable { at, cause: error.into() },
            DriveError::Gone { .. } => self.failure(),
            DriveError::Silent { .. } | DriveError::NoRoom { .. } => error.clone().into(),
        }
    }

    pub(crate) fn count_repair(&self) {
        self.repairs.set(self.repairs.get() + 1);
    }

    pub(crate) fn count_foreground(&self) {
        self.foreground.set(self.foreground.get() + 1);
    }

    pub(crate) fn lost_error(&self, at: u64) -> BlockError {
        let cause = format!("group {}: lost range: its drives failed before a rebuild", self.name);
        BlockError::Unreadable { at, cause: cause.into() }
    }

    /// Records a lost range on the labels; durable on return.
    pub(crate) async fn lose(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.lost.add(at, len);
        self.events.tell(GroupEvent::Lost { at, len });
        self.label_changed();
        self.relabel().await
    }

    /// Removes a written range from the lost ranges. The next flush makes that durable.
    pub(crate) fn found_again(&self, at: u64, len: u64) {
        if self.lost.count() > 0 && self.lost.written(at, len) {
            self.found.set(true);
            self.label_changed();
        }
    }

    /// What the user of the group knows about a range.
    pub(crate) fn contents_of(&self, range: Range<u64>) -> Contents {
        let end = range.end.min(self.geometry.len_bytes);
        self.contents.borrow().as_ref().map_or(Contents::Kept, |known| known(range.start..end))
    }

    pub(crate) fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
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
