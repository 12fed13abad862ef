//! `masu vdisk info` and `check`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use config::format_bytes;
use lab_core::words::{shown, visible};
use serde_json::json;
use vdisk::{Access, AnyDisk, Chain, Image, VdiskError, open_chain};
use world::{DriveSpec, ImageAccess, World};

use super::arguments::Source;
use super::in_world::in_world;
use super::parents;

pub(super) fn info(path: &Path, as_json: bool, source: &Source) -> Result<ExitCode> {
    let place = source.place(path)?;
    in_world(async |world| {
        let disk = AnyDisk::open(&world, &source.chain(&place, Access::Read, false)).await?;
        let (format, len) = (disk.format_name(), disk.len_bytes());
        let image = match &disk {
            AnyDisk::Image(image) => Some(image),
            AnyDisk::Qcow2(_) | AnyDisk::Vmdk(_) => None,
        };
        let parent = image.and_then(|image| image.parent_link()).map(|link| link.name.clone());
        if as_json {
            let told = json!({
                "format": format,
                "size_bytes": len,
                "sector_bytes": image.map(Image::sector_bytes),
                "block_bytes": image.and_then(Image::block_bytes),
                "file_bytes": image.map(Image::file_len_bytes),
                "parent": parent,
                "findings": image.map(|i| i.findings().faults),
                "notes": image.map(|i| i.findings().notes),
            });
            println!("{}", serde_json::to_string_pretty(&told)?);
            return Ok(ExitCode::SUCCESS);
        }
        println!("format  {format}");
        println!("size    {} ({len} bytes)", format_bytes(len));
        if let Some(image) = image {
            println!("sector  {} bytes", image.sector_bytes());
            println!(
                "block   {}",
                image.block_bytes().map_or("none: fully allocated".to_owned(), format_bytes)
            );
            println!("file    {}", format_bytes(image.file_len_bytes()));
            parent.iter().for_each(|name| println!("parent  {}", visible(name)));
            tell(image);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// One line for each finding.
fn tell(image: &Image) {
    let findings = image.findings();
    findings.faults.iter().for_each(|fault| println!("finding  {}", visible(fault)));
    findings.notes.iter().for_each(|note| println!("note     {}", visible(note)));
}

pub(super) fn check(path: &Path, repair: bool, source: &Source) -> Result<ExitCode> {
    let (place, shown) = (source.place(path)?, shown(path));
    in_world(async |world| {
        let disk = match open_alone(&world, &source.chain(&place, Access::Read, false)).await {
            Ok(disk) => disk,
            Err(error @ (VdiskError::Damaged { .. } | VdiskError::Foreign { .. })) => {
                println!("finding  {}", visible(&error.to_string()));
                println!("{shown}: cannot be opened or repaired");
                return Ok(ExitCode::from(1));
            }
            Err(error) => return Err(error.into()),
        };
        let faults = disk.faults().await?;
        faults.iter().for_each(|fault| println!("finding  {}", visible(fault)));
        let notes = match &disk {
            AnyDisk::Image(image) => image.findings().notes,
            AnyDisk::Qcow2(_) | AnyDisk::Vmdk(_) => Vec::new(),
        };
        notes.iter().for_each(|note| println!("note     {}", visible(note)));
        let lacks = tell_parents(&world, &source.chain(&place, Access::Read, false), &disk).await;
        if !faults.is_empty() {
            println!(
                "{shown}: {} findings; it can only be read: copy what is left with masu vdisk convert --force",
                faults.len()
            );
            return Ok(ExitCode::from(1));
        }
        if repair && !notes.is_empty() {
            drop(disk);
            let writing = source.chain(&place, Access::Write, false);
            if let AnyDisk::Image(image) = open_alone(&world, &writing).await? {
                image.repair().await?;
            }
            println!("{shown}: repaired");
            return Ok(ExitCode::from(u8::from(lacks)));
        }
        if lacks {
            println!("{shown}: its own metadata are clean; without its parent it cannot be read");
            return Ok(ExitCode::from(1));
        }
        println!("{shown}: clean: {}", disk.format_name());
        Ok(ExitCode::SUCCESS)
    })
}

/// One line for each parent that may have changed, and one if a parent is not there or does not fit. Whether
/// that is so.
async fn tell_parents(world: &World, chain: &Chain<'_>, disk: &AnyDisk) -> bool {
    if !matches!(disk, AnyDisk::Image(image) if image.parent_link().is_some()) {
        return false;
    }
    match open_chain(world, chain).await {
        Ok(image) => {
            parents::notes(&image).iter().for_each(|note| println!("note     {}", visible(note)));
            false
        }
        Err(error) => {
            println!(
                "finding  its parents cannot be opened: {}; bring them back, or name their directory with --parents-in",
                visible(&error.to_string())
            );
            true
        }
    }
}

/// An image without its parents, which may be missing: only its own metadata is checked.
async fn open_alone(world: &World, chain: &Chain<'_>) -> Result<AnyDisk, VdiskError> {
    let access = match chain.access {
        Access::Read => ImageAccess::Read,
        Access::Write => ImageAccess::Write,
    };
    let spec = DriveSpec::Image { path: chain.path.to_owned(), access };
    let drive = world.open_drive(&spec).await?;
    let image = match chain.format {
        Some(format) => Image::open_as(world, drive, chain.access, format).await,
        None => Image::open(world, drive, chain.access).await,
    };
    match image {
        // Not VHD or VHDX: what is only read is looked at as what it begins with.
        Err(VdiskError::Foreign { .. }) if chain.format.is_none() => AnyDisk::open(world, chain).await,
        image => Ok(AnyDisk::Image(image?)),
    }
}
