//! The files of the directory, and the operations on them. They block; [`super::Directory`] calls them on a
//! thread of its own.
//!
//! ```text
//!  format                                      the name of this layout
//!  keys/KEY/@VERSION.ID.LEASE                  a key: the name of this empty file is its state; ID 0: no
//! value
//!  keys/KEY/=VERSION.ID                        a value
//!  leases/BOOT/LEASE/                          see `lease`
//!  new/BOOT.ID/                                a key that is being created
//! ```
//!
//! A change prepares a value under a new name, and then renames the file that stands for the state that it
//! expects. The rename is atomic, and fails if another change has renamed the file before: that is the
//! compare and the put. Nobody takes a lock, so that a process which is killed or stopped in the middle of
//! a change delays nobody; when it goes on, its rename fails if anybody else has changed the key meanwhile.
//! A key is created by renaming a whole directory. It keeps its version when its value is deleted.
//!
//! A value without a lease is on the disk before its name is: after a power failure a key has its old value
//! or its new one. Leases end with the boot, and the values bound to them.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};

use super::layout;
use super::lease::Leases;
use crate::{Entry, KEYS_MAX, Key, LeaseId, RegistryError, TOO_LONG, VALUE_LEN_MAX, Version};

/// The state has the secrets of hosts, and the hashes of tokens.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A read that meets a change looks again; so often in a row it meets one only if something is wrong.
const LOOKS_MAX: usize = 1000;
/// Stands for a value that is not there: no text, so that nobody takes it for a record.
const MISSING: &[u8] = &[0xff];
/// A key in creation that is older was left by a crash: creating one takes milliseconds.
const CREATION_TIME_MAX: Duration = Duration::from_secs(60);

/// A value; of one that is too long no more is read than shows it.
fn read_value(path: &Path) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    fs::OpenOptions::new().read(true).open(path)?.take(VALUE_LEN_MAX as u64 + 1).read_to_end(&mut value)?;
    Ok(if value.len() > VALUE_LEN_MAX { TOO_LONG.into() } else { value })
}

/// The directory.
pub(super) struct Files {
    root: PathBuf,
    boot: String,
    leases: Leases,
}

/// The state of a key, as the name of its file says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    version: u64,
    /// Of the value; 0: none.
    id: u64,
    /// 0: none.
    lease: u64,
}

/// What there is of a key.
enum Seen {
    State(State),
    /// It was never created.
    Nothing,
    /// Its directory has no state: somebody else has removed it.
    Damaged,
}

impl State {
    fn file_name(self) -> String {
        format!("@{}.{:016x}.{:016x}", self.version, self.id, self.lease)
    }

    fn value_name(self) -> String {
        format!("={}.{:016x}", self.version, self.id)
    }

    fn of(name: &str) -> Option<State> {
        let mut parts = name.strip_prefix('@')?.split('.');
        let version = parts.next()?.parse().ok()?;
        let id = u64::from_str_radix(parts.next()?, 16).ok()?;
        let lease = u64::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(State { version, id, lease })
    }
}

/// A failed call of the system.
pub(super) fn failed(path: &Path, error: &io::Error) -> RegistryError {
    RegistryError::Unreachable { cause: format!("{}: {error}", path.display()) }
}

/// A directory that cannot be made.
fn not_made(path: &Path, error: &io::Error) -> RegistryError {
    let cause = match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            format!("{}: a file is in its place: name a directory", path.display())
        }
        _ => return failed(path, error),
    };
    RegistryError::Unreachable { cause }
}

/// A number that nothing else has, and not 0.
pub(super) fn unique() -> Result<u64, RegistryError> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|e| RegistryError::Unreachable { cause: format!("no random number: {e}") })?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// The names in a directory; none: it does not exist.
pub(super) fn names(path: &Path) -> Result<Option<Vec<String>>, RegistryError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => names.extend(entry.file_name().into_string()),
            // Renamed while it was read.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path, &error)),
        }
    }
    Ok(Some(names))
}

/// Renames; false: there is nothing of the old name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<bool, RegistryError> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(to, &error)),
    }
}

pub(super) fn durable(path: &Path) -> Result<(), RegistryError> {
    let opened = rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    let synced = opened.and_then(|file| rustix::fs::fsync(&file));
    synced.map_err(|e| failed(path, &e.into()))
}

