//! Drives that were pulled, or absent when their group was opened, and are back: they take their positions
//! again.
//!
//! | the drive | rebuild |
//! |---|---|
//! | is the one that was open before: its file has its name again | only what changed meanwhile |
//! | was opened again: another file, a reconnected device, a drive that was absent since the start | full: it may be a copy |
//!
//! Either must carry the label that it had when it left. A drive that fails without having been away stays
//! out.

use std::time::Duration;

use raid::{GroupState, MemberState, MemberStatus, OnDrive, examine, inspect};
use world::{Drive, DriveError};

use super::drives::{cause_of_foreign, existing, probe};
use super::upkeep::Kept;
use crate::config::Config;

/// Opening a drive takes longer than probing an open one.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A returned drive.
enum Again {
    /// The drive that was opened before.
    AsItWas(Drive),
    /// Opened again.
    Anew(Drive),
}

fn may_return(member: &MemberStatus) -> bool {
    member.state == MemberState::Missing || member.dropped_gone
}

impl Kept {
    /// Looks for returned drives of the group, in a task of its own.
    pub(super) fn look_for_pulled(&self) {
        let (pulled, now) = (&self.pulled, self.controller.world.now());
        let status = self.group.status();
        let degraded = status.state == GroupState::Degraded && status.members.iter().any(may_return);
        if !degraded || pulled.looking.get() || now < pulled.looked.get() + LOOK_INTERVAL {
            return;
        }
        pulled.looked.set(now);
        pulled.looking.set(true);
        let kept = self.clone();
        self.controller.world.spawn(async move {
            let config = kept.controller.config();
            let declared = config.groups.iter().find(|g| g.name == kept.name);
            for name in declared.iter().flat_map(|g| &g.drives) {
                kept.take_back_pulled(&config, name).await;
            }
            kept.pulled.looking.set(false);
        });
    }

    async fn take_back_pulled(&self, config: &Config, name: &str) {
        let Some(again) = self.there_again(config, name).await else { return };
        let (Again::AsItWas(drive) | Again::Anew(drive)) = &again;
        // A drive without a label is not read again and again for what else is on it.
        if !inspect(drive).await.is_ok_and(|label| label.is_some()) {
            return;
        }
        let label = match examine(drive).await {
            Ok(OnDrive::Label(label)) if self.group.left(&label) => label,
            _ => return,
        };
        let (position, now) = (label.position, self.controller.world.now());
        let replacing = self.controller.state().replacing.contains(&self.name);
        let is_empty = self.group.status().members.get(position as usize).is_some_and(may_return);
        if !is_empty || replacing || self.watch.has_ended() || self.flaps(position, drive) {
            return;
        }
        self.returns.borrow_mut().note(position, now);
        let outcome = match &again {
            Again::AsItWas(_) => self.group.take_back(position).await,
            Again::Anew(drive) => self.group.replace(position, drive.clone()).await.map(|()| None),
        };
        if outcome.is_ok() {
            self.pulled.forget(position);
            self.controller.state.borrow_mut().drives.insert(name.to_owned(), drive.clone());
        }
        self.tell_return((position, drive, "is back"), outcome);
    }

    /// The drive of this name, if it has no position and is available.
    async fn there_again(&self, config: &Config, name: &str) -> Option<Again> {
        let known = self.controller.state().drives.get(name).cloned();
        let Some(known) = known else { return self.opened_anew(config, name).await };
        let members = self.group.status().members;
        let member = members.iter().find(|m| m.drive.as_ref() == Some(&known.info().name));
        if member.is_some_and(|m| !m.dropped_gone) {
            return None;
        }
        match (probe(&self.controller.world, &known).await, member) {
            (Ok(()), Some(m)) => self.pulled.was_absent(m.position).then_some(Again::AsItWas(known)),
            // The drive was not used when the group was opened, for example because it could not be read.
            (Ok(()), None) => Some(Again::Anew(known)),
            (Err(error @ DriveError::Gone { .. }), member) => {
                member.iter().for_each(|m| self.pulled.note(m.position, &error));
                self.opened_anew(config, name).await
            }
            (Err(_), _) => None,
        }
    }

    /// The drive is held only while it has a position, so that nothing else finds it among the open drives.
    async fn opened_anew(&self, config: &Config, name: &str) -> Option<Again> {
        if cause_of_foreign(&self.controller.state(), name).is_some() {
            return None;
        }
        let spec = &config.drives.iter().find(|d| d.name == name)?.spec;
        let drive = self.controller.world.open_drive(&existing(spec)).await.ok()?;
        drive.set_patience(config.patience_of(&drive.info().name));
        Some(Again::Anew(drive))
    }
}
