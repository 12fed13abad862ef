//! The control plane's interface: messages to controllers, from any thread or runtime.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pool::Closed;
use scsi::VolatileState;
use status::Reason;
use world::DriveSpec;

use crate::config::{
    Config, ConfigError, DeletedGroup, DriveConfig, FileFormat, GroupConfig, Identities, Made, NotOpen,
    PoolConfig, VolumeConfig,
};
use crate::nodes::Nodes;
use crate::place::Place;
use crate::status::ControllerStatus;
use crate::why::{Explains, Why, named_once};

/// What to do with the work on a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steer {
    /// Pauses its rebuild, scrub and evacuation.
    Pause,
    /// Resumes them.
    Resume,
    /// Ends its scrub. A rebuild can only be paused; an evacuation ends when the group is declared to stay.
    StopScrub,
}

/// A request to a controller.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Control {
    /// What ran this controller is gone, and with it all sessions at its ports: another one begins in its
    /// place.
    Forget(usize),
    /// These are the nodes of the array from now on. The tags of this node's portals are set before it
    /// declares any.
    Nodes(Arc<Nodes>),
    /// Make ready to release a pool: refuse what cannot move, destage while hosts go on.
    MakeReady(String),
    /// Hold the commands on these volumes, and on no others.
    Hold(Arc<BTreeSet<String>>),
    /// Tell this controller, which owns the held volumes now, of the nexuses that use them.
    Announce(usize),
    /// All nexuses that use the held volumes are announced: what ended meanwhile leaves nothing behind.
    Arrived,
    /// Close a pool whose volumes are held: it moves to another controller.
    ReleasePool(String),
    /// Release the groups that this declaration assigns to another controller.
    Release(Arc<Config>),
    /// Open the declared objects that exist, and create the new ones: drives, groups, pools, volumes, images.
    /// Hosts do not see them yet.
    Prepare {
        /// The declaration.
        config: Arc<Config>,
        /// What was created before: it is opened or left alone.
        made: Arc<Made>,
        /// The pool that moves to this controller with it: if it cannot be opened, the declaration is
        /// refused.
        arrival: Option<Arrival>,
    },
    /// Present the prepared objects to hosts: change mappings, open ports. Existing objects that are not
    /// declared stay.
    Commit(Arc<Config>),
    /// Undo the preparation; this declaration is in force again.
    Undo(Arc<Config>),
    /// Say what of this declaration is in force at the next start only.
    AtNextStart(Arc<Config>),
    /// Generate identities for new groups of these names.
    GroupIds(Vec<String>),
    /// Probe the formats of images that are declared without one, and close them again.
    ImageFormats(Arc<Config>),
    /// Delete a volume and everything on it.
    DeleteVolume {
        pool: String,
        /// The volume, which is no longer declared.
        name: String,
    },
    CloneVolume {
        /// The existing volume.
        from: String,
        /// The new one.
        to: String,
    },
    /// Replace a drive of a group and rebuild onto the new one.
    ReplaceDrive {
        group: String,
        /// The drive that leaves; it may be missing already.
        old: String,
        /// The declared drive that replaces it; the same name if the medium behind it was exchanged.
        new: String,
        /// Whether content of the new drive may be erased.
        overwrite: bool,
    },
    /// Scrub a group, as a job.
    Scrub(String),
    /// Pause, resume or end the work on a group.
    SteerWork {
        group: String,
        /// What to do with the work.
        steer: Steer,
    },
    /// Rebalance a pool, as a job.
    Rebalance(String),
    /// Reclaim the pages of a volume that hold only zeros, as a job.
    Reclaim(String),
    /// End all jobs of this controller at their next step, and creations and growth of thick volumes.
    StopJobs,
    /// Export a pool that is no longer declared: close it and its groups, and write labels without an owner.
    ExportPool(String),
    /// Delete a pool: its volumes are deleted already, and it is still declared.
    DeletePool(String),
    /// Whether a group may be deleted, by what is on it.
    MayDeleteGroup(String),
    /// Delete a group that is no longer declared: close it, and erase the labels of its drives.
    DeleteGroup {
        name: String,
        /// What is recorded of it.
        deleted: DeletedGroup,
    },
    /// Import the pool on these drives, and return its declaration.
    ImportPool {
        /// The drives, in any order.
        drives: Vec<DriveSpec>,
        /// Also if the labels name another array as the owner.
        force: bool,
    },
    /// Complete the export of a pool that cannot be opened any more, because some of its labels name no
    /// array: the others get that, too.
    FinishExport {
        /// The pool.
        name: String,
        /// The drives of its groups.
        drives: Vec<DriveConfig>,
    },
    /// Give back the groups on these drives, whose import is not declared, to the arrays that they were of.
    GiveBack {
        /// The drives, in any order.
        drives: Vec<DriveSpec>,
        /// By group.
        owners: Vec<(String, raid::ArrayId)>,
    },
    /// These are the parts of policies whose volumes are in several schedulers; reply with what is asked of
    /// them. Policies without a part are only asked about.
    PolicyParts(Vec<PlaceParts>),
    /// Reply at once: proves that the controller's loop turns.
    Ping,
    /// Return the status.
    Status,
    /// Return the status without volumes and cached volumes, of which there may be thousands.
    Overview,
    /// End the sessions at the ports of this controller, and let their commands end: all controllers do,
    /// before the first of them closes what others still use.
    EndSessions {
        /// How long hosts get to log out.
        grace: Duration,
    },
    /// Stop: notify the hosts, let running commands end within `grace`, make all data durable.
    Stop {
        /// How long hosts get to log out.
        grace: Duration,
    },
}

