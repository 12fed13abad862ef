//! Modelled drives against what was measured and published, and files that nobody should have written.

mod files;
mod layout;
mod measured;
mod published;
mod traces;

use world_model::drives::{DriveParameters, HardDiskParameters, Mechanics, Seek};

use super::*;

fn hard_disk(name: &str) -> HardDiskParameters {
    match load(name).expect("a drive of the catalogue") {
        DriveParameters::HardDisk(disk) => disk,
        DriveParameters::Flash(_) => panic!("{name} is no hard disk"),
    }
}
