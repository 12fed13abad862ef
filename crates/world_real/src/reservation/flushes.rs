//! Whether flushes reach a device that another host had reserved when this machine found it.
//!
//! A kernel that finds a device asks it for its write cache, with MODE SENSE. A device that another host has
//! reserved refuses that (SPC-5 5.14.1), and the kernel takes it for one without a write cache: it does
//! not send a single flush from then on. So it is made to ask again when the reservation is its own.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, major, minor};

/// Devices below devices (multipath over disks) are looked for so deep.
const DEPTH_MAX: usize = 8;

/// Makes the kernel ask again.
///
/// # Errors
/// It cannot be made to, or a device above the disks has taken the old answer.
pub(super) fn look_again(file: &File) -> Result<(), String> {
    let number = fstat(file).map_err(|e| format!("cannot be examined: {e}"))?.st_rdev;
    look_again_at(&PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number))))
}

fn look_again_at(device: &Path) -> Result<(), String> {
    let mut disks = vec![];
    disks_below(device, DEPTH_MAX, &mut disks);
    let mut caches = false;
    for disk in disks {
        let rescan = disk.join("device/rescan");
        match fs::write(&rescan, "1") {
            // Not a SCSI disk.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => {
                done.map_err(|e| format!("its write cache cannot be asked for: {}: {e}", rescan.display()))?
            }
        }
        caches |= has_write_cache(&disk);
    }
    match caches && !has_write_cache(device) {
        false => Ok(()),
        true => Err(
            "the kernel would send no flush to it: it found the device while another host had reserved it; \
                     make the device-mapper map anew (multipath -r)"
                .to_owned(),
        ),
    }
}

/// As the kernel's queue of the device has it.
fn has_write_cache(device: &Path) -> bool {
    fs::read_to_string(device.join("queue/write_cache")).is_ok_and(|text| text.trim() == "write back")
}

/// The disks that a device is made of: itself, or those below it.
fn disks_below(device: &Path, depth: usize, disks: &mut Vec<PathBuf>) {
    let below =
        fs::read_dir(device.join("slaves")).map(|list| list.flatten().map(|entry| entry.path()).collect());
    match below.unwrap_or_else(|_| vec![]) {
        below if below.is_empty() || depth == 0 => disks.push(device.to_owned()),
        below => below.iter().for_each(|device| disks_below(device, depth - 1, disks)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory like that of a device in sysfs.
    fn device(at: &Path, cache: &str) {
        fs::create_dir_all(at.join("queue")).expect("made");
        fs::create_dir_all(at.join("slaves")).expect("made");
        fs::write(at.join("queue/write_cache"), format!("{cache}\n")).expect("written");
    }

    fn disk(at: &Path, cache: &str) {
        device(at, cache);
        fs::create_dir(at.join("device")).expect("made");
        fs::write(at.join("device/rescan"), "").expect("written");
    }

    #[test]
    fn each_disk_is_asked_and_a_map_that_missed_its_write_cache_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let (map, one, two) = (dir.path().join("dm-0"), dir.path().join("sda"), dir.path().join("sdb"));
        device(&map, "write through");
        disk(&one, "write through");
        disk(&two, "write through");
        for disk in [&one, &two] {
            let name = disk.file_name().expect("a name");
            std::os::unix::fs::symlink(disk, map.join("slaves").join(name)).expect("linked");
        }
        assert_eq!(look_again_at(&map), Ok(()));
        for disk in [&one, &two] {
            assert_eq!(fs::read_to_string(disk.join("device/rescan")).expect("read"), "1");
        }
        fs::write(two.join("queue/write_cache"), "write back\n").expect("written");
        assert!(look_again_at(&map).expect_err("refused").contains("multipath -r"));
        fs::write(map.join("queue/write_cache"), "write back\n").expect("written");
        assert_eq!(look_again_at(&map), Ok(()));
        assert_eq!(look_again_at(&two), Ok(()), "a disk by itself");
    }
}
