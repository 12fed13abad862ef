//! Creating a set in a folder, and checking what lies there: tree by tree, on several threads, each file
//! written or read once.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::content::{Content, Sum, Version};
use super::plan::{Plan, Tree};
use super::store::{SetFile, StoreError, file_error};
use lab_core::interrupt::Stop;
use lab_core::parallel;

/// Of one read or write: beyond 1 MiB a call costs nothing beside its bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// What a creation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Created {
    /// Trees that were made.
    pub trees: u64,
    /// Trees that were complete already.
    pub found: u64,
    /// Files that were made.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the creation was stopped before its end.
    pub stopped: bool,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// As they were created.
    pub intact: u64,
    /// With what a client of a load wrote.
    pub written: u64,
    /// With something else.
    pub damaged: u64,
    /// Not there.
    pub missing: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Trees without checksums: their creation has not ended.
    pub unfinished: u64,
    /// The first few that are damaged or missing.
    pub examples: Vec<String>,
    /// Whether the creation was stopped before its end.
    pub stopped: bool,
}

/// So many paths are named.
const EXAMPLES_MAX: usize = 10;

impl Checked {
    /// Whether every file is there with one of its contents.
    pub fn is_whole(&self) -> bool {
        self.damaged + self.missing + self.unfinished == 0 && !self.stopped
    }
}

/// Does `work` for every tree, on so many threads; the first failure ends all.
fn for_trees(
    (trees, threads): (u32, usize),
    stop: &Stop,
    work: impl Fn(u32, &mut Vec<u8>) -> Result<(), StoreError> + Sync,
) -> Result<(), StoreError> {
    let one = |tree: usize, _: &dyn Fn(())| work(tree as u32, &mut vec![0; BUFFER_BYTES]);
    parallel::run((trees as usize, threads), stop, one, |()| ()).map(drop)
}

/// Makes the folders of a tree.
pub fn make_folders(dir: &Path, tree: &Tree) -> Result<(), StoreError> {
    for folder in 0..tree.folders.len() {
        let path = dir.join(Tree::name(tree.number)).join(tree.folders.path(folder));
        fs::create_dir_all(&path).map_err(|e| file_error(&path, e))?;
    }
    Ok(())
}

/// Writes one file; gives its checksum.
pub fn write_file(path: &Path, mut content: Content, buffer: &mut [u8]) -> std::io::Result<u32> {
    let mut file = File::create(path)?;
    let mut sum = Sum::new();
    loop {
        let len = content.fill(buffer);
        if len == 0 {
            return Ok(sum.crc32c());
        }
        sum.add(&buffer[..len]);
        file.write_all(&buffer[..len])?;
    }
}

fn sum_of(mut content: Content, buffer: &mut [u8]) -> u32 {
    let mut sum = Sum::new();
    loop {
        match content.fill(buffer) {
            0 => return sum.crc32c(),
            len => sum.add(&buffer[..len]),
        }
    }
}

/// Creates the set, or goes on where it was left. `progress` is told how many bytes there are more.
pub fn create(
    dir: &Path,
    plan: &Plan,
    threads: usize,
    stop: &Stop,
    progress: impl Fn(u64) + Sync,
) -> Result<Created, StoreError> {
    let set = SetFile::begin(dir, plan.spec())?;
    let [trees, found, files, bytes] = [0; 4].map(AtomicU64::new);
    for_trees((plan.spec().all_trees(), threads), stop, |number, buffer| {
        if set.is_done(number) {
            found.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let tree = plan.tree(number);
        make_folders(dir, &tree)?;
        let mut sums = Vec::with_capacity(tree.files.len());
        for (file, number_of) in tree.files.iter().zip(0..) {
            if stop.is_asked() {
                return Ok(());
            }
            let path = dir.join(tree.path(number_of));
            let content = Content::of(plan.spec().seed, (number, number_of), file.bytes, Version::Server);
            sums.push(write_file(&path, content, buffer).map_err(|e| file_error(&path, e))?);
            progress(file.bytes);
            bytes.fetch_add(file.bytes, Ordering::Relaxed);
            files.fetch_add(1, Ordering::Relaxed);
        }
        trees.fetch_add(1, Ordering::Relaxed);
        set.done(number, &sums)
    })?;
    let [trees, found, files, bytes] = [trees, found, files, bytes].map(AtomicU64::into_inner);
    Ok(Created { trees, found, files, bytes, stopped: stop.is_asked() })
}

/// What became of a file.
enum Found {
    Intact,
    Written,
    Damaged,
    Missing,
}

/// Reads every file once and compares its checksum with that of its creation; where that differs, with that
/// of what a client writes.
pub fn check(
    dir: &Path,
    plan: &Plan,
    threads: usize,
    stop: &Stop,
    progress: impl Fn(u64) + Sync,
) -> Result<Checked, StoreError> {
    let set = SetFile::open(dir);
    let all = Mutex::new(Checked::default());
    for_trees((plan.spec().all_trees(), threads), stop, |number, buffer| {
        let mut own = Checked::default();
        if set.is_done(number) {
            let tree = plan.tree(number);
            let sums = set.sums(number, tree.files.len())?;
            for ((file, number_of), sum) in tree.files.iter().zip(0..).zip(sums) {
                let path = dir.join(tree.path(number_of));
                let found = look(&path, plan, (number, number_of), (file.bytes, sum), buffer)?;
                progress(file.bytes);
                own.count(&found, file.bytes, &path);
                if stop.is_asked() {
                    break;
                }
            }
        } else {
            own.unfinished = 1;
        }
        all.lock().expect("nothing panics with it").add(own);
        Ok(())
    })?;
    let mut all = all.into_inner().expect("nothing panics with it");
    all.examples.sort();
    all.stopped = stop.is_asked();
    Ok(all)
}

fn look(
    path: &Path,
    plan: &Plan,
    place: (u32, u32),
    (bytes, sum): (u64, u32),
    buffer: &mut [u8],
) -> Result<Found, StoreError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(e) => return Err(file_error(path, e)),
    };
    let (mut seen, mut own) = (0, Sum::new());
    loop {
        let len = file.read(buffer).map_err(|e| file_error(path, e))?;
        if len == 0 {
            break;
        }
        own.add(&buffer[..len]);
        seen += len as u64;
    }
    let own = own.crc32c();
    Ok(match (seen == bytes, own == sum) {
        (true, true) => Found::Intact,
        (true, false)
            if own == sum_of(Content::of(plan.spec().seed, place, bytes, Version::Client), buffer) =>
        {
            Found::Written
        }
        _ => Found::Damaged,
    })
}

