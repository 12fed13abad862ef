//! Common arguments for existing and for new images.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use config::parse_bytes;
use lab_core::words::shown;
use vdisk::{Access, Chain, FileFormat};

/// The format of a new image.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum FormatName {
    Vhd,
    Vhdx,
    Raw,
}

/// How an existing image is opened.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// Format: raw, vhd-fixed, vhd-dynamic, vhd-differencing or vhdx; detected if not given. Specify it for a
    /// file that a guest wrote
    #[arg(long, value_name = "FORMAT")]
    pub(super) input_format: Option<FileFormat>,
    /// Additional directory for parents (repeatable)
    #[arg(long, value_name = "DIR")]
    parents_in: Vec<PathBuf>,
}

impl Source {
    /// The format to open it with. `raw` is another way to specify the format.
    pub(super) fn chain<'a>(&'a self, place: &'a Place, access: Access, raw: bool) -> Chain<'a> {
        let format = if raw { Some(FileFormat::Raw) } else { self.input_format };
        Chain { path: &place.path, access, format, parents_in: &place.parents_in }
    }

    /// The image and the directories of its parents, as absolute paths, to determine what is beneath what.
    pub(super) fn place(&self, path: &Path) -> Result<Place> {
        let absolute = |path: &Path| path.canonicalize().with_context(|| shown(path));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().with_context(|| format!("{}: not the name of a file", shown(path)))?;
        let parents_in =
            self.parents_in.iter().map(|directory| absolute(directory)).collect::<Result<_>>()?;
        Ok(Place { path: absolute(folder)?.join(name), parents_in })
    }
}

/// Absolute paths of an image and of the directories of its parents.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) parents_in: Vec<PathBuf>,
}

/// Arguments of a new image.
#[derive(clap::Args)]
pub(crate) struct Shape {
    /// The format of the new image
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// Fixed: allocate all space at once
    #[arg(long)]
    pub(super) fixed: bool,
    /// Block size, e.g. 2MiB
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
            _ => anyhow::bail!("{}: no known format for this extension; pass --format", shown(path)),
        }
    }
}
