//! Drives in the parameter files of DiskSim 4.0, converted to the parameters of the model.
//!
//! A drive is a block `disksim_disk` (electronics, cache, bus) with a block `dm_disk` in it or in another
//! file (layout and mechanics), and a seek curve in a third file. `docs/model.md` lists what is taken over,
//! and what is not.

mod block;
mod convert;
mod error;
mod seek;
mod text;

use std::io;
use std::path::Path;

pub use convert::Converted;
pub use error::DisksimError;

/// The longest parameter file; those of the validation set have 20 KB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Whether a text is a parameter file of DiskSim rather than a drive file.
pub fn is_disksim(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    words.next().is_some_and(|word| matches!(word, "disksim_disk" | "dm_disk" | "source"))
}

/// Reads a parameter file and those that it names, which lie beside it.
pub fn load(path: &Path) -> Result<Converted, DisksimError> {
    let shown = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("."));
    let text = read(path).map_err(|cause| DisksimError::Read { path: shown.clone(), cause })?;
    convert(&text, &shown, &|name| read(&folder.join(name)))
}

/// Converts a text; `other` reads the files that it names. `path` is for messages.
pub fn convert(
    text: &str,
    path: &str,
    other: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Converted, DisksimError> {
    let blocks = text::parse(text, path, other)?;
    convert::drive(&blocks, path, other)
}

fn read(path: &Path) -> io::Result<String> {
    lab_core::text_file::read_at_most(path, FILE_BYTES_MAX)
}
