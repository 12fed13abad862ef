//! What is on a drive that is to be taken, before it is taken: file systems, partition tables, LVM, md, ZFS,
//! Ceph and their like, as libblkid knows them. The array itself refuses every drive that is not blank; here
//! the refusal gets the name of what was found.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use array::{Array, DriveSpec, TO_ERASE};
use config::{Config, DriveConfig};

/// A drive that is not examined in this time does not answer.
const EXAMINE_TIME_MAX: Duration = Duration::from_secs(10);
/// `blkid -p` found nothing (blkid(8), RETURN CODE).
const NOTHING_FOUND: i32 = 2;
/// It found several that contradict each other.
const AMBIVALENT: i32 = 8;

/// The drives that a declaration would take for the first time.
pub(crate) fn new_drives(array: &Array, next: &Config) -> Vec<DriveConfig> {
    let known = |drive: &DriveConfig| {
        array.made().drives.contains(&drive.name) || array.config().drives.contains(drive)
    };
    next.drives.iter().filter(|drive| !known(drive)).cloned().collect()
}

/// Files of drives that are not there yet: what a change that is refused has made of them is removed again.
pub struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    /// Those that opening these drives makes.
    pub async fn of(drives: &[DriveConfig]) -> NewFiles {
        let made = |drive: &DriveConfig| match &drive.spec {
            DriveSpec::File { path, create_len_bytes: Some(_) } => Some(path.clone()),
            _ => None,
        };
        let paths: Vec<PathBuf> = drives.iter().filter_map(made).collect();
        let missing =
            |path: &PathBuf| path.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        let looking = tokio::task::spawn_blocking(move || paths.into_iter().filter(missing).collect());
        // What cannot be looked at in time is left alone.
        let looked = tokio::time::timeout(EXAMINE_TIME_MAX, looking).await;
        NewFiles(looked.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// Removes those that were made since, but for those of drives that are declared.
    pub async fn remove(self, config: &Config) {
        let is_declared = |path: &PathBuf| {
            let file = |d: &DriveConfig| matches!(&d.spec, DriveSpec::File { path: own, .. } if own == path);
            config.drives.iter().any(file)
        };
        let made: Vec<PathBuf> = self.0.into_iter().filter(|path| !is_declared(path)).collect();
        let removing = tokio::task::spawn_blocking(move || {
            for path in made {
                match std::fs::remove_file(&path) {
                    Ok(()) => tracing::info!("{}: removed again", path.display()),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(e) => tracing::warn!("{}: is left over: {e}", path.display()),
                }
            }
        });
        let _ = tokio::time::timeout(EXAMINE_TIME_MAX, removing).await;
    }
}

/// Refuses drives on which something is found that is not masu's, or that something else uses.
///
/// # Errors
/// One line: the drive, what was found on it and where, and what to do.
pub async fn refuse_used(drives: &[DriveConfig]) -> Result<(), String> {
    for drive in drives {
        let path = match &drive.spec {
            DriveSpec::File { path, .. } | DriveSpec::Device { path } => path,
            _ => continue,
        };
        if let Some(found) = examine(path.clone()).await? {
            return Err(format!("drive {:?}: {} holds {found}; {TO_ERASE}", drive.name, path.display()));
        }
    }
    Ok(())
}

/// What is on a drive, in words; `None` where nothing is known of it.
async fn examine(path: PathBuf) -> Result<Option<String>, String> {
    let shown = path.display().to_string();
    let looking = tokio::task::spawn_blocking(move || look(&path));
    match tokio::time::timeout(EXAMINE_TIME_MAX, looking).await {
        Ok(found) => found.map_err(|e| format!("{shown}: {e}"))?,
        Err(_) => Err(format!("{shown}: does not answer for {} s", EXAMINE_TIME_MAX.as_secs())),
    }
}

fn look(path: &Path) -> Result<Option<String>, String> {
    if !path.exists() {
        return Ok(None);
    }
    if let Some(device) = loop_device_of(path) {
        return Ok(Some(format!("the content of loop device {device}, which is in use")));
    }
    let probed = std::process::Command::new("blkid")
        .args(["-p", "-o", "export", "--"])
        .arg(path)
        .stdin(Stdio::null())
        .output();
    // Without blkid the array's own look decides: what is not blank is refused without a name.
    let Ok(probed) = probed else { return Ok(None) };
    match probed.status.code() {
        Some(0) => Ok(Some(in_words(&String::from_utf8_lossy(&probed.stdout)))),
        Some(AMBIVALENT) => Ok(Some("several signatures that contradict each other (see `wipefs`)".into())),
        Some(NOTHING_FOUND) => Ok(None),
        _ => Ok(None),
    }
}

/// The loop device that a file is attached to.
fn loop_device_of(path: &Path) -> Option<String> {
    // Whatever it is called there: another name, a path in a bind mount.
    let is_it = |below: &str| {
        let file = |path: &Path| std::fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
        file(path).is_some_and(|own| file(Path::new(below)) == Some(own))
    };
    let devices = std::fs::read_dir("/sys/block").ok()?;
    for device in devices.flatten() {
        let below = std::fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if is_it(below.trim_end_matches('\n')) {
            return Some(device.file_name().to_string_lossy().into_owned());
        }
    }
    None
}

/// `KEY=value` lines of blkid as a phrase: `a file system (ext4, label "root")`.
fn in_words(export: &str) -> String {
    let value = |key: &str| {
        export.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).filter(|v| !v.is_empty())
    };
    let label = value("LABEL").map(|label| format!(", label {label:?}")).unwrap_or_default();
    match (value("TYPE"), value("PTTYPE")) {
        (Some(kind), _) => {
            let what = match value("USAGE") {
                Some("filesystem") => "a file system",
                Some("raid") => "a member of a RAID or volume group",
                Some("crypto") => "an encrypted volume",
                _ => "a signature",
            };
            format!("{what} ({kind}{label})")
        }
        (None, Some(table)) => format!("a partition table ({table})"),
        (None, None) => "a signature that blkid knows".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(path: &Path) -> Vec<DriveConfig> {
        vec![DriveConfig {
            name: "d0".into(),
            spec: DriveSpec::File { path: path.to_owned(), create_len_bytes: None },
        }]
    }

    fn checked(path: &Path) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(refuse_used(&drive(path)))
    }

    #[test]
    fn a_file_system_is_named_and_a_blank_file_is_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("d0.img");
        assert_eq!(checked(&path), Ok(()), "nothing is there");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(32 << 20).expect("sized");
        assert_eq!(checked(&path), Ok(()), "it is blank");
        // The start of a swap area: version 1, its pages, and the signature at the end of the first page
        // (mkswap(8)).
        let mut page = vec![0_u8; 4096];
        page[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
        page[1028..1032].copy_from_slice(&8191_u32.to_le_bytes());
        page[4086..].copy_from_slice(b"SWAPSPACE2");
        std::os::unix::fs::FileExt::write_all_at(&file, &page, 0).expect("written");
        let refusal = checked(&path).expect_err("it is in use");
        assert!(refusal.contains("swap") && refusal.contains("masu drive create"), "{refusal}");
    }

    #[test]
    fn files_that_a_refused_change_made_are_removed_and_no_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, len| DriveConfig {
            name: name.into(),
            spec: DriveSpec::File { path: dir.path().join(name), create_len_bytes: len },
        };
        let drives =
            [file("new", Some(1)), file("there", Some(1)), file("named", None), file("kept", Some(1))];
        std::fs::write(dir.path().join("there"), "data").expect("a file");
        let in_force =
            Config { drives: vec![drives[3].clone()], ..Config::empty("iqn.2026-11.net.example:x") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let files = NewFiles::of(&drives).await;
            for name in ["new", "named", "kept"] {
                std::fs::write(dir.path().join(name), "").expect("a file");
            }
            files.remove(&in_force).await;
        });
        let left = |name: &str| dir.path().join(name).exists();
        assert_eq!(["new", "there", "named", "kept"].map(left), [false, true, true, true]);
    }

    #[test]
    fn what_blkid_says_is_put_in_words() {
        let found = in_words("DEVNAME=x\nLABEL=root\nTYPE=ext4\nUSAGE=filesystem\n");
        assert_eq!(found, "a file system (ext4, label \"root\")");
        assert_eq!(in_words("PTTYPE=gpt\n"), "a partition table (gpt)");
        assert_eq!(
            in_words("TYPE=LVM2_member\nUSAGE=raid\n"),
            "a member of a RAID or volume group (LVM2_member)"
        );
    }
}
