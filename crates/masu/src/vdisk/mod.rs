//! `masu vdisk`: virtual disks in files.

mod attached;
mod change;
mod create;
mod examine;
mod served;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::parse_bytes;
use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use vdisk::vhdx::Guid;
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
    },
    /// Say what an image is
    Info {
        /// The file
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a disk into a new image of another format; zeros take no space in it
    Convert {
        /// VHD, VHDX, QCOW2, VMDK or raw
        from: PathBuf,
        /// The new file
        to: PathBuf,
        #[command(flatten)]
        shape: Shape,
        /// What begins with no known format is raw
        #[arg(long)]
        raw: bool,
    },
    /// Make a disk larger
    Resize {
        /// The file
        path: PathBuf,
        /// The new size
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
    },
    /// Give back the space of blocks that hold only zeros, and make the file as short as it can be
    Compact {
        /// The file
        path: PathBuf,
    },
    /// Hold an image's metadata against itself; nothing is written without --repair
    Check {
        /// The file
        path: PathBuf,
        /// Put right what a second copy or the log can tell
        #[arg(long)]
        repair: bool,
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
        /// What begins with no known format is raw
        #[arg(long)]
        raw: bool,
    },
    /// Make a disk a file of this machine, for mount -o loop, mkfs or QEMU, until it is stopped or unmounted; as root, or with fusermount3
    Attach {
        /// A file, or a LU: iscsi://[USER%PASSWORD@]HOST[:PORT]/TARGET/LUN
        source: String,
        /// A directory, in which the disk is then the file `disk`
        mount_point: PathBuf,
        /// Let nobody write
        #[arg(long)]
        read_only: bool,
        /// What begins with no known format is raw
        #[arg(long)]
        raw: bool,
    },
}

/// The format of a new image.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum FormatName {
    Vhd,
    Vhdx,
    Raw,
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
        Vdisk::Create { path, size, shape, parent } => create::create(path, *size, shape, parent.as_deref()),
        Vdisk::Info { path, json } => examine::info(path, *json),
        Vdisk::Convert { from, to, shape, raw } => create::convert(from, to, shape, *raw),
        Vdisk::Resize { path, size } => change::resize(path, *size),
        Vdisk::Compact { path } => change::compact(path),
        Vdisk::Check { path, repair } => examine::check(path, *repair),
        Vdisk::Serve { path, nbd, unix, read_only, raw } => {
            let place = unix.as_deref().map_or(served::Place::Tcp(*nbd), served::Place::Path);
            served::serve(path, place, *read_only, *raw)
        }
        Vdisk::Attach { source, mount_point, read_only, raw } => {
            attached::attach(source, mount_point, *read_only, *raw)
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
