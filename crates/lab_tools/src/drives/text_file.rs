//! Text files of which no more is read than they may have.

use std::io::{self, Read};
use std::path::Path;

/// The text of a file that is not longer than this.
#[expect(clippy::disallowed_types, reason = "a text file, of which no more is read than it may have")]
pub(super) fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    match text.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!("it is longer than {bytes_max} bytes"))),
        false => Ok(text),
    }
}
