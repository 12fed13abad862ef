//! `masu image`: virtual disk images as LUs.

use std::process::ExitCode;

use admin::{Change, Image, Status};
use anyhow::Result;
use clap::Subcommand;
use config::{FileFormat, format_bytes};

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
    /// List the images with their counters
    List,
    /// Serve a VHD, VHDX or raw image, with its parents, as a LU
    Add {
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
    Remove {
        /// The image; it must not be mapped to a host
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
    let empty = "no images; add one with masu image add NAME FILE";
    table::print(
        &header,
        &["size", "length", "commands", "reclaimed"],
        s.images.iter().map(row).collect(),
        empty,
    );
}
