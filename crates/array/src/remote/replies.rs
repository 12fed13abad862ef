//! What a controller replies to the control plane.

use serde::{Deserialize, Serialize};

use super::controls::{array_ids, owners};
use super::declared::{Closed, Known};
use super::drives::Drives;
use super::moved::Leaving;
use super::parts::Demanded;
use super::statuses::Standing;
use crate::config::{FileFormat, GroupConfig, Identities, NotOpen, PoolConfig, VolumeConfig};
use crate::control::{Imported, Released, Reply};
use crate::status::ControllerStatus;

/// A [`Reply`].
#[derive(Serialize, Deserialize)]
pub(super) enum Replied {
    Done(Vec<String>),
    Prepared(Vec<String>, #[serde(with = "Known")] Identities, #[serde(with = "Closed")] NotOpen),
    Status(Box<Whole>),
    Imported(Box<Pool>),
    Formats(Vec<(String, FileFormat)>),
    PolicyDemand(Vec<Demanded>),
    Released(#[serde(with = "Leaving")] Released),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Whole(#[serde(with = "Standing")] ControllerStatus);

/// An [`Imported`].
#[derive(Serialize, Deserialize)]
pub(super) struct Pool {
    drives: Drives,
    groups: Vec<GroupConfig>,
    pool: PoolConfig,
    volumes: Vec<VolumeConfig>,
    owners: Vec<(String, [u8; 16])>,
}

impl From<Reply> for Replied {
    fn from(reply: Reply) -> Replied {
        match reply {
            Reply::Done(lines) => Replied::Done(lines),
            Reply::Prepared(lines, ids, not_open) => Replied::Prepared(lines, ids, not_open),
            Reply::Status(status) => Replied::Status(Box::new(Whole(*status))),
            Reply::Imported(imported) => {
                let Imported { drives, groups, pool, volumes, owners: of } = *imported;
                let (drives, owners) = (Drives(drives), owners(of));
                Replied::Imported(Box::new(Pool { drives, groups, pool, volumes, owners }))
            }
            Reply::Formats(formats) => Replied::Formats(formats),
            Reply::PolicyDemand(all) => Replied::PolicyDemand(all.into_iter().map(Into::into).collect()),
            Reply::Released(released) => Replied::Released(released),
        }
    }
}

impl From<Replied> for Reply {
    fn from(replied: Replied) -> Reply {
        match replied {
            Replied::Done(lines) => Reply::Done(lines),
            Replied::Prepared(lines, ids, not_open) => Reply::Prepared(lines, ids, not_open),
            Replied::Status(status) => Reply::Status(Box::new(status.0)),
            Replied::Imported(imported) => {
                let Pool { drives, groups, pool, volumes, owners } = *imported;
                let (drives, owners) = (drives.0, array_ids(owners));
                Reply::Imported(Box::new(Imported { drives, groups, pool, volumes, owners }))
            }
            Replied::Formats(formats) => Reply::Formats(formats),
            Replied::PolicyDemand(all) => Reply::PolicyDemand(all.into_iter().map(Into::into).collect()),
            Replied::Released(released) => Reply::Released(released),
        }
    }
}
