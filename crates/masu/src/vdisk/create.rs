//! `masu vdisk create` and `convert`.

#![expect(clippy::disallowed_methods, reason = "an image notes when it was made, by the system's clock")]

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use lab_core::words::{shown, visible};
use vdisk::vhd::{self, NewVhd};
use vdisk::vhdx::{self, Guid, NewVhdx};
use vdisk::{Access, AnyDisk, Chain, FileFormat, Image, VdiskError, attach_parents, open_chain};
use world::{Drive, World};

use super::arguments::{FormatName, Shape, Source};
use super::in_world::{identity, in_world};
use super::parents;
use super::progress::Told;
use super::unfinished::Unfinished;

pub(super) fn create(
    path: &Path,
    size: Option<u64>,
    shape: &Shape,
    parent: Option<&Path>,
    source: &Source,
) -> Result<ExitCode> {
    in_world(async |world| {
        let parent = match parent {
            Some(parent) => {
                let place = source.place(parent)?;
                Some((parent, open_chain(&world, &source.chain(&place, Access::Read, false)).await?))
            }
            None => None,
        };
        let Some(size) = size.or(parent.as_ref().map(|(_, image)| image.len_bytes())) else {
            bail!("missing size; pass --size");
        };
        let parent = parent.as_ref().map(|(path, image)| (*path, image));
        let (file, image) = made(&world, path, size, shape, parent).await?;
        image.drive().flush().await?;
        if let Some((parent, _)) = parent {
            check_chain(&world, &image, file.part(), parent, source)
                .await
                .with_context(|| format!("{}: could not be opened; nothing was created", shown(path)))?;
        }
        file.finish()?;
        println!("{}: a disk of {}", shown(path), config::format_bytes(size));
        Ok(ExitCode::SUCCESS)
    })
}

/// Opens the parents of a new child as whoever uses it will, with its parent's directory declared.
async fn check_chain(
    world: &World,
    child: &Image,
    path: &Path,
    parent: &Path,
    source: &Source,
) -> Result<()> {
    let mut place = source.place(path)?;
    place.parents_in.extend(parent.canonicalize()?.parent().map(Path::to_owned));
    let (path, parents_in) = (&place.path, &place.parents_in);
    let chain = Chain { path, access: Access::Write, format: Some(child.file_format()), parents_in };
    Ok(attach_parents(world, child, &chain).await?)
}

/// The largest file of Linux, in whole sectors.
const FILE_BYTES_MAX: u64 = i64::MAX as u64 / 512 * 512;

/// How a disk is converted.
pub(super) struct Conversion<'a> {
    pub(super) from: &'a Path,
    pub(super) to: &'a Path,
    /// The source is raw, whatever its content.
    pub(super) raw: bool,
    /// Copy what can be read of a damaged image.
    pub(super) force: bool,
}

pub(super) fn convert(what: &Conversion, shape: &Shape, source: &Source) -> Result<ExitCode> {
    let place = source.place(what.from)?;
    in_world(async |world| {
        let disk = AnyDisk::open(&world, &source.chain(&place, Access::Read, what.raw)).await?;
        refuse_findings(what, &findings(&disk).await?)?;
        if let AnyDisk::Image(image) = &disk {
            parents::notes(image).iter().for_each(|note| eprintln!("note     {}", visible(note)));
        }
        let (file, image) = made(&world, what.to, disk.len_bytes(), shape, None).await?;
        let mut told = Told::new(format!("{}: convert", shown(what.from)));
        let goes_on = |done| {
            told.show(done, disk.len_bytes());
            !file.is_stopped()
        };
        let copied = vdisk::copy(&disk, &image, what.force, goes_on).await;
        told.end();
        match copied {
            Ok(0) => {}
            Ok(lost) => eprintln!("{lost} bytes cannot be read; the copy has zeros in their place"),
            // After a signal it is not finished, but removed.
            Err(VdiskError::Stopped) => {}
            Err(error) => return Err(error.into()),
        }
        file.finish()?;
        let (name, bytes) = (image.format().name(), config::format_bytes(image.file_len_bytes()));
        println!("{}: {name}, {bytes} from {}", shown(what.to), disk.format_name());
        Ok(ExitCode::SUCCESS)
    })
}

/// What is wrong with a disk and its parents.
async fn findings(disk: &AnyDisk) -> Result<Vec<String>> {
    let mut findings = disk.faults().await?;
    let mut parent = match disk {
        AnyDisk::Image(image) => image.parent(),
        AnyDisk::Qcow2(_) | AnyDisk::Vmdk(_) => None,
    };
    while let Some(image) = parent {
        let name = &image.drive().info().name;
        findings.extend(image.findings().faults.iter().map(|fault| format!("parent {name}: {fault}")));
        parent = image.parent();
    }
    Ok(findings)
}

fn refuse_findings(what: &Conversion, findings: &[String]) -> Result<()> {
    findings.iter().for_each(|finding| eprintln!("finding  {}", visible(finding)));
    match findings.len() {
        0 => Ok(()),
        _ if what.force => Ok(()),
        n => bail!(
            "{}: {n} findings: some of its data are wrong or lost; pass --force to copy what can be read",
            shown(what.from)
        ),
    }
}

