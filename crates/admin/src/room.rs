//! Whether the data directory has room for what changes and events write there. It is looked at before a save
//! fails: then changes are refused already.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use array::status::ControllerStatus;
use array::{DriveSpec, Severity};
use config::{Config, format_bytes};
use rustix::fs::{StatVfsMountFlags, statvfs};
use status::{Reason, Trouble};

use crate::store::Store;
use crate::trouble::trouble;

/// Less than this is told, of a file system that is not small itself: then it is a tenth of it.
const BYTES_LOW: u64 = 16 << 20;
/// A change writes a new form beside the old one, and so does its taking back; events come on top.
const FORMS: u64 = 8;
/// A change makes two or three files, and the log of events one now and then.
const FILES_LOW: u64 = 64;
/// Trouble is over when there is so many times that.
const OVER_FACTOR: u64 = 2;
/// A file system that says nothing for so long does not answer.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// What a file system has left for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    free_bytes: u64,
    total_bytes: u64,
    /// None: it makes files as long as it has space.
    free_files: Option<u64>,
    is_read_only: bool,
}

impl Room {
    fn of(dir: &Path) -> std::io::Result<Room> {
        let stat = statvfs(dir)?;
        let is_root = rustix::process::geteuid().is_root();
        let blocks = if is_root { stat.f_bfree } else { stat.f_bavail };
        let files = if is_root { stat.f_ffree } else { stat.f_favail };
        Ok(Room {
            free_bytes: blocks.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_files: (stat.f_files > 0).then_some(files),
            is_read_only: stat.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// What is wrong, for a state of this length; `was` says whether something was at the last look.
    fn fault(self, state_bytes: u64, was: bool) -> Option<String> {
        if self.is_read_only {
            return Some("is read-only: no change can be saved, and no event".into());
        }
        let factor = if was { OVER_FACTOR } else { 1 };
        let bytes_low = BYTES_LOW.min(self.total_bytes / 10).max(FORMS * state_bytes);
        if self.free_bytes < factor * bytes_low {
            let free = format_bytes(self.free_bytes);
            return Some(format!(
                "has {free} left: when it is full, changes are refused and events are lost"
            ));
        }
        let files = self.free_files.filter(|files| *files < factor * FILES_LOW)?;
        Some(format!("has room for {files} more files: without any, changes are refused"))
    }
}

/// Why an array that has just started serves nothing, if it has pools and the file systems below their drives
/// have no room for what a start writes. Hosts are better told by a start that fails, which a service manager
/// tries again, than by LUs that are not there.
pub fn no_room_for_any(parts: &[ControllerStatus], config: &Config) -> Option<String> {
    let serves =
        parts.iter().any(|part| !part.pools.is_empty() || part.images.iter().any(|i| i.state.is_ok()));
    let mut missing = parts.iter().flat_map(|part| &part.missing).filter(|missing| missing.kind == "pool");
    let pool = missing.find(|missing| !serves && missing.reason == Reason::NoRoom)?;
    let file = config.drives.iter().find_map(|drive| match &drive.spec {
        DriveSpec::File { path, .. } => (pool.medium == Some(drive.spec.name())).then_some(path),
        _ => None,
    });
    let place = file.and_then(|file| Some((file, mount_of(file).ok()?)));
    let to_do = match place {
        Some((file, mount)) => {
            format!("make room in the file system {} below {}", mount.display(), file.display())
        }
        None => "make room below that drive".to_owned(),
    };
    Some(format!("pool {:?}: {}: {to_do}, and start again", pool.name, pool.cause))
}

/// Where the file system is mounted that has this file.
fn mount_of(file: &Path) -> std::io::Result<PathBuf> {
    let file = file.canonicalize()?;
    let device = |path: &Path| std::fs::metadata(path).map(|facts| facts.dev());
    let own = device(&file)?;
    let above = file.ancestors().take_while(|path| device(path).is_ok_and(|device| device == own));
    Ok(above.last().unwrap_or(&file).to_owned())
}

/// The last look.
#[derive(Default)]
pub(crate) struct RoomWatch {
    fault: std::sync::Mutex<Option<String>>,
    /// One look at a time: a file system that hangs keeps one thread, not many.
    looking: Arc<tokio::sync::Mutex<()>>,
}

impl RoomWatch {
    /// Looks at the file system of the data directory.
    pub(crate) async fn look(&self, store: &Store) {
        let Ok(turn) = self.looking.clone().try_lock_owned() else { return };
        let (store, was) = (store.clone(), self.fault().is_some());
        let looking = tokio::task::spawn_blocking(move || {
            let room = Room::of(store.dir());
            drop(turn);
            room.map(|room| room.fault(store.state_bytes(), was))
        });
        let fault = match tokio::time::timeout(LOOK_TIME_MAX, looking).await {
            Ok(Ok(Ok(fault))) => fault,
            Ok(Ok(Err(error))) => Some(format!("cannot be looked at: {error}")),
            Ok(Err(_)) => return,
            Err(_) => Some(format!("does not answer for {} s", LOOK_TIME_MAX.as_secs())),
        };
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the last look found.
    pub(crate) fn trouble(&self, dir: &Path) -> Option<Trouble> {
        let text = format!("the file system of the data directory {} {}", dir.display(), self.fault()?);
        let to_do = "make room there, or repair it, before something is to be changed";
        Some(trouble(Severity::Warning, "array", "room", text, to_do))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::Status;

    const PLENTY: Room =
        Room { free_bytes: 1 << 30, total_bytes: 1 << 40, free_files: Some(1000), is_read_only: false };

    #[test]
    fn a_data_directory_without_room_is_told_before_a_save_fails() {
        let low = |room: Room, was| room.fault(100 << 10, was).unwrap_or_default();
        assert_eq!((low(PLENTY, false), low(PLENTY, true)), (String::new(), String::new()));
        let few = |free_bytes| Room { free_bytes, ..PLENTY };
        assert!(low(few((16 << 20) - 1), false).contains("MiB left"));
        // It does not come and go with each file.
        assert_eq!(low(few(16 << 20), false), "");
        assert!(low(few((32 << 20) - 1), true).contains("left"));
        assert_eq!(low(few(32 << 20), true), "");
        let small = Room { total_bytes: 20 << 20, ..few(3 << 20) };
        assert_eq!(low(small, false), "", "a tenth of a small one is enough");
        // A large state needs more.
        assert!(few(20 << 20).fault(4 << 20, false).is_some());
        let files = |files| Room { free_files: files, ..PLENTY };
        assert!(low(files(Some(63)), false).contains("room for 63 more files"));
        assert!(low(files(Some(127)), true).contains("127"));
        assert_eq!((low(files(Some(64)), false), low(files(None), false)), (String::new(), String::new()));
        assert!(low(Room { is_read_only: true, ..PLENTY }, false).contains("read-only"));
    }

    /// The array served nothing, its LUs were not there, and the advice was to bring back what was there.
    #[test]
    fn a_start_without_room_for_any_pool_says_which_file_system_is_full() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("d0.img");
        std::fs::write(&file, "").expect("written");
        let text = "[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"1GiB\"\n\
            [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n\
            [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n";
        let config = Config::parse(text, "array.toml", dir.path()).expect("good");
        let missing = status::Missing {
            kind: "pool".into(),
            name: "p0".into(),
            cause: "no room: a drive is out of space".into(),
            reason: Reason::NoRoom,
            medium: Some(config.drives[0].spec.name()),
        };
        let part = ControllerStatus { missing: vec![missing], ..ControllerStatus::default() };
        let said = no_room_for_any(std::slice::from_ref(&part), &config).expect("nothing is served");
        let mount = mount_of(dir.path()).expect("it is there");
        for told in [&format!("the file system {} below {}", mount.display(), file.display()), "start again"]
        {
            assert!(said.contains(told), "{said}");
        }
        let trouble =
            crate::trouble::trouble_of(&Status { missing: part.missing.clone(), ..Status::default() });
        assert!(trouble[0].to_do.contains("make room in the file system"), "{trouble:?}");
        // Another pool is served: it goes on.
        let other = ControllerStatus { pools: vec![status::Pool::default()], ..ControllerStatus::default() };
        assert_eq!(no_room_for_any(&[part, other], &config), None);
    }

    #[tokio::test]
    async fn a_directory_that_is_gone_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, watch) = (Store::open(dir.path()).expect("a store"), RoomWatch::default());
        watch.look(&store).await;
        assert_eq!(watch.trouble(store.dir()).map(|t| t.text), None);
        drop(dir);
        watch.look(&store).await;
        let told = watch.trouble(store.dir()).expect("it is gone");
        assert!(told.text.contains("cannot be looked at") && told.severity == "warning", "{told:?}");
    }
}