impl Files {
    pub(super) fn open(path: &Path) -> Result<Files, RegistryError> {
        let boot_path = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(boot_path).map_err(|e| failed(boot_path, &e))?;
        let boot = boot.trim().replace('-', "");
        let make = |dir: PathBuf| {
            let made = fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(&dir);
            made.map_err(|e| not_made(&dir, &e)).map(|()| dir)
        };
        let root = make(path.to_owned())?;
        layout::check(&root)?;
        make(root.join("keys"))?;
        make(root.join("new"))?;
        let leases = Leases::new(make(root.join("leases").join(&boot))?);
        let files = Files { root, boot, leases };
        files.sweep()?;
        Ok(files)
    }

    /// Removes what a crash has left: keys in creation, and leases of earlier boots.
    fn sweep(&self) -> Result<(), RegistryError> {
        let new = self.root.join("new");
        for name in names(&new)?.unwrap_or_default() {
            let path = new.join(&name);
            let age =
                fs::metadata(&path).and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            if !name.starts_with(&self.boot) || age.is_some_and(|age| age > CREATION_TIME_MAX) {
                // Another process may have removed it.
                let _ = fs::remove_dir_all(&path);
            }
        }
        let leases = self.root.join("leases");
        for boot in names(&leases)?.unwrap_or_default().iter().filter(|boot| **boot != self.boot) {
            let _ = fs::remove_dir_all(leases.join(boot));
        }
        Ok(())
    }

    /// Whether the directory is still where it was: it may be unmounted, or moved away.
    pub(super) fn is_there(&self) -> Result<(), RegistryError> {
        let keys = self.root.join("keys");
        fs::symlink_metadata(&keys).map(drop).map_err(|e| failed(&keys, &e))
    }

    /// See [`crate::Registry::examine`].
    pub(super) fn examine(&self) -> Result<Option<String>, RegistryError> {
        let mended = layout::mend(&self.root)?;
        self.try_put()?;
        Ok(mended)
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.leases
    }

    fn key_dir(&self, key: &Key) -> PathBuf {
        self.root.join("keys").join(key.file_name())
    }

    /// The state of a key; none: it was never created.
    fn state(&self, key: &Key) -> Result<Option<State>, RegistryError> {
        match self.look(key)? {
            Seen::State(state) => Ok(Some(state)),
            Seen::Nothing => Ok(None),
            Seen::Damaged => {
                let dir = self.key_dir(key);
                let cause = format!("{}: a key without a state; remove it", dir.display());
                Err(RegistryError::Unreachable { cause })
            }
        }
    }

    fn look(&self, key: &Key) -> Result<Seen, RegistryError> {
        let dir = self.key_dir(key);
        for _ in 0..LOOKS_MAX {
            let Some(names) = names(&dir)? else { return Ok(Seen::Nothing) };
            // None while it is being renamed.
            let newest = names.iter().filter_map(|name| State::of(name)).max_by_key(|state| state.version);
            if let Some(newest) = newest {
                return Ok(Seen::State(newest));
            }
        }
        Ok(Seen::Damaged)
    }

    /// Whether a key has lost its state: one such key must not hide all others.
    fn is_damaged(&self, key: &Key) -> Result<bool, RegistryError> {
        Ok(matches!(self.look(key)?, Seen::Damaged))
    }

    /// Whether it has a value now.
    fn is_live(&self, state: State) -> Result<bool, RegistryError> {
        Ok(state.id != 0 && (state.lease == 0 || self.leases.is_alive(LeaseId(state.lease))?))
    }

    fn version(&self, state: Option<State>) -> Result<Option<Version>, RegistryError> {
        match state {
            Some(state) if self.is_live(state)? => Ok(Some(Version(state.version))),
            _ => Ok(None),
        }
    }

