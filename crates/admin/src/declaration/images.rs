//! `[[image]]`: virtual disks in files that hosts see.

use std::path::{Path, PathBuf};

use array::config::ImageConfig;
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
}

fn is_zero(controller: &usize) -> bool {
    *controller == 0
}

impl Image {
    pub(super) fn to_config(&self, data_dir: &Path) -> ImageConfig {
        let Image { name, file, read_only, controller, policy } = self.clone();
        let spec = image_spec(&data_dir.join(file), read_only);
        ImageConfig { name, spec, read_only, controller, policy }
    }

    pub(super) fn of(config: &ImageConfig) -> Image {
        let file = config.file();
        let ImageConfig { name, read_only, controller, policy, .. } = config.clone();
        Image { name, file, read_only, controller, policy }
    }
}

/// What is opened for the image at a path.
pub(crate) fn image_spec(path: &Path, read_only: bool) -> DriveSpec {
    let access = if read_only { ImageAccess::Read } else { ImageAccess::Write };
    DriveSpec::Image { path: path.to_owned(), access }
}
