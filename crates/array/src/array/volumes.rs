//! Volumes: delete, clone, reclaim.

use super::Array;
use crate::config::VolumeConfig;
use crate::control::{Control, ControlError, NO_SUCH_VOLUME};

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

    /// Deletes volumes whose deletion or creation was interrupted in an earlier life.
    ///
    /// # Errors
    /// If one cannot be deleted now; the next start tries again.
    pub async fn delete_discarded(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = Vec::new();
        for (volume, pool) in self.made.discarded.clone() {
            let Some(owner) = self.config.pool(&pool).map(|p| p.controller) else { continue };
            match self.ask(owner, Control::DeleteVolume(volume.clone())).await {
                Ok(lines) => done.extend(lines),
                Err(ControlError::Failed { cause, .. }) if cause == NO_SUCH_VOLUME => {}
                Err(error) => return Err(error),
            }
            self.discard(&volume, None).await?;
        }
        Ok(done)
    }

    /// Deletes a volume that is not mapped.
    ///
    /// # Errors
    ///
    /// No such volume, or it is mapped to a host.
    pub async fn delete_volume(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {name:?}"));
        let (Some(owner), Some(volume)) = (self.config.owner_of(name), self.config.volume(name)) else {
            return Err(fail(&"not found"));
        };
        if let Some(host) = self.config.hosts.iter().find(|h| h.luns.values().any(|v| v == name)) {
            return Err(fail(&format!("mapped to host {:?}; unmap it first", host.name)));
        }
        let pool = volume.pool.clone();
        let mut config = self.config.clone();
        config.volumes.retain(|v| v.name != name);
        // First all controllers drop the LU, then its owner deletes the volume. The next start completes a
        // deletion that a crash interrupts.
        self.made.discarded.insert(name.into(), pool);
        let mut done = match self.apply(config).await {
            Ok(done) => done,
            Err(error) => {
                self.made.discarded.remove(name);
                return Err(error);
            }
        };
        done.extend(self.ask(owner, Control::DeleteVolume(name.into())).await?);
        self.discard(name, None).await?;
        Ok(done)
    }

    /// Deletes a snapshot. A volume that is not a snapshot is refused.
    ///
    /// # Errors
    ///
    /// No such snapshot, it is a volume, or it is mapped to a host.
    pub async fn delete_snapshot(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("snapshot {name:?}"));
        match self.config.volume(name) {
            None => Err(fail(&"not found")),
            Some(volume) if volume.snapshot_of.is_none() => {
                Err(fail(&"not a snapshot but a volume; `masu volume delete` deletes a volume with its data"))
            }
            Some(_) => self.delete_volume(name).await,
        }
    }

    /// Creates a volume that shares the pages of another: a writable snapshot, or a clone.
    ///
    /// # Errors
    ///
    /// No such volume, the name is in use, or the pool has no room for the map.
    pub async fn clone_volume(&mut self, from: &str, to: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {from:?}"));
        let (Some(source), Some(owner)) = (self.config.volume(from), self.config.owner_of(from)) else {
            return Err(fail(&"not found"));
        };
        let mut config = self.config.clone();
        let snapshot_of = Some(from.to_owned());
        config.volumes.push(VolumeConfig { name: to.into(), snapshot_of, ..source.clone() });
        config.check()?;
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
        match self.apply(config).await {
            Ok(lines) => done.extend(lines),
            Err(error) => {
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