    /// A value that is missing although the key names it was removed by somebody else: it is given as
    /// [`MISSING`], so that who reads all keys passes it over, and it can be deleted.
    pub(super) fn get(&self, key: &Key) -> Result<Option<Entry>, RegistryError> {
        let mut version = 0;
        for _ in 0..LOOKS_MAX {
            let Some(state) = self.state(key)? else { return Ok(None) };
            if !self.is_live(state)? {
                return Ok(None);
            }
            version = state.version;
            let path = self.key_dir(key).join(state.value_name());
            match read_value(&path) {
                Ok(value) => return Ok(Some(Entry { version: Version(state.version), value })),
                // The value of a later version is there by now.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&path, &error)),
            }
        }
        Ok(Some(Entry { version: Version(version), value: MISSING.into() }))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<Key>, RegistryError> {
        let names = names(&self.root.join("keys"))?.unwrap_or_default();
        let keys = names.iter().filter_map(|name| Key::of_file_name(name));
        let mut keys: Vec<Key> = keys.filter(|key| key.as_str().starts_with(prefix)).collect();
        keys.sort();
        Ok(keys)
    }

    pub(super) fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, RegistryError> {
        let mut out = Vec::new();
        for key in self.keys(prefix)? {
            let entry = match self.is_damaged(&key)? {
                true => Some(Entry { version: Version(0), value: MISSING.into() }),
                false => self.get(&key)?,
            };
            out.extend(entry.map(|entry| (key, entry)));
        }
        Ok(out)
    }

    /// The versions of the keys with a value.
    pub(super) fn versions(
        &self,
        prefix: &str,
    ) -> Result<std::collections::BTreeMap<Key, Version>, RegistryError> {
        let mut out = std::collections::BTreeMap::new();
        for key in self.keys(prefix)? {
            if self.is_damaged(&key)? {
                continue;
            }
            if let Some(version) = self.version(self.state(&key)?)? {
                out.insert(key, version);
            }
        }
        Ok(out)
    }

    /// Sets a value, or deletes it.
    pub(super) fn put(
        &self,
        key: &Key,
        expected: Option<Version>,
        value: Option<&[u8]>,
        lease: Option<LeaseId>,
    ) -> Result<Version, RegistryError> {
        if value.is_some_and(|value| value.len() > VALUE_LEN_MAX) {
            return Err(RegistryError::Limit { what: "bytes of a value", max: VALUE_LEN_MAX });
        }
        let ended = |lease: LeaseId| Ok(!self.leases.is_alive(lease)?);
        if lease.is_some_and(|lease| lease.0 == 0) || lease.map(ended).transpose()?.unwrap_or(false) {
            return Err(RegistryError::Expired);
        }
        let state = self.state(key)?;
        let found = self.version(state)?;
        if found != expected {
            return Err(RegistryError::Conflict { found });
        }
        let next = State {
            version: state.map_or(0, |state| state.version) + 1,
            id: if value.is_some() { unique()? } else { 0 },
            lease: lease.map_or(0, |lease| lease.0),
        };
        let is_done = match state {
            None => self.create(key, next, value.unwrap_or_default())?,
            Some(state) => self.change(key, state, next, value)?,
        };
        if !is_done {
            return Err(RegistryError::Conflict { found: self.version(self.state(key)?)? });
        }
        // A lease that ended before the value was there has never had it.
        match lease.map(ended).transpose()?.unwrap_or(false) {
            true => Err(RegistryError::Expired),
            false => Ok(Version(next.version)),
        }
    }

    /// Creates and removes what is no key yet. It is not flushed: renewals of leases wait for this call, and
    /// a file system without room says so before.
    fn try_put(&self) -> Result<(), RegistryError> {
        let new = self.root.join("new").join(format!("{}.{:016x}", self.boot, unique()?));
        let tried = create_dir(&new).map_err(|e| failed(&new, &e));
        let tried = tried.and_then(|()| write_new(&new.join("trial"), &[0; VALUE_LEN_MAX], false));
        let _ = fs::remove_dir_all(&new);
        tried.map_err(|error| {
            let root = self.root.display();
            let cause = match error {
                RegistryError::Unreachable { cause } => cause,
                error => error.to_string(),
            };
            let cause = format!("{cause}; make room in the file system of {root} (df {root}), or repair it");
            RegistryError::Unwritable { cause }
        })
    }

    /// A key that never was; false: it is there.
    fn create(&self, key: &Key, next: State, value: &[u8]) -> Result<bool, RegistryError> {
        let keys = self.root.join("keys");
        if names(&keys)?.unwrap_or_default().len() >= KEYS_MAX {
            return Err(RegistryError::Limit { what: "keys", max: KEYS_MAX });
        }
        let new = self.root.join("new").join(format!("{}.{:016x}", self.boot, next.id));
        create_dir(&new).map_err(|e| failed(&new, &e))?;
        write(&new, next, value)?;
        write_new(&new.join(next.file_name()), &[], false)?;
        if next.lease == 0 {
            durable(&new)?;
        }
        let to = self.key_dir(key);
        match fs::rename(&new, &to) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                let _ = fs::remove_dir_all(&new);
                return Ok(false);
            }
            Err(error) => return Err(failed(&to, &error)),
        }
        if next.lease == 0 {
            durable(&keys)?;
        }
        Ok(true)
    }

    /// From one state to the next; false: another change came first.
    fn change(
        &self,
        key: &Key,
        state: State,
        next: State,
        value: Option<&[u8]>,
    ) -> Result<bool, RegistryError> {
        let dir = self.key_dir(key);
        if let Some(value) = value {
            write(&dir, next, value)?;
        }
        if !rename(&dir.join(state.file_name()), &dir.join(next.file_name()))? {
            let _ = fs::remove_file(dir.join(next.value_name()));
            return Ok(false);
        }
        if next.lease == 0 {
            durable(&dir)?;
        }
        // Values of earlier versions, also those that a crash has left. Others may be on their way.
        for name in names(&dir)?.unwrap_or_default() {
            let version = name.strip_prefix('=').and_then(|rest| rest.split('.').next()?.parse::<u64>().ok());
            if version.is_some_and(|version| version < next.version) {
                let _ = fs::remove_file(dir.join(name));
            }
        }
        Ok(true)
    }
}

