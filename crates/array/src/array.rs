//! The control plane's view of the whole array: what is declared, and the controllers that make it so.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, VolumeConfig};
use crate::control::{Control, ControlError, ControllerHandle, Reply};
use crate::status::ControllerStatus;

/// How long hosts get to log out when the array stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// A running array. Used by one owner at a time (`&mut` for changes), from any thread or runtime.
pub struct Array {
    controllers: Vec<ControllerHandle>,
    config: Config,
}

impl Array {
    /// An array of running controllers, with nothing declared yet.
    pub fn new(controllers: Vec<ControllerHandle>, target: &str) -> Array {
        let mut config = Config::empty(target);
        config.controllers = controllers.len();
        Array { controllers, config }
    }

    /// What is declared.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes the declaration so: idempotent. Gives a line for each thing that was made or changed. When a part
    /// fails, what was made before it stays, the old declaration stays in force, and applying again goes on from there.
    pub async fn apply(&mut self, config: Config) -> Result<Vec<String>, ControlError> {
        config.check()?;
        if config.controllers != self.controllers.len() {
            let cause = format!("the array runs with {}: restart it to change that", self.controllers.len());
            return Err(ControlError::Failed { place: "controllers".into(), cause });
        }
        let shared = Arc::new(config.clone());
        let mut done = Vec::new();
        for controller in &self.controllers {
            if let Reply::Done(lines) = controller.ask(Control::Apply(shared.clone())).await? {
                done.extend(lines);
            }
        }
        self.config = config;
        Ok(done)
    }

    /// Deletes a volume that no host sees.
    pub async fn delete_volume(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {name:?}"));
        let Some(owner) = self.config.owner_of(name) else { return Err(fail(&"there is no such volume")) };
        if let Some(host) = self.config.hosts.iter().find(|h| h.luns.values().any(|v| v == name)) {
            return Err(fail(&format!("it is mapped to host {:?}: unmap it first", host.name)));
        }
        let mut config = self.config.clone();
        config.volumes.retain(|v| v.name != name);
        // First everybody forgets the LU, then its owner deletes it.
        let mut done = self.apply(config).await?;
        if let Reply::Done(lines) = self.controllers[owner].ask(Control::DeleteVolume(name.into())).await? {
            done.extend(lines);
        }
        Ok(done)
    }

    /// Makes a volume that shares the pages of another: a snapshot that can be written, or a clone.
    pub async fn clone_volume(&mut self, from: &str, to: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {from:?}"));
        let (Some(source), Some(owner)) = (self.config.volume(from), self.config.owner_of(from)) else {
            return Err(fail(&"there is no such volume"));
        };
        let mut config = self.config.clone();
        config.volumes.push(VolumeConfig { name: to.into(), ..source.clone() });
        config.check()?;
        let clone = Control::CloneVolume { from: from.into(), to: to.into() };
        let mut done = Vec::new();
        if let Reply::Done(lines) = self.controllers[owner].ask(clone).await? {
            done.extend(lines);
        }
        done.extend(self.apply(config).await?);
        Ok(done)
    }

    /// How things stand, a part for each controller.
    pub async fn status(&self) -> Result<Vec<ControllerStatus>, ControlError> {
        let mut parts = Vec::new();
        for controller in &self.controllers {
            if let Reply::Status(part) = controller.ask(Control::Status).await? {
                parts.push(*part);
            }
        }
        Ok(parts)
    }

    /// Stops in order: hosts are told, running commands end, everything is durable.
    pub async fn stop(&self) -> Result<(), ControlError> {
        let mut first_error = Ok(());
        for controller in &self.controllers {
            let stopped = controller.ask(Control::Stop { grace: STOP_GRACE }).await;
            first_error = first_error.and(stopped.map(|_| ()));
        }
        first_error
    }
}
