//! What answers for a controller that runs nowhere for a moment.

use std::sync::Arc;

use scsi::{Response, Status, TaskOutcome};

use status::Reason;

use crate::config::Config;
use crate::control::{Control, ControlError, Reply};
use crate::mailbox::{Mailbox, Message};
use crate::status::{ControllerStatus, Missing};

/// Answers for a controller whose node is gone, until it is dropped: hosts are told that its logical units
/// are busy, and what is asked of it fails with this cause.
pub async fn answer_for_absent(mailbox: &Mailbox, index: usize, config: &Arc<Config>, cause: &str) {
    while let Some(message) = mailbox.next().await {
        // Who asked may have given up.
        match message {
            Message::Control(control, reply) => {
                let _ = reply.send(answer(control, index, config, cause));
            }
            Message::Execute { reply, .. } => {
                let _ = reply.send(Response::failed(Status::Busy, Vec::new(), 0));
            }
            Message::Manage { reply, .. } => {
                let _ = reply.send(TaskOutcome::NoSuchLun);
            }
            // A copy without an answer fails at the one that asks.
            Message::Copy { .. } | Message::Open { .. } | Message::Close { .. } => {}
        }
    }
}

fn answer(control: Control, index: usize, config: &Config, cause: &str) -> Result<Reply, ControlError> {
    match control {
        Control::Status | Control::Overview => {
            let part = config.of_controllers(&[index]);
            let groups = part.groups.iter().map(|group| ("group", &group.name));
            let pools = part.pools.iter().map(|pool| ("pool", &pool.name));
            let volumes = part.volumes.iter().map(|volume| ("volume", &volume.name));
            let missing = |(kind, name): (&str, &String)| Missing {
                kind: kind.into(),
                name: name.clone(),
                cause: cause.into(),
                reason: Reason::NodeGone,
                ..Missing::default()
            };
            let missing = groups.chain(pools).chain(volumes).map(missing).collect();
            Ok(Reply::Status(Box::new(ControllerStatus { index, missing, ..ControllerStatus::default() })))
        }
        // Nothing is under way that they would change.
        Control::Nodes(_)
        | Control::Ping
        | Control::Forget(_)
        | Control::StopJobs
        | Control::EndSessions { .. }
        | Control::Stop { .. }
        | Control::Hold(_)
        | Control::Announce(_)
        | Control::Arrived
        | Control::Undo(_)
        | Control::AtNextStart(_) => Ok(Reply::Done(vec![])),
        Control::PolicyParts(_) => Ok(Reply::PolicyDemand(vec![])),
        Control::ImageFormats(_) => Ok(Reply::Formats(vec![])),
        _ => {
            let (place, why) = (format!("controller {index}"), Reason::NodeGone.into());
            Err(ControlError::Failed { place, cause: cause.into(), why })
        }
    }
}
