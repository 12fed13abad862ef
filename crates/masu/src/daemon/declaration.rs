//! The declaration of a daemon: read at a start and again at SIGHUP, compared with the stored state, applied.

use std::collections::BTreeSet;
use std::path::Path;

use admin::{ArrayOwner, NewFiles, Store};
use anyhow::{Context, Result, bail};
use array::{Array, ControlError, DriveSpec, Event, EventSender};
use config::{Config, DriveConfig, GroupConfig, Level, PoolConfig, format_bytes};
use lab_core::console::causes;

use super::Serve;
use crate::declared::{Start, mark_applied, refuse_lost};

/// Share of the file system for the embedded default; the rest is left to the system.
const DEFAULT_DRIVE_SHARE_PERCENT: u64 = 90;
/// Minimum size of the embedded array.
const DEFAULT_DRIVE_BYTES_MIN: u64 = 256 << 20;

/// Reads and applies the declaration again, as a start does. If it is wrong, the error is logged and nothing
/// changes.
pub(super) async fn reload(serve: &Serve, owner: &ArrayOwner) {
    let Some(path) = &serve.config else {
        tracing::info!("SIGHUP ignored: the array was started without --config");
        return;
    };
    let mut again = None;
    let outcome = owner.apply_again("SIGHUP", |store| {
        let start = read(serve, store)?;
        if let Some(fault) = &start.fault {
            bail!("{fault}");
        }
        let config = start.config.clone();
        again = Some((start, store.clone()));
        anyhow::Ok(config)
    });
    let outcome = outcome.await.map_err(|error| match error.downcast_ref() {
        Some(refused) => format!("{}{refused}", declared_at(serve, refused)),
        None => causes(&error),
    });
    owner.declaration_is_faulty(outcome.as_ref().err().cloned());
    match (outcome, again) {
        (Ok(done), again) => {
            if done.is_empty() {
                tracing::info!("SIGHUP: {}: no changes", path.display());
            }
            if let Some((start, store)) = again {
                applied(serve, &store, &start.config, start.declared.as_ref());
            }
        }
        (Err(error), _) => tracing::error!("SIGHUP: {error}; the previous declaration stays in force"),
    }
}

/// The place of the failed object in the declaration, as a prefix of the error.
pub(super) fn declared_at(serve: &Serve, error: &ControlError) -> String {
    match (&serve.config, error) {
        (Some(path), ControlError::Failed { place, .. }) => {
            format!("{}: ", config::place_in(path, place))
        }
        _ => String::new(),
    }
}

/// Determines the task of this start. Without a state, a new array is created, unless the directory had one
/// before: its file system may not be mounted.
pub(super) fn read(serve: &Serve, store: &Store) -> Result<Start> {
    let default = || embedded_default(serve, store.dir());
    let mut start = Start::read(serve.config.as_ref(), store, serve.listen, default)?;
    if let Some(file) = &serve.config {
        refuse_lost(file, store, start.kept.as_ref())?;
    } else if let Some(controllers) = serve.controllers {
        start.config.controllers = controllers;
    }
    Ok(start)
}

/// Refuses a first declaration with names that mislead, files of the data directory, or drives in use.
pub(super) async fn refuse_first(serve: &Serve, config: &Config, data_dir: &Path) -> Result<()> {
    let nothing = Config::empty(&config.target);
    nothing.check_new_names(config)?;
    let own = admin::refuse_own_files(&nothing, config, data_dir).await;
    own.map_err(|cause| anyhow::anyhow!("{cause}"))?;
    refuse_used(serve, config).await
}

/// Examines the drives of a first declaration before they are used.
async fn refuse_used(serve: &Serve, config: &Config) -> Result<()> {
    let named = |d: &&DriveConfig| !serve.overwrite.contains(&d.name);
    let drives: Vec<DriveConfig> = config.drives.iter().filter(named).cloned().collect();
    admin::refuse_used(&drives).await.map_err(|cause| {
        let place = cause.split(": ").next().unwrap_or_default().to_owned();
        let error = ControlError::failed(place, cause.clone());
        anyhow::anyhow!("{}{cause}", declared_at(serve, &error))
    })
}

