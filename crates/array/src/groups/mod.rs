//! The life cycle of groups and their drives: open or create, monitor, rebuild and scrub, release.

mod close;
mod delete;
mod drives;
mod found;
mod open;
mod pulled;
mod replace;
mod resync;
mod returns;
mod spares;
mod take_back;
mod upkeep;
mod work;

pub(crate) use close::{check_members, end_upkeep, forget, refuse_busy, release, take_back};
pub(crate) use delete::{delete, may_delete};
pub(crate) use drives::{OPENING_MAX, close_drives, existing, open_at_once, open_emptied, overwrite_of};
pub(crate) use open::open_group;
pub(crate) use replace::replace_drive;
#[cfg(test)]
pub(crate) use returns::RETURNS_MAX;
pub(crate) use spares::{
    begin_spare_watch, check_spares, free_spares, keeps_spares, release_spares, take_back_spares,
};
pub(crate) use upkeep::begin_upkeep;
pub(crate) use work::{foreground_share_percent, scrub, steer, wait_while_paused};
