//! The array as the control plane holds it: the declaration, and the controllers that carry it out.

mod deletions;
mod groups;
mod host_changes;
mod moves;
mod openers;
mod places;
mod pools;
pub mod refusals;
mod stored;
mod travel;
mod unfinished;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures::future::join_all;

use self::host_changes::host_changes;
pub use self::openers::Openers;
pub use self::places::{Began, ClosedControllers};
use self::stored::{Stored, also};
pub use self::unfinished::Unfinished;
use crate::config::{Config, ConfigError, Identities, Made, MadeGroup, NotOpen};
use crate::control::{Control, ControlError, Reply};
use crate::keeper::Keeper;
use crate::mailbox::ControllerHandle;
use crate::status::{ControllerStatus, VolumeStatus};

/// How long hosts get to log out when the array stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// A running array. Used by one owner at a time (`&mut` for changes), from any thread or runtime.
pub struct Array {
    controllers: Vec<ControllerHandle>,
    config: Config,
    made: Made,
    stored: Stored,
    sent: Sent,
    openers: Openers,
    /// Controllers that are closed and have not begun again.
    nowhere: BTreeSet<usize>,
    /// Imports that a start could not complete.
    unfinished: Vec<Unfinished>,
    /// Its controllers have been told to stop: nobody answers for them any more.
    stopped: AtomicBool,
}

/// What the controllers share. It is kept here until no controller holds it any more: freeing the names of
/// ten thousand volumes takes milliseconds, and a controller that held the last reference would make hosts
/// wait for it.
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

/// Why a declaration cannot be that of this array.
pub type Refuses = Box<dyn Fn(&Config) -> Result<(), ConfigError> + Send + Sync>;

impl Array {
    /// An array of running controllers, with nothing declared yet.
    pub fn new(controllers: Vec<ControllerHandle>, target: &str) -> Array {
        let mut config = Config::empty(target);
        config.controllers = controllers.len();
        let (made, sent) = (Made::default(), Sent::default());
        let (stored, unfinished, stopped) = (Stored::default(), vec![], AtomicBool::new(false));
        let openers = Openers::new(&config);
        let nowhere = BTreeSet::new();
        Array { controllers, config, made, stored, sent, openers, nowhere, unfinished, stopped }
    }

    /// Loads the stored state: objects created in earlier lives are opened or missing, and never created
    /// again. From now on every change is stored before it takes effect.
    pub fn kept_by(mut self, keeper: Box<dyn Keeper>, kept: Option<(Config, Made)>) -> Array {
        self.made = kept.as_ref().map(|(_, made)| made.clone()).unwrap_or_default();
        if let Some((config, _)) = &kept {
            // A pool is deleted after its volumes: this record is not of the state that it is in.
            self.made.deleted_pools.retain(|pool| config.volumes.iter().all(|v| v.pool != *pool));
        }
        self.stored = Stored::new(keeper, kept);
        self
    }

    /// Refuses what this does, before it is stored: no start could follow it.
    pub fn refusing(mut self, refuses: Refuses) -> Array {
        self.stored.refuses = Some(refuses);
        self
    }

    /// The controllers.
    pub fn controllers(&self) -> &[ControllerHandle] {
        &self.controllers
    }

    /// Adopts the state of an array that created these objects: they are opened or missing, and never created
    /// again.
    pub fn adopt(&mut self, made: Made) {
        self.made = made;
    }

    /// What is declared.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Which controllers may have which drives open.
    pub fn openers(&self) -> Openers {
        self.openers.clone()
    }

    /// The state: what the array has created.
    pub fn made(&self) -> &Made {
        &self.made
    }

    /// Applies a declaration; idempotent. Returns a line for each object that was created or changed. The
    /// declaration is stored before it takes effect. An object that exists in the state and cannot be opened
    /// is left alone and reported in the status.
    ///
    /// # Errors
    /// If a new object cannot be created: masu then removes what it created for this declaration, and the
    /// previous one stays in force.
    pub async fn apply(&mut self, config: Config) -> Result<Vec<String>, ControlError> {
        self.apply_over(config, &[]).await
    }

