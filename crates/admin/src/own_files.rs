//! Files that are the array's already: what it keeps in its data directory, and the files of its drives. A
//! declaration that takes one of them for a drive or an image would have hosts write over it.
//!
//! A file is recognised by device and inode, whatever it is called: by a link, or by another path.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use array::DriveSpec;
use config::Config;

/// What the files that the array keeps for itself begin with, in its data directory: its state, and the keys
/// and certificates of the API and of a node.
const OWN_PREFIXES: [&str; 3] = ["array.", "api.", "node."];
/// Its directory of events.
const EVENTS: &str = "events";
/// A file system that does not answer in this time is looked at no longer.
const LOOK_TIME_MAX: Duration = Duration::from_secs(10);

type Identity = (u64, u64);

/// Refuses a declaration that takes one of the array's own files.
///
/// # Errors
/// Which object takes which file, and what to do.
pub async fn refuse_own_files(before: &Config, next: &Config, dir: &Path) -> Result<(), String> {
    let known = files_of(before);
    let (old, new): (Vec<_>, Vec<_>) = files_of(next).into_iter().partition(|file| known.contains(file));
    if new.is_empty() {
        return Ok(());
    }
    let dir = dir.to_owned();
    let looking = tokio::task::spawn_blocking(move || look(&old, &new, &dir));
    match tokio::time::timeout(LOOK_TIME_MAX, looking).await {
        Ok(Ok(looked)) => looked,
        // What does not answer is not opened either.
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// The files of drives and images: the object, whether it is an image, and the path.
fn files_of(config: &Config) -> Vec<(String, bool, PathBuf)> {
    let path_of = |spec: &DriveSpec| match spec {
        DriveSpec::File { path, .. } | DriveSpec::Image { path, .. } => Some(path.clone()),
        _ => None,
    };
    let drives =
        config.drives.iter().filter_map(|d| Some((format!("drive {:?}", d.name), false, path_of(&d.spec)?)));
    let images =
        config.images.iter().filter_map(|i| Some((format!("image {:?}", i.name), true, path_of(&i.spec)?)));
    drives.chain(images).collect()
}

fn look(old: &[(String, bool, PathBuf)], new: &[(String, bool, PathBuf)], dir: &Path) -> Result<(), String> {
    let own = own_files(dir);
    let mut taken: BTreeMap<Identity, (&str, bool)> = BTreeMap::new();
    for (object, is_image, path) in old {
        taken.extend(identity(path).map(|id| (id, (object.as_str(), *is_image))));
    }
    for (object, is_image, path) in new {
        let Some(id) = identity(path) else { continue };
        let shown = path.display();
        if let Some(file) = own.get(&id) {
            return Err(format!(
                "{object}: {shown} is {}, which the array keeps for itself: name another file",
                file.display()
            ));
        }
        match taken.get(&id) {
            // Images may be read by several, which they check themselves.
            Some((other, other_is_image)) if !(*is_image && *other_is_image) => {
                return Err(format!("{object}: {shown} is the file of {other}: name another file"));
            }
            _ => {
                taken.insert(id, (object, *is_image));
            }
        }
    }
    Ok(())
}

/// What the array keeps in its data directory.
fn own_files(dir: &Path) -> BTreeMap<Identity, PathBuf> {
    let mut own = BTreeMap::new();
    for path in entries(dir) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name == EVENTS || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            let below = if path.is_dir() { entries(&path) } else { vec![path] };
            own.extend(below.into_iter().filter_map(|path| Some((identity(&path)?, path))));
        }
    }
    own
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().filter(|facts| facts.is_file()).map(|facts| (facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use config::{DriveConfig, ImageConfig};

    use super::*;

    fn with_image(before: &Config, path: PathBuf) -> Config {
        let mut next = before.clone();
        next.images.push(ImageConfig::of_file("i".into(), path, false));
        next
    }

    /// An image could be the state of the array, and a host that it was mapped to wrote over it.
    #[tokio::test]
    async fn a_file_of_the_array_becomes_no_image_and_no_drive() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["array.state.toml", "api.key.pem", "node.key.pem", "d0.img", "other.img"] {
            std::fs::write(at(name), "data").expect("written");
        }
        std::fs::create_dir(at("events")).expect("made");
        std::fs::write(at("events/1.log"), "data").expect("written");
        std::fs::hard_link(at("array.state.toml"), at("hard.img")).expect("linked");
        std::os::unix::fs::symlink("d0.img", at("soft.img")).expect("linked");
        let drive = |name: &str, path| DriveConfig {
            name: name.into(),
            spec: DriveSpec::File { path, create_len_bytes: None },
        };
        let before =
            Config { drives: vec![drive("d0", at("d0.img"))], ..Config::empty("iqn.2026-11.net.example:x") };
        let check = async |next: Config, expected: &str| {
            let outcome = refuse_own_files(&before, &next, dir.path()).await;
            let text = outcome.err().unwrap_or_default();
            assert!(
                text.contains(expected) && text.is_empty() == expected.is_empty(),
                "{text:?}: {expected:?}"
            );
        };
        let keys = ["api.key.pem", "node.key.pem"];
        for own in
            ["array.state.toml", "hard.img", "./array.state.toml", "events/1.log"].into_iter().chain(keys)
        {
            check(with_image(&before, at(own)), "which the array keeps for itself").await;
        }
        for of_drive in ["d0.img", "soft.img"] {
            check(with_image(&before, at(of_drive)), "is the file of drive \"d0\"").await;
        }
        let mut second = before.clone();
        second.drives.push(drive("d1", at("hard.img")));
        check(second, "drive \"d1\": ").await;
        check(with_image(&before, at("other.img")), "").await;
        check(with_image(&before, at("missing.img")), "").await;
        check(before.clone(), "").await;
    }
}
