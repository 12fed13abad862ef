//! Replacing drives of groups, and work on groups.

use super::Array;
use crate::control::{Control, ControlError, Steer};

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
        let mut done = self.ask(owner, replace).await?;
        if old == new {
            return Ok(done);
        }
        // The labels are already changed: they decide, also if the process ends here.
        let mut config = self.config.clone();
        config.spares.retain(|s| s != new && s != old);
        if let Some(declared) = config.groups.iter_mut().find(|g| g.name == group) {
            match declared.drives.iter_mut().find(|d| *d == old) {
                Some(drive) => *drive = new.into(),
                None => declared.drives.push(new.into()),
            }
        }
        config.drives.retain(|d| d.name != old);
        match self.apply(config).await {
            Ok(lines) => done.extend(lines),
            Err(error) => done.push(format!(
                "group {group}: has drive {new} in the place of {old}; it is declared so when that can be saved: \
                 {error}"
            )),
        }
        Ok(done)
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