    /// Like [`Array::apply`], but overwrites the content of these drives when they are used for the first
    /// time.
    ///
    /// # Errors
    /// As [`Array::apply`].
    pub async fn apply_over(
        &mut self,
        config: Config,
        overwrite: &[String],
    ) -> Result<Vec<String>, ControlError> {
        let mut made = self.made.clone();
        made.overwrite.extend(overwrite.iter().cloned());
        self.apply_with(config, made).await
    }

    /// Like [`Array::apply`], with a state that differs from the one in force by what is recorded or done
    /// with the declaration.
    async fn apply_with(&mut self, config: Config, made: Made) -> Result<Vec<String>, ControlError> {
        config.check()?;
        self.refuse_discarded(&config, &made)?;
        let mut config = self.with_formats(config).await?;
        let moves = moves::without_moves(&self.config, &mut config);
        let mut done = self.apply_in_place(config, made).await?;
        for moving in moves {
            let moved = self.move_pool(&moving.pool, moving.to).await;
            let all_else = "what else was declared with this move is in force";
            done.extend(moved.map_err(|error| if done.is_empty() { error } else { also(error, all_else) })?);
        }
        Ok(done)
    }

    /// Applies a declaration that moves no pool between controllers.
    async fn apply_in_place(&mut self, config: Config, mut made: Made) -> Result<Vec<String>, ControlError> {
        self.config.may_become(&config)?;
        self.refuse_on_the_way()?;
        if config.controllers != self.controllers.len() {
            let cause = format!(
                "the array runs with {} controllers; restart it to change the \
                number",
                self.controllers.len()
            );
            return Err(ControlError::failed("controllers", cause));
        }
        made.is_first = self.stored.config().is_none();
        self.name_groups(&config, &mut made).await?;
        self.stored.store(&config, &made).map_err(|error| self.stored.refused(error))?;
        match self.take_effect(&config, &mut made).await {
            Ok(mut done) => {
                // On the control plane's thread, so no data path waits for it.
                done.extend(host_changes(&self.config, &config));
                if self.config.controller_nodes != config.controller_nodes {
                    done.push(format!("controller_nodes: {:?}", config.controller_nodes));
                }
                self.stored.in_force(&config, &made);
                self.openers.in_force(&config);
                (self.config, self.made) = (config, made);
                Ok(done)
            }
            Err(error) => Err(self.refused(&config, error).await),
        }
    }

    /// Takes back what there is of a declaration that is refused. What has grown stays as it is: hosts may
    /// have written to the new part.
    async fn refused(&mut self, refused: &Config, error: ControlError) -> ControlError {
        let grown = self.grown(refused).await;
        for (name, len_bytes) in &grown {
            let own = self.config.volumes.iter_mut().find(|v| v.name == *name);
            own.into_iter().for_each(|volume| volume.len_bytes = *len_bytes);
        }
        let undone = self.undo().await;
        // Whatever could not be undone: what was refused does not stay stored.
        let mut error = match undone {
            Ok(()) => {
                self.stored.undone();
                self.stored.refused(error)
            }
            Err(left) => also(self.stored.refused(error), &format!("not all was undone: {left}")),
        };
        for (name, len_bytes) in &grown {
            error = also(error, &format!("volume {name} was grown to {len_bytes} bytes all the same"));
        }
        if !grown.is_empty()
            && let Some(later) = self.stored.in_force_already(&self.config, &self.made)
        {
            error = also(error, &later);
        }
        error
    }

    /// The volumes in force that have a larger size than declared, as a declaration that is refused has
    /// them.
    async fn grown(&self, refused: &Config) -> Vec<(String, u64)> {
        let grows = |name: &str| match (self.config.volume(name), refused.volume(name)) {
            (Some(own), Some(next)) => own.len_bytes < next.len_bytes && own.pool == next.pool,
            _ => false,
        };
        if !self.config.volumes.iter().any(|v| grows(&v.name)) {
            return Vec::new();
        }
        let parts = self.status().await.unwrap_or_default();
        let has =
            |v: &VolumeStatus| refused.volume(&v.name).is_some_and(|next| next.len_bytes == v.len_bytes);
        let all = parts.iter().flat_map(|part| &part.volumes).filter(|v| grows(&v.name) && has(v));
        all.map(|v| (v.name.clone(), v.len_bytes)).collect()
    }

