//! The groups of a pool, for its users.

use std::rc::Rc;

use block::Device;
use raid::{Group, GroupId};

use crate::Pool;
use crate::area::Area;

/// One group of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct GroupSpace {
    /// Its identity.
    pub id: GroupId,
    pub name: String,
    /// Bytes in pages.
    pub total_bytes: u64,
    /// Bytes of referenced pages.
    pub used_bytes: u64,
    /// It is being evacuated: no page is allocated on it.
    pub evacuating: bool,
    /// It has a copy of the journal and the checkpoints.
    pub holds_metadata: bool,
}

impl Pool {
    /// Its groups, in the order in which they were added.
    pub fn groups(&self) -> Vec<Group> {
        self.0.areas().iter().map(|a| a.group.clone()).collect()
    }

    /// The space of each group, in the same order.
    pub fn group_spaces(&self) -> Vec<GroupSpace> {
        let (areas, table, space) = (self.0.areas(), self.0.table(), self.0.space.borrow());
        let bytes = |pages: u32| u64::from(pages) * self.0.page_bytes;
        let of = |(i, area): (usize, &Rc<Area>)| {
            let counted = space.areas().find(|s| s.first == area.first_page());
            let counted = counted.expect("space and areas are changed together");
            GroupSpace {
                id: area.group.id(),
                name: area.group.name().to_owned(),
                total_bytes: bytes(counted.pages),
                used_bytes: bytes(counted.used),
                evacuating: table.groups[i].evacuating,
                holds_metadata: table.is_holder(i),
            }
        };
        areas.iter().enumerate().map(of).collect()
    }

    /// The largest block of the groups' drives: smaller or unaligned writes require a read.
    pub fn physical_block_bytes(&self) -> u32 {
        self.0.areas().iter().map(|a| a.group.geometry().block_bytes).max().unwrap_or(512)
    }
}