fn write(dir: &Path, state: State, value: &[u8]) -> Result<(), RegistryError> {
    // What is bound to a lease need not survive the boot.
    write_new(&dir.join(state.value_name()), value, state.lease == 0)
}

/// A directory that only the user of this process can read.
pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(DIR_MODE).create(path)
}

/// Writes a file that is not there; `synced`: it is on the disk then.
pub(super) fn write_new(path: &Path, bytes: &[u8], synced: bool) -> Result<(), RegistryError> {
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    let made = opened.and_then(|mut file| {
        file.write_all(bytes)?;
        if synced { file.sync_all() } else { Ok(()) }
    });
    if made.is_err() {
        // A full file system must not be filled with what was written in vain.
        let _ = fs::remove_file(path);
    }
    made.map_err(|e| failed(path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files::open(dir.path()).expect("a registry");
        (dir, files)
    }

    fn key() -> Key {
        Key::new("a/b").expect("a key")
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_named_as_that() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("written");
        for path in [file.clone(), file.join("below")] {
            let error = Files::open(&path).map(drop).expect_err("no directory").to_string();
            assert!(error.ends_with("a file is in its place: name a directory"), "{error}");
        }
    }

    #[test]
    fn a_damaged_key_hides_no_other_and_one_without_its_value_can_be_deleted() {
        let (dir, files) = opened();
        let keys = ["a/b", "a/c", "a/d"].map(|name| Key::new(name).expect("a key"));
        let put = |key: &Key| files.put(key, None, Some(b"one"), None).expect("put");
        let versions: Vec<Version> = keys.iter().map(put).collect();
        let key_dir = files.key_dir(&keys[1]);
        for name in names(&key_dir).expect("listed").expect("there") {
            if name.starts_with('=') {
                fs::remove_file(key_dir.join(name)).expect("removed");
            }
        }
        // Another program has put something else in the place of a value.
        let long = Key::new("a/f").expect("a key");
        let version = files.put(&long, None, Some(b"one"), None).expect("put");
        for name in names(&files.key_dir(&long)).expect("listed").expect("there") {
            if name.starts_with('=') {
                fs::write(files.key_dir(&long).join(name), vec![b'x'; VALUE_LEN_MAX + 1]).expect("written");
            }
        }
        let found = files.get(&long).expect("read").expect("there");
        let error = crate::record::decode::<toml::Table>("a/f", &found.value).expect_err("no record");
        assert!(error.to_string().ends_with("longer than 65536 bytes"), "{error}");
        files.put(&long, Some(version), None, None).expect("deleted");
        fs::create_dir(dir.path().join("keys").join(Key::new("a/e").expect("a key").file_name()))
            .expect("made");
        let list = files.list("a/").expect("listed");
        let seen: Vec<(&str, &[u8])> = list.iter().map(|(key, e)| (key.as_str(), &e.value[..])).collect();
        assert_eq!(seen, [("a/b", &b"one"[..]), ("a/c", MISSING), ("a/d", b"one"), ("a/e", MISSING)]);
        assert_eq!(files.versions("a/").expect("listed").len(), 3);
        files.put(&keys[1], Some(versions[1]), None, None).expect("deleted");
        assert_eq!(files.get(&keys[1]), Ok(None));
    }

    #[test]
    fn what_is_created_only_its_user_can_read() {
        use std::os::unix::fs::PermissionsExt;
        fn all(path: &Path, into: &mut Vec<(PathBuf, u32)>) {
            into.push((path.into(), fs::metadata(path).expect("there").permissions().mode() & 0o777));
            for entry in fs::read_dir(path).into_iter().flatten() {
                all(&entry.expect("readable").path(), into);
            }
        }
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("deeper/registry");
        let files = Files::open(&root).expect("a registry");
        let lease = files.leases().grant(Duration::from_secs(60)).expect("granted");
        let version = files.put(&key(), None, Some(b"one"), Some(lease)).expect("put");
        files.put(&key(), Some(version), Some(b"two"), None).expect("put");
        let mut found = vec![];
        all(&root, &mut found);
        assert!(found.len() > 8, "{found:?}");
        for (path, mode) in found {
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
    }

    #[test]
    fn what_a_crash_leaves_is_the_old_value_or_the_new_one() {
        let (dir, files) = opened();
        let one = files.put(&key(), None, Some(b"one"), None).expect("put");
        let key_dir = files.key_dir(&key());
        // Killed after the value was written, and before the rename: the old one.
        write(&key_dir, State { version: 2, id: 7, lease: 0 }, b"lost").expect("written");
        let again = Files::open(dir.path()).expect("a registry");
        assert_eq!(again.get(&key()), Ok(Some(Entry { version: one, value: b"one".into() })));
        // Killed after the rename, and before the old value was removed: the new one.
        let two = again.put(&key(), Some(one), Some(b"two"), None).expect("put");
        write(&key_dir, State { version: 1, id: 9, lease: 0 }, b"old").expect("written");
        assert_eq!(again.get(&key()), Ok(Some(Entry { version: two, value: b"two".into() })));
        again.put(&key(), Some(two), Some(b"three"), None).expect("put");
        let names = names(&key_dir).expect("read").expect("there");
        assert_eq!(names.len(), 2, "one state and one value: {names:?}");
    }

    /// A process that was stopped between its look and its rename goes on when others have changed the key
    /// twice: it must not find a name to rename.
    #[test]
    fn a_change_that_was_stopped_in_the_middle_fails_when_it_goes_on() {
        let (_dir, files) = opened();
        let one = files.put(&key(), None, Some(b"one"), None).expect("put");
        let seen = files.state(&key()).expect("read").expect("there");
        let stopped = State { version: seen.version + 1, id: 5, lease: 0 };
        let two = files.put(&key(), Some(one), Some(b"two"), None).expect("put");
        let three = files.put(&key(), Some(two), Some(b"three"), None).expect("put");
        assert_eq!(files.change(&key(), seen, stopped, Some(b"stale")), Ok(false));
        assert_eq!(files.get(&key()), Ok(Some(Entry { version: three, value: b"three".into() })));
        // And one that was to create it.
        let first = State { version: 1, id: 6, lease: 0 };
        assert_eq!(files.create(&key(), first, b"stale"), Ok(false));
        assert_eq!(files.version(files.state(&key()).expect("read")), Ok(Some(three)));
    }

    #[test]
    fn a_directory_that_cannot_be_written_says_so_and_what_to_do() {
        let (dir, files) = opened();
        let new = dir.path().join("new");
        assert_eq!(files.try_put(), Ok(()));
        assert_eq!(names(&new).expect("read").expect("there").len(), 0, "a trial leaves nothing");
        // In place of a full file system: nothing can be created here.
        fs::remove_dir(&new).expect("removed");
        fs::write(&new, "").expect("written");
        let refused = files.try_put().expect_err("refused");
        assert!(
            matches!(&refused, RegistryError::Unwritable { cause }
            if cause.contains(&format!("df {}", dir.path().display()))),
            "{refused}"
        );
    }
}