    /// Assigns identities to the groups that are to be created. They are stored first, so that an interrupted
    /// creation can be recognised by them. An array without a keeper recognises its own labels by array and
    /// name only.
    async fn name_groups(&self, config: &Config, made: &mut Made) -> Result<(), ControlError> {
        if !self.stored.has_keeper() {
            return Ok(());
        }
        let new = config.groups.iter().filter(|g| !made.groups.contains_key(&g.name));
        let names: Vec<String> = new.map(|g| g.name.clone()).collect();
        if !names.is_empty()
            && let Reply::Prepared(_, ids, _) = self.controllers[0].ask(Control::GroupIds(names)).await?
        {
            let new =
                ids.groups.into_iter().map(|(name, id)| (name, MadeGroup { id: Some(id), ready: false }));
            made.groups.extend(new);
        }
        Ok(())
    }

    /// Opens and creates everything on all controllers, stores what was created, and only then presents it to
    /// hosts.
    async fn take_effect(&mut self, config: &Config, made: &mut Made) -> Result<Vec<String>, ControlError> {
        let shared = self.sent.config(config);
        let before = self.sent.made(made);
        let (mut done, mut ids, mut not_open) = (Vec::new(), Identities::default(), NotOpen::default());
        for controller in &self.controllers {
            controller.ask(Control::Release(shared.clone())).await?;
        }
        for controller in &self.controllers {
            let prepare = Control::Prepare { config: shared.clone(), made: before.clone(), arrival: None };
            if let Reply::Prepared(lines, open, not) = controller.ask(prepare).await? {
                done.extend(lines);
                ids.extend(open);
                not_open.extend(not);
            }
        }
        let intended = made.clone();
        made.finish(config, &ids, &not_open);
        if *made != intended {
            self.stored.store(config, made)?;
        }
        for controller in &self.controllers {
            if let Reply::Done(lines) = controller.ask(Control::Commit(shared.clone())).await? {
                done.extend(lines);
            }
        }
        Ok(done)
    }

    /// Puts the declaration that was in force in force again.
    async fn undo(&mut self) -> Result<(), ControlError> {
        let shared = self.sent.config(&self.config);
        let mut undone = Ok(());
        for controller in &self.controllers {
            undone = undone.and(controller.ask(Control::Undo(shared.clone())).await.map(drop));
        }
        undone
    }

    /// Stores what could not be stored or taken back, where that is possible by now.
    pub fn settle(&mut self) {
        self.stored.settle();
    }

    /// Why the state cannot be saved, and whether something else may be stored than what is in force: the
    /// next start would find that.
    pub fn state_fault(&self) -> Option<(String, bool)> {
        self.stored.fault()
    }

    /// Records the block devices behind drives.
    ///
    /// # Errors
    /// If the state cannot be stored.
    pub fn remember_devices(&mut self, devices: BTreeMap<String, String>) -> Result<(), ControlError> {
        let mut made = self.made.clone();
        made.devices.extend(devices);
        self.keep_made(made)
    }

    /// Forgets the block device of a drive whose medium was exchanged. Returns a line if that is saved later.
    pub fn forget_device(&mut self, drive: &str) -> Option<String> {
        self.made.displaced.remove(drive);
        self.made.devices.remove(drive)?;
        self.stored.in_force_already(&self.config, &self.made)
    }

    /// Sets the drives whose paths now name another device, with the reason. They are not opened until their
    /// own device is found.
    pub fn set_displaced(&mut self, displaced: BTreeMap<String, String>) {
        self.made.displaced = displaced;
    }

    /// Stores the record of a change that is being made, in case it is interrupted.
    fn keep_record(&mut self, made: Made) -> Result<(), ControlError> {
        self.keep_made(made)?;
        self.stored.recorded(&self.config, &self.made);
        Ok(())
    }

