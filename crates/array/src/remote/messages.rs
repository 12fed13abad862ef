//! What a frame says.

use scsi::TaskOutcome;
use serde::{Deserialize, Serialize};

use super::commands::{CopyAnswered, CopyAsked, Nexus, Requested, Responded};
use super::controls::Controlled;
use super::failures::Failed;
use super::replies::Replied;
use super::told::News;

/// The header of a frame.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    /// The last event of the sender's process that the receiver has to know ([`super::order`]).
    pub(super) events: u64,
    pub(super) message: Message,
}

/// What a frame is for.
#[derive(Serialize, Deserialize)]
pub(super) enum Message {
    /// The first of each side.
    Hello { protocol: u32 },
    /// Only tells of events.
    Events,
    /// For a controller; the answer has the same number.
    Ask { number: u64, to: usize, ask: Ask },
    /// To an ask.
    Answer { number: u64, answer: Answer },
    /// From a node to the owner.
    News(News),
}

/// What is asked of a controller. The payload is the data of a command.
#[derive(Serialize, Deserialize)]
pub(super) enum Ask {
    Control(Box<Controlled>),
    Execute { nexus: Nexus, lun: Option<scsi::Lun>, request: Box<Requested> },
    Manage { nexus: Nexus, function: scsi::TaskFunction },
    Copy { nexus: Nexus, request: CopyAsked },
    Open { nexus: Nexus },
    Close { nexus: Nexus },
}

/// What a controller answers. The payload is the data of a command.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Control(Box<Result<Replied, Failed>>),
    Executed(Responded),
    Managed(TaskOutcome),
    Copied(CopyAnswered),
    /// `Open` and `Close` have reached the controller.
    Delivered,
    /// The controller has stopped.
    Stopped,
}
