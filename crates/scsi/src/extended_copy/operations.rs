//! The copies of one nexus, running or ended, for its queries. They end with the nexus.
//!
//! Their number is limited: a new copy replaces the oldest ended result; if all of them run, the host gets
//! BUSY.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::limits::{OPERATIONS_MAX, OPERATIONS_PER_UNIT_MAX};
use crate::error::CommandError;
use crate::request::Lun;

/// The key of a copy: the logical unit that got the command, and the list identifier.
pub(crate) type Name = (Lun, u32);

/// The state of a copy (SPC-4 table of COPY OPERATION STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// 11h: runs, and its command has not ended.
    Foreground,
    /// 12h: runs after its command ended (IMMED).
    Background,
    /// 01h.
    Done,
    /// 02h.
    Failed,
    /// 60h: ended by a task management function or a reset.
    Terminated,
}

impl Stage {
    pub(crate) fn is_running(self) -> bool {
        matches!(self, Stage::Foreground | Stage::Background)
    }
}

/// One copy.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// The service action of 83h that started it.
    pub(crate) action: u8,
    pub(crate) stage: Stage,
    /// Completed segments or ranges.
    pub(crate) segments: u16,
    /// Bytes copied, or bytes that a token represents.
    pub(crate) bytes: u64,
    /// Sense data of a failure.
    pub(crate) sense: Vec<u8>,
    /// The token of POPULATE TOKEN.
    pub(crate) token: Option<Box<[u8; 512]>>,
    /// Start order: the oldest is replaced, and a progress report does not reach a successor with the same
    /// key.
    turn: u64,
}

/// The copies of one nexus.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations(Rc<RefCell<Table>>);

#[derive(Debug, Default)]
struct Table {
    by_name: BTreeMap<Name, Operation>,
    turns: u64,
}

/// A running copy, which receives the progress. If it is dropped before its end, the copy was terminated.
#[derive(Debug)]
pub(crate) struct Running {
    operations: Operations,
    name: Name,
    turn: u64,
}

impl Operations {
    /// Starts a copy. An error if a copy with this key runs; the result of an ended one is replaced.
    pub(crate) fn begin(&self, name: Name, action: u8) -> Result<Running, CommandError> {
        let table = &mut *self.0.borrow_mut();
        if table.by_name.get(&name).is_some_and(|op| op.stage.is_running()) {
            return Err(CommandError::OperationInProgress);
        }
        table.by_name.remove(&name);
        table.make_room(name.0)?;
        table.turns += 1;
        let (turn, stage) = (table.turns, Stage::Foreground);
        let begun = Operation { action, stage, segments: 0, bytes: 0, sense: Vec::new(), token: None, turn };
        table.by_name.insert(name, begun);
        Ok(Running { operations: self.clone(), name, turn })
    }

    /// A snapshot of the copy.
    pub(crate) fn find(&self, name: Name) -> Option<Operation> {
        self.0.borrow().by_name.get(&name).cloned()
    }
}

impl Running {
    /// Updates the copy.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Operation)) {
        let table = &mut *self.operations.0.borrow_mut();
        if let Some(op) = table.by_name.get_mut(&self.name).filter(|op| op.turn == self.turn) {
            change(op);
        }
    }

    /// Ends the copy. `sense_of` returns the sense data of a failure.
    pub(crate) fn end<T>(
        &self,
        result: &Result<T, CommandError>,
        sense_of: impl Fn(&CommandError) -> Vec<u8>,
    ) {
        let (stage, sense) = match result {
            Ok(_) => (Stage::Done, Vec::new()),
            Err(CommandError::Aborted) => (Stage::Terminated, Vec::new()),
            Err(error) => (Stage::Failed, sense_of(error)),
        };
        self.update(|op| (op.stage, op.sense) = (stage, sense));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.update(|op| {
            if op.stage.is_running() {
                op.stage = Stage::Terminated;
            }
        });
    }
}

impl Table {
    fn make_room(&mut self, lun: Lun) -> Result<(), CommandError> {
        if self.by_name.range((lun, 0)..=(lun, u32::MAX)).count() >= OPERATIONS_PER_UNIT_MAX {
            self.forget_oldest(|of| of == lun)?;
        } else if self.by_name.len() >= OPERATIONS_MAX {
            self.forget_oldest(|_| true)?;
        }
        Ok(())
    }

    fn forget_oldest(&mut self, of: impl Fn(Lun) -> bool) -> Result<(), CommandError> {
        let ended = self.by_name.iter().filter(|((lun, _), op)| of(*lun) && !op.stage.is_running());
        let oldest = ended.min_by_key(|(_, op)| op.turn).map(|(name, _)| *name).ok_or(CommandError::Busy)?;
        self.by_name.remove(&oldest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_bounded_per_unit_and_in_all() {
        let ops = Operations::default();
        for n in 0..100 {
            for list in 0..100 {
                ops.begin((Lun(n), list), 0).expect("ended ones make room").end(&Ok(()), |_| Vec::new());
            }
        }
        let table = ops.0.borrow();
        assert_eq!(table.by_name.len(), OPERATIONS_MAX);
        for n in 0..100 {
            assert!(table.by_name.keys().filter(|(lun, _)| lun.0 == n).count() <= OPERATIONS_PER_UNIT_MAX);
        }
    }

    #[test]
    fn running_copies_keep_their_name_and_their_place() {
        let ops = Operations::default();
        let name = (Lun(1), 7);
        let first = ops.begin(name, 0).expect("the first");
        assert_eq!(ops.begin(name, 0).expect_err("in use"), CommandError::OperationInProgress);
        let other = ops.begin((Lun(2), 7), 0).expect("another logical unit");
        first.end(&Ok(()), |_| Vec::new());
        let second = ops.begin(name, 0).expect("free again");
        first.update(|op| op.bytes = 99);
        assert_eq!(ops.find(name).expect("there").bytes, 0, "the old copy has no say any more");
        drop(first);
        assert_eq!(ops.find(name).expect("there").stage, Stage::Foreground);
        drop(second);
        assert_eq!(ops.find(name).expect("there").stage, Stage::Terminated);
        let share = OPERATIONS_PER_UNIT_MAX as u32;
        let full: Vec<_> = (0..share).map(|list| ops.begin((Lun(3), list), 0).expect("a share")).collect();
        assert_eq!(ops.begin((Lun(3), 999), 0).expect_err("all run"), CommandError::Busy);
        drop(full);
        ops.begin((Lun(3), 999), 0).expect("ended ones make room");
        drop(other);
    }
}
