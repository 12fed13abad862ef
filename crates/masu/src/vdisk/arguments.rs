//! What commands say of an image that is there, and of one that is made.

use std::path::{Path, PathBuf};

use admin::{ImageFormat, parse_bytes};
use anyhow::{Context, Result};
use clap::ValueEnum;
use vdisk::{Access, Chain, FileFormat};

/// The format of a new image.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum FormatName {
    Vhd,
    Vhdx,
    Raw,
}

/// How an image that is there is read.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// What it is: raw, vhd-fixed, vhd-dynamic, vhd-differencing or vhdx. Without it, what it looks like: say it of a file that a guest wrote
    #[arg(long, value_name = "FORMAT")]
    pub(super) input_format: Option<ImageFormat>,
    /// A directory in which its parents may lie, beside its own; may be given more than once
    #[arg(long, value_name = "DIR")]
    parents_in: Vec<PathBuf>,
}

impl Source {
    /// What is opened. `raw` is another way to say of which format it is.
    pub(super) fn chain<'a>(&'a self, place: &'a Place, access: Access, raw: bool) -> Chain<'a> {
        let format = if raw { Some(FileFormat::Raw) } else { self.input_format.map(|format| format.0) };
        Chain { path: &place.path, access, format, parents_in: &place.parents_in }
    }

    /// Where the image and its parents are, as absolute paths: so that it can be told what lies beneath what.
    pub(super) fn place(&self, path: &Path) -> Result<Place> {
        let absolute = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().with_context(|| format!("{}: name a file", path.display()))?;
        let parents_in =
            self.parents_in.iter().map(|directory| absolute(directory)).collect::<Result<_>>()?;
        Ok(Place { path: absolute(folder)?.join(name), parents_in })
    }
}

/// Absolute paths of an image and of where its parents may lie.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) parents_in: Vec<PathBuf>,
}

/// How a new image is made.
#[derive(clap::Args)]
pub(crate) struct Shape {
    /// The format of the new image
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// Take all space at once
    #[arg(long)]
    pub(super) fixed: bool,
    /// The block in which space is taken, as in 2MiB
    #[arg(long, value_parser = parse_bytes)]
    pub(super) block: Option<u64>,
}

impl Shape {
    pub(super) fn format(&self, path: &Path) -> Result<FormatName> {
        let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        match (self.format, ending.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("vhd" | "vpc")) => Ok(FormatName::Vhd),
            (None, Some("vhdx")) => Ok(FormatName::Vhdx),
            (None, Some("raw" | "img")) => Ok(FormatName::Raw),
            _ => anyhow::bail!("{}: its ending says no format: give --format", path.display()),
        }
    }
}
