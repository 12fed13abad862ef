//! Block devices are known by what stays when their names change: the kernel gives names in the order in
//! which it finds devices. The identity of each one that the array has is in its state; a start finds it
//! wherever it is now, and does not take another one for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use array::{Array, DriveSpec};
use config::Config;

/// Where sysfs has what identifies a device, below the directory of the device; the first that is there
/// counts. Those of partitions are at the whole device.
const ATTRIBUTES: [&str; 6] = ["wwid", "device/wwid", "dm/uuid", "md/uuid", "serial", "device/serial"];
/// Where sysfs has none, the links that udev makes: these say what is on the device and not what it is.
const BY_CONTENT: [&str; 4] = ["dm-name-", "lvm-pv-", "md-name-", "md-uuid-"];
/// Of several links of one device the first kind counts.
const BY_NAME: [&str; 3] = ["wwn-", "nvme-eui.", "nvme-uuid."];

/// Where a system says what its block devices are.
#[derive(Clone, Debug)]
pub struct Places {
    /// A directory for each device, by its name.
    sys: PathBuf,
    /// Links to devices, by names that stay.
    by_id: PathBuf,
    /// The devices.
    dev: PathBuf,
}

/// Where a device is that is known by its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Where it is declared; or nothing contradicts that.
    Here,
    /// There.
    At(PathBuf),
    /// Nowhere, and this one is in its place.
    Displaced(String),
}

/// What became of the devices of a declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Drives that are elsewhere now: a line for each.
    pub moved: Vec<String>,
    /// Drives in whose place another device is, with the cause for which they are not opened.
    pub displaced: BTreeMap<String, String>,
}

impl Places {
    /// Those of Linux.
    pub fn of_system() -> Places {
        let path = PathBuf::from;
        Places { sys: path("/sys/class/block"), by_id: path("/dev/disk/by-id"), dev: path("/dev") }
    }

    /// What the device at a path is: which kind of identity, and the identity. `None` where nothing tells.
    fn identity_at(&self, path: &Path) -> Option<String> {
        let path = path.canonicalize().ok()?;
        let name = path.file_name()?.to_str()?;
        self.in_sysfs(name).or_else(|| self.in_links(&path))
    }

    fn in_sysfs(&self, name: &str) -> Option<String> {
        let device = self.sys.join(name).canonicalize().ok()?;
        match read(&device.join("partition")) {
            Some(number) => Some(format!("{}, partition {number}", attribute(device.parent()?)?)),
            None => attribute(&device),
        }
    }

    fn in_links(&self, device: &Path) -> Option<String> {
        let mut names = names_in(&self.by_id);
        names.retain(|name| {
            let leads_there = self.by_id.join(name).canonicalize().is_ok_and(|path| path == device);
            leads_there && !BY_CONTENT.iter().any(|kind| name.starts_with(kind))
        });
        let rank = |name: &String| BY_NAME.iter().position(|kind| name.starts_with(kind));
        let best = names.into_iter().min_by_key(|name| rank(name).unwrap_or(BY_NAME.len()))?;
        Some(format!("by-id: {best}"))
    }

    /// The devices of this identity; those that several paths lead to have several.
    fn all_of(&self, identity: &str) -> Vec<PathBuf> {
        if let Some(link) = identity.strip_prefix("by-id: ") {
            return self.by_id.join(link).canonicalize().into_iter().collect();
        }
        let mut names = names_in(&self.sys);
        names.retain(|name| self.in_sysfs(name).as_deref() == Some(identity));
        names.into_iter().map(|name| self.dev.join(name)).collect()
    }

    fn look_for(&self, path: &Path, identity: &str) -> Whereabouts {
        let here = self.identity_at(path);
        if here.as_deref() == Some(identity) {
            return Whereabouts::Here;
        }
        match (self.all_of(identity).into_iter().next(), here) {
            (Some(found), _) if path.canonicalize().is_ok_and(|path| path == found) => Whereabouts::Here,
            (Some(found), _) => Whereabouts::At(found),
            (None, Some(other)) if kind_of(&other) == kind_of(identity) => Whereabouts::Displaced(other),
            // Not there, which the opening says; or nothing tells.
            (None, _) => Whereabouts::Here,
        }
    }
}

fn attribute(device: &Path) -> Option<String> {
    ATTRIBUTES.iter().find_map(|name| Some(format!("{name}: {}", read(&device.join(name))?)))
}

/// What a short file says; `None` where it says nothing.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(words.join(" ")).filter(|text| !text.is_empty())
}

/// The names in a directory, in order.
fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn kind_of(identity: &str) -> &str {
    identity.split(':').next().unwrap_or_default()
}

