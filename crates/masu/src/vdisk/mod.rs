//! `masu vdisk`: virtual disks in files.

mod attached;
mod change;
mod create;
mod examine;
mod served;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::{ImageFormat, parse_bytes};
use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use vdisk::vhdx::Guid;
use vdisk::{Access, Chain, FileFormat};
use world::World;

/// What is done with an image.
#[derive(Subcommand)]
pub(crate) enum Vdisk {
    /// Make a new image
    Create {
        /// The file; its ending says the format where --format does not
        path: PathBuf,
        /// Size of the disk, as in 10GiB; of a child that of its parent where nothing is said
        #[arg(long, value_parser = parse_bytes)]
        size: Option<u64>,
        #[command(flatten)]
        shape: Shape,
        /// Make a differencing image over this one, which must not change any more
        #[arg(long)]
        parent: Option<PathBuf>,
        #[command(flatten)]
        source: Source,
    },
    /// Say what an image is
    Info {
        /// The file
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Copy a disk into a new image of another format; zeros take no space in it
    Convert {
        /// VHD, VHDX, QCOW2, VMDK or raw
        from: PathBuf,
        /// The new file
        to: PathBuf,
        #[command(flatten)]
        shape: Shape,
        /// It is raw, whatever it begins with
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Make a disk larger
    Resize {
        /// The file
        path: PathBuf,
        /// The new size
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
        #[command(flatten)]
        source: Source,
    },
    /// Give back the space of blocks that hold only zeros, and make the file as short as it can be
    Compact {
        /// The file
        path: PathBuf,
        #[command(flatten)]
        source: Source,
    },
    /// Hold an image's metadata against itself; nothing is written without --repair
    Check {
        /// The file
        path: PathBuf,
        /// Put right what a second copy or the log can tell
        #[arg(long)]
        repair: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Serve an image to clients of the NBD protocol until it is stopped; it asks nobody who they are
    Serve {
        /// The file
        path: PathBuf,
        /// Where to listen
        #[arg(long, default_value = "127.0.0.1:10809")]
        nbd: std::net::SocketAddr,
        /// Listen on a socket at this path instead, which only programs of the same user on this machine reach
        #[arg(long, conflicts_with = "nbd")]
        unix: Option<PathBuf>,
        /// Let clients only read
        #[arg(long)]
        read_only: bool,
        /// It is raw, whatever it begins with
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Make a disk a file of this machine, for mount -o loop, mkfs or QEMU, until it is stopped or unmounted; as root, or with fusermount3
    Attach {
        /// An image file, or a LU: `iscsi://[USER%PASSWORD@]HOST[:PORT]/TARGET/LUN`
        source: String,
        /// A directory, in which the disk is then the file `disk`
        mount_point: PathBuf,
        /// Let nobody write
        #[arg(long)]
        read_only: bool,
        /// It is raw, whatever it begins with
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        image: Source,
    },
}

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
    input_format: Option<ImageFormat>,
    /// A directory in which its parents may lie, beside its own; may be given more than once
    #[arg(long, value_name = "DIR")]
    parents_in: Vec<PathBuf>,
}

impl Source {
    /// What is opened. `raw` is another way to say of which format it is.
    fn chain<'a>(&'a self, place: &'a Place, access: Access, raw: bool) -> Chain<'a> {
        let format = if raw { Some(FileFormat::Raw) } else { self.input_format.map(|format| format.0) };
        Chain { path: &place.path, access, format, parents_in: &place.parents_in }
    }

    /// Where the image and its parents are, as absolute paths: so that it can be told what lies beneath what.
    fn place(&self, path: &Path) -> Result<Place> {
        let absolute = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().with_context(|| format!("{}: name a file", path.display()))?;
        let parents_in =
            self.parents_in.iter().map(|directory| absolute(directory)).collect::<Result<_>>()?;
        Ok(Place { path: absolute(folder)?.join(name), parents_in })
    }
}

/// Absolute paths of an image and of where its parents may lie.
struct Place {
    path: PathBuf,
    parents_in: Vec<PathBuf>,
}

/// How a new image is made.
#[derive(clap::Args)]
pub(crate) struct Shape {
    /// The format of the new image
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// Take all space at once
    #[arg(long)]
    fixed: bool,
    /// The block in which space is taken, as in 2MiB
    #[arg(long, value_parser = parse_bytes)]
    block: Option<u64>,
}

impl Shape {
    fn format(&self, path: &Path) -> Result<FormatName> {
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

pub(crate) fn run(command: &Vdisk) -> Result<ExitCode> {
    match command {
        Vdisk::Create { path, size, shape, parent, source } => {
            create::create(path, *size, shape, parent.as_deref(), source)
        }
        Vdisk::Info { path, json, source } => examine::info(path, *json, source),
        Vdisk::Convert { from, to, shape, raw, source } => create::convert(from, to, shape, *raw, source),
        Vdisk::Resize { path, size, source } => change::resize(path, *size, source),
        Vdisk::Compact { path, source } => change::compact(path, source),
        Vdisk::Check { path, repair, source } => examine::check(path, *repair, source),
        Vdisk::Serve { path, nbd, unix, read_only, raw, source } => {
            let place = unix.as_deref().map_or(served::Place::Tcp(*nbd), served::Place::Path);
            served::serve(path, place, *read_only, *raw, source)
        }
        Vdisk::Attach { source, mount_point, read_only, raw, image } => {
            attached::attach(source, mount_point, *read_only, *raw, image)
        }
    }
}

/// Runs `work` in a world of its own, whose random streams nobody can guess.
fn in_world<T, F: Future<Output = Result<T>>>(work: impl FnOnce(World) -> F) -> Result<T> {
    let options =
        world_real::Options { seed: u64::from_le_bytes(random()?), ..world_real::Options::default() };
    world_real::run(options, work).context("no world")?
}

/// Bytes from the system's random generator.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("no random bytes")?;
    Ok(bytes)
}

/// A new identity: a random one, marked as such (RFC 9562, version 4).
fn identity() -> Result<Guid> {
    let mut bytes: [u8; 16] = random()?;
    bytes[7] = bytes[7] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Guid(bytes))
}
