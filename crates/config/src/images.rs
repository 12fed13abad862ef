//! `[[image]]`: virtual disks in files that hosts see as they see volumes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use world::{DriveSpec, ImageAccess};

/// A virtual disk in a file (VHD or VHDX, with its parents), which hosts see as they see a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageConfig {
    /// Its name; no volume has it.
    pub name: String,
    /// What it is opened from: an image file, or a drive of the model.
    #[serde(rename = "file", with = "file")]
    pub spec: DriveSpec,
    /// Hosts may read it only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The controller that serves it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub controller: usize,
    /// The service that it is promised among the images of its controller; as of a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What kind of file it is. None: it is found out when the image is declared, or opened for the first
    /// time, and fixed from then on: what a guest writes to its disk never makes another one of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FileFormat>,
    /// Directories in which its parents may lie, beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&str")]
pub enum FileFormat {
    /// Payload only.
    Raw,
    /// VHD, fixed: the footer is behind the disk.
    VhdFixed,
    /// Grows block by block.
    VhdDynamic,
    /// Has what differs from a parent.
    VhdDifferencing,
    /// VHDX: its type is in its metadata, which no guest writes.
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
