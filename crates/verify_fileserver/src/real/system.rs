//! What of this machine is used: mount points, loop devices, file systems. Each is taken back when it is
//! dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lab_core::interrupt::Held;

/// Where Debian has mkfs, losetup and mount, whatever the user's PATH says.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// What wrote last may still be being closed.
const UMOUNT_TRIES: u32 = 50;
const UMOUNT_WAIT: Duration = Duration::from_millis(100);

/// Says what is missing before anything is begun.
pub(super) fn check() -> Result<()> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root, who may mount");
    }
    let devices =
        [("/dev/fuse", "FUSE (/dev/fuse)"), ("/dev/loop-control", "loop devices (/dev/loop-control)")];
    missing.extend(devices.iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, name)| *name));
    let there = |tool: &str| SYSTEM_PATH.split(':').any(|dir| Path::new(dir).join(tool).exists());
    let tools = [
        ("mkfs.ext4", "mkfs.ext4 (e2fsprogs)"),
        ("losetup", "losetup"),
        ("mount", "mount"),
        ("umount", "umount"),
    ];
    missing.extend(tools.iter().filter(|(tool, _)| !there(tool)).map(|(_, name)| *name));
    ensure!(
        missing.is_empty(),
        "cannot set up the stack of a real fileserver: {} required; --directory DIR measures any directory \
         without it",
        missing.join(", ")
    );
    Ok(())
}

/// Runs a program of the system; gives what it says.
fn run(tool: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(tool)
        .args(arguments)
        .env("PATH", SYSTEM_PATH)
        .output()
        .with_context(|| tool.to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{tool} {}: {}", arguments.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{}: not valid UTF-8", path.display()))
}

/// A folder that goes with everything in it.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Empty folders of a run that was killed, in which nothing is mounted any more, are used again.
    pub(super) fn make(path: PathBuf) -> Result<Scratch> {
        remove_empty(&path);
        std::fs::create_dir(&path).with_context(|| {
            format!("{}: is left of a run that was killed, or of one that goes on: unmount what is in it, and remove it", path.display())
        })?;
        Ok(Scratch(path))
    }

    /// A new folder in it.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Something may be mounted in it still, if taking it back failed: its content is not removed. Then
        // folders stay, and were named.
        remove_empty(&self.0);
    }
}

/// Removes a folder of folders, as far as they are empty.
fn remove_empty(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(entry.path());
    }
    let _ = std::fs::remove_dir(path);
}

/// A loop device over a file.
pub(super) struct LoopDevice {
    path: String,
    _held: Held,
}

impl LoopDevice {
    /// One without pages of its own, and with many operations in flight.
    pub(super) fn over(file: &Path) -> Result<LoopDevice> {
        let device = run("losetup", &["--find", "--show", "--direct-io=on", text(file)?])?;
        let name = device.clone();
        // A device that is mounted is detached when its mount ends.
        let held = Held::new(move || drop(run("losetup", &["--detach", &name])));
        Ok(LoopDevice { path: device, _held: held })
    }

    /// Its name without a path: as /proc/diskstats has it.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// A new ext4 on it, whose tables are written now and not in the background. What is not in use is not
    /// discarded: of a fixed disk that would make holes.
    pub(super) fn make_ext4(&self) -> Result<()> {
        run(
            "mkfs.ext4",
            &["-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", &self.path],
        )
        .map(drop)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        told(run("losetup", &["--detach", &self.path]));
    }
}

/// A file system that is mounted.
pub(super) struct MountedOn {
    device: String,
    point: PathBuf,
    _held: Held,
}

impl MountedOn {
    pub(super) fn mount(device: &LoopDevice, point: PathBuf) -> Result<MountedOn> {
        run("mount", &["-t", "ext4", "-o", "noatime", &device.path, text(&point)?])?;
        Ok(MountedOn { device: device.path.clone(), _held: held_mount(&point)?, point })
    }

    pub(super) fn point(&self) -> &Path {
        &self.point
    }

    /// Unmounts and mounts it: nothing of it is in this machine's memory then.
    pub(super) fn remount(&self) -> Result<()> {
        unmount(&self.point)?;
        run("mount", &["-t", "ext4", "-o", "noatime", &self.device, text(&self.point)?]).map(drop)
    }
}

impl Drop for MountedOn {
    fn drop(&mut self) {
        told(unmount(&self.point));
    }
}

/// A mount that is taken away whoever uses it; of FUSE, what waits for its server ends with an error.
pub(super) fn held_mount(point: &Path) -> Result<Held> {
    let point = text(point)?.to_owned();
    Ok(Held::new(move || drop(run("umount", &["--force", "--lazy", &point]))))
}

fn unmount(point: &Path) -> Result<()> {
    let point = text(point)?;
    let mut tried = run("umount", &[point]);
    for _ in 0..UMOUNT_TRIES {
        if tried.is_ok() {
            break;
        }
        std::thread::sleep(UMOUNT_WAIT);
        tried = run("umount", &[point]);
    }
    tried.map(drop)
}

/// On the way out: the next thing is taken back all the same.
fn told<T>(result: Result<T>) {
    if let Err(error) = result {
        lab_core::console::note(&lab_core::console::causes(&error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next run into the folder was refused until somebody had removed them.
    #[test]
    fn empty_folders_of_a_killed_run_are_used_again_and_content_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let mounts = dir.path().join("mounts");
        std::fs::create_dir_all(mounts.join("disk0")).expect("folders");
        drop(Scratch::make(mounts.clone()).expect("made"));
        assert!(!mounts.exists());
        std::fs::create_dir_all(mounts.join("disk0/data")).expect("folders");
        assert!(Scratch::make(mounts.clone()).is_err());
        assert!(mounts.join("disk0/data").exists());
    }
}
