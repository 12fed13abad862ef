//! The control plane's view of the whole array: what is declared, and the controllers that make it so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, HostConfig, Keeper, Made, MadeGroup, VolumeConfig};
use world::DriveSpec;

use crate::control::{Control, ControlError, ControllerHandle, NO_SUCH_VOLUME, Reply, Steer};
use crate::status::{ControllerStatus, PoolStatus};

/// How long hosts get to log out when the array stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// A running array. Used by one owner at a time (`&mut` for changes), from any thread or runtime.
pub struct Array {
    controllers: Vec<ControllerHandle>,
    config: Config,
    made: Made,
    keeper: Option<Box<dyn Keeper>>,
    /// What the keeper has: it stays so when the first declaration of this life cannot be applied.
    kept: Option<(Config, Made)>,
    sent: Sent,
}

/// What controllers were given to share. It is kept here until none of them has it any more: to free ten thousand volumes' names takes
/// milliseconds, and a controller that were the last to have them would make hosts wait for it.
#[derive(Default)]
struct Sent {
    configs: Vec<Arc<Config>>,
    made: Vec<Arc<Made>>,
}

impl Sent {
    fn config(&mut self, config: &Config) -> Arc<Config> {
        self.configs.retain(|sent| Arc::strong_count(sent) > 1);
        let shared = Arc::new(config.clone());
        self.configs.push(shared.clone());
        shared
    }

    fn made(&mut self, made: &Made) -> Arc<Made> {
        self.made.retain(|sent| Arc::strong_count(sent) > 1);
        let shared = Arc::new(made.clone());
        self.made.push(shared.clone());
        shared
    }
}

impl Array {
    /// An array of running controllers, with nothing declared yet.
    pub fn new(controllers: Vec<ControllerHandle>, target: &str) -> Array {
        let mut config = Config::empty(target);
        config.controllers = controllers.len();
        let (made, sent) = (Made::default(), Sent::default());
        Array { controllers, config, made, keeper: None, kept: None, sent }
    }

    /// The array as it was kept: what was made in earlier lives is opened or missing, and never made again. From now on every change
    /// is kept before it takes effect.
    pub fn kept_by(mut self, keeper: Box<dyn Keeper>, kept: Option<(Config, Made)>) -> Array {
        self.keeper = Some(keeper);
        self.made = kept.as_ref().map(|(_, made)| made.clone()).unwrap_or_default();
        self.kept = kept;
        self
    }

    /// The controllers.
    pub fn controllers(&self) -> &[ControllerHandle] {
        &self.controllers
    }

    /// The array has nothing of its own, and becomes one that made this: it is opened or missing, and not made.
    pub fn adopt(&mut self, made: Made) {
        self.made = made;
    }

    /// What is declared.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was made.
    pub fn made(&self) -> &Made {
        &self.made
    }

    /// Makes the declaration so: idempotent. Gives a line for each thing that was made or changed. It is kept before it takes effect.
    /// What was made before and cannot be opened is left alone and said in the status.
    ///
    /// # Errors
    /// Where something new cannot be made: then what was made for this declaration is taken back, and the old one stays in force.
    pub async fn apply(&mut self, config: Config) -> Result<Vec<String>, ControlError> {
        self.apply_over(config, &[]).await
    }

    /// Like [`Array::apply`]; what is on these drives is overwritten where they are taken for the first time.
    ///
    /// # Errors
    /// As of [`Array::apply`].
    pub async fn apply_over(
        &mut self,
        config: Config,
        overwrite: &[String],
    ) -> Result<Vec<String>, ControlError> {
        config.check()?;
        let config = self.with_formats(config).await?;
        self.config.may_become(&config)?;
        if config.controllers != self.controllers.len() {
            let cause = format!("the array runs with {}: restart it to change that", self.controllers.len());
            return Err(ControlError::Failed { place: "controllers".into(), cause });
        }
        let mut made = self.made.clone();
        made.overwrite.extend(overwrite.iter().cloned());
        self.name_groups(&config, &mut made).await?;
        self.keep(&config, &made)?;
        match self.take_effect(&config, &mut made).await {
            Ok(mut done) => {
                // Here, on nobody's data path.
                done.extend(host_changes(&self.config, &config));
                (self.config, self.made) = (config.clone(), made.clone());
                self.kept = Some((config, made));
                Ok(done)
            }
            Err(error) => {
                self.take_back(&config).await?;
                Err(error)
            }
        }
    }

    /// Gives the groups that are to be made their identities: where they are kept, a creation that is interrupted is known by them. An
    /// array without a keeper knows its own labels by array and name alone.
    async fn name_groups(&self, config: &Config, made: &mut Made) -> Result<(), ControlError> {
        if self.keeper.is_none() {
            return Ok(());
        }
        let new = config.groups.iter().filter(|g| !made.groups.contains_key(&g.name));
        let names: Vec<String> = new.map(|g| g.name.clone()).collect();
        if !names.is_empty()
            && let Reply::Prepared(_, ids) = self.controllers[0].ask(Control::GroupIds(names)).await?
        {
            let new = ids.into_iter().map(|(name, id)| (name, MadeGroup { id: Some(id), ready: false }));
            made.groups.extend(new);
        }
        Ok(())
    }

