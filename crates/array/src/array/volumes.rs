//! Volumes: delete, clone, reclaim.

use super::{Array, refusals};
use crate::config::Config;
use crate::control::{Control, ControlError, NO_SUCH_VOLUME, POOL_AWAY};

impl Array {
    /// Records a volume that must be deleted, or that must be deleted if its creation fails; `None` removes
    /// the record.
    async fn discard(&mut self, volume: &str, pool: Option<&str>) -> Result<(), ControlError> {
        match pool {
            Some(pool) => self.made.discarded.insert(volume.into(), pool.into()),
            None => self.made.discarded.remove(volume),
        };
        self.keep_made()
    }

    /// Deletes volumes whose deletion or creation was interrupted in an earlier life, and those whose pool
    /// was not served when they were deleted. They stay recorded while it is not.
    ///
    /// # Errors
    /// If one cannot be deleted now; to be tried again.
    pub async fn delete_discarded(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = Vec::new();
        for (volume, pool) in self.made.discarded.clone() {
            // A pool that is declared no more has taken its volumes along.
            if let Some(owner) = self.config.pool(&pool).map(|p| p.controller) {
                let delete = Control::DeleteVolume { pool, name: volume.clone() };
                match self.ask(owner, delete).await {
                    Ok(lines) => done.extend(lines),
                    Err(ControlError::Failed { cause, .. }) if cause == NO_SUCH_VOLUME => {}
                    Err(ControlError::Failed { cause, .. }) if cause == POOL_AWAY => continue,
                    Err(error) => return Err(error),
                }
            }
            self.discard(&volume, None).await?;
        }
        Ok(done)
    }

    /// Refuses a new volume with the name of one that is still to be deleted: it would be taken for that one.
    pub(super) fn refuse_discarded(&self, next: &Config) -> Result<(), ControlError> {
        // What is stored with a name has it: a clone whose creation was interrupted.
        let stored = |name: &str| self.kept.as_ref().is_some_and(|(config, _)| config.volume(name).is_some());
        let taken = |(name, _): &(&String, &String)| next.volume(name).is_some() && !stored(name);
        let taken = self.made.discarded.iter().find(taken);
        let Some((name, pool)) = taken else { return Ok(()) };
        Err(ControlError::at(format!("volume {name:?}"))(&format!(
            "a volume of this name in pool {pool:?} is still to be deleted, which is done when the pool is \
             served; choose another name"
        )))
    }

    /// Deletes a volume that is not mapped. Where its pool is not served, its data are deleted when it is.
    ///
    /// # Errors
    ///
    /// No such volume, or it is mapped to a host: nothing was changed then.
    pub async fn delete_volume(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let (volume, owner) = refusals::deletable(&self.config, name)?;
        let pool = volume.pool.clone();
        let mut config = self.config.clone();
        config.volumes.retain(|v| v.name != name);
        // First all controllers drop the LU, then its owner deletes the volume. The next start completes a
        // deletion that a crash interrupts.
        self.made.discarded.insert(name.into(), pool.clone());
        let mut done = match self.apply(config).await {
            Ok(done) => done,
            Err(error) => {
                self.made.discarded.remove(name);
                return Err(error);
            }
        };
        match self.ask(owner, Control::DeleteVolume { pool: pool.clone(), name: name.into() }).await {
            Ok(lines) => done.extend(lines),
            Err(ControlError::Failed { cause, .. }) if cause == POOL_AWAY => {
                let line = format!("volume {name}: its data are deleted when pool {pool} is served again");
                return Ok(done.into_iter().chain([line]).collect());
            }
            // Made by nobody, or lost with its drives.
            Err(ControlError::Failed { cause, .. }) if cause == NO_SUCH_VOLUME => {
                done.push(format!("volume {name}: it had no data in pool {pool}"));
            }
            Err(error) => return Err(error),
        }
        self.discard(name, None).await?;
        Ok(done)
    }

    /// Deletes a snapshot. A volume that is not a snapshot is refused.
    ///
    /// # Errors
    ///
    /// No such snapshot, it is a volume, or it is mapped to a host.
    pub async fn delete_snapshot(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        refusals::must_be_snapshot(&self.config, name)?;
        self.delete_volume(name).await
    }

    /// Creates a volume that shares the pages of another: a writable snapshot, or a clone.
    ///
    /// # Errors
    ///
    /// No such volume, the name is in use, or the pool has no room for the map.
    pub async fn clone_volume(&mut self, from: &str, to: &str) -> Result<Vec<String>, ControlError> {
        let config = refusals::with_clone(&self.config, from, to)?;
        self.refuse_discarded(&config)?;
        let fail = ControlError::at(format!("volume {from:?}"));
        let (Some(source), Some(owner)) = (self.config.volume(from), self.config.owner_of(from)) else {
            return Err(fail(&"not found"));
        };
        let pool = source.pool.clone();
        // If a crash interrupts this before the declaration, the next start deletes the clone.
        self.discard(to, Some(&pool)).await?;
        let clone = Control::CloneVolume { from: from.into(), to: to.into() };
        let mut done = match self.ask(owner, clone).await {
            Ok(lines) => lines,
            Err(error) => {
                self.discard(to, None).await?;
                return Err(error);
            }
        };
        // The declaration with it and the end of the record are stored together.
        let before = self.made.clone();
        self.made.discarded.remove(to);
        if self.made.pools.contains(&pool) {
            self.made.volumes.insert(to.into());
        }
        match self.apply(config).await {
            Ok(lines) => done.extend(lines),
            Err(error) => {
                self.made = before;
                self.delete_discarded().await?;
                return Err(error);
            }
        }
        Ok(done)
    }

    /// Reclaims a volume's pages of zeros, in the background.
    ///
    /// # Errors
    ///
    /// No such volume, or it is an image. What goes wrong later is an event.
    pub async fn reclaim(&self, volume: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {volume:?}"));
        let owner = self.config.owner_of(volume).ok_or_else(|| fail(&"not found"))?;
        self.ask(owner, Control::Reclaim(volume.into())).await
    }
}
