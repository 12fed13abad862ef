//! `masu vdisk resize` and `compact`.

use std::path::Path;
use std::process::ExitCode;

use admin::format_bytes;
use anyhow::{Result, bail};
use vdisk::{Access, Format, Image, open_file, vhd, vhdx};
use world::{DriveSpec, ImageAccess};

use super::in_world;

pub(super) fn resize(path: &Path, size: u64) -> Result<ExitCode> {
    in_world(async |world| {
        let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Write };
        let drive = world.open_drive(&spec).await?;
        let image = Image::open(&world, drive.clone(), Access::Read).await?;
        if size < image.len_bytes() {
            bail!(
                "a disk of {} does not shrink: what the guest has at its end would be lost",
                format_bytes(image.len_bytes())
            );
        }
        match image.format() {
            Format::VhdFixed | Format::VhdDynamic | Format::VhdDifferencing => {
                vhd::grow(&drive, size).await?
            }
            Format::VhdxFixed | Format::VhdxDynamic | Format::VhdxDifferencing => {
                vhdx::grow(&drive, size, world.seed()).await?;
            }
            Format::Raw => bail!("{}: a raw image is resized with truncate", path.display()),
        }
        println!("{}: {} now", path.display(), format_bytes(size));
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn compact(path: &Path) -> Result<ExitCode> {
    in_world(async |world| {
        let image = open_file(&world, path, Access::Write).await?;
        let done = image.compact(|_, _| ()).await?;
        println!(
            "{}: {} were {}; {} blocks of zeros let go, {} blocks moved",
            path.display(),
            format_bytes(done.after_bytes),
            format_bytes(done.before_bytes),
            done.zero_blocks,
            done.moved_blocks
        );
        Ok(ExitCode::SUCCESS)
    })
}
