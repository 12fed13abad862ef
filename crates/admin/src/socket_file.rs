//! The file of a unix socket: what is at its path and is no socket that was left behind is never removed.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The file of a unix socket that this process has bound. Dropping it removes the file, if it still is that
/// one.
pub struct SocketFile {
    path: PathBuf,
    /// Its device and inode: somebody may have put another file in its place.
    file: Option<(u64, u64)>,
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes room for a socket: one on which nobody answers is left from a crash, and is removed. Whether
    /// there is room now; none where somebody answers.
    ///
    /// # Errors
    /// What is there is no socket, or it cannot be looked at, or removed.
    pub fn make_room(path: &Path) -> io::Result<bool> {
        let facts = match path.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            facts => facts?,
        };
        // Connecting to a file that is no socket is refused as by a socket on which nobody answers.
        if !facts.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it exists and is not a socket: remove it, or choose another path",
            ));
        }
        match connect(path) {
            Err(Errno::CONNREFUSED) => fs::remove_file(path).map(|()| true),
            Err(Errno::NOENT) => Ok(true),
            // A queue that is full, or a socket of another type: somebody has it.
            Ok(()) | Err(_) => Ok(false),
        }
    }

    /// Keeps the file of a socket that was just bound.
    pub fn of_bound(path: PathBuf) -> SocketFile {
        SocketFile { file: file_at(&path), path }
    }
}

/// Connects, and does not wait for room in the queue.
fn connect(path: &Path) -> Result<(), Errno> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|facts| (facts.dev(), facts.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.file.is_some() && self.file == file_at(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_socket_that_was_left_behind_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "precious").expect("written");
        fs::create_dir(at("directory")).expect("made");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("linked");
        for name in ["file", "directory", "link"] {
            SocketFile::make_room(&at(name)).expect_err("it is no socket");
        }
        assert_eq!(fs::read_to_string(at("file")).expect("it is there"), "precious");
        assert!(at("link").symlink_metadata().is_ok() && at("directory").is_dir());

        let open = UnixListener::bind(at("open")).expect("bound");
        assert!(!SocketFile::make_room(&at("open")).expect("a socket"), "somebody answers");
        assert!(at("open").exists(), "it is left alone");
        drop(open);
        assert!(at("open").exists() && SocketFile::make_room(&at("open")).expect("removed"));
        assert!(!at("open").exists());
        assert!(SocketFile::make_room(&at("open")).expect("nothing is there"));
    }

    #[test]
    fn a_file_in_the_place_of_the_own_socket_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let bind = || {
            let listener = UnixListener::bind(&path).expect("bound");
            (listener, SocketFile::of_bound(path.clone()))
        };
        drop(bind());
        assert!(!path.exists(), "its own is removed");
        let (_first, mine) = bind();
        fs::remove_file(&path).expect("somebody removes it");
        let (_second, _other) = bind();
        drop(mine);
        assert!(path.exists(), "it is another one");
    }
}
