//! `masu image`: virtual disks in files that hosts see.

use std::process::ExitCode;

use admin::{Change, Image, ImageFormat, Status, format_bytes};
use anyhow::Result;
use clap::Subcommand;

use super::request::{Where, change, show};
use super::{policy, tables};
use crate::table;

pub(super) const HELP: &str = "\
Example: a new VHDX, seen by the host kvm1 as its next LUN
  masu vdisk create data/disk.vhdx --size 100GiB
  masu image add i0 disk.vhdx
  masu host map kvm1 i0";

#[derive(Subcommand)]
pub(crate) enum ImageCommand {
    /// List the images with what was done with them
    List,
    /// Serve the VHD, VHDX or raw disk in a file, with its parents
    Add {
        /// Its name
        name: String,
        /// The file, relative to the data directory
        file: String,
        /// Let hosts only read
        #[arg(long)]
        read_only: bool,
        /// The controller that serves it
        #[arg(long, default_value_t = 0)]
        controller: usize,
        /// raw, vhd-fixed, vhd-dynamic, vhd-differencing or vhdx; without it what the file looks like, which is kept: give it for a file that a guest wrote
        #[arg(long)]
        format: Option<ImageFormat>,
        /// A directory in which its parents may lie, beside its own; may be given more than once
        #[arg(long = "parents-in", value_name = "DIR")]
        parents_in: Vec<String>,
    },
    /// Serve an image no longer; its file stays, whole
    Remove {
        /// The image; no host may see it any more
        name: String,
    },
}

pub(super) fn run(what: &ImageCommand, at: &Where) -> Result<ExitCode> {
    match what {
        ImageCommand::List => show(at, images),
        ImageCommand::Add { name, file, read_only, controller, format, parents_in } => {
            let (name, file, parents_in) = (name.clone(), file.clone(), parents_in.clone());
            let (read_only, controller, format) = (*read_only, *controller, *format);
            change(at, &Change::ImageAdd { name, file, read_only, controller, format, parents_in })
        }
        ImageCommand::Remove { name } => change(at, &Change::ImageRemove { name: name.clone() }),
    }
}

pub(super) fn images(s: &Status) {
    let row = |i: &Image| {
        let state = match (&i.error, &i.trouble, i.read_only) {
            (Some(_), ..) => "not served",
            (None, Some(_), _) => "in trouble",
            (None, None, true) => "read only",
            (None, None, false) => "served",
        };
        let parents = if i.parents.is_empty() { "-".into() } else { i.parents.join(" ") };
        vec![
            i.name.clone(),
            state.into(),
            i.format.clone(),
            format_bytes(i.size_bytes),
            format_bytes(i.file_bytes),
            tables::seen_by(&i.mapped_to),
            policy::of(&i.qos),
            i.counters.commands.to_string(),
            format_bytes(i.counters.reclaimed_bytes),
            i.file.clone(),
            parents,
        ]
    };
    let header = [
        "image",
        "state",
        "format",
        "size",
        "length",
        "host:lun",
        "policy",
        "commands",
        "reclaimed",
        "file",
        "parents",
    ];
    let empty = "no images: masu image add NAME FILE";
    table::print(
        &header,
        &["size", "length", "commands", "reclaimed"],
        s.images.iter().map(row).collect(),
        empty,
    );
}
