//! The control plane's view of the whole array: what is declared, and the controllers that make it so.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, HostConfig, VolumeConfig};
use world::DriveSpec;

use crate::control::{Control, ControlError, ControllerHandle, Reply};
use crate::groups::owner_of_group;
use crate::status::{ControllerStatus, PoolStatus};

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
        self.config.may_become(&config)?;
        if config.controllers != self.controllers.len() {
            let cause = format!("the array runs with {}: restart it to change that", self.controllers.len());
            return Err(ControlError::Failed { place: "controllers".into(), cause });
        }
        let shared = Arc::new(config.clone());
        let mut done = Vec::new();
        for controller in &self.controllers {
            controller.ask(Control::Release(shared.clone())).await?;
        }
        for controller in &self.controllers {
            if let Reply::Done(lines) = controller.ask(Control::Apply(shared.clone())).await? {
                done.extend(lines);
            }
        }
        // Here, on nobody's data path.
        done.extend(host_changes(&self.config, &config));
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

    /// Deletes a snapshot, and nothing that is none.
    pub async fn delete_snapshot(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("snapshot {name:?}"));
        match self.config.volume(name) {
            None => Err(fail(&"there is no such snapshot")),
            Some(volume) if volume.snapshot_of.is_none() => Err(fail(
                &"is a volume and no snapshot: `masu volume delete` deletes volumes with their data",
            )),
            Some(_) => self.delete_volume(name).await,
        }
    }

    /// Makes a volume that shares the pages of another: a snapshot that can be written, or a clone.
    pub async fn clone_volume(&mut self, from: &str, to: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {from:?}"));
        let (Some(source), Some(owner)) = (self.config.volume(from), self.config.owner_of(from)) else {
            return Err(fail(&"there is no such volume"));
        };
        let mut config = self.config.clone();
        let snapshot_of = Some(from.to_owned());
        config.volumes.push(VolumeConfig { name: to.into(), snapshot_of, ..source.clone() });
        config.check()?;
        let clone = Control::CloneVolume { from: from.into(), to: to.into() };
        let mut done = Vec::new();
        if let Reply::Done(lines) = self.controllers[owner].ask(clone).await? {
            done.extend(lines);
        }
        done.extend(self.apply(config).await?);
        Ok(done)
    }

    /// Gives the place of a drive in a group to another one. `new` is a declared spare or other free drive; or `old` again, when
    /// the medium behind that name was exchanged.
    pub async fn replace_drive(
        &mut self,
        group: &str,
        old: &str,
        new: &str,
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
        let owner = owner_of_group(&self.config, group);
        let replace = Control::ReplaceDrive { group: group.into(), old: old.into(), new: new.into() };
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
        self.ask(owner_of_group(&self.config, group), Control::Scrub(group.into())).await
    }

    /// Moves all pages of a group to the others of its pool, in the background, and takes it out of the pool.
    pub async fn remove_group(&mut self, pool: &str, group: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("pool {pool:?}"));
        let mut config = self.config.clone();
        let Some(declared) = config.pools.iter_mut().find(|p| p.name == pool) else {
            return Err(fail(&"there is no such pool"));
        };
        if !declared.groups.iter().any(|g| g == group) {
            return Err(fail(&format!("group {group:?} is not in it")));
        }
        let parts = self.status().await?;
        if let Some(status) = parts.iter().flat_map(|part| &part.pools).find(|p| p.name == pool) {
            refuse_without_room(status, group)?;
        }
        declared.groups.retain(|g| g != group);
        declared.leaving.push(group.into());
        let mut done = self.apply(config).await?;
        done.push(format!("pool {pool}: the pages of group {group} move to the others, then it leaves"));
        Ok(done)
    }

    /// Moves pages of a pool from full groups to emptier ones, in the background.
    pub async fn rebalance(&self, pool: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("pool {pool:?}"));
        let declared = self.config.pool(pool).ok_or_else(|| fail(&"there is no such pool"))?;
        self.ask(declared.controller, Control::Rebalance(pool.into())).await
    }

    /// Gives back a volume's pages of zeros, in the background.
    pub async fn reclaim(&self, volume: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {volume:?}"));
        let owner = self.config.owner_of(volume).ok_or_else(|| fail(&"there is no such volume"))?;
        self.ask(owner, Control::Reclaim(volume.into())).await
    }

    /// Ends all work that was begun in the background, at its next step. Rebuilds go on.
    pub async fn stop_jobs(&self) -> Result<(), ControlError> {
        for controller in &self.controllers {
            controller.ask(Control::StopJobs).await?;
        }
        Ok(())
    }

    /// Gives a pool away: its volumes, which no host may see, its groups and drives are declared no longer, and no array owns
    /// the drives.
    pub async fn export_pool(&mut self, pool: &str) -> Result<Vec<String>, ControlError> {
        let fail = || ControlError::at(format!("pool {pool:?}"));
        let declared = self.config.pool(pool).cloned().ok_or_else(|| fail()(&"there is no such pool"))?;
        let on_it = |v: &str| self.config.volume(v).is_some_and(|v| v.pool == pool);
        for host in &self.config.hosts {
            if let Some(volume) = host.luns.values().find(|v| on_it(v)) {
                let cause = format!("host {:?} sees its volume {volume:?}: unmap it first", host.name);
                return Err(fail()(&cause));
            }
        }
        // What its groups are made of now; a spare may have taken a place, a group may have left.
        let parts = self.status().await?;
        let pools = parts.iter().flat_map(|part| &part.pools).filter(|p| p.name == pool);
        let groups: Vec<&String> = pools.flat_map(|p| &p.group_spaces).map(|g| &g.name).collect();
        let leaves = |name: &String| groups.contains(&name);
        let own = parts.iter().flat_map(|part| &part.groups).filter(|g| leaves(&g.name));
        let drives: Vec<&String> =
            own.flat_map(|g| g.drives.iter().chain(g.members.iter().flatten())).collect();
        let (before, mut config) = (self.config.clone(), self.config.clone());
        config.volumes.retain(|v| v.pool != pool);
        config.pools.retain(|p| p.name != pool);
        config.groups.retain(|g| !leaves(&g.name));
        config.drives.retain(|d| !drives.contains(&&d.name));
        config.spares.retain(|s| !drives.contains(&s));
        self.apply(config).await?;
        let exported = self.ask(declared.controller, Control::ExportPool(pool.into())).await;
        if exported.is_err() {
            // It stays, as it was declared.
            self.apply(before).await?;
        }
        exported
    }

    /// Takes over the pool on these drives: drives, groups, pool and volumes are declared as they are found.
    pub async fn import_pool(
        &mut self,
        drives: Vec<DriveSpec>,
        force: bool,
    ) -> Result<Vec<String>, ControlError> {
        let owner = self.config.pools.len() % self.controllers.len();
        let import = Control::ImportPool { drives, force };
        let Reply::Imported(imported) = self.controllers[owner].ask(import).await? else { return Ok(vec![]) };
        let mut done = vec![format!("pool {}: imported", imported.pool.name)];
        done.extend(self.apply(imported.joined_to(&self.config)).await?);
        Ok(done)
    }

    async fn ask(&self, controller: usize, control: Control) -> Result<Vec<String>, ControlError> {
        match self.controllers[controller].ask(control).await? {
            Reply::Done(lines) => Ok(lines),
            Reply::Status(_) | Reply::Imported(_) => Ok(vec![]),
        }
    }

    /// How things stand, a part for each controller.
    pub async fn status(&self) -> Result<Vec<ControllerStatus>, ControlError> {
        self.ask_all(Control::Status).await
    }

    async fn ask_all(&self, what: Control) -> Result<Vec<ControllerStatus>, ControlError> {
        let mut parts = Vec::new();
        for controller in &self.controllers {
            if let Reply::Status(part) = controller.ask(what.clone()).await? {
                parts.push(*part);
            }
        }
        Ok(parts)
    }

    /// How things stand without what there may be thousands of, volumes and cached volumes: for those who look often.
    pub async fn overview(&self) -> Result<Vec<ControllerStatus>, ControlError> {
        self.ask_all(Control::Overview).await
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

/// A group leaves only when the others have room for what is on it.
fn refuse_without_room(pool: &PoolStatus, group: &str) -> Result<(), ControlError> {
    let used: u64 = pool.group_spaces.iter().filter(|g| g.name == group).map(|g| g.used_bytes).sum();
    let others = pool.group_spaces.iter().filter(|g| g.name != group && !g.evacuating);
    let free: u64 = others.map(|g| g.total_bytes - g.used_bytes).sum();
    if used <= free {
        return Ok(());
    }
    let place = ControlError::at(format!("pool {:?}", pool.name));
    Err(place(&format!("{used} bytes are used on group {group:?}, the others have {free} bytes free")))
}

/// What changes for the hosts, a line each. Secrets are not shown.
fn host_changes(old: &Config, new: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for host in &new.hosts {
        let before = old.hosts.iter().find(|h| h.name == host.name);
        let same_identity = |h: &&HostConfig| {
            h.initiator == host.initiator && h.chap == host.chap && h.mutual_chap == host.mutual_chap
        };
        if before.filter(same_identity).is_none() {
            lines.push(format!("host {}: {}", host.name, host.initiator));
        }
        let saw = before.map(|h| h.luns.clone()).unwrap_or_default();
        let news = host.luns.iter().filter(|(lun, volume)| saw.get(lun) != Some(volume));
        lines.extend(news.map(|(lun, volume)| format!("host {}: sees {volume} as LUN {}", host.name, lun.0)));
        let gone = saw.iter().filter(|(lun, _)| !host.luns.contains_key(lun));
        lines.extend(
            gone.map(|(lun, volume)| format!("host {}: sees {volume} (LUN {}) no longer", host.name, lun.0)),
        );
    }
    let removed = old.hosts.iter().filter(|h| new.hosts.iter().all(|n| n.name != h.name));
    lines.extend(removed.map(|h| format!("host {}: removed", h.name)));
    lines
}