/// The devices of a declaration, by the names of their drives.
fn devices(config: &Config) -> impl Iterator<Item = (&String, &PathBuf)> {
    config.drives.iter().filter_map(|drive| match &drive.spec {
        DriveSpec::Device { path } => Some((&drive.name, path)),
        _ => None,
    })
}

/// Has a declaration say where its devices are now.
pub fn settle(config: &mut Config, known: &BTreeMap<String, String>, places: &Places) -> Settled {
    let mut settled = Settled::default();
    for drive in &mut config.drives {
        let DriveSpec::Device { path } = &mut drive.spec else { continue };
        let Some(identity) = known.get(&drive.name) else { continue };
        let shown = path.display();
        match places.look_for(path, identity) {
            Whereabouts::Here => {}
            Whereabouts::At(found) => {
                let line = format!("drive {}: {shown} is {} now ({identity})", drive.name, found.display());
                settled.moved.push(line);
                *path = found;
            }
            Whereabouts::Displaced(other) => {
                let cause = format!(
                    "{shown} is another device now ({other}), and its own ({identity}) is missing; \
                     if it was exchanged: masu group replace GROUP {name} {name}",
                    name = drive.name
                );
                settled.displaced.insert(drive.name.clone(), cause);
            }
        }
    }
    settled
}

/// The identities of devices that are not known yet. One that several devices have is none.
fn identities(
    config: &Config,
    known: &BTreeMap<String, String>,
    places: &Places,
) -> BTreeMap<String, String> {
    let new = devices(config).filter(|(name, _)| !known.contains_key(*name));
    let identity = |(name, path): (&String, &PathBuf)| {
        let identity = places.identity_at(path)?;
        (places.all_of(&identity).len() == 1).then(|| (name.clone(), identity))
    };
    new.filter_map(identity).collect()
}

/// Has an array remember what its devices are, as far as it does not know that yet.
pub(crate) async fn remember(array: &mut Array) {
    let (config, made) = (array.config().clone(), array.made());
    let taken =
        |(name, _): (&String, &PathBuf)| made.drives.contains(name) && !made.devices.contains_key(name);
    if !devices(&config).any(taken) {
        return;
    }
    let known = made.devices.clone();
    let looking = tokio::task::spawn_blocking(move || identities(&config, &known, &Places::of_system()));
    let Ok(mut new) = looking.await else { return };
    new.retain(|name, _| array.made().drives.contains(name));
    if !new.is_empty()
        && let Err(error) = array.remember_devices(new)
    {
        tracing::warn!("{error}");
    }
}

