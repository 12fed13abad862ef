//! Volumes: delete, clone, reclaim.

use status::Reason;

use super::stored::also;
use super::{Array, refusals};
use crate::config::{Config, Made};
use crate::control::{Control, ControlError};

impl Array {
    /// The end of a deletion, or of a creation that failed. Returns a line if that is saved later.
    fn forget_discarded(&mut self, volume: &str) -> Option<String> {
        self.made.discarded.remove(volume);
        self.stored.in_force_already(&self.config, &self.made)
    }

    /// Deletes volumes whose deletion or creation was interrupted in an earlier life, and those whose pool
    /// was not served when they were deleted. They stay recorded while it is not.
    ///
    /// # Errors
    /// If one cannot be deleted now; to be tried again.
    pub async fn delete_discarded(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = Vec::new();
        if let Err(cause) = self.stored.put_back() {
            return Err(ControlError::at("state")(&cause));
        }
        for (volume, pool) in self.made.discarded.clone() {
            // A pool that is declared no more has taken its volumes along.
            if let Some(owner) = self.config.pool(&pool).map(|p| p.controller) {
                let delete = Control::DeleteVolume { pool, name: volume.clone() };
                match self.ask(owner, delete).await {
                    Ok(lines) => done.extend(lines),
                    Err(error) if error.is_for(Reason::NotFound) => {}
                    Err(error) if error.is_for(Reason::PoolNotOpen) => continue,
                    Err(error) => return Err(error),
                }
            }
            done.extend(self.forget_discarded(&volume));
        }
        Ok(done)
    }

    /// Refuses a new volume with the name of one that is still to be deleted: it would be taken for that one.
    pub(super) fn refuse_discarded(&self, next: &Config, made: &Made) -> Result<(), ControlError> {
        // What is stored with a name has it: a clone whose creation was interrupted.
        let stored = |name: &str| self.stored.config().is_some_and(|config| config.volume(name).is_some());
        let taken = |(name, _): &(&String, &String)| next.volume(name).is_some() && !stored(name);
        let taken = made.discarded.iter().find(taken);
        let Some((name, pool)) = taken else { return Ok(()) };
        Err(ControlError::at(format!("volume {name:?}"))(&format!(
            "a volume of this name in pool {pool:?} is still to be deleted, which is done when the pool is \
             served and has room; choose another name"
        )))
    }

    /// Deletes a volume that is not mapped. Where its pool is not served, its data are deleted when it is.
    ///
    /// # Errors
    ///
    /// No such volume, or it is mapped to a host: nothing was changed then.
    pub async fn delete_volume(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        if self.config.volume(name).is_none()
            && let Some((pool, owner)) = self.undeclared(name).await?
        {
            return self.delete_undeclared((pool, owner), name).await;
        }
        let (volume, owner) = refusals::deletable(&self.config, name)?;
        let pool = volume.pool.clone();
        let mut config = self.config.clone();
        config.volumes.retain(|v| v.name != name);
        // First all controllers drop the LU, then its owner deletes the volume. The next start completes a
        // deletion that a crash interrupts.
        let mut made = self.made.clone();
        made.discarded.insert(name.into(), pool.clone());
        let done = self.apply_with(config, made).await?;
        self.delete_recorded((pool, owner), name, done).await
    }

    /// A volume of this name that no declaration has: its pool, and the controller that has this.
    ///
    /// # Errors
    /// A controller has stopped.
    pub async fn undeclared(&self, name: &str) -> Result<Option<(String, usize)>, ControlError> {
        let parts = self.overview().await?;
        let mut all = parts.iter().flat_map(|part| part.undeclared.iter().map(move |of| (of, part.index)));
        Ok(all.find(|((_, volume), _)| volume == name).map(|((pool, _), owner)| (pool.clone(), owner)))
    }

