//! Other ways to the medium of a drive: a loop device over its file, a second loop device over the same file,
//! a second path of one LU. A medium that is in use through one of them is in use, although the kernel's
//! claim (O_EXCL) and the locks are those of another node.
//!
//! The drive is held first, then the other ways are looked for: of two that open one medium at once, at least
//! one sees the other. What is attached and used by nobody is no obstacle.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, FileType, Mode, OFlags, Stat, fstat, major, minor, open, stat};

use crate::hold::{file_is_held, is_locked_in_bytes};

/// World-wide names that are unique by their making; others are serial numbers that cheap devices share.
const UNIQUE: [&str; 3] = ["naa.", "eui.", "uuid."];

/// A file or a block device, whatever path it was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File { file_system: Dev, inode: u64 },
    Device(Dev),
}

impl Node {
    fn of(facts: &Stat) -> Option<Node> {
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => Some(Node::File { file_system: facts.st_dev, inode: facts.st_ino }),
            FileType::BlockDevice => Some(Node::Device(facts.st_rdev)),
            _ => None,
        }
    }
}

/// A loop device and what is below it.
struct Loop {
    name: String,
    below: PathBuf,
    node: Node,
}

/// The loop devices of this machine that have something below them. A file that lies elsewhere for this
/// process (another mount namespace) is left out.
fn loops() -> impl Iterator<Item = Loop> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices.filter_map(|device| {
        let name = device.file_name().into_string().ok().filter(|name| name.starts_with("loop"))?;
        let (below, node) = below(&device.path())?;
        Some(Loop { name, below, node })
    })
}

/// What is below a loop device, by its directory in sysfs.
fn below(device: &Path) -> Option<(PathBuf, Node)> {
    let path =
        PathBuf::from(fs::read_to_string(device.join("loop/backing_file")).ok()?.trim_end_matches('\n'));
    let node = Node::of(&stat(&path).ok()?)?;
    Some((path, node))
}

/// Whether a block device is mounted, part of md or device-mapper, open in an array, or locked.
fn is_claimed(device: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match open(device, flags | OFlags::EXCL, Mode::empty()) {
        Ok(file) => is_locked_in_bytes(&file),
        Err(e) => e == rustix::io::Errno::BUSY,
    }
}

/// Whether a file or a block device is in use through its own node.
fn is_used(path: &Path, node: Node) -> bool {
    match node {
        Node::File { .. } => file_is_held(path),
        Node::Device(_) => is_claimed(path),
    }
}

/// Whether somebody, also in this process, has a file or a block device in use, through whatever node. It may
/// be on a device or file system that does not answer: not for the thread of a world.
pub fn is_in_use(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = open(path, flags, Mode::empty()).map(File::from) else { return false };
    let node = fstat(&file).ok().and_then(|facts| Node::of(&facts));
    node.is_some_and(|node| is_used(path, node)) || refuse_used(&file).is_err()
}

/// Refuses a file or a block device, open and held, that is in use through another node.
///
/// # Errors
/// "in use…", with the other node.
pub(crate) fn refuse_used(opened: &File) -> Result<(), String> {
    let Some(own) = fstat(opened).ok().and_then(|facts| Node::of(&facts)) else { return Ok(()) };
    let Node::Device(number) = own else { return refuse_loops(own, None) };
    let Some(device) = Device::of(number) else { return refuse_loops(own, None) };
    refuse_loops(own, None)?;
    if let Some((path, node)) = below(&device.whole) {
        if is_used(&path, node) {
            return Err(format!(
                "in use: it is a loop device over {}, which is in use itself",
                path.display()
            ));
        }
        refuse_loops(node, device.whole.file_name().and_then(|name| name.to_str()))?;
    }
    device.refuse_paths()
}

/// Refuses what is below a loop device in use, other than `except`.
fn refuse_loops(node: Node, except: Option<&str>) -> Result<(), String> {
    let over = loops().filter(|other| other.node == node && Some(other.name.as_str()) != except);
    let in_use = |other: &Loop| is_claimed(&Path::new("/dev").join(&other.name));
    match over.into_iter().find(in_use) {
        None => Ok(()),
        Some(Loop { name, below, .. }) => {
            let below = below.display();
            Err(format!("in use by loop device {name}, which is over {below}; release {name} first"))
        }
    }
}

/// A block device as sysfs shows it.
#[derive(Debug)]
struct Device {
    /// The directory of the whole device.
    whole: PathBuf,
    /// The number of the partition.
    partition: Option<String>,
}

