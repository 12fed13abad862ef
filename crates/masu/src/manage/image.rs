//! `masu image`: virtual disk images as LUs.

use std::process::ExitCode;

use admin::{Change, Image, Status};
use anyhow::Result;
use clap::Subcommand;
use config::FileFormat;

use super::nouns::IMAGE;
use super::request::{Where, change, list, show_one};
use crate::table::ListArgs;

pub(super) const HELP: &str = "\
Example: a new VHDX, seen by the host kvm1 as its next LUN
  masu vdisk create data/disk.vhdx --size 100GiB
  masu image create i0 disk.vhdx
  masu host map kvm1 i0";

#[derive(Subcommand)]
pub(crate) enum ImageCommand {
    /// List the images with their state
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one image with everything of it
    Show {
        /// The image
        name: String,
    },
    /// Serve a VHD, VHDX or raw image, with its parents, as a LU
    #[command(visible_alias = "add")]
    Create {
        /// Its name
        name: String,
        /// The file, relative to the data directory
        file: String,
        /// Serve it read-only
        #[arg(long)]
        read_only: bool,
        /// The controller that serves it
        #[arg(long, default_value_t = 0)]
        controller: usize,
        /// Format: raw, vhd-fixed, vhd-dynamic, vhd-differencing or vhdx; detected and stored if not given.
        /// Specify it for a file that a guest wrote
        #[arg(long)]
        format: Option<FileFormat>,
        /// Additional directory for parents (repeatable)
        #[arg(long = "parents-in", value_name = "DIR")]
        parents_in: Vec<String>,
    },
    /// Stop serving an image; its file stays
    #[command(visible_alias = "remove")]
    Delete {
        /// The image; it must not be mapped to a host
        name: String,
    },
}

fn images(status: Status) -> Vec<Image> {
    status.images
}

pub(super) fn run(what: &ImageCommand, at: &Where) -> Result<ExitCode> {
    match what {
        ImageCommand::List { args } => list(at, &IMAGE, args, images),
        ImageCommand::Show { name } => show_one(at, &IMAGE, name, images, |_, _| ()),
        ImageCommand::Create { name, file, read_only, controller, format, parents_in } => {
            let (name, file, parents_in) = (name.clone(), file.clone(), parents_in.clone());
            let (read_only, controller, format) = (*read_only, *controller, *format);
            change(at, &Change::ImageAdd { name, file, read_only, controller, format, parents_in })
        }
        ImageCommand::Delete { name } => change(at, &Change::ImageRemove { name: name.clone() }),
    }
}
