//! What a client sees of a server: folders that are listed, files that are read and written. A folder here (a
//! mounted share is one), or SMB.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::smb::{Smb, SmbAddress};

/// Bytes of one read or write: what the server's protocol had as its largest.
pub(super) const TRANSFER_BYTES: usize = 64 << 10;

/// What a share refuses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShareError {
    #[error("{path}: {cause}")]
    Path {
        path: String,
        /// What was said.
        cause: String,
    },
    /// The share itself.
    #[error("{0}")]
    Address(String),
}

pub(super) fn path_error(path: impl std::fmt::Display, cause: impl std::fmt::Display) -> ShareError {
    ShareError::Path { path: path.to_string(), cause: cause.to_string() }
}

/// Takes what is read, part by part.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> std::io::Result<()>;
/// Gives what is written, part by part; 0 ends it.
pub(super) type Text<'a> = &'a mut dyn FnMut(&mut [u8]) -> std::io::Result<usize>;

/// A server's share, as one worker uses it. Paths are below its top, with `/` between names.
pub(super) trait Share {
    /// The names in a folder.
    fn list(&mut self, path: &str) -> Result<Vec<String>, ShareError>;
    /// Reads a whole file; gives its length.
    fn read(&mut self, path: &str, sink: Sink<'_>) -> Result<u64, ShareError>;
    /// Writes a file anew; gives its length.
    fn write(&mut self, path: &str, text: Text<'_>) -> Result<u64, ShareError>;
}

/// Where a share is.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Folder(PathBuf),
    /// `smb://user:password@host:port/share/folder`.
    Smb(SmbAddress),
}

impl std::str::FromStr for Address {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Address, ShareError> {
        match text.strip_prefix("smb://") {
            Some(rest) => SmbAddress::parse(rest).map(Address::Smb),
            None => Ok(Address::Folder(text.into())),
        }
    }
}

impl Address {
    /// Connects. Each worker has a connection of its own.
    pub(super) fn open(&self) -> Result<Box<dyn Share>, ShareError> {
        Ok(match self {
            Address::Folder(path) => Box::new(Folder { top: path.clone(), buffer: vec![0; TRANSFER_BYTES] }),
            Address::Smb(address) => Box::new(Smb::connect(address)?),
        })
    }
}

/// The longest small file that is read into memory: that of a set's description.
const SMALL_BYTES_MAX: usize = 8 << 20;

/// A small file, whole.
pub(super) fn small_file(share: &mut dyn Share, path: &str) -> Result<Vec<u8>, ShareError> {
    let mut out = Vec::new();
    share.read(path, &mut |bytes| {
        if out.len() + bytes.len() > SMALL_BYTES_MAX {
            return Err(std::io::Error::other(format!("is longer than {SMALL_BYTES_MAX} bytes")));
        }
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(out)
}

/// A folder of this machine.
struct Folder {
    top: PathBuf,
    buffer: Vec<u8>,
}

impl Folder {
    fn full(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.top.clone() } else { self.top.join(path) }
    }
}

/// Reads a file of this machine.
pub(super) fn read_local(path: &Path, buffer: &mut [u8], sink: Sink<'_>) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut total = 0;
    loop {
        let len = file.read(buffer)?;
        if len == 0 {
            return Ok(total);
        }
        sink(&buffer[..len])?;
        total += len as u64;
    }
}

impl Share for Folder {
    fn list(&mut self, path: &str) -> Result<Vec<String>, ShareError> {
        let full = self.full(path);
        let names = || -> std::io::Result<Vec<String>> {
            fs::read_dir(&full)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        names().map_err(|e| path_error(full.display(), e))
    }

    fn read(&mut self, path: &str, sink: Sink<'_>) -> Result<u64, ShareError> {
        let full = self.full(path);
        read_local(&full, &mut self.buffer, sink).map_err(|e| path_error(full.display(), e))
    }

    fn write(&mut self, path: &str, text: Text<'_>) -> Result<u64, ShareError> {
        let full = self.full(path);
        let mut copy = || -> std::io::Result<u64> {
            let mut file = File::create(&full)?;
            let mut total = 0;
            loop {
                let len = text(&mut self.buffer)?;
                if len == 0 {
                    return Ok(total);
                }
                file.write_all(&self.buffer[..len])?;
                total += len as u64;
            }
        };
        copy().map_err(|e| path_error(full.display(), e))
    }
}
