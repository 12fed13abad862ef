//! `masu vdisk`: virtual disks in files.

mod arguments;
mod attached;
mod change;
mod create;
mod examine;
mod in_world;
mod served;

use std::path::PathBuf;
use std::process::ExitCode;

use admin::parse_bytes;
use anyhow::Result;
use clap::Subcommand;

use arguments::{Shape, Source};

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
