//! Small files that a user names. A pipe that nobody writes to, or a device without an end, would keep who
//! reads it for ever.

#![expect(clippy::disallowed_types, reason = "files of a user, outside the worlds")]

use std::fs::{File, metadata};
use std::io::{Error, Read, Result};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Refuses what is there and is no regular file.
///
/// # Errors
/// What it is instead, or that nothing is there.
pub fn must_be_file(path: &Path) -> Result<()> {
    let kind = metadata(path)?.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(Error::other(format!("it is {what}: name a file")))
}

/// The bytes of a regular file.
///
/// # Errors
/// It cannot be read, is no regular file, or is longer than this.
pub fn read_small(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    must_be_file(path)?;
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(Error::other(format!("it is longer than {bytes_max} bytes: name another file"))),
        false => Ok(bytes),
    }
}

/// The text of a regular file.
///
/// # Errors
/// As [`read_small`]; it is not UTF-8.
pub fn read_small_text(path: &Path, bytes_max: u64) -> Result<String> {
    String::from_utf8(read_small(path, bytes_max)?).map_err(|_| Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_file_is_named() {
        let dir = std::env::temp_dir().join(format!("masu-files-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a directory");
        let refused = |path: &Path| read_small(path, 4).expect_err("refused").to_string();
        assert_eq!(refused(&dir), "it is a directory: name a file");
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device: name a file");
        let pipe = dir.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        assert_eq!(refused(&pipe), "it is a pipe: name a file");
        let file = dir.join("file");
        std::fs::write(&file, "12345").expect("written");
        assert_eq!(refused(&file), "it is longer than 4 bytes: name another file");
        assert_eq!(read_small_text(&file, 5).expect("read"), "12345");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
