//! Drives of groups are replaced, groups are scrubbed.

use super::Array;
use crate::control::{Control, ControlError, Steer};

impl Array {
    /// Gives the place of a drive in a group to another one. `new` is a declared spare or other free drive; or `old` again, when
    /// the medium behind that name was exchanged. What is on the new one is erased only with `overwrite`.
    ///
    /// # Errors
    /// Where it does not fit, is not blank, or cannot be spared.
    pub async fn replace_drive(
        &mut self,
        group: &str,
        old: &str,
        new: &str,
        overwrite: bool,
    ) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("group {group:?}"));
        let Some(declared) = self.config.groups.iter().find(|g| g.name == group) else {
            return Err(fail(&"there is no such group"));
        };
        if old != new
            && (!self.config.drives.iter().any(|d| d.name == new) || declared.drives.iter().any(|d| d == new))
        {
            return Err(fail(&format!("drive {new:?} is not declared, or is in it already")));
        }
        let owner = self.config.owner_of_group(group);
        let replace =
            Control::ReplaceDrive { group: group.into(), old: old.into(), new: new.into(), overwrite };
        let mut done = self.ask(owner, replace).await?;
        if old == new {
            return Ok(done);
        }
        // The labels say so already; should the process end here, they decide.
        let mut config = self.config.clone();
        config.spares.retain(|s| s != new && s != old);
        if let Some(declared) = config.groups.iter_mut().find(|g| g.name == group) {
            match declared.drives.iter_mut().find(|d| *d == old) {
                Some(drive) => *drive = new.into(),
                None => declared.drives.push(new.into()),
            }
        }
        config.drives.retain(|d| d.name != old);
        done.extend(self.apply(config).await?);
        Ok(done)
    }

    /// Reads and compares everything on a group, in the background.
    pub async fn scrub(&self, group: &str) -> Result<Vec<String>, ControlError> {
        self.ask(self.config.owner_of_group(group), Control::Scrub(group.into())).await
    }

    /// Pauses, resumes or ends the work on a group.
    pub async fn steer_work(&self, group: &str, steer: Steer) -> Result<Vec<String>, ControlError> {
        let control = Control::SteerWork { group: group.into(), steer };
        self.ask(self.config.owner_of_group(group), control).await
    }
}