    /// Refuses a new volume of a name that is in a pool already, with data: nobody expects these in a new
    /// one.
    ///
    /// # Errors
    /// A pool has it, or a controller has stopped.
    pub async fn refuse_undeclared(&self, name: &str) -> Result<(), ControlError> {
        let Some((pool, _)) = self.undeclared(name).await? else { return Ok(()) };
        Err(ControlError::at(format!("volume {name:?}"))(&format!(
            "pool {pool:?} has one of this name with its data, which no declaration has; to have it as it is, \
             add a [[volume]] with this name, pool and its size to what masu config export prints, and apply that (masu \
             config import FILE), or delete it first: masu volume delete {name}"
        )))
    }

    /// Deletes a volume that a pool has and no declaration.
    async fn delete_undeclared(
        &mut self,
        (pool, owner): (String, usize),
        name: &str,
    ) -> Result<Vec<String>, ControlError> {
        let mut made = self.made.clone();
        made.discarded.insert(name.into(), pool.clone());
        self.keep_made(made)?;
        self.delete_recorded((pool, owner), name, Vec::new()).await
    }

    /// Deletes the data of a volume whose deletion is recorded and in force.
    async fn delete_recorded(
        &mut self,
        (pool, owner): (String, usize),
        name: &str,
        mut done: Vec<String>,
    ) -> Result<Vec<String>, ControlError> {
        match self.ask(owner, Control::DeleteVolume { pool: pool.clone(), name: name.into() }).await {
            Ok(lines) => done.extend(lines),
            Err(error) if error.is_for(Reason::PoolNotOpen) => {
                let line = format!("volume {name}: its data are deleted when pool {pool} is served again");
                return Ok(done.into_iter().chain([line]).collect());
            }
            // Made by nobody, or lost with its drives.
            Err(error) if error.is_for(Reason::NotFound) => {
                done.push(format!("volume {name}: it had no data in pool {pool}"));
            }
            // It is declared no more, and recorded.
            Err(error) => {
                done.push(format!(
                    "volume {name}: deleted; its data are deleted when that is possible: {error}"
                ));
                return Ok(done);
            }
        }
        done.extend(self.forget_discarded(name));
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
    /// No such volume, the name is in use (also by a volume that no declaration has), the pool is not served,
    /// or has no room for the map.
    pub async fn clone_volume(&mut self, from: &str, to: &str) -> Result<Vec<String>, ControlError> {
        let config = refusals::with_clone(&self.config, from, to)?;
        self.refuse_discarded(&config, &self.made)?;
        // A clone that is refused after it was recorded is deleted, by its name.
        self.refuse_undeclared(to).await?;
        let fail = ControlError::at(format!("volume {from:?}"));
        let (Some(source), Some(owner)) = (self.config.volume(from), self.config.owner_of(from)) else {
            return Err(fail(&"not found"));
        };
        let pool = source.pool.clone();
        if !self.overview().await?.iter().flat_map(|part| &part.pools).any(|p| p.name == pool) {
            return Err(fail(&format!("pool {pool:?} is not open")));
        }
        // If a crash interrupts this before the declaration, the next start deletes the clone.
        let mut made = self.made.clone();
        made.discarded.insert(to.into(), pool.clone());
        self.keep_record(made)?;
        let clone = Control::CloneVolume { from: from.into(), to: to.into() };
        let mut done = match self.ask(owner, clone).await {
            Ok(lines) => lines,
            Err(error) => return Err(self.without_clone(error).await),
        };
        // The declaration with it and the end of the record are stored together.
        let mut made = self.made.clone();
        made.discarded.remove(to);
        if made.pools.contains(&pool) {
            made.volumes.insert(to.into());
        }
        match self.apply_with(config, made).await {
            Ok(lines) => done.extend(lines),
            Err(error) => return Err(self.without_clone(error).await),
        }
        Ok(done)
    }

    /// Deletes what there is of a clone that is refused; if that is not possible now, it stays recorded.
    async fn without_clone(&mut self, error: ControlError) -> ControlError {
        match self.delete_discarded().await {
            Ok(_) => error,
            Err(left) => {
                also(error, &format!("what there is of it is deleted when that is possible: {left}"))
            }
        }
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
