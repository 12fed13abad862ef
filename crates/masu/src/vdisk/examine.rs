//! `masu vdisk info` and `check`.

use std::path::Path;
use std::process::ExitCode;

use admin::format_bytes;
use anyhow::Result;
use serde_json::json;
use vdisk::{Access, AnyDisk, Image, VdiskError};
use world::{DriveSpec, ImageAccess};

use super::in_world;

pub(super) fn info(path: &Path, as_json: bool) -> Result<ExitCode> {
    in_world(async |world| {
        let disk = AnyDisk::open(&world, path, false).await?;
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
                image.block_bytes().map_or("none: all space is taken".to_owned(), format_bytes)
            );
            println!("file    {}", format_bytes(image.file_len_bytes()));
            parent.iter().for_each(|name| println!("parent  {name}"));
            tell(image);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// One line for each finding.
fn tell(image: &Image) {
    let findings = image.findings();
    findings.faults.iter().for_each(|fault| println!("finding  {fault}"));
    findings.notes.iter().for_each(|note| println!("note     {note}"));
}

pub(super) fn check(path: &Path, repair: bool) -> Result<ExitCode> {
    in_world(async |world| {
        let open = async |access, image_access| {
            let spec = DriveSpec::Image { path: path.to_owned(), access: image_access };
            let drive =
                world.open_drive(&spec).await.map_err(|e| VdiskError::Refused { what: e.to_string() })?;
            Image::open(&world, drive, access).await
        };
        let shown = path.display();
        let image = match open(Access::Read, ImageAccess::Read).await {
            Ok(image) => image,
            Err(error @ (VdiskError::Damaged { .. } | VdiskError::Foreign { .. })) => {
                println!("finding  {error}");
                println!("{shown}: cannot be opened, and cannot be repaired");
                return Ok(ExitCode::from(1));
            }
            Err(error) => return Err(error.into()),
        };
        tell(&image);
        let findings = image.findings();
        if !findings.faults.is_empty() {
            println!(
                "{shown}: {} findings: read what can be read from it (convert); it is not written",
                findings.faults.len()
            );
            return Ok(ExitCode::from(1));
        }
        if repair && !findings.notes.is_empty() {
            drop(image);
            open(Access::Write, ImageAccess::Write).await?.repair().await?;
            println!("{shown}: repaired");
            return Ok(ExitCode::SUCCESS);
        }
        println!("{shown}: clean: {}", image.format().name());
        Ok(ExitCode::SUCCESS)
    })
}
