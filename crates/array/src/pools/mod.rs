//! The life cycle of pools and their volumes: open or create, remove groups, delete, export and import.

mod delete;
mod mover;
mod moving;
mod open;
mod placement;
mod travel;
mod volumes;
mod work;

pub(crate) use delete::{DELETING, delete};
pub(crate) use moving::{arrived, expect_lus, make_ready, release_pool};
pub(crate) use open::{drop_pool, open_pool};
#[cfg(test)]
pub(crate) use placement::PLACEMENT_INTERVAL;
pub(crate) use placement::set_classes;
pub(crate) use travel::{export, finish_export, give_back, import};
pub(crate) use volumes::{clone_volume, create_volumes, delete_volume, grow_volumes, open_volume};
pub(crate) use work::{rebalance, reclaim};
