//! `masu vdisk`: virtual disk images.

mod arguments;
mod attached;
mod change;
mod create;
mod examine;
mod in_world;
mod parents;
mod progress;
mod served;
mod shared;
mod unfinished;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::Subcommand;
use config::parse_bytes;
use lab_core::console::causes;
use lab_core::words::{shown, visible};

use arguments::{Shape, Source};
use shared::Sharing;

/// Commands for images.
#[derive(Subcommand)]
pub(crate) enum Vdisk {
    /// Create an image
    Create {
        /// The file; its extension determines the format unless --format is given
        path: PathBuf,
        /// Size of the disk, e.g. 10GiB; a differencing image has that of its parent by default
        #[arg(long, value_parser = parse_bytes)]
        size: Option<u64>,
        #[command(flatten)]
        shape: Shape,
        /// Create a differencing image over this one, which must not change any more
        #[arg(long)]
        parent: Option<PathBuf>,
        #[command(flatten)]
        source: Source,
    },
    /// Show format, size and parents of an image
    Info {
        /// The file
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Convert a disk to a new image of another format; zeros take no space in it
    Convert {
        /// VHD, VHDX, QCOW2, VMDK or raw
        from: PathBuf,
        /// The new file
        to: PathBuf,
        #[command(flatten)]
        shape: Shape,
        /// The source is raw, whatever its content
        #[arg(long)]
        raw: bool,
        /// Copy a damaged image as far as it can be read, with zeros for the rest; its findings are printed.
        /// Without --force it is refused
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Grow a disk
    Resize {
        /// The file
        path: PathBuf,
        /// The new size
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
        /// Also when an image in its directory has it as its parent: that one may not open any more. Children
        /// in other directories are not known
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Compact: release blocks of zeros, and shrink the file
    Compact {
        /// The file
        path: PathBuf,
        #[command(flatten)]
        source: Source,
    },
    /// Check the metadata of an image; writes nothing without --repair
    Check {
        /// The file
        path: PathBuf,
        /// Repair what a second copy or the log can decide
        #[arg(long)]
        repair: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Serve images to NBD clients until stopped; without authentication. With --registry, nodes on one
    /// storage share it
    Serve {
        /// The files, each at an address of its own: ports count up from the first one
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Address
        #[arg(long, default_value = "127.0.0.1:10809")]
        nbd: std::net::SocketAddr,
        /// Listen on a Unix socket at this path instead, accessible to the same user only
        #[arg(long, conflicts_with = "nbd")]
        unix: Option<PathBuf>,
        /// Serve it read-only
        #[arg(long)]
        read_only: bool,
        /// The image is raw, whatever its content
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        sharing: Sharing,
    },
    /// Attach a disk as a local file, for mount -o loop, mkfs or QEMU, until stopped or unmounted; requires
    /// root or fusermount3
    Attach {
        /// An image file, or a LU: `iscsi://[USER%PASSWORD@]HOST[:PORT]/TARGET/LUN`
        source: String,
        /// The mount point: a directory, in which the disk is the file `disk`
        mount_point: PathBuf,
        /// Attach it read-only
        #[arg(long)]
        read_only: bool,
        /// The image is raw, whatever its content
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        image: Source,
    },
}

/// Does it. An error names the file, whoever found it.
pub(crate) fn run(command: &Vdisk) -> Result<ExitCode> {
    let files: &[&Path] = match command {
        Vdisk::Convert { from, to, .. } => &[from, to],
        Vdisk::Create { path, .. }
        | Vdisk::Info { path, .. }
        | Vdisk::Resize { path, .. }
        | Vdisk::Compact { path, .. }
        | Vdisk::Check { path, .. } => &[path],
        // Of several files, the one is named where it is opened.
        Vdisk::Serve { .. } | Vdisk::Attach { .. } => &[],
    };
    done(command).map_err(|error| named(error, files))
}

/// An error with the name of the first of its files, where it does not have the name of any of them already.
fn named(error: Error, files: &[&Path]) -> Error {
    let said = causes(&error);
    let says = |file: &&Path| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_none_or(|name| said.contains(&name) || said.contains(&visible(&name)))
    };
    match files.first() {
        Some(first) if !files.iter().any(says) => error.context(shown(first)),
        _ => error,
    }
}

fn done(command: &Vdisk) -> Result<ExitCode> {
    match command {
        Vdisk::Create { path, size, shape, parent, source } => {
            create::create(path, *size, shape, parent.as_deref(), source)
        }
        Vdisk::Info { path, json, source } => examine::info(path, *json, source),
        Vdisk::Convert { from, to, shape, raw, force, source } => {
            create::convert(&create::Conversion { from, to, raw: *raw, force: *force }, shape, source)
        }
        Vdisk::Resize { path, size, force, source } => change::resize(path, *size, *force, source),
        Vdisk::Compact { path, source } => change::compact(path, source),
        Vdisk::Check { path, repair, source } => examine::check(path, *repair, source),
        Vdisk::Serve { paths, nbd, unix, read_only, raw, source, sharing } => {
            let local = unix.as_deref().map(|path| served::Place::Path(path.into()));
            served::serve(
                paths,
                &local.unwrap_or(served::Place::Tcp(*nbd)),
                *read_only,
                *raw,
                source,
                sharing,
            )
        }
        Vdisk::Attach { source, mount_point, read_only, raw, image } => {
            attached::attach(source, mount_point, *read_only, *raw, image)
        }
    }
}