impl Device {
    fn of(number: Dev) -> Option<Device> {
        let folder = format!("/sys/dev/block/{}:{}", major(number), minor(number));
        let folder = fs::canonicalize(folder).ok()?;
        match fs::read_to_string(folder.join("partition")) {
            Ok(partition) => Some(Device { whole: folder.parent()?.to_owned(), partition: Some(partition) }),
            Err(_) => Some(Device { whole: folder, partition: None }),
        }
    }

    /// Refuses a LU, or a partition of it, that is in use through another path.
    fn refuse_paths(&self) -> Result<(), String> {
        let Some(own) = unique_name(&self.whole) else { return Ok(()) };
        for other in paths_of(Path::new("/sys/block"), &self.whole, &own) {
            let Some(node) = self.node_at(&other).filter(|node| is_claimed(node)) else { continue };
            let node = node.display();
            return Err(format!(
                "in use through another path to the same LU, {node} ({own}); two paths need multipathd and its device"
            ));
        }
        Ok(())
    }

    /// The node of the same device, or of the same partition, at another path.
    fn node_at(&self, whole: &Path) -> Option<PathBuf> {
        let is_same = |folder: &PathBuf| fs::read_to_string(folder.join("partition")).ok() == self.partition;
        let folder = match self.partition {
            None => whole.to_owned(),
            Some(_) => fs::read_dir(whole).ok()?.flatten().map(|part| part.path()).find(is_same)?,
        };
        let facts = fs::read_to_string(folder.join("uevent")).ok()?;
        Some(Path::new("/dev").join(facts.lines().find_map(|line| line.strip_prefix("DEVNAME="))?))
    }
}

/// The world-wide name of a whole device, if that is unique.
fn unique_name(whole: &Path) -> Option<String> {
    let said = ["device/wwid", "wwid"].iter().find_map(|file| fs::read_to_string(whole.join(file)).ok())?;
    let name = said.trim().to_owned();
    UNIQUE.iter().any(|kind| name.starts_with(kind)).then_some(name)
}

/// The other whole devices of this name, by their directories below `devices`.
fn paths_of(devices: &Path, own: &Path, name: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(devices).into_iter().flatten().flatten();
    let others = all.filter_map(|device| fs::canonicalize(device.path()).ok());
    others.filter(|other| other != own && unique_name(other).as_deref() == Some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_lu_are_told_by_its_unique_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = fs::canonicalize(dir.path()).expect("is there");
        let device = |name: &str, file: &str, wwid: &str| {
            let file = dir.join(name).join(file);
            fs::create_dir_all(file.parent().expect("below a folder")).expect("a folder");
            fs::write(file, format!("{wwid}\n")).expect("a file");
        };
        device("sda", "device/wwid", "naa.600140512345678");
        device("sdb", "device/wwid", "naa.600140512345678");
        device("sdc", "device/wwid", "naa.600140587654321");
        device("sdd", "device/wwid", "t10.USB     000000");
        device("sde", "device/wwid", "t10.USB     000000");
        device("nvme0n1", "wwid", "eui.0025385b91b0");
        device("nvme1n1", "wwid", "eui.0025385b91b0");
        let others = |name: &str| {
            let own = dir.join(name);
            let name = unique_name(&own)?;
            let names = paths_of(&dir, &own, &name).into_iter();
            Some(names.map(|path| path.file_name().expect("named").to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(others("sda"), Some(vec!["sdb".into()]));
        assert_eq!(others("sdc"), Some(vec![]));
        assert_eq!(others("sdd"), None, "serial numbers of cheap devices are not unique");
        assert_eq!(others("nvme1n1"), Some(vec!["nvme0n1".into()]));
    }

    #[test]
    fn a_partition_is_found_at_another_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let sdb = dir.path().join("sdb");
        for (part, number) in [("sdb1", "1\n"), ("sdb2", "2\n")] {
            fs::create_dir_all(sdb.join(part)).expect("a folder");
            fs::write(sdb.join(part).join("partition"), number).expect("a file");
            fs::write(sdb.join(part).join("uevent"), format!("MAJOR=8\nDEVNAME={part}\n")).expect("a file");
        }
        fs::write(sdb.join("uevent"), "DEVNAME=sdb\nDEVTYPE=disk\n").expect("a file");
        let at = |partition: Option<&str>| {
            let device = Device { whole: "/sys/block/sda".into(), partition: partition.map(str::to_owned) };
            device.node_at(&sdb)
        };
        assert_eq!(at(None), Some("/dev/sdb".into()));
        assert_eq!(at(Some("2\n")), Some("/dev/sdb2".into()));
        assert_eq!(at(Some("3\n")), None);
    }
}
