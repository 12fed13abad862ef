//! The built-in drives, by name.

use std::path::Path;

use lab_core::text_file::read_at_most;
use lab_core::toml_text::TomlFileError;
use world_model::drives::DriveParameters;

use super::disksim;
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

/// A drive of the catalogue, or the one that a file describes: masu's own, or a parameter file of DiskSim.
pub fn load(name_or_path: &str) -> Result<DriveParameters, DriveFileError> {
    if let Some((name, text)) = CATALOGUE.iter().find(|(name, _)| *name == name_or_path) {
        return parse(text, &format!("{name}.toml"));
    }
    let text = read_at_most(Path::new(name_or_path), FILE_BYTES_MAX).map_err(|e| {
        let names: Vec<&str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        let cause = format!("{e}; the catalogue has {}", names.join(", "));
        DriveFileError::File(TomlFileError::Read { path: name_or_path.into(), cause })
    })?;
    match disksim::is_disksim(&text) {
        true => match disksim::load(Path::new(name_or_path)) {
            Ok(converted) => Ok(converted.parameters),
            Err(e) => Err(DriveFileError::Disksim(e)),
        },
        false => parse(&text, name_or_path),
    }
}