/// Applies the file's declaration to the array, which already serves its stored state. An error is reported
/// and returned, and the array continues with that state.
pub(super) async fn bring_up_to_date(
    serve: &Serve,
    array: &mut Array,
    (store, events): (&Store, &EventSender),
    start: &Start,
) -> Option<String> {
    let (deleting, before) = (array.made().deleted_pools.clone(), array.config().clone());
    match array.finish_interrupted().await {
        Ok(done) => done.iter().for_each(|line| events.tell(Event::of_line(line))),
        Err(error) => tracing::warn!("{error}; what was interrupted is completed later"),
    }
    if let Some(fault) = &start.fault {
        tracing::error!(
            "{fault}; the declaration is not applied, and the array keeps its previous configuration"
        );
        return Some(fault.clone());
    }
    let wanted = as_completed(&start.config, &before, array.config(), &deleting);
    if *array.config() != wanted {
        let named = array.config().check_new_names(&wanted).map_err(|e| e.to_string());
        let refused = match named {
            Ok(()) => admin::refuse_own_files(array.config(), &wanted, store.dir()).await,
            refused => refused,
        };
        if let Err(cause) = refused {
            tracing::error!(
                "{cause}; the declaration is not applied, and the array keeps its previous configuration"
            );
            return Some(cause);
        }
        let files = NewFiles::of(&wanted.drives).await;
        match array.apply_over(wanted, &serve.overwrite).await {
            Ok(done) => done.iter().for_each(|line| events.tell(Event::of_line(line).by("the declaration"))),
            Err(error) => {
                files.remove(array.config()).await;
                let fault = format!("{}{error}", declared_at(serve, &error));
                tracing::error!(
                    "{fault}; the declaration is not applied, and the array keeps its previous configuration"
                );
                return Some(fault);
            }
        }
    }
    for line in start.drift() {
        tracing::warn!("changed by command: {line}");
    }
    applied(serve, store, array.config(), start.declared.as_ref());
    None
}

/// The declaration of this start as far as it is based on the state `before`, which what was completed just
/// now has changed: without what was deleted or has left, and with what came. A deleted pool that has volumes
/// in it is declared anew.
fn as_completed(config: &Config, before: &Config, now: &Config, deleting: &BTreeSet<String>) -> Config {
    fn follow<T: Clone>(wanted: &mut Vec<T>, before: &[T], now: &[T], name: impl Fn(&T) -> &String) {
        let has = |all: &[T], one: &T| all.iter().any(|other| name(other) == name(one));
        wanted.retain(|one| !has(before, one) || has(now, one));
        let came: Vec<T> = now.iter().filter(|one| !has(before, one) && !has(wanted, one)).cloned().collect();
        wanted.extend(came);
    }
    let mut wanted = config.clone();
    follow(&mut wanted.drives, &before.drives, &now.drives, |d| &d.name);
    follow(&mut wanted.spares, &before.spares, &now.spares, |s| s);
    follow(&mut wanted.groups, &before.groups, &now.groups, |g| &g.name);
    follow(&mut wanted.volumes, &before.volumes, &now.volumes, |v| &v.name);
    follow(&mut wanted.pools, &before.pools, &now.pools, |p| &p.name);
    let anew = |name: &str| deleting.contains(name) && config.volumes.iter().any(|v| v.pool == name);
    let again = config.pools.iter().filter(|p| anew(&p.name) && wanted.pool(&p.name).is_none());
    let again: Vec<PoolConfig> = again.cloned().collect();
    wanted.pools.extend(again);
    wanted
}

/// Records that a declaration was applied.
fn applied(serve: &Serve, store: &Store, config: &Config, declared: Option<&Config>) {
    let (Some(declared), Some(file)) = (declared, &serve.config) else { return };
    if let Err(error) = store.save_declared(declared) {
        tracing::warn!(
            "{error}; later changes of {} cannot be distinguished from changes by command",
            file.display()
        );
    }
    mark_applied(file, store, &config.id.to_string());
}

fn embedded_default(serve: &Serve, dir: &Path) -> Result<Config> {
    let stat = rustix::fs::statvfs(dir).with_context(|| format!("{}", dir.display()))?;
    let free = stat.f_bavail * stat.f_frsize;
    let len = (free / 100 * DEFAULT_DRIVE_SHARE_PERCENT) >> 20 << 20;
    if len < DEFAULT_DRIVE_BYTES_MIN {
        bail!("{}: only {} free, too little for an array", dir.display(), format_bytes(free));
    }
    let path = dir.join("drive0.img");
    let mut config = Config::empty("iqn.2026-11.net.masu:array");
    config.controllers = serve.controllers.unwrap_or(1);
    config.drives = vec![DriveConfig {
        name: "drive0".into(),
        spec: DriveSpec::File { path, create_len_bytes: Some(len) },
    }];
    config.groups = vec![GroupConfig {
        stripe_unit_bytes: 64 << 10,
        ..GroupConfig::new("group0".into(), Level::Raid0, vec!["drive0".into()])
    }];
    config.pools = vec![PoolConfig::new("pool0".into(), vec!["group0".into()])];
    Ok(config)
}
