//! Drives to open, of whatever kind: a declaration can write only some of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use world::{DriveSpec, ImageAccess, RbdImage};

use super::lists::lists;
use crate::config::DriveConfig;

#[derive(Serialize, Deserialize)]
#[serde(remote = "DriveConfig")]
pub(super) struct Drive {
    name: String,
    #[serde(with = "Spec")]
    spec: DriveSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DriveSpec")]
pub(super) enum Spec {
    File {
        path: PathBuf,
        create_len_bytes: Option<u64>,
    },
    Image {
        path: PathBuf,
        #[serde(with = "Access")]
        access: ImageAccess,
    },
    ImageWithin {
        folder: PathBuf,
        path: PathBuf,
    },
    Device {
        path: PathBuf,
    },
    ReadOnly {
        path: PathBuf,
    },
    Rbd(#[serde(with = "Rbd")] RbdImage),
    Memory {
        name: String,
        len_bytes: u64,
    },
    Modelled {
        name: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ImageAccess")]
enum Access {
    Read,
    Write,
    Create,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RbdImage")]
struct Rbd {
    pool: String,
    image: String,
    user: Option<String>,
    conf: Option<PathBuf>,
}

lists! {
    drives: Vec<DriveConfig> as "Drive";
    specs: Vec<DriveSpec> as "Spec";
}

/// Drives by name.
#[derive(Serialize, Deserialize)]
pub(super) struct Drives(#[serde(with = "drives")] pub(super) Vec<DriveConfig>);

/// Drives without names.
#[derive(Serialize, Deserialize)]
pub(super) struct Specs(#[serde(with = "specs")] pub(super) Vec<DriveSpec>);
