//! `masu vdisk resize` and `compact`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Error, Result, anyhow, bail};
use config::format_bytes;
use lab_core::words::{shown, visible};
use vdisk::vhd::Kind;
use vdisk::{Access, FileFormat, Image, VdiskError, attach_parents, open_chain, vhd, vhdx};
use world::{DriveSpec, ImageAccess, World};

use super::arguments::Source;
use super::in_world::in_world;
use super::parents;
use super::progress::Told;

pub(super) fn resize(path: &Path, size: u64, force: bool, source: &Source) -> Result<ExitCode> {
    in_world(async |world| {
        if !force && let Some(child) = parents::child_beside(&world, path).await {
            bail!(
                "{} is the parent of {}, which may not open any more, or with other data, if it changes: resize the \
                 child; or pass --force, if that is not needed any more",
                shown(path),
                shown(&child)
            );
        }
        let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Write };
        let drive = world.open_drive(&spec).await?;
        let image = match source.input_format {
            Some(format) => Image::open_as(&world, drive.clone(), Access::Read, format).await,
            None => Image::open(&world, drive.clone(), Access::Read).await,
        };
        let image = image.map_err(|error| or_raw(error, "resize a raw image with truncate"))?;
        if size < image.len_bytes() {
            bail!(
                "cannot shrink a disk of {}: data at its end would be lost",
                format_bytes(image.len_bytes())
            );
        }
        let mut told = Told::new(format!("{}: resize", shown(path)));
        let hear = &mut |done, all| told.show(done, all);
        let grown = match image.file_format() {
            FileFormat::VhdFixed => vhd::grow(&drive, Some(Kind::Fixed), size, hear).await,
            FileFormat::VhdDynamic => vhd::grow(&drive, Some(Kind::Dynamic), size, hear).await,
            FileFormat::VhdDifferencing => vhd::grow(&drive, Some(Kind::Differencing), size, hear).await,
            FileFormat::Vhdx => vhdx::grow(&drive, size, world.seed(), hear).await,
            FileFormat::Raw => bail!("{}: cannot resize a raw image; resize it with truncate", shown(path)),
        };
        told.end();
        grown?;
        note_missing_parent(&world, &image, path, source).await?;
        println!("{}: {} now", shown(path), format_bytes(size));
        Ok(ExitCode::SUCCESS)
    })
}

/// A child grows without its parent, and does not open without it.
async fn note_missing_parent(world: &World, image: &Image, path: &Path, source: &Source) -> Result<()> {
    if image.parent_link().is_none() {
        return Ok(());
    }
    let place = source.place(path)?;
    let chain = source.chain(&place, Access::Read, false);
    if let Err(error) = attach_parents(world, image, &chain).await {
        eprintln!(
            "note     {}: does not open without its parent: {}",
            shown(path),
            visible(&error.to_string())
        );
    }
    Ok(())
}

/// A file without a known format is no image, or a raw one, which this command cannot change.
fn or_raw(error: VdiskError, raw: &str) -> Error {
    match error {
        VdiskError::Foreign { .. } => anyhow!("neither a VHD nor a VHDX; {raw}"),
        error => error.into(),
    }
}

pub(super) fn compact(path: &Path, source: &Source) -> Result<ExitCode> {
    let place = source.place(path)?;
    in_world(async |world| {
        let image = open_chain(&world, &source.chain(&place, Access::Write, false)).await;
        let image = image.map_err(|error| or_raw(error, "compact a raw image with fallocate --dig-holes"))?;
        let mut told = Told::new(format!("{}: compact", shown(path)));
        let done = image.compact(|done, all| told.show(done, all)).await;
        told.end();
        let done = done?;
        println!(
            "{}: {} were {}; {} blocks of zeros released, {} blocks moved",
            shown(path),
            format_bytes(done.after_bytes),
            format_bytes(done.before_bytes),
            done.zero_blocks,
            done.moved_blocks
        );
        Ok(ExitCode::SUCCESS)
    })
}
