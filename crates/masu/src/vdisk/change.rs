//! `masu vdisk resize` and `compact`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use config::format_bytes;
use vdisk::vhd::Kind;
use vdisk::{Access, FileFormat, Image, open_chain, vhd, vhdx};
use world::{DriveSpec, ImageAccess};

use super::arguments::Source;
use super::in_world::in_world;
use super::parents;

pub(super) fn resize(path: &Path, size: u64, force: bool, source: &Source) -> Result<ExitCode> {
    in_world(async |world| {
        if !force && let Some(child) = parents::child_beside(&world, path).await {
            bail!(
                "{} is the parent of {}, which may not open any more, or with other data, if it changes: resize the \
                 child; or pass --force, if that is not needed any more",
                path.display(),
                child.display()
            );
        }
        let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Write };
        let drive = world.open_drive(&spec).await?;
        let image = match source.input_format {
            Some(format) => Image::open_as(&world, drive.clone(), Access::Read, format).await?,
            None => Image::open(&world, drive.clone(), Access::Read).await?,
        };
        if size < image.len_bytes() {
            bail!(
                "cannot shrink a disk of {}: data at its end would be lost",
                format_bytes(image.len_bytes())
            );
        }
        match image.file_format() {
            FileFormat::VhdFixed => vhd::grow(&drive, Some(Kind::Fixed), size).await?,
            FileFormat::VhdDynamic => vhd::grow(&drive, Some(Kind::Dynamic), size).await?,
            FileFormat::VhdDifferencing => vhd::grow(&drive, Some(Kind::Differencing), size).await?,
            FileFormat::Vhdx => vhdx::grow(&drive, size, world.seed()).await?,
            FileFormat::Raw => bail!("{}: cannot resize a raw image; use truncate", path.display()),
        }
        println!("{}: {} now", path.display(), format_bytes(size));
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn compact(path: &Path, source: &Source) -> Result<ExitCode> {
    let place = source.place(path)?;
    in_world(async |world| {
        let image = open_chain(&world, &source.chain(&place, Access::Write, false)).await?;
        let done = image.compact(|_, _| ()).await?;
        println!(
            "{}: {} were {}; {} blocks of zeros released, {} blocks moved",
            path.display(),
            format_bytes(done.after_bytes),
            format_bytes(done.before_bytes),
            done.zero_blocks,
            done.moved_blocks
        );
        Ok(ExitCode::SUCCESS)
    })
}
