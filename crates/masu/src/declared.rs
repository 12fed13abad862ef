//! Merges the declaration and the stored state of the array at a start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use admin::identity::{Places, settle};
use admin::{Kept, Store, changes, differences, merged};
use anyhow::{Context, Result, bail};
use config::{Config, GroupConfig, PortalConfig};
use lab_core::console::causes;

/// Where hosts connect if nobody said otherwise: only from this machine, at the port of iSCSI (RFC 7143, 14).
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 3260);

/// The task of a start.
pub(crate) struct Start {
    /// The stored state of the array, if it was ever started: applied first, so that an error in the file
    /// leaves hosts with their previous service.
    pub(crate) kept: Option<Kept>,
    /// The declaration as in the file.
    pub(crate) declared: Option<Config>,
    /// The declaration that was applied last.
    base: Option<Config>,
    /// The merged declaration.
    pub(crate) config: Config,
    /// Why the declaration is not a part of `config`, which is then as the array was.
    pub(crate) fault: Option<String>,
}

impl Start {
    /// Merges the stored state and the declaration; the embedded default if there is neither. `listen` is the
    /// address from the command line.
    pub(crate) fn read(
        file: Option<&PathBuf>,
        store: &Store,
        listen: Option<SocketAddr>,
        default: impl FnOnce() -> Result<Config>,
    ) -> Result<Start> {
        let kept = store.load()?;
        // No start has got as far as its first drive.
        let begun = |kept: &Kept| !kept.config.drives.is_empty() || !kept.config.portals.is_empty();
        let id = kept.as_ref().map(|kept| kept.config.id);
        let kept = kept.filter(begun);
        let declared = file.map(|path| Config::read(path, store.dir())).transpose()?;
        let (base, fault) = match (&kept, &declared) {
            (Some(_), Some(_)) => match store.declared() {
                Ok(base) => (base, None),
                Err(error) => (None, Some(error.to_string())),
            },
            _ => (None, None),
        };
        let mut config = match (&kept, &declared) {
            (Some(kept), Some(declared)) if fault.is_some() => without_changes(&kept.config, declared),
            (Some(kept), Some(declared)) => with_kept(&kept.config, base.as_ref(), declared, store.dir())?,
            (Some(kept), None) => kept.config.clone(),
            (None, Some(declared)) => declared.clone(),
            (None, None) => default()?,
        };
        if let Some(id) = id {
            config.id = id;
        }
        if declared.as_ref().is_none_or(|declared| declared.portals.is_empty()) {
            config.portals = undeclared_portals(listen, config.portals);
        }
        Ok(Start { kept, declared, base, config, fault })
    }

    /// What is applied first: the stored state, with the addresses declared now.
    pub(crate) fn first(&self) -> Config {
        let Some(kept) = &self.kept else { return self.config.clone() };
        let first = Config {
            target: self.config.target.clone(),
            controllers: self.config.controllers,
            portals: self.config.portals.clone(),
            groups: kept.config.groups.iter().map(|group| self.no_longer_degraded(group)).collect(),
            ..kept.config.clone()
        };
        if first.check().is_ok() { first } else { self.config.clone() }
    }

    /// A group as it was, but that it does not open with older data any more if the file has taken that back:
    /// the file is applied when it is open.
    fn no_longer_degraded(&self, group: &GroupConfig) -> GroupConfig {
        let wanted = self.config.groups.iter().find(|wanted| wanted.name == group.name);
        let may = wanted.is_none_or(|wanted| wanted.start_degraded);
        GroupConfig { start_degraded: group.start_degraded && may, ..group.clone() }
    }

