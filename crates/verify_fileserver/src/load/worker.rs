//! One worker: its trees one after the other, each file of a tree found by walking down from the top, and
//! copied.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::outcome::Counted;
use super::share::{Share, ShareError, TRANSFER_BYTES, path_error};
use super::steps::{Step, trees_of, unit};
use lab_core::interrupt::Stop;
use lab_tools::files::{Content, Plan, Tree, Version};

/// What all workers of a client do.
pub(super) struct Orders {
    pub(super) plan: Plan,
    pub(super) seed: u64,
    pub(super) read_share: f64,
    /// The client's own copies; none: what is read is dropped, what is written is made on the way.
    pub(super) local: Option<PathBuf>,
    /// Whether what is read is compared with what was created.
    pub(super) verify: bool,
    /// Of each worker; the rest is left.
    pub(super) files_max: u64,
    pub(super) seconds_max: f64,
}

/// What a worker did.
pub(super) struct Did {
    pub(super) reads: Counted,
    pub(super) writes: Counted,
    pub(super) folders: u64,
    pub(super) mismatches: u64,
    /// Bytes in each second from the start.
    pub(super) seconds: Vec<u64>,
}

impl Did {
    pub(super) fn new() -> Did {
        Did { reads: Counted::new(), writes: Counted::new(), folders: 0, mismatches: 0, seconds: vec![] }
    }

    fn add_bytes(&mut self, second: usize, bytes: u64) {
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += bytes;
    }
}

/// A worker at its share.
pub(super) struct Worker<'a> {
    pub(super) orders: &'a Orders,
    pub(super) share: Box<dyn Share>,
    pub(super) stop: &'a Stop,
    pub(super) did: Did,
}

impl Worker<'_> {
    /// All trees of the worker with this number, of so many.
    pub(super) fn work(&mut self, number: (u32, u32), from: Instant) -> Result<(), ShareError> {
        let orders = self.orders;
        let mut left = orders.files_max;
        for number in trees_of(orders.plan.spec().trees, number) {
            let tree = orders.plan.tree(number);
            for step in unit(&orders.plan, (orders.seed, number), orders.read_share) {
                if left == 0 || self.stop.is_asked() || from.elapsed().as_secs_f64() >= orders.seconds_max {
                    return Ok(());
                }
                left -= 1;
                self.step(&tree, step, from)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, tree: &Tree, step: Step, from: Instant) -> Result<(), ShareError> {
        let began = Instant::now();
        self.walk(tree, step.file)?;
        let bytes = if step.reads { self.read(tree, step.file)? } else { self.write(tree, step.file)? };
        let took_us = began.elapsed().as_micros() as u64;
        let counted = if step.reads { &mut self.did.reads } else { &mut self.did.writes };
        counted.add(bytes, took_us);
        self.did.add_bytes(from.elapsed().as_secs() as usize, bytes);
        Ok(())
    }

    /// Down from the top until the folder holds the target: each folder on the way is listed.
    fn walk(&mut self, tree: &Tree, file: u32) -> Result<(), ShareError> {
        let target = Tree::file_name(file);
        let top = Tree::name(tree.number);
        for folder in tree.folders.way(tree.files[file as usize].folder) {
            let below = tree.folders.path(folder);
            let path = if below.is_empty() { top.clone() } else { format!("{top}/{below}") };
            self.did.folders += 1;
            if self.share.list(&path)?.contains(&target) {
                return Ok(());
            }
        }
        Err(path_error(tree.path(file), "no folder on the way holds it"))
    }

    fn content(&self, tree: &Tree, file: u32, version: Version) -> Content {
        let bytes = tree.files[file as usize].bytes;
        Content::of(self.orders.plan.spec().seed, (tree.number, file), bytes, version)
    }

    fn read(&mut self, tree: &Tree, file: u32) -> Result<u64, ShareError> {
        let path = tree.path(file);
        let mut copy = match &self.orders.local {
            Some(local) => Some(LocalCopy::create(&local.join(&path))?),
            None => None,
        };
        let mut expected = self.orders.verify.then(|| self.content(tree, file, Version::Server));
        let mut is_same = true;
        let mut other = [0; TRANSFER_BYTES];
        let bytes = self.share.read(&path, &mut |part| {
            if let Some(expected) = &mut expected {
                for part in part.chunks(TRANSFER_BYTES) {
                    let len = expected.fill(&mut other[..part.len()]);
                    is_same &= other[..len] == *part;
                }
            }
            copy.as_mut().map_or(Ok(()), |copy| copy.add(part))
        })?;
        is_same &= bytes == tree.files[file as usize].bytes;
        self.did.mismatches += u64::from(!is_same);
        Ok(bytes)
    }

    fn write(&mut self, tree: &Tree, file: u32) -> Result<u64, ShareError> {
        let path = tree.path(file);
        let Some(local) = &self.orders.local else {
            let mut content = self.content(tree, file, Version::Client);
            return self.share.write(&path, &mut |out| Ok(content.fill(out)));
        };
        let mut source = std::fs::File::open(local.join(&path)).map_err(|e| path_error(&path, e))?;
        self.share.write(&path, &mut |out| std::io::Read::read(&mut source, out))
    }
}

/// A file of the client that is written over.
struct LocalCopy(std::fs::File);

impl LocalCopy {
    fn create(path: &Path) -> Result<LocalCopy, ShareError> {
        std::fs::File::create(path).map(LocalCopy).map_err(|e| path_error(path.display(), e))
    }

    fn add(&mut self, part: &[u8]) -> std::io::Result<()> {
        std::io::Write::write_all(&mut self.0, part)
    }
}

/// Makes the client's own copies of what these workers will write, and all their folders. Gives how many
/// bytes that was.
pub(super) fn prepare(orders: &Orders, workers: &[(u32, u32)], stop: &Stop) -> Result<u64, ShareError> {
    let Some(local) = &orders.local else { return Ok(0) };
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    for number in workers.iter().flat_map(|worker| trees_of(orders.plan.spec().trees, *worker)) {
        let tree = orders.plan.tree(number);
        lab_tools::files::make_folders(local, &tree).map_err(|e| ShareError::Address(e.to_string()))?;
        for step in unit(&orders.plan, (orders.seed, number), orders.read_share) {
            if step.reads || stop.is_asked() {
                continue;
            }
            let (path, len) = (local.join(tree.path(step.file)), tree.files[step.file as usize].bytes);
            // What an earlier run left has one of the contents of the file.
            if read_len(&path) != Some(len) {
                let content = Content::of(orders.plan.spec().seed, (number, step.file), len, Version::Client);
                lab_tools::files::write_file(&path, content, &mut buffer)
                    .map_err(|e| path_error(path.display(), e))?;
                bytes += len;
            }
        }
    }
    Ok(bytes)
}

fn read_len(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|data| data.len())
}