    /// Everything is opened and made on all controllers, kept as made, and only then shown to hosts.
    async fn take_effect(&mut self, config: &Config, made: &mut Made) -> Result<Vec<String>, ControlError> {
        let shared = self.sent.config(config);
        let before = self.sent.made(made);
        let (mut done, mut ids) = (Vec::new(), BTreeMap::new());
        for controller in &self.controllers {
            controller.ask(Control::Release(shared.clone())).await?;
        }
        for controller in &self.controllers {
            let prepare = Control::Prepare { config: shared.clone(), made: before.clone() };
            if let Reply::Prepared(lines, open) = controller.ask(prepare).await? {
                done.extend(lines);
                ids.extend(open);
            }
        }
        made.finish(config, &ids);
        self.keep(config, made)?;
        for controller in &self.controllers {
            if let Reply::Done(lines) = controller.ask(Control::Commit(shared.clone())).await? {
                done.extend(lines);
            }
        }
        Ok(done)
    }

    /// The declaration that was in force is so again.
    async fn take_back(&mut self, refused: &Config) -> Result<(), ControlError> {
        let shared = self.sent.config(&self.config);
        for controller in &self.controllers {
            controller.ask(Control::Undo(shared.clone())).await?;
        }
        match (&self.kept, &mut self.keeper) {
            (Some((config, made)), Some(keeper)) => keeper.keep(config, made).map_err(not_kept),
            (None, Some(keeper)) => {
                // Nothing was ever in force: only who the array is, for its next try.
                let nothing = Config { id: refused.id, ..Config::empty(&refused.target) };
                keeper.keep(&nothing, &Made::default()).map_err(not_kept)
            }
            (_, None) => Ok(()),
        }
    }

    /// Notes what the block devices of drives are.
    ///
    /// # Errors
    /// Where it cannot be kept.
    pub fn remember_devices(&mut self, devices: BTreeMap<String, String>) -> Result<(), ControlError> {
        self.made.devices.extend(devices);
        self.keep_made()
    }

    /// The device of a drive was exchanged: what it was before does not matter any more.
    ///
    /// # Errors
    /// Where it cannot be kept.
    pub fn forget_device(&mut self, drive: &str) -> Result<(), ControlError> {
        self.made.displaced.remove(drive);
        match self.made.devices.remove(drive) {
            Some(_) => self.keep_made(),
            None => Ok(()),
        }
    }

    /// Says in whose place another device is: they are not opened until they are found.
    pub fn set_displaced(&mut self, displaced: BTreeMap<String, String>) {
        self.made.displaced = displaced;
    }

    fn keep_made(&mut self) -> Result<(), ControlError> {
        let (config, made) = (self.config.clone(), self.made.clone());
        self.keep(&config, &made)?;
        self.kept = Some((config, made));
        Ok(())
    }

    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), ControlError> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        if self.kept.as_ref().is_some_and(|(c, m)| c == config && m == made) {
            return Ok(());
        }
        keeper.keep(config, made).map_err(not_kept)
    }

    /// Notes a volume that is to be deleted, or that is being made and is to be deleted if that does not end well; or no more.
    async fn discard(&mut self, volume: &str, pool: Option<&str>) -> Result<(), ControlError> {
        match pool {
            Some(pool) => self.made.discarded.insert(volume.into(), pool.into()),
            None => self.made.discarded.remove(volume),
        };
        self.keep_made()
    }

    /// Deletes the volumes that an earlier life was about to delete, or was making when it ended.
    ///
    /// # Errors
    /// Where one cannot be deleted now: the next start tries again.
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

    /// The declaration with the format of every image: the one that was fixed before, else what the file is now, before a host can write to it. One that cannot
    /// be read has none yet, and is not opened.
    pub async fn with_formats(&self, mut config: Config) -> Result<Config, ControlError> {
        config.images.iter_mut().for_each(|image| image.keep_format(&self.config));
        if config.images.iter().all(|image| image.format.is_some()) {
            return Ok(config);
        }
        let asked = Arc::new(config.clone());
        for controller in &self.controllers {
            let Reply::Formats(found) = controller.ask(Control::ImageFormats(asked.clone())).await? else {
                continue;
            };
            for (name, format) in found {
                let image = config.images.iter_mut().find(|image| image.name == name);
                image.into_iter().for_each(|image| image.format = Some(format));
            }
        }
        Ok(config)
    }

    /// Deletes a volume that no host sees.
    pub async fn delete_volume(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("volume {name:?}"));
        let (Some(owner), Some(volume)) = (self.config.owner_of(name), self.config.volume(name)) else {
            return Err(fail(&"there is no such volume"));
        };
        if let Some(host) = self.config.hosts.iter().find(|h| h.luns.values().any(|v| v == name)) {
            return Err(fail(&format!("it is mapped to host {:?}: unmap it first", host.name)));
        }
        let pool = volume.pool.clone();
        let mut config = self.config.clone();
        config.volumes.retain(|v| v.name != name);
        // First everybody forgets the LU, then its owner deletes it. A start ends what a crash leaves.
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
        let pool = source.pool.clone();
        // What a crash leaves of it before it is declared, the next start deletes.
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
            Reply::Prepared(..) | Reply::Status(_) | Reply::Imported(_) | Reply::Formats(_) => Ok(vec![]),
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

fn not_kept(cause: String) -> ControlError {
    ControlError::at("state")(&format!("the change cannot be kept, and is not made: {cause}"))
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
    let by_name = |config| -> BTreeMap<&str, &HostConfig> {
        let hosts: &Vec<HostConfig> = config;
        hosts.iter().map(|h| (h.name.as_str(), h)).collect()
    };
    let (known, now) = (by_name(&old.hosts), by_name(&new.hosts));
    let mut lines = Vec::new();
    for host in &new.hosts {
        let before = known.get(host.name.as_str()).copied();
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
    let removed = old.hosts.iter().filter(|h| !now.contains_key(h.name.as_str()));
    lines.extend(removed.map(|h| format!("host {}: removed", h.name)));
    lines
}