impl Checked {
    fn count(&mut self, found: &Found, bytes: u64, path: &Path) {
        match found {
            Found::Intact => self.intact += 1,
            Found::Written => self.written += 1,
            Found::Damaged => self.damaged += 1,
            Found::Missing => self.missing += 1,
        }
        self.bytes += bytes;
        if matches!(found, Found::Damaged | Found::Missing) && self.examples.len() < EXAMPLES_MAX {
            self.examples.push(path.display().to_string());
        }
    }

    fn add(&mut self, other: Checked) {
        self.intact += other.intact;
        self.written += other.written;
        self.damaged += other.damaged;
        self.missing += other.missing;
        self.bytes += other.bytes;
        self.unfinished += other.unfinished;
        let room = EXAMPLES_MAX - self.examples.len();
        self.examples.extend(other.examples.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::SetSpec;
    use super::*;

    /// Three trees of 20 files, and one that nobody touches.
    fn small() -> Plan {
        let spec = SetSpec {
            trees: 3,
            dummy_trees: 1,
            files: 20,
            targets: 5,
            target_bytes: 3_000_001,
            levels: 6,
            folders: 9,
            ..SetSpec::published(3)
        };
        Plan::new(spec).expect("a plan")
    }

    #[test]
    fn a_set_is_created_gone_on_with_and_checked() {
        let dir = tempfile::tempdir().expect("a folder");
        let (plan, stop) = (small(), Stop::default());
        let made = create(dir.path(), &plan, 2, &stop, |_| {}).expect("made");
        assert_eq!((made.trees, made.found, made.files), (4, 0, 80));
        let whole = check(dir.path(), &plan, 2, &stop, |_| {}).expect("checked");
        assert!(whole.is_whole() && whole.intact == 80 && whole.bytes == made.bytes, "{whole:?}");
        // One tree was not complete: only that one is made again.
        std::fs::remove_file(dir.path().join("sums/tree0001.crc32c")).expect("there");
        assert_eq!(check(dir.path(), &plan, 1, &stop, |_| {}).expect("checked").unfinished, 1);
        let again = create(dir.path(), &plan, 1, &stop, |_| {}).expect("made");
        assert_eq!((again.trees, again.found, again.files), (1, 3, 20));
        // Another set is not mixed with it.
        let other = Plan::new(SetSpec { seed: 4, ..plan.spec().clone() }).expect("a plan");
        assert!(matches!(create(dir.path(), &other, 1, &stop, |_| {}), Err(StoreError::Other(_))));
        assert_eq!(super::super::read_set(dir.path()).expect("read"), *plan.spec());
    }

    #[test]
    fn damage_is_told_from_what_a_client_wrote() {
        let dir = tempfile::tempdir().expect("a folder");
        let (plan, stop) = (small(), Stop::default());
        create(dir.path(), &plan, 1, &stop, |_| {}).expect("made");
        let tree = plan.tree(2);
        let path = |file: u32| dir.path().join(tree.path(file));
        let mut bytes = std::fs::read(path(0)).expect("there");
        bytes[40_000] ^= 1;
        std::fs::write(path(0), bytes).expect("written");
        std::fs::remove_file(path(1)).expect("there");
        let client = Content::of(plan.spec().seed, (2, 2), tree.files[2].bytes, Version::Client);
        write_file(&path(2), client, &mut [0; 4096]).expect("written");
        let found = check(dir.path(), &plan, 2, &stop, |_| {}).expect("checked");
        assert_eq!((found.intact, found.written, found.damaged, found.missing), (77, 1, 1, 1));
        assert_eq!(found.examples.len(), 2);
        assert!(!found.is_whole());
        std::fs::write(dir.path().join("sums/tree0000.crc32c"), "zz\n").expect("written");
        assert!(check(dir.path(), &plan, 1, &Stop::default(), |_| {}).is_err());
    }
}
