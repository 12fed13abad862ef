//! `[[image]]`: virtual disks in files that hosts see.

use std::path::{Path, PathBuf};

use array::config::{FileFormat, ImageConfig};
use array::{DriveSpec, ImageAccess};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    name: String,
    /// A VHD or VHDX; relative to the data directory.
    file: PathBuf,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    controller: usize,
    /// The service that it is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// What kind of file it is: fixed when the image is declared for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<ImageFormat>,
    /// Directories in which its parents may lie, beside its own; relative to the data directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parents_in: Vec<PathBuf>,
}

/// What kind of file an image is, as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFormat(pub FileFormat);

impl std::str::FromStr for ImageFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<ImageFormat, String> {
        let keys = FileFormat::ALL.map(FileFormat::key).join(", ");
        FileFormat::of_key(text)
            .map(ImageFormat)
            .ok_or_else(|| format!("unknown format {text:?}: one of {keys}"))
    }
}

impl Serialize for ImageFormat {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.key())
    }
}

impl<'de> Deserialize<'de> for ImageFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ImageFormat, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn is_zero(controller: &usize) -> bool {
    *controller == 0
}

impl Image {
    pub(super) fn to_config(&self, data_dir: &Path) -> ImageConfig {
        let Image { name, file, read_only, controller, policy, format, parents_in } = self.clone();
        let spec = image_spec(&data_dir.join(file), read_only);
        let parents_in = parents_in.iter().map(|directory| data_dir.join(directory)).collect();
        ImageConfig { name, spec, read_only, controller, policy, format: format.map(|f| f.0), parents_in }
    }

    pub(super) fn of(config: &ImageConfig) -> Image {
        let file = config.file();
        let ImageConfig { name, read_only, controller, policy, format, parents_in, .. } = config.clone();
        Image { name, file, read_only, controller, policy, format: format.map(ImageFormat), parents_in }
    }
}

/// What is opened for the image at a path.
pub(crate) fn image_spec(path: &Path, read_only: bool) -> DriveSpec {
    let access = if read_only { ImageAccess::Read } else { ImageAccess::Write };
    DriveSpec::Image { path: path.to_owned(), access }
}