/// Looks where the devices of an array are now that it could not open.
pub(crate) async fn look_again(array: &mut Array) -> (Config, Vec<String>) {
    let (mut config, known) = (array.config().clone(), array.made().devices.clone());
    if devices(&config).next().is_none() {
        return (config, Vec::new());
    }
    let looking = tokio::task::spawn_blocking(move || {
        let settled = settle(&mut config, &known, &Places::of_system());
        (config, settled)
    });
    match looking.await {
        Ok((config, settled)) => {
            array.set_displaced(settled.displaced);
            (config, settled.moved)
        }
        Err(_) => (array.config().clone(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use config::DriveConfig;

    use super::*;

    /// A machine with these devices: names, and what sysfs says of each.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(devices: &[(&str, &str, &str)]) -> Machine {
            let machine = Machine(tempfile::tempdir().expect("a directory"));
            ["sys", "by-id", "dev"].iter().for_each(|dir| fs::create_dir(machine.at(dir)).expect("made"));
            devices.iter().for_each(|(name, attribute, value)| machine.plug(name, attribute, value));
            machine
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn plug(&self, name: &str, attribute: &str, value: &str) {
            fs::write(self.at("dev").join(name), "").expect("a node");
            let file = self.at("sys").join(name).join(attribute);
            fs::create_dir_all(file.parent().expect("a directory")).expect("made");
            fs::write(file, format!("{value}\n")).expect("an attribute");
        }

        fn unplug(&self, name: &str) {
            fs::remove_file(self.at("dev").join(name)).expect("a node");
            fs::remove_dir_all(self.at("sys").join(name)).expect("a device");
        }

        fn link(&self, name: &str, device: &str) {
            let _ = fs::remove_file(self.at("by-id").join(name));
            symlink(self.at("dev").join(device), self.at("by-id").join(name)).expect("a link");
        }

        fn places(&self) -> Places {
            Places { sys: self.at("sys"), by_id: self.at("by-id"), dev: self.at("dev") }
        }

        /// An array with the drive `d0` on this device.
        fn declared(&self, device: &str) -> Config {
            let spec = DriveSpec::Device { path: self.at("dev").join(device) };
            let drives = vec![DriveConfig { name: "d0".into(), spec }];
            Config { drives, ..Config::empty("iqn.2026-11.net.example:x") }
        }

        fn known(&self, device: &str) -> BTreeMap<String, String> {
            identities(&self.declared(device), &BTreeMap::new(), &self.places())
        }

        /// Where `d0` is opened, and why it is not.
        fn settled(&self, device: &str, known: &BTreeMap<String, String>) -> (String, Settled) {
            let mut config = self.declared(device);
            let settled = settle(&mut config, known, &self.places());
            let DriveSpec::Device { path } = &config.drives[0].spec else { panic!("it is a device") };
            (path.file_name().expect("a name").to_string_lossy().into_owned(), settled)
        }
    }

    #[test]
    fn a_device_whose_name_changed_is_found_and_another_one_in_its_place_is_not_taken() {
        for attribute in ["wwid", "device/wwid", "dm/uuid", "serial"] {
            let machine = Machine::new(&[("sda", attribute, "naa.1"), ("sdb", attribute, "naa.2  x")]);
            let known = machine.known("sdb");
            assert_eq!(known["d0"], format!("{attribute}: naa.2 x"));
            assert_eq!(machine.settled("sdb", &known), ("sdb".into(), Settled::default()));
            // They are found in another order.
            machine.plug("sda", attribute, "naa.2 x");
            machine.plug("sdb", attribute, "naa.1");
            let (path, settled) = machine.settled("sdb", &known);
            assert_eq!((path.as_str(), settled.moved.len(), settled.displaced.len()), ("sda", 1, 0));
            // It is gone, and another one has its name.
            machine.unplug("sda");
            let (_, settled) = machine.settled("sdb", &known);
            let cause = &settled.displaced["d0"];
            assert!(
                cause.contains("naa.1") && cause.contains("naa.2 x") && cause.contains("replace"),
                "{cause}"
            );
            // It is gone, and nobody has its name: the opening says so.
            machine.unplug("sdb");
            assert_eq!(machine.settled("sdb", &known), ("sdb".into(), Settled::default()));
        }
    }

    #[test]
    fn partitions_are_those_of_their_device() {
        let machine = Machine::new(&[("sda", "wwid", "naa.1"), ("sdb", "wwid", "naa.2")]);
        let partition = |disk: &str, name: &str, number: &str| {
            machine.plug(&format!("{disk}/{name}"), "partition", number);
        };
        // sysfs has partitions below their disks, and links to all of them in one directory.
        for disk in ["sda", "sdb"] {
            let _ = fs::remove_file(machine.at("dev").join(disk));
            fs::create_dir_all(machine.at("dev").join(disk)).expect("a directory");
        }
        partition("sda", "sda1", "1");
        partition("sdb", "sdb1", "1");
        partition("sdb", "sdb2", "2");
        for (disk, name) in [("sda", "sda1"), ("sdb", "sdb1"), ("sdb", "sdb2")] {
            fs::write(machine.at("dev").join(name), "").expect("a node");
            symlink(machine.at("sys").join(disk).join(name), machine.at("sys").join(name)).expect("a link");
        }
        let known = machine.known("sdb2");
        assert_eq!(known["d0"], "wwid: naa.2, partition 2");
        fs::write(machine.at("sys/sda/wwid"), "naa.2").expect("written");
        fs::write(machine.at("sys/sdb/wwid"), "naa.1").expect("written");
        assert_eq!(
            machine.settled("sdb2", &known).1.displaced.len(),
            1,
            "the disk has no second one any more"
        );
        fs::write(machine.at("sys/sda/sda1/partition"), "2").expect("written");
        assert_eq!(machine.settled("sdb2", &known).0, "sda1");
    }

    #[test]
    fn links_tell_where_sysfs_does_not_and_what_is_not_unique_is_no_identity() {
        let machine = Machine::new(&[("sda", "size", "1"), ("sdb", "size", "1")]);
        machine.link("dm-name-root", "sdb");
        assert!(machine.known("sdb").is_empty(), "that is its content");
        machine.link("ata-DISK_7", "sdb");
        machine.link("wwn-0x7", "sdb");
        let known = machine.known("sdb");
        assert_eq!(known["d0"], "by-id: wwn-0x7");
        machine.link("wwn-0x7", "sda");
        machine.link("wwn-0x8", "sdb");
        assert_eq!(machine.settled("sdb", &known).0, "sda");
        // A kernel that tells more than the one before is no other device.
        machine.link("wwn-0x7", "sdb");
        machine.plug("sdb", "wwid", "naa.7");
        assert_eq!(machine.settled("sdb", &known), ("sdb".into(), Settled::default()));
        fs::remove_file(machine.at("by-id/wwn-0x7")).expect("removed");
        assert_eq!(machine.settled("sdb", &known), ("sdb".into(), Settled::default()), "nothing tells");
        machine.plug("sda", "wwid", "naa.7");
        assert!(machine.known("sdb").is_empty(), "two have it");
    }
}
