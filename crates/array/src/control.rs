//! The control plane's way in: messages to controllers, whatever thread or runtime they come from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use scsi::{Lun, Request, Response, TaskFunction, TaskOutcome};

use world::DriveSpec;

use crate::config::{
    Config, ConfigError, DriveConfig, FileFormat, GroupConfig, GroupId, Made, PoolConfig, VolumeConfig,
};
use crate::event::EventSender;
use crate::nexus::RemoteNexus;
use crate::status::ControllerStatus;

/// Messages that wait at a controller before the sender waits.
const QUEUE_LEN: usize = 1024;

/// What the owner of a pool says of a volume that is not there.
pub(crate) const NO_SUCH_VOLUME: &str = "there is none";

/// What becomes of the work on a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steer {
    /// Rebuild, scrub and evacuation wait.
    Pause,
    /// They continue.
    Resume,
    /// The scrub ends. A rebuild can only be paused; an evacuation ends when the group is declared to stay.
    StopScrub,
}

/// What a controller is asked to do.
#[derive(Clone, Debug)]
pub enum Control {
    /// Close the groups that this declaration gives to another controller.
    Release(Arc<Config>),
    /// Open what is declared and was made, create what was not: drives, groups, pools, volumes, images. Hosts see nothing of it yet.
    Prepare {
        /// The declaration.
        config: Arc<Config>,
        /// What was made before: it is opened or left alone.
        made: Arc<Made>,
    },
    /// Show hosts what was prepared: mappings changed, ports opened. What is there and not declared stays.
    Commit(Arc<Config>),
    /// Take back what was prepared; this declaration is in force again.
    Undo(Arc<Config>),
    /// Identities for groups of these names that are to be created.
    GroupIds(Vec<String>),
    /// Say of which format the images are that are declared without one. Nothing is opened for longer.
    ImageFormats(Arc<Config>),
    /// Delete a volume and everything on it.
    DeleteVolume(String),
    /// Make a volume that shares the pages of another.
    CloneVolume {
        /// The existing volume.
        from: String,
        /// The new one.
        to: String,
    },
    /// Give the place of a drive in a group to another one, and rebuild it.
    ReplaceDrive {
        /// The group.
        group: String,
        /// The drive that leaves; it may be gone already.
        old: String,
        /// The declared drive that comes; the same name when the medium behind it was exchanged.
        new: String,
        /// Whether what is on the drive that comes may be erased.
        overwrite: bool,
    },
    /// Read everything on a group, compare, repair: a job.
    Scrub(String),
    /// Pause, resume or end the work on a group.
    SteerWork {
        /// The group.
        group: String,
        /// What becomes of its work.
        steer: Steer,
    },
    /// Move pages of a pool from full groups to emptier ones: a job.
    Rebalance(String),
    /// Give back a volume's pages that hold only zeros: a job.
    Reclaim(String),
    /// End all jobs of this controller at their next step.
    StopJobs,
    /// Close a pool that is declared no longer with its groups, and put on their labels that no array owns them.
    ExportPool(String),
    /// Take over the pool on these drives, and say how it is to be declared.
    ImportPool {
        /// The drives, in any order.
        drives: Vec<DriveSpec>,
        /// Also when another array seems to own them.
        force: bool,
    },
    /// Answer at once: whether the controller's loop turns.
    Ping,
    /// Say what is there and how it was used.
    Status,
    /// The same without what there may be thousands of: volumes, cached volumes.
    Overview,
    /// Tell the hosts, let running commands end for at most this long, make everything durable, stop.
    Stop {
        /// How long hosts get to log out.
        grace: Duration,
    },
}

/// What a controller answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Done; one line for each thing that was made or changed.
    Done(Vec<String>),
    /// Prepared: a line for each thing that was made, and the groups that are open.
    Prepared(Vec<String>, BTreeMap<String, GroupId>),
    /// How things stand.
    Status(Box<ControllerStatus>),
    /// What was taken over.
    Imported(Box<Imported>),
    /// Images and their formats.
    Formats(Vec<(String, FileFormat)>),
}

/// A pool that was taken over, as it is to be declared.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its drives.
    pub drives: Vec<DriveConfig>,
    /// Its groups.
    pub groups: Vec<GroupConfig>,
    /// The pool.
    pub pool: PoolConfig,
    /// Its volumes.
    pub volumes: Vec<VolumeConfig>,
}

/// Why a controller could not do what it was asked: one line with cause and place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The declaration does not hold together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something could not be opened, made or deleted.
    #[error("{place}: {cause}")]
    Failed {
        /// Which object.
        place: String,
        /// Why.
        cause: String,
    },
    /// The controller has stopped.
    #[error("controller {0} has stopped")]
    Stopped(usize),
}

impl ControlError {
    pub(crate) fn at(place: impl Into<String>) -> impl FnOnce(&dyn std::fmt::Display) -> ControlError {
        let place = place.into();
        move |cause| ControlError::Failed { place, cause: cause.to_string() }
    }
}

/// What reaches a controller from other threads.
pub(crate) enum Message {
    Control(Control, oneshot::Sender<Result<Reply, ControlError>>),
    Execute { nexus: RemoteNexus, lun: Option<Lun>, request: Request, reply: oneshot::Sender<Response> },
    Manage { nexus: RemoteNexus, function: TaskFunction, reply: oneshot::Sender<TaskOutcome> },
    Close { nexus: RemoteNexus },
}

/// The sending end of a controller; cheap to clone, usable from every thread.
#[derive(Clone)]
pub struct ControllerHandle {
    /// The controller's number.
    pub index: usize,
    sender: async_channel::Sender<Message>,
}

/// The receiving end, given to the controller's thread.
pub struct Mailbox {
    pub(crate) messages: async_channel::Receiver<Message>,
    pub(crate) events: Option<EventSender>,
}

impl Mailbox {
    /// The same, for a controller that tells its events there, too.
    pub fn telling(self, events: EventSender) -> Mailbox {
        Mailbox { events: Some(events), ..self }
    }
}

impl ControllerHandle {
    /// A controller's two ends.
    pub fn new(index: usize) -> (ControllerHandle, Mailbox) {
        let (sender, receiver) = async_channel::bounded(QUEUE_LEN);
        (ControllerHandle { index, sender }, Mailbox { messages: receiver, events: None })
    }

    /// Asks for something and waits for the answer.
    pub async fn ask(&self, control: Control) -> Result<Reply, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Control(control, reply)).await?;
        answer.await.map_err(|_| ControlError::Stopped(self.index))?
    }

    pub(crate) async fn send(&self, message: Message) -> Result<(), ControlError> {
        self.sender.send(message).await.map_err(|_| ControlError::Stopped(self.index))
    }

    /// For a sender that cannot wait (a drop): whether there was room.
    pub(crate) fn try_send(&self, message: Message) -> bool {
        self.sender.try_send(message).is_ok()
    }
}