/// The reply of a controller.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Reply {
    /// Done; a line for each object that was created or changed.
    Done(Vec<String>),
    /// Prepared: a line for each object that was created, the identities of what is open, and what is not
    /// open.
    Prepared(Vec<String>, Identities, NotOpen),
    Status(Box<ControllerStatus>),
    /// The imported pool.
    Imported(Box<Imported>),
    /// Images and their formats.
    Formats(Vec<(String, FileFormat)>),
    /// What a pool takes along to another controller.
    Released(Released),
    /// What is asked of policies.
    PolicyDemand(Vec<PlaceDemand>),
}

/// What a scheduler has of policies.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PlaceParts {
    pub place: Place,
    pub parts: qos::Parts,
    /// What an earlier scheduler of it has found out about its pool, if this one has found nothing yet.
    pub found: Option<qos::Found>,
}

/// What is asked of a scheduler.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PlaceDemand {
    pub place: Place,
    pub room: qos::Room,
    /// By policy; none: nothing there has it.
    pub uses: Vec<(String, Option<qos::PartUse>)>,
    /// What it has found out about its pool.
    pub found: Option<qos::Found>,
}

/// A logical unit on its way to another controller.
#[derive(Clone, Debug)]
pub struct MovedLu {
    /// As declared.
    pub volume: String,
    /// What it takes along.
    pub state: VolatileState,
}

/// What a pool takes along to another controller.
#[derive(Clone, Debug)]
pub struct Released {
    /// Its logical units.
    pub lus: Vec<MovedLu>,
    /// As its metadata are.
    pub closed: Closed,
    /// What its scheduler has found out.
    pub found: Option<qos::Found>,
}

/// A pool that comes from another controller.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its name.
    pub pool: String,
    /// The logical units of all pools that come.
    pub lus: Vec<MovedLu>,
    /// By pool, as its metadata are.
    pub closed: Vec<(String, Closed)>,
    /// What the schedulers of pools that come have found out, by pool.
    pub found: Vec<PoolFound>,
}

/// What the scheduler of a pool has found out about it.
#[derive(Clone, Debug)]
pub struct PoolFound {
    /// Its name.
    pub pool: String,
    /// What was found.
    pub found: qos::Found,
}

/// An imported pool, as it is to be declared.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Imported {
    pub drives: Vec<DriveConfig>,
    pub groups: Vec<GroupConfig>,
    pub pool: PoolConfig,
    pub volumes: Vec<VolumeConfig>,
    /// The arrays that the labels of the groups named before.
    pub owners: Vec<(String, raid::ArrayId)>,
}

/// Why a controller could not carry out a request: one line with place and cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The declaration is not consistent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An object could not be opened, created or deleted.
    #[error("{place}: {cause}")]
    Failed {
        /// The object, as in `group "g0"`.
        place: String,
        /// The reason.
        cause: String,
        /// Of what kind the reason is.
        why: Why,
    },
    /// The controller has stopped.
    #[error("controller {0} has stopped, with its node or with the array: see masu status, and ask again")]
    Stopped(usize),
}

impl ControlError {
    /// A failure of which only the words are known.
    pub fn failed(place: impl Into<String>, cause: impl Into<String>) -> ControlError {
        let place = place.into();
        ControlError::Failed { cause: named_once(&place, &cause.into()), place, why: Why::default() }
    }

    pub(crate) fn at(place: impl Into<String>) -> impl FnOnce(&dyn Explains) -> ControlError {
        let place = place.into();
        move |cause| {
            let (why, cause) = (cause.why(), named_once(&place, &cause.to_string()));
            ControlError::Failed { place, cause, why }
        }
    }

    /// Whether the controller runs nowhere, or has ended before it answered.
    pub(crate) fn is_of_one_gone(&self) -> bool {
        matches!(self, ControlError::Stopped(_)) || self.is_for(Reason::NodeGone)
    }

    /// Whether it failed for a reason of this kind.
    pub(crate) fn is_for(&self, reason: Reason) -> bool {
        matches!(self, ControlError::Failed { why, .. } if why.reason == reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_once_whoever_names_it() {
        let text = |place: &str, cause: &dyn Explains| ControlError::at(place)(cause).to_string();
        let of_raid = "group g9: drive d0 is too small";
        assert_eq!(text("group \"g9\"", &of_raid), "group \"g9\": drive d0 is too small");
        let again = ControlError::at("group \"g9\"")(&of_raid).to_string();
        assert_eq!(text("group \"g9\"", &again), "group \"g9\": drive d0 is too small");
        assert_eq!(text("group \"g\"", &of_raid), "group \"g\": group g9: drive d0 is too small");
        assert_eq!(text("pool \"p\"", &of_raid), "pool \"p\": group g9: drive d0 is too small");
        assert_eq!(text("volume \"v\"", &"volume v"), "volume \"v\": volume v");
    }
}
