//! Replacing drives of groups, and work on groups.

use super::Array;
use crate::config::Config;
use crate::control::{Control, ControlError, Reply, Steer};
use crate::vacancies::{Vacancy, vacancies};

impl Array {
    /// Replaces a drive of a group. `new` is a declared spare or another free drive, or `old` again if the
    /// medium behind that name was exchanged. Content of the new drive is erased only with `overwrite`.
    ///
    /// # Errors
    /// If the new drive is unsuitable or not blank, or if the old one has no redundancy.
    pub async fn replace_drive(
        &mut self,
        group: &str,
        old: &str,
        new: &str,
        overwrite: bool,
    ) -> Result<Vec<String>, ControlError> {
        let mut done = self.take_place(group, (old, new), overwrite).await?;
        if old == new {
            return Ok(done);
        }
        let mut config = with_member(&self.config, group, (old, new));
        config.drives.retain(|d| d.name != old);
        done.extend(self.declare_member(group, (old, new), config).await);
        Ok(done)
    }

    /// Has the controller of a group replace a drive.
    async fn take_place(
        &self,
        group: &str,
        (old, new): (&str, &str),
        overwrite: bool,
    ) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("group {group:?}"));
        let Some(declared) = self.config.groups.iter().find(|g| g.name == group) else {
            return Err(fail(&"not found"));
        };
        if old != new
            && (!self.config.drives.iter().any(|d| d.name == new) || declared.drives.iter().any(|d| d == new))
        {
            return Err(fail(&format!("drive {new:?} is not declared, or is already a member")));
        }
        let owner = self.config.owner_of_group(group);
        let replace =
            Control::ReplaceDrive { group: group.into(), old: old.into(), new: new.into(), overwrite };
        // A controller that is lost in the middle of it may have both.
        self.openers.gives(new, owner);
        let replaced = self.ask(owner, replace).await;
        if old == new || matches!(replaced, Err(ControlError::Failed { .. })) {
            self.openers.has_settled(new);
        }
        replaced
    }

    /// The labels are already changed: they decide, also if the process ends here.
    async fn declare_member(&mut self, group: &str, (old, new): (&str, &str), config: Config) -> Vec<String> {
        match self.apply(config).await {
            Ok(lines) => {
                self.openers.has_settled(new);
                lines
            }
            Err(error) => vec![format!(
                "group {group}: has drive {new} in the place of {old}; it is declared so when that can be saved: \
                 {error}"
            )],
        }
    }

    /// Gives spares to the groups of these controllers that lack a drive and take none by themselves: the
    /// first of the declared ones that fits. Returns what was done, and why a place stays empty.
    ///
    /// # Errors
    /// A controller has stopped.
    pub async fn give_spares(
        &mut self,
        controllers: &[usize],
    ) -> Result<(Vec<String>, Vec<String>), ControlError> {
        let (mut done, mut refused) = (vec![], vec![]);
        for index in controllers.iter().copied() {
            let Reply::Status(status) = self.controllers[index].ask(Control::Overview).await? else {
                continue;
            };
            for Vacancy { group, drive } in vacancies(&self.config, &status) {
                for spare in self.config.spares.clone() {
                    match self.take_place(&group, (&drive, &spare), false).await {
                        Ok(lines) => {
                            done.extend(lines);
                            // The drive that has left stays declared, as where groups take spares themselves.
                            let config = with_member(&self.config, &group, (&drive, &spare));
                            done.extend(self.declare_member(&group, (&drive, &spare), config).await);
                            break;
                        }
                        Err(error @ ControlError::Failed { .. }) => {
                            refused.push(format!("spare {spare} cannot be used: {error}"));
                        }
                        Err(stopped) => return Err(stopped),
                    }
                }
            }
        }
        Ok((done, refused))
    }

    /// Scrubs a group, in the background.
    ///
    /// # Errors
    ///
    /// No such group, or it is not open.
    pub async fn scrub(&self, group: &str) -> Result<Vec<String>, ControlError> {
        self.ask(self.config.owner_of_group(group), Control::Scrub(group.into())).await
    }

    /// Pauses, resumes or ends the work on a group.
    ///
    /// # Errors
    ///
    /// No such group, or it is not open. Work that is not there is no error.
    pub async fn steer_work(&self, group: &str, steer: Steer) -> Result<Vec<String>, ControlError> {
        let control = Control::SteerWork { group: group.into(), steer };
        self.ask(self.config.owner_of_group(group), control).await
    }
}

/// The declaration with a drive of a group in the place of another one.
fn with_member(config: &Config, group: &str, (old, new): (&str, &str)) -> Config {
    let mut config = config.clone();
    config.spares.retain(|s| s != new && s != old);
    if let Some(declared) = config.groups.iter_mut().find(|g| g.name == group) {
        match declared.drives.iter_mut().find(|d| *d == old) {
            Some(drive) => *drive = new.into(),
            None => declared.drives.push(new.into()),
        }
    }
    config
}
