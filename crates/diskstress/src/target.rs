//! Where the files are: in a directory, or consecutive ranges of one drive or image.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::pattern::{Direction, Pattern};

/// Where the load runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A directory with one file per thread.
    Directory(PathBuf),
    /// A drive or an image: the files are consecutive ranges from its beginning.
    Image(PathBuf),
}

/// The range of one thread.
pub(crate) struct Stretch {
    pub(crate) file: File,
    pub(crate) from: u64,
    /// Whether I/O bypasses the page cache.
    pub(crate) direct: bool,
}

impl Target {
    /// The directory, drive or file at a path.
    pub fn at(path: &Path) -> io::Result<Target> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_dir() {
            return Ok(Target::Directory(path.into()));
        }
        match kind.is_file() || kind.is_block_device() {
            true => Ok(Target::Image(path.into())),
            false => Err(io::Error::other("not a directory, drive or regular file")),
        }
    }

    /// The path as given.
    pub fn path(&self) -> &Path {
        match self {
            Target::Directory(path) | Target::Image(path) => path,
        }
    }

    /// The path of a file of a pattern. Patterns of one shape share files: written files are read.
    fn path_of(&self, pattern: &Pattern, number: u32) -> PathBuf {
        match self {
            Target::Directory(dir) => {
                dir.join(format!("diskstress-{}x{}-{number}.tmp", pattern.files, pattern.file_bytes))
            }
            Target::Image(path) => path.clone(),
        }
    }

    /// Opens the range of a thread. A file to be written is created again, so that its blocks are allocated
    /// again.
    pub(crate) fn open(&self, pattern: &Pattern, number: u32, buffered: bool) -> io::Result<Stretch> {
        let path = self.path_of(pattern, number);
        let writes = pattern.direction == Direction::Write;
        let is_file = matches!(self, Target::Directory(_));
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options.read(true).write(writes).create(writes && is_file).truncate(writes && is_file);
            options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(&path)
        };
        let from = if is_file { 0 } else { u64::from(number) * pattern.file_bytes };
        if !buffered {
            match open(OFlags::DIRECT) {
                Ok(file) => return Ok(Stretch { file, from, direct: true }),
                // open(2): the error of a file system without direct I/O.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Stretch { file: open(OFlags::empty())?, from, direct: false })
    }

    /// Whether the files that a reading pattern needs exist with the right length.
    pub(crate) fn has(&self, pattern: &Pattern) -> bool {
        let Target::Directory(_) = self else { return false };
        (0..pattern.files).all(|number| {
            std::fs::metadata(self.path_of(pattern, number)).is_ok_and(|m| m.len() == pattern.file_bytes)
        })
    }

    /// Removes the files of a pattern; ranges of a drive stay unchanged.
    pub(crate) fn remove(&self, pattern: &Pattern) {
        if matches!(self, Target::Directory(_)) {
            for number in 0..pattern.files {
                // A file that does not exist needs no removal.
                let _ = std::fs::remove_file(self.path_of(pattern, number));
            }
        }
    }

    /// Size of a drive or image; unknown for a directory.
    pub(crate) fn len_bytes(&self) -> io::Result<Option<u64>> {
        use std::io::{Seek, SeekFrom};
        match self {
            Target::Directory(_) => Ok(None),
            Target::Image(path) => File::open(path)?.seek(SeekFrom::End(0)).map(Some),
        }
    }
}
