//! The built-in drives, by name.

use std::io::{self, Read};
use std::path::Path;

use world_model::drives::DriveParameters;

use super::file::{DriveFileError, parse};

/// The longest drive file: 4,096 zones of 50 bytes, and as much again.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Name and file of every built-in drive.
pub const CATALOGUE: [(&str, &str); 9] = [
    ("cheetah-15k5", include_str!("../../../world_model/catalogue/cheetah-15k5.toml")),
    ("cheetah-15k6", include_str!("../../../world_model/catalogue/cheetah-15k6.toml")),
    ("savvio-10k4", include_str!("../../../world_model/catalogue/savvio-10k4.toml")),
    ("savvio-10k1", include_str!("../../../world_model/catalogue/savvio-10k1.toml")),
    ("constellation-2", include_str!("../../../world_model/catalogue/constellation-2.toml")),
    ("cheetah-9lp", include_str!("../../../world_model/catalogue/cheetah-9lp.toml")),
    ("atlas-10k", include_str!("../../../world_model/catalogue/atlas-10k.toml")),
    ("sata-ssd", include_str!("../../../world_model/catalogue/sata-ssd.toml")),
    ("nvme-ssd", include_str!("../../../world_model/catalogue/nvme-ssd.toml")),
];

/// A drive of the catalogue, or the one that a file describes.
pub fn load(name_or_path: &str) -> Result<DriveParameters, DriveFileError> {
    if let Some((name, text)) = CATALOGUE.iter().find(|(name, _)| *name == name_or_path) {
        return parse(text, &format!("{name}.toml"));
    }
    let text = read(Path::new(name_or_path)).map_err(|e| {
        let names: Vec<&str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        DriveFileError::Read {
            path: name_or_path.into(),
            cause: format!("{e}; the catalogue has {}", names.join(", ")),
        }
    })?;
    parse(&text, name_or_path)
}

#[expect(clippy::disallowed_types, reason = "a text file, of which no more is read than it may have")]
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}