    /// Updates the declarations with the current paths of devices. Returns a line for each that has moved.
    pub(crate) fn find_devices(&mut self) -> Vec<String> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        let places = Places::of_system();
        let settled = settle(&mut kept.config, &kept.made.devices, &places);
        settle(&mut self.config, &kept.made.devices, &places);
        kept.made.displaced = settled.displaced;
        settled.moved
    }

    /// In what the file differs from the declaration that was applied last, but for portals, which are each
    /// node's own.
    pub(crate) fn changed(&self) -> Vec<String> {
        let (Some(base), Some(declared)) = (&self.base, &self.declared) else { return Vec::new() };
        changes(base, &Config { portals: base.portals.clone(), ..declared.clone() })
    }

    /// The drift: differences from the file, caused by commands.
    pub(crate) fn drift(&self) -> Vec<String> {
        self.declared.as_ref().map_or_else(Vec::new, |declared| differences(declared, &self.config))
    }
}

/// The portals of an array whose declaration has none.
fn undeclared_portals(listen: Option<SocketAddr>, kept: Vec<PortalConfig>) -> Vec<PortalConfig> {
    let at = |listen| vec![PortalConfig { listen, controller: 0, segment_bytes_max: None }];
    match listen {
        Some(listen) => at(listen),
        None if kept.is_empty() => at(LISTEN_DEFAULT),
        None => kept,
    }
}

fn with_kept(kept: &Config, base: Option<&Config>, declared: &Config, data_dir: &Path) -> Result<Config> {
    match base {
        Some(base) => {
            let config = merged(base, kept, declared, data_dir)?;
            Ok(membership_of(kept, config))
        }
        // An older masu did not keep what it applied.
        None => Ok(laid_over(kept.clone(), declared.clone())),
    }
}

/// The array as it was, with the addresses of this node, which are declared alone.
fn without_changes(kept: &Config, declared: &Config) -> Config {
    let mut config = kept.clone();
    if !declared.portals.is_empty() {
        config.portals.clone_from(&declared.portals);
    }
    if config.check().is_ok() { config } else { kept.clone() }
}

/// The mark beside the file where a declaration was applied, so that an unmounted data directory is not taken
/// for a new one.
fn mark_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".applied");
    PathBuf::from(name)
}

/// Refuses an empty data directory if the file was applied to an array in it before.
pub(crate) fn refuse_lost(file: &Path, store: &Store, kept: Option<&Kept>) -> Result<()> {
    let mark = mark_of(file);
    let Ok(text) = std::fs::read_to_string(&mark) else { return Ok(()) };
    let dir = store.dir().display().to_string();
    let applied_here = text.lines().any(|line| line.strip_prefix("data = ") == Some(&dir));
    if kept.is_none() && applied_here {
        bail!(
            "{dir}: the array that {} declared is missing; mount its file system, or remove {} to create a new array",
            file.display(),
            mark.display()
        );
    }
    Ok(())
}

/// Records beside the file that it was applied. If its directory is not writable, there is no record.
pub(crate) fn mark_applied(file: &Path, store: &Store, id: &str) {
    let text = format!(
        "# {} was applied by masu to this array.\narray = {id}\ndata = {}\n",
        file.display(),
        store.dir().display()
    );
    let mark = mark_of(file);
    let known = std::fs::read_to_string(&mark).is_ok_and(|found| found == text);
    if !known && let Err(error) = std::fs::write(&mark, text).with_context(|| mark.display().to_string()) {
        tracing::warn!("{}; masu could take an unmounted data directory for a new array", causes(&error));
    }
}

/// Merges the declaration into the stored state: declared objects are created, other existing objects stay. A
/// volume never shrinks.
fn laid_over(kept: Config, declared: Config) -> Config {
    let before = kept.clone();
    let mut next = kept.overlaid_with(declared);
    for volume in &mut next.volumes {
        volume.len_bytes = volume.len_bytes.max(before.volume(&volume.name).map_or(0, |v| v.len_bytes));
    }
    membership_of(&before, next)
}

