//! Files that a user names, of which no more is read than a text may have: `/dev/zero` has no end, and a pipe
//! may never have one.

#![expect(clippy::disallowed_types, reason = "files of a user, outside the worlds")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The longest text: a scenario with every load written out, or a declaration of a million volumes.
pub const BYTES_MAX: u64 = 64 << 20;

/// The text of a file.
///
/// # Errors
///
/// It cannot be read, is longer than [`BYTES_MAX`], or is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    read_at_most(path, BYTES_MAX)
}

/// The text of a file that is not longer than this.
///
/// # Errors
///
/// As [`read`].
pub fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(bytes_at_most(path, bytes_max)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// The bytes of a file in a character set of its own.
///
/// # Errors
///
/// It cannot be read, or is longer than [`BYTES_MAX`].
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    bytes_at_most(path, BYTES_MAX)
}

fn bytes_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!("it is longer than {bytes_max} bytes"))),
        false => Ok(bytes),
    }
}

/// Opens a file that is read whole: a regular one, so that nothing waits for a pipe, or reads a device
/// without an end.
///
/// # Errors
///
/// It cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file: copy what it gives to one"));
    }
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let zeros = Path::new("/dev/zero");
        let refused = read(zeros).expect_err("endless").to_string();
        assert!(refused.starts_with("it is not a regular file"), "{refused}");
        assert!(read_bytes(zeros).is_err());
        let dir = tempfile::tempdir().expect("a folder");
        let long = dir.path().join("long");
        std::fs::write(&long, [b'a'; 9]).expect("written");
        assert!(read_at_most(&long, 9).is_ok());
        assert_eq!(read_at_most(&long, 8).expect_err("too long").to_string(), "it is longer than 8 bytes");
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a folder");
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            let refused = open_regular(path).expect_err("refused").to_string();
            assert!(refused.contains("not a regular file"), "{refused}");
        }
    }
}