    /// Stores another state with the declaration in force; if that fails, the state stays as it was.
    fn keep_made(&mut self, made: Made) -> Result<(), ControlError> {
        self.stored.store(&self.config, &made).map_err(|error| self.stored.refused(error))?;
        self.stored.in_force(&self.config, &made);
        self.made = made;
        Ok(())
    }

    /// Returns the declaration with the format of every image: the format that was fixed earlier, or else the
    /// format of the file now, before a host can write to it. An image that cannot be read has no format yet
    /// and is not opened.
    ///
    /// # Errors
    ///
    /// A controller does not answer. An image that cannot be read is no error: it stays without a format.
    pub async fn with_formats(&self, mut config: Config) -> Result<Config, ControlError> {
        config.images.iter_mut().for_each(|image| image.keep_format(self.config.image(&image.name)));
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

    /// Stops all background jobs at their next step, and creations of thick volumes. Rebuilds continue.
    pub async fn stop_jobs(&self) -> Result<(), ControlError> {
        for controller in &self.controllers {
            controller.ask(Control::StopJobs).await?;
        }
        Ok(())
    }

    async fn ask(&self, controller: usize, control: Control) -> Result<Vec<String>, ControlError> {
        match self.controllers[controller].ask(control).await? {
            Reply::Done(lines) => Ok(lines),
            _ => Ok(vec![]),
        }
    }

    /// The status of each controller.
    ///
    /// # Errors
    ///
    /// A controller has stopped.
    pub async fn status(&self) -> Result<Vec<ControllerStatus>, ControlError> {
        status_of(&self.controllers).await
    }

    /// The status without volumes and cached volumes, of which there may be thousands: for frequent polling.
    ///
    /// # Errors
    ///
    /// A controller has stopped.
    pub async fn overview(&self) -> Result<Vec<ControllerStatus>, ControlError> {
        ask_all(&self.controllers, Control::Overview).await
    }

    /// Stops the array cleanly: hosts are notified, running commands end, all data are durable.
    ///
    /// # Errors
    ///
    /// Something could not be made durable or closed; the rest was. What was acknowledged as durable is not
    /// affected.
    pub async fn stop(&self) -> Result<(), ControlError> {
        self.stop_within(STOP_GRACE).await
    }

    /// The same; hosts get so long to log out. All of them are without the array until the last one has, or
    /// is sent away: where another node goes on, that is to be short.
    ///
    /// # Errors
    ///
    /// As [`Array::stop`].
    pub async fn stop_within(&self, grace: Duration) -> Result<(), ControlError> {
        self.stopped.store(true, Relaxed);
        // None closes its pools while sessions at another one still use them.
        let end = |controller: &ControllerHandle| {
            let controller = controller.clone();
            async move { controller.ask(Control::EndSessions { grace }).await }
        };
        // One that has ended says so when it is told to stop.
        let _ = join_all(self.controllers.iter().map(end)).await;
        let mut first_error = Ok(());
        for controller in &self.controllers {
            let stopped = controller.ask(Control::Stop { grace }).await;
            first_error = first_error.and(stopped.map(|_| ()));
        }
        first_error
    }
}

/// The status of each controller, for who has their handles and not the array: a change may be under way.
///
/// # Errors
///
/// A controller has stopped.
pub async fn status_of(controllers: &[ControllerHandle]) -> Result<Vec<ControllerStatus>, ControlError> {
    ask_all(controllers, Control::Status).await
}

/// What of a declaration is in force at the next start only, a line each.
///
/// # Errors
///
/// A controller has stopped.
pub async fn at_next_start(
    controllers: &[ControllerHandle],
    config: &Arc<Config>,
) -> Result<Vec<String>, ControlError> {
    let mut lines = Vec::new();
    for controller in controllers {
        if let Reply::Done(own) = controller.ask(Control::AtNextStart(config.clone())).await? {
            lines.extend(own);
        }
    }
    Ok(lines)
}

async fn ask_all(
    controllers: &[ControllerHandle],
    what: Control,
) -> Result<Vec<ControllerStatus>, ControlError> {
    let mut parts = Vec::new();
    for controller in controllers {
        if let Reply::Status(part) = controller.ask(what.clone()).await? {
            parts.push(*part);
        }
    }
    Ok(parts)
}