/// Creates an image under a temporary name and opens it for writing; on failure no file is left.
async fn made<'a>(
    world: &World,
    path: &'a Path,
    size: u64,
    shape: &Shape,
    parent: Option<(&Path, &Image)>,
) -> Result<(Unfinished<'a>, Image)> {
    let format = shape.format(path)?;
    let (file, drive) = Unfinished::create(world, path).await?;
    let image = filled(world, drive, (file.part(), format), size, shape, parent).await;
    let image = image.with_context(|| shown(path))?;
    if shape.fixed {
        file.allocate(image.file_len_bytes()).with_context(|| shown(path))?;
    }
    Ok((file, image))
}

async fn filled(
    world: &World,
    drive: Drive,
    (path, format): (&Path, FormatName),
    size: u64,
    shape: &Shape,
    parent: Option<(&Path, &Image)>,
) -> Result<Image> {
    match format {
        FormatName::Raw if parent.is_some() => bail!("a raw image cannot have a parent"),
        FormatName::Raw => {
            drive.set_len(raw_len(size)?).await?;
            return Ok(Image::open_raw(drive, Access::Write)?);
        }
        FormatName::Vhd => vhd::create(&drive, &new_vhd(path, size, shape, parent)?).await?,
        FormatName::Vhdx => vhdx::create(&drive, &new_vhdx(path, size, shape, parent)?).await?,
    }
    let file_format = match (format, shape.fixed, parent) {
        (FormatName::Vhdx, ..) => FileFormat::Vhdx,
        (_, true, _) => FileFormat::VhdFixed,
        (_, false, None) => FileFormat::VhdDynamic,
        (_, false, Some(_)) => FileFormat::VhdDifferencing,
    };
    Ok(Image::open_as(world, drive, Access::Write, file_format).await?)
}

/// The length of a raw image, in whole sectors.
fn raw_len(size: u64) -> Result<u64> {
    match size.checked_next_multiple_of(512) {
        Some(len) if len <= FILE_BYTES_MAX => Ok(len),
        _ => bail!("invalid --size {size}: a raw image has at most {FILE_BYTES_MAX} bytes"),
    }
}

/// The block size for a format, which knows its own limits below 4 GiB.
fn block_bytes(block: u64) -> Result<u32> {
    let invalid = || format!("invalid --block {block}: a VHD has at most 64 MiB, a VHDX at most 256 MiB");
    u32::try_from(block).ok().with_context(invalid)
}

fn new_vhd(path: &Path, size: u64, shape: &Shape, parent: Option<(&Path, &Image)>) -> Result<NewVhd> {
    let kind = match (shape.fixed, parent) {
        (true, Some(_)) => bail!("a fixed image cannot have a parent"),
        (true, None) => vhd::Kind::Fixed,
        (false, Some(_)) => vhd::Kind::Differencing,
        (false, None) => vhd::Kind::Dynamic,
    };
    let mut new = NewVhd::new(kind, size, identity()?.0, parents::time_stamp_s(SystemTime::now()));
    if let Some(block) = shape.block {
        new.block_bytes = block_bytes(block)?;
    }
    if let Some((parent_path, image)) = parent {
        let (relative_path, absolute_path) = paths(path, parent_path)?;
        new.parent = Some(vhd::Parent {
            id: image.id(),
            time_stamp_s: parents::written_s(parent_path).unwrap_or(0),
            relative_path,
            absolute_path,
        });
    }
    Ok(new)
}

fn new_vhdx(path: &Path, size: u64, shape: &Shape, parent: Option<(&Path, &Image)>) -> Result<NewVhdx> {
    let mut new = NewVhdx::new(size, [identity()?, identity()?, identity()?]);
    new.fixed = shape.fixed;
    if let Some(block) = shape.block {
        new.block_bytes = block_bytes(block)?;
    }
    if let Some((parent_path, image)) = parent {
        let (relative_path, absolute_path) = paths(path, parent_path)?;
        new.logical_bytes = image.sector_bytes();
        new.parent = Some(vhdx::Parent { id: Guid(image.id()), relative_path, absolute_path });
    }
    Ok(new)
}

/// The path of a parent relative to its child's directory, and the absolute one.
fn paths(child: &Path, parent: &Path) -> Result<(String, Option<String>)> {
    let absolute = parent.canonicalize().with_context(|| shown(parent))?;
    let folder =
        child.canonicalize().ok().and_then(|child| child.parent().map(Path::to_owned)).unwrap_or_default();
    let shared = folder.components().zip(absolute.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Ok(".."));
    let down = absolute.components().skip(shared).map(|part| stored(part.as_os_str()));
    let relative = up.chain(down).collect::<Result<Vec<_>>>()?.join("/");
    Ok((relative, absolute.to_str().map(str::to_owned)))
}

/// A part of a path as an image stores it: text in which a backslash separates parts.
fn stored(part: &OsStr) -> Result<&str> {
    let text = part.to_str().filter(|text| !text.contains('\\'));
    text.with_context(|| {
        let part = visible(&part.display().to_string());
        format!("invalid parent name {part}: rename it without backslashes, as UTF-8")
    })
}
