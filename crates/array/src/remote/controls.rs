//! Requests of the control plane.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use world::DriveSpec;

use super::declared::{Declared, Deleted, Recorded};
use super::drives::{Drives, Specs};
use super::moved::Arriving;
use super::parts::Parted;
use crate::control::{Control, Steer};

/// A [`Control`], but for `Nodes`.
#[derive(Serialize, Deserialize)]
pub(super) enum Controlled {
    MakeReady(String),
    Hold(BTreeSet<String>),
    Announce(usize),
    Arrived,
    ReleasePool(String),
    Release(Declared),
    Prepare { config: Declared, made: Box<Recorded>, arrival: Arriving },
    Commit(Declared),
    Undo(Declared),
    AtNextStart(Declared),
    GroupIds(Vec<String>),
    ImageFormats(Declared),
    DeleteVolume { pool: String, name: String },
    CloneVolume { from: String, to: String },
    ReplaceDrive { group: String, old: String, new: String, overwrite: bool },
    Scrub(String),
    SteerWork { group: String, steer: Steered },
    Rebalance(String),
    Reclaim(String),
    StopJobs,
    ExportPool(String),
    DeletePool(String),
    MayDeleteGroup(String),
    DeleteGroup { name: String, deleted: Deleted },
    ImportPool { drives: Specs, force: bool },
    FinishExport { name: String, drives: Drives },
    GiveBack { drives: Specs, owners: Vec<(String, [u8; 16])> },
    PolicyParts(Vec<Parted>),
    Forget(usize),
    Ping,
    Status,
    Overview,
    EndSessions { grace: Duration },
    Stop { grace: Duration },
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Steered {
    Pause,
    Resume,
    StopScrub,
}

/// Array identities by group.
pub(super) fn owners(owners: Vec<(String, raid::ArrayId)>) -> Vec<(String, [u8; 16])> {
    owners.into_iter().map(|(group, id)| (group, id.0)).collect()
}

pub(super) fn array_ids(owners: Vec<(String, [u8; 16])>) -> Vec<(String, raid::ArrayId)> {
    owners.into_iter().map(|(group, id)| (group, raid::ArrayId(id))).collect()
}

impl Controlled {
    /// None: each side does that itself.
    pub(super) fn of(control: Control) -> Option<Controlled> {
        Some(match control {
            Control::Nodes(_) => return None,
            Control::MakeReady(pool) => Controlled::MakeReady(pool),
            Control::Hold(volumes) => Controlled::Hold(Arc::unwrap_or_clone(volumes)),
            Control::Announce(owner) => Controlled::Announce(owner),
            Control::Arrived => Controlled::Arrived,
            Control::ReleasePool(pool) => Controlled::ReleasePool(pool),
            Control::Release(config) => Controlled::Release(config.into()),
            Control::Prepare { config, made, arrival } => Controlled::Prepare {
                config: config.into(),
                made: Box::new(made.into()),
                arrival: Arriving(arrival),
            },
            Control::Commit(config) => Controlled::Commit(config.into()),
            Control::Undo(config) => Controlled::Undo(config.into()),
            Control::AtNextStart(config) => Controlled::AtNextStart(config.into()),
            Control::GroupIds(names) => Controlled::GroupIds(names),
            Control::ImageFormats(config) => Controlled::ImageFormats(config.into()),
            Control::DeleteVolume { pool, name } => Controlled::DeleteVolume { pool, name },
            Control::CloneVolume { from, to } => Controlled::CloneVolume { from, to },
            Control::ReplaceDrive { group, old, new, overwrite } => {
                Controlled::ReplaceDrive { group, old, new, overwrite }
            }
            Control::Scrub(group) => Controlled::Scrub(group),
            Control::SteerWork { group, steer } => Controlled::SteerWork { group, steer: steer.into() },
            Control::Rebalance(pool) => Controlled::Rebalance(pool),
            Control::Reclaim(volume) => Controlled::Reclaim(volume),
            Control::StopJobs => Controlled::StopJobs,
            Control::ExportPool(pool) => Controlled::ExportPool(pool),
            Control::DeletePool(pool) => Controlled::DeletePool(pool),
            Control::MayDeleteGroup(name) => Controlled::MayDeleteGroup(name),
            Control::DeleteGroup { name, deleted } => {
                Controlled::DeleteGroup { name, deleted: deleted.into() }
            }
            Control::ImportPool { drives, force } => Controlled::ImportPool { drives: Specs(drives), force },
            Control::FinishExport { name, drives } => {
                Controlled::FinishExport { name, drives: Drives(drives) }
            }
            Control::GiveBack { drives, owners: of } => {
                Controlled::GiveBack { drives: Specs(drives), owners: owners(of) }
            }
            Control::PolicyParts(all) => Controlled::PolicyParts(all.into_iter().map(Into::into).collect()),
            Control::Forget(other) => Controlled::Forget(other),
            Control::Ping => Controlled::Ping,
            Control::Status => Controlled::Status,
            Control::Overview => Controlled::Overview,
            Control::EndSessions { grace } => Controlled::EndSessions { grace },
            Control::Stop { grace } => Controlled::Stop { grace },
        })
    }
}

impl From<Controlled> for Control {
    fn from(controlled: Controlled) -> Control {
        let specs = |Specs(drives): Specs| -> Vec<DriveSpec> { drives };
        match controlled {
            Controlled::MakeReady(pool) => Control::MakeReady(pool),
            Controlled::Hold(volumes) => Control::Hold(Arc::new(volumes)),
            Controlled::Announce(owner) => Control::Announce(owner),
            Controlled::Arrived => Control::Arrived,
            Controlled::ReleasePool(pool) => Control::ReleasePool(pool),
            Controlled::Release(config) => Control::Release(config.into()),
            Controlled::Prepare { config, made, arrival } => {
                Control::Prepare { config: config.into(), made: (*made).into(), arrival: arrival.0 }
            }
            Controlled::Commit(config) => Control::Commit(config.into()),
            Controlled::Undo(config) => Control::Undo(config.into()),
            Controlled::AtNextStart(config) => Control::AtNextStart(config.into()),
            Controlled::GroupIds(names) => Control::GroupIds(names),
            Controlled::ImageFormats(config) => Control::ImageFormats(config.into()),
            Controlled::DeleteVolume { pool, name } => Control::DeleteVolume { pool, name },
            Controlled::CloneVolume { from, to } => Control::CloneVolume { from, to },
            Controlled::ReplaceDrive { group, old, new, overwrite } => {
                Control::ReplaceDrive { group, old, new, overwrite }
            }
            Controlled::Scrub(group) => Control::Scrub(group),
            Controlled::SteerWork { group, steer } => Control::SteerWork { group, steer: steer.into() },
            Controlled::Rebalance(pool) => Control::Rebalance(pool),
            Controlled::Reclaim(volume) => Control::Reclaim(volume),
            Controlled::StopJobs => Control::StopJobs,
            Controlled::ExportPool(pool) => Control::ExportPool(pool),
            Controlled::DeletePool(pool) => Control::DeletePool(pool),
            Controlled::MayDeleteGroup(name) => Control::MayDeleteGroup(name),
            Controlled::DeleteGroup { name, deleted } => {
                Control::DeleteGroup { name, deleted: deleted.into() }
            }
            Controlled::ImportPool { drives, force } => Control::ImportPool { drives: specs(drives), force },
            Controlled::FinishExport { name, drives } => Control::FinishExport { name, drives: drives.0 },
            Controlled::GiveBack { drives, owners } => {
                Control::GiveBack { drives: specs(drives), owners: array_ids(owners) }
            }
            Controlled::PolicyParts(all) => Control::PolicyParts(all.into_iter().map(Into::into).collect()),
            Controlled::Forget(other) => Control::Forget(other),
            Controlled::Ping => Control::Ping,
            Controlled::Status => Control::Status,
            Controlled::Overview => Control::Overview,
            Controlled::EndSessions { grace } => Control::EndSessions { grace },
            Controlled::Stop { grace } => Control::Stop { grace },
        }
    }
}

impl From<Steer> for Steered {
    fn from(steer: Steer) -> Steered {
        match steer {
            Steer::Pause => Steered::Pause,
            Steer::Resume => Steered::Resume,
            Steer::StopScrub => Steered::StopScrub,
        }
    }
}

impl From<Steered> for Steer {
    fn from(steered: Steered) -> Steer {
        match steered {
            Steered::Pause => Steer::Pause,
            Steered::Resume => Steer::Resume,
            Steered::StopScrub => Steer::StopScrub,
        }
    }
}