/// Members of groups and pools change by commands and spares while the array runs, and an old declaration
/// never reverts them.
fn membership_of(before: &Config, mut next: Config) -> Config {
    for group in &mut next.groups {
        if let Some(kept) = before.groups.iter().find(|g| g.name == group.name) {
            group.drives.clone_from(&kept.drives);
        }
    }
    for pool in &mut next.pools {
        let Some(kept) = before.pool(&pool.name) else { continue };
        for group in &kept.groups {
            if !pool.groups.contains(group) {
                pool.groups.push(group.clone());
            }
        }
        pool.leaving.clone_from(&kept.leaving);
        pool.leaving.retain(|group| !pool.groups.contains(group));
    }
    let groups = &next.groups;
    next.spares.retain(|spare| !groups.iter().any(|g| g.drives.contains(spare)));
    next
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(spares: &str, drives: &str, groups: &str) -> Config {
        let mut text = format!("spares = {spares}\n");
        for drive in ["d0", "d1", "d2", "s0", "new", "e0"] {
            text += &format!("[[drive]]\nname = \"{drive}\"\nfile = \"{drive}.img\"\nsize = \"1GiB\"\n");
        }
        text += &format!(
            "[[group]]\nname = \"g0\"\nlevel = \"raid5\"\ndrives = {drives}\n\
             [[group]]\nname = \"g1\"\nlevel = \"raid0\"\ndrives = [\"e0\"]\n\
             [[pool]]\nname = \"p0\"\n{groups}\n"
        );
        Config::parse(&text, "array.toml", Path::new("/data")).expect("good")
    }

    #[test]
    fn an_array_without_a_declared_portal_listens_where_it_was_told_or_where_it_did() {
        let portals = |listen: &str| {
            vec![PortalConfig {
                listen: listen.parse().expect("an address"),
                controller: 0,
                segment_bytes_max: None,
            }]
        };
        let kept = portals("127.0.0.1:4000");
        assert_eq!(undeclared_portals(None, vec![]), portals("127.0.0.1:3260"));
        assert_eq!(undeclared_portals(None, kept.clone()), kept);
        assert_eq!(undeclared_portals(Some(portals("[::1]:5000")[0].listen), kept), portals("[::1]:5000"));
    }

    #[test]
    fn an_old_declaration_takes_nothing_back() {
        let declared = config("[\"s0\"]", "[\"d0\", \"d1\", \"d2\"]", "groups = [\"g0\"]");
        assert_eq!(laid_over(declared.clone(), declared.clone()), declared);
        // A spare was taken, a drive replaced, a group added.
        let kept = config("[]", "[\"d0\", \"s0\", \"new\"]", "groups = [\"g0\", \"g1\"]");
        assert_eq!(laid_over(kept.clone(), declared.clone()), kept);
        // A group was leaving, and is not declared: it goes on leaving; one that is declared stays.
        let leaving = "groups = [\"g0\"]\nleaving = [\"g1\"]";
        let kept = config("[]", "[\"d0\", \"s0\", \"d2\"]", leaving);
        assert_eq!(laid_over(kept, declared.clone()).pools[0].leaving, ["g1"]);
        let kept = config("[\"s0\"]", "[\"d0\", \"d1\", \"d2\"]", "groups = [\"g1\"]\nleaving = [\"g0\"]");
        let next = laid_over(kept, declared);
        assert_eq!((next.pools[0].groups.len(), next.pools[0].leaving.len()), (2, 0));
    }

    /// A mirror whose newer half was away served older data: `start_degraded` of the start before counted.
    #[test]
    fn a_group_opens_with_older_data_only_if_the_file_of_this_start_says_so() {
        let file = |degraded: bool| {
            let mut config = config("[]", "[\"d0\", \"d1\", \"d2\"]", "groups = [\"g0\"]");
            config.groups[0].start_degraded = degraded;
            config
        };
        let first = |kept: bool, wanted: bool| {
            let kept = Some(Kept { config: file(kept), made: config::Made::default() });
            let start = Start { kept, declared: None, base: None, config: file(wanted), fault: None };
            start.first().groups[0].start_degraded
        };
        assert_eq!(
            [(true, true), (true, false), (false, true)].map(|(k, w)| first(k, w)),
            [true, false, false]
        );
    }
}
