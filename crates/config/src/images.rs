//! `[[image]]`: virtual disks in files that hosts see as they see volumes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use world::{DriveSpec, ImageAccess};

use crate::schema;

/// A virtual disk image (VHD or VHDX, with its parents) that masu serves as a LU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageConfig {
    /// Unique among images and volumes.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// The image file, relative to the data directory.
    #[serde(rename = "file", with = "file")]
    #[schemars(with = "PathBuf")]
    pub spec: DriveSpec,
    /// Hosts may only read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub read_only: bool,
    /// The controller that serves it.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if)]
    pub controller: usize,
    /// Its policy, among the images of its controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub policy: Option<String>,
    /// The file's format. If it is missing, masu detects it once, when the image is declared, and keeps it:
    /// data that a guest writes never change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FileFormat>,
    /// Directories that may hold its parents, in addition to its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub parents_in: Vec<PathBuf>,
}

fn is_zero(controller: &usize) -> bool {
    *controller == 0
}

impl ImageConfig {
    /// An image that is read and written by controller 0, of a format that is found out.
    pub fn new(name: String, spec: DriveSpec) -> ImageConfig {
        let (policy, format, parents_in) = Default::default();
        ImageConfig { name, spec, read_only: false, controller: 0, policy, format, parents_in }
    }

    /// The image in this file, for hosts to read only or to write.
    pub fn of_file(name: String, path: PathBuf, read_only: bool) -> ImageConfig {
        let access = if read_only { ImageAccess::Read } else { ImageAccess::Write };
        ImageConfig { read_only, ..ImageConfig::new(name, DriveSpec::Image { path, access }) }
    }

    /// Takes the format of what was declared before, where this is the same image and says none.
    pub fn keep_format(&mut self, before: Option<&ImageConfig>) {
        let known = before.filter(|old| old.file() == self.file());
        self.format = self.format.or(known.and_then(|old| old.format));
    }

    /// The file; of an image of the model, the name of its drive.
    pub fn file(&self) -> PathBuf {
        file::of(&self.spec)
    }

    pub(crate) fn complete(&mut self, data_dir: &Path) {
        let path = data_dir.join(self.file());
        self.spec = ImageConfig::of_file(String::new(), path, self.read_only).spec;
        self.parents_in.iter_mut().for_each(|directory| *directory = data_dir.join(&directory));
    }
}

/// What an image is opened from, written as its file.
mod file {
    use super::*;

    pub(super) fn of(spec: &DriveSpec) -> PathBuf {
        match spec {
            DriveSpec::Image { path, .. }
            | DriveSpec::File { path, .. }
            | DriveSpec::Device { path }
            | DriveSpec::ReadOnly { path } => path.clone(),
            DriveSpec::ImageWithin { folder, path } => folder.join(path),
            DriveSpec::Rbd(image) => PathBuf::from(image.to_string()),
            DriveSpec::Memory { name, .. } | DriveSpec::Modelled { name } => PathBuf::from(name),
        }
    }

    pub(super) fn serialize<S: Serializer>(spec: &DriveSpec, serializer: S) -> Result<S::Ok, S::Error> {
        of(spec).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DriveSpec, D::Error> {
        PathBuf::deserialize(deserializer).map(|path| DriveSpec::Image { path, access: ImageAccess::Read })
    }
}

/// The declared format of a file: once it is declared, no data that a guest writes to its disk changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "&str")]
#[schemars(inline, !try_from, !into, rename_all = "kebab-case")]
pub enum FileFormat {
    /// The disk's content only.
    Raw,
    /// VHD with all space allocated.
    VhdFixed,
    /// VHD that grows block by block.
    VhdDynamic,
    /// VHD with the differences from a parent.
    VhdDifferencing,
    /// VHDX of any type; the type is in its metadata.
    Vhdx,
}

impl FileFormat {
    /// All formats.
    const ALL: [FileFormat; 5] = [
        FileFormat::Raw,
        FileFormat::VhdFixed,
        FileFormat::VhdDynamic,
        FileFormat::VhdDifferencing,
        FileFormat::Vhdx,
    ];
}

impl From<FileFormat> for &'static str {
    fn from(format: FileFormat) -> &'static str {
        match format {
            FileFormat::Raw => "raw",
            FileFormat::VhdFixed => "vhd-fixed",
            FileFormat::VhdDynamic => "vhd-dynamic",
            FileFormat::VhdDifferencing => "vhd-differencing",
            FileFormat::Vhdx => "vhdx",
        }
    }
}

impl TryFrom<String> for FileFormat {
    type Error = String;

    fn try_from(text: String) -> Result<FileFormat, String> {
        text.parse()
    }
}

impl FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<FileFormat, String> {
        let known = FileFormat::ALL.into_iter().find(|format| <&str>::from(*format) == text);
        let keys = FileFormat::ALL.map(<&str>::from).join(", ");
        known.ok_or_else(|| format!("unknown format {text:?}: one of {keys}"))
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str((*self).into())
    }
}
